"""What do we need? The engine's ports: what it asks of the world, as protocols and plain records.

Times are microseconds UTC by the store's clock. ``now`` None means: the store's own clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from ringonce.model.proposals import BreakerState, Invalidation, Lifted, Proposal
from ringonce.model.records import (
    Accepted,
    AttemptRow,
    Backlog,
    Batch,
    Brief,
    Change,
    Claimed,
    Copy,
    Due,
    LanePause,
    LaneState,
    Lease,
    Life,
    Lot,
    Marked,
    NewContent,
    NewEvent,
    NewNotification,
    OutboxRow,
    Person,
    Plan,
    Probe,
    Query,
    ReadMark,
    RecipientFacts,
    Row,
    Settled,
    Sibling,
    Terms,
    TimelineEntry,
    Write,
)
from ringonce.ports.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence
    from uuid import UUID

    from ringonce.core.render import Template
    from ringonce.model.draft import Draft
    from ringonce.model.event import Event
    from ringonce.model.exchange import Answer, Request, SmsCenter, SmsDelivered
    from ringonce.model.transition import TransitionEvent

    Deliver: TypeAlias = Callable[[Sequence[tuple[object, Answer]]], None]
    """Takes (token, answer) pairs."""

    SmsHeard: TypeAlias = Callable[[Sequence[SmsDelivered]], Awaitable[None]]
    """Takes what a center delivered. It is acknowledged when this returns, and delivered again when it raises."""

    Planner: TypeAlias = Callable[[Event, Sequence["RecipientFacts"], bool, int], "Plan"]
    """(event, recipients, subject was cancelled, now) -> Plan. Pure but for ids; called inside the transaction."""

    Decide: TypeAlias = Callable[["Row", "Change", bool, int], "Write"]
    """(row as locked, change, is the guard's lease still held, now) -> Write. Pure; may be called again."""

    Renew: TypeAlias = Callable[[Draft, int], Sequence[TransitionEvent]]
    """(draft under its lock, now) -> what is to happen to it. Pure; may be called again."""

    Tell: TypeAlias = Callable[["OutboxRow"], None]
    """Hears of an event of ours when it is committed, whether it is published or not."""

    Guard: TypeAlias = Callable[["Row"], Awaitable[bool]]
    """The application's subject guard: False means withdrawn; an exception means: ask again later."""

__all__ = [
    "PROBED",
    "PRUNE_LEASE",
    "REFUSED",
    "RETRY_LEASE",
    "Accepted",
    "AttemptRow",
    "Backlog",
    "Batch",
    "BreakerState",
    "Brief",
    "Change",
    "Claimed",
    "Clock",
    "Copy",
    "Due",
    "Entropy",
    "Invalidation",
    "LanePause",
    "LaneState",
    "Lease",
    "Life",
    "Lifted",
    "Lot",
    "Marked",
    "NewContent",
    "NewEvent",
    "NewNotification",
    "OutboxRow",
    "Person",
    "Plan",
    "Probe",
    "Proposal",
    "Query",
    "ReadMark",
    "RecipientFacts",
    "Row",
    "Settled",
    "Sibling",
    "Store",
    "Telemetry",
    "Templates",
    "Terms",
    "TimelineEntry",
    "Wakeup",
    "Wire",
    "Write",
]

REFUSED = ("auth", "disabled", "not_implemented")
"""Why something is paused that a person mends, or a call that succeeds proves mended."""
PROBED = ("circuit", *REFUSED)
"""Why something is paused that one call must have tried before the others follow."""

RETRY_LEASE = "notifications:retry-worker"
PRUNE_LEASE = "notifications:pruner"


class Clock(Protocol):
    """Time, and waiting for it. The simulator has its own."""

    def now(self) -> int:
        """Wall clock, microseconds UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Entropy(Protocol):
    """Randomness."""

    def uuid7(self) -> UUID:
        """A new id whose time part is the application's clock."""
        ...

    def jitter(self) -> float:
        """Uniform in [0, 1)."""
        ...

    def token(self) -> str:
        """An owner id, fresh for each process start."""
        ...

    def random_bytes(self, count: int) -> bytes:
        """Random bytes that are fit for keys."""
        ...


class Wire(Protocol):
    """Carries requests. Every one gets exactly one answer, in any order, in batches, on the event loop."""

    def submit(
        self,
        batch: Sequence[tuple[object, Request]],
        deliver: Deliver,
    ) -> None:
        """Begin all; call ``deliver`` with (token, answer) pairs as they come. Never sends one twice by itself."""
        ...

    async def start(self) -> None:
        """Open what is needed; called inside the running event loop."""
        ...

    async def close(self, grace: float) -> None:
        """Wait up to ``grace`` seconds for running exchanges, then answer the rest with NoAnswer(sent=True)."""
        ...


@runtime_checkable
class Hearing(Protocol):
    """A wire over which others speak to us, too."""

    def listen(self, center: SmsCenter, heard: SmsHeard) -> None:
        """Keep in touch with ``center`` until the wire is closed. To be called after ``start``."""
        ...


class Wakeup(Protocol):
    """Hints between processes that there may be something to do. Nothing depends on one: who gets none polls."""

    def hint(self, channels: Collection[str] = (), /) -> None:
        """Tell other processes that these channels may have something to send; none: anything may be to do.

        Returns at once. To be called after the commit, in the event loop.
        """
        ...

    def listen(self, heard: Callable[[frozenset[str]], None], /) -> None:
        """Call ``heard`` with the channels of each hint of others, in the event loop; none: anything."""
        ...

    async def close(self) -> None:
        """Send what waits, give all connections back. It may be used again."""
        ...


class Telemetry(Protocol):
    """Counters, gauges, alerts, and events of ours in process."""

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        """Add to a counter."""
        ...

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        """Set a gauge."""
        ...

    def alert(self, kind: str, text: str, count: int = 1, /, **labels: str) -> None:
        """Tell a person: one log line and the counter ``ringonce_alerts_total``. ``count``: so many at once."""
        ...

    @property
    def heard(self) -> bool:
        """The program listens to events of ours."""
        ...

    def tell(self, event: OutboxRow, /) -> None:
        """Tell the program about an event of ours that is committed, whether it is published or not."""
        ...


class Templates(Protocol):
    """Named texts, compiled."""

    def get(self, name: str) -> Template:
        """A template. Raises TemplateError: unknown, or what is wrong with it."""
        ...

    def refresh(self) -> None:
        """Take changes over; cheap when it was asked a moment ago."""
        ...
