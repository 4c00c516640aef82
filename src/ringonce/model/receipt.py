"""What a provider tells later about what it took: callbacks as they come in, reports as we understand them.

The way of a receipt:

1. Somebody brings a ``Callback``: ``POST /v1/receipts/{channel}`` does, for vendors that call a URL.
2. ``Provider.receipts(callback, context)`` verifies it and says what it holds, as ``Report`` values. No I/O, no
   memory: it does not know whether it has seen the callback before, and need not.
3. ``engine.receipts.take(channel, reports)`` stores them and carries them out. Who gets reports by a connection of
   its own (and so needs no callback) begins here. It returns when all are committed; a database that is away raises
   StoreUnavailable, and the vendor (or the connection) brings them again.

What a provider has to say:

* ``Provider.receipts_by``: ``reference``, if reports name our client reference (``Message.reference``);
  ``message_id``, if they name only the id that its answer gave (``Outcome.message_id``), which is then kept beside
  the notification; ``address``, if it only reports who blocked us.
* The *kind*. ``delivered`` and ``read`` prove that it arrived. ``failed`` needs an ``outcome``, of the same classes
  as the answer to a call, best made by the same rules: it decides whether it is tried again and whether the address is
  dropped. ``sent`` says that the call was taken and nothing more: it ends a doubt. ``blocked`` and ``unblocked`` are
  about an ``address`` and no notification.
* Who is meant: ``reference`` or ``message_id``, or both; for the last two kinds ``address``, in the form that
  ``Provider.address`` makes of it.

What it need not think of: a report may come twice, late, before our own call has returned, in any order, for what
nobody knows. The same report (``id``, or where that is empty the same facts) is carried out once. What names nothing
that is known waits for a day, for its call may not be committed yet. A failure after an arrival changes nothing, and an
arrival after a failure wins: the end does not depend on the order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from ringonce.model.quick import quick

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.model.outcome import Outcome
    from ringonce.model.records import Settled


@dataclass(frozen=True, slots=True)
class Callback:
    """A vendor's call to us. ``url``: as the vendor called it, query included. Header names are lower case.

    ``body``: the bytes as they came, for signatures are made over them.
    """

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


class ReportKind(StrEnum):
    """What is reported."""

    SENT = "sent"
    DELIVERED = "delivered"
    READ = "read"
    FAILED = "failed"
    BLOCKED = "blocked"
    UNBLOCKED = "unblocked"


ARRIVALS = frozenset({ReportKind.DELIVERED, ReportKind.READ})
OF_ADDRESSES = frozenset({ReportKind.BLOCKED, ReportKind.UNBLOCKED})


@quick
@dataclass(frozen=True, slots=True)
class Report:
    """One thing that a provider reports; see above. ``at``: the vendor's time, microseconds UTC.

    ``id``: the same each time the vendor tells of the same thing; empty: its facts together are that.
    """

    kind: ReportKind
    reference: str | None = None
    message_id: str | None = None
    address: str | None = field(default=None, repr=False)
    outcome: Outcome | None = None
    at: int | None = None
    id: str = ""


@quick
@dataclass(frozen=True, slots=True)
class Arrival:
    """A report that has come in, by way of ``channel``. ``key``: the 16-byte digest of what makes it this one."""

    key: bytes
    channel: str
    account: str
    report: Report


class Fate(StrEnum):
    """What became of a report."""

    TAKEN = "taken"
    DUPLICATE = "duplicate"
    EARLY = "early"
    """Its attempt is still under way: it is looked at again when that has ended."""
    UNKNOWN = "unknown"
    """It names nothing that is known here (yet)."""
    UNMATCHED = "unmatched"
    """Unknown for so long that it is looked for no more."""


@dataclass(frozen=True, slots=True)
class Received:
    """A report and what became of it. ``settled``: the change of the notification, when it was taken."""

    key: bytes
    channel: str
    kind: str
    fate: Fate
    settled: Settled | None = None


@dataclass(frozen=True, slots=True)
class AddressReport:
    """Somebody blocked us, or does so no more. ``at``: microseconds UTC; None: just now."""

    value: str
    blocked: bool
    at: int | None = None
