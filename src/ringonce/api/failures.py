"""What failed for good and waits for a person."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from ringonce.api import bodies, schemas
from ringonce.api.access import scope
from ringonce.api.fields import FailedSince, FailedUntil, Limit, Name, Since, Tenant, Until, micros
from ringonce.api.notifications import facade
from ringonce.engine.failing import Verdicts
from ringonce.engine.views import audit_view, decided_view, outlook_view, row_view
from ringonce.errors import InputError

router = APIRouter(prefix="/v1/failures", tags=["failures"])


@router.get("", response_model=schemas.Found)
async def failures(
    request: Request,
    *,
    tenant: Tenant = None,
    channel: Name = None,
    code: Name = None,
    type: Name = None,  # noqa: A002 - the name in the URL
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    after: UUID | None = None,
) -> JSONResponse:
    """Terminal failures, newest first."""
    rows = await facade(request).search(
        terminal_failures=True,
        tenant=scope(request, tenant),
        channel=channel,
        code=code,
        event_type=type,
        since=micros(since),
        until=micros(until),
        limit=limit,
        after=after,
    )
    following = str(rows[-1].id) if len(rows) == limit else None
    return JSONResponse({"notifications": [row_view(row) for row in rows], "next": following})


@router.get("/audit", response_model=schemas.Audited)
async def audit(
    request: Request,
    *,
    tenant: Tenant = None,
    recipient: Name = None,
    type: Name = None,  # noqa: A002 - the name in the URL
    channel: Name = None,
    code: Name = None,
    since: FailedSince = None,
    until: FailedUntil = None,
    limit: Limit = 50,
    after: UUID | None = None,
) -> JSONResponse:
    """The failure audit, newest first: definitive failures of the types that `[audit]` names."""
    rows = await facade(request).failure_audit(
        tenant=scope(request, tenant),
        recipient=recipient,
        event_type=type,
        channel=channel,
        code=code,
        since=micros(since),
        until=micros(until),
        limit=limit,
        after=after,
    )
    following = str(rows[-1].id) if len(rows) == limit else None
    return JSONResponse({"failures": [audit_view(row) for row in rows], "next": following})


@router.post("/retry", response_model=schemas.DecidedFailures)
async def retry(request: Request, body: bodies.RetryFailuresIn) -> JSONResponse:
    """Send terminal failures again: the named ones, or those that the filters select, `limit` at a time.

    Without `"dry_run": false` it only says which, how many there are of each kind, and what would be refused and why.
    """
    behind = facade(request)
    return await _decided(
        request, body, behind.retry_failures, "sent again", how={"force": body.force}, discard=False
    )


@router.post("/discard", response_model=schemas.DecidedFailures)
async def discard(request: Request, body: bodies.DiscardFailuresIn) -> JSONResponse:
    """Let terminal failures be: they become `cancelled`, and the timeline says by whom. Otherwise like `retry`."""
    behind = facade(request)
    return await _decided(
        request, body, behind.discard_failures, "discarded", how={"reason": body.reason}, discard=True
    )


async def _decided(
    request: Request,
    body: bodies.WhichFailuresIn,
    carry_out: Callable[..., Awaitable[Verdicts]],
    done: str,
    *,
    how: dict[str, Any],
    discard: bool,
) -> JSONResponse:
    owner = scope(request, body.tenant)
    terms: dict[str, Any] = {"channel": body.channel, "code": body.code, "event_type": body.type}
    terms |= {"since": micros(body.since), "until": micros(body.until)}
    if body.ids is None and owner is None and all(value is None for value in terms.values()):
        raise InputError(
            "say which", field="ids", mend="name ids, or channel, code, type, tenant, since or until"
        )
    found = {} if body.ids is not None else {"limit": body.limit, "after": body.after, **terms}
    verdicts = await carry_out(body.ids, by=body.by, dry_run=body.dry_run, tenant=owner, **how, **found)
    counts = None
    if body.dry_run and body.ids is None:
        force = bool(how.get("force"))
        outlook = await facade(request).failure_outlook(discard=discard, force=force, tenant=owner, **terms)
        counts = [outlook_view(one) for one in outlook]
    word = f"would be {done}" if body.dry_run else f"will be {done}" if not discard else done
    return JSONResponse(
        {
            "dry_run": body.dry_run,
            "refused": sum(one.refused is not None for one in verdicts.results),
            "more": verdicts.next is not None,
            "next": None if verdicts.next is None else str(verdicts.next),
            "results": [decided_view(one, word) for one in verdicts.results],
            "counts": counts,
        }
    )
