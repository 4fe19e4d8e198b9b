"""Routes that FastAPI describes and that read their bodies themselves.

FastAPI makes the OpenAPI document from the signatures of the endpoints. Its own way from a request to an endpoint takes
60 microseconds, more than all else that a request for one text needs; here a body goes from bytes to a checked model in
one step of pydantic.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from labelprism.serve.bodies import BodyHeaders, check_media_type
from labelprism.serve.errors import RequestError, unreadable
from labelprism.serve.schemas import ErrorResponse
from labelprism.serve.service import Service

logger = logging.getLogger("labelprism")

Endpoint = Callable[..., Awaitable[Response]]

_LONGEST_PATH = 200
_REFUSALS = {
    400: "The body is not what it says it is.",
    401: "The token is missing or wrong.",
    404: "There is no such model.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is of another kind.",
    422: "The request cannot be answered as it is.",
    429: "Too much to do; try again later.",
    503: "Not now; try again later.",
}


class DirectRoute(APIRoute):
    """A route whose endpoint is called with the request, the parts of the path, and the checked body, if it has one."""

    def __init__(self, path: str, endpoint: Endpoint, **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.app = _direct(endpoint)


def _direct(endpoint: Endpoint) -> ASGIApp:
    body = inspect.signature(endpoint, eval_str=True).parameters.get("body")
    adapter = None if body is None else TypeAdapter(body.annotation)
    service: Service | None = None

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal service
        if service is None:
            service = scope["app"].state.service
        request = Request(scope, receive)
        try:
            if adapter is None:
                response = await endpoint(request, **scope["path_params"])
            else:
                headers = BodyHeaders.of(request)
                check_media_type(headers, b"application/json")
                with service.bodies.held(headers):
                    parsed = _parsed(adapter, await service.bodies.read(request, headers))
                    response = await endpoint(request, **scope["path_params"], body=parsed)
        except RequestError as error:
            response = error.response()
        except ClientDisconnect:
            raise
        except Exception:
            logger.exception("unexpected error in %s %s", scope["method"], scope["path"][:_LONGEST_PATH])
            response = _unexpected().response()
        await response(scope, receive, send)

    return app


def _unexpected() -> RequestError:
    return RequestError(500, "unexpected", "something unexpected went wrong; the log of the server tells more")


def _parsed(adapter: TypeAdapter[Any], content: bytes) -> Any:
    try:
        return adapter.validate_json(content)
    except ValidationError as error:
        raise unreadable(error) from None


def add_route(app: FastAPI, method: str, path: str, endpoint: Endpoint, answer: Any = None, **options: Any) -> None:
    """Add a route to an application.

    Parameters
    ----------
    app : FastAPI
    method, path : str
    endpoint : coroutine function
        Takes `request`, the parts of the path by name, and `body` if it wants one.
    answer : type, optional
        The model of the answer, for the OpenAPI document.
    **options
        Passed to `fastapi.APIRouter.add_api_route`.
    """
    statuses = [401, 404, 422, 429, 503] if method == "GET" else list(_REFUSALS)
    refusals: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorResponse, "description": _REFUSALS[status]} for status in statuses
    }
    app.router.add_api_route(
        path,
        endpoint,
        methods=[method],
        response_model=answer,
        responses={**refusals, **options.pop("responses", {})},
        route_class_override=DirectRoute,
        **options,
    )


def json_response(content: Any, status: int = 200) -> Response:
    """Return an answer as JSON."""
    return Response(to_json(content), status, media_type="application/json")
