"""What waits on each channel, as the metrics tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.engine.stopped import circuits, stopped
from ringonce.engine.witness import credential_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ringonce.engine.engine import Engine
    from ringonce.ports import Backlog, LaneState

SILENT = ("disabled", "not_implemented")
"""Why a channel does not send at all, as the metric tells it: switched off, or its provider is a stub."""


class Gauges:
    """Measures all channels, also those that have left the configuration while rows of theirs wait."""

    def __init__(self, engine: Engine) -> None:
        """Nothing is asked before the first ``measure``."""
        self._engine = engine
        self._gone: set[str] = set()
        self._stuck: set[str] = set()

    async def measure(self) -> None:
        """Set the gauges; tell a person once of each channel that is gone."""
        store = self._engine.store
        now = await store.now()
        backlog = {item.channel: item for item in await store.backlog()}
        lanes = await store.lanes()
        apart = {one.name: one.quarantined for one in await store.breakers()}
        missing = gone(self._engine, backlog)
        # One that was told of is measured once more when nothing of it waits, so that it does not stay at its last.
        for name in dict.fromkeys((*self._engine.channels.all(), *sorted(missing | self._gone))):
            self._tell(name, backlog.get(name), lanes, now)
            entry = self._engine.channels.get(name)
            ways = () if entry is None else (entry, *entry.ways)
            count = sum(apart.get(credential_of(one.channel), 0) for one in ways)
            self._engine.telemetry.gauge("ringonce_quarantined_addresses", count, channel=name)
        for name in sorted(missing - self._gone):
            self._engine.telemetry.alert(
                "channel_gone",
                f"channel {name} is not configured any more, but notifications of it wait: configure it again, "
                "or cancel them",
                channel=name,
            )
        self._gone = missing

    def _tell(self, name: str, item: Backlog | None, lanes: Sequence[LaneState], now: int) -> None:
        telemetry, entry = self._engine.telemetry, self._engine.channels.get(name)
        lane = stopped(name, entry, lanes)
        telemetry.gauge("ringonce_circuit_open", len(circuits(name, lanes)), channel=name)
        oldest = item.oldest_due if item else None
        age = 0.0 if oldest is None else max(0, now - oldest) / 1_000_000
        telemetry.gauge("ringonce_oldest_pending_seconds", age, channel=name)
        self._watch(name, age, working=lane is None and entry is not None and entry.channel.enabled)
        telemetry.gauge("ringonce_failed_backlog", item.retrying if item else 0, channel=name)
        telemetry.gauge("ringonce_looking", item.looking if item else 0, channel=name)
        off = entry is not None and not entry.channel.enabled
        reason = "disabled" if off else lane.reason if lane else None
        waiting = item.movable + item.paused if item else 0
        if waiting and reason in SILENT:
            telemetry.count("ringonce_channel_disabled_total", waiting, channel=name, reason=reason)

    def _watch(self, name: str, age: float, *, working: bool) -> None:
        """Tell a person once of each time that a channel which works does not keep up."""
        longest = self._engine.settings.stuck
        if longest is None or not working or age < longest:
            self._stuck.discard(name)
        elif name not in self._stuck:
            self._stuck.add(name)
            self._engine.telemetry.alert(
                "stuck_backlog",
                f"the oldest notification of {name} has been due for {age:.0f} s: are there workers enough?",
                channel=name,
            )


def gone(engine: Engine, backlog: Iterable[str]) -> set[str]:
    """The channels with something left that are not configured (the one without a name: not expanded yet)."""
    return {name for name in backlog if name and engine.channels.get(name) is None}
