"""What stops a channel right now, as people are told: the pause that counts, and the circuits of its lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.core.lane import Lane, belongs, parse, stops
from ringonce.core.scope import apart
from ringonce.engine.traffic import group_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ringonce.engine.channels import Entry
    from ringonce.ports import LaneState


def stopped(
    name: str, entry: Entry | None, lanes: Iterable[LaneState], *, tenant: str = "", scope: str = ""
) -> LaneState | None:
    """The pause that stops a channel for a tenant (``''``: for those without a lane of their own).

    ``scope``: the part of the provider that what is asked about belongs to. Of several pauses the one without an end,
    or the longest. None: it goes on, or only a probe is awaited.
    """
    account = "" if entry is None else entry.channel.account
    names = stops(Lane(name, group_of(entry, tenant), scope), account)
    found = [lane for lane in lanes if lane.lane in names and lane.paused]
    return max(found, key=lambda lane: (lane.until is None, lane.until or 0), default=None)


def scopes(name: str, lanes: Iterable[LaneState]) -> list[LaneState]:
    """The parts of a channel's provider that are paused, or wait for a call that tries them."""
    found = [lane for lane in lanes if (lane.paused or lane.probing) and apart(parse(lane.lane).scope)]
    return [lane for lane in found if parse(lane.lane).channel == name]


def circuits(name: str, lanes: Iterable[LaneState]) -> list[LaneState]:
    """The circuits of a channel that are open or being probed, each under the name that it stops."""
    return [
        lane
        for lane in lanes
        if lane.reason == "circuit" and (lane.paused or lane.probing) and belongs(lane.lane, name)
    ]


def tenant_of(circuit: LaneState) -> str | None:
    """Whose circuit it is; None: everybody's without a lane of his own."""
    return parse(circuit.lane).group or None
