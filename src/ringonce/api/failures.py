"""What failed for good and waits for a person."""

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from ringonce.api import bodies, schemas
from ringonce.api.access import scope
from ringonce.api.fields import Limit, Name, Since, Tenant, Until, micros
from ringonce.api.notifications import facade
from ringonce.engine.views import row_view
from ringonce.errors import ConflictError, InputError, NotFoundError

router = APIRouter(prefix="/v1/failures", tags=["failures"])


@router.get("", response_model=schemas.Found)
async def failures(
    request: Request,
    *,
    tenant: Tenant = None,
    channel: Name = None,
    code: Name = None,
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
        since=micros(since),
        until=micros(until),
        limit=limit,
        after=after,
    )
    following = str(rows[-1].id) if len(rows) == limit else None
    return JSONResponse({"notifications": [row_view(row) for row in rows], "next": following})


@router.post("/retry", response_model=schemas.Retried)
async def retry(request: Request, body: bodies.RetryFailuresIn) -> JSONResponse:
    """Send terminal failures again: the named ones, or those that the filters select.

    Without `"dry_run": false` it only says which. `more`: the filters select more than `limit`.
    """
    behind, owner = facade(request), scope(request, body.tenant)
    chosen = body.ids
    more = False
    if chosen is None:
        terms: dict[str, Any] = {"channel": body.channel, "code": body.code}
        terms |= {"since": micros(body.since), "until": micros(body.until)}
        if owner is None and all(value is None for value in terms.values()):
            raise InputError(
                "say which", field="ids", mend="name ids, or channel, code, tenant, since or until"
            )
        rows = await behind.search(terminal_failures=True, tenant=owner, limit=body.limit + 1, **terms)
        more = len(rows) > body.limit
        chosen = [row.id for row in rows[: body.limit]]
    results = [
        {"id": str(id_), "result": "would be sent again"}
        if body.dry_run
        else await _again(request, id_, owner, body)
        for id_ in chosen
    ]
    refused = sum(one["result"] == "refused" for one in results)
    return JSONResponse({"dry_run": body.dry_run, "refused": refused, "more": more, "results": results})


async def _again(
    request: Request, id_: UUID, owner: str | None, body: bodies.RetryFailuresIn
) -> dict[str, str]:
    try:
        await facade(request).retry(id_, by=body.by, force=body.force, tenant=owner)
    except (ConflictError, NotFoundError) as error:
        return {"id": str(id_), "result": "refused", "code": error.code, "detail": str(error)}
    return {"id": str(id_), "result": "will be sent again"}
