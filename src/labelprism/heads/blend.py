"""The blend: one score from what the experts say of a candidate, learned on rows that none of them has seen.

``score = w_H log p_H + w_F log p_F + w_C cosine + w_N log(1 + examples) + w_U [not reached] + w_G log p_G + w_E log v
+ w_S cosine in the space``

A label that the forest did not reach has a small p_F that stands for "unknown", and w_U says what it is worth to be
unknown: it may have been found by better means. The mean over the label's clusters, log p_G, is there where labels were
clustered; the votes of near examples, v, and the cosine in the space of features and labels (`label_space`) where they
help.

The weights make the true labels likely under a softmax over the candidates of each held-out row. The frequency matters
when training rows and later rows differ in how rare their labels are: without it the other weights would have to speak
for the label's frequency too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from labelprism import _core
from labelprism._arrays import Int32, Int64

Float64 = npt.NDArray[np.float64]

NOT_REACHED = float(np.log(1e-4))
"""log p_F of labels that the forest does not offer."""

_LOWEST_LOG_HEAD = -13.69  # no label is out of the race by the head alone
_ITERATIONS, _HALVINGS = 12, 6  # of Newton's method
_LEAST_WEIGHTS = (0.0, 0.0, 0.0, -np.inf, -np.inf, 0.0, 0.0, 0.0)  # what experts say for a label counts for it, or not
_UNITS = (1.0, 0.4, 6.0, 0.1, 1.0, 0.5, 0.5, 6.0)  # of the weights: their defaults, but for three that are 0
_DOUBT = 0.5  # standard errors: the first way is left for a reason only
_STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)  # on the way between two solutions; few rows cannot tell what is beyond


class BlendWeights(NamedTuple):
    """The weights of the terms of the score: see above."""

    head: float = 1.0
    forest: float = 0.4
    centroid: float = 6.0
    frequency: float = 0.1
    unreached: float = 0.0
    clusters: float = 0.5
    examples: float = 0.0
    space: float = 0.0


DEFAULT_BLEND = BlendWeights()
"""What is used where there are too few held-out rows to learn from; learned weights are drawn towards it."""


def log_head(margin: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return log p_H for margins of the head: p_H = exp(-max(0, 1 - margin)^2)."""
    return np.maximum(-np.square(np.maximum(0.0, 1.0 - margin)), _LOWEST_LOG_HEAD)


def blend_and_likelihood(
    indptr: Int64,
    features: Float64,
    is_true: npt.NDArray[np.bool_],
    n_true: npt.NDArray[Any] | None = None,
    importance: Float64 | None = None,
    n_threads: int = 1,
) -> tuple[BlendWeights, float]:
    """Learn the blend on held-out rows.

    Two likelihoods are maximised: that of all true labels of a row under a softmax over its candidates, and that of
    any of them, which cares for the first ranks. They differ where rows have several labels; of the points on the way
    from the second to the first, that one is taken first whose nDCG@5 the best of them beats by less than half a
    standard error. With `importance`, which is for the labels that are seldom first, it is the way from the first to
    the second, and PSP@5.

    Parameters
    ----------
    indptr : int64 array of shape (n + 1,)
        Where the candidates of each row begin.
    features : float64 array of shape (m, 4) to (m, 8)
        log p_H, log p_F, the cosine, the log of 1 + the label's examples, whether the forest did not reach it (1 or
        0), the mean of log p of its clusters, the logarithm of its votes and its cosine in the space, for all
        candidates of all rows.
    is_true : bool array of shape (m,)
        Whether the row has the label.
    n_true : int array of shape (n,), optional
        How many labels each row has, candidates or not; those among the candidates when left out.
    importance : float64 array of shape (m,), optional
        How much it matters to rank the label high where it is true: the inverse propensities, for instance.
    n_threads : int
        The result does not depend on it.

    Returns
    -------
    blend : BlendWeights
    likelihood : float
        The logarithm of the likelihood of any true label, less a penalty, at its maximum. It says more surely than
        nDCG@5 of as many rows whether other features would be better.
    """
    indptr, features = np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(features, np.float64)
    n = len(indptr) - 1
    row = np.repeat(np.arange(n), np.diff(indptr))
    weight = np.asarray(is_true if importance is None else is_true * importance, np.float64)
    mass = np.bincount(row, weight, n)
    teaches = mass > 0  # rows without a true candidate do not
    if not teaches.any():
        return DEFAULT_BLEND, 0.0
    # Each row counts the same; with importance each true label does as its own says.
    share = weight / (np.where(teaches, mass, 1.0)[row] if importance is None else mass.sum() / teaches.sum())
    problem = _Softmax(indptr, features, share, n_threads)
    all_labels, likelihood = problem.maximise(problem.of_all_labels, problem.default)
    least = _LEAST_WEIGHTS[: features.shape[1]]
    if np.bincount(row, is_true).max() <= 1:
        return _blend_of(np.maximum(all_labels, least)), likelihood
    any_label, likelihood = problem.maximise(problem.of_any_label, all_labels)
    ideal = mass if n_true is None or importance is not None else np.asarray(n_true)
    begin, end = (any_label, all_labels) if importance is None else (all_labels, any_label)
    ways = [np.maximum(begin + step * (end - begin), least) for step in _STEPS]
    best = (_core.best_candidates(indptr, features, way, 5, n_threads) for way in ways)
    gains = np.stack([_gains(of_way, weight, ideal, importance is None) for of_way in best])
    return _blend_of(ways[_first_of_the_best(gains)]), likelihood


def _blend_of(weights: Float64) -> BlendWeights:
    """Return the blend of the first weights; what there is none of has a weight of 0."""
    return BlendWeights(*weights.tolist(), *[0.0] * (len(BlendWeights._fields) - weights.size))


def _first_of_the_best(gains: Float64) -> int:
    """Return which way is taken: the first that the best one beats by less than `_DOUBT` standard errors.

    Parameters
    ----------
    gains : float64 array of shape (ways, n)
        Of every held-out row.
    """
    behind = gains[gains.sum(1).argmax()] - gains
    doubt = behind.std(1) * np.sqrt(gains.shape[1])  # of the sum over rows
    return int(np.argmax(behind.sum(1) <= _DOUBT * doubt))


def combined(features: Float64, weights: Float64) -> Float64:
    """Return features @ weights, without BLAS: its threads take longer to wake up than these few numbers need."""
    return np.asarray(np.einsum("ij,j->i", features, weights))


def _gains(best: Int64, weight: Float64, ideal: npt.NDArray[Any], is_ndcg: bool) -> Float64:
    """Return nDCG@5 of each row, or the weight of its true labels among the first five.

    Parameters
    ----------
    best : int64 array of shape (n, 5)
        The first five candidates of each row; -1 where it has fewer.
    weight : float64 array of shape (m,)
        Of each candidate; 0 for wrong ones.
    ideal : array of shape (n,)
        How many true labels each row has.
    is_ndcg : bool
    """
    found = np.where(best >= 0, weight[best], 0.0)
    if not is_ndcg:
        return np.asarray(found.sum(1))
    discount = 1 / np.log2(np.arange(2, 7))
    most = np.concatenate([[1.0], np.cumsum(discount)])[np.minimum(ideal, 5).astype(np.intp)]
    return np.asarray(combined(found, discount) / most)


class _Likelihood(NamedTuple):
    """A penalised log-likelihood at a point: its value, its gradient, and its curvature with the sign turned."""

    value: float
    gradient: Float64
    curvature: Float64


class _Softmax:
    """Likelihoods of true candidates under the softmax of weighted features, less a penalty for leaving the default.

    Parameters
    ----------
    indptr : int64 array of shape (n + 1,)
        Where the candidates of each row begin.
    features : float64 array of shape (m, 4) to (m, 8)
    share : float64 array of shape (m,)
        How much each candidate counts as the true one of its row; 0 for wrong ones. Rows of wrong ones are left out.
    n_threads : int
    """

    def __init__(self, indptr: Int64, features: Float64, share: Float64, n_threads: int) -> None:
        self.candidates, self.n_threads = (indptr, features, share), n_threads
        self.default = np.array(DEFAULT_BLEND[: features.shape[1]])
        # One row of doubt in units of each weight keeps the problem well-posed when an expert says nothing.
        self.penalty = np.diag(1.0 / np.square(_UNITS[: features.shape[1]]))

    def of_all_labels(self, w: Float64) -> _Likelihood:
        """Return that of all true labels: the sum of share * log p, which is concave."""
        value, gradient, covariance, _ = self._at(w, any_label=False)
        return self._penalised(w, value, gradient, covariance)

    def of_any_label(self, w: Float64) -> _Likelihood:
        """Return that of any true label: the sum over rows of their mass * log(sum of share * p).

        It need not be concave. Where it is not, or hardly, its curvature is replaced by that of the bound which EM
        would maximise, which is.
        """
        value, gradient, covariance, covariance_if_true = self._at(w, any_label=True)
        if np.linalg.eigvalsh(0.95 * covariance - covariance_if_true + self.penalty)[0] > 0:
            covariance = covariance - covariance_if_true
        return self._penalised(w, value, gradient, covariance)

    def maximise(self, likelihood: Callable[[Float64], _Likelihood], w: Float64) -> tuple[Float64, float]:
        """Maximise a likelihood from w by Newton steps, halved while they lead down; return where, and its value."""
        here = likelihood(w)
        for _ in range(_ITERATIONS):
            step = np.linalg.solve(here.curvature, here.gradient)
            for _ in range(_HALVINGS):
                there = likelihood(w + step)
                if there.value >= here.value:
                    break
                step = step / 2
            else:
                break
            gained = there.value - here.value
            w, here = w + step, there
            if gained < 1e-6 * abs(here.value):
                break
        return w, here.value

    def _at(self, w: Float64, any_label: bool) -> tuple[float, Float64, Float64, Float64]:
        return _core.softmax_likelihood(*self.candidates, w, any_label, self.n_threads)

    def _penalised(self, w: Float64, value: float, gradient: Float64, curvature: Float64) -> _Likelihood:
        away = w - self.default
        pull = self.penalty @ away
        return _Likelihood(value - 0.5 * float(away @ pull), gradient - pull, curvature + self.penalty)


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
