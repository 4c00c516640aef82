"""The store's methods for what providers report. A part of ``SqlStore``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ringonce.model.receipt import Fate, Received
from ringonce.store.outbox import hand_over
from ringonce.store.upkeep import one_rows_fault

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ringonce.model.receipt import AddressReport, Arrival
    from ringonce.ports import Decide, Tell
    from ringonce.store.backend import Backend
    from ringonce.store.blocks import Blocks
    from ringonce.store.duties import Duties
    from ringonce.store.receipts import Receipts

log = logging.getLogger("ringonce.store")


class Incoming:
    """A part of ``SqlStore``."""

    backend: Backend
    _duties: Duties
    _receipts: Receipts
    _blocks: Blocks

    async def receive(
        self,
        arrivals: Sequence[Arrival],
        decide: Decide,
        accounts: Mapping[str, str],
        *,
        now: int | None = None,
    ) -> list[Received]:
        """Commit what has come in, then carry out what is new; one fate for each."""
        if not arrivals:
            return []
        at = self.backend.clock(now)
        new = await self.backend.run(lambda c: self._receipts.keep(c, arrivals, at))
        # What was known and is not done yet is looked at as well: its first answer may have been lost.
        found = await self._look(sorted({one.key for one in arrivals}), decide, accounts, at)
        fates = {one.key: one for one in found if one.key in new or one.fate is Fate.TAKEN}
        for one in arrivals:
            # What is not found has been carried out, by somebody who tells of it, or can not be and is logged.
            fates.setdefault(one.key, Received(one.key, one.channel, one.report.kind.value, Fate.DUPLICATE))
        return list(fates.values())

    async def look_again(
        self, decide: Decide, accounts: Mapping[str, str], *, limit: int = 200, now: int | None = None
    ) -> list[Received]:
        """Look again for what reports name that came too early, or whose carrying out was broken off."""
        at = self.backend.clock(now)
        keys = await self.backend.run(lambda c: self._receipts.due(c, limit, at), write=False)
        return await self._look(keys, decide, accounts, at) if keys else []

    async def _look(
        self, keys: Sequence[bytes], decide: Decide, accounts: Mapping[str, str], at: int | None
    ) -> list[Received]:
        try:
            return await self.backend.run(lambda c: self._receipts.look(c, keys, decide, accounts, at))
        except Exception as error:
            if not one_rows_fault(error):
                raise
            if len(keys) == 1:
                # It stays, and is tried again: a report that was answered is not lost for a bug of ours.
                log.error("a report of a provider can not be carried out: %s", type(error).__name__)  # noqa: TRY400 - a trace quotes values
                await self.backend.run(lambda c: self._receipts.postpone(c, keys, at))
                return []
        return [one for key in keys for one in await self._look([key], decide, accounts, at)]

    async def prune_receipts(self, *, now: int | None = None) -> dict[str, int]:
        """Remove some of the reports, and of the ids that they may name, that are older than 30 days."""
        at = self.backend.clock(now)
        return await self.backend.run(lambda c: self._receipts.prune(c, at))

    async def block(
        self,
        channels: Collection[str],
        reports: Sequence[AddressReport],
        *,
        now: int | None = None,
        tell: Tell | None = None,
    ) -> int:
        """Drop addresses of these channels whose people blocked us; let those live again that do so no more."""
        at = self.backend.clock(now)
        count, told = await self.backend.run(
            lambda c: self._blocks.take(c, channels, reports, self._duties.time(c, at))
        )
        hand_over(told, tell)
        return count
