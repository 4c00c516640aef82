"""In-app copies: read, counted, marked, and streamed as server-sent events (WHATWG HTML, section 9.2)."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, StreamingResponse

from ringonce.api import bodies, schemas, tickets
from ringonce.api.access import scope
from ringonce.api.feed import told
from ringonce.api.fields import Limit, RecipientId, Tenant, micros
from ringonce.api.notifications import facade
from ringonce.engine.inbox import Stream
from ringonce.engine.views import copy_view, stamp
from ringonce.errors import StoreError

router = APIRouter(prefix="/v1/inbox", tags=["inbox"])

RECONNECT_MS = 1_000
LARGEST = 2**53
"""What JSON numbers carry exactly everywhere (RFC 8259, section 6)."""
Number = Annotated[int | None, Query(ge=0, le=LARGEST)]
EVENT_STREAM = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}


@router.get("/{recipient}/unread", response_model=schemas.Unread)
async def unread(request: Request, recipient: RecipientId, tenant: Tenant = None) -> JSONResponse:
    """How many copies are unread."""
    owner = scope(request, tenant) or ""
    return JSONResponse({"unread": await facade(request).unread(recipient, tenant=owner)})


@router.post("/{recipient}/read", response_model=schemas.MarkedRead)
async def mark_read(
    request: Request, recipient: RecipientId, body: bodies.ReadIn, tenant: Tenant = None
) -> JSONResponse:
    """Mark copies as read: these, all up to one (included), all until a time, or all."""
    owner, behind = scope(request, tenant) or "", facade(request)
    up_to = body.up_to if body.until is None else micros(body.until)
    count = await behind.mark_read(recipient, body.ids, up_to=up_to, tenant=owner)
    return JSONResponse({"read": count, "unread": await behind.unread(recipient, tenant=owner)})


@router.post("/{recipient}/ticket", response_model=schemas.Ticket)
async def ticket(
    request: Request, recipient: RecipientId, body: bodies.TicketIn | None = None, tenant: Tenant = None
) -> JSONResponse:
    """What a page in a browser shows instead of a key: it opens this inbox for a while, and nothing else."""
    until = int(time.time()) + (body or bodies.TicketIn()).seconds
    made = tickets.Ticket(scope(request, tenant) or "", recipient, until)
    text = tickets.write(request.scope["state"]["secret"], made)
    return JSONResponse({"ticket": text, "expires_at": stamp(until * 1_000_000)})


@router.get("/{recipient}/stream", response_class=StreamingResponse, responses={200: EVENT_STREAM})
async def stream(
    request: Request,
    recipient: RecipientId,
    *,
    after: Annotated[
        int | None, Query(ge=0, le=LARGEST, description="Begin after this `cursor`; default: now.")
    ] = None,
    last_event_id: Annotated[
        str | None, Header(pattern=r"^[0-9]{0,15}$", description="The last id seen; wins over `after`.")
    ] = None,
    tenant: Tenant = None,
) -> StreamingResponse:
    """Copies and read marks as they come, as server-sent events; comments keep the connection alive in between.

    Events: `notification` (a copy), `read` (`ids`, `read_at`), and after them `unread` (the counter).
    """
    owner, behind = scope(request, tenant) or "", facade(request)
    await behind.unread(recipient, tenant=owner)  # a database that is away is told before the answer begins
    following = behind.stream(recipient, tenant=owner, after=int(last_event_id) if last_event_id else after)
    return StreamingResponse(
        _events(request, following),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


@router.get("/{recipient}", response_model=schemas.InboxPage)
async def page(
    request: Request,
    recipient: RecipientId,
    *,
    unread: Annotated[bool, Query(description="Only those that are not read.")] = False,
    before: Number = None,
    limit: Limit = 50,
    tenant: Tenant = None,
) -> JSONResponse:
    """Copies, newest first. A stream `after` the page's `cursor` continues it without a gap."""
    owner, behind = scope(request, tenant) or "", facade(request)
    found = await behind.inbox(recipient, tenant=owner, unread=unread, before=before, limit=limit)
    return JSONResponse(
        {
            "notifications": [copy_view(copy) for copy in found.copies],
            "next": found.next,
            "cursor": found.cursor,
            "unread": await behind.unread(recipient, tenant=owner),
        }
    )


async def _events(request: Request, following: Stream) -> AsyncIterator[str]:
    """The events. The answer is pulled by the connection, so a slow one waits here and nowhere else."""
    open_: set[Stream] = request.app.state.streams
    silence: float = request.app.state.heartbeat
    until: int | None = request.scope.get("state", {}).get("until")  # of the ticket
    async with following:
        open_.add(following)
        try:
            # An event without data only sets the id from which a new connection goes on.
            yield f"retry: {RECONNECT_MS}\nid: {following.cursor}\n\n"
            while not following.ended and (until is None or time.time() < until):
                try:
                    changes = await following.changes(silence)
                except StoreError:
                    yield ": the database can not be used at the moment\n\n"
                    await asyncio.sleep(RECONNECT_MS / 1_000)
                    continue
                for name, number, view in told(changes):
                    data = json.dumps(view, ensure_ascii=False, separators=(",", ":"))
                    yield f"id: {number}\nevent: {name}\ndata: {data}\n\n"
                if not changes:
                    yield ": still here\n\n"
                    continue
                with suppress(StoreError):  # the next change brings it
                    yield f'event: unread\ndata: {{"unread":{await following.unread()}}}\n\n'
        finally:
            open_.discard(following)
