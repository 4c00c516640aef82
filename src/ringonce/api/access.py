"""Who may call: with a key its bearer; without one only programs of this machine, and no web page through them.

A page in a browser on this machine could reach a server on loopback: by a form or script of another origin, or by a
name that it makes resolve to 127.0.0.1 (DNS rebinding). So without a key the Host must be a loopback name, and a
request that a page of another origin sends is refused (Fetch standard: such a request that is not GET or HEAD
carries Origin).
"""

import ipaddress
import secrets
from urllib.parse import urlsplit

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ringonce.api.problems import problem

OPEN = frozenset({"/healthz", "/readyz", "/openapi.json"})


def is_loopback(host: str) -> bool:
    """Only programs of this machine reach a server that listens there."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Access:
    """ASGI middleware; ``key`` None: loopback only."""

    def __init__(self, app: ASGIApp, key: str | None) -> None:
        self._app = app
        self._key = key.encode() if key is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer why not."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        if self._key is None:
            return self._local(headers)
        if scope["path"] in OPEN:
            return None
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = bearer.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        if secrets.compare_digest(given.encode(), self._key):
            return None
        return problem(
            401,
            "a key is needed (Authorization: Bearer … or X-API-Key: …)",
            "unauthorized",
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _local(self, headers: Headers) -> JSONResponse | None:
        host = headers.get("host", "")
        if not is_loopback(urlsplit(f"//{host}").hostname or ""):
            return problem(
                403, "without a key only http://127.0.0.1 and localhost are served", "forbidden_host"
            )
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return problem(403, "without a key no web page of another origin is served", "forbidden_origin")
        return None
