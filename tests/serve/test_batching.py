"""The queue: batches, limits and deadlines; and features that are those of `TextFeatures`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from serve_corpus import corpus, train_texts

from labelprism.features import TextFeatures
from labelprism.serve.batching import Batcher, Job
from labelprism.serve.errors import RequestError
from labelprism.serve.served_model import Ranking, ServedModel
from labelprism.serve.sparse_rows import SparseRows
from labelprism.serve.text_rows import TextRows
from labelprism.serve.time_limits import TimeLimits

TEXTS, _ = corpus(60, 3)


class SlowModel:
    """Stands for a model whose answers take as long as the test says: real ones take microseconds."""

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.calls: list[int] = []

    def rank(self, rows: Any, k: int, likely: bool) -> Ranking:
        assert self.may_go.wait(20)
        self.calls.append(len(rows))
        if "bad" in rows:
            raise ValueError("no such text")
        return Ranking(np.array([[int(row)] for row in rows], np.int32), np.zeros((len(rows), 1)))


def run(scenario: Callable[[Callable[..., Batcher]], Coroutine[Any, Any, None]]) -> None:
    with ThreadPoolExecutor(1) as thread:

        def batcher(model: Any, max_rows: int = 1000) -> Batcher:
            return Batcher(lambda: model, thread, max_rows, lambda rows: None)

        asyncio.run(scenario(batcher))


def numbers(begin: int, end: int) -> list[str]:
    return [str(number) for number in range(begin, end)]


def job(rows: list[str], k: int = 1, seconds: float = 10.0) -> Job:
    return Job(rows, k, False, seconds)


def test_what_waits_goes_together_and_comes_back_apart() -> None:
    async def scenario(batcher: Any) -> None:
        model = SlowModel()
        queue = batcher(model)
        first = queue.submit(job(numbers(0, 100)))  # large: goes to the thread, and the others gather meanwhile
        await asyncio.sleep(0.05)
        others = [queue.submit(job(numbers(begin, begin + 2))) for begin in range(100, 120, 2)]
        another_k = queue.submit(job(numbers(500, 501), k=2))
        model.may_go.set()
        results = [await each for each in (first, *others, another_k)]
        assert model.calls == [100, 16, 4, 1]
        assert [ranking.labels[:, 0].tolist() for ranking, _ in results[1:4]] == [[100, 101], [102, 103], [104, 105]]
        assert results[-1][0].labels.tolist() == [[500]]
        assert queue.n_rows == 0

    run(scenario)


def test_the_queue_is_bounded_and_recovers() -> None:
    async def scenario(batcher: Any) -> None:
        model = SlowModel()
        queue = batcher(model, max_rows=150)
        waiting = [queue.submit(job(numbers(0, 100)))]
        await asyncio.sleep(0.05)
        waiting.append(queue.submit(job(numbers(0, 50))))
        with pytest.raises(RequestError, match="150 rows wait already, at most 150") as refused:
            queue.submit(job(numbers(0, 1)))
        assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "1"})
        model.may_go.set()
        await asyncio.gather(*waiting)
        ranking, _ = await queue.submit(job(numbers(7, 8)))
        assert ranking.labels.tolist() == [[7]]

    run(scenario)


def test_a_request_larger_than_the_queue_is_taken_when_nothing_waits() -> None:
    async def scenario(batcher: Any) -> None:
        model = SlowModel()
        model.may_go.set()
        ranking, _ = await batcher(model, max_rows=10).submit(job(numbers(0, 60)))
        assert ranking.labels.shape == (60, 1)

    run(scenario)


def test_who_waited_too_long_is_told_in_time_and_not_computed() -> None:
    async def scenario(batcher: Any) -> None:
        model = SlowModel()
        queue = batcher(model)
        first = queue.submit(job(numbers(0, 100)))
        await asyncio.sleep(0.05)
        late = queue.submit(job(numbers(0, 60), seconds=0.05))
        patient = queue.submit(job(numbers(200, 201)))
        with pytest.raises(RequestError, match="--deadline-ms") as refused:
            await asyncio.wait_for(late, 5)  # while the first is still being computed
        assert refused.value.status == 503
        model.may_go.set()
        await asyncio.gather(first, patient)
        assert model.calls == [100, 1]
        assert queue.n_rows == 0

    run(scenario)


def test_who_waited_too_long_for_the_event_loop_is_not_computed() -> None:
    async def scenario(batcher: Any) -> None:
        model = SlowModel()
        model.may_go.set()
        queue = batcher(model)
        late, patient = queue.submit(job(numbers(0, 1), seconds=0.01)), queue.submit(job(numbers(5, 6)))
        time.sleep(0.03)  # noqa: ASYNC251 - something else holds the loop
        with pytest.raises(RequestError, match="--deadline-ms"):
            await late
        ranking, _ = await patient
        assert ranking.labels.tolist() == [[5]]
        assert (model.calls, queue.n_rows) == ([1], 0)

    run(scenario)


def test_errors_and_cancelled_requests_leave_no_trace() -> None:
    async def scenario(batcher: Any) -> None:
        model = SlowModel()
        queue = batcher(model)
        bad = queue.submit(job(["bad"] * 60))
        await asyncio.sleep(0.05)
        left = queue.submit(job(numbers(0, 60)))
        left.cancel()
        good = queue.submit(job(numbers(3, 4)))
        model.may_go.set()
        with pytest.raises(ValueError, match="no such text"):
            await bad
        ranking, _ = await good
        assert ranking.labels.tolist() == [[3]]
        small = queue.submit(job(["bad"]))
        with pytest.raises(ValueError, match="no such text"):
            await small
        assert (model.calls, queue.n_rows) == ([60, 1, 1], 0)

    run(scenario)


def test_time_limits() -> None:
    async def scenario() -> None:
        limits = TimeLimits(0.1)
        watching = asyncio.create_task(limits.watch())

        async def sleep(seconds: float) -> str:
            with limits.limited(lambda: ValueError("too slow")):
                await asyncio.sleep(seconds)
            await asyncio.sleep(0)  # it is not cancelled any more
            return "done"

        assert await sleep(0.01) == "done"
        with pytest.raises(ValueError, match="too slow"):
            await sleep(5)
        other = asyncio.create_task(sleep(5))
        await asyncio.sleep(0.01)
        other.cancel()
        with pytest.raises(asyncio.CancelledError):
            await other
        watching.cancel()

    asyncio.run(scenario())


# ----------------------------------------------------------------------------------------------------------- features


OPTIONS = [
    {},
    {"words": (1, 2)},
    {"characters": (3, 4)},
    {"words": None, "characters": (2, 3)},
    {"weighting": "hellinger"},
    {"weighting": "none"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), min_size=1, max_size=5))
def test_features_have_the_same_bits(options: dict[str, Any], texts: list[str]) -> None:
    features = TextFeatures.from_arrays(*_kept(options))
    expected = features.transform(texts)
    _same_bits(TextRows(features, 1).transform(texts), expected)


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [""],
        ["boat " * 1023, "sail"],
        ["boat " * 1024, "sail"],  # more than there are weights for
        ["STRASSE straße ﬁne", "I\u0307stanbul 水 e\u0301", "boat"],  # characters that fold together only
    ],
    ids=["none", "empty", "many", "too many", "folded"],
)
def test_unusual_texts_have_the_same_bits(texts: list[str]) -> None:
    features = TextFeatures.from_arrays(*_kept({}))
    _same_bits(TextRows(features, 1).transform(texts), features.transform(texts))


def test_half_a_surrogate_pair_is_told() -> None:
    with pytest.raises(ValueError, match="surrogate"):
        TextRows(TextFeatures.from_arrays(*_kept({})), 1).transform(["boat", "\ud800"])


def _same_bits(rows: SparseRows, expected: Any) -> None:
    np.testing.assert_array_equal(rows.indptr, expected.indptr)
    np.testing.assert_array_equal(rows.indices, expected.indices)
    assert rows.data.tobytes() == expected.data.tobytes()


def _kept(options: dict[str, Any]) -> tuple[Any, Any]:
    key = str(options)
    if key not in _FITTED:
        features = TextFeatures(n_bits=9, **options).fit([*TEXTS, "STRASSE ﬁne İstanbul 水"])
        _FITTED[key] = features.meta(), features.arrays()
    return _FITTED[key]


_FITTED: dict[str, tuple[Any, Any]] = {}


def test_a_batch_gets_what_each_row_gets_alone(tmp_path: Path) -> None:
    classifier = train_texts(tmp_path / "model")
    model = ServedModel("m", str(tmp_path / "model"), 1)
    labels, scores = classifier.predict_topk(TEXTS, 4)
    together = model.rank(TEXTS, 4)
    np.testing.assert_array_equal(together.labels, labels)
    np.testing.assert_array_equal(together.scores, np.round(scores.astype(float), 6))
    strange = ["boat straße ﬁne", "sail " * 2000, "", "水"]
    labels_of_strange, scores_of_strange = classifier.predict_topk(strange, 4)
    found = model.rank(strange, 4)
    np.testing.assert_array_equal(found.labels, labels_of_strange)
    np.testing.assert_array_equal(found.scores, np.round(scores_of_strange.astype(float), 6))
    for row, text in enumerate(TEXTS[:10]):
        alone = model.rank([text], 4)
        np.testing.assert_array_equal(alone.labels[0], labels[row])
        np.testing.assert_array_equal(alone.scores[0], together.scores[row])
