"""Puts the routes together."""

from collections.abc import Sequence
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import WebSocketRoute

from ringonce.api import (
    bodies,
    drafts,
    failures,
    inbox,
    notifications,
    operations,
    problems,
    quarantine,
    receipts,
    recipients,
    socket,
)
from ringonce.api.access import Access, TenantKey, is_open
from ringonce.api.body import BodyLimit
from ringonce.api.facade import Facade
from ringonce.api.fields import once
from ringonce.api.paths import WholeSegments

BATCH_TIMES = 32
"""A batch may be this many times as large as one event may be."""
SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
OTHER_BODIES = 65_536
"""The largest body of any other request, in bytes."""


def create_app(
    facade: Facade,
    *,
    key: str | None = None,
    keys: Sequence[TenantKey] = (),
    max_payload: int = 262_144,
    heartbeat: float = 15.0,
    public_url: str = "",
    version: str = "0",
) -> FastAPI:
    """The ASGI application.

    Args:
        facade: what stands behind it.
        key: what callers must present. Without it and ``keys`` only programs of this machine are served.
        keys: keys that see one tenant only.
        max_payload: the largest event, in bytes.
        heartbeat: seconds of silence after which a stream says that it is still there.
        public_url: where the world reaches us, for signatures that cover it; empty: as callers name it.
        version: shown in ``/openapi.json``.
    """
    # No pages for /docs and /redoc: they would load scripts from foreign hosts.
    app = FastAPI(
        title="ringonce", version=version, docs_url=None, redoc_url=None, dependencies=[Depends(once)]
    )
    app.state.facade = facade
    app.state.max_payload = max_payload
    app.state.heartbeat = heartbeat
    app.state.streams = set()
    app.state.public_url = public_url.rstrip("/")
    for part in (notifications, drafts, failures, recipients, inbox, receipts, operations, quarantine):
        app.include_router(part.router)
    # Starlette's own: what FastAPI asks of all routes takes a request, and OpenAPI knows no WebSockets.
    app.router.routes.append(WebSocketRoute(socket.PATH, socket.connect))
    app.add_middleware(
        BodyLimit,
        limits={"/v1/notifications": max_payload, "/v1/notifications/batch": BATCH_TIMES * max_payload},
        other=OTHER_BODIES,
        below={receipts.PREFIX: receipts.LARGEST},
    )
    # Added last, it is asked first.
    app.add_middleware(Access, key=key, keys=keys)
    app.add_middleware(WholeSegments)
    problems.install(app)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app, locked=key is not None or bool(keys))
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend it
    return app


def _described(app: FastAPI, *, locked: bool) -> dict[str, Any]:
    """OpenAPI with the accepted structure, and problem documents as the only form of an error."""
    schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    components.update(bodies.body_components())
    components["Problem"] = problems.SCHEMA
    if locked:
        schema["components"]["securitySchemes"] = SCHEMES
    for name in ("HTTPValidationError", "ValidationError"):
        components.pop(name, None)
    answer = {
        "description": "A problem document (RFC 9457)",
        "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for name, path in schema["paths"].items():
        for operation in path.values():
            if locked and not is_open(name):
                operation["security"] = [{scheme: []} for scheme in SCHEMES]
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = answer
    return schema
