"""The short way from a request to its route.

The six calls from FastAPI's application to a route take 20 microseconds and do nothing for the routes of this server,
which check their requests themselves. Here two or three look-ups find the route; whatever they do not find is left to
FastAPI, which also says what is wrong with it.
"""

from __future__ import annotations

from fastapi import FastAPI
from starlette.types import ASGIApp, Scope

from labelprism.serve.routes import DirectRoute


class Shortcut:
    """The routes of an application that have at most one parameter, and that in one of the last two parts of the path.

    Parameters
    ----------
    app : FastAPI
        With all its routes.
    """

    def __init__(self, app: FastAPI) -> None:
        self._application = app
        self._exact: dict[tuple[str, str], DirectRoute] = {}
        self._by_ends: dict[tuple[str, str, str], tuple[DirectRoute, str]] = {}  # and the name of the parameter
        for route in app.routes:
            if isinstance(route, DirectRoute):
                self._add(route)

    def _add(self, route: DirectRoute) -> None:
        before, opens, rest = route.path.partition("{")
        parameter, _, after = rest.partition("}")
        for method in route.methods or ():
            if not opens:
                self._exact.setdefault((method, route.path), route)
            elif "{" not in after and after.count("/") <= 1:
                self._by_ends.setdefault((method, before, after), (route, parameter))

    def app_for(self, scope: Scope) -> ASGIApp | None:
        """Return what answers a request, and complete its scope as FastAPI would; None if the look-ups find nothing."""
        method, path = scope["method"], scope["path"]
        route = self._exact.get((method, path))
        if route is not None:
            scope["path_params"] = {}
        else:
            before, _, value = path.rpartition("/")
            found = self._by_ends.get((method, f"{before}/", ""))
            if found is None:
                after = value
                before, _, value = before.rpartition("/")
                found = self._by_ends.get((method, f"{before}/", f"/{after}"))
            if found is None or not value:
                return None
            route, parameter = found
            scope["path_params"] = {parameter: value}
        scope["app"], scope["route"] = self._application, route
        return route.app
