"""How changes reach the database: in one transaction if they can, one by one where a row is to blame."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from ringonce.ports import Settled
from ringonce.store.backend import DataRefusedError
from ringonce.store.upkeep import one_rows_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    import sqlalchemy as sa

    from ringonce.ports import Change, Decide
    from ringonce.store.backend import Backend
    from ringonce.store.settle import Settler
    from ringonce.store.verdicts import Verdicts

log = logging.getLogger("ringonce.store")


class Changes:
    """The ways of a batch."""

    def __init__(self, backend: Backend, settler: Settler, verdicts: Verdicts) -> None:
        self._run = backend.run
        self._settler = settler
        self._verdicts = verdicts

    async def settle(self, changes: Sequence[Change], decide: Decide, at: int | None) -> list[Settled]:
        """What ends as its worker knows it at once, all else under the lock."""
        ended = self._verdicts.ends(changes, decide)
        settled: dict[UUID, Settled] = {}
        if ended:
            try:
                done = await self._run(lambda c: self._verdicts.write(c, ended, at), single=True)
            except DataRefusedError:
                done = set()  # one of them is to blame, and found by the long way
            settled = {
                change.id: Settled(change, row, write, lease_held=True)
                for change, row, write in ended
                if change.id in done
            }
            if len(settled) == len(changes):
                return [settled[change.id] for change in changes]
        rest = [change for change in changes if change.id not in settled]
        others = iter(await self._settle(rest, decide, at, whole=not settled))
        return [settled.get(change.id) or next(others) for change in changes]

    async def _settle(
        self, changes: Sequence[Change], decide: Decide, at: int | None, *, whole: bool
    ) -> list[Settled]:
        """Lock, read and step, in one transaction; what the database refuses falls back to one of its own."""
        if not changes:
            return []

        def work(c: sa.Connection, some: Sequence[Change]) -> list[Settled]:
            locked, time_ = self._settler.lock(c, (change.id for change in some), at)
            return self._settler.apply(c, locked, some, decide, time_)

        try:
            return await self._run(lambda c: work(c, changes))
        except Exception as error:
            groups: dict[UUID, list[Change]] = {}
            for change in changes:
                groups.setdefault(change.id, []).append(change)
            single = whole and len(groups) == 1  # its caller is told, and knows no neighbours
            if not one_rows_fault(error) or (single and not isinstance(error, DataRefusedError)):
                raise
        log.warning("a batch of %d changes is settled row by row", len(changes))
        found = {id_: await self._alone(work, group) for id_, group in groups.items()}
        return [found[change.id].pop(0) for change in changes]

    async def _alone(
        self, work: Callable[[sa.Connection, Sequence[Change]], list[Settled]], group: Sequence[Change]
    ) -> list[Settled]:
        """One notification's changes by themselves; if they are refused again, without the raw answers."""
        id_ = group[0].id
        try:
            return await self._run(lambda c: work(c, group))
        except DataRefusedError:
            bare = [_bare(change) for change in group]
        except Exception as error:
            if not one_rows_fault(error):
                raise
            log.exception("notification %s can not be settled", id_)
            return [Settled(change, None, None) for change in group]
        try:
            return await self._run(lambda c: work(c, bare))
        except DataRefusedError as error:
            log.error("notification %s can not be stored: %s", id_, error)  # noqa: TRY400 - a trace quotes values
            return [Settled(change, None, None) for change in group]


def _bare(change: Change) -> Change:
    if change.attempt is None:
        return change
    return replace(change, attempt=replace(change.attempt, answer=""))
