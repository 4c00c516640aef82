"""The JSON forms of our answers, for OpenAPI."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Brief(BaseModel):
    """One notification of an accepted event."""

    id: str
    recipient: str
    channel: str
    status: str
    final: bool


class Accepted(BaseModel):
    """The answer to an accepted event.

    ``conflict``: known with another body. ``pruned``: known, and its notifications are over and removed.
    ``expanding``: more recipients follow.
    """

    event_id: str
    duplicate: bool
    notifications: list[Brief]
    conflict: bool = False
    pruned: bool = False
    expanding: bool = False


class LastError(BaseModel):
    """The last thing that went wrong."""

    code: str
    provider_code: str | None
    text: str


class Notification(BaseModel):
    """A notification without its content. The address is masked."""

    id: str
    event_id: str
    type: str
    tenant: str
    recipient: str
    channel: str
    address: str | None
    subject: str | None
    thread: str | None
    priority: str
    collapse: str | None
    status: str
    final: bool
    attempts: int
    next_attempt_at: str | None
    last_error: LastError | None
    provider_message_id: str | None
    version: int
    revision: int
    assumed: bool
    maybe_sent: bool
    read_at: str | None
    created_at: str
    expires_at: str | None


class Found(BaseModel):
    """A page of a search; ``next`` is the ``after`` of the following page."""

    notifications: list[Notification]
    next: str | None


class Failure(BaseModel):
    """A definitive failure. ``driver_id``: the recipient; ``error_code``: the provider's own."""

    id: str
    driver_id: str
    push_type: str
    payload: dict[str, Any]
    error_code: str
    retry_count: int
    failed_at: str
    tenant: str
    channel: str
    code: str
    notification_id: str
    revision: int


class Audited(BaseModel):
    """A page of the failure audit; ``next`` is the ``after`` of the following page."""

    failures: list[Failure]
    next: str | None


class RetriedOne(BaseModel):
    """What became of one of them."""

    id: str
    result: str
    code: str | None = None
    detail: str | None = None


class FailureCount(BaseModel):
    """Failures that are alike; ``refused``: the code why they would be, ``detail`` says it in words."""

    channel: str
    code: str
    count: int
    refused: str | None
    detail: str | None


class DecidedFailures(BaseModel):
    """What was, or would be, done. ``counts``: of all that the filters select, with a dry run.

    ``more``: they select more than ``limit``; ``next`` is the ``after`` of the following batch.
    """

    dry_run: bool
    refused: int
    more: bool
    next: str | None
    results: list[RetriedOne]
    counts: list[FailureCount] | None = None


class ReceiptsTaken(BaseModel):
    """How many reports a callback held, by what became of them: taken, duplicate, early, unknown."""

    reports: dict[str, int]


class Unread(BaseModel):
    """How many copies are unread."""

    unread: int


class MarkedRead(Unread):
    """How many became read, and how many are left."""

    read: int


class Ticket(BaseModel):
    """What opens one inbox, until when."""

    ticket: str
    expires_at: str


class Content(BaseModel):
    """What is said."""

    title: str | None
    text: str | None
    html: str | None
    data: dict[str, Any]


class Copy(BaseModel):
    """An in-app copy."""

    id: str
    seq: int
    event_id: str
    type: str
    content: Content
    subject: str | None
    thread: str | None
    priority: str
    created_at: str
    read_at: str | None


class InboxPage(BaseModel):
    """``next``: the ``before`` of the following page; ``cursor``: where a stream goes on."""

    notifications: list[Copy]
    next: int | None
    cursor: int
    unread: int


class Decided(BaseModel):
    """A notification after a person's decision."""

    model_config = ConfigDict(extra="allow")

    id: str
    status: str
    final: bool
