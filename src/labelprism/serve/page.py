"""The page at `/`, the explorer, the OpenAPI page and the metrics: what people and Prometheus look at."""

from __future__ import annotations

import html
import json
from importlib import resources
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from labelprism.serve.errors import RequestError
from labelprism.serve.predict_api import Name
from labelprism.serve.routes import add_route, json_response
from labelprism.serve.schemas import ExplainRequest
from labelprism.serve.served_model import ServedModel
from labelprism.serve.service import Service
from labelprism.serve.tickets import Tickets

_FILES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_ENCODED = {"text/css": "text/css; charset=utf-8", "text/javascript": "text/javascript; charset=utf-8"}


def add_page(app: FastAPI, service: Service) -> None:
    """Add what a browser asks for, and `/metrics`."""
    folder = resources.files("labelprism.serve") / "static"
    page = (folder / "page.html").read_text(encoding="utf-8")
    content = {name: (folder / name).read_bytes() for name in _FILES}
    explorers: dict[str, tuple[str, str]] = {}

    def explorer_of(model: ServedModel) -> str:
        if explorers.get(model.name, ("", ""))[0] != model.version:
            # The page asks below its own address, whatever stands before that.
            shown = _explorer().page(model.classifier, title=model.name, explain_url=f"{model.name}/explain")
            explorers[model.name] = model.version, shown
        return explorers[model.name][1]

    async def show_page(request: Request) -> Response:
        """Show the page."""
        return HTMLResponse(page, headers=_HEADERS)

    async def show_file(request: Request, file: str) -> Response:
        """Return what the page is made of."""
        if file not in _FILES:
            raise RequestError(404, "not_found", "there is nothing here")
        kind = _FILES[file]
        return Response(content[file], headers=_HEADERS, media_type=_ENCODED.get(kind, kind))

    async def explore(request: Request, name: Name) -> Response:
        """Show the explorer of a model."""
        shown = await service.slowly(explorer_of, service.models[name])
        return HTMLResponse(shown, headers={"X-Content-Type-Options": "nosniff"})  # it brings its own policy

    async def ticket(request: Request, name: Name) -> Response:
        """Give a ticket for the explorer; a server without a token needs none, and takes any."""
        token = service.settings.token
        found = "" if token is None else Tickets(token).issue(f"/explore/{service.models[name].name}")
        return json_response({"ticket": found})

    async def explain(request: Request, name: Name, body: ExplainRequest) -> Response:
        """Explain a text to the explorer."""
        model = service.models[name]
        if not model.takes_texts:
            model.features_of([])  # says what is wrong
        return json_response(await service.slowly(_explorer().explained, model.classifier, [body.text]))

    async def metrics(request: Request) -> Response:
        """Return counters in the format of Prometheus."""
        return Response(service.metrics.page(), headers={"Content-Type": service.metrics.content_type})

    async def docs(request: Request) -> Response:
        """Show what can be asked, from the OpenAPI document."""
        return HTMLResponse(_documentation(app.openapi()), headers=_HEADERS)

    hidden: dict[str, Any] = {"include_in_schema": False}
    add_route(app, "GET", "/", show_page, **hidden)
    add_route(app, "GET", "/page/{file}", show_file, **hidden)
    add_route(app, "GET", "/explore/{name}", explore, **hidden)
    add_route(app, "POST", "/explore/{name}/ticket", ticket, **hidden)
    add_route(app, "POST", "/explore/{name}/explain", explain, **hidden)
    add_route(app, "GET", "/docs", docs, **hidden)
    add_route(app, "GET", "/metrics", metrics, **hidden)


def _explorer() -> Any:
    """Return the module of the explorer, which needs packages that the server does without."""
    try:
        import plotly  # noqa: F401

        from labelprism import explore
    except ImportError as error:
        message = f"the explorer needs more packages ({error}): pip install 'labelprism[explore]', and start again"
        raise RequestError(501, "no_explorer", message) from error
    return explore


# ------------------------------------------------------------------------------------------------------- OpenAPI page


def _documentation(document: dict[str, Any]) -> str:
    """Return the OpenAPI document as a page that needs nothing from elsewhere."""
    schemas = document.get("components", {}).get("schemas", {})
    operations = [
        _operation(method, path, operation, schemas)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    shown = "".join(
        f'<details id="schema-{html.escape(name)}"><summary><code>{html.escape(name)}</code> '
        f"{html.escape(schema.get('description', ''))}</summary>{_code(schema)}</details>"
        for name, schema in sorted(schemas.items())
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>labelprism: the API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="page/icon.svg"><link rel="stylesheet" href="page/page.css"></head><body>'
        f"<header><h1>{html.escape(document['info']['title'])} {html.escape(document['info']['version'])}</h1>"
        '<nav><a href="./">The page</a> <a href="openapi.json">openapi.json</a></nav></header>'
        f'<main class="docs"><p>{html.escape(document["info"].get("description", ""))}</p>'
        f"<h2>Requests</h2>{''.join(operations)}<h2>Bodies</h2>{shown}</main></body></html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    bodies = operation.get("requestBody", {}).get("content", {})
    request = "".join(
        f"<p>Body: <code>{html.escape(kind)}</code></p>{_code(_opened(body['schema'], schemas))}"
        for kind, body in bodies.items()
    )
    answers = "".join(
        f'<tr><th scope="row">{html.escape(str(status))}</th><td>{html.escape(answer["description"])}</td></tr>'
        for status, answer in operation["responses"].items()
    )
    return (
        f"<details><summary><code>{method.upper()} {html.escape(path)}</code> "
        f"{html.escape(operation.get('description', ''))}</summary>{request}"
        f"<table><caption>Answers</caption>{answers}</table></details>"
    )


def _opened(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return what a reference refers to."""
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = schemas.get(name, schema)
    return found


def _code(value: Any) -> str:
    return f'<pre tabindex="0">{html.escape(json.dumps(value, indent=2, ensure_ascii=False))}</pre>'
