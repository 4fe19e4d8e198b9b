"""`ConstantHead`: no classifier at all, only how frequent each label is in the leaf.

The paper's discussion asks why both a filter and a classifier are required: "an alternate strategy would be to
repeatedly filter until a simple model is invoked, e.g., a constant predictor, which for multiclass would be a single
class and for multilabel with ranking loss would be a fixed ordering over the classes". Its authors tried that and
dropped it; here it is, to be measured.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, Int32, check_whole, csr_parts
from labelprism._threads import thread_count
from labelprism.heads.base import Head, Probabilities, Routes, slots_of, softmax_by_row

_ABSENT = float(np.log(1e-12))  # the score of a label that the leaf does not have


class ConstantHead(Head):
    """Scores every candidate by its log-frequency in the leaf, whatever the example.

    The scores are the log p(label | leaf) that the filter has counted, so there is nothing to learn.

    Parameters
    ----------
    n_jobs : int, optional
        Threads, as in scikit-learn. The result does not depend on it.

    Attributes
    ----------
    labels_per_row_ : float
        How many labels rows have on average, by which a share of all labels becomes a probability.
    """

    def __init__(self, *, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def fit(self, X: Any, Y: sp.csr_array, routes: Routes, sample_weight: Any = None) -> ConstantHead:
        """Take the frequencies over from the leaves.

        Parameters
        ----------
        X : csr_array or float32 array of shape (n, d)
        Y : csr_array of shape (n, c)
            Only how many labels rows have is looked at: the filter has counted the labels.
        routes : Routes
        sample_weight : array of shape (n,), optional
        """
        self._set_table(X, routes)
        self.labels_per_row_ = float(np.average(np.diff(Y.indptr), weights=sample_weight))
        return self

    def topk(self, X: Any, leaves: Int32, k: int) -> tuple[Int32, Float32]:
        """Return the k most frequent candidates of every example's leaf; see `Head.topk`.

        They are looked for once in each leaf, however many examples are there.
        """
        check_whole("k", k, 1, np.iinfo(np.int32).max)
        X = self._checked(X)
        leaves = self._checked_leaves(leaves, X.shape[0])
        reached, place = np.unique(leaves, return_inverse=True)
        labels, scores = _core.top_k_csr(*csr_parts(self.candidates_[reached]), k, thread_count(self.n_jobs))
        return labels[place], scores[place]

    def _leaf_scores(self, X: Any, leaves: Int32, indptr: npt.NDArray[np.int64]) -> Float32:
        taken: Float32 = self.candidates_[leaves].data.astype(np.float32, copy=False)
        return taken

    def probabilities(self, scores: sp.csr_array, exclusive: bool) -> Probabilities:
        """Return the shares of the labels as probabilities; see `Head.probabilities`."""
        if exclusive:
            return softmax_by_row(scores)
        labels_per_row = getattr(self, "labels_per_row_", 1.0)  # models of format 1 may lack it
        return np.asarray(np.minimum(np.exp(scores.data) * labels_per_row, 1), np.float32)

    def _candidate_scores(self, X: Any, leaves: Int32, candidates: sp.csr_array) -> Float32:
        slots = slots_of(self.candidates_, leaves, candidates)
        stored = np.append(self.candidates_.data, _ABSENT)  # at -1, for those that are absent
        return np.asarray(stored[slots], np.float32)
