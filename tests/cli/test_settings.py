"""Settings: from flags and TOML, complete, and back to TOML."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelprism import PrismClassifier
from labelprism.cli import main, settings
from labelprism.cli.flags import build_parser
from labelprism.cli.settings import Setting, UsageError
from labelprism.features import TextFeatures


def test_every_parameter_of_the_estimator_is_a_flag() -> None:
    known = {setting.name for setting in settings.ESTIMATOR} | set(settings.PARTS)
    assert known == set(inspect.signature(PrismClassifier).parameters)
    known = {setting.name for setting in settings.TEXT_FEATURES}
    assert known == set(inspect.signature(TextFeatures).parameters) - {"n_jobs"}
    parsed = vars(build_parser().parse_args(["train", *all_flags()]))
    assert set(settings.known_keys()) <= set(parsed)


def all_flags() -> list[str]:
    flags: list[str] = []
    for key, setting in settings.known_keys().items():
        flag = "--" + key.rpartition("__")[2].replace("_", "-")
        values = {"whole": "3", "text": "x", "lengths": "1-2", "share": "0.2", "number": "0.5", "columns": "0:3"}
        flags += [flag] if setting.kind == "truth" else [flag, values.get(setting.kind) or setting.choices[0]]
    return flags


def test_choices_are_those_of_the_library() -> None:
    """What a choice names must be something that the estimator takes."""
    for setting in (*settings.ESTIMATOR, *settings.TEXT_FEATURES):
        if setting.kind == "choice":
            kind: Any = PrismClassifier if setting in settings.ESTIMATOR else TextFeatures
            assert get_args(get_type_hints(kind.__init__)[setting.name]) == setting.choices
    for part, kinds in settings.PARTS.items():
        for kind in kinds:
            assert inspect.isclass(settings.part_class(part, kind))


def dumped(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main(["train", "--dump-config", *flags]) == 0
    return capsys.readouterr().out


def test_dump_reads_back_to_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first = dumped(
        capsys, "--filter", "tree", "--set", "filter__max_depth=10", "--head", "logistic", "--characters", "3-5",
        "--words", "none", "--validation", "0.2", "--no-keep-names", "--label-sep", ';"\\',
    )  # fmt: skip
    assert 'kind = "tree"\nmax_depth = 10' in first
    assert 'characters = [3, 5]\nwords = "none"' in first
    path = tmp_path / "settings.toml"
    path.write_text(first)
    assert dumped(capsys, "--config", str(path)) == first
    assert "max_depth = 4" in dumped(capsys, "--config", str(path), "--set", "filter__max_depth=4")
    assert 'preset = "fast"' in dumped(capsys, "--config", str(path), "--preset", "fast")


@given(
    label_sep=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    validation=st.floats(allow_nan=False) | st.text(st.characters(exclude_categories=["Cs"])),
    n_jobs=st.integers(-(2**62), 2**62),
    normalize=st.booleans(),
)
def test_any_value_survives_toml(
    tmp_path_factory: pytest.TempPathFactory, label_sep: str, validation: Any, n_jobs: int, normalize: bool
) -> None:
    path = tmp_path_factory.mktemp("toml") / "settings.toml"
    given_settings = {"n_jobs": n_jobs, "normalize": normalize, "validation": validation, "data__label_sep": label_sep}
    path.write_bytes(settings.to_toml(given_settings).encode())
    assert settings.from_toml(str(path)) == given_settings


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("presett = 1", "unknown key 'presett'; the nearest is 'preset'"),
        ("[features]\nn_bit = 3", "unknown key 'features.n_bit'; the nearest is 'features.n_bits'"),
        ('[filter]\nkind = "tree"\nmax_dept = 3', "unknown key 'filter.max_dept'; the nearest is 'filter.max_depth'"),
        ("[filter]\nmax_depth = 3", "say which filter it is for"),
        ('preset = "best"', "preset must be one of default, accurate, fast, paper, got 'best'"),
        ('n_jobs = "two"', "n_jobs must be"),
        ("n_jobs = true", "n_jobs must be"),
        ("[features]\nwords = [1, 2, 3]", "words must be two whole numbers"),
        ("[[features]]\nn_bits = 3", "features must be"),
        ("preset = ", "not TOML"),
        ("[nothing]\nx = 1", "unknown key 'nothing.x'"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(content)
    with pytest.raises(UsageError) as caught:
        settings.from_toml(str(path))
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["filter__max_depth", "=3", "n_bits=3", "filter__nothing=3", "features__words=x"])
def test_wrong_assignments(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--dump-config", "--filter", "tree", "--set", text]) == 2
    assert capsys.readouterr().err.startswith("labelprism: ")


def test_values_are_read_as_flags_or_as_toml() -> None:
    assert settings.assignment("filter__noise = sqrt") == ("filter__noise", "sqrt")
    assert settings.assignment("head__group_penalty=1e-3") == ("head__group_penalty", 0.001)
    assert settings.assignment("filter__macro=true") == ("filter__macro", True)
    assert settings.assignment("head__n_hashed_features=none") == ("head__n_hashed_features", None)
    assert settings.assignment("features__words=1-3") == ("features__words", (1, 3))
    assert settings.parse_value(Setting("words", "lengths", ""), "2") == (2, 2)
