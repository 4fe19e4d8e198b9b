"""`DaskPrismClassifier` on a cluster of processes: as good as the local one, the same bits for the same chunks."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from chunked_problem import N_FEATURES, N_LABELS, chunked, same_bits, topics
from distributed.utils import key_split
from sklearn.base import clone

from labelprism import PrismClassifier
from labelprism.distributed import DaskPrismClassifier, training
from labelprism.distributed.cluster import Cluster
from labelprism.distributed.label_shards import range_count
from labelprism.distributed.spread_growth import SpreadLimits
from labelprism.distributed.traffic import PHASES, phase_of, task_name
from labelprism.filters import SpectralForest
from labelprism.metrics import precision_at_k
from labelprism.recipe_settings import PRESETS

N = 12_000
CUTS = [0, 3000, 6000, 6000, 9000, N]  # one chunk is empty


@pytest.fixture(scope="module")
def rows() -> Any:
    return topics(N, 1)


@pytest.fixture(scope="module")
def held_out() -> Any:
    return topics(4000, 2)


@pytest.fixture(scope="module")
def local(rows: Any) -> PrismClassifier:
    return PrismClassifier(random_state=0).fit(*rows)


@pytest.fixture(scope="module")
def fitted(rows: Any, client: Any) -> DaskPrismClassifier:
    X, Y = (chunked(matrix, CUTS) for matrix in rows)
    return DaskPrismClassifier(random_state=0, client=client).fit(X, Y)


def worth(model: Any, X: sp.csr_array, Y: sp.csr_array) -> tuple[list[float], float]:
    """P@1, P@3, P@5 and the recall of candidates, in points."""
    labels, _ = model.predict_topk(X, 5)
    found = model.candidates(X)
    offered = sp.csr_array((np.ones(found.nnz), found.indices, found.indptr), shape=found.shape)
    return [100 * precision_at_k(Y, labels, k) for k in (1, 3, 5)], 100 * offered.multiply(Y).sum() / Y.nnz


def test_signatures_are_those_of_the_local_classifier_and_a_client() -> None:
    own = inspect.signature(DaskPrismClassifier.__init__).parameters
    of_local = inspect.signature(PrismClassifier.__init__).parameters
    assert [str(own[name]) for name in of_local] == [str(parameter) for parameter in of_local.values()]
    assert list(own)[len(of_local) :] == ["client"]
    for name, method in inspect.getmembers(PrismClassifier, inspect.isfunction):
        if not name.startswith("_"):
            wanted, found = (inspect.signature(getattr(kind, name)) for kind in (PrismClassifier, DaskPrismClassifier))
            assert list(wanted.parameters.values())[1:] == list(found.parameters.values())[1:], method


def test_trees_grow_in_both_ways(fitted: DaskPrismClassifier) -> None:
    assert fitted.bytes_sent_["spread-growth"] > 1e5, "no sums travelled: no node was spread"
    assert fitted.bytes_sent_["subtree-growth"] > 1e5, "no rows moved to the workers of subtrees"


def test_as_good_as_the_local_classifier(local: PrismClassifier, fitted: DaskPrismClassifier, held_out: Any) -> None:
    (precisions, recall), (wanted, wanted_recall) = (worth(model, *held_out) for model in (fitted.to_local(), local))
    assert wanted[0] > 60
    assert (np.subtract(precisions, wanted) > -0.2).all(), (precisions, wanted)
    assert recall > wanted_recall - 0.5


def test_trees_that_are_not_spread_give_the_bits_of_a_local_forest(
    rows: Any, local: PrismClassifier, client: Any
) -> None:
    X, Y = (chunked(matrix, CUTS).persist() for matrix in rows)
    model = DaskPrismClassifier(random_state=0, client=client)
    model._limits = SpreadLimits(chunks_of_rows=1e9)
    model.fit(X, Y)
    for name, array in local.recipe_.arrays.items():
        if name.startswith("forest_") or name == "head_bias":
            np.testing.assert_array_equal(model.recipe_.arrays[name], array, err_msg=name)
    assert model.bytes_sent_["subtree-growth"] > 1e5
    growth = sum(model.bytes_sent_[phase] for phase in ("split", "spread-growth", "subtree-growth"))
    assert growth < 3 * 3 * 8 * rows[0].nnz, model.bytes_sent_


def test_the_only_row_of_a_label_is_held_out_neither_here_nor_there(rows: Any, client: Any) -> None:
    own = sp.eye_array(400, dtype=np.float32)
    X, Y = (sp.csr_array(sp.block_diag([matrix[:1600], own])) for matrix in rows)
    model = DaskPrismClassifier(random_state=0, client=client)
    model._limits = SpreadLimits(chunks_of_rows=1e9)
    model.fit(*(chunked(matrix, [0, 900, 1700, 2000]) for matrix in (X, Y)))
    local = PrismClassifier(random_state=0).fit(X, Y)
    assert np.isin(np.arange(N_LABELS, N_LABELS + 400), local.recipe_.arrays["forest_leaf_label"]).all()
    for name, array in local.recipe_.arrays.items():
        if name.startswith("forest_"):
            np.testing.assert_array_equal(model.recipe_.arrays[name], array, err_msg=name)


def test_nine_trees_that_are_not_spread_clusters_of_labels_near_examples_and_a_space(
    rows: Any, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gains = {"cluster_gain": -1e9, "example_gain": -1e9, "space_gain": -1e9, "space_from_labels": 0}
    sieve = {"kept_candidates": 30, "sieve_loss": 1.0}
    forced = replace(PRESETS["accurate"], cluster_labels=20, **gains, **sieve)
    monkeypatch.setitem(PRESETS, "accurate", forced)
    X, Y = (matrix[:3000] for matrix in rows)
    model = DaskPrismClassifier(preset="accurate", random_state=0, client=client)
    model._limits = SpreadLimits(chunks_of_rows=1e9)
    model.fit(*(chunked(matrix, [0, 1000, 3000]) for matrix in (X, Y)))
    local = PrismClassifier(preset="accurate", random_state=0).fit(X, Y)
    assert model.recipe_.n_trees_ == 9
    assert model.recipe_.settings == local.recipe_.settings
    assert model.recipe_.blend_ == pytest.approx(local.recipe_.blend_, rel=1e-3)
    assert local.recipe_.arrays["cluster_bias"].size > 3
    assert local.recipe_.arrays["example_label_begin"].size == 3001
    assert local.recipe_.arrays["space_lists"].any()
    for name, array in local.recipe_.arrays.items():
        if name.startswith(("forest_", "cluster_", "example_", "space_")) or name in ("head_bias", "label_vote_begin"):
            np.testing.assert_array_equal(model.recipe_.arrays[name], array, err_msg=name)
    shares, local_shares = (own.recipe_.arrays["label_vote_share"].view(np.float16) for own in (model, local))
    np.testing.assert_allclose(np.sort(shares), np.sort(local_shares), rtol=1e-2)


@pytest.mark.parametrize(
    ("mined_from_rows", "many_values", "sieve_loss"),
    [(100_000, 10**9, 1.0), (0, 10**9, 1.0), (0, 0, 1.0), (0, 0, -1e9)],
)
def test_a_space_that_needs_no_trees(
    rows: Any, client: Any, monkeypatch: pytest.MonkeyPatch, mined_from_rows: int, many_values: int, sieve_loss: float
) -> None:
    sieve = {"space_gain": -1e9, "sieve_loss": sieve_loss, "mined_from_rows": mined_from_rows}
    sieve |= {"many_values": many_values, "head_from_examples_per_label": 1e9, "retrieval_from_labels": 0}
    forced = replace(PRESETS["fast"], space_from_labels=0, **sieve)
    monkeypatch.setitem(PRESETS, "fast", forced)
    X, Y = (matrix[:3000] for matrix in rows)
    model = DaskPrismClassifier(preset="fast", random_state=0, client=client)
    model.fit(*(chunked(matrix, [0, 1000, 3000]) for matrix in (X, Y)))
    local = PrismClassifier(preset="fast", random_state=0).fit(X, Y)
    assert model.recipe_.settings == local.recipe_.settings
    keeps, has_head = sieve_loss > 0, many_values > 0 or sieve_loss < 0
    assert (local.recipe_.settings.kept_candidates >= 20) == keeps
    # Where the space finds no candidates after all, there is a head.
    assert local.recipe_.settings.use_head == has_head == bool(local.recipe_.head_.nnz)
    assert set(model.recipe_.arrays) == set(local.recipe_.arrays)
    assert bool(local.recipe_.settings.mined_every) == (mined_from_rows == 0)
    # A space that finds none may also say nothing.
    names = ("forest_leaf_label", "space_lists", "space_labels", "head_bias") if keeps else ("head_bias",)
    for name in names:
        np.testing.assert_array_equal(model.recipe_.arrays[name], local.recipe_.arrays[name], err_msg=name)


def test_other_chunks_give_as_good_a_model(rows: Any, fitted: DaskPrismClassifier, held_out: Any, client: Any) -> None:
    X, Y = (chunked(matrix, [0, 100, 5000, 7500, 8000, 10_000, 11_000, N]) for matrix in rows)
    model = DaskPrismClassifier(random_state=0, client=client).fit(X, Y)
    (precisions, recall), (wanted, wanted_recall) = (worth(own.to_local(), *held_out) for own in (model, fitted))
    np.testing.assert_allclose(precisions, wanted, atol=0.3)
    assert abs(recall - wanted_recall) < 0.5


def test_bytes_stay_under_three_times_the_rows_for_each_tree(client: Any) -> None:
    X, Y = topics(20_000, 3, words=50)
    assert 8 * X.nnz > 20 * 8 * 4 * N_FEATURES, "X should be large against blocks of features"
    cuts = np.linspace(0, X.shape[0], 9).astype(int).tolist()
    X_chunks, Y_chunks = (chunked(matrix, cuts).persist() for matrix in (X, Y))
    model = DaskPrismClassifier(preset="fast", random_state=0, client=client).fit(X_chunks, Y_chunks)
    growth = sum(model.bytes_sent_[phase] for phase in ("split", "spread-growth", "subtree-growth"))
    assert growth < 3 * 8 * X.nnz, model.bytes_sent_
    assert model.bytes_sent_["spread-growth"] > 0


def test_predictions_by_rows_are_those_of_the_local_model(fitted: DaskPrismClassifier, held_out: Any) -> None:
    X = held_out[0][:900]
    chunks, one = chunked(X, [0, 300, 300, 900]), fitted.to_local()
    assert type(one) is PrismClassifier
    for found, wanted in zip(fitted.predict_topk(chunks, 3), one.predict_topk(X, 3), strict=True):
        assert isinstance(found, da.Array)
        np.testing.assert_array_equal(found.compute(), wanted)
    for found, wanted in zip(fitted.predict_topk_proba(chunks, 3), one.predict_topk_proba(X, 3), strict=True):
        np.testing.assert_array_equal(found.compute(), wanted)
    for method in ("predict_scores", "candidates", "predict"):
        found, wanted = getattr(fitted, method)(chunks).compute(), getattr(one, method)(X)
        assert found.shape == wanted.shape
        assert (found != wanted).nnz == 0
    allowed = np.arange(N_LABELS) < 20
    np.testing.assert_array_equal(
        fitted.predict_topk(chunks, 3, allowed=allowed)[0].compute(), one.predict_topk(X, 3, allowed=allowed)[0]
    )
    for method in ("predict_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(fitted, method)(chunks).compute(), getattr(one, method)(X))
    np.testing.assert_array_equal(fitted.predict_topk(X, 3)[0], one.predict_topk(X, 3)[0])


def test_other_answers(fitted: DaskPrismClassifier, held_out: Any, tmp_path: Any, client: Any) -> None:
    X, Y = (matrix[:300] for matrix in held_out)
    X_chunks, Y_chunks, one = chunked(X, [0, 100, 300]), chunked(Y, [0, 100, 300]), fitted.to_local()
    weight = np.arange(300.0)
    assert fitted.score(X_chunks, Y_chunks) == pytest.approx(one.score(X, Y))
    assert fitted.score(X_chunks, Y_chunks, weight) == pytest.approx(one.score(X, Y, weight))
    assert fitted.predict_labels(X_chunks, 2) == one.predict_labels(X, 2)
    np.testing.assert_array_equal(fitted.predict_log_proba(X_chunks).compute(), one.predict_log_proba(X))
    with pytest.raises(ValueError, match="rows that are here"):
        fitted.score_candidates(X_chunks, Y)
    assert clone(fitted).client is client
    fitted.save(tmp_path / "model")
    assert type(PrismClassifier.load(tmp_path / "model")) is PrismClassifier
    again = DaskPrismClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_topk(X)[0], one.predict_topk(X)[0])


def test_the_head_takes_turns_where_memory_is_short(
    rows: Any, fitted: DaskPrismClassifier, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert range_count(10, 10**9, 60, 2e9) == 10
    assert range_count(10, 400 * 10**9, 60, 40e9) > 500
    assert range_count(1, 10**9, 60, 1) == 1000
    submit, trained = Cluster.submit, []

    def counted(self: Cluster, phase: str, step: str, *arguments: Any, **options: Any) -> Any:
        trained.extend([phase] if step == "train" else [])
        return submit(self, phase, step, *arguments, **options)

    monkeypatch.setattr(Cluster, "submit", counted)
    memory = min(Cluster(client).workers().values())
    monkeypatch.setattr(training, "_SHARE_OF_MEMORY", 1.65e6 / memory)  # for 1.7 MB of rows
    X, Y = (chunked(matrix, CUTS) for matrix in rows)
    model = DaskPrismClassifier(random_state=0, client=client).fit(X, Y)
    assert len(trained) > 2, "all ranges of labels were trained at once"
    assert same_bits(model, fitted)


def test_the_dashboard_shows_the_phase() -> None:
    for phase in PHASES:
        name = task_name(phase, "some-step", "123456789012", 7)
        assert key_split(name) == f"labelprism-{phase}-some-step"
        assert phase_of(name, "123456789012") == phase
    assert phase_of(name, "9") is None


def test_a_copy_without_its_client_predicts(fitted: DaskPrismClassifier, held_out: Any, client: Any) -> None:
    copy = pickle.loads(pickle.dumps(fitted))
    assert copy.client is None
    chunks = chunked(held_out[0][:50], [0, 50])
    with client.as_current():
        np.testing.assert_array_equal(copy.predict_topk(chunks)[0].compute(), fitted.predict_topk(chunks)[0].compute())


def test_classes_weights_and_dense_chunks(client: Any) -> None:
    X, Y = topics(1500, 4)
    dense, weight = X.toarray(), np.random.default_rng(0).integers(0, 3, X.shape[0]).astype(float)
    names = np.array([f"topic {label:03d}" for label in Y.indices[Y.indptr[:-1]]])
    cuts = [0, 700, 1500]
    model = DaskPrismClassifier(preset="fast", random_state=0, client=client)
    model.fit(chunked(dense, cuts), chunked(names, cuts), sample_weight=chunked(weight, cuts))
    one = PrismClassifier(preset="fast", random_state=0).fit(X, names, sample_weight=weight)
    assert model.classes_.tolist() == one.classes_.tolist()
    np.testing.assert_allclose(model.class_prior_, one.class_prior_)
    found, wanted = model.predict(chunked(dense, cuts)).compute(), one.predict(X)
    assert found.dtype == wanted.dtype
    assert (found == wanted).mean() > 0.99
    again = DaskPrismClassifier(preset="fast", random_state=0, client=client)
    again.fit(chunked(dense, cuts), chunked(names, cuts), sample_weight=weight)
    assert same_bits(model, again)


def test_validation_rows_and_propensities(rows: Any, held_out: Any, client: Any) -> None:
    X, Y = (matrix[:3000] for matrix in rows)
    validation = held_out[0][:500], held_out[1][:500]
    cuts, one = [0, 1500, 3000], PrismClassifier(preset="fast", objective="propensity", random_state=0)
    model = DaskPrismClassifier(preset="fast", objective="propensity", random_state=0, client=client)
    weight = np.random.default_rng(0).uniform(1, 2, 3000) / 1e4  # propensities ask for the number of rows, not for this
    of_chunks = [chunked(part, [0, 100, 500]) for part in validation]
    model.fit(chunked(X, cuts), chunked(Y, cuts), sample_weight=weight, validation=of_chunks)
    one.fit(X, Y, sample_weight=weight, validation=validation)
    np.testing.assert_allclose(model.recipe_.blend_, one.recipe_.blend_, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"filter": SpectralForest()}, "use PrismClassifier"),
        ({"preset": "paper"}, "use PrismClassifier"),
        ({"preset": "slow"}, "preset must be one of"),
    ],
)
def test_what_cannot_be_distributed(parameters: dict[str, Any], message: str, client: Any) -> None:
    X, Y = (chunked(matrix, [0, 30]) for matrix in topics(30, 5))
    with pytest.raises(ValueError, match=message):
        DaskPrismClassifier(client=client, **parameters).fit(X, Y)


def test_workers_are_there_when_the_summary_of_the_client_names_none(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client asks for a summary every two seconds, and may get it between any question and its answer."""
    update = client._update_scheduler_info
    monkeypatch.setattr(client, "_update_scheduler_info", lambda n_workers=0: update(n_workers=0))
    assert not client.scheduler_info()["workers"]
    assert len(Cluster(client).workers()) == 2


def test_bad_chunks_are_named(client: Any) -> None:
    X, Y = topics(60, 6)
    whole_X, whole_Y = chunked(X, [0, 30, 60]), chunked(Y, [0, 30, 60])
    mixed = da.concatenate([whole_X[:30], da.map_blocks(_cut, whole_X[30:], dtype=np.float32)])
    holes = X.copy()
    holes.data[-1] = np.nan
    for bad_X, bad_Y, message in [
        (X, whole_Y, "X must be a dask array"),
        (whole_X, [("a",)] * 60, "y must be a dask array"),
        (mixed, whole_Y, "chunks of X must have the same number of columns; there are 600 and 500"),
        (whole_X, whole_Y[:50], "X has 60 rows and y has 50"),
        (chunked(holes, [0, 30, 60]), whole_Y, "chunk 1 of X holds NaN"),
        (whole_X, chunked(sp.csr_array(Y.shape, dtype=np.float32), [0, 30, 60]), "no example has a label"),
        (chunked(X.toarray(), [0, 60]).rechunk((60, 300)), whole_Y, "rows must not be cut"),
        (chunked(X[:0], [0, 0]), chunked(Y[:0], [0, 0]), "no rows"),
        (whole_X, None, "requires y"),
    ]:
        with pytest.raises(ValueError, match=message):
            DaskPrismClassifier(client=client).fit(bad_X, bad_Y)
    with pytest.raises(ValueError, match="sample_weight must hold finite values"):
        DaskPrismClassifier(client=client).fit(whole_X, whole_Y, sample_weight=np.full(60, -1.0))
    with pytest.raises(ValueError, match="scratch is for"):
        DaskPrismClassifier(client=client).fit(whole_X, whole_Y, scratch="somewhere")


def _cut(block: Any) -> Any:
    return block[:, :500]


def test_a_few_rows_and_a_worker_without_data(client: Any) -> None:
    X, Y = topics(7, 7)
    model = DaskPrismClassifier(random_state=0, client=client).fit(chunked(X, [0, 7]), chunked(Y, [0, 7]))
    one = PrismClassifier(random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.predict_topk(X)[0], one.predict_topk(X)[0])
    assert model.n_features_in_ == N_FEATURES
