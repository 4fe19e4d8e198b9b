"""The program `labelprism`.

`flags` and `settings` know every flag and load nothing heavy, so that `--help` is instant; each command has a module of
its own, which is loaded when it runs.
"""

from labelprism.cli.program import main, run

__all__ = ["main", "run"]
