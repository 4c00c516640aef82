"""Replies that wait for approval: saved under a key, looked at, sent, rejected."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, StrictInt

from ringonce.api.access import scope
from ringonce.api.bodies import Strict
from ringonce.api.fields import TEXT, By, Limit, Name, Tenant
from ringonce.api.notifications import facade
from ringonce.api.paths import Segment
from ringonce.api.schemas import Content, LastError
from ringonce.engine.draft_views import draft_view, saved_view
from ringonce.model.draft import DraftMode, DraftState

router = APIRouter(prefix="/v1/drafts", tags=["replies"])

DraftKey = Annotated[
    Segment,
    Path(min_length=1, max_length=256, pattern=TEXT, description="What is answered, e.g. feedback:123."),
]
Channel = Annotated[
    str | None,
    Query(max_length=64, pattern=TEXT, description="Needed where several channels have a draft of this key."),
]
SEEN = "That of the text that was seen; 409 if it is another by now."


class ContentIn(Strict):
    """What is said, where it is more than a text."""

    title: str | None = None
    text: str | None = None
    html: str | None = None
    data: dict[str, Any] = Field(default_factory=dict)


class DraftIn(Strict):
    """A text for a key: ``text``, or ``content``. What is left out is as it was, or as the configuration says."""

    text: str | None = None
    content: ContentIn | None = None
    channel: str | None = Field(default=None, min_length=1, max_length=64, pattern=TEXT)
    to: str | dict[str, Any] | None = Field(default=None, description="The address. Default: the key.")
    scenario: str | None = Field(default=None, min_length=1, max_length=64, pattern=TEXT)
    mode: DraftMode | None = Field(default=None, description="Over that of the scenario.")
    subject: str | None = Field(default=None, min_length=1, max_length=256, pattern=TEXT)
    version: StrictInt | None = Field(default=None, ge=0, description=SEEN)
    by: By = "api"


class SendIn(Strict):
    """Who approves, and what; optional."""

    by: By = "api"
    version: StrictInt | None = Field(default=None, ge=0, description=SEEN)


class RejectIn(SendIn):
    """Why, if there is a reason."""

    reason: str = Field(default="", max_length=1_000, pattern=TEXT)


class Draft(BaseModel):
    """A draft and how it stands. ``history``: who wrote, approved and rejected it, and each ended attempt."""

    key: str
    channel: str
    tenant: str
    state: DraftState
    text: str | None
    content: Content
    scenario: str | None
    mode: DraftMode
    sent_at: str | None
    send_error: LastError | None
    send_attempts: int
    next_attempt_at: str | None
    id: str
    status: str
    assumed: bool
    version: int
    revision: int
    subject: str | None
    expires_at: str | None
    created_at: str
    updated_at: str


class WholeDraft(Draft):
    """With its history, oldest first."""

    history: list[dict[str, Any]]


class Saved(WholeDraft):
    """``skipped``: it is published already, and the mode auto changed nothing."""

    created: bool
    skipped: bool


class Found(BaseModel):
    """A page of a search; ``next`` is the ``after`` of the following page."""

    drafts: list[Draft]
    next: str | None


@router.get("", response_model=Found)
async def search(
    request: Request,
    *,
    tenant: Tenant = None,
    state: Annotated[list[DraftState] | None, Query()] = None,
    channel: Name = None,
    scenario: Name = None,
    limit: Limit = 50,
    after: UUID | None = None,
) -> JSONResponse:
    """Find drafts, newest first."""
    found = await facade(request).drafts(
        states=tuple(state or ()),
        channel=channel,
        scenario=scenario,
        tenant=scope(request, tenant),
        limit=limit,
        after=after,
    )
    following = str(found[-1].row.id) if len(found) == limit else None
    return JSONResponse({"drafts": [draft_view(draft) for draft in found], "next": following})


@router.get("/{key}", response_model=WholeDraft)
async def get(
    request: Request, key: DraftKey, channel: Channel = None, tenant: Tenant = None
) -> JSONResponse:
    """One draft with its history."""
    owner = scope(request, tenant) or ""
    draft = await facade(request).draft(key, channel=channel, tenant=owner)
    return JSONResponse(draft_view(draft, history=True))


@router.put("/{key}", response_model=Saved, responses={201: {"model": Saved}})
async def put(request: Request, key: DraftKey, body: DraftIn, tenant: Tenant = None) -> JSONResponse:
    """Save a text: 201 for a new draft, else 200. The same text again changes nothing.

    Another text puts the draft back to `draft`; 409 while a call is under way or without a verdict, and when it is
    published and can not be changed. Under the mode `auto` it is then queued; what is published is `skipped`.
    """
    saved = await facade(request).put_draft(
        key,
        body.text,
        channel=body.channel,
        content=None if body.content is None else body.content.model_dump(exclude_unset=True),
        to=body.to,
        scenario=body.scenario,
        mode=body.mode,
        subject=body.subject,
        version=body.version,
        by=body.by,
        tenant=scope(request, tenant) or "",
    )
    return JSONResponse(saved_view(saved), 201 if saved.created else 200)


@router.post("/{key}/send", status_code=202, response_model=WholeDraft)
async def send(
    request: Request,
    key: DraftKey,
    body: SendIn | None = None,
    channel: Channel = None,
    tenant: Tenant = None,
) -> JSONResponse:
    """Approve a draft, or queue one in error anew. Pending already: the same answer, no second job; sent: 409."""
    body = body or SendIn()
    owner = scope(request, tenant) or ""
    draft = await facade(request).send_draft(
        key, channel=channel, version=body.version, by=body.by, tenant=owner
    )
    return JSONResponse(draft_view(draft, history=True), 202)


@router.post("/{key}/reject", response_model=WholeDraft)
async def reject(
    request: Request,
    key: DraftKey,
    body: RejectIn | None = None,
    channel: Channel = None,
    tenant: Tenant = None,
) -> JSONResponse:
    """Put a draft aside; 409 when it is approved or sent already."""
    body = body or RejectIn()
    owner = scope(request, tenant) or ""
    draft = await facade(request).reject_draft(
        key, channel=channel, reason=body.reason, version=body.version, by=body.by, tenant=owner
    )
    return JSONResponse(draft_view(draft, history=True))
