"""The server's own protocol says what the library says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve_corpus import corpus

from labelprism import PrismClassifier
from labelprism.features import TextFeatures

TEXTS, _ = corpus(40, 5)


def rows_of(X: Any) -> list[dict[str, list[float]]]:
    return [
        {"indices": X.indices[begin:end].tolist(), "values": X.data[begin:end].tolist()}
        for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]


def names_and_scores(prediction: dict[str, Any]) -> tuple[list[str], list[float]]:
    return [each["name"] for each in prediction["labels"]], [each["score"] for each in prediction["labels"]]


def test_one_text(client: Any, models: dict[str, Path]) -> None:
    answer = client.post("/v1/models/texts/predict", json={"text": TEXTS[0], "k": 3})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["model"], len(found["predictions"])) == ("texts", 1)
    model = PrismClassifier.load(models["texts"])
    labels, scores = model.predict_topk([TEXTS[0]], 3)
    names, given = names_and_scores(found["predictions"][0])
    assert names == model.classes_[labels[0]].tolist()
    assert given == np.round(scores[0].astype(float), 6).tolist()
    assert [each["label"] for each in found["predictions"][0]["labels"]] == labels[0].tolist()


@pytest.mark.parametrize("name", ["rows", "paper"])
def test_rows_in_any_order(client: Any, models: dict[str, Path], name: str) -> None:
    model = PrismClassifier.load(models[name])
    X = TextFeatures(n_bits=8).fit(corpus(1000, 0)[0]).transform(TEXTS)
    rows = [{part: values[::-1] for part, values in row.items()} for row in rows_of(X)]
    found = client.post(f"/v1/models/{name}/predict", json={"rows": rows, "k": 4}).json()["predictions"]
    labels, scores = model.predict_topk(X, 4)
    for prediction, expected, values in zip(found, labels, scores, strict=True):
        names, given = names_and_scores(prediction)
        assert names == model.classes_[expected[expected >= 0]].tolist()
        np.testing.assert_allclose(given, values[expected >= 0], atol=1e-6)
    single = client.post(f"/v1/models/{name}/predict", json={"row": rows[3], "k": 4}).json()["predictions"]
    assert single == [found[3]]


def test_empty_and_strange_texts(client: Any, models: dict[str, Path]) -> None:
    texts = ["", "   ", "STRASSE", "ﬁne ﬂat", "İstanbul", "水 boat", "\u0000 wave", "a" * 3000]
    found = client.post("/v1/models/texts/predict", json={"texts": texts}).json()["predictions"]
    labels, scores = PrismClassifier.load(models["texts"]).predict_topk(texts, 5)
    for prediction, expected, values in zip(found, labels, scores, strict=True):
        assert [each["label"] for each in prediction["labels"]] == expected[expected >= 0].tolist()
        assert names_and_scores(prediction)[1] == np.round(values[expected >= 0].astype(float), 6).tolist()


def test_more_labels_than_there_are(client: Any, models: dict[str, Path]) -> None:
    found = client.post("/v1/models/texts/predict", json={"text": "boat", "k": 50}).json()["predictions"][0]
    assert 0 < len(found["labels"]) <= len(PrismClassifier.load(models["texts"]).classes_)


def test_probabilities_and_threshold(client: Any, models: dict[str, Path]) -> None:
    model = PrismClassifier.load(models["texts"])
    question = {"texts": TEXTS, "k": 3, "probabilities": True}
    found = client.post("/v1/models/texts/predict", json=question).json()["predictions"]
    likely = model.predict_proba(TEXTS)
    for row, prediction in enumerate(found):
        for each in prediction["labels"]:
            assert each["score"] == pytest.approx(likely[row, each["label"]], abs=1e-5)
    cut = client.post("/v1/models/texts/predict", json={**question, "threshold": 0.5}).json()["predictions"]
    kept = [[each for each in prediction["labels"] if each["score"] >= 0.5] for prediction in found]
    assert [prediction["labels"] for prediction in cut] == kept
    assert 0 < sum(map(len, kept)) < 3 * len(TEXTS)


def test_candidates_and_explanation(client: Any, models: dict[str, Path]) -> None:
    question = {"texts": TEXTS[:2], "k": 2, "candidates": True, "explain": True}
    found = client.post("/v1/models/texts/predict", json=question).json()["predictions"]
    model = PrismClassifier.load(models["texts"])
    expected = model.candidates(TEXTS[:2])
    for row, prediction in enumerate(found):
        entries = slice(expected.indptr[row], expected.indptr[row + 1])
        assert {each["label"] for each in prediction["candidates"]} == set(expected.indices[entries].tolist())
        order = [each["log_probability"] for each in prediction["candidates"]]
        assert order == sorted(order, reverse=True)
        explained = model.explain([TEXTS[row]], 2)
        assert [each["name"] for each in prediction["explanation"]["labels"]] == [
            each.name for each in explained.labels
        ]
        for label, given in zip(explained.labels, prediction["explanation"]["labels"], strict=True):
            assert sum(given["parts"].values()) == pytest.approx(label.score, abs=1e-3)
            assert {share["name"] for share in given["features"]} <= set(TEXTS[row].split())
        ways = [[step["node"] for step in path] for path in prediction["explanation"]["paths"]]
        assert ways == [[step.node for step in path] for path in explained.paths]


def test_nodes_tell_what_is_below_them(client: Any) -> None:
    explained = client.post("/v1/models/texts/predict", json={"text": TEXTS[0], "explain": True}).json()
    way = [step["node"] for step in explained["predictions"][0]["explanation"]["paths"][0]]
    nodes = [client.get(f"/v1/models/texts/nodes/{node}").json() for node in way]
    assert [node["parent"] for node in nodes] == [None, *way[:-1]]
    assert [node["depth"] for node in nodes] == list(range(len(way)))
    assert all(child in (node["left"], node["right"]) for node, child in zip(nodes, way[1:], strict=False))
    assert nodes[-1]["left"] is None
    assert nodes[-1]["leaves"] == 1
    assert nodes[0]["n_labels"] == 108
    shares = [label["share"] for label in nodes[0]["labels"]]
    assert shares == sorted(shares, reverse=True)
    assert 0.3 < sum(shares) < 0.9  # eight of the labels are half of the corpus
    assert len(nodes) > 1
    assert all(feature["name"] for feature in nodes[0]["features"])
    missing = client.get("/v1/models/texts/nodes/99999")
    assert missing.status_code == 404
    assert "nodes go from 0 to" in missing.json()["error"]


def test_models_are_listed(client: Any, models: dict[str, Path]) -> None:
    found = {model["name"]: model for model in client.get("/v1/models").json()["models"]}
    assert list(found) == list(models)
    assert {name: model["input"] for name, model in found.items()} == {
        "texts": "texts",
        "rows": "rows",
        "paper": "rows",
    }
    assert client.get("/v1/models/rows").json() == found["rows"]
    assert len({model["version"] for model in found.values()}) == 3


def test_requests_of_one_moment_are_computed_together(server: Any, client: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    questions = [{"text": text, "k": k} for text in TEXTS for k in (1, 2)] + [{"texts": TEXTS[:30]}]
    expected = [client.post("/v1/models/texts/predict", json=question).json() for question in questions]
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda each: client.post("/v1/models/texts/predict", json=each).json(), questions * 3))
    assert found == expected * 3
