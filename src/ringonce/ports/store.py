"""The store's port: what the engine asks of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from ringonce.model.audit import AuditQuery, AuditRow, FailureCount
    from ringonce.model.draft import Draft, DraftQuery, NewDraft
    from ringonce.model.keeping import Sealed
    from ringonce.model.notification import Address
    from ringonce.model.receipt import AddressReport, Arrival, Received
    from ringonce.model.retention import Pruned, Retention, Snapshot, Walk
    from ringonce.model.transition import Note
    from ringonce.ports import (
        Accepted,
        Backlog,
        Batch,
        BreakerState,
        Change,
        Copy,
        Decide,
        Invalidation,
        LanePause,
        LaneState,
        Life,
        Lifted,
        Marked,
        NewEvent,
        OutboxRow,
        Person,
        Planner,
        Query,
        ReadMark,
        Renew,
        Row,
        Settled,
        Sibling,
        Tell,
        Terms,
    )


class Store(Protocol):
    """The database. Every method is one transaction unless it says otherwise; batches in, batches out.

    Raises StoreUnavailable when the database can not be reached or written (the caller may try again: every
    method is safe to repeat), SchemaError when the schema is not right.
    """

    async def open(self) -> None:
        """Connect and check the schema (and the encoding, and the SQLite build)."""
        ...

    async def close(self) -> None:
        """Give all connections back."""
        ...

    async def now(self) -> int:
        """The store's clock."""
        ...

    # intake
    async def accept(
        self, events: Sequence[NewEvent], plan: Planner, decide: Decide, *, now: int | None = None
    ) -> list[Accepted]:
        """Store events; expand those of up to 100 recipients at once, leave the rest to ``expand``."""
        ...

    async def expand(self, plan: Planner, decide: Decide, *, limit: int = 100, now: int | None = None) -> int:
        """Expand the next chunk of up to ``limit`` recipients of one due event; 0: there was none."""
        ...

    # addresses
    async def register(
        self, tenant: str, recipient: str, channel: str, value: str, *, now: int | None = None
    ) -> Address:
        """Register or re-register: one value of a channel and tenant has one owner; a dead one lives again."""
        ...

    async def addresses(
        self, tenant: str, recipient: str, channel: str | None = None, *, all_: bool = False
    ) -> list[Address]:
        """The live addresses of a recipient; with ``all_`` the invalidated ones too."""
        ...

    async def invalidate(
        self,
        items: Sequence[Invalidation],
        *,
        tenant: str | None = None,
        now: int | None = None,
        tell: Tell | None = None,
    ) -> int:
        """Drop addresses that were registered before the proof; how many were dropped. ``tell`` hears of each."""
        ...

    # verdicts against addresses that are doubted
    async def quarantined(
        self, names: Sequence[str] | None = None, *, after: int = 0, limit: int = 100
    ) -> list[Address]:
        """Addresses that a person has to decide about, by id after ``after``; ``names``: those of some breakers."""
        ...

    async def breakers(self) -> list[BreakerState]:
        """The credentials whose verdicts against addresses were watched, by name."""
        ...

    async def lift(
        self, names: Sequence[str], *, drop: bool, now: int | None = None, tell: Tell | None = None
    ) -> Lifted:
        """Believe these credentials again, resume what their breakers paused, and decide what is in quarantine.

        ``drop`` True: the verdicts were right. Else the addresses are released, and the next verdict is doubted
        again unless a call was accepted before it. ``tell`` hears of each that is dropped.
        """
        ...

    # recipients
    async def person(self, tenant: str, recipient: str) -> Person | None:
        """The record of a recipient; None: there is none."""
        ...

    async def put_person(
        self, tenant: str, recipient: str, changes: Mapping[str, str | None], *, now: int | None = None
    ) -> Person:
        """Make or change the record: ``locale`` and ``timezone``, where named."""
        ...

    async def erase(
        self, tenant: str, recipient: str, decide: Decide, *, by: str = "", now: int | None = None
    ) -> int:
        """Forget a person: record, addresses, inbox, and what their notifications say; how many those were."""
        ...

    # in-app copies
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
        """Copies before a number, newest first; or after one, oldest first: after the last, none is missed."""
        ...

    async def inbox_changes(
        self, tenant: str, recipient: str, *, after: int, limit: int = 50
    ) -> list[Copy | ReadMark]:
        """What came and what was read after a number, oldest first: after the last, none is missed."""
        ...

    async def siblings(self, ids: Sequence[UUID]) -> list[Sibling]:
        """What of the same events still waits, for the same recipients as these copies, on other channels.

        ``channel`` and ``event_type`` are those of the copy.
        """
        ...

    async def unread(self, tenant: str, recipient: str) -> int:
        """How many copies are unread."""
        ...

    async def heads(self, owners: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """The number of the latest change of each (tenant, recipient)'s inbox; 0: there was none."""
        ...

    async def unread_ids(
        self,
        tenant: str,
        recipient: str,
        *,
        ids: Sequence[UUID] | None = None,
        up_to: UUID | int | None = None,
        limit: int = 500,
    ) -> list[UUID]:
        """Unread copies: the named ones, those up to a copy or a time (both included), or all."""
        ...

    # dispatch
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
        """Lease up to ``limit`` due and armed rows of a channel's lane, or of several by ``terms``.

        Nothing comes from what is paused, nor without a token where there is a rate; where a pause that must be
        probed is over, one row comes, and no other for the time ``hold`` (None: two leases; by ``terms``, theirs).
        With ``begin`` the claim is the mark as well: each row comes back with its
        attempt begun (``lease.started_at``), but those of a withdrawn subject.
        """
        ...

    async def waiting_lanes(self) -> list[str]:
        """The lanes in which rows lie that nobody holds."""
        ...

    async def mark(
        self, owner: str, rows: Sequence[tuple[UUID, int, int]], *, now: int | None = None
    ) -> Marked:
        """Durably begin an attempt for each (id, fence, version) that is still ours, unchanged and wanted."""
        ...

    async def undo(self, owner: str, rows: Sequence[tuple[UUID, int]], *, now: int | None = None) -> int:
        """Take marks back that led to no call: (id, fence). The lease stays, the number stays burnt."""
        ...

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
        """Give leases of unmarked rows back, due again at ``due_at`` (None: at once), in ``lane`` (None: their own)."""
        ...

    async def give_up(self, owner: str, lane: str, known: Sequence[UUID], *, now: int | None = None) -> int:
        """Give back, begun or not, all rows of a lane that ``owner`` holds besides ``known``; how many.

        For an owner whose claim may have been done although its reply was lost: what it does not know it never sends.
        """
        ...

    async def extend(
        self,
        owner: str,
        lease: int,
        rows: Sequence[tuple[UUID, int]] | None = None,
        *,
        now: int | None = None,
    ) -> set[UUID]:
        """Prolong leases of ``owner``: those of ``rows`` (id, fence), or all; the ids that it still holds."""
        ...

    async def settle(
        self, changes: Sequence[Change], decide: Decide, *, now: int | None = None
    ) -> list[Settled]:
        """Apply changes, each through ``decide``, ids locked in order, in one transaction.

        A row whose write is refused by the database as data falls back to a transaction of its own, without
        the raw answer; its neighbours are not touched.
        """
        ...

    async def rescue(self, decide: Decide, *, limit: int = 100, now: int | None = None) -> list[Settled]:
        """Expired leases: not begun -> due again; begun -> LeaseLost through ``decide``, attempt ``unknown``."""
        ...

    async def claim_lookups(
        self, owner: str, channels: Collection[str], limit: int, lease: int, *, now: int | None = None
    ) -> tuple[int, list[Life]]:
        """Lease up to ``limit`` calls without a verdict whose provider is due to be asked; and the store's time.

        The lease is ended by ``settle`` or ``release``, or it runs out and is rescued: then it is asked again.
        """
        ...

    async def sweep(
        self, decide: Decide, *, max_age: Mapping[str, int | None], limit: int = 100, now: int | None = None
    ) -> list[Settled]:
        """Expire what is past ``expires_at`` or its channel's max_age; end holds whose time is over."""
        ...

    async def move(self, source: str, target: str, *, limit: int = 500, now: int | None = None) -> int:
        """Let what is due in one lane wait in another, but those with a call that got no verdict; how many."""
        ...

    async def arm(self, term: int, holder: str, *, limit: int = 500, now: int | None = None) -> int:
        """Release due failed rows to the workers; only while (holder, term) holds RETRY_LEASE."""
        ...

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
        """Look at the next ``limit`` rows and remove what is over and old; only while (term, holder) holds PRUNE_LEASE.

        ``walk``: where the step before ended; None: from the beginning.
        """
        ...

    async def snapshots(self) -> list[Snapshot]:
        """Who keeps dead rows from being removed. Nobody does on SQLite."""
        ...

    def shorten(self, *, on: bool) -> None:
        """Let claims pass by the oldest part of their index, where all is dead while a snapshot is held.

        What lies there all the same (armed again, committed late) is found within a few seconds.
        """
        ...

    # reports of providers
    async def receive(
        self,
        arrivals: Sequence[Arrival],
        decide: Decide,
        accounts: Mapping[str, str],
        *,
        now: int | None = None,
    ) -> list[Received]:
        """Commit what has come in, then, in a second transaction, carry out what is new; one fate for each.

        ``accounts``: channel -> the account that it sends by; nobody reports about what another one sent.
        """
        ...

    async def look_again(
        self, decide: Decide, accounts: Mapping[str, str], *, limit: int = 200, now: int | None = None
    ) -> list[Received]:
        """Look again for what reports name that came too early, or whose carrying out was broken off."""
        ...

    async def block(
        self,
        channels: Collection[str],
        reports: Sequence[AddressReport],
        *,
        now: int | None = None,
        tell: Tell | None = None,
    ) -> int:
        """Drop addresses whose people blocked us, revive those dropped for that; how many changed. Older news lose.

        ``tell`` hears of each that is dropped.
        """
        ...

    async def prune_receipts(self, *, now: int | None = None) -> dict[str, int]:
        """Remove up to 500 reports, and as many ids that they may name, that are older than 30 days."""
        ...

    # leases and lanes
    async def take_lease(self, name: str, holder: str, ttl: int, *, now: int | None = None) -> int | None:
        """Take or prolong a lease; its term (+ 1 at each takeover), or None: another one holds it."""
        ...

    async def drop_lease(self, name: str, holder: str) -> None:
        """Give a lease up."""
        ...

    async def credential(self, name: str) -> Sealed | None:
        """The credential that workers share for an account; None: there is none."""
        ...

    async def keep_credential(self, name: str, sealed: Sealed) -> None:
        """Keep a credential for all workers, in place of an older one."""
        ...

    async def refuse_credential(
        self, name: str, made_at: int, channels: Sequence[str], *, now: int | None = None
    ) -> None:
        """The credential of this time was refused: the stamp of these channels moves, so that all workers look anew."""
        ...

    async def pause(self, pauses: Sequence[LanePause], *, now: int | None = None) -> list[str]:
        """Pause lanes; a pause never shortens one that stands. The names for which something changed."""
        ...

    async def resume(self, lane: str, *, below: bool = True, now: int | None = None) -> bool:
        """Resume what a name stops, and all ``below`` it; False: nothing was paused."""
        ...

    async def probe_again(self, names: Sequence[str], *, now: int | None = None) -> None:
        """Probes led to no call: others may probe at once."""
        ...

    async def lanes(self) -> list[LaneState]:
        """All lanes that have ever been paused."""
        ...

    async def overrides(self) -> dict[str, Mapping[str, object]]:
        """Channel -> settings changed at run time (``enabled``, ``max_attempts``, …)."""
        ...

    async def override(self, channel: str, changes: Mapping[str, object], *, now: int | None = None) -> None:
        """Change settings of a channel at run time; a value None takes the override back."""
        ...

    # cancelling
    async def cancel_subject(
        self, tenant: str, subject: str, decide: Decide, *, by: str = "", now: int | None = None
    ) -> list[Settled]:
        """Write the tombstone first, then cancel everything of the subject that is not yet final."""
        ...

    # drafts
    async def put_draft(
        self, new: NewDraft, plan: Planner, decide: Decide, renew: Renew, *, now: int | None = None
    ) -> tuple[Draft, list[Settled]]:
        """Make the draft of a key, or apply to the one that there is what ``renew`` asks for, in one transaction.

        The text is replaced when a Regenerated among it changed something. The draft as it is then, and what came of
        each event.
        """
        ...

    async def change_draft(self, change: Change, decide: Decide, *, now: int | None = None) -> Settled:
        """Apply a person's decision about a draft, as ``settle`` would; it is then no longer among those that wait."""
        ...

    async def drafts(self, query: DraftQuery) -> list[Draft]:
        """Newest first."""
        ...

    # reading
    async def get(self, id_: UUID, *, tenant: str | None = None) -> Life | None:
        """One notification with its attempts and notes. ``tenant`` None: any."""
        ...

    async def search(self, query: Query) -> list[Row]:
        """Newest first."""
        ...

    async def report(
        self,
        *,
        tenant: str | None = None,
        channel: str | None = None,
        since: int | None = None,
        until: int | None = None,
        by: Sequence[str] = (),
    ) -> list[Mapping[str, object]]:
        """The once report's totals, one row per group of ``by`` (``tenant``, ``channel``, ``day``), or one in all."""
        ...

    async def failure_counts(self, query: Query, *, now: int | None = None) -> list[FailureCount]:
        """How many terminal failures a query finds, by channel, code, and what a retry depends on."""
        ...

    async def failure_audit(self, query: AuditQuery) -> list[AuditRow]:
        """Rows of the failure audit, newest first."""
        ...

    async def backlog(self, *, now: int | None = None) -> list[Backlog]:
        """What is left, per channel."""
        ...

    async def outbox(
        self, *, kind: str | None = None, after: int = 0, limit: int = 100
    ) -> list[tuple[int, OutboxRow]]:
        """Rows of the outbox in order of insertion, for kind ``table``."""
        ...

    async def count(
        self, tenant: str, channel: str, name: str, value: int = 1, *, now: int | None = None
    ) -> None:
        """Add to a durable daily counter (``duplicates_refused`` …)."""
        ...
