from __future__ import annotations

import numpy as np
import pytest

from labelprism.metrics import expected_calibration_error


def test_what_is_calibrated_has_no_error() -> None:
    assert expected_calibration_error([1, 0, 1, 0], [0.5, 0.5, 0.5, 0.5]) == 0
    assert expected_calibration_error([[True, False]], [[1.0, 0.0]]) == 0


def test_the_error_is_the_mean_distance() -> None:
    assert expected_calibration_error([1, 1, 1, 1], [0.6] * 4) == pytest.approx(0.4)
    # Two bins: half of the rows off by 0.2, the others right.
    likely = np.array([0.9] * 10 + [0.3] * 10)
    true = np.array([1] * 7 + [0] * 3 + [1] * 3 + [0] * 7)
    assert expected_calibration_error(true, likely) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("true", "likely", "bins", "words"),
    [
        ([], [], 15, "not 0"),
        ([1], [0.5, 0.5], 15, "one size"),
        ([1], [1.5], 15, "from 0 to 1"),
        ([1], [np.nan], 15, "from 0 to 1"),
        ([1], [0.5], 0, "n_bins"),
    ],
)
def test_what_cannot_be_measured(true: list[int], likely: list[float], bins: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        expected_calibration_error(true, likely, bins)
