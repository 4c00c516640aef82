"""What a worker does besides dispatching: arm retries, rescue, sweep, expand, keep its leases."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ringonce.engine.gauges import Gauges, gone
from ringonce.engine.settle import FALLBACK_POLICY, report
from ringonce.errors import StoreError
from ringonce.ports import RETRY_LEASE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.engine.common import Shared
    from ringonce.engine.dispatch import Lane
    from ringonce.engine.engine import Engine
    from ringonce.engine.settle import Decider

log = logging.getLogger("ringonce")

ARM_BATCH = 500
RESCUE_BATCH = 100
EXPAND_CHUNK = 100
EXPAND_IDLE = 1.0
SWEEP_EVERY = 1.0
GAUGE_PACE = 50
"""The gauges are measured for a fiftieth of the time at most: with a large backlog less often than each cycle."""
LONGEST_TERM = 10_000_000
LOOK_EVERY = 60.0
"""Seconds between two looks for channels that are not configured any more."""


class Duties:
    """Each method is one turn of a loop and returns the seconds to wait before the next."""

    def __init__(self, engine: Engine, shared: Shared, decide: Decider, lanes: Mapping[str, Lane]) -> None:
        """Nothing happens before the first turn. ``lanes``: those of our worker, as they come."""
        self._engine = engine
        self._lanes = lanes
        self._extended = shared.clock.monotonic()
        self._shared = shared
        self._decide = decide
        self._rescue_from = 0.0
        self._outage = False
        self._gauges = Gauges(engine)
        self._measure_at = 0.0
        self._gone: set[str] = set()
        self._look_at = shared.clock.monotonic()

    @property
    def _lease(self) -> int:
        """The longest lease of any channel, in microseconds."""
        entries = self._engine.channels.all().values()
        return max((entry.channel.lease for entry in entries), default=15_000_000)

    @property
    def _shortest(self) -> int:
        entries = self._engine.channels.all().values()
        return min((entry.channel.lease for entry in entries), default=15_000_000)

    async def extend(self) -> float:
        """Prolong all our leases, each by its channel's own length, three times in the shortest.

        Only leases that the lanes know of: what nobody here knows must run out and be rescued. But as long as a lane
        gives back what a claim leased whose reply was lost, everything of ours is prolonged: rescued before that, it
        would be in doubt although it was never sent.
        """
        shared = self._shared
        before = shared.clock.monotonic()
        lanes: dict[int, list[Lane]] = {}
        for lane in self._lanes.values():
            entry = self._engine.channels.way(lane.name)
            lanes.setdefault(self._lease if entry is None else entry.channel.lease, []).append(lane)
        for lease, alike in lanes.items():
            rows = [row for lane in alike for row in lane.leases()]
            lost = any(lane.lost for lane in alike)
            if rows or lost:
                extended = await shared.store.extend(shared.owner, lease, None if lost else rows)
                for lane in alike:
                    lane.extended(extended, before + lease / 1_000_000)
        self._extended = before
        return self._shortest / 3_000_000

    async def retry(self) -> float:
        """One cycle: as the single owner of the retry lease, release what is due; count what waits."""
        engine, settings = self._engine, self._engine.settings
        engine.channels.apply(await engine.store.overrides())
        # A holder that died blocks the retries for as long as this, so it is no longer than what it sent may take.
        ttl = max(3 * settings.cycle, min(LONGEST_TERM, self._lease))
        term = await engine.store.take_lease(RETRY_LEASE, self._shared.owner, ttl)
        if term is not None:
            armed = ARM_BATCH
            while armed >= ARM_BATCH:
                armed = await engine.store.arm(term, self._shared.owner, limit=ARM_BATCH)
                if armed:
                    engine.notify_workers()
            await self._measure()
        return settings.cycle / 1_000_000

    async def _measure(self) -> None:
        """Set the gauges: it reads all that waits, so it is paced by how long that takes."""
        clock = self._shared.clock
        began = clock.monotonic()
        if began >= self._measure_at:
            await self._gauges.measure()
            ended = clock.monotonic()
            self._measure_at = ended + GAUGE_PACE * (ended - began)

    async def give_up_retry(self) -> None:
        """Let another worker be the owner of the retry lease at once."""
        await self._engine.store.drop_lease(RETRY_LEASE, self._shared.owner)

    async def rescue(self) -> float:
        """Take over what dead workers left; after an outage of the store wait one lease first."""
        shared = self._shared
        try:
            now = shared.clock.monotonic()
            if self._outage:
                await shared.store.now()
                self._outage = False
                self._rescue_from = now + self._lease / 1_000_000
            if now < self._rescue_from:
                return min(1.0, self._rescue_from - now)
            if now - self._extended >= self._shortest / 2_000_000:
                # We were stopped or blocked: our own calls are under way, and nobody's to take over but others'.
                await self.extend()
            rescued = await shared.store.rescue(self._decide, limit=RESCUE_BATCH)
        except StoreError:
            self._outage = True
            raise
        report(self._engine.telemetry, *rescued)
        if rescued:
            log.info("rescued %d notifications of a lost worker", len(rescued))
        return 0.0 if len(rescued) >= RESCUE_BATCH else min(5.0, self._shortest / 3_000_000)

    async def sweep(self) -> float:
        """Expire what no claim will touch, end holds whose time is over."""
        now = self._shared.clock.monotonic()
        if now >= self._look_at:
            self._gone = gone(self._engine, [item.channel for item in await self._engine.store.backlog()])
            self._look_at = now + LOOK_EVERY
        # Nobody says how old the rows of a channel that is gone may become, so the default holds.
        max_age = dict.fromkeys(self._gone, FALLBACK_POLICY.max_age)
        max_age |= {
            name: entry.channel.policy.max_age for name, entry in self._engine.channels.ways().items()
        }
        swept = await self._engine.store.sweep(self._decide, max_age=max_age, limit=ARM_BATCH)
        report(self._engine.telemetry, *swept)
        return 0.0 if len(swept) >= ARM_BATCH else SWEEP_EVERY

    async def expand(self) -> float:
        """Go on with the fan-out of events with many recipients, and of those enqueued elsewhere."""
        planning = self._engine.plan
        expanded = await self._engine.store.expand(planning, self._decide, limit=EXPAND_CHUNK)
        if expanded:
            planning.tell(self._engine.telemetry)
            self._engine.notify_workers()
        return 0.0 if expanded else EXPAND_IDLE
