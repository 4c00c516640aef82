"""Who may call: with a key its bearer; without one only programs of this machine, and no web page through them.

A page in a browser on this machine could reach a server on loopback: by a form or script of another origin, or by a
name that it makes resolve to 127.0.0.1 (DNS rebinding). So without a key the Host must be a loopback name, and a
request that a page of another origin sends is refused (Fetch standard: such a request that is not GET or HEAD
carries Origin).

A key may belong to a tenant. Then it sees and changes nothing of others, and nothing that all share. A page in a
browser has no key but a ticket (``api.tickets``), which it may show as a subprotocol where it can set no header.
"""

import ipaddress
import secrets
import time
from collections.abc import Sequence
from typing import Protocol
from urllib.parse import urlsplit

from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from ringonce.api import tickets
from ringonce.api.problems import problem

OPEN = frozenset({"/healthz", "/readyz", "/openapi.json"})
SIGNED = "/v1/receipts/"
"""Below it callers prove by the vendor's signature who they are."""
FORBIDDEN = 403


def is_open(path: str) -> bool:
    """No key is asked for."""
    return path in OPEN or path.startswith(SIGNED)


class TenantKey(Protocol):
    """``config.ApiKey``."""

    @property
    def key(self) -> str:
        """What the caller presents."""
        ...

    @property
    def tenant(self) -> str:
        """Whose it is."""
        ...


def is_loopback(host: str) -> bool:
    """Only programs of this machine reach a server that listens there."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def caller(request: HTTPConnection) -> str | None:
    """The tenant that the caller's key belongs to; None: it sees all."""
    tenant: str | None = request.scope.get("state", {}).get("tenant")
    return tenant


def scope(request: HTTPConnection, tenant: str | None) -> str | None:
    """The tenant that is asked about, never another than the caller's own; None: all. Raises HTTPException 403."""
    own = caller(request)
    if own is None:
        return tenant
    if tenant not in {None, own}:
        raise HTTPException(FORBIDDEN, "this key belongs to another tenant; leave tenant out")
    return own


def platform(request: Request) -> None:
    """A dependency of routes that show or change what all tenants share. Raises HTTPException 403."""
    if caller(request) is not None:
        raise HTTPException(FORBIDDEN, "this key belongs to a tenant, and this is shared by all of them")


def _given(headers: Headers) -> str:
    """The key or ticket that is shown."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return bearer.strip()
    return headers.get("x-api-key") or tickets.from_protocols(headers.get("sec-websocket-protocol", ""))


class Access:
    """ASGI middleware; without any key: loopback only."""

    def __init__(self, app: ASGIApp, key: str | None, keys: Sequence[TenantKey] = ()) -> None:
        self._app = app
        self._keys: list[tuple[str, str | None]] = [(one.key, one.tenant) for one in keys]
        if key is not None:
            self._keys.append((key, None))
        # Without keys tickets work all the same, so that a page needs no change; they end with the process.
        self._sealing = self._keys or [(secrets.token_urlsafe(32), None)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer why not."""
        refusal = self._refusal(scope) if scope["type"] in {"http", "websocket"} else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers, path = Headers(scope=scope), scope["path"]
        if path.startswith(SIGNED):
            return None
        if not self._keys and (refusal := self._local(headers)) is not None:
            return refusal
        if is_open(path):
            return None
        given = _given(headers)
        if given.startswith(tickets.PREFIX):
            return self._ticket(scope, given)
        state = scope.setdefault("state", {})
        if not self._keys:
            state["secret"] = self._sealing[0][0]
            return None
        # All are compared, so that the time tells nothing.
        matches = [one for one in self._keys if secrets.compare_digest(given.encode(), one[0].encode())]
        if matches:
            state["secret"], state["tenant"] = matches[0]
            return None
        return problem(
            401,
            "a key is needed (Authorization: Bearer … or X-API-Key: …)",
            "unauthorized",
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _ticket(self, scope: Scope, given: str) -> JSONResponse | None:
        """A ticket opens one inbox, for a while."""
        ticket = tickets.read(given, self._sealing)
        if ticket is None or ticket.until <= time.time():
            return problem(
                401, "this ticket is over, or none of ours; get a new one", "ticket_over",
                headers={"WWW-Authenticate": "Bearer"},
            )  # fmt: skip
        if not ticket.admits(scope["path"]):
            return problem(FORBIDDEN, "this ticket opens the inbox of one recipient only", "forbidden")
        scope.setdefault("state", {}).update(tenant=ticket.tenant, until=ticket.until)
        return None

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
