"""Models as projects of Annif: `/v1/projects`, for its `http` backend and other clients of its REST API."""

from __future__ import annotations

import math
import re
import time
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import FastAPI, Path
from starlette.requests import Request
from starlette.responses import Response

from labelprism.serve import schemas
from labelprism.serve.bodies import BodyHeaders, check_media_type, form_fields
from labelprism.serve.errors import invalid
from labelprism.serve.predict_api import labels_of
from labelprism.serve.routes import add_route, json_response
from labelprism.serve.served_model import ServedModel
from labelprism.serve.service import Service

Project = Annotated[str, Path(description="The name of a model.", examples=["model"])]

_FORM = "application/x-www-form-urlencoded"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_SUGGEST_FORM = {
    "required": True,
    "content": {
        _FORM: {
            "schema": {
                "type": "object",
                "required": ["text"],
                "properties": {
                    "text": {"type": "string", "description": "The text to suggest subjects for."},
                    "limit": {"type": "integer", "minimum": 1, "default": 10, "description": "How many subjects."},
                    "threshold": {"type": "number", "default": 0, "description": "The lowest score, from 0 to 1."},
                },
            }
        }
    },
}


def uri_of(name: str) -> str:
    """Return the URI of a label: its name where that is one, as in models of Annif's corpora; else one made of it."""
    return name if _URI.fullmatch(name) else f"urn:labelprism:{quote(name, safe='')}"


def add_annif_api(app: FastAPI, service: Service) -> None:
    """Add the routes of Annif's REST API."""

    async def list_projects(request: Request) -> Response:
        """List the models as projects."""
        return json_response({"projects": [_project(model) for model in service.models]})

    async def show_project(request: Request, project_id: Project) -> Response:
        """Tell about a model as a project."""
        return json_response(_project(service.models[project_id]))

    async def suggest(request: Request, project_id: Project) -> Response:
        """Suggest subjects for a text; scores are probabilities."""
        model = service.models[project_id]
        headers = BodyHeaders.of(request)
        check_media_type(headers, _FORM.encode())
        with service.bodies.held(headers):
            fields = form_fields(await service.bodies.read(request, headers))
            if "text" not in fields:
                raise invalid("the field text is missing", "text")
            limit, threshold = _limit(fields.get("limit", "10")), _threshold(fields.get("threshold", "0"))
            service.check_k(limit)
            if not model.takes_texts:
                model.features_of([])  # says what is wrong
            request.scope["labelprism.note"] = {"model": project_id, "rows": 1}
            ranking, model = await service.rank(project_id, [fields["text"]], limit, likely=True)
            found = labels_of(ranking, model.names, threshold)[0]
        results = [
            {"uri": uri_of(each["name"]), "label": each["name"], "notation": None, "score": each["score"]}
            for each in found
        ]
        return json_response({"results": results})

    common: dict[str, Any] = {"tags": ["Annif"]}
    add_route(app, "GET", "/v1/projects", list_projects, schemas.AnnifProjects, **common)
    add_route(app, "GET", "/v1/projects/{project_id}", show_project, schemas.AnnifProject, **common)
    add_route(
        app, "POST", "/v1/projects/{project_id}/suggest", suggest, schemas.AnnifSuggestions,
        openapi_extra={"requestBody": _SUGGEST_FORM}, **common,
    )  # fmt: skip


def _project(model: ServedModel) -> dict[str, Any]:
    return {
        "project_id": model.name,
        "name": model.name,
        "language": "und",
        "backend": {"backend_id": "labelprism"},
        "vocab": None,
        "vocab_language": None,
        "is_trained": True,
        "modification_time": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(model.identity[1] / 1e9)),
    }


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9) or int(text) < 1:
        raise invalid("limit must be a whole number from 1", "limit")
    return int(text)


def _threshold(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise invalid("threshold must be a number from 0 to 1", "threshold")
    return value
