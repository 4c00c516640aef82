"""The store's methods over its small tables: leases of duties, lanes, overrides of channels, counters, audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.model.policy import DAY
from ringonce.store.outbox import hand_over

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import sqlalchemy as sa

    from ringonce.model.audit import AuditQuery, AuditRow, FailureCount
    from ringonce.model.keeping import Sealed
    from ringonce.model.notification import Address
    from ringonce.ports import BreakerState, LanePause, LaneState, Lifted, Query, Tell
    from ringonce.store.backend import Backend
    from ringonce.store.breakers import Breakers
    from ringonce.store.credentials import Kept
    from ringonce.store.duties import Duties
    from ringonce.store.lots import Lots
    from ringonce.store.reading import Reading
    from ringonce.store.settle import Settler


class SmallTables:
    """A part of ``SqlStore``."""

    backend: Backend
    _breakers: Breakers
    _duties: Duties
    _kept: Kept
    _lots: Lots
    _reading: Reading
    _settler: Settler

    async def take_lease(self, name: str, holder: str, ttl: int, *, now: int | None = None) -> int | None:
        """Take or prolong a lease."""
        at = self.backend.clock(now)
        return await self.backend.run(lambda c: self._duties.take_lease(c, name, holder, ttl, at))

    async def drop_lease(self, name: str, holder: str) -> None:
        """Give a lease up."""
        await self.backend.run(lambda c: self._duties.drop_lease(c, name, holder))

    async def credential(self, name: str) -> Sealed | None:
        """What is kept of an account."""
        return await self.backend.run(lambda c: self._kept.get(c, name), write=False)

    async def keep_credential(self, name: str, sealed: Sealed) -> None:
        """Keep it in place of an older one."""
        await self.backend.run(lambda c: self._kept.put(c, name, sealed))

    async def refuse_credential(
        self, name: str, made_at: int, channels: Sequence[str], *, now: int | None = None
    ) -> None:
        """It was refused: all workers of these channels look anew."""
        at = self.backend.clock(now)

        def work(c: sa.Connection) -> None:
            self._kept.refuse(c, name, made_at)
            self._duties.touch(c, channels, at)

        await self.backend.run(work)

    async def pause(self, pauses: Sequence[LanePause], *, now: int | None = None) -> list[str]:
        """Pause lanes; a pause never shortens one that stands. The names for which something changed."""
        at = self.backend.clock(now)
        return await self.backend.run(lambda c: self._duties.pause(c, pauses, self._duties.time(c, at))[0])

    async def resume(self, lane: str, *, below: bool = True, now: int | None = None) -> bool:
        """Resume what a name stops."""
        at = self.backend.clock(now)
        return await self.backend.run(lambda c: self._duties.resume(c, lane, at, below=below))

    async def probe_again(self, names: Sequence[str], *, now: int | None = None) -> None:
        """Probes led to no call: others may probe at once."""
        at = self.backend.clock(now)
        await self.backend.run(lambda c: self._lots.again(c, names, at))

    async def waiting_lanes(self) -> list[str]:
        """The lanes in which rows lie that nobody holds."""
        return await self.backend.run(self._lots.waiting, write=False)

    async def lanes(self) -> list[LaneState]:
        """All lanes that have ever been paused."""
        at = self.backend.clock(None)
        return await self.backend.run(lambda c: self._duties.lanes(c, at), write=False)

    async def quarantined(
        self, names: Sequence[str] | None = None, *, after: int = 0, limit: int = 100
    ) -> list[Address]:
        """Addresses that a person has to decide about."""
        return await self.backend.run(
            lambda c: self._breakers.quarantined(c, names, after, limit), write=False
        )

    async def breakers(self) -> list[BreakerState]:
        """The credentials whose verdicts were watched."""
        return await self.backend.run(self._breakers.states, write=False)

    async def lift(
        self, names: Sequence[str], *, drop: bool, now: int | None = None, tell: Tell | None = None
    ) -> Lifted:
        """Decide what is in quarantine."""
        at = self.backend.clock(now)
        lifted, told = await self.backend.run(
            lambda c: self._breakers.lift(c, names, self._duties.time(c, at), drop=drop)
        )
        hand_over(told, tell)
        return lifted

    async def overrides(self) -> dict[str, Mapping[str, object]]:
        """Settings changed at run time."""
        return await self.backend.run(self._duties.overrides, write=False, single=True)

    async def override(self, channel: str, changes: Mapping[str, object], *, now: int | None = None) -> None:
        """Change settings of a channel."""
        at = self.backend.clock(now)
        await self.backend.run(lambda c: self._duties.override(c, channel, changes, at))

    async def count(
        self, tenant: str, channel: str, name: str, value: int = 1, *, now: int | None = None
    ) -> None:
        """Add to a durable daily counter."""
        at = self.backend.clock(now)

        def work(c: sa.Connection) -> None:
            self._duties.count(c, {(self._duties.time(c, at) // DAY, tenant, channel, name): value})

        await self.backend.run(work, repeat=False)

    async def failure_counts(self, query: Query, *, now: int | None = None) -> list[FailureCount]:
        """How many terminal failures there are of each kind."""
        at = self.backend.clock(now)
        return await self.backend.run(lambda c: self._reading.failure_counts(c, query, at), write=False)

    async def failure_audit(self, query: AuditQuery) -> list[AuditRow]:
        """Rows of the failure audit, newest first."""
        return await self.backend.run(lambda c: self._settler.failures.page(c, query), write=False)
