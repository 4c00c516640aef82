"""Changes of notifications: lock, decide, write. Settle, rescue, sweep, cancel and collapse all end here.

A batch locks its notifications in the order of their ids, then their dispatch rows, reads the facts under the
lock, asks ``decide`` row by row and writes everything in a handful of statements, whatever its size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.model.transition import LeaseLost
from ringonce.ports import Change, Settled, Write
from ringonce.store.compiled import fetch
from ringonce.store.erasure import ERASED, wordless
from ringonce.store.failures import Failures
from ringonce.store.inbox import Inboxes
from ringonce.store.ledger import Ledger
from ringonce.store.provider_refs import ProviderRefs
from ringonce.store.rows import (
    ATTEMPT,
    DISPATCH,
    FACTS,
    FACTS_FROM,
    STATE,
    Dispatch,
    attempt_values,
    make_attempt,
    make_desk,
    make_row,
    state_values,
    unanswered,
)
from ringonce.store.schema import attempts, dispatch, notifications, timeline
from ringonce.store.values import digest, dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from ringonce.model.notification import State
    from ringonce.model.transition import Note
    from ringonce.ports import AttemptRow, Decide, OutboxRow, Row
    from ringonce.store.against import AgainstAddresses
    from ringonce.store.dialect import Dialect
    from ringonce.store.duties import Duties
    from ringonce.store.outbox import Outbox


class LostUpdateError(Exception):
    """A row changed although we held its lock: a bug, reported row by row."""


@dataclass(slots=True)
class Locked:
    """A notification under our lock, and what the batch has made of it so far."""

    row: Row
    state: State
    dispatched: Dispatch | None
    generation: int
    last_attempt: int
    subject_key: bytes | None
    collapse_key: bytes | None
    version: int
    stored: bool
    touched: bool = False
    moved: bool = False
    told: bool = False

    def now(self) -> Row:
        """The row as the changes so far have left it."""
        if self.told:
            desk = self.dispatched
            self.row = replace(
                self.row,
                state=replace(self.state, open=desk is not None and desk.started_at is not None),
                lease=self.row.lease if desk is not None and desk.leased else None,
                rescued=desk.rescued if desk else 0,
            )
            self.told = False
        return self.row

    def desk(self, since: int) -> Dispatch:
        """A dispatch row for one that has none (any more): attempt numbers go on, its age begins anew."""
        keys = (self.subject_key, self.collapse_key)
        return make_desk(self.row, self.state, self.last_attempt, since, keys)


class Settler:
    """The statements, built once."""

    def __init__(self, dialect: Dialect, verdicts: AgainstAddresses, duties: Duties, outbox: Outbox) -> None:
        self._dialect = dialect
        self._against = verdicts
        self._duties = duties
        self.outbox = outbox
        self.inboxes = Inboxes(dialect)
        self.failures = Failures(dialect)
        self._refs = ProviderRefs(dialect)
        given, among, insert = dialect.given, dialect.among, dialect.insert
        n, d = notifications.c, dispatch.c

        facts = (
            sa.select(*FACTS, n.address_generation, n.last_attempt, dialect.now)
            .select_from(FACTS_FROM)
            .where(among(n.id, "ids"))
            .order_by(n.id)
        )
        self._lock = facts.with_for_update(of=notifications)
        self._lock_free = facts.with_for_update(of=notifications, skip_locked=True)
        self._lock_dispatch = sa.select(*DISPATCH).where(among(d.id, "ids")).order_by(d.id).with_for_update()
        self._known = sa.select(attempts).where(among(attempts.c.notification_id, "ids"))

        types = {name: n[name].type for name in STATE}
        self._changed = given(
            "r",
            id=sa.Uuid,
            before=sa.Integer,
            address=sa.BigInteger,
            generation=sa.Integer,
            last=sa.Integer,
            read_at=sa.BigInteger,
            **types,
        )
        r = self._changed.c
        self._update = (
            sa.update(notifications)
            .where(n.id == r.id, n.version == r.before)
            .values(
                {name: r[name] for name in STATE}
                | {
                    "changed_at": sa.bindparam("b_now", type_=sa.BigInteger),
                    "address_id": r.address,
                    "address_generation": r.generation,
                    "last_attempt": r.last,
                    "read_at": r.read_at,
                }
            )
            .returning(n.id)
        )

        self._begun = given("r", **{name: attempts.c[name].type for name in ATTEMPT})
        new = insert(attempts).from_select(
            list(ATTEMPT), sa.select(*(self._begun.c[name] for name in ATTEMPT)).where(sa.true())
        )
        told = (
            "ended_at",
            "outcome",
            "code",
            "provider_code",
            "reference",
            "message_id",
            "answer",
            "rule",
            "late",
        )
        self._attempt = new.on_conflict_do_update(
            index_elements=["notification_id", "number"],
            set_={name: new.excluded[name] for name in told}
            | {"doubt": sa.or_(attempts.c.doubt, new.excluded.doubt)},
            # A verdict is never replaced by the lack of one.
            where=sa.or_(attempts.c.outcome == "unknown", new.excluded.outcome != "unknown"),
        )

        self._notes = given("r", id=sa.Uuid, kind=sa.Text, detail=sa.Text)
        self._note = sa.insert(timeline).from_select(
            ["notification_id", "at", "kind", "detail"],
            sa.select(
                self._notes.c.id,
                sa.bindparam("b_now", type_=sa.BigInteger),
                self._notes.c.kind,
                self._notes.c.detail,
            ).where(sa.true()),
        )

        names = [column.name for column in DISPATCH]
        self._desk = given("r", **{column.name: column.type for column in DISPATCH})
        k = self._desk.c
        self._free = (
            sa.update(dispatch).where(d.id == k.id).values({name: k[name] for name in names if name != "id"})
        )
        self._create = sa.insert(dispatch).from_select(
            names, sa.select(*(k[name] for name in names)).where(sa.true())
        )
        self._delete = sa.delete(dispatch).where(among(d.id, "ids"))

    # --- lock -----------------------------------------------------------------------------------------------

    def lock(
        self, connection: sa.Connection, ids: Iterable[UUID], now: int | None, *, skip: bool = False
    ) -> tuple[dict[UUID, Locked], int]:
        """Lock notifications in order, then their dispatch rows; the rows and the store's time.

        With ``skip`` a notification that somebody else holds is left out: he is at work on it.
        """
        statement = self._lock_free if skip else self._lock
        parameters = {"ids": self._dialect.listed(sorted(set(ids))), "now": now}
        facts = connection.execute(statement, parameters).all()
        if not facts:
            return {}, now or 0
        wanted = {"ids": self._dialect.listed([values[0] for values in facts])}
        desks = {values[0]: Dispatch(*values) for values in connection.execute(self._lock_dispatch, wanted)}
        split = len(FACTS)
        locked = {}
        for values in facts:
            generation, last, time = values[split:]
            desk = desks.get(values[0])
            row = make_row(values[:split], desk)
            subject = digest(row.tenant, row.subject) if row.subject is not None else None
            locked[row.id] = Locked(
                row=row,
                state=row.state,
                dispatched=desk,
                generation=generation,
                last_attempt=max(last, desk.attempt if desk else 0),
                subject_key=desk.subject_key if desk else subject,
                collapse_key=desk.collapse_key if desk else None,
                version=row.state.version,
                stored=desk is not None,
            )
        return locked, int(time)

    # --- decide -----------------------------------------------------------------------------------------------

    def apply(
        self,
        connection: sa.Connection,
        locked: dict[UUID, Locked],
        changes: Sequence[Change],
        decide: Decide,
        now: int,
    ) -> list[Settled]:
        """Decide changes of locked rows, in their order, and write the result."""
        ledger = Ledger(now)
        changes, tripped = self._against.weigh(connection, locked, changes, decide, now)
        known = self._attempts_of(connection, locked, changes)
        settled = []
        for change in changes:
            item = locked.get(change.id)
            if item is None:
                settled.append(Settled(change, None, None))
                continue
            row = item.now()
            held = item.dispatched is not None and item.dispatched.held_by(change.guard)
            if not held and _told_before(change, known):
                # The reply to this very settle was lost: it stands, nothing follows from telling it again.
                settled.append(Settled(change, row, Write(row.state, changed=False), lease_held=True))
                continue
            write = decide(row, change, held, now)
            if tripped and write.invalidate:
                write = self._against.told(write, tripped)
            if row.recipient == ERASED:
                write = wordless(write, change)
            if held and item.dispatched is not None and not isinstance(change.event, LeaseLost):
                item.dispatched.rescued = 0  # the worker that held it lives
            running = _running(item, change, held=held)
            self._take(item, change, write, ledger, held=held)
            if running is not None and item.state.final:
                told = decide(item.now(), running, False, now)  # noqa: FBT003 - ports.Decide
                self._take(item, running, told, ledger, held=False)
                write = replace(write, state=item.state)
            settled.append(Settled(change, row, write, held))
        self._write(connection, [item for item in locked.values() if item.touched or item.moved], ledger)
        return ledger.told(settled)

    def _attempts_of(
        self, connection: sa.Connection, locked: dict[UUID, Locked], changes: Sequence[Change]
    ) -> dict[tuple[UUID, int], AttemptRow]:
        """The stored attempts that a change without its lease may be telling of again."""
        ids = {
            change.id
            for change in changes
            if change.attempt is not None
            and (item := locked.get(change.id)) is not None
            and (item.dispatched is None or not item.dispatched.held_by(change.guard))
        }
        if not ids:
            return {}
        found = connection.execute(self._known, {"ids": self._dialect.listed(sorted(ids))})
        return {(values[0], values[1]): make_attempt(values) for values in found}

    def _take(self, item: Locked, change: Change, write: Write, ledger: Ledger, *, held: bool) -> None:
        attempt = write.attempt or change.attempt
        if attempt is not None and write.refused is None:
            if change.guard is not None and not held:
                attempt = replace(attempt, late=True)
            ledger.attempt(item.row.id, attempt)
            item.last_attempt = max(item.last_attempt, attempt.number)
            item.touched = True
        moving = write.changed and write.refused is None
        renewed = moving and write.state.revision > item.state.revision
        if moving:
            item.state = write.state
        if write.read and item.row.read_at is None:
            item.row = replace(item.row, read_at=ledger.now)
        ledger.collect(item.row.id, item.row.tenant, item.row.recipient, item.row.channel, write)
        item.touched |= moving or write.read
        self._redirect(item, write, ledger.now, held=held, moving=moving)
        desk = item.dispatched
        if desk is not None:
            if renewed:
                desk.created_at = max(ledger.now, desk.due_at or ledger.now)
            desk.version, desk.expires_at = item.state.version, item.state.expires_at
        item.told = True

    @staticmethod
    def _redirect(item: Locked, write: Write, now: int, *, held: bool, moving: bool) -> None:
        """What becomes of the dispatch row."""
        desk, state = item.dispatched, item.state
        wanted = write.due if write.refused is None and (moving or held) else None
        if wanted is not None:
            if desk is None:
                desk = item.dispatched = item.desk(max(now, wanted.at or now))
            desk.free(wanted.purpose, wanted.at, armed=wanted.armed)
            desk.lane = wanted.lane or desk.lane
        elif state.idle and (moving or held):
            item.dispatched = None
        elif held and desk is not None and moving:
            # Changed, and no due work is named: it waits where the sweep sees it, for everything has an end.
            desk.free("hold", None)
        elif held and desk is not None:
            # Nothing changed: only the lease is given up.
            desk.free(desk.purpose, state.next_attempt_at, armed=desk.armed)
        elif not moving:
            return
        item.moved = True

    # --- write ------------------------------------------------------------------------------------------------

    def _write(self, connection: sa.Connection, items: list[Locked], ledger: Ledger) -> None:
        now = {"b_now": ledger.now}
        fresh = self._against.carry_out(connection, items, ledger) if ledger.invalidations else {}
        rows = [
            (
                *(item.row.id, item.version),
                *fresh.get(item.row.id, (item.row.address.id if item.row.address else None, item.generation)),
                *(item.last_attempt, item.row.read_at, *state_values(item.state)),
            )
            for item in sorted(items, key=lambda item: item.row.id)
        ]
        if rows:
            written = connection.execute(self._update, self._changed.bind(rows) | now).all()
            if len(written) != len(rows):
                raise LostUpdateError(f"{len(rows) - len(written)} notifications changed under our lock")
        if ledger.attempts:
            values = [attempt_values(id_, row) for (id_, _), (row, _) in ledger.attempts.items()]
            doubts = [doubt for _, doubt in ledger.attempts.values()]
            parameters = self._begun.bind([(*v[:-1], d) for v, d in zip(values, doubts, strict=True)])
            connection.execute(self._attempt, parameters)
        if ledger.notes:
            notes = [(id_, note.kind, dump(note.detail)) for id_, note in ledger.notes]
            connection.execute(self._note, self._notes.bind(notes) | now)
        self._write_dispatch(connection, items)
        self.publish(connection, ledger.outbox, ledger.now)
        self.inboxes.write(connection, ledger.stored, ledger.read)
        self._refs.write(connection, ledger.named, ledger.now)
        if ledger.pauses:
            ledger.began = self._duties.pause(connection, ledger.pauses, ledger.now)[1]
        self._duties.count(connection, ledger.counters)
        self.failures.write(connection, ledger.failures, ledger.now)

    def _write_dispatch(self, connection: sa.Connection, items: list[Locked]) -> None:
        moved = [item for item in items if item.moved]
        gone = [item.row.id for item in moved if item.dispatched is None and item.stored]
        kept = [item.dispatched.tuple() for item in moved if item.dispatched is not None and item.stored]
        made = [item.dispatched.tuple() for item in moved if item.dispatched is not None and not item.stored]
        if gone:
            connection.execute(self._delete, {"ids": self._dialect.listed(gone)})
        if kept:
            connection.execute(self._free, self._desk.bind(kept))
        if made:
            self.create(connection, made)

    def create(self, connection: sa.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert dispatch rows (the values of DISPATCH)."""
        fetch(connection, self._create, self._desk.bind(rows))

    def publish(self, connection: sa.Connection, rows: Sequence[OutboxRow], now: int) -> None:
        """Insert events of ours that somebody subscribed to, each once."""
        self.outbox.publish(connection, rows, now)

    def note(self, connection: sa.Connection, notes: Sequence[tuple[UUID, Note]], now: int) -> None:
        """Insert timeline entries."""
        if notes:
            values = [(id_, note.kind, dump(note.detail)) for id_, note in notes]
            connection.execute(self._note, self._notes.bind(values) | {"b_now": now})


def _told_before(change: Change, known: dict[tuple[UUID, int], AttemptRow]) -> bool:
    told = change.attempt
    if told is None:
        return False
    stored = known.get((change.id, told.number))
    return stored is not None and (stored.fence, stored.outcome) == (told.fence, told.outcome)


def _running(item: Locked, change: Change, *, held: bool) -> Change | None:
    """The loss of an attempt that runs under another lease than that of ``change``, should ``change`` end it all.

    The dispatch row is the only trace of that attempt, and it goes when the notification is final. Not where
    ``change`` tells of that very attempt: then it is no doubt, and its worker's answer is stored as a late one.
    """
    desk = item.dispatched
    if held or desk is None or desk.started_at is None or getattr(change.event, "attempt", 0) == desk.attempt:
        return None
    return Change(item.row.id, LeaseLost(desk.attempt), None, unanswered(item.row, desk, "overtaken"))
