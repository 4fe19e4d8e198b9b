"""Models of every format that was ever written still load, and predict what they did."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from labelprism import PrismClassifier
from labelprism.persistence import FORMAT_VERSION

FIXTURES = Path(__file__).parent / "fixtures"
MODELS = sorted(FIXTURES.glob("models-format-*/*.json"))


@pytest.mark.parametrize("expected", MODELS, ids=lambda path: f"{path.parent.name}, {path.stem}")
def test_an_old_model_predicts_what_it_did(expected: Path) -> None:
    known = json.loads(expected.read_text())
    model = PrismClassifier.load(expected.with_suffix(""), verify=True)
    asked = known["asked"] if isinstance(known["asked"][0], str) else np.array(known["asked"], np.float32)
    labels, scores = model.predict_topk(asked, 3)
    names = [[None if label < 0 else str(model.classes_[label]) for label in row] for row in labels]
    assert names == known["labels"]
    wanted = np.array([[-np.inf if score is None else score for score in row] for row in known["scores"]])
    np.testing.assert_allclose(scores, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("expected", MODELS, ids=lambda path: f"{path.parent.name}, {path.stem}")
def test_an_old_model_learns_new_rows(expected: Path) -> None:
    known = json.loads(expected.read_text())
    model = PrismClassifier.load(expected.with_suffix(""))
    asked = known["asked"] if isinstance(known["asked"][0], str) else np.array(known["asked"], np.float32)
    other = known["labels"][1][0]
    for _ in range(10):
        model.partial_fit(asked[:1], [{other}] if expected.stem == "texts" else [other])
    labels, _ = model.predict_topk(asked[:1], 1)
    assert str(model.classes_[labels[0, 0]]) == other


def test_the_present_format_has_fixtures() -> None:
    assert any(path.parent.name == f"models-format-{FORMAT_VERSION}" for path in MODELS)
