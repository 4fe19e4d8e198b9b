"""Heads by gradient descent on sets of labels that no leaf has, and on single features: what explanations need."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelprism._arrays import Float32, Int32, Int64, is_sparse
from labelprism.heads.base import slots_of

if TYPE_CHECKING:
    from labelprism.heads.sgd import SGDHead

_ROWS_AT_ONCE = 512  # rows of a single feature each, which may have to be made dense


def head_of_sets(head: SGDHead, leaves: Int32, candidates: sp.csr_array) -> SGDHead:
    """Return a head with a leaf for every row, which has the labels asked for as its candidates.

    What a label has in the row's own leaf (bias, weights) it keeps. A label that is not among the candidates there has
    no weights of its own, and the bias that a candidate without any example begins with.

    Parameters
    ----------
    head : SGDHead
        Fitted.
    leaves : int32 array of shape (n,)
        The leaf of each row.
    candidates : csr_array of shape (n, c)
        Stored entries are the labels.
    """
    if not hasattr(head, "label_bias_"):
        raise ValueError("a model of an older version, which cannot score other sets of labels; fit it again")
    slots = slots_of(head.candidates_, leaves, candidates)
    absent = head.label_bias_[candidates.indices]
    if head._terms().slot_bias:
        absent = absent + np.float32(head._absent_prior)
    other = copy.copy(head)
    other.candidates_ = candidates
    other.slot_bias_ = np.where(slots < 0, absent, np.append(head.slot_bias_, np.float32(0))[slots])
    if head.task == "low_rank":
        other.codes_ = head.codes_[leaves]
    elif head.task == "weights":
        other.coef_ = _rows_or_nothing(head.coef_, slots)
    elif head.task == "group_sparse":
        other.slot_coef_ = _rows_or_nothing(head.slot_coef_, slots)
    return other


def _rows_or_nothing(weights: Any, rows: Int64) -> Any:
    """Return rows of a matrix, of zeros for -1."""
    if not is_sparse(weights):
        return np.ascontiguousarray(np.where(rows[:, None] < 0, np.float32(0), weights[rows]))
    n, width = weights.shape
    indptr = np.append(weights.indptr, weights.indptr[-1])  # one more row, which is empty and the last
    return sp.csr_array((weights.data, weights.indices, indptr), shape=(n + 1, width))[rows]


def feature_contributions(head: SGDHead, x: Any, leaf: int, label: int) -> tuple[Int32, Float32]:
    """Return what each feature of one row adds to the score of a label; all of these heads are linear.

    Parameters
    ----------
    head : SGDHead
        Fitted.
    x : csr_array or float32 array of shape (1, d)
    leaf, label : int
    """
    row = sp.csr_array(x)
    n, d = row.nnz, row.shape[1]
    # A row for every feature alone, and one without any, whose score is the bias.
    alone = sp.csr_array((row.data, row.indices, np.append(np.arange(n + 1), n)), shape=(n + 1, d))
    scores = []
    for begin in range(0, n + 1, _ROWS_AT_ONCE):
        rows = alone[begin : begin + _ROWS_AT_ONCE]
        m = rows.shape[0]
        labels = np.full(m, label, np.int32)
        asked = sp.csr_array((np.ones(m, np.float32), labels, np.arange(m + 1)), shape=(m, head.n_labels_))
        scores.append(head.score_candidates(rows, np.full(m, leaf, np.int32), asked).data)
    values = np.concatenate(scores)
    return row.indices.astype(np.int32), np.asarray(values[:-1] - values[-1], np.float32)
