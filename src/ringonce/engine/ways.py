"""Several providers of one channel: which is asked next, and moving what waits for one that is stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ringonce.core import tally
from ringonce.core.lane import WAY, Lane, parse, spell
from ringonce.core.scope import kind_of
from ringonce.engine.stopped import stopped
from ringonce.engine.traffic import lane_of
from ringonce.model.outcome import OutcomeClass
from ringonce.model.transition import Answered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ringonce.engine.channels import Channels, Entry
    from ringonce.engine.engine import Engine
    from ringonce.model.notification import LastError
    from ringonce.model.outcome import Outcome
    from ringonce.model.transition import TransitionEvent
    from ringonce.ports import AttemptRow, Change, LaneState, Row

LOOK_EVERY = 0.2
"""So long at most a notification waits for a provider that is stopped."""
IDLE = 1.0
BATCH = 500
OF_THE_PROVIDER = frozenset(
    {OutcomeClass.TRANSIENT, OutcomeClass.AUTH, OutcomeClass.DISABLED, OutcomeClass.NOT_IMPLEMENTED}
)
OF_THE_ROW = frozenset({"address", "endpoint"})


def refused(outcome: Outcome, last: LastError | None) -> bool:
    """A definite refusal that speaks of the provider: another one may take the very same notification."""
    if not tally.is_verdict(outcome) or (outcome.scope is not None and kind_of(outcome.scope) in OF_THE_ROW):
        return False
    if outcome.cls is OutcomeClass.RATE_LIMITED:
        return outcome.scope == "channel"
    # A credential that may only have expired is fetched anew first.
    return outcome.cls in OF_THE_PROVIDER and not tally.heals(last, outcome)


def following(entry: Entry, way: str) -> str:
    """The way after ``way``; ``''``: it was the last one."""
    names = [entry.channel.name, *(one.channel.name for one in entry.ways)]
    place = names.index(way or entry.channel.name) + 1 if (way or entry.channel.name) in names else len(names)
    return names[place] if place < len(names) else ""


def seen(event: TransitionEvent, entry: Entry | None, row: Row, change: Change) -> TransitionEvent:
    """The event, with what only the configuration knows: another provider can be asked."""
    if entry is None or not entry.ways or not isinstance(event, Answered) or row.state.unknown:
        return event
    other = bool(following(entry, change.way)) and refused(event.outcome, row.state.last_error)
    return replace(event, elsewhere=True) if other else event


def lane_after(
    channels: Channels, entry: Entry, row: Row, change: Change, event: TransitionEvent, *, doubt: bool
) -> str | None:
    """Where it waits next: in its lane while a call has no verdict, in that of the next provider, or the first's."""
    if doubt:
        return None
    name = following(entry, change.way) if isinstance(event, Answered) and event.elsewhere else row.channel
    return lane_of(channels.way(name), name, row.tenant)


def asked(channels: Channels, entry: Entry, attempt: AttemptRow | None) -> AttemptRow | None:
    """A call that nobody answered, under the account that was asked: the store knows no more than its lane."""
    if attempt is None or attempt.ended_at is not None:
        return attempt
    way = channels.way(attempt.account) or entry
    return replace(attempt, account=way.account)


async def bring_back(engine: Engine, lanes: Iterable[str]) -> None:
    """What lies with a provider that its channel does not have any more goes to the first that it has.

    Not after a call without a verdict: it stays with the one that was asked, for a person to see.
    """
    for name in lanes:
        lane = parse(name)
        channel, way, _ = lane.channel.partition(WAY)
        entry = engine.channels.get(channel) if way else None
        if entry is None or engine.channels.way(lane.channel) is not None:
            continue
        if await engine.store.move(name, spell(Lane(channel, lane.group)), limit=BATCH):
            engine.notify_workers({channel})


class Mover:
    """What is due for a provider that is stopped goes to the first of its channel that is not."""

    def __init__(self, engine: Engine) -> None:
        """Nothing happens before the first turn."""
        self._engine = engine

    async def turn(self) -> float:
        """Look once at all channels with several providers; the seconds to wait before the next turn."""
        engine = self._engine
        several = [entry for entry in engine.channels.all().values() if entry.ways and entry.channel.enabled]
        if not several:
            return IDLE
        lanes = await engine.store.lanes()
        full = False
        for entry in several:
            for source, target in _moves(entry, lanes):
                moved = await engine.store.move(source, target, limit=BATCH)
                full = full or moved >= BATCH
                if moved:
                    engine.notify_workers({entry.channel.name})
        return 0.0 if full else LOOK_EVERY


def _moves(entry: Entry, lanes: list[LaneState]) -> Iterator[tuple[str, str]]:
    """From which lane to which."""
    for group in ("", *entry.channel.shares):
        ways = [(one, stopped(one.channel.name, one, lanes, tenant=group)) for one in (entry, *entry.ways)]
        free = next((spell(Lane(one.channel.name, group)) for one, stop in ways if stop is None), None)
        if free is not None:
            yield from (
                (spell(Lane(one.channel.name, group)), free) for one, stop in ways if stop is not None
            )
