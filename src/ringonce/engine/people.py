"""Recipients, where they are reached, and their in-app copies: this part of the library's face."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ringonce.errors import InputError, NotFoundError
from ringonce.ports import Invalidation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from ringonce.engine.channels import Entry
    from ringonce.engine.engine import Engine
    from ringonce.engine.inbox import InboxPage, Stream
    from ringonce.model.notification import Address
    from ringonce.ports import Person

LONGEST_ID = 256
LONGEST_LOCALE = 64
REMOVED = "removed"


class People:
    """Mixed into ``ringonce.Ringonce``. Every method raises StoreError when the database can not be used."""

    engine: Engine

    # --- records ---

    async def recipient(self, recipient: str, *, tenant: str = "") -> Person:
        """The record of a recipient. Raises NotFoundError."""
        found = await self.engine.store.person(tenant, recipient)
        if found is None:
            raise NotFoundError(f"no recipient {recipient!r}", field="recipient")
        return found

    async def set_recipient(
        self, recipient: str, changes: Mapping[str, str | None] | None = None, *, tenant: str = ""
    ) -> Person:
        """Make a recipient known, or change ``locale`` and ``timezone``; what is not named stays. Raises InputError."""
        given = dict(changes or {})
        _check_id(recipient)
        for name in given:
            if name not in {"locale", "timezone"}:
                raise InputError("unknown field", field=name, mend="there are locale and timezone")
        locale, zone = given.get("locale"), given.get("timezone")
        if locale is not None and not 0 < len(locale) <= LONGEST_LOCALE:
            raise InputError(f"1 to {LONGEST_LOCALE} characters", field="locale", mend="e.g. pt-BR")
        if zone is not None:
            try:
                ZoneInfo(zone)
            except (ZoneInfoNotFoundError, ValueError, OSError):
                raise InputError("unknown time zone", field="timezone", mend="e.g. Europe/Berlin") from None
        return await self.engine.store.put_person(tenant, recipient, given)

    async def erase(self, recipient: str, *, tenant: str = "", by: str = "library") -> int:
        """Forget a person: record, addresses, in-app copies, what their notifications say and the events' data.

        Anonymous counts stay. What has not begun is cancelled. Returns how many notifications were erased; doing it
        again is safe. Raises InputError.
        """
        _check_id(recipient)
        return await self.engine.store.erase(tenant, recipient, self.engine.decide, by=by)

    # --- addresses ---

    async def register(self, recipient: str, channel: str, address: object, *, tenant: str = "") -> Address:
        """Register where a recipient is reached. Raises InputError for a wrong address or channel."""
        return await self.engine.register(recipient, channel, address, tenant=tenant)

    async def addresses(
        self, recipient: str, channel: str | None = None, *, tenant: str = "", invalidated: bool = False
    ) -> list[Address]:
        """The addresses of a recipient; with ``invalidated`` the dropped ones too."""
        return await self.engine.store.addresses(tenant, recipient, channel, all_=invalidated)

    async def set_addresses(
        self, recipient: str, addresses: Mapping[str, Sequence[object]], *, tenant: str = ""
    ) -> list[Address]:
        """Make these the addresses of a recipient on the channels that are named; others there are dropped.

        All are checked before the first is registered. Raises InputError.
        """
        checked = [
            (channel, self.engine.address(recipient, channel, value))
            for channel, values in addresses.items()
            for value in values
        ]
        store = self.engine.store
        kept = {(await store.register(tenant, recipient, channel, value)).id for channel, value in checked}
        live = await store.addresses(tenant, recipient)
        gone = [one for one in live if one.channel in addresses and one.id not in kept]
        verdicts = [Invalidation(one.id, one.value, REMOVED) for one in gone]
        await store.invalidate(verdicts, tenant=tenant, tell=self.engine.telemetry.tell)
        return [one for one in live if one not in gone]

    async def invalidate(
        self, recipient: str, channel: str, address: object, *, tenant: str = "", reason: str = REMOVED
    ) -> int:
        """Drop an address (the number of addresses that were dropped). Raises InputError, NotFoundError."""
        value = self._entry(channel).provider.address(address)
        live = await self.engine.store.addresses(tenant, recipient, channel)
        found = [item for item in live if item.value == value]
        if not found:
            raise NotFoundError(f"{recipient} has no such address on {channel}", field="address")
        return await self.engine.store.invalidate(
            [Invalidation(item.id, item.value, reason) for item in found],
            tenant=tenant,
            tell=self.engine.telemetry.tell,
        )

    def unsubscribed(self, channel: str, token: str) -> tuple[str, str, str] | None:
        """Who followed the link of a mail to end mails like it: tenant, recipient, event type. None: forged.

        Raises NotFoundError for an unknown channel.
        """
        return self._entry(channel).provider.unsubscribed(token)

    # --- in-app copies ---

    async def inbox(
        self,
        recipient: str,
        *,
        tenant: str = "",
        unread: bool = False,
        before: int | None = None,
        limit: int = 50,
    ) -> InboxPage:
        """In-app copies, newest first; ``before``: the ``next`` of the page before. Raises InputError."""
        return await self.engine.inbox.page(tenant, recipient, unread=unread, before=before, limit=limit)

    async def unread(self, recipient: str, *, tenant: str = "") -> int:
        """How many in-app copies are unread."""
        return await self.engine.inbox.unread(tenant, recipient)

    async def mark_read(
        self,
        recipient: str,
        ids: Sequence[UUID] | None = None,
        *,
        up_to: UUID | int | None = None,
        tenant: str = "",
    ) -> int:
        """Mark in-app copies as read: these, all up to one or to a time (microseconds UTC), or all.

        Returns how many were unread before. Raises InputError.
        """
        return await self.engine.inbox.mark_read(tenant, recipient, ids=ids, up_to=up_to)

    def stream(self, recipient: str, *, tenant: str = "", after: int | None = None) -> Stream:
        """In-app copies as they come, after a copy's ``seq`` or from now on; nothing is lost in between.

        ::

            async with ringonce.stream("user-1", after=last_seen) as copies:
                async for copy in copies:
                    show(copy.content.text)
        """
        return self.engine.inbox.stream(tenant, recipient, after=after)

    def _entry(self, channel: str) -> Entry:
        entry = self.engine.channels.get(channel)
        if entry is None:
            known = ", ".join(self.engine.channels.all()) or "none"
            raise NotFoundError(f"no channel {channel!r}", field="channel", mend=f"configured: {known}")
        return entry


def _check_id(recipient: str) -> None:
    if not 0 < len(recipient) <= LONGEST_ID:
        raise InputError(f"1 to {LONGEST_ID} characters", field="recipient")
