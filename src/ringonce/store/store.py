"""The façade: ``ports.Store`` over either database. SQL and transactions live in the modules beside it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from ringonce.core.lane import parse, stops
from ringonce.errors import StoreError
from ringonce.ports import Lot, Terms
from ringonce.store.addresses import Addresses, same
from ringonce.store.against import AgainstAddresses
from ringonce.store.backend import Backend, DataRefusedError, check_schema
from ringonce.store.blocks import Blocks
from ringonce.store.breakers import Breakers
from ringonce.store.changes import Changes
from ringonce.store.claims import Ask, Claims
from ringonce.store.credentials import Kept
from ringonce.store.drafts import Drafts, DraftTable
from ringonce.store.duties import Duties
from ringonce.store.erasure import Erasure
from ringonce.store.floor import Floor
from ringonce.store.incoming import Incoming
from ringonce.store.intake import Intake
from ringonce.store.looks import Looks
from ringonce.store.lots import Lots
from ringonce.store.migrate import upgrade
from ringonce.store.moves import Moves
from ringonce.store.outbox import Outbox, hand_over
from ringonce.store.people import People
from ringonce.store.pruning import Pruning
from ringonce.store.reading import GROUPS, Reading
from ringonce.store.receipts import Receipts
from ringonce.store.settle import Settler
from ringonce.store.siblings import Siblings
from ringonce.store.small_tables import SmallTables
from ringonce.store.sweeps import Sweeps
from ringonce.store.upkeep import Stuck, Upkeep
from ringonce.store.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    import sqlalchemy as sa

    from ringonce.model.event import Event
    from ringonce.model.notification import Address
    from ringonce.model.transition import Note
    from ringonce.ports import (
        Accepted,
        Backlog,
        Batch,
        Change,
        Copy,
        Decide,
        Invalidation,
        Life,
        Marked,
        NewEvent,
        OutboxRow,
        Person,
        Planner,
        Query,
        ReadMark,
        Row,
        Settled,
        Sibling,
        Tell,
    )
    from ringonce.store.backend import Work

T = TypeVar("T")
log = logging.getLogger("ringonce.store")
CANCEL_AT_ONCE = 500
"""Notifications of one subject that are cancelled in one transaction."""


class SqlStore(Upkeep, SmallTables, Incoming, DraftTable):
    """``ports.Store`` on SQLite or PostgreSQL."""

    def __init__(
        self,
        backend: Backend,
        decode: Callable[[bytes], Event],
        outbox_kinds: frozenset[str] = frozenset(),
        *,
        create: bool = False,
        identify: Callable[[str, str], str] = same,
    ) -> None:
        """Build all statements once; nothing is opened yet."""
        dialect = backend.dialect
        self.backend = backend
        self._create = create
        self._run = backend.run
        self._clock = backend.clock
        self._duties = Duties(dialect)
        self._kept = Kept(dialect)
        outbox = Outbox(dialect, outbox_kinds)
        self._addresses = Addresses(dialect, outbox, identify)
        self._floor = Floor()
        self._claims = Claims(dialect, self._floor)
        self._lots = Lots(dialect, self._claims)
        self._breakers = Breakers(dialect, outbox)
        against = AgainstAddresses(dialect, self._addresses, self._breakers)
        self._settler = Settler(dialect, against, self._duties, outbox)
        self._inboxes = self._settler.inboxes
        self._siblings = Siblings(dialect)
        self._changes = Changes(backend, self._settler, Verdicts(dialect, outbox_kinds))
        self._receipts = Receipts(dialect, self._settler)
        self._blocks = Blocks(dialect, self._addresses)
        self._people = People(dialect)
        self._erasure = Erasure(dialect, self._settler)
        self._sweeps = Sweeps(dialect, self._settler, self._lots)
        self._intake = Intake(dialect, self._addresses, self._duties, self._settler, decode)
        self._drafts = Drafts(dialect, self._duties, self._intake, self._settler)
        self._reading = Reading(dialect)
        self._looks = Looks(dialect, self._reading)
        self._moves = Moves(dialect)
        self._pruning = Pruning(dialect, self._duties)
        self._stuck = Stuck()
        self._turn = 0

    async def open(self) -> None:
        """Connect and check the schema; with ``create``, bring it up to date first."""

        def prepare(c: sa.Connection) -> None:
            if self._create:
                upgrade(c)
            check_schema(c, self.backend.where)

        await self.backend.open(prepare)

    async def close(self) -> None:
        """Give all connections back."""
        await self.backend.close()

    async def now(self) -> int:
        """The store's clock."""
        now = self._clock(None)
        if now is not None:
            return now
        return await self._run(lambda c: self._duties.time(c, None), write=False)

    # --- intake -----------------------------------------------------------------------------------------------

    async def accept(
        self, events: Sequence[NewEvent], plan: Planner, decide: Decide, *, now: int | None = None
    ) -> list[Accepted]:
        """Store events; ``decide`` cancels older ones of the same collapse key."""
        at = self._clock(now)
        return await self._taken(lambda c: self._intake.accept(c, events, plan, decide, at))

    async def expand(self, plan: Planner, decide: Decide, *, limit: int = 100, now: int | None = None) -> int:
        """Expand the next chunk of one event that is not at its end."""
        at = self._clock(now)
        return await self._run(lambda c: self._intake.expand(c, plan, decide, limit, at))

    async def _taken(self, work: Work[T]) -> T:
        """What a caller brought: refused by the database as data, it is told as an error of ours."""
        try:
            return await self._run(work)
        except DataRefusedError as error:
            raise StoreError(
                f"{self.backend.where} refuses these data, nothing was stored: {error}"
            ) from error

    # --- addresses --------------------------------------------------------------------------------------------

    async def register(
        self, tenant: str, recipient: str, channel: str, value: str, *, now: int | None = None
    ) -> Address:
        """Register or re-register an address."""
        at = self._clock(now)

        def work(c: sa.Connection) -> Address:
            time_ = self._duties.time(c, at)
            return self._addresses.register(c, tenant, recipient, channel, value, time_)[0]

        return await self._taken(work)

    async def addresses(
        self, tenant: str, recipient: str, channel: str | None = None, *, all_: bool = False
    ) -> list[Address]:
        """The addresses of a recipient."""
        return await self._run(
            lambda c: self._addresses.of(c, tenant, recipient, channel, all_=all_), write=False
        )

    async def invalidate(
        self,
        items: Sequence[Invalidation],
        *,
        tenant: str | None = None,
        now: int | None = None,
        tell: Tell | None = None,
    ) -> int:
        """Drop addresses registered before the proof."""
        at = self._clock(now)
        gone = await self._run(lambda c: self._addresses.drop(c, items, tenant, self._duties.time(c, at)))
        hand_over(gone.values(), tell)
        return len(gone)

    # --- recipients and their inboxes --------------------------------------------------------------------------

    async def person(self, tenant: str, recipient: str) -> Person | None:
        """The record of a recipient."""
        return await self._run(lambda c: self._people.get(c, tenant, recipient), write=False)

    async def put_person(
        self, tenant: str, recipient: str, changes: Mapping[str, str | None], *, now: int | None = None
    ) -> Person:
        """Make or change the record."""
        at = self._clock(now)
        return await self._run(
            lambda c: self._people.put(c, tenant, recipient, changes, self._duties.time(c, at))
        )

    async def erase(
        self, tenant: str, recipient: str, decide: Decide, *, by: str = "", now: int | None = None
    ) -> int:
        """Forget a person: first what leads to new work, then the notifications in batches."""
        at = self._clock(now)
        names = await self._run(lambda c: self._erasure.leave(c, tenant, recipient))
        count = 0
        while ids := await self._run(lambda c: self._erasure.of(c, tenant, names), write=False):
            await self._run(lambda c: self._erasure.erase(c, names, ids, by, decide, at))
            count += len(ids)
        await self._run(lambda c: self._erasure.forget(c, tenant, names))
        return count

    async def copies(
        self,
        tenant: str,
        recipient: str,
        *,
        before: int | None = None,
        after: int | None = None,
        unread: bool = False,
        limit: int = 50,
    ) -> list[Copy]:
        """A page of an inbox."""
        return await self._run(
            lambda c: self._inboxes.page(
                c, tenant, recipient, before=before, after=after, unread=unread, limit=limit
            ),
            write=False,
        )

    async def inbox_changes(
        self, tenant: str, recipient: str, *, after: int, limit: int = 50
    ) -> list[Copy | ReadMark]:
        """What came and what was read."""
        return await self._run(
            lambda c: self._inboxes.changes(c, tenant, recipient, after=after, limit=limit), write=False
        )

    async def siblings(self, ids: Sequence[UUID]) -> list[Sibling]:
        """What waits beside these copies."""
        return await self._run(lambda c: self._siblings.of(c, ids), write=False)

    async def unread(self, tenant: str, recipient: str) -> int:
        """How many copies are unread."""
        return await self._run(lambda c: self._inboxes.unread(c, tenant, recipient), write=False)

    async def heads(self, owners: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """The number of the latest change of each owner's inbox."""
        return await self._run(lambda c: self._inboxes.heads(c, owners), write=False)

    async def unread_ids(
        self,
        tenant: str,
        recipient: str,
        *,
        ids: Sequence[UUID] | None = None,
        up_to: UUID | int | None = None,
        limit: int = 500,
    ) -> list[UUID]:
        """Unread copies that are to be read."""
        return await self._run(
            lambda c: self._inboxes.select(c, tenant, recipient, ids=ids, up_to=up_to, limit=limit),
            write=False,
        )

    # --- dispatch ---------------------------------------------------------------------------------------------
    # A lost reply to claim and mark is not answered by asking again: what the first one leased or began would
    # be out of sight. The caller is told, and undoes.

    async def claim(
        self,
        lane: str,
        owner: str,
        limit: int,
        lease: int,
        *,
        begin: bool = False,
        terms: Terms | None = None,
        hold: int | None = None,
        now: int | None = None,
    ) -> Batch:
        """Lease due rows of a lane, or of several by ``terms``; with ``begin`` their attempts begin at once."""
        at = self._clock(now)
        self._turn += 1
        turn = self._turn
        if terms is None:
            batch = await self._run(
                lambda c: self._claims.claim(c, lane, owner, limit, lease, turn, at, begin=begin),
                repeat=False,
                single=True,
            )
            if not batch.probing:
                return batch
        by = terms or Terms((Lot(lane, stops(parse(lane))),), hold or 2 * lease)
        ask = Ask(owner, lease, turn, at, begin)
        return await self._run(lambda c: self._lots.claim(c, lane, ask, limit, by), repeat=False)

    async def mark(
        self, owner: str, rows: Sequence[tuple[UUID, int, int]], *, now: int | None = None
    ) -> Marked:
        """Durably begin attempts."""
        at = self._clock(now)
        return await self._run(lambda c: self._claims.mark(c, owner, rows, at), repeat=False)

    async def undo(self, owner: str, rows: Sequence[tuple[UUID, int]], *, now: int | None = None) -> int:  # noqa: ARG002
        """Take marks back that led to no call."""
        return await self._run(lambda c: self._claims.undo(c, owner, rows))

    async def release(
        self,
        owner: str,
        rows: Sequence[tuple[UUID, int]],
        *,
        due_at: int | None = None,
        note: Note | None = None,
        lane: str | None = None,
        now: int | None = None,
    ) -> int:
        """Give leases of unmarked rows back."""
        at = self._clock(now)
        return await self._run(lambda c: self._claims.release(c, owner, rows, due_at, note, at, lane))

    async def give_up(self, owner: str, lane: str, known: Sequence[UUID], *, now: int | None = None) -> int:
        """Give back what a claim leased whose reply was lost."""
        at = self._clock(now)
        return await self._run(lambda c: self._claims.give_up(c, owner, lane, known, at))

    async def extend(
        self,
        owner: str,
        lease: int,
        rows: Sequence[tuple[UUID, int]] | None = None,
        *,
        now: int | None = None,
    ) -> set[UUID]:
        """Prolong the leases of an owner."""
        at = self._clock(now)
        return await self._run(lambda c: self._claims.extend(c, owner, lease, rows, at))

    async def arm(self, term: int, holder: str, *, limit: int = 500, now: int | None = None) -> int:
        """Release due failed rows to the workers."""
        at = self._clock(now)
        return await self._run(lambda c: self._claims.arm(c, term, holder, limit, at))

    # --- changes ----------------------------------------------------------------------------------------------

    async def settle(
        self, changes: Sequence[Change], decide: Decide, *, now: int | None = None
    ) -> list[Settled]:
        """Apply changes: what ends as its worker knows it at once, all else under the lock."""
        return await self._changes.settle(changes, decide, self._clock(now))

    async def cancel_subject(
        self, tenant: str, subject: str, decide: Decide, *, by: str = "", now: int | None = None
    ) -> list[Settled]:
        """Commit the tombstone, then cancel what is not over, in batches."""
        at = self._clock(now)
        await self._run(lambda c: self._sweeps.bury(c, tenant, subject, by, at))
        ids = await self._run(lambda c: self._sweeps.of_subject(c, tenant, subject), write=False)
        result: list[Settled] = []
        for start in range(0, len(ids), CANCEL_AT_ONCE):
            some = ids[start : start + CANCEL_AT_ONCE]
            result += await self._each(
                lambda c, ids: self._sweeps.cancel(c, ids, by, decide, at), some, tell=True
            )
        return result

    # --- reading ----------------------------------------------------------------------------------------------

    async def get(self, id_: UUID, *, tenant: str | None = None) -> Life | None:
        """One notification, its attempts and notes."""
        return await self._run(lambda c: self._reading.get(c, id_, tenant), write=False)

    async def search(self, query: Query) -> list[Row]:
        """Newest first."""
        return await self._run(lambda c: self._reading.search(c, query), write=False)

    async def report(
        self,
        *,
        tenant: str | None = None,
        channel: str | None = None,
        since: int | None = None,
        until: int | None = None,
        by: Sequence[str] = (),
    ) -> list[Mapping[str, object]]:
        """The once report. Raises StoreError for an unknown group."""
        unknown = [name for name in by if name not in GROUPS]
        if unknown:
            raise StoreError(
                f"can not group by {unknown[0]!r}", mend=f"one of {', '.join(GROUPS)}", field="by"
            )
        return await self._run(
            lambda c: self._reading.report(c, tenant, channel, since, until, by), write=False
        )

    async def backlog(self, *, now: int | None = None) -> list[Backlog]:
        """What is left, per channel."""
        at = self._clock(now)
        return await self._run(lambda c: self._reading.backlog(c, at), write=False)

    async def outbox(
        self, *, kind: str | None = None, after: int = 0, limit: int = 100
    ) -> list[tuple[int, OutboxRow]]:
        """Rows of the outbox in order of insertion."""
        return await self._run(lambda c: self._reading.outbox(c, kind, after, limit), write=False)
