"""`labelprism serve`: models behind HTTP."""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

from labelprism.cli.settings import UsageError
from labelprism.serve import ServeSettings

TOKEN_VARIABLE = "LABELPRISM_TOKEN"


def run(arguments: argparse.Namespace) -> None:
    """Serve until told to end."""
    try:
        from labelprism.serve import run as server
    except ImportError as error:
        raise UsageError(f"serve needs more packages ({error}): pip install 'labelprism[serve]'") from error
    settings = settings_of(arguments)
    # The program's own handlers would end the process at once; a server finishes what it has accepted.
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    server.run(settings)


def settings_of(arguments: argparse.Namespace) -> ServeSettings:
    """Return what the flags say."""
    models: dict[str, str] = {}
    given = [(_name_of(path), path) for path in arguments.models] + [_named(text) for text in arguments.model]
    for name, path in given:
        if name in models:
            raise UsageError(f"two models have the name {name}; give names, as in --model {name}-2={path}")
        models[name] = path
    if not models:
        raise UsageError("serve needs the folder of a model")
    try:
        return ServeSettings(
            models=models,
            host=arguments.host,
            port=arguments.port,
            workers=arguments.workers,
            threads=arguments.threads,
            max_queue=arguments.max_queue,
            deadline_ms=arguments.deadline_ms,
            max_body=arguments.max_body,
            max_rows=arguments.max_rows,
            max_features=arguments.max_features,
            max_k=arguments.max_k,
            max_connections=arguments.max_connections,
            timeout_s=arguments.timeout,
            shutdown_s=arguments.shutdown_timeout,
            token=arguments.token if arguments.token is not None else os.environ.get(TOKEN_VARIABLE),
            cors_origins=tuple(arguments.cors_origin),
            reload=arguments.reload,
            reload_s=arguments.reload_seconds,
            access_log=arguments.access_log,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def _name_of(path: str) -> str:
    """Return the name of a model that was given none: that of its folder."""
    return Path(path).resolve().name


def _named(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or not name or not path:
        raise UsageError(f"--model {text}: expected NAME=FOLDER")
    return name, path
