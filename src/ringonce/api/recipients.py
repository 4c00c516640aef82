"""Recipients: who they are, where they are reached, and forgetting them."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from ringonce.api import bodies
from ringonce.api.access import scope
from ringonce.api.fields import RecipientId, Tenant
from ringonce.api.notifications import facade
from ringonce.engine.views import address_view, person_view
from ringonce.errors import NotFoundError

router = APIRouter(prefix="/v1/recipients", tags=["recipients"])


class Address(BaseModel):
    """Where a recipient is reached."""

    id: int
    tenant: str
    recipient: str
    channel: str
    address: str
    registered_at: str
    invalidated_at: str | None
    reason: str | None
    quarantined_at: str | None


class Addresses(BaseModel):
    """All of them."""

    addresses: list[Address]


class Recipient(BaseModel):
    """What is known of a recipient."""

    id: str
    tenant: str
    locale: str | None
    timezone: str | None
    created_at: str | None
    updated_at: str | None
    addresses: list[Address]


class Dropped(BaseModel):
    """How many addresses were dropped."""

    dropped: int


class Erased(BaseModel):
    """How many notifications lost what they said and whom they were for."""

    erased: int


@router.get("/{recipient}/addresses", response_model=Addresses)
async def addresses(
    request: Request,
    recipient: RecipientId,
    *,
    all_: Annotated[bool, Query(alias="all", description="Dropped ones too.")] = False,
    tenant: Tenant = None,
) -> JSONResponse:
    """Where a recipient is reached."""
    owner = scope(request, tenant) or ""
    found = await facade(request).addresses(recipient, tenant=owner, invalidated=all_)
    return JSONResponse({"addresses": [address_view(one) for one in found]})


@router.post("/{recipient}/addresses", response_model=Address)
async def register(
    request: Request, recipient: RecipientId, body: bodies.AddressIn, tenant: Tenant = None
) -> JSONResponse:
    """Register an address. A known one of somebody else moves to this recipient, a dropped one lives again."""
    owner = scope(request, tenant) or ""
    registered = await facade(request).register(recipient, body.channel, body.address, tenant=owner)
    return JSONResponse(address_view(registered))


@router.put("/{recipient}/addresses", response_model=Addresses)
async def replace(
    request: Request, recipient: RecipientId, body: bodies.AddressesIn, tenant: Tenant = None
) -> JSONResponse:
    """Make these the addresses on the channels that are named; others there are dropped."""
    owner = scope(request, tenant) or ""
    wanted = {name: value if isinstance(value, list) else [value] for name, value in body.root.items()}
    kept = await facade(request).set_addresses(recipient, wanted, tenant=owner)
    return JSONResponse({"addresses": [address_view(one) for one in kept]})


@router.delete("/{recipient}/addresses", response_model=Dropped)
async def remove(
    request: Request,
    recipient: RecipientId,
    *,
    channel: Annotated[str, Query(min_length=1, max_length=64)],
    address: Annotated[str, Query(min_length=1, max_length=4_096)],
    tenant: Tenant = None,
) -> JSONResponse:
    """Drop an address: nothing is sent to it any more."""
    owner = scope(request, tenant) or ""
    return JSONResponse(
        {"dropped": await facade(request).invalidate(recipient, channel, address, tenant=owner)}
    )


@router.get("/{recipient}", response_model=Recipient)
async def show(request: Request, recipient: RecipientId, tenant: Tenant = None) -> JSONResponse:
    """What is known of a recipient."""
    owner = scope(request, tenant) or ""
    return JSONResponse(await _view(request, recipient, owner))


@router.put("/{recipient}", response_model=Recipient)
async def put(
    request: Request, recipient: RecipientId, body: bodies.RecipientChange, tenant: Tenant = None
) -> JSONResponse:
    """Make a recipient known, or change what is named."""
    owner = scope(request, tenant) or ""
    await facade(request).set_recipient(recipient, body.model_dump(exclude_unset=True), tenant=owner)
    return JSONResponse(await _view(request, recipient, owner))


@router.delete("/{recipient}", response_model=Erased)
async def erase(request: Request, recipient: RecipientId, tenant: Tenant = None) -> JSONResponse:
    """Forget a person: record, addresses, in-app copies, what their notifications say. Anonymous counts stay."""
    owner = scope(request, tenant) or ""
    return JSONResponse({"erased": await facade(request).erase(recipient, tenant=owner, by="api")})


async def _view(request: Request, recipient: str, owner: str) -> dict[str, Any]:
    behind = facade(request)
    live = await behind.addresses(recipient, tenant=owner)
    try:
        known = await behind.recipient(recipient, tenant=owner)
    except NotFoundError:
        if not live:
            raise
        known = None
    return person_view(owner, recipient, known, live)
