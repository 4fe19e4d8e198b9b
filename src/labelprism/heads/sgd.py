"""`SGDHead`: what heads trained by stochastic gradient descent have in common (section 3.5 of the paper).

Every time an example comes up its route is drawn anew, and with the leaf come the candidates. Rows of a leaf are taken
together, so that they share the weights they fetch from memory. The leaf is a task, as in multi-task learning, and
`task` says which parameters leaves have for themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import check_random_state

from labelprism import _core
from labelprism._arrays import MAX_COLUMNS, Float32, Int32, Int64, as_label_matrix, check_whole, is_sparse
from labelprism._progress import ProgressBar
from labelprism._threads import thread_count
from labelprism._weights import Float64, check_sample_weight
from labelprism.data.dataset import as_features
from labelprism.heads.base import Head, Probabilities, Routes, sigmoid, softmax_by_row
from labelprism.heads.preparation import LARGEST_FULL, FeatureHash, Preconditioner, crossed, scale_of, scaled
from labelprism.heads.sets import feature_contributions, head_of_sets

Task = Literal["none", "bias", "weights", "hash", "low_rank", "group_sparse"]
Question = Literal["scores", "top_k"]  # of the native scorer
TASKS = ("none", "bias", "weights", "hash", "low_rank", "group_sparse")

_ROWS_PER_CHUNK = (1 << 16, 1 << 21)  # at least, and at most
_SMALLEST_PRIOR = 1e-5
_LAST_STEP = 0.05  # of the first, with decay="auto"
_LEARNED = (
    *("candidates_", "coef_", "slot_coef_", "slot_bias_", "label_bias_", "codes_", "embedding_"),
    *("_absent_prior", "_trainer", "_scorer", "_hash"),
)
_CROSSED_FEATURES = 1 << 22  # where features are not hashed, crossed ones go into a table of this size at least

logger = logging.getLogger("labelprism")


class Terms(NamedTuple):
    """Which parameters a score has; see src/core/head_trainer.hpp."""

    label_weights: bool
    slot_bias: bool
    slot_weights: bool
    n_codes: int


class Visits(NamedTuple):
    """Rows in the order of training, grouped: visit v has the rows offsets[v] to offsets[v + 1], all at leaves[v]."""

    rows: Int64
    offsets: Int64
    leaves: Int32


class SGDHead(Head):
    """Base of `LogisticHead` and `LowRankHead`, which have the documentation of the parameters."""

    def __init__(
        self,
        passes: int = 20,
        *,
        loss: Literal["auto", "softmax", "logistic"] = "auto",
        task: Task = "bias",
        routes: Literal["sampled", "decided"] = "sampled",
        learning_rate: float = 1.0,
        momentum: float = 0.9,
        decay: float | Literal["auto"] = "auto",
        batch_size: int = 8,
        group_rows: int = 256,
        precondition: Literal["auto"] | Preconditioner = "auto",
        n_hashed_features: int | None = None,
        n_hashes: int = 1,
        n_codes: int = 4,
        group_penalty: float = 0.001,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.passes = passes
        self.loss = loss
        self.task = task
        self.routes = routes
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.decay = decay
        self.batch_size = batch_size
        self.group_rows = group_rows
        self.precondition = precondition
        self.n_hashed_features = n_hashed_features
        self.n_hashes = n_hashes
        self.n_codes = n_codes
        self.group_penalty = group_penalty
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------------------------------------------------ fit

    def fit(self, X: Any, Y: Any, routes: Routes, sample_weight: Any = None) -> SGDHead:
        """Learn to score the candidates.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        Y : sparse matrix or array of shape (n, c)
            The labels; those that are not among the candidates of an example's leaf give no positive.
        routes : Routes
            The leaves of the examples, and the candidates of the leaves.
        sample_weight : array of shape (n,), optional
            How often an example comes up in a pass: on average its weight over the mean weight, so that a pass has
            about n examples. That is gradient descent on the weighted loss.
        """
        self._check_parameters()
        self._forget()
        X, Y = as_features(X), as_label_matrix(Y)
        if (X.shape[0], routes.table.shape[1]) != Y.shape:
            raise ValueError(f"Y has shape {Y.shape}, expected {(X.shape[0], routes.table.shape[1])}")
        weight = check_sample_weight(sample_weight, X.shape[0])
        weight = None if weight is None else weight / weight.mean()
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1, size=4))
        self._seed = int(rng.integers(2**31))
        self.loss_ = _loss_for(Y) if self.loss == "auto" else self.loss
        try:
            self._set_table(X, routes)
            self._begin(X)
            rows = self._prepared(X)
            self._make_trainer(rng)
            self._set_priors(Y, weight, rng)
            self._run(rows, Y, routes, weight, rng)
            self._finish()
        except BaseException:
            self._forget()  # or a head half trained would pass for a fitted one
            raise
        return self

    def _forget(self) -> None:
        """Drop what a fit has learned: another one may have other tasks, and other arrays."""
        for name in _LEARNED:
            self.__dict__.pop(name, None)

    def _check_parameters(self) -> None:
        for name, largest in (("passes", MAX_COLUMNS), ("batch_size", MAX_COLUMNS), ("group_rows", MAX_COLUMNS)):
            check_whole(name, getattr(self, name), 1, largest)
        check_whole("n_codes", self.n_codes, 1, 1024)
        check_whole("n_hashes", self.n_hashes, 1, 2)
        if self.n_hashed_features is not None:
            check_whole("n_hashed_features", self.n_hashed_features, 1, 2**28)
        for name, choices in (
            ("loss", ("auto", "softmax", "logistic")),
            ("task", TASKS),
            ("routes", ("sampled", "decided")),
            ("precondition", ("auto", "none", "diagonal", "full")),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {choices}, got {getattr(self, name)!r}")
        for name, smallest, below in (
            ("learning_rate", 0.0, np.inf),
            ("momentum", 0.0, 1.0),
            ("decay", 0.0, 1.0 + 1e-12),
            ("group_penalty", 0.0, np.inf),
        ):
            value = getattr(self, name)
            if name == "decay" and value == "auto":
                continue
            if not isinstance(value, (int, float, np.floating)) or not smallest <= value < below:
                raise ValueError(f"{name} must be at least {smallest:g} and below {round(below, 6):g}, got {value!r}")

    def _begin(self, X: Any) -> None:
        """Learn how features are prepared."""
        self._dense_input = not is_sparse(X)
        kind = self.precondition
        if kind == "full" and is_sparse(X):
            raise ValueError("precondition='full' needs dense X; use 'diagonal'")
        self._is_hashed = is_sparse(X) and self.n_hashed_features is not None
        if self._is_hashed:
            X = self._feature_hash().apply(X)
        if kind == "auto":
            kind = "full" if not is_sparse(X) and X.shape[1] <= LARGEST_FULL else "none"
        self.scale_ = scale_of(X, kind)
        self._width = X.shape[1]
        if self.task == "hash":
            self._width = self.n_hashed_features or max(_CROSSED_FEATURES, X.shape[1])
            if self._width < X.shape[1]:
                raise ValueError(f"n_hashed_features is {self._width}, fewer than the {X.shape[1]} features")

    def _terms(self) -> Terms:
        task = self.task
        return Terms(
            label_weights=task != "weights",
            slot_bias=task not in ("none", "hash"),
            slot_weights=task in ("weights", "group_sparse"),
            n_codes=self.n_codes if task == "low_rank" else 0,
        )

    def _prepared(self, X: Any) -> Any:
        """Return X with its features hashed and rescaled, sparse wherever crossing may follow.

        X may be dense where the head was fitted with sparse X, and the other way round.
        """
        if is_sparse(X) == self._dense_input:
            X = X.toarray() if is_sparse(X) else sp.csr_array(X)
        if self._is_hashed:
            X = self._feature_hash().apply(X)
        X = scaled(X, self.scale_)
        return sp.csr_array(X) if self.task == "hash" and not is_sparse(X) else X

    def _feature_hash(self) -> FeatureHash:
        """Return the hash of the features, drawn again when it is first needed."""
        if not hasattr(self, "_hash"):
            assert self.n_hashed_features is not None
            self._hash = FeatureHash.draw(self.n_features_in_, self.n_hashed_features, self.n_hashes, self._seed)
        return self._hash

    def _crossed(self, rows: Any, leaves: Int32) -> Any:
        return crossed(rows, leaves, self._width, self._seed) if self.task == "hash" else rows

    def _set_priors(self, Y: sp.csr_array, weight: Float64 | None, rng: np.random.Generator) -> None:
        """Begin with the frequencies of the labels, in the leaves where leaves have biases, else in all rows."""
        if self.task == "low_rank":  # with codes of zero the weights of codes would never move
            codes = rng.standard_normal(self.candidates_.shape[0] * self.n_codes)
            self._trainer.codes = codes.astype(np.float32)
        of_entry = np.ones(Y.nnz) if weight is None else np.repeat(weight, np.diff(Y.indptr))
        total = float(of_entry.sum())
        labels_per_row = total / max(Y.shape[0], 1)
        self._absent_prior = float(self._prior(np.zeros(1), labels_per_row)[0])
        if self._terms().slot_bias:
            share = np.exp(self.candidates_.data.astype(np.float64))
            self._trainer.slot_bias = self._prior(share, labels_per_row)
        else:
            share = np.bincount(Y.indices, weights=of_entry, minlength=Y.shape[1]) / max(total, 1e-30)
            self._trainer.label_bias = self._prior(share, labels_per_row)

    def _prior(self, share: npt.NDArray[np.float64], labels_per_row: float) -> Float32:
        if self.loss_ == "softmax":
            return np.asarray(np.log(np.maximum(share, _SMALLEST_PRIOR)), np.float32)
        probability = np.clip(share * labels_per_row, _SMALLEST_PRIOR, 0.5)
        return np.asarray(np.log(probability / (1 - probability)), np.float32)

    def _run(
        self, rows: Any, Y: sp.csr_array, routes: Routes, weight: Float64 | None, rng: np.random.Generator
    ) -> None:
        self.loss_path_: list[float] = []
        n = Y.shape[0]
        with ProgressBar(self.passes * n, "training the head", "rows") as bar:
            for number in range(self.passes):
                if number == 0 or self.routes == "sampled":
                    leaves = routes.sampled(rng) if self.routes == "sampled" else routes.decided()
                rate, total = self.learning_rate * self._decay() ** number, 0.0
                for visits in grouped(leaves, self.group_rows, rng, _drawn(weight, rng)):
                    total += self._train(self._crossed(rows[visits.rows], leaves[visits.rows]), Y, visits, rate)
                    bar.advance(visits.rows.size)
                if not np.isfinite(total):
                    raise ValueError(f"training diverged in pass {number + 1}; choose a smaller learning_rate")
                self.loss_path_.append(total / max(n, 1))
                logger.debug("pass %d: mean loss %.5f", number + 1, self.loss_path_[-1])

    def _decay(self) -> float:
        return _LAST_STEP ** (1 / max(self.passes - 1, 1)) if self.decay == "auto" else self.decay

    def _step(self, rate: float) -> tuple[float, float, int, float, int]:
        penalty = self.group_penalty if self.task == "group_sparse" else 0.0
        return rate, self.momentum, self.batch_size, penalty, thread_count(self.n_jobs)

    def _slot_bias(self) -> Float32:
        """Return the bias of each candidate: its label's and its own."""
        bias = self._trainer.label_bias[self.candidates_.indices]
        return np.asarray(bias + self._trainer.slot_bias if self._terms().slot_bias else bias, np.float32)

    _trainer: Any

    def _make_trainer(self, rng: np.random.Generator) -> None:
        """Set `_trainer`."""
        raise NotImplementedError

    def _train(self, rows: Any, Y: sp.csr_array, visits: Visits, rate: float) -> float:
        """Train on rows, which are in the order of the visits; return the sum of their losses."""
        raise NotImplementedError

    def _weights(self) -> tuple[Any, Any]:
        """Return the weights of the labels and of the candidates, where the task has them; taken from the trainer."""
        raise NotImplementedError

    coef_: sp.csr_array | Float32

    def _finish(self) -> None:
        """Keep what the trainer has learned, and let go of it."""
        terms = self._terms()
        self.slot_bias_ = self._slot_bias()
        self.label_bias_: Float32 = np.array(self._trainer.label_bias, np.float32)
        if terms.n_codes:
            self.codes_ = self._trainer.codes.reshape(-1, terms.n_codes)
        shared, own = self._weights()
        self.coef_ = shared if terms.label_weights else own
        if terms.label_weights and terms.slot_weights:
            self.slot_coef_ = own
        del self._trainer

    # ------------------------------------------------------------------------------------------------------------ use

    def probabilities(self, scores: sp.csr_array, exclusive: bool) -> Probabilities:
        """Return the probabilities that the loss is made for; see `Head.probabilities`."""
        return softmax_by_row(scores) if exclusive or self.loss_ == "softmax" else sigmoid(scores.data)

    def contributions(self, x: Any, leaf: int, label: int) -> tuple[Int32, Float32] | None:
        """Return what each feature adds to the score of a label; see `Head.contributions`."""
        return feature_contributions(self, self._checked(x), leaf, label)

    def _candidate_scores(self, X: Any, leaves: Int32, candidates: sp.csr_array) -> Float32:
        scorer = self._make_scorer(head_of_sets(self, leaves, candidates))
        return np.asarray(self._scored(scorer, X, leaves, np.arange(leaves.size, dtype=np.int32), "scores"))

    def _leaf_scores(self, X: Any, leaves: Int32, indptr: Any) -> Float32:
        return np.asarray(self._scored(self._made_scorer(), X, leaves, leaves, "scores"))

    def topk(self, X: Any, leaves: Int32, k: int) -> tuple[Int32, Float32]:
        """Return the k candidates of the largest scores of every example, best first; see `Head.topk`."""
        check_whole("k", k, 1, np.iinfo(np.int32).max)
        X = self._checked(X)
        leaves = self._checked_leaves(leaves, X.shape[0])
        result: tuple[Int32, Float32] = self._scored(self._made_scorer(), X, leaves, leaves, "top_k", k)
        return result

    def _made_scorer(self) -> _core.LinearHead:
        """Return the native scorer, which checks the arrays once."""
        if not hasattr(self, "_scorer"):
            self._scorer = self._make_scorer(self)
        return self._scorer

    def _make_scorer(self, head: SGDHead) -> _core.LinearHead:
        """Return a native scorer of a head that has the same kind of weights."""
        raise NotImplementedError

    def _scored(
        self,
        scorer: _core.LinearHead,
        X: Any,
        leaves: Int32,
        places: Int32,
        what: Question,
        *more: int,
    ) -> Any:
        """Return what a scorer says of rows; `places` are their leaves in the scorer."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        for name in ("_scorer", "_hash"):  # made again when they are needed
            state.pop(name, None)
        return state


def _loss_for(Y: sp.csr_array) -> Literal["softmax", "logistic"]:
    """Softmax where no row has more than one label."""
    return "softmax" if (np.diff(Y.indptr) <= 1).all() else "logistic"


def _drawn(weight: Float64 | None, rng: np.random.Generator) -> Int64 | None:
    """Return the rows of a pass, each as often as its weight says: the whole part of it, and once more by chance."""
    if weight is None:
        return None
    whole = np.floor(weight)
    times = whole.astype(np.int64) + (rng.random(weight.size) < weight - whole)
    return np.repeat(np.arange(weight.size), times)


def grouped(leaves: Int32, group_rows: int, rng: np.random.Generator, drawn: Int64 | None = None) -> Iterator[Visits]:
    """Shuffle the rows, and bring those of a leaf together within chunks.

    Parameters
    ----------
    leaves : int32 array of shape (n,)
        The leaf of each row.
    group_rows : int
        At most so many rows of a leaf follow each other; the groups come in random order, so that the weights of labels
        that are candidates in many leaves see them mixed.
    rng : numpy Generator
    drawn : int64 array, optional
        The rows that come up; each once when left out.
    """
    order = rng.permutation(leaves.size if drawn is None else drawn)
    # So many rows at once that the groups of most leaves are full.
    wanted = (int(leaves.max()) + 1) * group_rows if leaves.size else 0
    rows_per_chunk = min(max(wanted, _ROWS_PER_CHUNK[0]), _ROWS_PER_CHUNK[1])
    for begin in range(0, order.size, rows_per_chunk):
        rows = order[begin : begin + rows_per_chunk]
        rows = rows[np.argsort(leaves[rows], kind="stable")]
        here = leaves[rows]
        position = np.arange(rows.size)
        first_of_leaf = np.maximum.accumulate(np.where(np.diff(here, prepend=-1) != 0, position, 0))
        starts = np.flatnonzero((position - first_of_leaf) % group_rows == 0)
        sizes = np.diff(np.append(starts, rows.size))
        shuffled = rng.permutation(starts.size)
        offsets = np.concatenate([[0], np.cumsum(sizes[shuffled])])
        place = np.arange(rows.size) + np.repeat(starts[shuffled] - offsets[:-1], sizes[shuffled])
        yield Visits(rows[place], offsets, here[starts[shuffled]])
