"""In-app copies for the person: pages, what is unread, marking as read, and streams that lose nothing.

A stream holds a number: all copies up to it have been handed out. It pulls the next ones from the store when its
reader asks, so a slow reader costs one small page of memory and holds up nobody. All streams of a process share one
look at the store per second (and one after a hint), which says whose inbox has grown.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ringonce.engine.lifecycle import Loop, within
from ringonce.engine.settle import report
from ringonce.errors import InputError
from ringonce.model.transition import Cancel, Read
from ringonce.ports import Change, Copy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence
    from types import TracebackType
    from uuid import UUID

    from ringonce.engine.engine import Engine
    from ringonce.ports import ReadMark

    Owner = tuple[str, str]
    """(tenant, recipient)."""

POLL = 1.0
"""Seconds between two looks at the store when nothing hints at news."""
QUIET = 0.02
"""Seconds between two looks at the least, however many hints come."""
PAGE = 50
READ_AT_ONCE = 500
LONGEST_PAGE = 500
LONGEST_ID = 256


@dataclass(frozen=True, slots=True)
class InboxPage:
    """``copies`` newest first. ``next``: give it as ``before`` for the following page, None: there is none.

    ``cursor``: a stream that begins after it continues this page without a gap.
    """

    copies: tuple[Copy, ...]
    next: int | None
    cursor: int


class Stream:
    """What happens in one recipient's inbox, oldest first: ``async with`` it, then ``async for`` for the copies.

    Each device has its own. What one of them marks as read comes as a change to all.
    """

    def __init__(self, watch: Watch, owner: Owner, after: int | None) -> None:
        """Nothing is asked before it is entered."""
        self._watch = watch
        self.owner = owner
        self.cursor = after
        self.news = asyncio.Event()
        self.ended = False

    def end(self) -> None:
        """No more is asked for: ``next`` returns at once."""
        self.ended = True
        self.news.set()

    async def __aenter__(self) -> Self:
        """Begin; from now on nothing is missed."""
        await self._watch.enter(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""
        await self._watch.leave(self)

    async def next(self, seconds: float) -> list[Copy]:
        """The next copies, at most a page; empty when none came within ``seconds``. Raises StoreError."""
        clock = self._watch.clock
        until = clock.monotonic() + seconds
        while True:
            changes = await self.changes(max(0.0, until - clock.monotonic()))
            copies = [change for change in changes if isinstance(change, Copy)]
            if copies or self.ended or clock.monotonic() >= until:
                return copies

    async def changes(self, seconds: float) -> list[Copy | ReadMark]:
        """The next copies and read marks, at most a page; empty when none came within ``seconds``, or hardly before.

        Raises StoreError.
        """
        found = await self._pull()
        if not found and await within(self._watch.clock, seconds, self.news.wait()):
            found = await self._pull()
        return found

    async def unread(self) -> int:
        """How many copies are unread now. Raises StoreError."""
        return await self._watch.store.unread(*self.owner)

    async def __aiter__(self) -> AsyncIterator[Copy]:
        """Until ``end`` is called."""
        while not self.ended:
            for copy in await self.next(POLL * 60):
                yield copy

    async def _pull(self) -> list[Copy | ReadMark]:
        # Cleared first: what comes while we look is seen by the next look.
        self.news.clear()
        changes = await self._watch.store.inbox_changes(*self.owner, after=self.cursor or 0, limit=PAGE)
        if changes:
            self.cursor = changes[-1].seq
        return changes


class Watch:
    """Says which of the open streams have news. Runs while there is one."""

    def __init__(self, engine: Engine) -> None:
        """Nothing runs yet."""
        self.store = engine.store
        self.clock = engine.clock
        self._engine = engine
        self._streams: set[Stream] = set()
        self._loop: Loop | None = None

    async def enter(self, stream: Stream) -> None:
        """Place the stream: where it says, or at the end of the inbox. Behind the end means: the inbox began anew."""
        head = (await self.store.heads([stream.owner]))[stream.owner]
        if stream.cursor is None:
            stream.cursor = head
        elif stream.cursor > head:
            stream.cursor = 0
        self._streams.add(stream)
        if self._loop is None:
            engine = self._engine
            self._loop = Loop(
                "inbox", self._turn, clock=engine.clock, entropy=engine.entropy, telemetry=engine.telemetry
            )
            self._loop.start()
            engine.listen(self._woken)

    async def leave(self, stream: Stream) -> None:
        """Forget the stream; with the last one the looking ends."""
        self._streams.discard(stream)
        loop = self._loop
        if not self._streams and loop is not None:
            self._loop = None
            self._engine.unlisten(self._woken)
            await loop.stop()

    def _woken(self, _: Collection[str]) -> None:
        if self._loop is not None:
            self._loop.wake()

    async def _turn(self) -> float:
        await self.clock.sleep(QUIET)
        heads = await self.store.heads(sorted({stream.owner for stream in self._streams}))
        for stream in self._streams:
            if heads.get(stream.owner, 0) > (stream.cursor or 0):
                stream.news.set()
        return POLL


class Inbox:
    """What a person does with their copies."""

    def __init__(self, engine: Engine) -> None:
        """Streams share one watch."""
        self._engine = engine
        self._store = engine.store
        self._watch = Watch(engine)

    async def page(
        self, tenant: str, recipient: str, *, unread: bool, before: int | None, limit: int
    ) -> InboxPage:
        """A page, newest first. Raises InputError."""
        _check(recipient)
        if not 1 <= limit <= LONGEST_PAGE:
            raise InputError(f"1 to {LONGEST_PAGE}", field="limit")
        # The number first: what comes between the two is on the page, and again in a stream after it.
        cursor = (await self._store.heads([(tenant, recipient)]))[tenant, recipient]
        copies = await self._store.copies(tenant, recipient, before=before, unread=unread, limit=limit)
        return InboxPage(tuple(copies), copies[-1].seq if len(copies) == limit else None, cursor)

    async def unread(self, tenant: str, recipient: str) -> int:
        """How many copies are unread. Raises InputError."""
        _check(recipient)
        return await self._store.unread(tenant, recipient)

    async def mark_read(
        self, tenant: str, recipient: str, *, ids: Sequence[UUID] | None, up_to: UUID | int | None
    ) -> int:
        """Mark copies of this recipient as read; how many were not before. Others' ids are passed over.

        ``ids`` None: all up to a copy or a time (microseconds UTC, both included), or all that there are. What the
        same events still have waiting on other channels is cancelled in the same transaction, where ``stop_when_read``
        says so; a call that has begun is not stopped any more.
        """
        _check(recipient)
        count = 0
        while True:
            found = await self._store.unread_ids(tenant, recipient, ids=ids, up_to=up_to, limit=READ_AT_ONCE)
            if not found:
                return count
            before = count
            changes = [Change(id_, Read()) for id_ in found]
            changes += [
                Change(id_, Cancel("recipient", "stop_when_read")) for id_ in await self._stopped(found)
            ]
            shown: set[str] = set()
            for settled in await self._store.settle(changes, self._engine.decide):
                report(self._engine.telemetry, settled)
                if settled.row is not None and settled.write is not None and settled.write.read:
                    count += 1
                    shown.add(settled.row.channel)
            if shown:  # other devices look at once, in processes that listen too
                self._engine.notify_workers(shown)
            if len(found) < READ_AT_ONCE or count == before:
                return count

    async def _stopped(self, read: Sequence[UUID]) -> list[UUID]:
        """What reading these stops: as their events say, or else as the channel is set in which they were read."""
        stopped: dict[UUID, None] = {}
        for one in await self._store.siblings(read):
            entry = self._engine.channels.get(one.channel)
            default = entry is not None and entry.provider.stops_others(one.event_type)
            if default if one.asked is None else one.asked:
                stopped[one.id] = None
        return [id_ for id_ in stopped if id_ not in set(read)]

    def stream(self, tenant: str, recipient: str, *, after: int | None) -> Stream:
        """The copies that come ``after`` a number, or from now on. Raises InputError."""
        _check(recipient)
        return Stream(self._watch, (tenant, recipient), after)


def _check(recipient: str) -> None:
    if not 0 < len(recipient) <= LONGEST_ID:
        raise InputError(f"1 to {LONGEST_ID} characters", field="recipient")
