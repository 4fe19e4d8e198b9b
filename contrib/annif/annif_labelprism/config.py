"""Annif's own configuration, from a module that registers our backend: `ANNIF_CONFIG=annif_labelprism.config.Config`.

Annif imports what this variable names in every program that makes its application: the commands of `annif`, and the
web service under gunicorn or uvicorn.
"""

from __future__ import annotations

import os

from annif import default_config

import annif_labelprism  # noqa: F401  (registers the backend)

# What Annif takes where the variable is not set.
_is_command = os.environ.get("FLASK_RUN_FROM_CLI") == "true"


class Config(default_config.Config if _is_command else default_config.ProductionConfig):  # type: ignore[misc]
    """The settings that Annif would have had."""
