"""Heads: H of the paper, which scores the candidates of an example."""

from labelprism.heads.base import Head, Routes

__all__ = ["Head", "Routes"]
