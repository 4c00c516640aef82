"""What keeps a store tidy: rescue, sweep, pruning. A part of ``SqlStore``."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ringonce.errors import StoreError
from ringonce.store.backend import DataRefusedError
from ringonce.store.snapshots import look

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from uuid import UUID

    import sqlalchemy as sa

    from ringonce.model.retention import Pruned, Retention, Snapshot, Walk
    from ringonce.ports import Decide, Life, Settled
    from ringonce.store.backend import Backend
    from ringonce.store.duties import Duties
    from ringonce.store.floor import Floor
    from ringonce.store.looks import Looks
    from ringonce.store.moves import Moves
    from ringonce.store.pruning import Pruning
    from ringonce.store.sweeps import Sweeps

T = TypeVar("T")
log = logging.getLogger("ringonce.store")

STUCK_FOR = 5.0
"""Seconds for which a row that could not be moved on is passed over; doubled by each failure, up to 5 minutes."""
STUCK_LONGEST = 300.0
STUCK_MOST = 10_000


def one_rows_fault(error: Exception) -> bool:
    """Refused values and bugs in a decision concern one row; a database that is away concerns all."""
    return isinstance(error, DataRefusedError) or not isinstance(error, StoreError)


class Stuck:
    """Rows that could not be moved on a moment ago: the oldest of all, they would hold up those behind them."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._rows: dict[UUID, tuple[float, float]] = {}

    def now(self) -> list[UUID]:
        """Those to pass over."""
        now = self._monotonic()
        return sorted(id_ for id_, (until, _) in self._rows.items() if until > now)

    def failed(self, id_: UUID) -> None:
        """Pass over it for a while."""
        now = self._monotonic()
        if len(self._rows) >= STUCK_MOST:
            self._rows = {one: kept for one, kept in self._rows.items() if kept[0] > now}
        wait = min(2 * self._rows.get(id_, (0.0, STUCK_FOR / 2))[1], STUCK_LONGEST)
        self._rows[id_] = (now + wait, wait)

    def moved(self, id_: UUID) -> None:
        """It went on."""
        self._rows.pop(id_, None)


class Upkeep:
    """The methods of the port that find their rows themselves."""

    backend: Backend
    _sweeps: Sweeps
    _pruning: Pruning
    _stuck: Stuck
    _floor: Floor
    _duties: Duties
    _looks: Looks
    _moves: Moves

    async def _each(
        self, work: Callable[..., list[Settled]], ids: Sequence[UUID], *, tell: bool = False
    ) -> list[Settled]:
        """A batch of rows that we found ourselves; one that fails is left out, the others go on.

        With ``tell`` the error of the only one is the caller's.
        """
        if not ids:
            return []
        try:
            return await self.backend.run(lambda c: work(c, ids))
        except Exception as error:
            if (tell and len(ids) == 1) or not one_rows_fault(error):
                raise
        result: list[Settled] = []
        for id_ in ids:
            try:
                result.extend(await self.backend.run(partial(work, ids=[id_])))
            except DataRefusedError as error:
                self._stuck.failed(id_)
                kind = type(error).__name__
                log.error("notification %s can not be moved on: %s", id_, kind)  # noqa: TRY400 - a trace quotes values
            except Exception as error:
                if not one_rows_fault(error):
                    raise
                self._stuck.failed(id_)
                log.exception("notification %s can not be moved on", id_)
            else:
                self._stuck.moved(id_)
        return result

    async def rescue(self, decide: Decide, *, limit: int = 100, now: int | None = None) -> list[Settled]:
        """Expired leases: begun ones through ``decide``, the others are due again (and not in the answer)."""
        at, stuck = self.backend.clock(now), self._stuck.now()
        ids = await self.backend.run(lambda c: self._sweeps.lost(c, stuck, limit, at), write=False)
        return await self._each(lambda c, ids: self._sweeps.rescue(c, ids, decide, at), ids)

    async def sweep(
        self, decide: Decide, *, max_age: Mapping[str, int | None], limit: int = 100, now: int | None = None
    ) -> list[Settled]:
        """Expire what is too old; end holds whose time is over."""
        at, stuck = self.backend.clock(now), self._stuck.now()
        ids = await self.backend.run(
            lambda c: self._sweeps.overdue(c, max_age, stuck, limit, at), write=False
        )
        return await self._each(lambda c, ids: self._sweeps.sweep(c, ids, max_age, decide, at), ids)

    async def claim_lookups(
        self, owner: str, channels: Collection[str], limit: int, lease: int, *, now: int | None = None
    ) -> tuple[int, list[Life]]:
        """Lease calls without a verdict whose provider is to be asked, and the store's time."""
        at = self.backend.clock(now)
        # Mostly there is none, and to know that nothing has to be written.
        ripe = await self.backend.run(lambda c: self._looks.ripe(c, channels, limit, at), write=False)
        if not ripe:
            return 0, []

        def work(connection: sa.Connection) -> tuple[int, list[Life]]:
            lives = self._looks.claim(connection, owner, channels, limit, lease, at)
            return self._duties.time(connection, at), lives

        return await self.backend.run(work, repeat=False)

    async def move(self, source: str, target: str, *, limit: int = 500, now: int | None = None) -> int:
        """Move what is due and certain from one lane to another."""
        at = self.backend.clock(now)
        return await self.backend.run(lambda c: self._moves.move(c, source, target, limit, at))

    async def prune(
        self,
        term: int,
        holder: str,
        keep: Retention,
        *,
        walk: Walk | None = None,
        limit: int = 500,
        now: int | None = None,
    ) -> Pruned:
        """One step of a walk that removes what is over and old, under the lease of pruning."""
        at = self.backend.clock(now)

        def work(connection: sa.Connection) -> Pruned:
            return self._pruning.step(connection, (term, holder), keep, walk, limit, at)

        return await self.backend.run(work)

    def shorten(self, *, on: bool) -> None:
        """Let claims pass by the oldest part of their index while a snapshot is held."""
        self._floor.set(on=on)

    async def snapshots(self) -> list[Snapshot]:
        """Who keeps dead rows from being removed."""
        return await self.backend.run(look, write=False)
