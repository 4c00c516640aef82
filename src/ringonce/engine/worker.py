"""The worker: all loops of one process, started together, stopped together, drained."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ringonce.core.lane import WAY
from ringonce.engine.common import Shared
from ringonce.engine.credentials import Credentials
from ringonce.engine.dispatch import Lane
from ringonce.engine.duties import Duties
from ringonce.engine.guards import Guards
from ringonce.engine.hearing import listen
from ringonce.engine.horizon import Horizon
from ringonce.engine.lifecycle import Loop, within
from ringonce.engine.looking import Looker
from ringonce.engine.pruner import Pruner
from ringonce.engine.settle import Settler
from ringonce.engine.traffic import Traffic
from ringonce.engine.vault import Vault
from ringonce.engine.ways import Mover, bring_back
from ringonce.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from ringonce.engine.engine import Engine
    from ringonce.ports import Backlog

log = logging.getLogger("ringonce")

DUTIES = ("dispatch", "lookup", "retry", "rescue", "expand", "sweep", "prune")
DRAIN_LOOK = 0.1
LANES_EVERY = 1.0
GIVE_BACK_AGAIN = 0.05
LAST_WORDS = 2.0


@dataclass(frozen=True, slots=True)
class Drained:
    """What was left when nothing more could be moved on."""

    left: tuple[Backlog, ...]


class Worker:
    """One owner of leases. Several workers may run on one PostgreSQL; on SQLite one."""

    def __init__(self, engine: Engine, only: Sequence[str] = ()) -> None:
        """``only``: which duties to take (all when empty), of ``DUTIES``."""
        self._engine = engine
        self._only = frozenset(only or DUTIES)
        self.owner = engine.entropy.token()
        decide = engine.decide
        self._settler = Settler(
            engine.store, decide, clock=engine.clock, entropy=engine.entropy, telemetry=engine.telemetry
        )
        self._shared = Shared(
            owner=self.owner,
            store=engine.store,
            wire=engine.wire,
            settler=self._settler,
            channels=engine.channels,
            guards=Guards(engine.guards, engine.telemetry, engine.clock),
            credentials=Credentials(
                engine.wire,
                engine.entropy,
                engine.telemetry,
                engine.clock.now,
                Vault(engine.store, self.owner, engine.clock) if engine.settings.share_credentials else None,
            ),
            witness=engine.witness,
            traffic=Traffic(),
            clock=engine.clock,
            entropy=engine.entropy,
        )
        self._lanes: dict[str, Lane] = {}
        self._lane_loops: dict[str, Loop] = {}
        self._duties = Duties(engine, self._shared, decide, self._lanes)
        self._pruner = Pruner(engine, self.owner)
        horizon = Horizon(engine, lambda: self._pruner.holding)
        self._loops = [
            self._loop(name, turn)
            for name, duty, turn in (
                ("channels", "dispatch", self._follow_channels),
                ("lanes", "dispatch", self._follow_lanes),
                ("extend", "dispatch", self._duties.extend),
                ("lookup", "lookup", Looker(self._shared, decide, engine.telemetry).turn),
                ("ways", "dispatch", Mover(engine).turn),
                ("retry", "retry", self._duties.retry),
                ("rescue", "rescue", self._duties.rescue),
                ("expand", "expand", self._duties.expand),
                ("sweep", "sweep", self._duties.sweep),
                ("receipts", "sweep", engine.receipts.turn),
                ("prune", "prune", self._pruner.turn),
                ("horizon", "prune", horizon.look),
                ("horizon", "dispatch", horizon.look),
            )
            if duty in self._only and not (name == "horizon" and duty == "dispatch" and "prune" in self._only)
        ]

    async def run(self, stop: asyncio.Event, *, drain: bool = False) -> Drained | None:
        """Work until ``stop`` is set, or with ``drain`` until nothing is left that could be moved on.

        Then: claim nothing more, let running sends finish and commit within the grace period, keep the leases
        of the rest.
        """
        engine = self._engine
        await engine.wire.start()
        if "dispatch" in self._only:
            listen(engine)
        self._settler.start()
        await self._follow_channels()
        for loop in self._loops:
            loop.start()
        engine.listen(self.wake)
        if engine.wakeup is not None:
            engine.wakeup.listen(engine.woken)
        try:
            drained = await (self._drain(stop) if drain else stop.wait())
        finally:
            engine.unlisten(self.wake)
            await self._stop()
        return drained if isinstance(drained, Drained) else None

    def wake(self, channels: Collection[str] = ()) -> None:
        """There may be new work on these channels, or (none are named) anywhere: look at once."""
        for name, loop in self._lane_loops.items():
            if not channels or name.partition(WAY)[0] in channels:
                loop.wake()
        for loop in self._loops:
            if loop.name == "expand" and not channels:
                loop.wake()

    def _loop(self, name: str, turn: Callable[[], Awaitable[float]]) -> Loop:
        engine = self._engine
        return Loop(name, turn, clock=engine.clock, entropy=engine.entropy, telemetry=engine.telemetry)

    async def _follow_channels(self) -> float:
        """One lane for each channel, also for those that appear while we run."""
        if "dispatch" in self._only:
            for name in self._engine.channels.ways():
                if name not in self._lanes:
                    lane = self._lanes[name] = Lane(name, self._shared)
                    loop = self._lane_loops[name] = self._loop(f"lane {name}", lane.turn)
                    lane.wake = loop.wake
                    loop.start()
        return 1.0

    async def _follow_lanes(self) -> float:
        """Lanes in which something lies although the configuration does not name them (any more) are served too."""
        lanes = await self._engine.store.waiting_lanes()
        self._shared.traffic.found(lanes)
        await bring_back(self._engine, lanes)
        return LANES_EVERY

    async def _drain(self, stop: asyncio.Event) -> Drained | None:
        while not stop.is_set():
            if not self._busy() and (left := await self._left()) is not None and not self._busy():
                return Drained(tuple(left))
            await self._engine.clock.sleep(DRAIN_LOOK)
        return None

    def _busy(self) -> bool:
        lanes = any(lane.busy for lane in self._lanes.values())
        return lanes or not self._settler.idle or self._engine.alarming()

    async def _left(self) -> list[Backlog] | None:
        """What is left when nothing can be moved on; None: something can, or nobody knows. It reads all that waits."""
        try:
            left = [self._seen(item) for item in await self._engine.store.backlog()]
        except StoreError:
            return None
        return None if any(item.movable for item in left) else left

    def _seen(self, item: Backlog) -> Backlog:
        """What a channel that is off (or is not configured any more) has, waits: only its leases run out."""
        entry = self._engine.channels.get(item.channel)
        if not item.channel or (entry is not None and entry.channel.enabled):
            return item
        return replace(item, movable=item.leased, paused=item.paused + item.movable - item.leased)

    async def _stop(self) -> None:
        """Claim nothing more; what is under way gets the grace period, and the leases stay ours until it ends."""
        clock, grace = self._engine.clock, self._engine.settings.grace
        deadline = clock.monotonic() + grace
        loops = [*self._lane_loops.values(), *(loop for loop in self._loops if loop.name != "extend")]
        if not await within(clock, grace, asyncio.gather(*(loop.stop() for loop in loops))):
            log.warning("a turn did not end in time and was broken off")
        for lane in self._lanes.values():
            if not await within(clock, max(0.1, deadline - clock.monotonic()), self._give_back(lane)):
                log.warning("leases are left to expire: the database does not answer")
        await self._engine.wire.close(max(0.0, deadline - clock.monotonic()))
        await within(clock, LAST_WORDS, self._shared.credentials.close())
        # What the wire has just answered is written in any case, or at least tried for the grace period.
        if not await within(clock, grace, self._settler.stop()):
            log.warning("results could not be written in time; their attempts will be in doubt")
        await within(clock, LAST_WORDS, self._end())

    async def _end(self) -> None:
        """Prolong nothing more; let another worker be the owner of the retries at once."""
        for loop in self._loops:
            await loop.stop()
        try:
            await self._duties.give_up_retry()
            await self._pruner.give_up()
        except StoreError as error:
            log.warning("leases of duties are left to expire: %s", error)

    async def _give_back(self, lane: Lane) -> None:
        """Tried again while the database is away: a mark that stays behind would be a doubt."""
        wait = GIVE_BACK_AGAIN
        while True:
            try:
                await lane.give_back()
            except StoreError:
                await self._engine.clock.sleep(wait)
                wait = min(1.0, wait * 2)
            else:
                return
