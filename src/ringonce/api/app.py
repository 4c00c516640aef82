"""Puts the routes together."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from ringonce.api import notifications, operations, problems, schemas
from ringonce.api.access import Access
from ringonce.api.body import BodyLimit
from ringonce.api.facade import Facade

BATCH_TIMES = 32
"""A batch may be this many times as large as one event may be."""
OTHER_BODIES = 65_536
"""The largest body of any other request, in bytes."""


def create_app(
    facade: Facade, *, key: str | None = None, max_payload: int = 262_144, version: str = "0"
) -> FastAPI:
    """The ASGI application.

    Args:
        facade: what stands behind it.
        key: what callers must present; None: only programs of this machine are served.
        max_payload: the largest event, in bytes.
        version: shown in ``/openapi.json``.
    """
    # No pages for /docs and /redoc: they would load scripts from foreign hosts.
    app = FastAPI(title="ringonce", version=version, docs_url=None, redoc_url=None)
    app.state.facade = facade
    app.state.max_payload = max_payload
    app.include_router(notifications.router)
    app.include_router(operations.router)
    app.add_middleware(
        BodyLimit,
        limits={"/v1/notifications": max_payload, "/v1/notifications/batch": BATCH_TIMES * max_payload},
        other=OTHER_BODIES,
    )
    # Added last, it is asked first.
    app.add_middleware(Access, key=key)
    problems.install(app)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend it
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    """OpenAPI with the accepted structure, and problem documents as the only form of an error."""
    schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    components.update(schemas.body_components())
    components["Problem"] = problems.SCHEMA
    for name in ("HTTPValidationError", "ValidationError"):
        components.pop(name, None)
    answer = {
        "description": "A problem document (RFC 9457)",
        "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for path in schema["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = answer
    return schema
