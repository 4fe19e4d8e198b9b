"""Training and prediction on a Dask cluster: `DaskPrismClassifier`.

Dask and its distributed scheduler come with the extra `dask`.
"""

from __future__ import annotations

try:
    import dask.array  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError("labelprism.distributed needs Dask: pip install 'labelprism[dask]'") from error

from labelprism.distributed.estimator import DaskPrismClassifier

__all__ = ["DaskPrismClassifier"]
