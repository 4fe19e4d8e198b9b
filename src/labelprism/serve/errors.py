"""What goes wrong with a request, as JSON that says what to fix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json
from starlette.responses import Response

_MOST_DETAILS = 10
_LONGEST_PROBLEM = 300


class RequestError(Exception):
    """A request that is answered with an error.

    Parameters
    ----------
    status : int
        The HTTP status.
    code : str
        A word for programs.
    message : str
        A sentence for people: what was wrong, and what to do.
    details : sequence of dict, optional
        Each place in the request and what is wrong there.
    headers : dict, optional
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.details, self.headers = details, headers

    def response(self) -> Response:
        """Return what the client gets; `error` is a string, as the Open Inference Protocol wants it."""
        content: dict[str, Any] = {"error": self.message, "code": self.code, "details": list(self.details)}
        return Response(to_json(content, inf_nan_mode="null"), self.status, self.headers, media_type="application/json")


def unreadable(error: ValidationError) -> RequestError:
    """Return what is wrong with a body that pydantic refused; nothing of the body itself is repeated."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    is_syntax = any(each["type"] == "json_invalid" for each in found)
    details = [
        {"at": ".".join(map(str, each["loc"]))[:_LONGEST_PROBLEM], "problem": each["msg"][:_LONGEST_PROBLEM]}
        for each in found[:_MOST_DETAILS]
    ]
    first = details[0]
    place = f" at {first['at']}" if first["at"] else ""
    more = f" (and {len(found) - 1} more problems)" if len(found) > 1 else ""
    if is_syntax:
        return RequestError(400, "invalid_json", f"the body is not JSON: {first['problem']}", details)
    return RequestError(
        422, "invalid_request", f"the request is not as expected{place}: {first['problem']}{more}", details
    )


def invalid(message: str, at: str = "") -> RequestError:
    """Return the error of a value that cannot be used."""
    return RequestError(422, "invalid_request", message, [{"at": at, "problem": message}] if at else ())


def busy(status: int, code: str, message: str, seconds: int = 1) -> RequestError:
    """Return the error of a server that has too much to do; the client is told when to come back."""
    return RequestError(status, code, message, headers={"Retry-After": str(seconds)})
