"""The largest of many sums, and how they are added up, against their twins and for every instruction set."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from labelprism import _core, _reference

# Few distinct values, so that ties, zeros, infinities and the smallest numbers there are are common.
SUMS = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 1e-45, 2e-38, 0.25, 0.3, 0.5, 1.0, 3e38, np.inf])


@pytest.fixture(params=_core.instruction_sets())
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    before = _core.instruction_set()
    _core.use_instruction_set(request.param)
    yield request.param
    _core.use_instruction_set(before)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=hnp.arrays(np.float32, st.integers(0, 70), elements=SUMS), wanted=st.integers(1, 80))
def test_ties_and_awkward_values(instruction_set: str, values: np.ndarray, wanted: int) -> None:
    assert _core.largest_places(values, wanted) == _reference.largest_places(values, wanted)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_many_values(instruction_set: str, scale: float) -> None:
    rng = np.random.default_rng(0)
    values = (scale * np.exp(3 * rng.standard_normal(1003))).astype(np.float32)
    values[rng.random(values.size) < 0.3] = 0
    for wanted in (1, 2, 10, 21, 22, 75, 700, 1003, 5000):
        assert _core.largest_places(values, wanted) == _reference.largest_places(values, wanted)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1), count=st.integers(250, 700), kinds=st.integers(1, 400), wanted=st.integers(1, 21)
)
def test_few_wanted_of_many(instruction_set: str, seed: int, count: int, kinds: int, wanted: int) -> None:
    rng = np.random.default_rng(seed)  # groups of values are looked at first: all in one, none in some, ties across all
    values = rng.choice((2 + rng.standard_normal(kinds)).astype(np.float32), count)
    values[rng.random(count) < rng.choice([0.0, 0.5, 0.99])] = 0
    values[:: rng.choice([8, 64])] += 3
    assert _core.largest_places(values, wanted) == _reference.largest_places(values, wanted)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 64, 101])
def test_halves_are_added_up(instruction_set: str, count: int) -> None:
    rng = np.random.default_rng(count)
    labels = rng.integers(0, 50, count).astype(np.int32)
    halves = (rng.standard_normal(count) * 10.0 ** rng.integers(-7, 4, count)).astype(np.float16).view(np.uint16)
    sums = rng.standard_normal(51).astype(np.float32)
    result = _core.add_halves(labels, halves, 0.7, sums)
    assert result.tobytes() == _reference.add_halves(labels, halves, 0.7, sums).tobytes()


def test_labels_of_a_damaged_model_stay_inside(instruction_set: str) -> None:
    labels = np.array([0, 3, -1, 2**31 - 1, -(2**31), 4, 5, 2, 3, -7], np.int32)
    halves = np.full(labels.size, np.float16(1).view(np.uint16))
    result = _core.add_halves(labels, halves, 1.0, np.zeros(4, np.float32))
    np.testing.assert_array_equal(result, [1, 0, 1, 8])
