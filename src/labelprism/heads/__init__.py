"""Heads: H of the paper, which scores the candidates of an example."""

from labelprism.heads.base import Head, Routes
from labelprism.heads.constant import ConstantHead
from labelprism.heads.embedding import LabelEmbedding
from labelprism.heads.logistic import LogisticHead
from labelprism.heads.low_rank import LowRankHead
from labelprism.heads.one_vs_rest import OneVsRestHead
from labelprism.heads.wrapped import WrappedHead

__all__ = [
    "ConstantHead",
    "Head",
    "LabelEmbedding",
    "LogisticHead",
    "LowRankHead",
    "OneVsRestHead",
    "Routes",
    "WrappedHead",
]
