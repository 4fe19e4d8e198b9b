"""Transformers that make features: from texts, from counts, and for kernels. All are scikit-learn transformers."""

from labelprism.features.kernel import RandomFourierFeatures
from labelprism.features.text import TextHasher
from labelprism.features.text_features import TextFeatures
from labelprism.features.weighting import HellingerMap, Tfidf

__all__ = ["HellingerMap", "RandomFourierFeatures", "TextFeatures", "TextHasher", "Tfidf"]
