"""Look into a model: its trees as a page, as figures for notebooks, as pictures and as a table."""

from labelprism.explore.examples import explained
from labelprism.explore.html import page, page_of
from labelprism.explore.views import TreeView, tree_view

__all__ = ["TreeView", "explained", "page", "page_of", "tree_view"]
