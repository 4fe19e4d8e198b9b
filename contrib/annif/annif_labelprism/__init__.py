"""labelprism as a backend of Annif: `backend=labelprism` in a project's configuration.

Annif has no plug-ins: its backends are a dict of functions that import them when a project asks for one. Importing
this package adds ours to that dict; nothing heavy is loaded by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import annif.backend

if TYPE_CHECKING:
    from annif_labelprism.backend import LabelprismBackend

__version__ = "0.1.0"


def _labelprism() -> type[LabelprismBackend]:
    """Import the backend, as Annif's own functions of this kind do."""
    try:
        from annif_labelprism.backend import LabelprismBackend
    except ImportError as error:
        raise ValueError("labelprism not available, cannot use labelprism backend") from error
    return LabelprismBackend


annif.backend._backend_fns["labelprism"] = _labelprism
