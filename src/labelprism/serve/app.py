"""The ASGI application: all protocols, the page, the metrics."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from labelprism import __version__
from labelprism.serve.annif_api import add_annif_api
from labelprism.serve.errors import RequestError
from labelprism.serve.front import AccessLog, Front
from labelprism.serve.inference_protocol import add_inference_protocol
from labelprism.serve.page import add_page
from labelprism.serve.predict_api import add_predict_api
from labelprism.serve.service import Service
from labelprism.serve.settings import ServeSettings
from labelprism.serve.shortcut import Shortcut

_DESCRIPTION = "Suggests labels for texts and rows: its own protocol, the Open Inference Protocol, and Annif's."
_CODES = {404: "not_found", 405: "method_not_allowed"}


def create_app(settings: ServeSettings) -> Any:
    """Return the application, its models loaded.

    Parameters
    ----------
    settings : ServeSettings

    Returns
    -------
    ASGI application
    """
    service = Service(settings)
    log = AccessLog(sys.stdout.fileno()) if settings.access_log else None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(_note_queue(service)), asyncio.create_task(service.limits.watch())]
        if settings.reload:
            tasks.append(asyncio.create_task(service.models.watch(settings.reload_s)))
        yield
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if log is not None:
            log.flush()

    app = FastAPI(
        title="labelprism",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        exception_handlers={HTTPException: _refused},
    )
    app.router.redirect_slashes = False
    app.state.service = service
    add_predict_api(app, service)  # first: routes are tried in their order
    add_inference_protocol(app, service)
    add_annif_api(app, service)
    add_page(app, service)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
        )
    # Other origins need their middleware, which only the long way passes.
    shortcut = None if settings.cors_origins else Shortcut(app)
    return Front(app, service.metrics, settings.token, log, shortcut)


async def _note_queue(service: Service) -> None:
    while True:
        service.metrics.note_queue()
        await asyncio.sleep(1)


async def _refused(request: Request, error: Exception) -> Response:
    """Answer what no route takes."""
    assert isinstance(error, HTTPException)
    status = error.status_code
    message = {
        404: "there is nothing here; /docs lists what there is",
        405: f"{request.method[:20]} is not possible here; see /docs",
    }.get(status, str(error.detail))
    return RequestError(status, _CODES.get(status, "refused"), message, headers=error.headers).response()
