"""What is over and old is removed: a few rows in each transaction, in walks from the oldest to the youngest.

No index may name what a step changes (every final update stays inside its page), so nothing leads to "sent and
thirty days old". A walk goes along the times at which rows were made instead, page by page, and remembers where it
was: what it passes by (still waiting, kept longer) is looked at again by the next walk from the beginning, and
until then it costs nothing.

Whatever is removed is looked at twice: in the page, without a lock, and under the row's lock, where it must be as
the page showed it. A notification that a receipt or a person reopened meanwhile has another version, and stays.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

import sqlalchemy as sa

from ringonce.model.retention import MARGIN, STATUSES, Pruned, Walk
from ringonce.ports import PRUNE_LEASE
from ringonce.store.failures import Failures
from ringonce.store.lasting import Lasting
from ringonce.store.remains import Remains
from ringonce.store.schema import dispatch, drafts, events, inbox, journal, notifications, outbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.model.retention import Retention
    from ringonce.store.dialect import Dialect
    from ringonce.store.duties import Duties

    Place = tuple[object, ...] | None
    Step = Callable[[sa.Connection, Retention, Place, int, int], tuple[dict[str, int], int, Place]]

_n, _d, _e, _j, _o, _i, _f = (
    *(notifications.c, dispatch.c, events.c, journal.c, outbox.c, inbox.c),
    drafts.c,
)
_FIRST = sa.literal_column("1", sa.Integer)
NEVER = 2**62
PAGE = ("id", "created_at", "version", "changed_at", "status", "next_attempt_at")


def _any(condition: sa.ColumnElement[bool], table: sa.Table) -> sa.ColumnElement[Any]:
    """A row of ``table``, or null. Asked row by row through an index: an EXISTS could become a join of it all."""
    return sa.select(_FIRST).select_from(table).where(condition).limit(_FIRST).scalar_subquery()


class Pruning:
    """Statements that remove, built once."""

    def __init__(self, dialect: Dialect, duties: Duties) -> None:
        self._dialect = dialect
        self._duties = duties
        self._remains = Remains(dialect, duties)
        self._steps: tuple[Step, ...] = (
            *(self._notifications, self._events, self._journal, self._outbox),
            *(Failures(dialect).prune, Lasting(dialect).addresses, Lasting(dialect).cancellations),
        )
        among = dialect.among

        @cache
        def page(limit: int) -> Any:
            # The size is part of the text: of a parameter the planner would guess a tenth of the table.
            size = sa.literal_column(str(int(limit)), sa.Integer)
            at, until = (sa.bindparam(f"b_{name}", type_=sa.BigInteger) for name in ("at", "until"))
            id_ = sa.bindparam("b_id", type_=sa.Uuid)
            unread = sa.select(_i.unread).where(_i.notification_id == _n.id).scalar_subquery()
            expanded = sa.select(_e.expanded).where(_e.key == _n.event_key).scalar_subquery()
            busy = _any(_d.id == _n.id, dispatch)
            draft = _any(_f.notification_id == _n.id, drafts)
            return (
                sa.select(*(_n[name] for name in PAGE), unread, expanded, busy, draft)
                .where(sa.tuple_(_n.created_at, _n.id) > sa.tuple_(at, id_), _n.created_at <= until)
                .order_by(_n.created_at, _n.id)
                .limit(size)
            )

        @cache
        def keyed(table: sa.Table, limit: int, *conditions: Any) -> Any:
            at, until = (sa.bindparam(f"b_{name}", type_=sa.BigInteger) for name in ("at", "until"))
            key = sa.bindparam("b_key", type_=table.c.key.type)
            return (
                sa.select(table.c.key, table.c.created_at)
                .where(
                    sa.tuple_(table.c.created_at, table.c.key) > sa.tuple_(at, key),
                    table.c.created_at <= until,
                    *conditions,
                )
                .order_by(table.c.created_at, table.c.key)
                .limit(sa.literal_column(str(int(limit))))
            )

        @cache
        def rows(limit: int) -> Any:
            return (
                sa.select(_o.id, _o.created_at, _o.published_at)
                .where(_o.id > sa.bindparam("b_id", type_=sa.BigInteger))
                .order_by(_o.id)
                .limit(sa.literal_column(str(int(limit))))
            )

        self._page, self._keyed, self._rows = page, keyed, rows
        self._lock = (
            sa.select(_n.id, _n.version, _n.changed_at)
            .where(among(_n.id, "ids"))
            .order_by(_n.id)
            .with_for_update(skip_locked=True)
        )
        self._busy = sa.select(_d.id).where(among(_d.id, "ids"))
        expanded = _e.expanded == sa.true()
        self._expanded = expanded
        self._drop_events = sa.delete(events).where(
            among(_e.key, "keys"), expanded, _any(_n.event_key == _e.key, notifications).is_(None)
        )
        self._drop_journal = sa.delete(journal).where(
            among(_j.key, "keys"), _any(_e.key == _j.event_key, events).is_(None)
        )
        self._drop_outbox = sa.delete(outbox).where(among(_o.id, "ids"))

    def step(
        self,
        connection: sa.Connection,
        lease: tuple[int, str],
        keep: Retention,
        walk: Walk | None,
        limit: int,
        now: int | None,
    ) -> Pruned:
        """Look at the next ``limit`` rows and remove what may go; only while (term, holder) holds PRUNE_LEASE."""
        term, holder = lease
        walk = walk or Walk()
        if not self._duties.holds(connection, PRUNE_LEASE, holder, term, now):
            return Pruned(walk=walk, held=False)
        time = self._duties.time(connection, now)
        places: list[Place] = list(walk.places) or [None] * len(self._steps)
        counts, looked, place = self._steps[walk.table](connection, keep, places[walk.table], limit, time)
        places[walk.table] = place
        over = looked < limit
        table = walk.table + 1 if over else walk.table
        done = table >= len(self._steps)
        walk = replace(walk, table=0 if done else table, places=tuple(places))
        return Pruned({name: count for name, count in counts.items() if count}, looked, walk, done=done)

    # --- notifications and what belongs to them ------------------------------------------------------------------

    def _notifications(
        self, connection: sa.Connection, keep: Retention, place: Place, limit: int, now: int
    ) -> tuple[dict[str, int], int, Place]:
        youngest = keep.youngest
        if youngest is None:
            return {}, 0, place
        at, id_ = place or (-NEVER, UUID(int=0))
        bound = {"b_at": at, "b_id": id_, "b_until": now - youngest}
        found = connection.execute(self._page(limit), bound).all()
        if not found:
            return {}, 0, place
        gone: dict[UUID, tuple[int, int]] = {}
        worn: dict[UUID, tuple[int, int]] = {}
        for values in found:
            row = dict(zip(PAGE, values, strict=False))
            unread, expanded, busy, draft = values[len(PAGE) :]
            if busy is not None or (expanded is not None and not expanded):
                continue
            facts = (row["version"], row["changed_at"])
            if draft is not None:
                # With it would go what is known of an answer that is public: its attempts stay too.
                if keep.drafts is not None and _final(row) and row["changed_at"] <= now - keep.drafts:
                    gone[row["id"]] = facts
            elif _over(keep, row, unread, now):
                gone[row["id"]] = facts
            elif keep.attempts is not None and _final(row) and row["changed_at"] <= now - keep.attempts:
                worn[row["id"]] = facts
        # Both sets under one lock in one order, as everybody locks notifications.
        still = self._still(connection, gone | worn)
        counts = self._remains.remove(
            connection, [id_ for id_ in still if id_ in gone], [id_ for id_ in still if id_ in worn]
        )
        last = found[-1]
        return counts, len(found), (last[1], last[0])

    def _still(self, connection: sa.Connection, wanted: dict[UUID, tuple[int, int]]) -> list[UUID]:
        """Those that are under our lock now, and as they were."""
        if not wanted:
            return []
        listed = {"ids": self._dialect.listed(sorted(wanted))}
        locked = [
            id_ for id_, *facts in connection.execute(self._lock, listed) if wanted[id_] == tuple(facts)
        ]
        if not locked:
            return []
        listed = {"ids": self._dialect.listed(locked)}
        busy = set(connection.execute(self._busy, listed).scalars())
        return [id_ for id_ in locked if id_ not in busy]

    # --- events, journal, outbox ---------------------------------------------------------------------------------

    def _events(
        self, connection: sa.Connection, keep: Retention, place: Place, limit: int, now: int
    ) -> tuple[dict[str, int], int, Place]:
        return self._by_key(connection, events, self._drop_events, keep, place, limit, now, self._expanded)

    def _journal(
        self, connection: sa.Connection, keep: Retention, place: Place, limit: int, now: int
    ) -> tuple[dict[str, int], int, Place]:
        return self._by_key(connection, journal, self._drop_journal, keep, place, limit, now)

    def _by_key(
        self,
        connection: sa.Connection,
        table: sa.Table,
        drop: Any,
        keep: Retention,
        place: Place,
        limit: int,
        now: int,
        *conditions: Any,
    ) -> tuple[dict[str, int], int, Place]:
        if keep.journal is None:
            return {}, 0, place
        at, key = place or (-NEVER, b"")
        bound = {"b_at": at, "b_key": key, "b_until": now - keep.journal - MARGIN}
        found = connection.execute(self._keyed(table, limit, *conditions), bound).all()
        if not found:
            return {}, 0, place
        keys = self._dialect.listed([key for key, _ in found])
        count = connection.execute(drop, {"keys": keys}).rowcount
        return {table.name.removeprefix("ringonce_"): count}, len(found), (found[-1][1], found[-1][0])

    def _outbox(
        self, connection: sa.Connection, keep: Retention, place: Place, limit: int, now: int
    ) -> tuple[dict[str, int], int, Place]:
        """Numbers are drawn in the order of time, but for a moment: the walk ends at the first row that is young."""
        ages = [age for age in (keep.outbox, keep.outbox_table) if age is not None]
        if not ages:
            return {}, 0, place
        (last,) = place or (0,)
        found = connection.execute(self._rows(limit), {"b_id": last}).all()
        old = [row for row in found if row.created_at <= now - min(ages)]
        gone = []
        for id_, created_at, published_at in old:
            published = keep.outbox is not None and published_at is not None
            kept = keep.outbox_table is not None and published_at is None
            if (published and published_at <= now - (keep.outbox or 0)) or (
                kept and created_at <= now - (keep.outbox_table or 0)
            ):
                gone.append(id_)
        if gone:
            connection.execute(self._drop_outbox, {"ids": self._dialect.listed(gone)})
        return {"outbox": len(gone)}, len(old), (old[-1].id,) if old else place


def _final(row: dict[str, Any]) -> bool:
    return row["status"] in STATUSES and row["next_attempt_at"] is None


def _over(keep: Retention, row: dict[str, Any], unread: Any, now: int) -> bool:
    """Is it final, and as old as its status, and its place in an inbox, demand?"""
    age = keep.of(row["status"]) if _final(row) else None
    if age is None:
        return False
    if unread is not None:
        shown = keep.inbox_unread if unread else keep.inbox_read
        if shown is None:
            return False
        age = max(age, shown)
    changed: int = row["changed_at"]
    return changed <= now - age
