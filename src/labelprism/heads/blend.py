"""The blend: one score from what the experts say of a candidate, learned on rows that none of them has seen.

``score = w_H log p_H + w_F log p_F + w_C cosine + w_N log(1 + examples of the label)``

The weights maximise the likelihood of the true labels under a softmax over the candidates of each held-out row. The
last term matters when training rows and later rows differ in how rare their labels are: without it the other weights
would have to speak for the label's frequency too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from labelprism._arrays import Int32, Int64

Float64 = npt.NDArray[np.float64]

NOT_REACHED = float(np.log(1e-4))
"""log p_F of labels that the forest does not offer."""

_LOWEST_LOG_HEAD = -13.69  # no label is out of the race by the head alone
_ITERATIONS = 12


class BlendWeights(NamedTuple):
    """The weights of the three experts and of the label's frequency."""

    head: float = 1.0
    forest: float = 0.4
    centroid: float = 6.0
    frequency: float = 0.1


DEFAULT_BLEND = BlendWeights()
"""What is used where there are too few held-out rows to learn from; learned weights are drawn towards it."""


def log_head(margin: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return log p_H for margins of the head: p_H = exp(-max(0, 1 - margin)^2)."""
    return np.maximum(-np.square(np.maximum(0.0, 1.0 - margin)), _LOWEST_LOG_HEAD)


def learn_blend(
    indptr: Int64, features: Float64, is_true: npt.NDArray[np.bool_], importance: Float64 | None = None
) -> BlendWeights:
    """Learn the blend by maximum likelihood of the true labels among the candidates of each row.

    Parameters
    ----------
    indptr : int64 array of shape (n + 1,)
        Where the candidates of each row begin.
    features : float64 array of shape (m, 4)
        log p_H, log p_F, the cosine and the log of 1 + the label's examples, for all candidates of all rows.
    is_true : bool array of shape (m,)
        Whether the row has the label.
    importance : float64 array of shape (m,), optional
        How much it matters to rank the label high where it is true: the inverse propensities, for instance.
    """
    weight = is_true.astype(np.float64) if importance is None else is_true * importance
    row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    mass = np.bincount(row, weight, len(indptr) - 1)
    kept = mass[row] > 0  # rows without a true candidate teach nothing
    if not kept.any():
        return DEFAULT_BLEND
    if importance is None:
        weight = weight / np.maximum(mass, 1e-12)[row]  # each row counts the same
        mass = (mass > 0).astype(np.float64)
    else:
        weight, mass = weight / mass.sum() * (mass > 0).sum(), mass / mass.sum() * (mass > 0).sum()
    starts = np.flatnonzero(np.diff(row[kept], prepend=-1))
    return _newton(
        features[kept], weight[kept], np.repeat(mass[row[kept][starts]], _lengths(starts, kept.sum())), starts
    )


def _lengths(starts: npt.NDArray[np.int64], total: int) -> npt.NDArray[np.int64]:
    return np.diff(np.append(starts, total))


def _newton(features: Float64, weight: Float64, mass: Float64, starts: npt.NDArray[np.int64]) -> BlendWeights:
    """Maximise sum of weight * log softmax less a penalty for leaving the default, by damped Newton steps."""
    lengths = _lengths(starts, len(weight))
    start = np.array(DEFAULT_BLEND)
    # One "row" of doubt in units of each weight's default keeps the problem well-posed when an expert says nothing.
    penalty = np.diag(1.0 / np.square(np.maximum(np.abs(start), 0.1)))
    target = features.T @ weight

    def evaluate(w: Float64) -> tuple[float, Float64]:
        score = features @ w
        score -= np.repeat(np.maximum.reduceat(score, starts), lengths)
        p = np.exp(score)
        total = np.add.reduceat(p, starts)
        p /= np.repeat(total, lengths)
        value = float(weight @ score - mass[starts] @ np.log(total) - 0.5 * (w - start) @ penalty @ (w - start))
        return value, p

    w = start.copy()
    value, p = evaluate(w)
    for _ in range(_ITERATIONS):
        expected = np.add.reduceat(features * p[:, None], starts, axis=0)
        gradient = target - (features * (p * mass)[:, None]).sum(0) - penalty @ (w - start)
        curvature = features.T @ (features * (p * mass)[:, None]) + penalty
        curvature -= expected.T @ (expected * mass[starts][:, None])
        step = np.linalg.solve(curvature, gradient)
        for _ in range(6):
            new_value, new_p = evaluate(w + step)
            if new_value >= value:
                break
            step = step / 2
        else:
            break
        w, p = w + step, new_p
        if new_value - value < 1e-4 * abs(value) / 100:
            break
        value = new_value
    return BlendWeights(*map(float, w))


def is_true_label(indptr: Int64, labels: Int32, Y: Any) -> npt.NDArray[np.bool_]:
    """Tell for each candidate whether its row has the label.

    Parameters
    ----------
    indptr, labels : arrays of shapes (n + 1,) and (m,)
        The candidates of each row.
    Y : csr_array of shape (n, c), sorted
    """
    c = np.int64(Y.shape[1])
    true = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr)) * c + Y.indices
    asked = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)) * c + labels
    return np.asarray(np.append(true, -1)[np.searchsorted(true, asked)] == asked)
