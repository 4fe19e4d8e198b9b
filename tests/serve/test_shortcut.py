"""The short way to a route: it leads where FastAPI's own way leads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import Match

from labelprism.serve.app import create_app
from labelprism.serve.routes import DirectRoute
from labelprism.serve.settings import ServeSettings
from labelprism.serve.shortcut import Shortcut

PARTS = ["", "v1", "v2", "models", "projects", "m", "predict", "infer", "suggest", "ready", "versions", "nodes", "7",
         "health", "live", "explore", "explain", "ticket", "page", "page.js", "docs", "metrics", "a b\n"]  # fmt: skip


@pytest.fixture(scope="module")
def app(models: dict[str, Path]) -> Any:
    return create_app(ServeSettings({"texts": str(models["texts"])}, access_log=False))._app


def scope_of(method: str, path: str) -> dict[str, Any]:
    return {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}


def usual(app: Any, scope: dict[str, Any]) -> tuple[Any, Any]:
    """Return the route that FastAPI takes, and the parts of the path."""
    for route in app.routes:
        match, found = route.matches(scope)
        if match is Match.FULL:
            return route, found["path_params"]
    return None, None


@given(
    parts=st.lists(st.sampled_from(PARTS), min_size=1, max_size=6),
    method=st.sampled_from(["GET", "POST", "HEAD", "OPTIONS"]),
)
def test_it_finds_what_fastapi_finds(app: Any, parts: list[str], method: str) -> None:
    path = "/" + "/".join(parts)
    route, values = usual(app, scope_of(method, path))
    scope = scope_of(method, path)
    found = Shortcut(app).app_for(scope)
    if found is None:
        assert scope == scope_of(method, path)  # untouched
    else:
        assert found is route.app
        assert (scope["route"], scope["path_params"], scope["app"]) == (route, values, app)


def test_it_finds_all_routes_of_one_parameter(app: Any) -> None:
    shortcut = Shortcut(app)
    missed = []
    for route in app.routes:
        if isinstance(route, DirectRoute):
            [method] = route.methods
            path = route.path.replace("{", "x").replace("}", "")
            if shortcut.app_for(scope_of(method, path)) is None:
                missed.append(route.path)
    assert missed
    assert all(path.count("{") == 2 for path in missed)
