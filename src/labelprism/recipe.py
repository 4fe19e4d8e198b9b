"""The default recipe: a forest as F, one-vs-rest classifiers as H, label centroids, and a blend of all three.

A tenth of the rows, at most 1,500, is held out from forest, centroids and head alike; the blend is learned on them. Then
centroids and head take them in: the head goes on from where it was, which costs little.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, Int32, csr_parts
from labelprism.heads.blend import DEFAULT_BLEND, BlendWeights, is_true_label, learn_blend, log_head


@dataclass(frozen=True)
class RecipeSettings:
    """Every choice of the recipe, so that each step can be switched."""

    n_trees: int = 3
    forest_candidates: int = 100
    centroid_candidates: int = 30
    train_candidates: int = 100
    centroid_features: int = 30
    longest_list: int = 512
    smallest: float = 0.05
    cost: float = 1.0
    positive_weight: float = 30.0
    tolerance: float = 0.3
    max_passes: int = 20
    recheck: bool = True
    drop: float = 0.1
    held_out: int = 1500
    forest: dict[str, Any] = field(default_factory=dict)


class Timer(dict):  # type: ignore[type-arg]
    def __init__(self) -> None:
        self.last = time.process_time()

    def lap(self, name: str) -> None:
        now = time.process_time()
        self[name] = self.get(name, 0) + now - self.last
        self.last = now


FOREST = dict(max_depth=14, stop_labels=30, min_rows=50, target_recall=0.999, smallest_share=0.02, noise=0.3, fractional=True, prune_below=0.1, spectral_rows=1 << 30, router_rows=1 << 30, min_feature_rows=2, sketch_steps=2, drop_weight=0.01, drop_share=0.001, refine_rounds=2, refine_passes=5, refine_cost=1.0)


def grow(X, Y, s, seed, n_threads):
    settings = {**FOREST, **s.forest}
    st = _core.ForestSettings(n_trees=s.n_trees, seed=seed, spectral=_core.SpectralSettings(1, 1, True, 0.0, seed), **settings)
    F = _core.grow_forest_csr(*csr_parts(X), X.shape[1], *csr_parts(Y)[:2], Y.shape[1], st, n_threads)
    return F


def pruned_centroids(sums, k, n_threads):
    parts = csr_parts(sums)
    norm = np.sqrt(np.add.reduceat(np.append(np.square(parts.data, dtype=np.float64), 0), np.minimum(parts.indptr[:-1], len(parts.data))) * (np.diff(parts.indptr) > 0))
    columns, values = _core.top_k_csr(*parts, k, n_threads)
    values = values / np.maximum(norm, 1e-12)[:, None].astype(np.float32)
    ok = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(ok.sum(1), dtype=np.int64)])
    m = sp.csr_array((values[ok], columns[ok], indptr), shape=sums.shape)
    m.sort_indices()
    return m


def fit_default(X, Y, *, preset="default", objective="precision", n_jobs=1, random_state=0, settings=None):
    s = settings or RecipeSettings()
    t = Timer()
    n, c, d = X.shape[0], Y.shape[1], X.shape[1]
    rng = np.random.default_rng(random_state)
    held = np.zeros(n, np.uint8)
    held[rng.permutation(n)[: min(n // 10, s.held_out)]] = 1
    V = np.flatnonzero(held)
    keep = np.flatnonzero(held == 0)
    Xk, Yk, Xv, Yv = X[keep], Y[keep], X[V], Y[V]
    t.lap("split")
    F = grow(Xk, Yk, s, random_state, n_jobs)
    scorer = _core.ForestScorer(s.n_trees, *F[:3], *F[3:6], d, *F[6:9], c)
    t.lap("forest")
    sums = sp.csr_array(Yk.T.tocsr() @ Xk)
    sums.sort_indices()
    cent = pruned_centroids(sums, s.centroid_features, n_jobs)
    t.lap("centroids")
    nothing = sp.csr_array((c, d), dtype=np.float32)
    zero = np.zeros(c, np.float32)
    P = _core.Predictor(scorer, *csr_parts(cent), *csr_parts(nothing), zero, zero, 1, 1, 1, s.forest_candidates, s.centroid_candidates, s.smallest, s.longest_list)
    ip, idx, lf, cos, _ = P.find(*csr_parts(X), n_jobs)
    t.lap("retrieval")
    st = _core.OneVsRestSettings(s.cost, s.positive_weight, s.tolerance, s.max_passes, -1.0, s.recheck, s.drop, random_state)
    W, b, H = _core.fit_one_vs_rest(*csr_parts(X), d, *csr_parts(Y)[:2], c, ip, idx, held, st, n_jobs)
    t.lap("head")
    t["pairs"] = len(idx) / 1e6
    # blend
    Ht = sp.csr_array((H[2], H[1], H[0]), shape=(c, n)).T.tocsr()[V]
    Ht.sort_indices()
    C = sp.csr_array((np.arange(len(idx)), idx, ip), shape=(n, c))[V]
    entry = C.data.astype(np.int64)
    kc = np.repeat(np.arange(len(V)), np.diff(C.indptr)) * np.int64(c) + C.indices
    kh = np.repeat(np.arange(len(V)), np.diff(Ht.indptr)) * np.int64(c) + Ht.indices
    h = Ht.data[np.searchsorted(kh, kc)]
    cnt = np.bincount(Yk.indices, minlength=c)
    A = np.stack([log_head(h), lf[entry], cos[entry], np.log1p(cnt[C.indices])], 1).astype(np.float64)
    true = is_true_label(C.indptr, C.indices, Yv)
    imp = None
    if objective == "propensity":
        from labelprism.metrics import inverse_propensity
        imp = inverse_propensity(Y)[C.indices]
    blend = learn_blend(C.indptr.astype(np.int64), A, true, imp)
    t.lap("blend")
    sums = sp.csr_array(sums + Yv.T.tocsr() @ Xv)
    sums.sort_indices()
    cent = pruned_centroids(sums, s.centroid_features, n_jobs)
    prior = (blend.frequency * np.log1p(np.bincount(Y.indices, minlength=c))).astype(np.float32)
    Wm = sp.csr_array((W[2], W[1], W[0]), shape=(c, d))
    P = _core.Predictor(scorer, *csr_parts(cent), *csr_parts(Wm), b, prior, blend.head, blend.forest, blend.centroid, s.forest_candidates, s.centroid_candidates, s.smallest, s.longest_list)
    t.lap("final")
    return P, dict(times=t, blend=blend, W=Wm, cent=cent, F=F, b=b)
