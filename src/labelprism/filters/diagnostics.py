"""How good a tree is, in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labelprism.filters.base import mean_recall

if TYPE_CHECKING:
    from labelprism.filters.tree import SpectralTree


@dataclass(frozen=True)
class TreeDiagnostics:
    """What the paper reports of a tree; averages are over the training examples."""

    depth: int
    """The depth of the deepest leaf."""
    n_leaves: int
    average_depth: float
    """The mean depth of the examples' leaves."""
    average_candidates: float
    """The mean number of candidates of the examples' leaves."""
    train_recall: float
    """The share of an example's labels among its candidates, averaged over the examples that have labels."""
    holdout_recall: float
    """The same for held-out examples; nan without."""
    orphan_share: float
    """The share of the labels seen in training that were added as orphans."""
    purity: npt.NDArray[np.float64]
    """Of every node's split, (n_nodes,); nan for leaves."""
    balance: npt.NDArray[np.float64]
    """Of every node's split, (n_nodes,); nan for leaves."""

    def __str__(self) -> str:
        return (
            f"depth {self.depth}, {self.n_leaves} leaves, average depth {self.average_depth:.2f}, "
            f"average candidates {self.average_candidates:.2f}, recall {100 * self.train_recall:.2f}% on training and "
            f"{100 * self.holdout_recall:.2f}% on held-out examples, {100 * self.orphan_share:.2f}% orphans"
        )


def diagnose(tree: SpectralTree, train: tuple[Any, Any], holdout: tuple[Any, Any] | None) -> TreeDiagnostics:
    """Measure a tree; see `SpectralTree.diagnostics`."""
    X, Y = train
    leaves = tree.route(X)
    seen = int(np.count_nonzero(np.bincount(Y.indices, minlength=Y.shape[1])))
    return TreeDiagnostics(
        depth=int(tree.depth_.max()),
        n_leaves=int(tree.leaf_nodes_.size),
        average_depth=float(tree.depth_[tree.leaf_nodes_][leaves].mean()),
        average_candidates=float(np.diff(tree.leaf_candidates_.indptr)[leaves].mean()),
        train_recall=mean_recall(tree.leaf_candidates_, leaves, Y),
        holdout_recall=float("nan") if holdout is None else _recall(tree, *holdout),
        orphan_share=tree.orphans_.size / max(seen, 1),
        purity=tree.purity_,
        balance=tree.balance_,
    )


def _recall(tree: SpectralTree, X: Any, Y: Any) -> float:
    return mean_recall(tree.leaf_candidates_, tree.route(X), Y)
