"""Records that the store keeps and the core reads: what is known of recipients, calls and due work.

Times are microseconds UTC by the store's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from ringonce.model.notification import Address, Content, State


@dataclass(frozen=True, slots=True)
class RecipientFacts:
    """What the store knows of one recipient of an event, its live addresses included.

    ``direct``: addressed by ``to``, without a record; its one address is in ``addresses``.
    """

    id: str
    locale: str | None
    timezone: str | None
    addresses: tuple[Address, ...]
    direct: bool = False


@dataclass(frozen=True, slots=True)
class Lease:
    """Who may send a notification now. ``attempt`` is the number that the mark gave (0: not marked yet)."""

    owner: str
    fence: int
    until: int
    attempt: int = 0
    started_at: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """The facts about one notification, without its content. ``lease`` None: nobody holds it."""

    id: UUID
    tenant: str
    event_id: str
    event_type: str
    recipient: str
    channel: str
    account: str
    address: Address | None
    subject: str | None
    thread: str | None
    priority: str
    collapse: str | None
    created_at: int
    state: State
    lease: Lease | None = None
    rescued: int = 0


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One call to the provider, as stored. ``outcome`` is an OutcomeClass value or ``unknown``. No secrets."""

    number: int
    revision: int
    fence: int
    account: str
    started_at: int
    ended_at: int | None
    outcome: str
    code: str | None = None
    provider_code: str | None = None
    reference: str | None = None
    message_id: str | None = None
    answer: str = ""
    rule: str = ""
    late: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """What the dispatch row becomes: purpose ``send``, ``lookup`` or ``hold``; ``at`` None: never by itself."""

    purpose: str
    at: int | None
    armed: bool = True


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """An event of ours. ``event_id`` is stable: notification id + revision. ``key`` orders."""

    event_id: str
    kind: str
    key: str
    payload: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One line of a life: a note or an attempt."""

    at: int
    kind: str
    detail: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Life:
    """Everything about one notification."""

    row: Row
    content: Content
    attempts: tuple[AttemptRow, ...]
    notes: tuple[TimelineEntry, ...]
    due: Due | None


@dataclass(frozen=True, slots=True)
class LaneState:
    """A lane that is paused or switched."""

    lane: str
    paused: bool
    until: int | None
    reason: str | None
