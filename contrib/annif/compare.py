"""The same Annif project with omikuji and with labelprism: quality as in `annif eval`, time, memory, size.

    python contrib/annif/compare.py run WORK                                     # the embedded Tate collection
    python contrib/annif/compare.py run WORK --train train.tsv --test test.tsv   # or any corpus with texts
    python contrib/annif/compare.py report WORK

WORK is a folder for corpora, models and results; systems that it has results of are left out. Run it in an environment
with Annif, omikuji, labelprism and our backend: `make annif-compare`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import punkt

from labelprism.data import Dataset, load, load_tate

PROJECT = {"language": "en", "vocab": "subjects", "analyzer": "snowball(english)"}
BONSAI = {"cluster_balanced": "False", "cluster_k": "100", "max_depth": "3"}

# omikuji as in Annif's wiki (Parabel, Bonsai) and tutorial (Bonsai with pairs of words).
SYSTEMS: dict[str, dict[str, str]] = {
    "labelprism": {"backend": "labelprism"},
    "omikuji-bonsai": {"backend": "omikuji", **BONSAI},
    "omikuji-parabel": {"backend": "omikuji"},
    "labelprism-fast": {"backend": "labelprism", "preset": "fast"},
    "labelprism-no-analyzer": {"backend": "labelprism", "analyzer": ""},
    "labelprism-pairs": {"backend": "labelprism", "ngram": "2"},
    "omikuji-bonsai-pairs": {"backend": "omikuji", **BONSAI, "ngram": "2", "min_df": "2"},
}
METRICS = ("F1@5", "NDCG", "Precision@1", "F1 score (subj avg)")
EVAL_LIMIT = 10  # suggestions that `annif eval` looks at
SINGLE_DOCUMENTS = 200


def main() -> None:
    """Do what the command line asks for."""
    arguments = _arguments()
    if arguments.command == "run":
        run(arguments)
    elif arguments.command == "report":
        report(arguments.work)
    else:
        print(json.dumps(measure(arguments.work, arguments.project)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run", help="train and measure")
    runner.add_argument("work", type=Path)
    runner.add_argument("--train", type=Path, help="a corpus that labelprism.data.load reads; the Tate if left out")
    runner.add_argument("--test", type=Path)
    runner.add_argument("--documents", type=int, default=sys.maxsize, help="train on so many, drawn at random")
    runner.add_argument("--test-documents", type=int, default=sys.maxsize, help="measure with so many, drawn at random")
    runner.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    commands.add_parser("report", help="print a table of the results").add_argument("work", type=Path)
    measurer = commands.add_parser("measure", help="print what a trained project is worth; used by run")
    measurer.add_argument("work", type=Path)
    measurer.add_argument("project")
    return parser.parse_args()


# ------------------------------------------------------------------------------------------------------------ corpora


def write_corpora(arguments: argparse.Namespace) -> None:
    """Write vocabulary, corpora and projects in Annif's formats."""
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    if (work / "vocabulary-is-loaded").exists():
        return
    if arguments.train is None:
        train, test = load_tate()
    else:
        train = load(arguments.train)
        test = load(arguments.test, label_names=train.label_names, unknown_labels="ignore")
    names = [" ".join(name.split()) for name in train.label_names]
    uris = [name if "://" in name else f"http://example.org/{number}" for number, name in enumerate(names)]
    lines = [f"<{uri}>\t{name}\n" for uri, name in zip(uris, names, strict=True)]
    (work / "subjects.tsv").write_text("".join(lines), encoding="utf-8")
    _write(work / "train.tsv", train, uris, arguments.documents)
    _write(work / "test.tsv", test, uris, arguments.test_documents)
    punkt.write_untrained(work / "nltk")
    (work / "projects.cfg").write_text("\n".join(_section(name) for name in SYSTEMS))
    annif(work, "load-vocab", "subjects", "--language", "en", work / "subjects.tsv")
    (work / "vocabulary-is-loaded").touch()


def _section(system: str) -> str:
    settings = {"name": system, **PROJECT, **SYSTEMS[system]}
    return "\n".join([f"[{system}]", *(f"{key}={value}" for key, value in settings.items() if value), ""])


def _write(path: Path, data: Dataset, uris: list[str], n_most: int) -> None:
    rows = np.arange(len(data.texts))
    if rows.size > n_most:
        rows = np.sort(np.random.default_rng(0).choice(rows, n_most, replace=False))
    with path.open("w", encoding="utf-8") as file:
        for row in rows.tolist():
            labels = data.Y.indices[data.Y.indptr[row] : data.Y.indptr[row + 1]]
            text = " ".join(data.texts[row].split())
            if text and labels.size:
                file.write(f"{text}\t{' '.join(f'<{uris[label]}>' for label in labels)}\n")


# ---------------------------------------------------------------------------------------------------------- measuring


def run(arguments: argparse.Namespace) -> None:
    """Train and measure all systems that have no results yet."""
    work: Path = arguments.work.resolve()
    arguments.work = work
    write_corpora(arguments)
    done = {result["system"] for result in results(work)}
    for system in arguments.systems:
        if system in done:
            continue
        training = annif(work, "train", system, work / "train.tsv")
        measured = subprocess.run(
            [sys.executable, __file__, "measure", str(work), system],
            env=_environment(work),
            check=True,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        result = {
            "system": system,
            "train": training,
            **json.loads(measured.stdout.splitlines()[-1]),
            "model_bytes": model_bytes(work / "data" / "projects" / system),
        }
        print(json.dumps(result), flush=True)
        with (work / "results.jsonl").open("a") as file:
            file.write(json.dumps(result) + "\n")


def annif(work: Path, *arguments: Any) -> dict[str, float]:
    """Run a command of Annif; return its seconds, by the clock and of all processors, and its largest memory."""
    since = time.perf_counter()
    process = subprocess.Popen(
        [Path(sys.executable).with_name("annif"), *map(str, arguments)], env=_environment(work), cwd=work
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"annif {' '.join(map(str, arguments))} failed with {process.returncode}")
    return {
        "wall_seconds": time.perf_counter() - since,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
    }


def _environment(work: Path) -> dict[str, str]:
    own = {
        "ANNIF_CONFIG": "annif_labelprism.config.Config",
        "ANNIF_DATADIR": str(work / "data"),
        "ANNIF_PROJECTS": str(work / "projects.cfg"),
    }
    if "NLTK_DATA" not in os.environ:
        own["NLTK_DATA"] = str(work / "nltk")
    return {**os.environ, **own}


def measure(work: Path, name: str) -> dict[str, dict[str, float]]:
    """Return what `annif eval` says of a project, and what suggestions cost: in its batches, and one by one."""
    import annif_labelprism  # noqa: F401
    from annif.corpus import DocumentFileTSV
    from annif.eval import EvaluationBatch
    from annif.registry import AnnifRegistry

    project = AnnifRegistry(str(work / "projects.cfg"), str(work / "data"), init_projects=False).get_project(name)
    corpus = DocumentFileTSV(str(work / "test.tsv"), project.subjects)
    evaluation = EvaluationBatch(project.subjects)
    batches = list(corpus.doc_batches)
    project.suggest(batches[0][:1])  # loads the model
    clocks = _Clocks()
    for batch in batches:
        with clocks.running("batches", len(batch)):
            found = project.suggest(batch)
        evaluation.evaluate_many(found.filter(EVAL_LIMIT), [document.subject_set for document in batch])
    for document in [document for batch in batches for document in batch][:SINGLE_DOCUMENTS]:
        with clocks.running("single", 1):
            project.suggest([document])
    return {"metrics": evaluation.results(metrics=METRICS), "suggest": clocks.milliseconds()}


class _Clocks:
    """Seconds by the clock and of the processors, by what was done."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = {}

    @contextmanager
    def running(self, what: str, n_documents: int) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        total = self._seconds.setdefault(what, [0.0, 0.0, 0])
        for place, value in enumerate((time.perf_counter() - wall, time.process_time() - cpu, n_documents)):
            total[place] += value

    def milliseconds(self) -> dict[str, float]:
        """Return the milliseconds of a document."""
        found = {}
        for what, (wall, cpu, n_documents) in self._seconds.items():
            found[f"{what}_wall_ms"] = 1000 * wall / n_documents
            found[f"{what}_cpu_ms"] = 1000 * cpu / n_documents
        return found


def model_bytes(folder: Path) -> int:
    """Return the bytes of a model, without the training data that Annif keeps for `train --cached`."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and "-train" not in path.name)


# ------------------------------------------------------------------------------------------------------------- report


def results(work: Path) -> list[dict[str, Any]]:
    """Return the results so far."""
    path = work / "results.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(work: Path) -> None:
    """Print a table of the results."""
    heads = (*METRICS, "train CPU s", "wall s", "peak MB", "model MB", "suggest CPU ms", "one by one")
    print("| system | " + " | ".join(heads) + " |")
    print("|---|" + "---|" * len(heads))
    for result in results(work):
        cells = [f"{result['metrics'][name]:.4f}" for name in METRICS]
        training, suggesting = result["train"], result["suggest"]
        cells += [f"{training['cpu_seconds']:.0f}", f"{training['wall_seconds']:.0f}"]
        cells += [f"{training['peak_bytes'] / 1e6:.0f}", f"{result['model_bytes'] / 1e6:.0f}"]
        cells += [f"{suggesting['batches_cpu_ms']:.2f}", f"{suggesting['single_cpu_ms']:.2f}"]
        print(f"| {result['system']} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
