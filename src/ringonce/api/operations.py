"""Channels, the once report, health and metrics."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse

from ringonce.api.access import platform, scope
from ringonce.api.bodies import ResumeIn
from ringonce.api.fields import Name, Tenant
from ringonce.api.notifications import facade
from ringonce.api.problems import problem
from ringonce.engine.views import backlog_view
from ringonce.errors import NotFoundError, StoreError

router = APIRouter(tags=["operations"])

PLATFORM = [Depends(platform)]
TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/v1/channels", dependencies=PLATFORM)
async def channels(request: Request) -> JSONResponse:
    """All channels as they are now."""
    return JSONResponse({"channels": await facade(request).channels()})


@router.get("/v1/channels/{name}", dependencies=PLATFORM)
async def channel(request: Request, name: str) -> JSONResponse:
    """One channel as it is now."""
    return JSONResponse(await _channel(request, name))


@router.patch("/v1/channels/{name}", dependencies=PLATFORM)
async def change(request: Request, name: str, changes: dict[str, Any]) -> JSONResponse:
    """Change settings while everything runs, in the words of the configuration file; null takes a change back."""
    await facade(request).change_channel(name, changes)
    return JSONResponse(await _channel(request, name))


@router.post("/v1/channels/{name}/resume", dependencies=PLATFORM)
async def resume(request: Request, name: str, body: ResumeIn) -> JSONResponse:
    """Let one paused part of a channel go on: a template, a country, an endpoint."""
    await facade(request).enable(name, scope=body.scope)
    return JSONResponse(await _channel(request, name))


async def _channel(request: Request, name: str) -> dict[str, object]:
    for view in await facade(request).channels():
        if view["name"] == name:
            return view
    raise NotFoundError(f"no channel {name!r}", field="name")


@router.get("/v1/report")
async def report(
    request: Request,
    *,
    by: Annotated[list[Literal["tenant", "channel", "day"]] | None, Query()] = None,
    tenant: Tenant = None,
    channel: Name = None,
) -> JSONResponse:
    """The once report."""
    rows = await facade(request).report(tenant=scope(request, tenant), channel=channel, by=tuple(by or ()))
    return JSONResponse({"report": [dict(row) for row in rows]})


@router.get("/v1/backlog", dependencies=PLATFORM)
async def backlog(request: Request) -> JSONResponse:
    """What is left to do, per channel."""
    return JSONResponse({"backlog": [backlog_view(item) for item in await facade(request).backlog()]})


@router.get("/healthz")
async def healthz() -> JSONResponse:
    """The process runs."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz")
async def readyz(request: Request) -> JSONResponse:
    """The database answers; 503 when it does not."""
    try:
        await facade(request).store.overrides()
    except StoreError as error:
        return problem(503, "the database can not be used", error.code)
    return JSONResponse({"status": "ok"})


@router.get("/metrics", response_class=PlainTextResponse, dependencies=PLATFORM)
async def metrics(request: Request) -> PlainTextResponse:
    """Counters and gauges in Prometheus's text format."""
    return PlainTextResponse(facade(request).telemetry.exposition(), media_type=TEXT_FORMAT)
