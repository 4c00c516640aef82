"""Addresses that were called dead when too many others were: to look at, and to decide about."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from ringonce.api.access import platform
from ringonce.api.fields import Limit
from ringonce.api.notifications import facade
from ringonce.api.recipients import Address
from ringonce.engine.views import address_view, masked

router = APIRouter(
    prefix="/v1/channels/{name}/quarantine", tags=["operations"], dependencies=[Depends(platform)]
)


class Quarantined(BaseModel):
    """A page of addresses, masked; ``next``: what ``after`` is for the next page."""

    addresses: list[Address]
    next: int | None


class Decided(BaseModel):
    """How many addresses stay, or are dropped."""

    addresses: int


@router.get("", response_model=Quarantined)
async def quarantined(
    request: Request, name: str, *, after: Annotated[int, Query(ge=0)] = 0, limit: Limit = 100
) -> JSONResponse:
    """The addresses of a channel that are in quarantine, by id."""
    found = await facade(request).quarantined(name, after=after, limit=limit)
    shown = [{**address_view(one), "address": masked(one.value)} for one in found]
    return JSONResponse({"addresses": shown, "next": found[-1].id if len(found) == limit else None})


@router.post("/release", response_model=Decided)
async def release(request: Request, name: str) -> JSONResponse:
    """The key was wrong and is right now: the addresses stay, the channel goes on."""
    return JSONResponse({"addresses": await facade(request).release_quarantined(name)})


@router.post("/drop", response_model=Decided)
async def drop(request: Request, name: str) -> JSONResponse:
    """The verdicts were right: the addresses are dropped, the channel goes on."""
    return JSONResponse({"addresses": await facade(request).drop_quarantined(name)})
