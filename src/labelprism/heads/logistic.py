"""`LogisticHead`: logistic regression over the candidates, the base classifier of the paper's ODP and LSHTC models."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, Int32, csr_parts, is_sparse
from labelprism._threads import thread_count
from labelprism.heads.sgd import Question, SGDHead, Visits


class LogisticHead(SGDHead):
    """Logistic regression that computes and normalises over the candidates only, trained by gradient descent.

    Multiclass: softmax over the candidates. Multilabel: independent logistic losses of the candidates. The score of
    label l in leaf f is b_l + b_fl + w_l . x and what `task` adds to it.

    Parameters
    ----------
    passes : int, default=20
        How often each example comes up.
    loss : {"auto", "softmax", "logistic"}, default="auto"
        "auto": softmax where no example has more than one label.
    task : {"none", "bias", "weights", "hash", "low_rank", "group_sparse"}, default="bias"
        What leaves have for themselves: nothing; a bias for each candidate; biases and weights, with none shared;
        weights of features crossed with the leaf, hashed into the table of the others; biases, and weights that are
        combinations of `n_codes` sets shared by all, w_l + sum over q of a_fq w_lq; biases, and weights on top of the
        shared ones that are zero unless they help (`group_penalty`).
    routes : {"sampled", "decided"}, default="sampled"
        Whether a new route is drawn whenever an example comes up, or examples are routed as at prediction; "decided" is
        the ablation of the paper.
    learning_rate : float, default=1.0
        The step, for rows of unit norm on average, as which features are rescaled.
    momentum : float, default=0.9
        At least 0 and below 1.
    decay : float or "auto", default="auto"
        The step is multiplied by it after every pass; "auto": such that that of the last pass is a twentieth of the
        first.
    batch_size : int, default=8
        A step follows the mean gradient of at most so many examples, all of one leaf.
    group_rows : int, default=256
        At most so many examples of a leaf come one after the other, and share the weights they fetch from memory.
    precondition : {"auto", "none", "diagonal", "full"}, default="auto"
        How features are rescaled by their second moments: see `labelprism.heads.preparation.scale_of`. "auto" is "full"
        for dense X with at most 1,024 features, else "none": on words weighted by tf-idf "diagonal" loses one to three
        points, as rare words get too much weight.
    n_hashed_features : int, optional
        Hash sparse features into a table of this size, with a weight for each label and place in it; without hashing
        there are weights for those pairs of label and feature that training touched.
    n_hashes : {1, 2}, default=1
        How many signed hashes a feature has.
    n_codes : int, default=4
        For `task="low_rank"`.
    group_penalty : float, default=0.001
        For `task="group_sparse"`: the weight of the sum of norms |w_fl| in the loss.
    n_jobs : int, optional
        Threads, as in scikit-learn. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the routes, of the order of the examples and of the hashes.

    Attributes
    ----------
    coef_ : csr_array or float32 array of shape (c, width), or (n_slots, width) with `task="weights"`
        The weights, for rescaled features; a slot is a stored entry of `candidates_`. Dense where X is dense or hashed.
    slot_bias_ : float32 array of shape (n_slots,)
        The bias of each candidate of each leaf.
    codes_ : float32 array of shape (n_leaves, n_codes)
        a, for `task="low_rank"`; `coef_` has n_codes + 1 times the width then.
    slot_coef_ : csr_array or float32 array of shape (n_slots, width)
        The leaves' own weights, for `task="group_sparse"`.
    scale_ : float32 array of shape (d,) or (d, d)
        How features are rescaled.
    loss_ : {"softmax", "logistic"}
        The loss in use.
    loss_path_ : list of float
        The mean loss of every pass, each example's before its step.
    """

    def _make_trainer(self, rng: np.random.Generator) -> None:
        terms, parts = self._terms(), csr_parts(self.candidates_)
        arguments = (parts.indptr, parts.indices, self.candidates_.shape[1])
        if self._is_dense():
            self._trainer = _core.DenseTrainer(*arguments, _padded_width(self._width), self.loss_, **terms._asdict())
        else:
            kind = _core.TouchedTrainer if terms.slot_weights or self._is_unhashed() else _core.TableTrainer
            self._trainer = kind(*arguments, self._width, self.loss_, **terms._asdict())

    def _is_dense(self) -> bool:
        return self._dense_input and self.task != "hash"

    def _is_unhashed(self) -> bool:
        return self.n_hashed_features is None

    def _train(self, rows: Any, Y: sp.csr_array, visits: Visits, rate: float) -> float:
        labels = csr_parts(Y[visits.rows])
        tail = (labels.indptr, labels.indices, visits.offsets, visits.leaves, *self._step(rate))
        if self._is_dense():
            return float(self._trainer.train(_padded(rows), *tail))
        return float(self._trainer.train(*csr_parts(rows), self._width, *tail))

    def _weights(self) -> tuple[Any, Any]:
        terms, trainer = self._terms(), self._trainer
        if self._is_dense():
            return trainer.weights(), trainer.slot_weights()
        if isinstance(trainer, _core.TableTrainer):
            return trainer.take_weights(), None
        shared = self.n_labels_ if terms.label_weights else 0, self._width * (terms.n_codes + 1)
        own = self.candidates_.nnz if terms.slot_weights else 0, self._width
        return _as_csr(trainer.take_weights(), *shared), _as_csr(trainer.take_slot_weights(), *own)

    # ------------------------------------------------------------------------------------------------------------ use

    def _scored(
        self,
        scorer: _core.LinearHead,
        X: Any,
        leaves: Int32,
        places: Int32,
        what: Question,
        *more: int,
    ) -> Any:
        rows = self._crossed(self._prepared(X), leaves)
        n_threads = thread_count(self.n_jobs)
        if is_sparse(rows):
            return getattr(scorer, f"{what}_csr")(*csr_parts(rows), places, *more, n_threads)
        return getattr(scorer, f"{what}_dense")(_padded(rows), places, *more, n_threads)

    def _make_scorer(self, head: SGDHead) -> _core.LinearHead:
        return linear_scorer(head, _padded_width(self._width) if self._is_dense() else self._width)


def linear_scorer(head: SGDHead, width: int) -> _core.LinearHead:
    """Return the native scorer of a trained head.

    Parameters
    ----------
    head : SGDHead
        With `candidates_`, `slot_bias_`, `coef_`, and `codes_` and `slot_coef_` where its task has them.
    width : int
        The width of the rows that it will score.
    """
    parts = csr_parts(head.candidates_)
    scorer = _core.LinearHead(parts.indptr, parts.indices, head.candidates_.shape[1], head.slot_bias_)
    by_slot = head.task == "weights"
    if is_sparse(head.coef_):
        scorer.set_sparse(*csr_parts(head.coef_), head.coef_.shape[1], by_slot, width)
    else:
        scorer.set_dense(head.coef_, by_slot, width)
    if head.task == "low_rank":
        scorer.set_codes(np.ascontiguousarray(head.codes_))
    if head.task == "group_sparse":
        if is_sparse(head.slot_coef_):
            scorer.set_sparse_deviations(*csr_parts(head.slot_coef_), head.slot_coef_.shape[1])
        else:
            scorer.set_dense_deviations(head.slot_coef_)
    return scorer


def _as_csr(arrays: tuple[Any, Any, Any], n_rows: int, n_columns: int) -> sp.csr_array:
    indptr, indices, data = arrays
    return sp.csr_array((data, indices, indptr), shape=(n_rows, n_columns))


def _padded_width(width: int) -> int:
    return -(-width // 8) * 8


def _padded(rows: Float32) -> Float32:
    """Return dense rows filled up with zeros to a multiple of 8 columns."""
    width = _padded_width(rows.shape[1])
    if width == rows.shape[1]:
        return np.ascontiguousarray(rows)
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])))
