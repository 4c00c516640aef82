"""How much of a request is read: never more than its route allows, and only JSON where an event is expected."""

from collections.abc import Mapping

from fastapi import HTTPException, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOO_LARGE = 413
UNSUPPORTED = 415


class BodyLimit:
    """ASGI middleware: a body over the route's limit is refused as soon as that is known."""

    def __init__(self, app: ASGIApp, limits: Mapping[str, int], other: int, below: Mapping[str, int]) -> None:
        """``limits`` by path, ``below`` by how paths begin, ``other`` for all that is left; in bytes."""
        self._app = app
        self._limits = limits
        self._other = other
        self._below = below

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count what is read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        limit = self._limits.get(path) or next(
            (most for begin, most in self._below.items() if path.startswith(begin)), self._other
        )
        declared = Headers(scope=scope).get("content-length", "")
        length = 0

        async def counted() -> Message:
            nonlocal length
            message = await receive()
            length += len(message.get("body", b""))
            if length > limit or (declared.isdigit() and int(declared) > limit):
                raise HTTPException(TOO_LARGE, f"the body is larger than {limit} bytes; send less data")
            return message

        await self._app(scope, counted, send)


async def read(request: Request) -> bytes:
    """The body. Raises HTTPException: 413, or 415 for anything but JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        # Also keeps out what a web page may send across origins without asking first.
        raise HTTPException(UNSUPPORTED, "send the header Content-Type: application/json")
    return await request.body()
