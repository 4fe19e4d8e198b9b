"""`labelprism completion`: what makes a shell complete commands and flags; `shtab` writes it."""

from __future__ import annotations

import argparse
from typing import Any

from labelprism.cli.flags import build_parser
from labelprism.cli.settings import UsageError


def run(arguments: argparse.Namespace) -> None:
    """Print the script for a shell."""
    try:
        import shtab
    except ImportError as error:
        raise UsageError("completion needs shtab: pip install 'labelprism[completion]'") from error
    parser = build_parser()
    _complete_paths(parser, shtab.FILE)
    print(shtab.complete(parser, shell=arguments.shell))


def _complete_paths(parser: argparse.ArgumentParser, files: Any) -> None:
    """Tell shtab which arguments are paths, of this parser and of those of its commands."""
    for action in parser._actions:
        if getattr(action, "is_path", False):
            action.complete = files  # type: ignore[attr-defined]
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_paths(command, files)
