"""How much of a channel may be on its way, and from which lanes: what a claim is told, and what answers say about it.

A channel without tenants of its own, without a rate and without a shared account has one lane, and claims without
terms: then nothing of this costs anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from ringonce.core.lane import Lane, of_group, parse, spell, stops
from ringonce.engine.circuits import Circuits
from ringonce.engine.limits import Limits
from ringonce.ports import Lot, Terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ringonce.engine.channels import Entry
    from ringonce.engine.circuits import Ruling
    from ringonce.model.outcome import Outcome
    from ringonce.ports import Batch, Probe


def group_of(entry: Entry | None, tenant: str) -> str:
    """The tenant group: the tenant itself where it has a share of its own."""
    return tenant if entry is not None and tenant in entry.channel.shares else ""


def lane_of(entry: Entry | None, channel: str, tenant: str, scope: str = "") -> str:
    """The lane in which a notification waits."""
    return spell(Lane(channel, group_of(entry, tenant), scope))


class Traffic:
    """What the lanes of one worker have in common."""

    def __init__(self) -> None:
        """Nothing is known of lanes but what the configuration says."""
        self.circuits = Circuits()
        self.limits = Limits()
        self._found: dict[str, list[str]] = {}

    def found(self, lanes: Iterable[str]) -> None:
        """The lanes in which rows lie: also those that the configuration does not know (any more)."""
        found: dict[str, list[str]] = defaultdict(list)
        for lane in lanes:
            found[parse(lane).channel].append(lane)
        self._found = dict(found)

    def terms(self, entry: Entry, held: Iterable[str]) -> Terms | None:
        """The terms of the next claim; None: from the one lane of the channel, without limits.

        ``held``: the lanes of the rows that this worker has.
        """
        channel = entry.channel
        lanes = dict.fromkeys(
            (channel.name, *(spell(Lane(channel.name, group)) for group in channel.shares))
        ) | dict.fromkeys(self._found.get(channel.name, ()))
        if channel.rate is None and not channel.account and len(lanes) == 1:
            return None
        counts: Counter[str] = Counter()
        if any(share.concurrency is not None for share in channel.shares.values()):
            counts.update(parse(lane).group for lane in held)
        lots = []
        for name in lanes:
            lane = parse(name)
            share = channel.shares.get(lane.group) if lane.group else None
            limit = None if share is None else share.concurrency
            lots.append(
                Lot(
                    lane=name,
                    stops=stops(lane, channel.account),
                    weight=1 if share is None else share.weight,
                    room=None if limit is None else limit - counts[lane.group],
                    rate=None if share is None else share.rate,
                    bucket=of_group(channel.name, lane.group),
                )
            )
        return Terms(tuple(lots), channel.timeout + channel.lease, channel.rate, channel.name)

    def learn(self, batch: Batch) -> None:
        """What a claim has told of circuits."""
        if batch.braked:
            self.circuits.told(batch.braked, batch.now)

    def judge(
        self,
        entry: Entry,
        tenant: str,
        outcome: Outcome,
        started: int,
        ended: int,
        probes: Sequence[Probe],
    ) -> Ruling:
        """What an answer means for the lanes."""
        return self.circuits.judge(entry, group_of(entry, tenant), outcome, started, ended, probes)
