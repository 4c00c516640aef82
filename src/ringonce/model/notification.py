"""One copy for one recipient at one address of one channel: the unit that has a status."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - stored events are decoded by these annotations
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from ringonce.model.quick import quick

if TYPE_CHECKING:
    from uuid import UUID


class Status(StrEnum):
    """Where a notification stands. ``failed`` is final exactly when ``next_attempt_at`` is None."""

    DRAFT = "draft"
    PENDING = "pending"
    FAILED = "failed"
    IN_DOUBT = "in_doubt"
    SENT = "sent"
    SUPPRESSED = "suppressed"
    MERGED = "merged"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


FINAL = frozenset({Status.SENT, Status.SUPPRESSED, Status.MERGED, Status.CANCELLED, Status.EXPIRED})


@quick
@dataclass(frozen=True, slots=True)
class LastError:
    """The last thing that went wrong; it survives a later success. ``provider_code`` is the provider's own word."""

    code: str
    provider_code: str | None = None
    text: str = ""


@quick
@dataclass(frozen=True, slots=True)
class Spent:
    """What is used of the budgets since they last began anew: at creation, or when a person retries.

    ``base``: calls counted before that. A revision that the machine itself reopens goes on with what is left.
    """

    base: int = 0
    transient: int = 0
    rate_limited: int = 0
    unknown: int = 0


@quick
@dataclass(frozen=True, slots=True)
class State:
    """The facts that the transition table decides on (at most 12).

    ``version`` grows by one with each step that changes something. ``attempts``: counted calls, all revisions.
    ``unknown``: numbers of the attempts that never got a verdict. ``open``: an attempt has begun under a live
    lease and its answer is awaited. ``rests_on``: the attempt that made it sent (by fact or by assumption; on a
    cancelled or expired one: a late answer proved that it had been sent all the same; on one that was written anew:
    what is published of it, which its next call replaces).
    Times are microseconds UTC.
    """

    status: Status
    version: int = 0
    revision: int = 1
    attempts: int = 0
    spent: Spent = Spent()
    unknown: tuple[int, ...] = ()
    open: bool = False
    next_attempt_at: int | None = None
    last_error: LastError | None = None
    message_id: str | None = None
    rests_on: int | None = None
    expires_at: int | None = None

    @property
    def final(self) -> bool:
        """Nothing more will happen by itself."""
        return self.status in FINAL or (self.status is Status.FAILED and self.next_attempt_at is None)

    @property
    def idle(self) -> bool:
        """Nothing is due: it has ended, or waits for a person's approval."""
        return self.final or self.status is Status.DRAFT

    @property
    def assumed(self) -> bool:
        """Sent by assumption: the attempt that it rests on never got a verdict."""
        return self.status is Status.SENT and self.rests_on in self.unknown

    @property
    def maybe_sent(self) -> bool:
        """Ended as not sent, although an attempt without verdict may have reached the person."""
        if self.status in {Status.CANCELLED, Status.EXPIRED}:
            return bool(self.unknown) or self.rests_on is not None
        return self.status is Status.FAILED and self.final and bool(self.unknown)


@quick
@dataclass(frozen=True, slots=True)
class Address:
    """Where a recipient is reached on a channel. ``value`` is the canonical text. Times are microseconds.

    ``quarantined_at``, known where people look at addresses: a verdict against it is doubted, and a person decides.
    """

    id: int
    tenant: str
    recipient: str
    channel: str
    value: str
    registered_at: int
    invalidated_at: int | None = None
    reason: str | None = None
    quarantined_at: int | None = None


@quick
@dataclass(frozen=True, slots=True)
class Content:
    """What is said: rendered once per event, channel and locale. ``data`` travels with it untouched."""

    title: str | None = None
    text: str | None = None
    html: str | None = None
    data: Mapping[str, object] = field(default_factory=dict)


@quick
@dataclass(frozen=True, slots=True)
class Message:
    """What a provider turns into a request. ``reference`` is the client reference of this revision.

    ``replaces``: an earlier revision is published, and this one is to take its place (``Provider.edits``).
    """

    id: UUID
    reference: str
    revision: int
    attempt: int
    content: Content
    event_id: str
    event_type: str
    tenant: str
    recipient: str
    created_at: int
    priority: str = "normal"
    collapse: str | None = None
    expires_at: int | None = None
    replaces: bool = False
