"""Ends that follow from what the worker itself knows: written without reading the notification again.

Most answers say "accepted". The worker still holds the facts that it claimed, so the table has its say before the
transaction begins, and one guarded write carries the result. Whatever stands in the way (another version, another
lease, an erased person) leaves the row out, and it goes the long way: locked, read, stepped again.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.store.compiled import fetch
from ringonce.store.erasure import ERASED
from ringonce.store.rows import ATTEMPT, attempt_values
from ringonce.store.schema import attempts, dispatch, notifications, outbox
from ringonce.store.values import clean, digest, dump

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from ringonce.ports import Change, Decide, Row, Write
    from ringonce.store.dialect import Dialect

log = logging.getLogger("ringonce.store")

Ended = tuple["Change", "Row", "Write"]
_CALL = tuple(name for name in ATTEMPT if name != "notification_id")
_EVENT = ("event_key", "event_id", "kind", "key", "payload")
_n, _d = notifications.c, dispatch.c


class Verdicts:
    """The statements, built once."""

    def __init__(self, dialect: Dialect, outbox_kinds: frozenset[str]) -> None:
        self._kinds = outbox_kinds
        self._dialect = dialect
        end = {"id": _n.id, "status": _n.status, "before": _n.version, "calls": _n.attempts}
        call = {name: attempts.c[name] for name in _CALL}
        columns = end | {"rests_on": _n.rests_on} | call
        self._columns = tuple(columns)
        self._ends = dialect.make_inserted("r", {name: column.type for name, column in columns.items()})
        event = {"id": _n.id} | {name: outbox.c[name] for name in _EVENT}
        self._told = dialect.make_inserted("o", {name: column.type for name, column in event.items()})
        self._owner = sa.bindparam("b_owner", type_=sa.Text)
        if dialect.fused:
            self._whole = self._fuse()
        else:
            given, told = self._ends.c, self._told.c
            known = self._known = dialect.given("k", id=sa.Uuid, before=sa.Integer, fence=sa.BigInteger)
            self._stands = sa.select(_n.id).where(_n.id == known.c.id, *self._guards(known.c))
            self._done = self._end(given)
            self._gone = sa.delete(dispatch).where(dialect.among(_d.id, "ids"))
            self._tried = self._try(given, sa.true())
            self._publish = self._tell(told, sa.true())

    # --- statements -------------------------------------------------------------------------------------------

    def _guards(self, given: Any) -> tuple[Any, ...]:
        lease = (_d.id == given.id, _d.fence == given.fence, _d.owner == self._owner)
        return _n.version == given.before, _n.recipient != ERASED, sa.exists().where(*lease)

    def _end(self, given: Any) -> Any:
        return (
            sa.update(notifications)
            .where(_n.id == given.id)
            .values(
                status=given.status,
                version=given.before + 1,
                attempts=given.calls,
                next_attempt_at=None,
                message_id=given.message_id,
                rests_on=given.rests_on,
                last_attempt=given.number,
                changed_at=self._dialect.now,
            )
        )

    def _try(self, given: Any, condition: Any) -> Any:
        rows = sa.select(given.id, *(getattr(given, name) for name in _CALL)).where(condition)
        return sa.insert(attempts).from_select(["notification_id", *_CALL], rows)

    def _tell(self, told: Any, condition: Any) -> Any:
        rows = sa.select(*(getattr(told, name) for name in _EVENT), self._dialect.now).where(condition)
        publish = self._dialect.insert(outbox).from_select([*_EVENT, "created_at"], rows)
        return publish.on_conflict_do_nothing(index_elements=["event_key"])

    def _fuse(self) -> Any:
        """All of it as one statement."""
        given = sa.select(*(getattr(self._ends.c, name).label(name) for name in self._columns)).cte("given").c
        told = self._told.c
        done = self._end(given).where(*self._guards(given)).returning(_n.id).cte("done")
        # Guarded again, for only now is this row locked; the notification was locked before it, as everywhere.
        lease = (_d.id == given.id, _d.fence == given.fence, _d.owner == self._owner, given.id == done.c.id)
        gone = sa.delete(dispatch).where(*lease).returning(_d.id).cte("gone")
        tried = self._try(given, given.id == done.c.id).cte("tried")
        published = self._tell(told, told.id == done.c.id).cte("published")
        counts = [sa.select(sa.func.count()).select_from(part).scalar_subquery() for part in (done, gone)]
        # A lease that went in between: the division fails, and the whole statement with it.
        whole = sa.literal_column("1").op("/")(sa.case((counts[0] == counts[1], 1), else_=0))
        return sa.select(done.c.id, whole).add_cte(gone, tried, published)

    # --- work -------------------------------------------------------------------------------------------------

    def ends(self, changes: Sequence[Change], decide: Decide) -> list[Ended]:
        """Those that end by what is known of them, and need nothing else written."""
        times = Counter(change.id for change in changes)
        found: list[Ended] = []
        for change in changes:
            row, call = change.row, change.attempt
            if row is None or call is None or call.ended_at is None or times[change.id] > 1:
                continue
            try:
                write = decide(row, change, True, call.ended_at)  # noqa: FBT003 - ports.Decide
            except Exception:
                log.exception("notification %s is looked at more closely", change.id)
                continue
            if write.attempt is call and call.message_id == write.state.message_id and _plain(row, write):
                found.append((change, row, write))
        return found

    def write(self, connection: sa.Connection, ended: Sequence[Ended], now: int | None) -> set[UUID]:
        """Write them; the ids of those that were as we thought."""
        (owner,) = {change.guard[0] for change, _, _ in ended if change.guard}
        rows = [
            (
                *(change.id, write.state.status.value, row.state.version, write.state.attempts),
                *(write.state.rests_on, *attempt_values(change.id, write.attempt)[1:]),
            )
            for change, row, write in sorted(ended, key=lambda one: one[0].id)
            if write.attempt is not None
        ]
        events = [
            (change.id, digest(event.event_id), event.event_id, event.kind, event.key, dump(event.payload))
            for change, _, write in ended
            for event in write.outbox
            if event.kind in self._kinds
        ]
        known = {"b_owner": clean(owner), "now": now}
        if self._dialect.fused:
            parameters = self._ends.bind(rows) | self._told.bind(events) | known
            return {values[0] for values in fetch(connection, self._whole, parameters)}
        # Looked up first: SQLite has one writer at a time, so what holds now holds until the commit.
        named = self._known.bind(
            [(change.id, row.state.version, change.guard[1]) for change, row, _ in ended if change.guard]
        )
        done = {values[0] for values in fetch(connection, self._stands, named | known)}
        if len(done) < len(rows):
            rows = [row for row in rows if row[0] in done]
            events = [event for event in events if event[0] in done]
        if rows:
            told = self._ends.bind(rows) | known
            fetch(connection, self._done, told)
            fetch(connection, self._gone, {"ids": self._dialect.listed([row[0] for row in rows])})
            fetch(connection, self._tried, told)
        if events:
            fetch(connection, self._publish, self._told.bind(events) | known)
        return done


def _plain(row: Row, write: Write) -> bool:
    """Nothing but status, count of calls and what the provider said is different from before."""
    old, new = row.state, write.state
    return (
        write.changed
        and new.final
        and new.version == old.version + 1
        and (write.due or write.refused or write.failure) is None
        and not (
            write.notes or write.invalidate or write.pauses or write.counters or write.stored or write.read
        )
        and write.named is None
        and (new.revision, new.expires_at) == (old.revision, old.expires_at)
        and (new.spent is old.spent or new.spent == old.spent)
        and (new.unknown is old.unknown or new.unknown == old.unknown)
        and (new.last_error is old.last_error or new.last_error == old.last_error)
    )
