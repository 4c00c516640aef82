"""How long what is over is kept, and what one step of pruning did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringonce.model.policy import DAY

if TYPE_CHECKING:
    from collections.abc import Mapping

JOURNAL_LEAST = 90 * DAY
"""So long at least an event that is told again must be recognised, for some producers replay a whole quarter."""
MARGIN = DAY
"""So much longer than ``journal`` the rows stay: the producer's clock, by which events are refused, may be fast."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long what is over is kept; `none`: always. What still waits, or is in doubt, is never removed."""

    sent: int | None = 30 * DAY
    failed: int | None = 90 * DAY
    suppressed: int | None = 30 * DAY
    merged: int | None = 30 * DAY
    cancelled: int | None = 30 * DAY
    expired: int | None = 30 * DAY
    drafts: int | None = None
    inbox_read: int | None = 90 * DAY
    inbox_unread: int | None = 365 * DAY
    attempts: int | None = None
    journal: int | None = 90 * DAY
    outbox: int | None = 7 * DAY
    outbox_table: int | None = None
    audit: int | None = 365 * DAY
    addresses: int | None = 90 * DAY
    cancellations: int | None = 365 * DAY

    def of(self, status: str) -> int | None:
        """How long a notification with this final status is kept. None: always, or it is not final."""
        age: int | None = getattr(self, status, None) if status in STATUSES else None
        return age

    @property
    def youngest(self) -> int | None:
        """The age before which nothing of a notification can be removed; None: nothing ever is."""
        ages = [getattr(self, status) for status in (*STATUSES, "attempts", "drafts")]
        return min((age for age in ages if age is not None), default=None)


STATUSES = ("sent", "failed", "suppressed", "merged", "cancelled", "expired")
"""Those that may be final."""


@dataclass(frozen=True, slots=True)
class Walk:
    """Where a walk through the tables is: the next table, and a place in each. Made and read by the store alone."""

    table: int = 0
    places: tuple[tuple[object, ...] | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one step did: rows removed per table, rows looked at, and where to go on.

    ``held`` False: the caller was not the holder of the lease, nothing happened. ``done``: the walk has come to
    its end; ``walk`` then goes on with what has become old enough meanwhile.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    looked: int = 0
    walk: Walk = Walk()
    done: bool = False
    held: bool = True


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot that is held in the database: nothing that died after it began can be removed.

    ``who`` names the session, prepared transaction or slot without any query's text; ``mark`` changes when the
    snapshot does; ``age`` in microseconds, None where the database does not tell since when it is held.
    """

    who: str
    mark: str
    age: int | None = None
