"""Texts to weighted features, and from and to flat arrays that may be forged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from labelprism import PrismClassifier
from labelprism.errors import ModelFormatError
from labelprism.features import HellingerMap, TextFeatures, TextHasher, Tfidf
from labelprism.features import text_features as module

TEXTS = ["a seated old man", "an old seat", "Alte Männer", "", "船と海", "a seated old man by the sea"]
KINDS = [
    {},
    {"words": (1, 2), "characters": (2, 3)},
    {"words": None, "characters": (3, 5)},
    {"weighting": "hellinger"},
    {"weighting": "none"},
]


def as_arrays(X: sp.csr_array) -> list[Any]:
    return [X.shape, X.indptr.tolist(), X.indices.tolist(), X.data.tolist()]


def test_is_the_hasher_and_the_weights() -> None:
    X = TextFeatures(n_bits=12).fit_transform(TEXTS)
    expected = Tfidf().fit_transform(TextHasher(12, ngram_range=(1, 1)).fit_transform(TEXTS))
    assert as_arrays(X) == as_arrays(sp.csr_array(expected))
    assert X.dtype == np.float32
    mapped = TextFeatures(n_bits=12, weighting="hellinger").fit_transform(TEXTS)
    assert as_arrays(mapped) == as_arrays(
        sp.csr_array(HellingerMap().fit_transform(TextHasher(12, ngram_range=(1, 1)).fit_transform(TEXTS)))
    )


def test_words_and_characters_have_columns_of_their_own() -> None:
    both = TextFeatures(n_bits=8, characters=(2, 3), weighting="none").fit_transform(TEXTS)
    words = TextFeatures(n_bits=8, weighting="none").fit_transform(TEXTS)
    pieces = TextFeatures(n_bits=8, words=None, characters=(2, 3), weighting="none").fit_transform(TEXTS)
    assert as_arrays(both) == as_arrays(sp.csr_array(sp.hstack([words, pieces], format="csr")))


@pytest.mark.parametrize("parameters", KINDS)
def test_new_texts_and_a_round_trip_through_arrays(parameters: dict[str, Any]) -> None:
    features = TextFeatures(n_bits=10, keep_names=True, n_jobs=2, **parameters)
    fitted = features.fit_transform(TEXTS)
    assert as_arrays(features.transform(TEXTS)) == as_arrays(fitted)
    assert as_arrays(clone(features).fit(iter(TEXTS)).transform(TEXTS)) == as_arrays(fitted)
    again = TextFeatures.from_arrays(features.meta(), features.arrays())
    assert again.get_params() == features.get_params()
    assert again.meta() == features.meta()
    new = ["old men", "something else", ""]
    assert as_arrays(again.transform(new)) == as_arrays(features.transform(new))
    assert again.get_feature_names_out().tolist() == features.get_feature_names_out().tolist()
    assert features.transform([]).shape == (0, features.n_features_out_)


def test_names() -> None:
    features = TextFeatures(n_bits=14, words=(1, 2), characters=(3, 3), keep_names=True)
    X = features.fit_transform(["old man", "old man", "sea"])
    names = features.token_of(X[[0]].indices)
    assert set(names[:3]) == {"old", "man", "old man"}  # the words come first
    assert set(names[3:]) == {" ol", "old", "ld ", " ma", "man", "an "}
    assert features.get_feature_names_out()[X.indices[0]] == f"{names[0]} #{X.indices[0]}"
    with pytest.raises(ValueError, match="no feature 32768"):
        features.token_of([2**15])
    with pytest.raises(ValueError, match="keep_names=True"):
        TextFeatures().fit(TEXTS).token_of([0])


def test_names_of_many_texts_come_from_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TEXTS_NAMED", 2)
    features = TextFeatures(n_bits=16, keep_names=True).fit(["one", "two", "three", "four"])
    assert set(features.hashers_[0].tokens_.values()) == {"one", "three"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_bits": 0},
        {"n_bits": 31},
        {"n_bits": True},
        {"words": (0, 1)},
        {"words": (2, 1)},
        {"words": (1, 17)},
        {"words": 2},
        {"words": None},
        {"characters": "ab"},
        {"weighting": "idf"},
        {"keep_names": "yes"},
    ],
)
def test_wrong_parameters(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TextFeatures(**wrong).fit(TEXTS)


@pytest.mark.parametrize("texts", [[], "one text", [None], [b"\xff"]])
def test_wrong_texts(texts: Any) -> None:
    with pytest.raises(ValueError, match="text"):
        TextFeatures().fit(texts)


# ------------------------------------------------------------------------------------------------------------- forged


def stored() -> tuple[dict[str, Any], dict[str, Any]]:
    features = TextFeatures(n_bits=6, keep_names=True).fit(TEXTS)
    return features.meta(), features.arrays()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("n_bits", 31),
        ("n_bits", "6"),
        ("n_bits", 7),
        ("words", [1]),
        ("words", [1, 10**9]),
        ("words", {"a": 1}),
        ("characters", [3, 3]),  # twice the features that idf has
        ("weighting", ["tfidf"]),
        ("keep_names", 1),
        ("n_jobs", 10**9),
        ("n_jobs", 0),
        ("n_jobs", "2"),
        ("n_texts", 0),
        ("n_texts", 1.5),
        ("more", 1),
    ],
)
def test_forged_descriptions(key: str, value: Any) -> None:
    meta, arrays = stored()
    with pytest.raises(ValueError, match=r"must|expected"):
        TextFeatures.from_arrays({**meta, key: value}, arrays)


@pytest.mark.parametrize(
    ("name", "forged"),
    [
        ("idf", None),
        ("idf", np.ones(63, np.float32)),
        ("idf", np.ones(64)),
        ("idf", np.ones((8, 8), np.float32)),
        ("idf", np.full(64, np.nan, np.float32)),
        ("idf", np.full(64, -1, np.float32)),
        ("names_features", np.array([0, 64])),
        ("names_features", np.array([3, 3])),
        ("names_features", np.array([-1, 3])),
        ("names_lengths", np.array([1])),
        ("names_utf8", np.array([0xFF, 0xFF], np.uint8)),
    ],
)
def test_forged_arrays(name: str, forged: Any) -> None:
    meta, arrays = stored()
    arrays |= {
        "names_features": np.array([1, 2]),
        "names_lengths": np.array([1, 1]),
        "names_utf8": np.full(2, 65, np.uint8),
    }
    TextFeatures.from_arrays(meta, arrays)
    arrays[name] = forged
    with pytest.raises(ValueError, match="text features"):
        TextFeatures.from_arrays(meta, arrays)


@given(lengths=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3), size=st.integers(0, 6))
def test_forged_lengths_never_read_outside(lengths: list[int], size: int) -> None:
    meta, arrays = stored()
    arrays["names_features"] = np.arange(len(lengths))
    arrays["names_lengths"] = np.array(lengths, np.int64)
    arrays["names_utf8"] = np.full(size, 65, np.uint8)
    if min(lengths, default=0) >= 0 and sum(lengths) == size:
        features = TextFeatures.from_arrays(meta, arrays)
        assert sum(map(len, features.hashers_[0].tokens_.values())) == size
        return
    with pytest.raises(ValueError, match="damaged"):
        TextFeatures.from_arrays(meta, arrays)


# ---------------------------------------------------------------------------------------------------------- in a model


def test_a_model_keeps_them(tmp_path: Path) -> None:
    texts = [f"{word} {other}" for word in ("ship", "dog", "oak") for other in "abcdefgh"]
    labels = [word for word in ("ship", "dog", "oak") for _ in range(8)]
    model = PrismClassifier(features=TextFeatures(n_bits=8, keep_names=True), random_state=0).fit(texts, labels)
    model.save(tmp_path / "model")
    again = PrismClassifier.load(tmp_path / "model")
    assert again.predict(["a ship", "dog", "nothing of it"]).tolist()[:2] == ["ship", "dog"]
    for mine, kept in zip(model.predict_topk(texts, 3), again.predict_topk(texts, 3), strict=True):
        np.testing.assert_array_equal(mine, kept)
    assert again.features_.get_params() == model.features_.get_params()
    assert again.explain(["ship"], 1).labels[0].features[0].name == "ship"
    again.features_.use_threads(2)
    assert {hasher.n_jobs for hasher in again.features_.hashers_} == {again.features_.n_jobs} == {2}


def test_a_model_with_forged_features_is_refused(tmp_path: Path) -> None:
    model = PrismClassifier(features=TextFeatures(n_bits=8), random_state=0).fit(["a", "b"] * 5, ["x", "y"] * 5)
    tmp_path = tmp_path / "model"
    model.save(tmp_path)
    meta = json.loads((tmp_path / "meta.json").read_text())
    for key, value in (("n_bits", 9), ("words", [1, 99]), ("weighting", None)):
        forged = json.loads(json.dumps(meta))
        forged["model"]["features"][key] = value
        (tmp_path / "meta.json").write_text(json.dumps(forged))
        with pytest.raises(ModelFormatError, match="damaged"):
            PrismClassifier.load(tmp_path)
