"""Addresses whose verdicts are doubted, and what a person decides: this part of the library's face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.core.lane import of_account
from ringonce.engine.witness import credential_of
from ringonce.errors import NotFoundError

if TYPE_CHECKING:
    from ringonce.engine.engine import Engine
    from ringonce.model.notification import Address


class Quarantine:
    """Mixed into ``ringonce.Ringonce``. Every method raises StoreError when the database can not be used."""

    engine: Engine

    async def quarantined(
        self, channel: str | None = None, *, after: int = 0, limit: int = 100
    ) -> list[Address]:
        """Addresses in quarantine, by id: of a channel (and of those that share its account), or all.

        Raises NotFoundError.
        """
        names = None if channel is None else self._credentials(channel)
        return await self.engine.store.quarantined(names, after=after, limit=limit)

    async def release_quarantined(self, channel: str) -> int:
        """The key was wrong and is right now: the addresses stay, and what waited is sent. How many stay.

        Raises NotFoundError.
        """
        return await self._decide_quarantine(channel, drop=False)

    async def drop_quarantined(self, channel: str) -> int:
        """The verdicts were right: the addresses are dropped, and the channel goes on. How many are dropped.

        What waits for them ends without a call. Raises NotFoundError.
        """
        return await self._decide_quarantine(channel, drop=True)

    async def _decide_quarantine(self, channel: str, *, drop: bool) -> int:
        engine = self.engine
        lifted = await engine.store.lift(self._credentials(channel), drop=drop, tell=engine.telemetry.tell)
        if lifted.tripped:
            what = "dropped" if drop else "released"
            engine.telemetry.alert(
                "mass_invalidation_over",
                f"a person has decided: {lifted.addresses} addresses are {what}, and it goes on",
                channel=channel,
            )
        engine.notify_workers()
        return lifted.addresses

    def _credentials(self, channel: str) -> list[str]:
        """The names under which the verdicts of a channel are weighed: of each of its providers.

        Also those that it had before it got an account.
        """
        entry = self.engine.channels.way(channel)
        if entry is None:
            known = ", ".join(self.engine.channels.all()) or "none"
            raise NotFoundError(f"no channel {channel!r}", field="channel", mend=f"configured: {known}")
        account = entry.channel.account
        own = [channel, of_account(account)] if account else [channel]
        return [*own, *(credential_of(one.channel) for one in entry.ways)]
