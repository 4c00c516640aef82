"""Plain records that pass between the engine and the store.

Times are microseconds UTC by the store's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringonce.model.quick import quick

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from ringonce.model.audit import Failure
    from ringonce.model.event import Event
    from ringonce.model.notification import Address, Content, State, Status
    from ringonce.model.policy import Rate
    from ringonce.model.proposals import Invalidation
    from ringonce.model.transition import Note, Refusal, TransitionEvent

# --- intake and expansion -------------------------------------------------------------------------------------


@quick
@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event ready to be stored. ``key``: 16-byte digest of (tenant, event id); ``body``: canonical JSON."""

    event: Event
    key: bytes
    body_hash: bytes
    body: bytes


@quick
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
class Reader:
    """Who a text is written for. ``locale`` and ``timezone`` as they were given, or None."""

    id: str = ""
    locale: str | None = None
    timezone: str | None = None


@quick
@dataclass(frozen=True, slots=True)
class NewContent:
    """``key`` is unique within the event: channel and locale."""

    key: str
    content: Content


@quick
@dataclass(frozen=True, slots=True)
class NewNotification:
    """A notification to be inserted. ``address`` None: there was none, the notification says so and is final."""

    id: UUID
    recipient: str
    channel: str
    account: str
    address: Address | None
    content_key: str
    write: Write


@quick
@dataclass(frozen=True, slots=True)
class Plan:
    """What the rules made of one chunk of an event's recipients."""

    contents: tuple[NewContent, ...]
    notifications: tuple[NewNotification, ...]


@quick
@dataclass(frozen=True, slots=True)
class Brief:
    """The line of an answer that stands for one notification."""

    id: UUID
    recipient: str
    channel: str
    status: Status
    final: bool


@quick
@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of one NewEvent. ``conflict``: the id is known with another body, nothing was stored for it."""

    event_id: str
    duplicate: bool = False
    conflict: bool = False
    pruned: bool = False
    expanding: bool = False
    notifications: tuple[Brief, ...] = ()


# --- dispatch ---------------------------------------------------------------------------------------------------


@quick
@dataclass(frozen=True, slots=True)
class Lease:
    """Who may send a notification now. ``attempt``: number of the last attempt begun.

    ``started_at`` None: no attempt is under way.
    """

    owner: str
    fence: int
    until: int
    attempt: int = 0
    started_at: int | None = None

    @property
    def number(self) -> int:
        """The number of the attempt that is under way, else of the next."""
        return self.attempt + (self.started_at is None)


@quick
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
    read_at: int | None = None


@quick
@dataclass(frozen=True, slots=True)
class Claimed:
    """A row under our lease, with what is needed to send it."""

    row: Row
    content: Content
    address_changed: bool = False
    purpose: str = "send"
    lane: str = ""
    probe: tuple[Probe, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """The call with this row probes whether what was paused as ``name`` works again.

    ``opened``: how often in a row it was paused. Nobody else probes it before the claim's ``hold`` is over.
    """

    name: str
    reason: str
    opened: int


@dataclass(frozen=True, slots=True)
class Lot:
    """What a claim may take of one lane: by ``weight`` among the lots of the claim, ``room`` rows at most.

    ``stops``: everything whose pause stops it. ``rate`` counts under ``bucket``.
    """

    lane: str
    stops: tuple[str, ...]
    weight: int = 1
    room: int | None = None
    rate: Rate | None = None
    bucket: str = ""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a claim deals with a channel of several lanes, shared accounts or rates.

    ``hold``: how long a probe keeps others from probing. ``rate``: that of all lots together, under ``bucket``.
    """

    lots: tuple[Lot, ...]
    hold: int
    rate: Rate | None = None
    bucket: str = ""

    @property
    def limited(self) -> bool:
        """Rows may need tokens."""
        return self.rate is not None or any(lot.rate is not None for lot in self.lots)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a claim returned, and the store's time at that moment.

    ``stamp``: another number after each change of a channel's settings at run time. ``braked``: what stopped
    lanes of it as an open circuit. ``wait``: rows wait for tokens only, the next ones come in so many microseconds.
    ``probing``: nothing comes before one call by terms has tried whether it works.
    """

    now: int
    stamp: int
    rows: tuple[Claimed, ...]
    braked: tuple[str, ...] = ()
    wait: int | None = None
    probing: bool = False


@dataclass(frozen=True, slots=True)
class Marked:
    """The survivors of a mark, id -> attempt number; and those that a tombstone stopped, id -> subject."""

    now: int
    begun: Mapping[UUID, int]
    cancelled: Mapping[UUID, str]


@quick
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


@quick
@dataclass(frozen=True, slots=True)
class Change:
    """Something happened to a notification. ``guard``: (owner, fence) of the lease that we believe to hold.

    ``attempt`` is the call that it tells of; its row is inserted, or updated when it stands there already. ``row``:
    the facts as they were when the lease began, by which the change may be decided as long as they stand. ``way``:
    which of a channel's providers it is about, by the name of its lanes; ``''``: the first.
    """

    id: UUID
    event: TransitionEvent
    guard: tuple[str, int] | None = None
    attempt: AttemptRow | None = None
    row: Row | None = None
    way: str = ""


@quick
@dataclass(frozen=True, slots=True)
class Due:
    """What the dispatch row becomes: purpose ``send``, ``lookup`` or ``hold``; ``at`` None: never by itself.

    ``lane`` None: it stays in its lane, and a new one goes into that of its channel.
    """

    purpose: str
    at: int | None
    armed: bool = True
    lane: str | None = None


@quick
@dataclass(frozen=True, slots=True)
class OutboxRow:
    """An event of ours. ``event_id`` is stable: notification id + revision. ``key`` orders."""

    event_id: str
    kind: str
    key: str
    payload: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class LanePause:
    """Stop claiming from ``lane``, and from all below it, until ``until`` (None: until resumed).

    ``opened``: how often a circuit opened in a row; one that grows replaces a pause that would last longer.
    """

    lane: str
    reason: str
    until: int | None = None
    opened: int = 0


@quick
@dataclass(frozen=True, slots=True)
class Write:
    """A step, lowered to what the store persists in one transaction.

    ``changed`` False: the state is as before. ``stored``: it goes into the recipient's inbox; ``read``: the
    recipient has read it, if that was not known before. ``due`` None: the dispatch row is deleted when the state is
    final or the lease is ours to give up, else left alone. ``attempt``: the row to insert or update. ``named``:
    (account, message id, attempt), where the provider reports by its id alone. ``failure``: the row of the audit.
    """

    state: State
    changed: bool = True
    due: Due | None = None
    attempt: AttemptRow | None = None
    notes: tuple[Note, ...] = ()
    outbox: tuple[OutboxRow, ...] = ()
    invalidate: tuple[Invalidation, ...] = ()
    pauses: tuple[LanePause, ...] = ()
    refused: Refusal | None = None
    alerts: tuple[tuple[str, str], ...] = ()
    counters: tuple[str, ...] = ()
    stored: bool = False
    read: bool = False
    named: tuple[str, str, int] | None = None
    failure: Failure | None = None


@quick
@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a Change. ``row`` None: there is no such notification. ``began``: pauses that began with it."""

    change: Change
    row: Row | None
    write: Write | None
    lease_held: bool = False
    began: tuple[str, ...] = ()


# --- reading ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Query:
    """A search. None means any. ``tenant`` None: the platform's own view over all tenants."""

    tenant: str | None = None
    status: tuple[str, ...] = ()
    channel: str | None = None
    recipient: str | None = None
    event_id: str | None = None
    event_type: str | None = None
    subject: str | None = None
    code: str | None = None
    terminal_failures: bool = False
    ids: tuple[UUID, ...] | None = None
    thread: str | None = None
    since: int | None = None
    until: int | None = None
    limit: int = 50
    after: UUID | None = None


@quick
@dataclass(frozen=True, slots=True)
class Copy:
    """A notification in its recipient's inbox. ``seq`` grows with each change of the inbox."""

    seq: int
    id: UUID
    event_id: str
    event_type: str
    content: Content
    subject: str | None
    thread: str | None
    priority: str
    created_at: int
    read_at: int | None


@dataclass(frozen=True, slots=True)
class ReadMark:
    """A copy was read. ``seq``: the number of this change among those of the recipient's inbox."""

    seq: int
    id: UUID
    read_at: int | None


@dataclass(frozen=True, slots=True)
class Sibling:
    """What of the same event is on its way to the same recipient as a copy. ``asked``: what the event says."""

    id: UUID
    channel: str
    event_type: str
    asked: bool | None


@dataclass(frozen=True, slots=True)
class Person:
    """A recipient's record. ``locale`` and ``timezone`` None: not known."""

    tenant: str
    id: str
    locale: str | None
    timezone: str | None
    created_at: int
    updated_at: int


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
    """What was paused under a name, ``opened`` times in a row. ``probing``: a call is to tell whether it works."""

    lane: str
    paused: bool
    until: int | None
    reason: str | None
    probing: bool = False
    opened: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is left, for ``--drain``, health and metrics, per channel.

    ``movable``: a worker could do something now or by itself later (retries, looks, leases that run, events not
    expanded count under channel ``''``). ``held`` waits for a person or a receipt, ``looking`` for a look at the
    provider. ``oldest_due`` in microseconds UTC.
    """

    channel: str
    movable: int = 0
    future: int = 0
    held: int = 0
    paused: int = 0
    retrying: int = 0
    leased: int = 0
    oldest_due: int | None = None
    next_due: int | None = None
    looking: int = 0
