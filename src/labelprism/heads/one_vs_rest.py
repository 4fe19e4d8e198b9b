"""`OneVsRestHead`: a linear classifier for every label, trained on the examples that have it among their candidates."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labelprism import _core
from labelprism._arrays import MAX_COLUMNS, Float32, Int32, as_csr, as_label_matrix, check_whole, csr_of, csr_parts
from labelprism._progress import watched
from labelprism._stages import NoStages, Stages
from labelprism._threads import thread_count

_SHARD = ("indptr", "features", "weights", "bias", "noted_indptr", "noted_rows", "noted_margins")
_CANDIDATES_PER_SHARD = 1 << 22  # a second or two of work; what is learned of one shard is held twice for a moment
_COUNTED_TOGETHER = 1 << 20


class OneVsRestHead(BaseEstimator):  # type: ignore[misc]
    """One support vector machine a label, against the candidates that look like it.

    Minimises ``(|w|^2 + (b + 1)^2 / 0.3) / 2 + sum of C_i max(0, 1 - y_i (w.x_i + b))^2`` label by label, by dual
    coordinate descent; the sum runs over the examples that have the label or have it among their candidates. The bias
    is drawn to -1, because nearly all labels are wrong for an example: negatives that share nothing with the positives
    are right from the start, and the solver never moves them.

    A label of few examples is a small and nearly separable problem. With r = `rare_examples` / positives, its errors
    cost 1 + r times as much, those of positives again 1 + `positive_weight` r times, and there are 1 + r times the
    passes.

    Parameters
    ----------
    cost : float, default=0.5
        C, the weight of errors against that of the norm.
    positive_weight : float, default=1.5
        See above.
    rare_examples : float, default=20.0
        See above; with 0 all labels and all examples are treated alike.
    tolerance : float, default=0.3
        The solver stops when the projected gradients of all examples differ by less.
    passes : int, default=4
        Or after so many passes over the examples, and one less when held-out rows join; more for rare labels.
    drop : float, default=0.1
        Weights of smaller size are dropped.
    n_jobs : int, optional
        Threads, as in scikit-learn. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the order in which examples are taken.

    Attributes
    ----------
    weights_ : csr_array of shape (c, d), float32
    bias_ : float32 array of shape (c,)
        Labels without a positive have no weights and a bias of -1.
    held_out_margins_ : csr_array of shape (n, c), float32
        The margins of held-out rows for their candidates and labels, by classifiers that had not seen them.
    """

    _first_cluster = np.iinfo(np.int64).max  # of the classes, if some are clusters of labels; see `LabelClusters`

    weights_: sp.csr_array
    bias_: Float32
    held_out_margins_: sp.csr_array

    def __init__(
        self,
        cost: float = 0.5,
        positive_weight: float = 1.5,
        *,
        rare_examples: float = 20.0,
        tolerance: float = 0.3,
        passes: int = 4,
        drop: float = 0.1,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.cost = cost
        self.positive_weight = positive_weight
        self.rare_examples = rare_examples
        self.tolerance = tolerance
        self.passes = passes
        self.drop = drop
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: Any, Y: Any, candidates: sp.csr_array, held_out: npt.NDArray[np.bool_] | None = None
    ) -> OneVsRestHead:
        """Train the classifiers.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
            Rows should have a norm of about 1.
        Y : sparse matrix or array of shape (n, c)
        candidates : csr_array of shape (n, c)
            Stored entries are the candidates of a row; its labels are added.
        held_out : bool array of shape (n,), optional
            Rows whose margins are wanted from classifiers that have not seen them: `held_out_margins_`. They are
            learned from afterwards; the solver goes on from where it was. Labels that no other row has get no weights.
        """
        self._check_parameters()
        X, Y = as_csr(X), as_label_matrix(Y)
        if not X.shape[0] == Y.shape[0] == candidates.shape[0] or Y.shape[1] != candidates.shape[1]:
            raise ValueError(
                f"X, Y and candidates must have the same rows, Y and candidates the same labels; their shapes are "
                f"{X.shape}, {Y.shape} and {candidates.shape}"
            )
        if not candidates.has_sorted_indices:
            candidates = candidates.sorted_indices()
        held = np.zeros(0, np.uint8) if held_out is None else np.ascontiguousarray(held_out, np.uint8)
        if held_out is not None and held.shape != (X.shape[0],):
            raise ValueError(f"held_out must have a flag for each of the {X.shape[0]} rows, got shape {held.shape}")
        self._fit(X, Y, np.asarray(candidates.indptr, np.int64), candidates.indices.astype(np.int32, copy=False), held)
        return self

    def _fit(
        self, X: sp.csr_array, Y: sp.csr_array, indptr: Any, labels: Any, held: Any, weight: Float32 | None = None,
        start: tuple[sp.csr_array, Float32] | None = None, stages: Stages | None = None,
    ) -> None:  # fmt: skip
        """Fit on candidates that are arrays already; see `fit` and `fit_one_vs_rest` in one_vs_rest.hpp.

        What is learned for a label does not depend on the labels that are learned with it, so shards of labels can be
        learned one by one, and kept in `stages`.
        """
        stages = NoStages() if stages is None else stages
        settings = self._settings(self.random_state)
        own, counter = csr_parts(Y), _core.Counter()
        begin: Any = csr_parts(sp.csr_array((0, 0), dtype=np.float32)) if start is None else csr_parts(start[0])
        nothing, c = np.zeros(0, np.float32), Y.shape[1]
        data: Any = (
            *(*csr_parts(X), X.shape[1], own.indptr, own.indices, c),
            *(indptr, labels, held, nothing if weight is None else weight),
            *(*begin, nothing if start is None else start[1]),
        )
        more: Any = (settings, thread_count(self.n_jobs), counter)
        shards = []
        with watched(counter, c, "training classifiers", "labels"):
            for first, end in _shards(labels, c):
                shard: Any = stages.load(f"head_{first}")
                if shard is None:
                    arguments: Any = (*data, first, end, *more)
                    trained = _core.fit_one_vs_rest(*arguments)
                    shard = dict(zip(_SHARD, (*trained[0], trained[1], *trained[2]), strict=True))
                    stages.save(f"head_{first}", shard)
                else:
                    counter.advance(end - first)
                shards.append(shard)
        self.weights_ = _stacked(shards, ("indptr", "features", "weights"), (c, X.shape[1]))
        self.bias_ = np.concatenate([shard["bias"] for shard in shards])
        by_label = _stacked(shards, ("noted_indptr", "noted_rows", "noted_margins"), (c, X.shape[0]))
        self.held_out_margins_ = sp.csr_array(by_label.T.tocsr())

    def _settings(self, random_state: Any) -> _core.OneVsRestSettings:
        """Return what the native core is told; all of it is checked."""
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        costs = (self.cost, self.positive_weight, self.rare_examples)
        return _core.OneVsRestSettings(
            *costs, self.tolerance, self.passes, self.drop, seed, first_cluster=int(self._first_cluster)
        )

    def scores(self, X: Any, candidates: sp.csr_array) -> sp.csr_array:
        """Return the margins of the candidates of every row.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        candidates : csr_array of shape (n, c)
            Stored entries are the candidates.

        Returns
        -------
        csr_array of shape (n, c), float32
            With the entries of `candidates`; one may be 0.
        """
        check_is_fitted(self, "weights_")
        X = as_csr(X)
        c, d = self.weights_.shape
        if X.shape[1] != d or candidates.shape != (X.shape[0], c):
            raise ValueError(
                f"X must have {d} features and candidates {c} labels and the rows of X; their shapes are {X.shape} "
                f"and {candidates.shape}"
            )
        by_feature = sp.csr_array(self.weights_.T.tocsr())
        indptr = np.ascontiguousarray(candidates.indptr, np.int64)
        labels = np.ascontiguousarray(candidates.indices, np.int32)
        found = _core.candidate_scores(
            *(*csr_parts(X), d, *csr_parts(by_feature), self.bias_, indptr, labels, thread_count(self.n_jobs))
        )
        return sp.csr_array((found, labels, indptr), shape=candidates.shape)

    def _check_parameters(self) -> None:
        check_whole("passes", self.passes, 1, MAX_COLUMNS)
        for name, low in (("cost", 1e-9), ("positive_weight", 0), ("rare_examples", 0), ("tolerance", 0), ("drop", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not low <= value < np.inf:
                raise ValueError(f"{name} must be a number of at least {low}, got {value!r}")


def _shards(labels: Int32, c: int) -> list[tuple[int, int]]:
    """Return ranges of labels with about as many candidates each, whose sum is what a shard takes of time."""
    counts = np.zeros(c, np.int64)
    for begin in range(0, labels.size, _COUNTED_TOGETHER):  # for numpy makes them 64-bit numbers first
        counts += np.bincount(labels[begin : begin + _COUNTED_TOGETHER], minlength=c)
    reached = np.cumsum(counts)
    n_shards = min(max(int(reached[-1]) // _CANDIDATES_PER_SHARD, 1), c)
    inner = np.searchsorted(reached, reached[-1] * np.arange(1, n_shards) / n_shards) + 1
    ends = np.unique(np.concatenate([[0], np.minimum(inner, c), [c]])).tolist()
    return list(pairwise(ends))


def _stacked(shards: list[Any], names: tuple[str, str, str], shape: tuple[int, int]) -> sp.csr_array:
    """Return the rows of all shards as one matrix. Shards give up their arrays one by one, for memory's sake."""
    if len(shards) == 1:
        indptr, columns, values = (shards[0].pop(name) for name in names)
        return csr_of(indptr, columns, values, shape)
    lengths = np.concatenate([np.diff(shard.pop(names[0])) for shard in shards])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    columns, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)
    for name, joined in zip(names[1:], (columns, values), strict=True):
        end = 0
        for shard in shards:
            part = shard.pop(name)
            joined[end : end + part.size] = part
            end += part.size
    return csr_of(indptr, columns, values, shape)
