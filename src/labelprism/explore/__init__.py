"""Look into a model: its trees as a page, as figures for notebooks, as pictures and as a table."""

from labelprism.explore.diagrams import (
    Timed,
    frontier,
    frontier_picture,
    node_picture,
    recall_picture,
    ways_picture,
)
from labelprism.explore.drawing import save_picture
from labelprism.explore.examples import explained
from labelprism.explore.figures import (
    candidates_per_leaf,
    icicle,
    label_coverage,
    purity_and_balance,
    recall_by_depth,
    treemap,
)
from labelprism.explore.html import page, page_of
from labelprism.explore.pictures import model_picture, save_pictures, tree_picture
from labelprism.explore.routes import NodeMargins, Ways, node_margins, ways
from labelprism.explore.table import NodeRow, frequent_labels
from labelprism.explore.views import TreeView, tree_view

__all__ = [
    "NodeMargins",
    "NodeRow",
    "Timed",
    "TreeView",
    "Ways",
    "candidates_per_leaf",
    "explained",
    "frequent_labels",
    "frontier",
    "frontier_picture",
    "icicle",
    "label_coverage",
    "model_picture",
    "node_margins",
    "node_picture",
    "page",
    "page_of",
    "purity_and_balance",
    "recall_by_depth",
    "recall_picture",
    "save_picture",
    "save_pictures",
    "tree_picture",
    "tree_view",
    "treemap",
    "ways",
    "ways_picture",
]
