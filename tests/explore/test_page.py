"""The page as a file: what it holds, that it fits, and that names of labels cannot break out of it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
import sys
from typing import Any

import numpy as np
import pytest
from large_tree import large_view
from small_data import HOSTILE, MARKUP

from labelprism import PrismClassifier
from labelprism.data.dataset import Dataset
from labelprism.explore import explained, page, page_of, tree_view
from labelprism.explore.payload import DETAILS, Detail, kept_nodes, payload


def packed(text: str, name: str) -> str:
    found = re.search(rf'<script type="text/plain" id="{name}">([A-Za-z0-9+/=]*)</script>', text)
    assert found is not None
    return gzip.decompress(base64.b64decode(found[1])).decode()


def data_of(text: str) -> Any:
    return json.loads(packed(text, "data"))


def policy_of(text: str) -> dict[str, str]:
    found = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
    assert found is not None
    return dict(part.strip().split(" ", 1) for part in html.unescape(found[1]).split(";"))


@pytest.fixture(scope="module")
def text(text_model: PrismClassifier, test: Dataset) -> str:
    return page(text_model, test, title=HOSTILE, n_examples=7)


def test_the_page_is_the_same_every_time(text: str, text_model: PrismClassifier, test: Dataset) -> None:
    assert page(text_model, test, title=HOSTILE, n_examples=7) == text


def test_names_cannot_break_out(text: str) -> None:
    assert HOSTILE not in text
    assert html.escape(HOSTILE) in text  # the title
    assert MARKUP not in text
    names = data_of(text)["labels"]["names"]
    assert {HOSTILE, MARKUP, "Überschrift · 漢字"} < set(names)


def test_scripts_run_by_their_hash_and_nothing_is_fetched(text: str) -> None:
    policy = policy_of(text)
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'none'"
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 1
    for script in (*scripts, packed(text, "plotly")):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy["script-src"].split()
    assert "unsafe" not in policy["script-src"]
    assert not re.search(r"""(?:src|href)=["'](?!#|data:,)""", text)


def test_a_server_may_be_asked(text_model: PrismClassifier) -> None:
    for url, source in (("/explain", "'self'"), ("https://host.example:8000/explain", "https://host.example:8000")):
        found = page(text_model, explain_url=url)
        assert policy_of(found)["connect-src"] == source
        assert data_of(found)["explain_url"] == url
    for url in ("javascript://x/alert(1)", "https://host;script-src/"):
        with pytest.raises(ValueError, match="explain_url"):
            page(text_model, explain_url=url)


def test_nodes_of_the_page(text: str, text_model: PrismClassifier, test: Dataset) -> None:
    view, nodes = tree_view(text_model, test), data_of(text)["nodes"]
    names = data_of(text)["labels"]["names"]
    assert nodes["id"] == list(range(view.nodes.children.size))  # all of a small model
    assert nodes["parent"] == view.nodes.parent.tolist()
    assert not any("percent" in key for key in nodes)
    for place, node in enumerate(nodes["id"]):
        assert [names[label] for label in nodes["top"][place]] == view.names(view.labels.top[node])
        assert [names[label] for label in nodes["grown"][place]] == view.names(view.labels.grown[node])
        np.testing.assert_allclose(nodes["mass"][place], view.mass[node], rtol=1e-3)
        if nodes["recall"][place] is not None:
            assert abs(nodes["recall"][place] / 1000 - view.recall[node]) <= 0.0005 + 1e-9
        assert nodes["end"][place] == (view.nodes.children[node] < 0)
    routers = data_of(text)["routers"]
    assert [routers["names"][feature] for feature in routers["features"][0]] == [
        view.routers.names[feature] for feature in view.routers.features[0].tolist() if feature >= 0
    ]


def test_places_of_labels(text: str, text_model: PrismClassifier, test: Dataset) -> None:
    view, found = tree_view(text_model, test), data_of(text)
    places = found["places"]
    assert places["all"]
    begin = 0
    dense = view.held.toarray()
    number = {name: label for label, name in enumerate(view.label_names)}
    for name, n in zip(found["labels"]["names"], places["count"], strict=True):
        own = places["node"][begin : begin + n]
        expected = view.nodes.leaf_nodes[dense[:, number[name]] > 0]
        assert own == expected.tolist()
        for tree in range(view.nodes.n_trees):
            percents = [p for node, p in zip(own, places["percent"][begin : begin + n], strict=True)
                        if view.nodes.tree[node] == tree]  # fmt: skip
            assert not percents or abs(sum(percents) - 100) < 0.6 * len(percents)
        begin += n
    assert begin == len(places["node"])


def test_examples_are_explained(text: str, text_model: PrismClassifier, test: Dataset) -> None:
    examples = data_of(text)["examples"]
    assert [example["row"] for example in examples] == [1, 25, 50, 75, 100, 125, 150]
    for example in examples:
        row = example["row"] - 1
        told = text_model.explain([test.texts[row]])
        assert example["title"] == test.texts[row]
        assert [label["name"] for label in example["labels"]] == [label.name for label in told.labels]
        for label in example["labels"]:
            assert abs(sum(label["parts"].values()) - label["score"]) < 0.01
        assert [[step[0] for step in path] for path in example["paths"]] == [
            [step.node for step in path] for path in told.paths
        ]
        candidates = [candidate.name for candidate in told.candidates]
        assert example["n_candidates"] == len(candidates)
        true = [test.label_names[label] for label in test.Y[[row]].indices]
        assert example["true"] == [[n, candidates.index(n) + 1 if n in candidates else None] for n in true]


def test_an_example_of_numbers_is_named_by_its_features(
    tree_model: PrismClassifier, matrices: tuple[Dataset, Dataset]
) -> None:
    found = explained(tree_model, matrices[1].X[[0]])
    assert re.fullmatch(r"#\d+ [\d.]+(, #\d+ [\d.]+)*", found["title"])
    assert found["true"] == []
    assert list(found["labels"][0]["parts"]) == ["head"]
    assert explained(tree_model, matrices[1].X[[0]] * 0)["title"] == "no features"
    json.dumps(found, allow_nan=False)


def test_rows_of_every_kind() -> None:
    """Dense rows, classes that are numbers, a label announced but never seen, and rows of nothing."""
    rng = np.random.default_rng(0)
    X = np.vstack([np.eye(4)[rng.integers(4, size=60)] + 0.01 * rng.random((60, 4)), np.zeros((1, 4))])
    y = np.append(np.argmax(X[:60], axis=1), 0) * 10
    model = PrismClassifier(random_state=0, n_jobs=1).fit(X, y)
    model.partial_fit(X[:1], y[:1], classes=[0, 10, 20, 30, 99])
    found = data_of(page(model, (X, y), n_examples=61))
    assert set(found["labels"]["names"]) == {"0", "10", "20", "30", "99"}
    assert found["labels"]["counts"][found["labels"]["names"].index("99")] == 0
    assert len(found["examples"]) == 61
    assert found["examples"][-1]["title"] == "no features"
    [[name, place]] = found["examples"][0]["true"]
    assert name == str(y[0])
    assert 1 <= place <= 4


def test_without_data(tree_model: PrismClassifier) -> None:
    found = data_of(page(tree_model))
    assert found["examples"] == []
    assert found["nodes"]["rows"] is None
    assert found["totals"]["rows"] == 0


# ------------------------------------------------------------------------------------------------------------ sizes


@pytest.mark.parametrize("most", [1, 3, 10, 51, 1000])
def test_what_is_kept_is_heavy_and_whole(most: int) -> None:
    view = large_view(200, 500, 5)
    wanted = [int(view.nodes.leaf_nodes[np.argmin(view.mass[view.nodes.leaf_nodes])])]
    for must, slack in (((), 0), (wanted, 2 * len(view.nodes.levels))):
        kept = kept_nodes(view, most, must)
        assert 1 <= kept.size <= max(most, 1) + slack
        assert set(must) <= set(kept.tolist())
        inner = np.unique(view.nodes.parent[kept][1:])
        assert set(inner) <= set(kept)
        assert {int(view.nodes.children[node]) + side for node in inner for side in (0, 1)} == set(kept[1:].tolist())
        if not must and 1 < most < view.nodes.children.size:
            opened = np.isin(np.arange(view.nodes.children.size), inner) & (view.nodes.children >= 0)
            closed = ~opened & (view.nodes.children >= 0)
            assert view.mass[opened].min() >= view.mass[closed].max()


def test_folded_nodes_hold_the_labels_of_their_leaves() -> None:
    view = large_view(200, 500, 5)
    found = payload(view, [], Detail(20, 100, 40, 8))
    assert len(found["nodes"]["id"]) <= 20
    ends = [node for node, end in zip(found["nodes"]["id"], found["nodes"]["end"], strict=True) if end]
    assert sum(view.n_leaves[ends]) == 200
    assert all(len(name) <= 8 for name in found["labels"]["names"])
    named = {label for key in ("top", "grown") for own in found["nodes"][key] for label in own}
    assert max(named) < len(found["labels"]["names"])
    assert 100 <= len(found["labels"]["names"]) < 500
    assert not found["places"]["all"]
    assert min(found["places"]["count"]) == 1  # every label has at least one place
    assert all(found["nodes"]["end"][node] for node in found["places"]["node"])


def test_small_limits_make_small_pages() -> None:
    view = large_view(300, 3000, 10)
    large, small = page_of(view), page_of(view, max_bytes=len(page_of(view)) - 1)
    assert len(small) < len(large)
    with pytest.raises(ValueError, match="does not fit"):
        page_of(view, max_bytes=1000)


def test_50_000_leaves_and_300_000_labels_fit() -> None:
    view = large_view(50_000, 300_000, 10)
    text = page_of(view)
    assert len(text.encode()) < 10_000_000
    found = data_of(text)
    assert len(found["labels"]["names"]) == 300_000
    assert len(found["nodes"]["id"]) >= DETAILS[1].n_nodes - 1


def test_plotly_is_asked_for(monkeypatch: pytest.MonkeyPatch, tree_model: PrismClassifier) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r"labelprism\[explore\]"):
        page(tree_model)
