"""Every error as a problem document (RFC 9457), with our code and the field that is to blame."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from ringonce.errors import (
    ConfigError,
    ConflictError,
    ForgedError,
    InputError,
    NotFoundError,
    PayloadTooLarge,
    RingonceError,
    StoreError,
)

log = logging.getLogger("ringonce")

MEDIA_TYPE = "application/problem+json"
UNAVAILABLE = 503
UNPROVED = 401
NOT_ALLOWED = 405
RETRY_AFTER_S = "5"

STATUS_OF: tuple[tuple[type[RingonceError], int], ...] = (
    (PayloadTooLarge, 413),
    (InputError, 422),
    (ConfigError, 422),
    (ConflictError, 409),
    (NotFoundError, 404),
    (ForgedError, UNPROVED),
    (StoreError, UNAVAILABLE),
)
"""The first class that fits decides; what fits none is a bug of ours: 500."""

CODE_OF_STATUS = {
    400: "bad_request",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "payload_too_large",
    415: "unsupported_media_type",
}
"""Not by the names of http.HTTPStatus, which change with the Python version."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "code"],
    "properties": {
        "type": {"type": "string", "description": "`about:blank`: the title is that of the status."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong and what to do."},
        "code": {"type": "string", "description": "Stable; see the reference of errors."},
        "field": {"type": "string", "description": "The part of the request that is to blame."},
    },
}


def problem(
    status: int, detail: str, code: str, *, field: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """A problem document."""
    body: dict[str, object] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    if field is not None:
        body["field"] = field
    return JSONResponse(body, status, dict(headers or {}), MEDIA_TYPE)


def of_error(error: RingonceError) -> JSONResponse:
    """The document for one of our errors."""
    status = next((status for kind, status in STATUS_OF if isinstance(error, kind)), 500)
    if error.code == "invalid_json":
        status = 400
    detail = error.message + (f" ({error.mend})" if error.mend else "")
    if isinstance(error, StoreError):
        # Its text may name hosts and files of ours, which are for the log.
        log.warning("the API can not use the database: %s", error)
        detail = "the database can not be used at the moment; nothing was stored"
    headers = {UNAVAILABLE: {"Retry-After": RETRY_AFTER_S}, UNPROVED: {"WWW-Authenticate": "Signature"}}
    return problem(status, detail, error.code, field=error.field, headers=headers.get(status))


def install(app: FastAPI) -> None:
    """Make every error of ``app`` a problem document."""

    @app.exception_handler(RingonceError)
    async def ours(_request: Request, error: RingonceError) -> JSONResponse:
        return of_error(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = [str(part) for part in first["loc"] if part not in {"query", "path", "body", "header"}]
        code = "invalid_json" if first["type"] == "json_invalid" else "invalid_input"
        status = 400 if code == "invalid_json" else 422
        return problem(status, first["msg"], code, field=".".join(place) or None)

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> JSONResponse:
        code = CODE_OF_STATUS.get(error.status_code, "http_error")
        headers = error.headers
        if error.status_code == NOT_ALLOWED:
            # The router knows only the first of the routes that share a path.
            fitting = [r for r in app.routes if r.matches(request.scope)[0] is not Match.NONE]
            methods = {method for route in fitting for method in getattr(route, "methods", None) or ()}
            headers = {"Allow": ", ".join(sorted(methods))}
        return problem(error.status_code, str(error.detail), code, headers=headers)

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> JSONResponse:
        log.error("bug in %s %s", request.method, request.url.path, exc_info=error)
        return problem(500, "unexpected error, see the log", "internal_error")
