"""Tickets: what lets a browser open a page behind the token, since a link cannot carry a header.

Whoever has the token gets a ticket for one address, good for a minute. A ticket is signed with the token, so that every
worker knows it again and none keeps a list.
"""

from __future__ import annotations

import hashlib
import hmac
from time import time

_SECONDS = 60


class Tickets:
    """Tickets of a server.

    Parameters
    ----------
    token : str
        That of the server.
    """

    def __init__(self, token: str) -> None:
        self._key = token.encode()

    def issue(self, path: str) -> str:
        """Return a ticket for an address of this server."""
        return self._signed(path, int(time()) + _SECONDS)

    def is_valid(self, path: str, ticket: str) -> bool:
        """Tell whether a ticket is for this address, and still good."""
        end = ticket.partition("-")[0]
        if not (end.isascii() and end.isdigit() and len(end) <= 12 and ticket.isascii()) or int(end) < time():
            return False
        return hmac.compare_digest(ticket, self._signed(path, int(end)))

    def _signed(self, path: str, end: int) -> str:
        return f"{end}-{hmac.new(self._key, f'{end} {path}'.encode(), hashlib.sha256).hexdigest()}"
