"""Accept, search, read, and a person's decisions."""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response
from starlette.requests import HTTPConnection

from ringonce.api import bodies, schemas
from ringonce.api.access import caller, scope
from ringonce.api.body import read
from ringonce.api.facade import Facade
from ringonce.api.fields import Limit, Name, Since, Tenant, Until, micros
from ringonce.engine.contract import load
from ringonce.engine.views import accepted_view, life_view, row_view, settled_view, timeline_view
from ringonce.errors import InputError, PayloadTooLarge
from ringonce.model.notification import Status

router = APIRouter(prefix="/v1", tags=["notifications"])

MOST_IN_A_BATCH = 1_000
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


_ENCODER = msgspec.json.Encoder()


def _accepted(view: object) -> Response:
    return Response(_ENCODER.encode(view), 202, media_type="application/json")


def facade(request: HTTPConnection) -> Facade:
    """The program behind the API."""
    behind: Facade = request.app.state.facade
    return behind


@router.post("/notifications", status_code=202, response_model=schemas.Accepted, openapi_extra=bodies.ONE)
async def accept(
    request: Request,
    idempotency_key: Annotated[
        str | None, Header(description="Stands for event_id; both must be equal.")
    ] = None,
) -> Response:
    """Accept one event. It is stored when this answers; the providers are called later."""
    limit: int = request.app.state.max_payload
    raw: bytes | dict[str, Any] = await read(request)
    if idempotency_key is not None:
        assert isinstance(raw, bytes)
        raw = load(raw, limit)
        if raw.setdefault("event_id", idempotency_key) != idempotency_key:
            raise InputError(
                "Idempotency-Key and event_id differ",
                field="Idempotency-Key",
                mend="send one of them, or the same",
            )
    return _accepted(accepted_view(await facade(request).notify(raw, caller=caller(request))))


@router.post(
    "/notifications/batch", status_code=202, response_model=list[schemas.Accepted], openapi_extra=bodies.MANY
)
async def accept_batch(request: Request) -> Response:
    """Accept many events in one transaction: all, or none and the index of the first bad one.

    An item whose event id is known with another body says `conflict`; the others are stored.
    """
    raw = await read(request)
    try:
        items = _LIST.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"not a JSON list: {error}", mend="send a list of events", code="invalid_json"
        ) from None
    if not items:
        raise InputError("the list is empty", mend="send at least one event")
    if len(items) > MOST_IN_A_BATCH:
        raise PayloadTooLarge(f"{len(items)} events; at most {MOST_IN_A_BATCH}", mend="send several batches")
    accepted = await facade(request).notify_many([bytes(item) for item in items], caller=caller(request))
    return _accepted([accepted_view(item) for item in accepted])


@router.get("/notifications", response_model=schemas.Found)
async def search(
    request: Request,
    *,
    tenant: Tenant = None,
    status: Annotated[list[Status] | None, Query()] = None,
    channel: Name = None,
    recipient: Name = None,
    event_id: Name = None,
    type_: Annotated[str | None, Query(alias="type", max_length=64)] = None,
    subject: Name = None,
    thread: Name = None,
    code: Name = None,
    since: Since = None,
    until: Until = None,
    failures: Annotated[bool, Query(description="Only those that failed for good.")] = False,
    limit: Limit = 50,
    after: UUID | None = None,
) -> JSONResponse:
    """Find notifications, newest first."""
    rows = await facade(request).search(
        tenant=scope(request, tenant),
        status=tuple(item.value for item in status or ()),
        channel=channel,
        recipient=recipient,
        event_id=event_id,
        event_type=type_,
        subject=subject,
        thread=thread,
        since=micros(since),
        until=micros(until),
        code=code,
        terminal_failures=failures,
        limit=limit,
        after=after,
    )
    following = str(rows[-1].id) if len(rows) == limit else None
    return JSONResponse({"notifications": [row_view(row) for row in rows], "next": following})


@router.get("/notifications/{id_:uuid}", response_model=schemas.Notification)
async def get(request: Request, id_: UUID, tenant: Tenant = None) -> JSONResponse:
    """One notification with its content, attempts and timeline."""
    return JSONResponse(life_view(await facade(request).get(id_, tenant=scope(request, tenant))))


@router.get("/notifications/{id_:uuid}/timeline")
async def timeline(request: Request, id_: UUID, tenant: Tenant = None) -> JSONResponse:
    """What happened to one notification, as data (`entries`) and in words (`words`)."""
    behind = facade(request)
    owner = scope(request, tenant)
    life = await behind.get(id_, tenant=owner)
    return JSONResponse({**timeline_view(life), "words": await behind.explain(id_, tenant=owner)})


@router.post("/notifications/{id_:uuid}/cancel", response_model=schemas.Decided)
async def cancel(
    request: Request, id_: UUID, body: bodies.CancelIn | None = None, tenant: Tenant = None
) -> JSONResponse:
    """Stop one notification; 409 when it is too late."""
    body = body or bodies.CancelIn()
    return JSONResponse(
        settled_view(await facade(request).cancel(id_, by=body.by, tenant=scope(request, tenant)))
    )


@router.post("/notifications/{id_:uuid}/retry", response_model=schemas.Decided)
async def retry(
    request: Request, id_: UUID, body: bodies.RetryIn | None = None, tenant: Tenant = None
) -> JSONResponse:
    """Send a failed or doubtful one again; 409 when nothing is to be repeated."""
    body = body or bodies.RetryIn()
    settled = await facade(request).retry(id_, by=body.by, force=body.force, tenant=scope(request, tenant))
    return JSONResponse(settled_view(settled))


@router.post("/notifications/{id_:uuid}/resolve", response_model=schemas.Decided)
async def resolve(request: Request, id_: UUID, body: bodies.ResolveIn, tenant: Tenant = None) -> JSONResponse:
    """Decide a doubt."""
    settled = await facade(request).resolve(id_, body.verdict, by=body.by, tenant=scope(request, tenant))
    return JSONResponse(settled_view(settled))


@router.post("/cancel")
async def cancel_subject(request: Request, body: bodies.CancelSubjectIn) -> JSONResponse:
    """Withdraw a subject: each of its notifications is cancelled, or says why it was too late."""
    owner = scope(request, body.tenant) or ""
    settled = await facade(request).cancel_subject(body.subject, tenant=owner, by=body.by)
    views = [settled_view(item) for item in settled]
    return JSONResponse({"subject": body.subject, "notifications": views})
