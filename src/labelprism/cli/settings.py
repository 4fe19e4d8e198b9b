"""What a model is trained with: one table of all settings, from flags, a TOML file and the defaults of the library.

Settings are one flat dict: `{"preset": "fast", "filter": "tree", "filter__max_depth": 10}`. In TOML the parts are
tables: `[filter]` with `kind = "tree"` and `max_depth = 10`. A setting that is not there has the library's default.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class UsageError(Exception):
    """What was asked for makes no sense; the message names the flag, or the key of the file."""


class Setting(NamedTuple):
    """A parameter of the estimator, or of what reads the data, as a flag."""

    name: str
    kind: str
    """"choice", "whole", "number", "truth", "text", "lengths", "columns" or "share"."""
    help: str
    choices: tuple[str, ...] = ()


ESTIMATOR = (
    Setting("preset", "choice", "which recipe to train", ("default", "accurate", "fast", "paper")),
    Setting("objective", "choice", "rank for precision, or in favour of rare labels", ("precision", "propensity")),
    Setting("normalize", "truth", "make rows unit first"),
    Setting("filter_features", "columns", "the features that F sees, as 0:300; for a filter and a head of your own"),
    Setting("head_features", "columns", "the features that H sees, as 300: for the rest"),
    Setting("threshold", "number", "the probability from which labels are predicted, for programs that ask for that"),
    Setting("n_jobs", "whole", "threads; -1 for all cores (the default here)"),
    Setting("random_state", "whole", "seed; 0 when left out, so that the same data give the same model"),
    Setting("verbose", "whole", "how much training tells"),
)
"""The parameters of `PrismClassifier` that are plain values; a test compares with its signature."""

PARTS: dict[str, dict[str, str]] = {
    "filter": {
        "tree": "labelprism.filters:SpectralTree",
        "forest": "labelprism.filters:SpectralForest",
        "most-frequent": "labelprism.filters:MostFrequent",
        "all": "labelprism.filters:AllLabels",
    },
    "head": {
        "logistic": "labelprism.heads:LogisticHead",
        "low-rank": "labelprism.heads:LowRankHead",
        "constant": "labelprism.heads:ConstantHead",
    },
    "features": {"text": "labelprism.features:TextFeatures"},
}
"""The parameters of `PrismClassifier` that are objects, by the names that the program has for them.

Only those that a model directory can hold.
"""

PART_HELP = {
    "filter": "F, in place of the preset's",
    "head": "H, in place of the preset's",
    "features": "what is made of the input first; text where the input is text",
}

TEXT_FEATURES = (
    Setting("n_bits", "whole", "hash words to 2**N features"),
    Setting("words", "lengths", "the fewest and the most words in a feature, as 1-2; none for no words"),
    Setting("characters", "lengths", "the same of pieces of words in characters, as 3-5; none for none"),
    Setting("weighting", "choice", "how features are weighted", ("tfidf", "hellinger", "none")),
    Setting("keep_names", "truth", "keep the words of the features, for explanations (on when left out)"),
)
"""The parameters of `TextFeatures`, without `n_jobs`, which is that of the estimator."""

DATA = (
    Setting("label_sep", "text", "what separates the labels of a row of TSV; <> is Annif's layout"),
    Setting("label_kind", "choice", "whether the labels of TSV are names, or numbers of columns", ("name", "id")),
    Setting("text_key", "text", "the key of the text in JSON lines"),
    Setting("labels_key", "text", "the key of the labels in JSON lines"),
    Setting("zero_based", "truth", "whether features of sparse text without a header count from 0"),
)
"""How files are read: options of the readers in `labelprism.data`."""

TRAINING = (
    Setting("validation", "share", "rows to hold out and measure on: a share, as 0.1, or a file"),
    Setting("k", "whole", "measure the k best labels too, beside 1, 3 and 5"),
)

_OWN_DEFAULTS = {"n_jobs": -1, "random_state": 0}
_OWN_TEXT_DEFAULTS = {"keep_names": True}
_WITHOUT_FLAGS = ("n_jobs", "random_state", "verbose")  # of the parts: the estimator passes its own on


# ------------------------------------------------------------------------------------------------------ single values


def parse_value(setting: Setting, text: str) -> Any:
    """Return what a flag says; `ValueError` where that is not what its setting takes."""
    if setting.kind == "whole":
        return int(text)
    if setting.kind == "lengths":
        return None if text == "none" else _lengths(text)
    if setting.kind == "number":
        return float(text)
    if setting.kind == "columns":
        as_slice(text)
    if setting.kind == "share":
        try:
            return float(text)
        except ValueError:
            return text
    return text


def _lengths(text: str) -> tuple[int, int]:
    shortest, _, longest = text.partition("-")
    return int(shortest), int(longest or shortest)


def as_slice(text: str) -> slice:
    """Return the columns that a text such as "0:300" names; `ValueError` where it names none."""
    first, colon, end = text.partition(":")
    if not colon:
        raise ValueError(f"columns are expected as 0:300, got {text!r}")
    return slice(int(first) if first else None, int(end) if end else None)


def _checked_value(setting: Setting, value: Any, place: str) -> Any:
    """Return the value of a key in a file, made sure that it is of the kind that the setting has."""
    if setting.kind == "lengths":
        if value == "none":
            return None
        if isinstance(value, (list, tuple)) and len(value) == 2 and all(type(length) is int for length in value):
            return tuple(value)
        raise UsageError(f'{place}: {setting.name} must be two whole numbers, as [1, 2], or "none", got {value!r}')
    kinds: dict[str, tuple[type, ...]] = {
        "whole": (int,), "truth": (bool,), "share": (int, float, str), "number": (int, float),
        **dict.fromkeys(("text", "choice", "columns"), (str,)),
    }  # fmt: skip
    if setting.kind == "columns" and isinstance(value, str):
        try:
            as_slice(value)
        except ValueError as error:
            raise UsageError(f"{place}: {setting.name}: {error}") from error
    if type(value) not in kinds[setting.kind] or (setting.choices and value not in setting.choices):
        what = f"one of {', '.join(setting.choices)}" if setting.choices else f"of another kind ({setting.help})"
        raise UsageError(f"{place}: {setting.name} must be {what}, got {value!r}")
    return value


def assignment(text: str) -> tuple[str, Any]:
    """Return what `--set part__name=value` says; the value is read as TOML, or else as a plain word."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set {text}: expected PART__NAME=VALUE, as in filter__max_depth=10")
    return key.strip(), setting_value(key.strip(), value.strip())


def setting_value(key: str, text: str) -> Any:
    """Return what a text says for a key: as its flag takes it, or else as `--set` does."""
    setting = known_keys().get(key)
    if setting is not None and setting.kind == "lengths":
        try:
            return parse_value(setting, text)
        except ValueError as error:
            raise UsageError(f"{key}={text}: a pair of lengths is expected, as 1-2, or none") from error
    return plain_value(text)


def plain_value(text: str) -> Any:
    """Return a value as TOML has it; what is no TOML is a word, and none is None."""
    if text == "none":
        return None
    tomllib = _tomllib()
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return tuple(value) if isinstance(value, list) else value


# --------------------------------------------------------------------------------------------------------- all of them


def known_keys() -> dict[str, Setting]:
    """Return every setting that is not a parameter of some part, by its key."""
    keys = {setting.name: setting for setting in (*ESTIMATOR, *TRAINING)}
    keys |= {name: Setting(name, "choice", PART_HELP[name], (*kinds, "none")) for name, kinds in PARTS.items()}
    keys |= {f"features__{setting.name}": setting for setting in TEXT_FEATURES}
    return keys | {f"data__{setting.name}": setting for setting in DATA}


def from_toml(path: str) -> dict[str, Any]:
    """Return the settings in a TOML file, checked."""
    tomllib = _tomllib()
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path}: not TOML: {error}") from error
    flat: dict[str, Any] = {}
    for key, value in tables.items():
        if isinstance(value, dict):
            flat |= {key if name == "kind" else f"{key}__{name}": inner for name, inner in value.items()}
        else:
            flat[key] = value
    return checked(flat, f"--config {path}")


def checked(flat: Mapping[str, Any], place: str, context: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return settings whose keys all exist and whose values are of the right kinds.

    Parameters
    ----------
    flat : dict
    place : str
        Where they come from, for the message.
    context : dict, optional
        Further settings, which may say what parts there are.
    """
    known = known_keys()
    result: dict[str, Any] = {}
    for key, value in flat.items():
        part, _, name = key.partition("__")
        if key in known:
            result[key] = _checked_value(known[key], value, place) if value is not None else None
        elif name and part in PARTS:
            result[key] = tuple(value) if isinstance(value, list) else value
        else:
            raise UsageError(f"{place}: {_unknown(key, known)}")
    _check_parts(result, {**(context or {}), **result}, place)
    return result


def _check_parts(flat: Mapping[str, Any], context: Mapping[str, Any], place: str) -> None:
    """Make sure that parameters of parts exist, which only the part itself can tell."""
    for key in flat:
        part, _, name = key.partition("__")
        if not name or part == "data":
            continue
        kind = context.get(part, "text" if part == "features" else None)
        if kind in (None, "none"):
            raise UsageError(f"{place}: {key} needs the part itself; say which {part} it is for")
        parameters = [n for n in inspect.signature(part_class(part, kind)).parameters if n not in _WITHOUT_FLAGS]
        if name not in parameters:
            raise UsageError(f"{place}: {_unknown(key, [f'{part}__{parameter}' for parameter in parameters])}")


def _unknown(key: str, known: Iterable[str]) -> str:
    names = [name.replace("__", ".") for name in known]
    near = difflib.get_close_matches(key.replace("__", "."), names, n=1, cutoff=0.0)
    return f"unknown key {key.replace('__', '.')!r}; the nearest is {near[0]!r}" if near else f"unknown key {key!r}"


def part_class(part: str, kind: str) -> Any:
    """Return the class behind the name of a part."""
    module, _, name = PARTS[part][kind].partition(":")
    return getattr(importlib.import_module(module), name)


def effective(settings: Mapping[str, Any], is_text: bool) -> dict[str, Any]:
    """Return all settings, those left out at their defaults; only what TOML has no word for, None, is not there.

    Parameters
    ----------
    settings : dict
    is_text : bool
        Whether the input is text, which needs features.
    """
    from labelprism import PrismClassifier

    result = {**_defaults(PrismClassifier), **_OWN_DEFAULTS}
    result = {name: value for name, value in result.items() if name in {setting.name for setting in ESTIMATOR}}
    result |= settings
    if is_text:
        result.setdefault("features", "text")
    for part in PARTS:
        kind = result.get(part)
        if kind not in (None, "none"):
            own = _OWN_TEXT_DEFAULTS if kind == "text" else {}
            for name, value in {**_defaults(part_class(part, kind)), **own}.items():
                if name not in _WITHOUT_FLAGS:
                    result.setdefault(f"{part}__{name}", value)
    return result


def _defaults(kind: Any) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(kind).parameters.items()}


def parameters_of(settings: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Return the settings of one part by their own names."""
    return {key.partition("__")[2]: value for key, value in settings.items() if key.startswith(f"{part}__")}


# -------------------------------------------------------------------------------------------------------------- TOML


def to_toml(settings: Mapping[str, Any]) -> str:
    """Return settings as TOML that `from_toml` reads back."""
    tables: dict[str, dict[str, Any]] = {"": {}}
    for key, value in settings.items():
        part, _, name = key.partition("__")
        if key in PARTS:
            part, name = key, "kind"
        elif not name:
            part, name = "", key
        if value is None and known_keys().get(key, Setting("", "", "")).kind != "lengths":
            continue
        tables.setdefault(part, {})[name] = "none" if value is None else value
    lines = [f"{name} = {_toml_value(value)}" for name, value in tables.pop("").items()]
    for part, values in tables.items():
        ordered = sorted(values.items(), key=lambda item: item[0] != "kind")
        lines += ["", f"[{part}]", *(f"{name} = {_toml_value(value)}" for name, value in ordered)]
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _tomllib() -> Any:
    return importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
