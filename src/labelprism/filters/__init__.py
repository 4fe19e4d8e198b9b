"""Filters: F of the paper, which maps an example to a small set of candidate labels."""

from labelprism.filters.base import Filter
from labelprism.filters.diagnostics import TreeDiagnostics
from labelprism.filters.flat import AllLabels, MostFrequent
from labelprism.filters.forest import SpectralForest
from labelprism.filters.tree import SpectralTree

__all__ = ["AllLabels", "Filter", "MostFrequent", "SpectralForest", "SpectralTree", "TreeDiagnostics"]
