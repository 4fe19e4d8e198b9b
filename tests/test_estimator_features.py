"""Raw input by `features`, F and H on features of their own, and models of all kinds in their directories."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize

from labelprism import PrismClassifier
from labelprism.data import Dataset
from labelprism.errors import ModelFormatError
from labelprism.features import TextFeatures
from labelprism.filters import AllLabels, MostFrequent, SpectralForest, SpectralTree
from labelprism.heads import ConstantHead, LabelEmbedding, LogisticHead, LowRankHead
from labelprism.persistence import load_arrays, save_arrays

sys.path.insert(0, str(Path(__file__).parent / "filters"))
from planted_trees import planted

TREE = SpectralTree(6, max_depth=3, verbose=False)
WORDS = ["sea", "ship", "wave", "hill", "tree", "field", "house", "street"]
TEXTS = [f"{WORDS[i % 8]} {WORDS[(i * 3 + 1) % 8]} and {WORDS[(i * 5 + 2) % 8]}" for i in range(80)]
SUBJECTS = [tuple(sorted({"water" if w in WORDS[:3] else "land" for w in t.split() if w in WORDS})) for t in TEXTS]


def features() -> TextFeatures:
    return TextFeatures(10, keep_names=True)


# ------------------------------------------------------------------------------------------------------------ raw input


@pytest.mark.parametrize("model", [PrismClassifier(random_state=0), PrismClassifier(TREE, LogisticHead(passes=20))])
def test_texts(model: PrismClassifier) -> None:
    model = clone(model).set_params(features=features(), random_state=0).fit(TEXTS, SUBJECTS)
    by_hand = PrismClassifier(model.filter, model.head, random_state=0)
    by_hand.fit(features().fit_transform(TEXTS), SUBJECTS)
    np.testing.assert_array_equal(
        model.predict_topk(TEXTS)[1], by_hand.predict_topk(features().fit_transform(TEXTS))[1]
    )
    assert model.predict_labels(["SHIP on a wave", "a tree"], 1) == [["water"], ["land"]]
    assert model.n_features_in_ == 1 << 10
    assert not hasattr(model.features, "hashers_")  # what was given is not touched
    assert model.score(TEXTS, SUBJECTS) > 0.9
    shares = model.explain(["ship and wave"], 1).labels[0].features
    assert shares is not None
    assert {share.name for share in shares} <= {"ship", "and", "wave"}
    data = Dataset(texts=TEXTS, Y=sp.csr_array([[("water" in s), ("land" in s)] for s in SUBJECTS]))
    from_data = PrismClassifier(features=features(), random_state=0).fit(data)
    assert from_data.predict_topk(data, 1)[0].shape == (80, 1)
    with pytest.raises(ValueError, match="no texts"):
        PrismClassifier(features=features()).fit(Dataset(X=np.eye(2), Y=np.eye(2)))


def test_any_transformer_can_make_the_rows() -> None:
    model = PrismClassifier(features=CountVectorizer(), random_state=0).fit(iter(TEXTS), SUBJECTS)
    assert model.predict_labels(["ship"], 1) == [["water"]]
    with pytest.raises(ValueError, match="single string"):
        PrismClassifier(features=CountVectorizer()).fit(TEXTS[0], SUBJECTS[:1])
    with pytest.raises(ValueError, match="give features=TextFeatures"):
        PrismClassifier().fit(TEXTS, SUBJECTS)


# --------------------------------------------------------------------------------------------------------------- views


@pytest.mark.parametrize("filter", [TREE, AllLabels(), MostFrequent(12), SpectralForest(20)])
@pytest.mark.parametrize("head", [LogisticHead(passes=5), LowRankHead(8, passes=5), ConstantHead()])
def test_filter_and_head_see_what_they_shall(filter: Any, head: Any) -> None:
    X, Y = planted(n=300)
    noise = sp.csr_array(np.random.default_rng(0).random((300, 20)).astype(np.float32))
    wide = sp.csr_array(sp.hstack([X, noise]))
    first = np.arange(60)
    model = PrismClassifier(filter, head, filter_features=slice(0, 60), head_features=first, random_state=0).fit(
        wide, Y
    )
    plain = PrismClassifier(filter, head, random_state=0).fit(X, Y)
    assert (model.filter_.n_features_in_, model.head_.n_features_in_, model.n_features_in_) == (60, 60, 80)
    np.testing.assert_array_equal(model.candidates(wide).indices, plain.candidates(X).indices)
    for one, two in zip(model.predict_topk(wide, 3), plain.predict_topk(X, 3), strict=True):
        np.testing.assert_array_equal(one, two)
    dense = PrismClassifier(filter, head, filter_features=np.arange(80) < 60, head_features=slice(60), random_state=0)
    assert dense.fit(wide.toarray(), Y).predict_topk(wide.toarray(), 3)[0].shape == (300, 3)


def test_an_embedding_drives_the_tree() -> None:
    X, Y = planted(n=400)
    for embedding in (TruncatedSVD(8, random_state=0), LabelEmbedding(8, random_state=0)):
        model = PrismClassifier(TREE, LogisticHead(passes=10), filter_features=embedding, random_state=0).fit(X, Y)
        assert (model.filter_.n_features_in_, model.head_.n_features_in_) == (8, 60)
        expected = model.filter_.candidates(normalize(model.filter_features_.transform(X).astype(np.float32)))
        np.testing.assert_array_equal(model.candidates(X).indices, expected.indices)
        assert model.score(X, Y) > 0.6
    model = PrismClassifier(TREE, LogisticHead(passes=10), head_features=TruncatedSVD(30, random_state=0)).fit(X, Y)
    shares = model.explain(X[[0]], 1).labels[0].features
    assert shares is not None
    assert all(share.feature is None for share in shares)
    with pytest.raises(ValueError, match="head_features is a transformer"):
        model.save("nowhere")


# --------------------------------------------------------------------------------------------------------------- files


TARGETS = {
    "strings": lambda numbers: np.array([f"name {n}" for n in numbers]),
    "objects": lambda numbers: np.array([f"name {n}" for n in numbers], object),
    "numbers": lambda numbers: numbers.astype(np.int16) * 3,
    "floats": lambda numbers: numbers.astype(np.float32),
    "mixed": lambda numbers: [f"é {n}" if n % 2 else int(n) for n in numbers],
    "tuples": lambda numbers: [(f"name {n}", "all") for n in numbers],
    "sets": lambda numbers: [{int(n), int(n) + 1} for n in numbers],
    "sparse": lambda numbers: sp.csr_matrix(np.eye(24, dtype=np.int8)[numbers]),
    "dense": lambda numbers: np.eye(24, dtype=bool)[numbers],
}


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("way", ["default", "tree"])
def test_models_come_back_with_their_labels(tmp_path: Path, kind: str, way: str) -> None:
    X, Y = planted(n=200)
    model = PrismClassifier(threshold=0.3, random_state=0, verbose=np.int64(0))
    if way == "tree":
        model.set_params(
            filter=TREE, head=LogisticHead(passes=3), filter_features=slice(5, None), head_features=[7, 3, 1]
        )
    model.fit(X, TARGETS[kind](Y.indices)).save(tmp_path / "model")
    again = PrismClassifier.load(tmp_path / "model")
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.classes_.dtype == model.classes_.dtype
    assert again.threshold == 0.3
    for ask in ("predict_topk", "predict_proba", "decision_function"):
        for one, two in zip(getattr(again, ask)(X), getattr(model, ask)(X), strict=True):
            np.testing.assert_array_equal(one, two)
    one, two = again.predict(X), model.predict(X)
    assert type(one) is type(two)
    if sp.issparse(one):
        one, two = one.toarray(), two.toarray()
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert type(again.filter) is type(model.filter)
    again.fit(X, TARGETS[kind](Y.indices))  # a loaded model can be fitted again


def test_names_of_features_come_back(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    X, Y = planted(n=100)
    frame = pandas.DataFrame(X.toarray(), columns=[f"Wort {n} ü" for n in range(60)])
    PrismClassifier(random_state=0).fit(frame, Y).save(tmp_path / "model")
    again = PrismClassifier.load(tmp_path / "model")
    assert again.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[frame.columns[::-1]])


def test_models_that_do_not_tell_their_labels(tmp_path: Path) -> None:
    """As those that were saved before labels had names."""
    X, Y = planted(n=100)
    model = PrismClassifier(random_state=0).fit(X, Y)
    model.save(tmp_path / "model")
    meta, arrays = load_arrays(tmp_path / "model")
    for name in ("target", "classes", "filter_features", "head_features"):
        del meta[name]
    for name in ("threshold", "verbose"):
        del meta["parameters"][name]
    arrays = {name: np.array(array) for name, array in arrays.items() if name != "class_prior"}
    save_arrays(tmp_path / "model", meta, arrays)
    again = PrismClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_topk(X)[1], model.predict_topk(X)[1])
    assert (again.predict(X) != model.predict(X)).nnz == 0
    assert again.classes_.tolist() == list(range(24))


def test_features_come_back(tmp_path: Path) -> None:
    model = PrismClassifier(features=features(), random_state=0).fit(TEXTS, SUBJECTS)
    model.save(tmp_path / "model")
    again = PrismClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_topk(TEXTS)[1], model.predict_topk(TEXTS)[1])
    assert again.explain(["ship"]) == model.explain(["ship"])
    meta, arrays = load_arrays(tmp_path / "model")
    meta["features"]["n_bits"] = 11
    save_arrays(tmp_path / "model", meta, arrays)
    with pytest.raises(ModelFormatError, match="damaged"):
        PrismClassifier.load(tmp_path / "model")


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    X, Y = planted(n=50)
    with pytest.raises(ValueError, match="CountVectorizer; a model directory can hold TextFeatures only"):
        PrismClassifier(features=CountVectorizer(), random_state=0).fit(TEXTS, SUBJECTS).save(tmp_path / "model")
    with pytest.raises(ValueError, match="labels of type tuple cannot be saved"):
        PrismClassifier(random_state=0).fit(X, [{("a", int(n))} for n in Y.indices]).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": {"kind": "sets", "dtype": "<i8", "container": "eval"}}, "there is no target"),
        ({"classes": {"kind": "pickle"}}, "classes"),
        ({"classes": {"kind": "numbers", "dtype": "O"}}, "classes"),
        ({"filter_features": {"slice": [0, "1", None]}}, "slice of features is damaged"),
        ({"head_features": {"columns": "class_prior"}}, "array of features is damaged"),
        ({"parameters": {"preset": "default", "features": "x"}}, "cannot be stored"),
        ({"parameters": {"n_jobs": 10**6}}, "n_jobs"),
        ({"n_labels": 7}, "expected 7"),
    ],
)
def test_forged_descriptions(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    X, Y = planted(n=60)
    PrismClassifier(AllLabels(), ConstantHead()).fit(X, [f"name {n}" for n in Y.indices]).save(tmp_path / "model")
    meta, arrays = load_arrays(tmp_path / "model")
    save_arrays(tmp_path / "model", {**meta, **change}, arrays)
    with pytest.raises(ModelFormatError, match=message):
        PrismClassifier.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("classes_offsets", np.array([0, 5, 3])),
        ("classes_offsets", np.array([0, 10**6])),
        ("classes_text", np.zeros(0, np.uint8)),
        ("class_prior", np.ones(3)),
    ],
)
def test_forged_names(tmp_path: Path, name: str, values: Any) -> None:
    X, Y = planted(n=60)
    PrismClassifier(AllLabels(), ConstantHead()).fit(X, [f"name {n}" for n in Y.indices]).save(tmp_path / "model")
    meta, arrays = load_arrays(tmp_path / "model")
    save_arrays(tmp_path / "model", meta, {**arrays, name: values})
    with pytest.raises(ModelFormatError, match="damaged"):
        PrismClassifier.load(tmp_path / "model")
