"""Rows under a lease: what a worker knows of them, and whether a call is made at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringonce.core.tally import exhausted
from ringonce.engine.exchange import NO_CALL_LEFT, STORED
from ringonce.model.transition import Answered, Cancel, Expire

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable
    from uuid import UUID

    from ringonce.engine.channels import Entry
    from ringonce.ports import Claimed, Invalidation, Row


@dataclass(slots=True)
class Holding:
    """A lease that we know of. ``until``: monotonic time until which it is certainly ours."""

    fence: int
    until: float
    lane: str = ""


def fence_of(row: Row) -> int:
    """Which lease it is; 0: none."""
    return row.lease.fence if row.lease else 0


def has_begun(row: Row) -> bool:
    """Its attempt began with the claim."""
    return row.lease is not None and row.lease.started_at is not None


def number_of(row: Row) -> int:
    """Which attempt it is."""
    return 1 if row.lease is None else row.lease.number


def recall(
    ready: deque[Claimed], undone: dict[UUID, int], verdicts: Iterable[Invalidation]
) -> set[Invalidation]:
    """What was claimed ahead for addresses that are gone goes back, and is claimed as it stands then.

    Returns the verdicts that took an address away, all but those that are doubted.
    """
    gone = {one for one in verdicts if not one.doubted}
    if not gone:
        return gone
    ids = {one.address_id for one in gone}
    for claimed in [one for one in ready if one.row.address is not None and one.row.address.id in ids]:
        ready.remove(claimed)
        undone[claimed.row.id] = fence_of(claimed.row)
    return gone


def no_call(entry: Entry, claimed: Claimed, now: int) -> Answered | Cancel | Expire | None:
    """Why no call is made, if so."""
    row = claimed.row
    if row.state.next_attempt_at is None:
        # Decided already, and delivered to us once more: only the lease is given up.
        return Answered(number_of(row), STORED, begun=False)
    if row.state.expires_at is not None and row.state.expires_at <= now:
        return Expire()
    if claimed.address_changed and row.address and row.address.invalidated_at is None:
        return Cancel(by="address", reason="the address has another owner now")
    if exhausted(row.state, entry.channel.policy):
        # max_attempts was lowered while the row waited.
        return Answered(number_of(row), NO_CALL_LEFT, begun=False)
    if entry.provider.stored:
        # It was not due when it was accepted, or its channel was off: now it goes into the inbox.
        return Answered(number_of(row), STORED, begun=False)
    return None
