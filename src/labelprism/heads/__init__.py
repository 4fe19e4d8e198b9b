"""Heads: H of the paper, which scores the candidates of an example."""

from labelprism.heads.base import Head, Routes
from labelprism.heads.one_vs_rest import OneVsRestHead

__all__ = ["Head", "OneVsRestHead", "Routes"]
