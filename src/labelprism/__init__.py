"""labelprism: extreme classification, with 1,000 to 1,000,000 labels.

The parts are loaded when they are first used: `import labelprism` alone loads neither scikit-learn nor scipy.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"
__all__ = ["PrismClassifier", "__version__", "data", "explore", "features", "filters", "heads", "metrics"]


def __getattr__(name: str) -> Any:
    if name == "PrismClassifier":
        return importlib.import_module("labelprism.estimator").PrismClassifier
    if name in __all__:
        return importlib.import_module(f"labelprism.{name}")
    raise AttributeError(f"module 'labelprism' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
