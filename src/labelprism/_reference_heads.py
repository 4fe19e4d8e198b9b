"""The heads' kernels again, in NumPy and float64: the oracle of their tests, written to be read and not to be fast.

Rows are dense here, whatever they are in the kernels. The parameters of a head are in `HeadParameters`; a slot is a
candidate of a leaf.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_BATCHES_PER_WAVE = 8


@dataclass
class HeadParameters:
    """The parameters of a head over rows of width d; empty arrays where a task mode has none."""

    label_bias: Array
    """(c,)"""
    slot_bias: Array
    """(n_slots,) or (0,)"""
    labels: Array
    """(c, d (q + 1)), or (0, 0): the weights w_l, then those of each code"""
    slots: Array
    """(n_slots, d) or (0, 0)"""
    codes: Array
    """(n_leaves, q)"""
    embedding: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """(n_features, d), or (0, 0) where rows are not embedded"""

    def copy(self) -> HeadParameters:
        """Return a copy that shares nothing."""
        return replace(self, **{f.name: getattr(self, f.name).copy() for f in fields(self)})


def embedded(x: Array, parameters: HeadParameters) -> Array:
    """Return the rows that are scored, V'x where there is an embedding."""
    return x @ parameters.embedding if parameters.embedding.size else x


def head_scores(x: Array, leaf: int, table: Any, parameters: HeadParameters) -> Array:
    """Return the scores (n, k) of a leaf's candidates: b_l + b_s + w_l.z + sum over q of a_q w_lq.z + w_s.z.

    Parameters
    ----------
    x : array of shape (n, n_features)
    leaf : int
    table : csr_array of shape (n_leaves, c)
        The candidates.
    parameters : HeadParameters
    """
    slots = slice(table.indptr[leaf], table.indptr[leaf + 1])
    labels = table.indices[slots]
    z = embedded(x, parameters)
    d = z.shape[1]
    scores = np.tile(parameters.label_bias[labels], (z.shape[0], 1))
    if parameters.slot_bias.size:
        scores += parameters.slot_bias[slots]
    if parameters.labels.size:
        weights = parameters.labels[labels]
        scores += z @ weights[:, :d].T
        for q, code in enumerate(parameters.codes[leaf]):
            scores += code * (z @ weights[:, (q + 1) * d : (q + 2) * d].T)
    if parameters.slots.size:
        scores += z @ parameters.slots[slots].T
    return scores


def head_loss(scores: Array, positive: npt.NDArray[np.bool_], loss: str) -> float:
    """Return the mean loss of rows; one without a positive counts nothing under softmax.

    Parameters
    ----------
    scores : array of shape (n, k)
    positive : bool array of shape (n, k)
    loss : {"softmax", "logistic"}
    """
    if loss == "logistic":
        return float((np.logaddexp(0, scores) - positive * scores).sum() / len(scores))
    highest = scores.max(axis=1, keepdims=True)
    normaliser = np.log(np.exp(scores - highest).sum(axis=1)) + highest[:, 0]
    target = positive.sum(axis=1)
    mean_score = (positive * scores).sum(axis=1) / np.maximum(target, 1)
    return float(np.where(target > 0, normaliser - mean_score, 0).sum() / len(scores))


def head_positives(Y: Any, rows: npt.NDArray[np.int64], leaf: int, table: Any) -> npt.NDArray[np.bool_]:
    """Return which candidates of the leaf are labels of the rows, (n, k)."""
    labels = table.indices[table.indptr[leaf] : table.indptr[leaf + 1]]
    return np.asarray(Y[rows].toarray()[:, labels] > 0)


def head_gradient(
    x: Array, positive: npt.NDArray[np.bool_], leaf: int, table: Any, parameters: HeadParameters, loss: str
) -> HeadParameters:
    """Return the derivatives of the mean loss by all parameters.

    Parameters
    ----------
    x, leaf, table, parameters : as in `head_scores`
    positive, loss : as in `head_loss`
    """
    slots = slice(table.indptr[leaf], table.indptr[leaf + 1])
    labels = table.indices[slots]
    z = embedded(x, parameters)
    n, d = z.shape
    g = _score_gradient(head_scores(x, leaf, table, parameters), positive, loss) / n  # (n, k)
    gradient = replace(parameters, **{f.name: np.zeros_like(getattr(parameters, f.name)) for f in fields(parameters)})
    gradient.label_bias[labels] = g.sum(axis=0)
    by_row = np.zeros_like(z)
    if parameters.slot_bias.size:
        gradient.slot_bias[slots] = g.sum(axis=0)
    if parameters.labels.size:
        gradient.labels[labels, :d] = g.T @ z
        by_row += g @ parameters.labels[labels, :d]
        for q, code in enumerate(parameters.codes[leaf]):
            part = slice((q + 1) * d, (q + 2) * d)
            gradient.labels[labels, part] = code * (g.T @ z)
            gradient.codes[leaf, q] = (g * (z @ parameters.labels[labels, part].T)).sum()
            by_row += code * (g @ parameters.labels[labels, part])
    if parameters.slots.size:
        gradient.slots[slots] = g.T @ z
        by_row += g @ parameters.slots[slots]
    if parameters.embedding.size:
        gradient.embedding[:] = x.T @ limited(by_row, 1 / n)
    return gradient


def limited(rows: Array, largest: float) -> Array:
    """Return rows of at most a norm."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1, largest / np.maximum(norms, 1e-300)))


def _score_gradient(scores: Array, positive: npt.NDArray[np.bool_], loss: str) -> Array:
    if loss == "logistic":
        return np.asarray(0.5 * (1 + np.tanh(scores / 2)) - positive)
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    target = positive.sum(axis=1, keepdims=True)
    gradient = exponentials / exponentials.sum(axis=1, keepdims=True) - positive / np.maximum(target, 1)
    return np.where(target > 0, gradient, 0)


@dataclass
class HeadTwin:
    """Training by steps with momentum, candidate by candidate and batch by batch, as the native trainers do it."""

    table: Any
    loss: str
    parameters: HeadParameters
    rate: float
    momentum: float
    batch_size: int
    group_penalty: float = 0.0

    def __post_init__(self) -> None:
        zeros = {f.name: np.zeros_like(getattr(self.parameters, f.name)) for f in fields(self.parameters)}
        self.momenta = replace(self.parameters, **zeros)

    def train(self, x: Array, Y: Any, offsets: Any, leaves: Any) -> None:
        """Take the rows through one pass; see the native `train`."""
        for wave in self._waves(offsets, leaves):
            found = []
            for leaf, rows in wave:
                positive = head_positives(Y, rows, leaf, self.table)
                found.append(head_gradient(x[rows], positive, leaf, self.table, self.parameters, self.loss))
                found[-1].codes[leaf] = limited(found[-1].codes[[leaf]], 1)
            cautions = [self._caution(x[rows], leaf) for leaf, rows in wave]
            for (leaf, _), gradient, caution in zip(wave, found, cautions, strict=True):
                self._step(leaf, gradient, caution)
            if self.parameters.embedding.size:
                self._step_embedding(x, wave, found)

    def _waves(self, offsets: Any, leaves: Any) -> Iterator[list[tuple[int, npt.NDArray[np.int64]]]]:
        apart = self.loss == "logistic" and not self.parameters.codes.size and not self.parameters.embedding.size
        size = 1 if apart else _BATCHES_PER_WAVE
        for first in range(0, len(leaves), size):
            cut = []
            for v in range(first, min(first + size, len(leaves))):
                rows = np.arange(offsets[v], offsets[v + 1])
                has_candidates = self.table.indptr[leaves[v]] < self.table.indptr[leaves[v] + 1]
                starts = range(0, rows.size if has_candidates else 0, self.batch_size)
                cut.append([(int(leaves[v]), rows[s : s + self.batch_size]) for s in starts])
            for turn in range(max(map(len, cut))):
                yield [batches[turn] for batches in cut if turn < len(batches)]

    def _caution(self, x: Array, leaf: int) -> float:
        square = 1.0
        if self.parameters.embedding.size:
            square = max(1.0, float((embedded(x, self.parameters) ** 2).sum() / len(x)))
        return 1 / (square * (1 + float((self.parameters.codes[leaf] ** 2).sum())))

    def _step(self, leaf: int, gradient: HeadParameters, caution: float) -> None:
        slots = slice(self.table.indptr[leaf], self.table.indptr[leaf + 1])
        labels = self.table.indices[slots]
        places: tuple[tuple[str, Any, float], ...] = (
            ("label_bias", labels, 1.0),
            ("slot_bias", slots, 1.0),
            ("labels", labels, caution),
            ("slots", slots, caution),
            ("codes", leaf, 1.0),
        )
        for name, at, scale in places:
            values, momenta = getattr(self.parameters, name), getattr(self.momenta, name)
            if values.size:
                momenta[at] = self.momentum * momenta[at] + getattr(gradient, name)[at]
                values[at] -= self.rate * scale * momenta[at]
        if self.group_penalty and self.parameters.slots.size:
            self._shrink(slots, self.rate * caution * self.group_penalty)

    def _shrink(self, slots: slice, threshold: float) -> None:
        norms = np.linalg.norm(self.parameters.slots[slots], axis=1, keepdims=True)
        scale = np.maximum(0, 1 - threshold / np.maximum(norms, 1e-300))
        self.parameters.slots[slots] *= scale
        self.momenta.slots[slots] *= scale > 0

    def _step_embedding(self, x: Array, wave: Any, found: list[HeadParameters]) -> None:
        n = sum(rows.size for _, rows in wave)
        total = sum(rows.size / n * g.embedding for (_, rows), g in zip(wave, found, strict=True))
        touched = np.unique(np.nonzero(x[np.concatenate([rows for _, rows in wave])])[1])
        momenta = self.momenta.embedding
        momenta[touched] = self.momentum * momenta[touched] + total[touched]
        self.parameters.embedding[touched] -= self.rate * momenta[touched]


# ------------------------------------------------------------------------------------------------------------ the blend


def _mean_and_covariance(x: Array, p: Array) -> tuple[Array, Array]:
    """Those of the rows of x (m, k), drawn by p (m,)."""
    mean = p @ x
    return mean, (x - mean).T @ (p[:, None] * (x - mean))


def softmax_likelihood(
    indptr: npt.NDArray[np.int64], features: Array, share: Array, weights: Array, any_label: bool
) -> tuple[float, Array, Array, Array]:
    """Return the log-likelihood of all or any true candidates, its gradient, and covariances by p and by belief."""
    k = features.shape[1]
    value, gradient, covariance, covariance_if_true = 0.0, np.zeros(k), np.zeros((k, k)), np.zeros((k, k))
    for begin, end in pairwise(indptr):
        x, true = features[begin:end], share[begin:end]
        mass = true.sum()
        if mass == 0:
            continue
        score = x @ weights
        log_p = score - score.max() - np.log(np.exp(score - score.max()).sum())
        belief = np.exp(log_p) * true + 1e-300 * (true > 0) if any_label else true
        value += mass * np.log(belief.sum()) if any_label else true @ log_p
        mean, by_p = _mean_and_covariance(x, np.exp(log_p))
        mean_if_true, by_belief = _mean_and_covariance(x, belief / belief.sum())
        gradient += mass * (mean_if_true - mean)
        covariance += mass * by_p
        covariance_if_true += mass * by_belief
    return float(value), gradient, covariance, covariance_if_true


def logistic_likelihood(features: Array, is_true: npt.NDArray[np.bool_], weights: Array) -> tuple[float, Array, Array]:
    """Return the log-likelihood of a logistic curve, its gradient, and its curvature with the sign turned."""
    log_odds = features @ weights
    p, q = np.exp(-np.logaddexp(0, -log_odds)), np.exp(-np.logaddexp(0, log_odds))
    value = -np.logaddexp(0, np.where(is_true, -log_odds, log_odds)).sum()
    return float(value), (is_true - p) @ features, features.T @ ((p * q)[:, None] * features)


def best_candidates(
    indptr: npt.NDArray[np.int64], features: Array, weights: Array, n_best: int
) -> npt.NDArray[np.int64]:
    """Return the first candidates of every row by their weighted features in float32, equal ones in their order."""
    best = np.full((len(indptr) - 1, n_best), -1)
    score = (features @ weights).astype(np.float32)
    for row, (begin, end) in enumerate(pairwise(indptr)):
        order = [begin + t for t in np.argsort(-score[begin:end], kind="stable") if score[begin + t] > -np.inf]
        best[row, : len(order)] = order[:n_best]
    return best


# ------------------------------------------------------------------------------------- the space of features and labels

_MASK = (1 << 64) - 1


def _scrambled(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _drawn(entries: list[int], random: int) -> int:
    return entries[((random >> 32) * len(entries)) >> 32]


def _pulls(x: Array, labels: Array, columns: list[list[int]], own: list[set[int]], scale: float) -> Array:
    """Return the gradient of each row's loss by its vector, x (m, k) before rows are unit; see label_space.hpp.

    The columns of a row are its label, if it has one, and its drawn candidates; all rows of a block share them.
    """
    all_columns = [label for of_row in columns for label in of_row]
    gradient = np.zeros_like(x)
    for r, vector in enumerate(x):
        norm = np.linalg.norm(vector)
        if not own[r] or norm < 1e-12:
            continue
        unit, label = vector / norm, columns[r][0]
        compared = [label, *(other for other in all_columns if other not in own[r])]
        p = np.exp(scale * (labels[compared] @ unit))
        p /= p.sum()
        pull = p @ labels[compared] - labels[label]
        gradient[r] = (pull - (pull @ unit) * unit) / norm
    return gradient


def learn_space(
    X: Array, own: list[list[int]], weight: Array | None, candidates: list[list[int]], labels: Array, features: Array,
    squares: Array, number: int, n_passes: int, rate: float, scale: float, seed: int,
) -> tuple[Array, Array]:  # fmt: skip
    """Return the features of a space and the sums of their squared gradients after one pass; X (n, d) is dense."""
    features, squares, n = features.copy(), squares.copy(), X.shape[0]
    order, start = list(range(n)), _scrambled(seed ^ (~(number * n) & _MASK))
    for left in range(n, 1, -1):
        other = ((_scrambled((start + left) & _MASK) >> 32) * left) >> 32
        order[left - 1], order[other] = order[other], order[left - 1]
    for first in range(0, n, 1024):
        batch, gradient = order[first : first + 1024], []
        for begin in range(0, len(batch), 8):
            columns = []
            for row in batch[begin : begin + 8]:
                random = _scrambled((seed + row * n_passes + number) & _MASK)
                columns.append([_drawn(own[row], random)] if own[row] else [])
                for _ in range(3 if candidates and candidates[row] else 0):
                    random = _scrambled(random)
                    columns[-1].append(_drawn(candidates[row], random))
            block = batch[begin : begin + 8]
            gradient.append(_pulls(X[block] @ features, labels, columns, [set(own[row]) for row in block], scale))
        done = (number + first / n) / n_passes
        for row, pull in zip(batch, np.concatenate(gradient), strict=True):
            of_row = pull * (1 if weight is None else weight[row])
            for feature in np.flatnonzero(X[row]) if of_row.any() else ():
                step = X[row, feature] * of_row
                squares[feature] += step @ step
                features[feature] -= rate * (1 - done) * step / np.sqrt(squares[feature])
    return features, squares
