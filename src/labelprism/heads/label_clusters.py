"""Clusters of similar labels, and the classes that a head learns with them.

Beside a classifier for every label, a head may learn which cluster a row belongs to, and tell the labels of one
cluster from each other by a second classifier, which meets no other labels (but of held-out rows: their margins are
wanted for all candidates, and they join with all of them). All are trained at once, as classes: with c labels and K
clusterings, class l < c is label l, class c (1 + k) + l is label l inside its cluster of clustering k, and class
c (1 + K) + g is cluster g.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import MAX_COLUMNS, Float32, Int32, Int64, check_whole, csr_of, csr_parts, row_range

MAX_CLUSTERS = 35_000
"""Of all clusterings together: prediction holds the places of candidates and clusters in 16 bits."""


class LabelClusters(NamedTuple):
    """The clusters of all labels, in several clusterings.

    Attributes
    ----------
    of_label : int32 array of shape (K, c)
        The cluster of every label, numbered through: the clusters of the first clustering come first.
    n_clusters : int
        Of all clusterings together.
    """

    of_label: Int32
    n_clusters: int

    @property
    def n_clusterings(self) -> int:
        """How many clusterings: K."""
        return int(self.of_label.shape[0])

    @property
    def n_labels(self) -> int:
        """How many labels: c."""
        return int(self.of_label.shape[1])

    @property
    def first_cluster(self) -> int:
        """The first class that is a cluster."""
        return self.n_labels * (1 + self.n_clusterings)

    @property
    def n_classes(self) -> int:
        """Labels, labels inside clusters, and clusters."""
        return self.first_cluster + self.n_clusters

    def within(self, clustering: int, labels: Int32) -> Int32:
        """Return the classes of labels inside their clusters."""
        return np.asarray(labels + np.int32(self.n_labels * (1 + clustering)))

    def of_clusters(self, clustering: int, labels: Int32) -> Int32:
        """Return the classes of the labels' clusters."""
        return np.asarray(self.of_label[clustering][labels] + np.int32(self.first_cluster))

    def label_classes(self, indptr: Int64, labels: Int32, n_threads: int = 1) -> tuple[Int64, Int32]:
        """Return the classes of every row's labels: what it is a positive of.

        Parameters
        ----------
        indptr : int64 array of shape (n + 1,)
        labels : int32 array
            The labels of the rows, ascending within a row.
        n_threads : int

        Returns
        -------
        indptr : int64 array of shape (n + 1,)
        classes : int32 array
            Ascending within a row.
        """
        return _core.label_classes(indptr, labels, self.of_label, self.n_clusters, n_threads)

    def candidate_classes(
        self, indptr: Int64, candidates: Int32, label_indptr: Int64, labels: Int32, n_seen: int, n_threads: int = 1
    ) -> tuple[Int64, Int32]:
        """Return the classes of every row's candidates: what it may be a negative of.

        A candidate inside a cluster is left out if no label of the row is in that cluster.

        Parameters
        ----------
        indptr : int64 array of shape (n + 1,)
        candidates : int32 array
            The candidates of the rows, ascending within a row.
        label_indptr : int64 array of shape (n + 1,)
        labels : int32 array
            The labels of the rows.
        n_seen : int
            Rows from this one on are held out: their margins are wanted for all candidates inside clusters.
        n_threads : int

        Returns
        -------
        indptr : int64 array of shape (n + 1,)
        classes : int32 array
            Ascending within a row.
        """
        return _core.candidate_classes(
            indptr, candidates, label_indptr, labels, n_seen, self.of_label, self.n_clusters, n_threads
        )


def label_clusters(
    centre: sp.csr_array, n_clusterings: int, most_labels: int, seed: int, n_threads: int = 1
) -> LabelClusters:
    """Cluster the labels by balanced 2-means: all labels are halved, then the halves, and so on.

    Parameters
    ----------
    centre : csr_array of shape (c, d), sorted
        The centroids of the labels: rows of norm 1 or, cut to their largest features, a little less; or empty.
    n_clusterings : int
        How many clusterings, of different random starts.
    most_labels : int
        A cluster has no more labels; more, if there would be more than `MAX_CLUSTERS` clusters otherwise.
    seed : int
    n_threads : int
        The result does not depend on it.
    """
    check_whole("n_clusterings", n_clusterings, 1, MAX_CLUSTERS)
    check_whole("most_labels", most_labels, 1, MAX_COLUMNS)
    check_whole("seed", seed, 0, 2**64 - 1)
    c, d = centre.shape
    sizes = range(most_labels, max(most_labels, c) + 1)
    enough = bisect_left(sizes, True, key=lambda size: n_clusterings * _n_clusters(c, size) <= MAX_CLUSTERS)
    indptr, indices, data = csr_parts(centre)
    # Norms of labels that hardly weigh anything are rounded, and a value may come out above 1.
    arrays = (indptr, indices, np.clip(data, -1, 1))
    return LabelClusters(*_core.cluster_labels(*arrays, d, n_clusterings, sizes[enough], seed, n_threads))


def _n_clusters(n_labels: int, most_labels: int) -> int:
    """Return the number of clusters of one clustering."""
    sets, n_clusters = Counter({n_labels: 1}), 0  # how many sets there are of every size; never more than two sizes
    while sets:
        halves: Counter[int] = Counter()
        for size, count in sets.items():
            if size <= most_labels:
                n_clusters += count
            else:
                halves[size // 2] += count
                halves[size - size // 2] += count
        sets = halves
    return n_clusters


def classes_of_rows(Y: sp.csr_array, clusters: LabelClusters, n_threads: int = 1) -> sp.csr_array:
    """Return the classes of every row's labels as a label matrix, of shape (n, n_classes).

    Parameters
    ----------
    Y : csr_array of shape (n, c), sorted
    clusters : LabelClusters
    n_threads : int
    """
    own = csr_parts(Y)
    indptr, classes = clusters.label_classes(own.indptr, own.indices, n_threads)
    return csr_of(indptr, classes, np.ones(classes.size, np.float32), (Y.shape[0], clusters.n_classes))


def merged_classes(
    weights: sp.csr_array, bias: Float32, clusters: LabelClusters, own_share: float = 0.5, drop: float = 0.0,
    n_threads: int = 1,
) -> tuple[sp.csr_array, Float32]:  # fmt: skip
    """Return the classifiers that models keep: `mean_of_classes`, then `cluster_part`.

    Parameters
    ----------
    weights, bias, clusters, own_share, drop, n_threads : see `mean_of_classes`

    Returns
    -------
    weights : csr_array of shape (c + n_clusters, d), float32
    bias : float32 array of shape (c + n_clusters,)
    """
    _check_classes(weights, bias, clusters)
    c, parts = clusters.n_labels, 1 + clusters.n_clusterings
    of_others = (1 - own_share) / clusters.n_clusterings
    share = np.array([own_share] + [of_others] * clusters.n_clusterings, np.float32)
    merged = _core.mean_rows(*csr_parts(weights), weights.shape[1], c, share, drop, n_threads)
    mean_bias = np.einsum("pl,p->l", bias[: parts * c].reshape(parts, c), share)
    shape = (c + clusters.n_clusters, weights.shape[1])
    return csr_of(*merged, shape), np.concatenate([mean_bias, bias[parts * c :]])


def mean_of_classes(
    weights: sp.csr_array, bias: Float32, clusters: LabelClusters, own_share: float = 0.5, drop: float = 0.0,
    n_threads: int = 1,
) -> tuple[sp.csr_array, Float32]:  # fmt: skip
    """Return one classifier for every label: the weighted mean of its own and of those inside its clusters.

    A linear classifier of the mean scores as the mean of the classifiers does, and costs as much as one of them. Its
    weights are rounded to float16, as models keep them.

    Parameters
    ----------
    weights : csr_array of shape (n_classes, d), float32, sorted
    bias : float32 array of shape (n_classes,)
    clusters : LabelClusters
    own_share : float, from 0 to 1
        The weight of the label's own classifier; the others share the rest evenly.
    drop : float
        Weights of smaller size are left out.
    n_threads : int
        The result does not depend on it.

    Returns
    -------
    weights : csr_array of shape (c, d), float32, sorted
    bias : float32 array of shape (c,)
    """
    merged, merged_bias = merged_classes(weights, bias, clusters, own_share, drop, n_threads)
    c = clusters.n_labels
    return row_range(merged, 0, c), merged_bias[:c]


def cluster_part(weights: sp.csr_array, bias: Float32, clusters: LabelClusters) -> tuple[sp.csr_array, Float32]:
    """Return the classifiers of the clusters, as copies: all of the weights need not be kept for them.

    Parameters
    ----------
    weights : csr_array of shape (n_classes, d), float32
    bias : float32 array of shape (n_classes,)
    clusters : LabelClusters

    Returns
    -------
    weights : csr_array of shape (n_clusters, d), float32
    bias : float32 array of shape (n_clusters,)
    """
    _check_classes(weights, bias, clusters)
    n_classes = clusters.n_classes
    first = n_classes - clusters.n_clusters
    return sp.csr_array(row_range(weights, first, n_classes).copy()), bias[first:].copy()


def _check_classes(weights: sp.csr_array, bias: Float32, clusters: LabelClusters) -> None:
    n_classes = clusters.n_classes
    if weights.shape[0] != n_classes or bias.shape != (n_classes,):
        raise ValueError(
            f"there must be weights and a bias for each of the {n_classes} classes; their shapes are {weights.shape} "
            f"and {bias.shape}"
        )
