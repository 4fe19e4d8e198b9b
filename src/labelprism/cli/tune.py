"""`labelprism tune`: a bounded search over the few settings that matter, on held-out rows."""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import re
from collections.abc import Iterator, Mapping
from time import monotonic, perf_counter
from typing import Any, NamedTuple

import numpy as np

from labelprism.cli import inputs, measure, models
from labelprism.cli import settings as all_settings
from labelprism.cli.settings import UsageError
from labelprism.cli.tables import percent, table
from labelprism.cli.train import settings_of, split
from labelprism.data import Dataset
from labelprism.data.files import writing

logger = logging.getLogger("labelprism")

_HELD_OUT = 0.1
_METRIC = re.compile(r"(P|nDCG|recall|PSP)@([1-9][0-9]{0,3})")

TEXT_SPACE: dict[str, tuple[Any, ...]] = {
    "features__words": ((1, 1), (1, 2)),
    "features__characters": (None, (3, 3), (4, 5)),
    "features__n_bits": (18, 20),
    "preset": ("default", "accurate", "fast"),
}
MATRIX_SPACE: dict[str, tuple[Any, ...]] = {
    "preset": ("default", "accurate", "fast", "paper"),
    "normalize": (True, False),
}


class Trial(NamedTuple):
    """What was tried, and how good it was."""

    choice: dict[str, Any]
    scores: dict[str, float]
    seconds: float


def run(arguments: argparse.Namespace) -> None:
    """Try settings, print them from best to worst, and write the best."""
    metric = _METRIC.fullmatch(arguments.metric)
    if metric is None:
        raise UsageError(f"--metric {arguments.metric}: P@k, nDCG@k, recall@k or PSP@k is expected")
    base = settings_of(arguments)
    options = inputs.reading_options(base)
    dataset = _some_rows(inputs.read_dataset(arguments.data, options), arguments.rows, base.get("random_state", 0))
    seen, held_out = split(dataset, base.get("validation", _HELD_OUT), options, base.get("random_state", 0))
    assert held_out is not None
    space = _space(arguments.vary, base, dataset.X is None)
    deadline = None if arguments.minutes is None else monotonic() + 60 * arguments.minutes
    trials: list[Trial] = []
    for choice in itertools.islice(choices(space, base.get("random_state", 0)), arguments.trials):
        if trials and deadline is not None and monotonic() > deadline:
            logger.info("the time is over after %d trials", len(trials))
            break
        trials.append(_tried(base, choice, seen, held_out, int(metric[2]), arguments.data))
        said = ", ".join(f"{key.replace('__', '.')} {value}" for key, value in choice.items()) or "as given"
        logger.info(
            "%s: %s %s, %.1f s", said, arguments.metric, percent(trials[-1].scores[metric[0]]), trials[-1].seconds
        )
    ranked = sorted(trials, key=lambda trial: -np.nan_to_num(trial.scores[metric[0]], nan=-1.0))
    if arguments.out_config is not None:
        best = all_settings.effective({**base, **ranked[0].choice}, dataset.X is None)
        best.pop("validation", None)
        with writing(arguments.out_config) as stream:
            stream.write(all_settings.to_toml(best).encode())
    print(_as_json(ranked, metric[0]) if arguments.json else _as_table(ranked, metric[0], arguments.out_config))


def _some_rows(dataset: Dataset, n_rows: int | None, seed: int | None) -> Dataset:
    if n_rows is None or n_rows >= dataset.n_rows:
        return dataset
    return dataset.take(np.sort(np.random.default_rng(seed).permutation(dataset.n_rows)[:n_rows]))


def _space(vary: list[str], base: Mapping[str, Any], is_text: bool) -> dict[str, tuple[Any, ...]]:
    """Return the values to try of each setting; what a flag says is not varied unless `--vary` asks for it."""
    if not vary:
        usual = TEXT_SPACE if is_text else MATRIX_SPACE
        return {key: values for key, values in usual.items() if key not in base}
    space: dict[str, tuple[Any, ...]] = {}
    for text in vary:
        key, equals, values = text.partition("=")
        if not equals or not values:
            raise UsageError(f"--vary {text}: expected KEY=A,B,C, as in features__n_bits=16,18,20")
        found = [all_settings.setting_value(key, value) for value in _separated(values)]
        for value in found:
            all_settings.checked({key: value}, f"--vary {text}", context=base)
        space[key] = tuple(found)
    return space


def _separated(values: str) -> list[str]:
    """Return what commas separate, but for those inside brackets."""
    return [value.strip() for value in re.split(r",(?![^\[]*\])", values)]


def choices(space: Mapping[str, tuple[Any, ...]], seed: int | None) -> Iterator[dict[str, Any]]:
    """Yield what to try: first nothing, which is the settings as they are, then each combination once, shuffled.

    Parameters
    ----------
    space : dict of str to tuple
        The values of each setting.
    seed : int or None
    """
    yield {}
    combinations = list(itertools.product(*space.values())) if space else []
    for number in np.random.default_rng(seed).permutation(len(combinations)).tolist():
        yield dict(zip(space, combinations[number], strict=True))


def _tried(
    base: Mapping[str, Any], choice: Mapping[str, Any], seen: Dataset, held_out: Dataset, k: int, path: str
) -> Trial:
    start = perf_counter()
    model = models.build(all_settings.effective({**base, **choice}, seen.X is None))
    models.fit(model, seen)
    seconds = perf_counter() - start
    truth = inputs.true_labels(held_out, models.label_names(model), path)
    rows = inputs.rows_of(held_out, models.takes_texts(model), int(model.n_features_in_), path)
    ks = measure.ranks(k)
    predicted = measure.predicted_labels(model, rows, max(ks))
    counts = models.Counts(np.bincount(seen.Y.indices, minlength=seen.n_labels), seen.n_rows)
    return Trial(dict(choice), measure.scores(truth, predicted, counts, ks), seconds)


def _as_json(ranked: list[Trial], metric: str) -> str:
    trials = [
        {"settings": trial.choice, "metrics": measure.as_json(trial.scores), "seconds": trial.seconds}
        for trial in ranked
    ]
    return json.dumps({"metric": metric, "trials": trials}, ensure_ascii=False)


def _as_table(ranked: list[Trial], metric: str, out_config: str | None) -> str:
    keys = list(dict.fromkeys(key for trial in ranked for key in trial.choice))
    shown = list(dict.fromkeys([metric, "P@1", "P@5", "nDCG@5", "PSP@5"]))
    rows = [[*(key.rpartition("__")[2] for key in keys), *shown, "seconds"]]
    for trial in ranked:
        values = [_said(trial.choice[key]) if key in trial.choice else "-" for key in keys]
        rows.append([*values, *(percent(trial.scores.get(name)) for name in shown), f"{trial.seconds:.1f}"])
    end = "- stands for what was given, or the default"
    if out_config is not None:
        end += f"\nthe best is in {out_config}: labelprism train DATA --out MODEL --config {out_config}"
    return f"{table(rows, len(keys))}\n\n{end}"


def _said(value: Any) -> str:
    return "none" if value is None else "-".join(map(str, value)) if isinstance(value, tuple) else str(value)
