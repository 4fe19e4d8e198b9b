"""The command `annif-labelprism`: `annif`, with our backend registered."""

from __future__ import annotations

from annif.cli import cli

import annif_labelprism  # noqa: F401  (registers the backend; processes that are spawned import this module too)


def run() -> None:
    """Run Annif's commands."""
    cli()


if __name__ == "__main__":
    run()
