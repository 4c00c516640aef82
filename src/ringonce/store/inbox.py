"""In-app copies: filed in the order in which they become visible, read, counted.

A copy's number, and that of the mark that it was read, is drawn from its recipient's row in ``inboxes``, whose lock is
held until the commit. So whoever has seen all changes up to a number has missed none, which a key that is drawn outside
of the commit order (a clock, a sequence) could not promise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.ports import Copy, ReadMark
from ringonce.store.rows import CONTENT, OF_EVENT, make_content
from ringonce.store.schema import UNREAD, contents, events, inbox, inboxes, notifications
from ringonce.store.values import clean, digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from ringonce.store.dialect import Dialect

_i, _n, _e = inbox.c, notifications.c, events.c
COPY = (
    *(_i.seq, _i.notification_id, _e.event_id, _e.type, _e.subject, _e.thread, _e.priority),
    *(_n.created_at, _n.read_at),
)


def inbox_key(tenant: str, recipient: str) -> bytes:
    """What makes an inbox one."""
    return digest(clean(tenant), clean(recipient))


class Inboxes:
    """Statements over ``inboxes`` and ``inbox``, built once."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        given, insert, among = dialect.given, dialect.insert, dialect.among
        h = inboxes.c
        self._counts = given("r", key=h.key.type, last=sa.BigInteger)
        drawn = insert(inboxes).from_select(
            ["key", "last"], sa.select(self._counts.c.key, self._counts.c.last).where(sa.true())
        )
        self._draw = drawn.on_conflict_do_update(
            index_elements=["key"], set_={"last": h.last + drawn.excluded.last}
        ).returning(h.key, h.last)
        columns = ("key", "seq", "notification_id", "unread")
        self._copies = given("r", **{name: _i[name].type for name in columns})
        filed = insert(inbox).from_select(
            list(columns), sa.select(*(self._copies.c[name] for name in columns)).where(sa.true())
        )
        # Sent once more by a person, it is on top again.
        self._file = filed.on_conflict_do_update(
            index_elements=["notification_id"], set_={"key": filed.excluded.key, "seq": filed.excluded.seq}
        )
        self._marks = given("r", id=sa.Uuid, marked=_i.marked.type)
        m = self._marks.c
        self._mark = sa.update(inbox).where(_i.notification_id == m.id).values(unread=False, marked=m.marked)
        self._heads = sa.select(h.key, h.last).where(among(h.key, "keys"))
        key = _i.key == sa.bindparam("b_key", type_=_i.key.type)
        before, after = (
            sa.bindparam("b_before", type_=sa.BigInteger),
            sa.bindparam("b_after", type_=sa.BigInteger),
        )
        limit = sa.bindparam("b_limit", type_=sa.BigInteger)
        copies = (
            sa.select(*COPY, *CONTENT)
            .select_from(
                inbox.join(notifications, _n.id == _i.notification_id)
                .join(events, OF_EVENT)
                .outerjoin(contents, contents.c.id == _n.content_id)
            )
            .where(key)
            .limit(limit)
        )
        self._newest = copies.where(_i.seq < before).order_by(_i.seq.desc())
        self._changes = _changes(key, after, limit)
        self._later = copies.where(_i.seq > after).order_by(_i.seq)
        self._unread = sa.select(sa.func.count()).select_from(inbox).where(key, UNREAD)
        ids = sa.select(_i.notification_id).where(key, UNREAD).order_by(_i.seq).limit(limit)
        self._up_to = ids.where(_i.seq < before)
        self._named = ids.where(among(_i.notification_id, "ids"))
        self._older = ids.where(
            _i.notification_id == _n.id, _n.created_at <= sa.bindparam("b_time", type_=sa.BigInteger)
        )
        self._forget = sa.delete(inbox).where(key)
        self._drop = sa.delete(inboxes).where(h.key == sa.bindparam("b_key", type_=h.key.type))
        self._seq = sa.select(_i.seq).where(key, _i.notification_id == sa.bindparam("b_id", type_=sa.Uuid))

    # --- writing, inside the transaction of what is filed or read --------------------------------------------------

    def write(
        self,
        connection: sa.Connection,
        filed: Iterable[tuple[str, str, UUID]],
        read: Iterable[tuple[str, str, UUID]] = (),
    ) -> None:
        """Put (tenant, recipient, notification) into their inboxes, in the order given; mark those that were read."""
        wanted: dict[bytes, list[tuple[UUID, bool]]] = {}
        for items, new in ((filed, True), (read, False)):
            for tenant, recipient, id_ in items:
                wanted.setdefault(inbox_key(tenant, recipient), []).append((id_, new))
        if not wanted:
            return
        # In one order everywhere: two batches for the same people wait for each other, never in a circle.
        counts = [(key, len(wanted[key])) for key in sorted(wanted)]
        copies: list[tuple[Any, ...]] = []
        marks: list[tuple[Any, ...]] = []
        for key, last in connection.execute(self._draw, self._counts.bind(counts)).all():
            for number, (id_, new) in enumerate(wanted[key], last - len(wanted[key]) + 1):
                if new:
                    copies.append((key, number, id_, True))
                else:
                    marks.append((id_, number))
        if copies:
            connection.execute(self._file, self._copies.bind(copies))
        if marks:
            connection.execute(self._mark, self._marks.bind(marks))

    def forget(self, connection: sa.Connection, tenant: str, recipient: str) -> None:
        """Nothing was ever filed for this recipient."""
        key = {"b_key": inbox_key(tenant, recipient)}
        connection.execute(self._forget, key)
        connection.execute(self._drop, key)

    # --- reading ---------------------------------------------------------------------------------------------------

    def page(
        self,
        connection: sa.Connection,
        tenant: str,
        recipient: str,
        *,
        before: int | None,
        after: int | None,
        unread: bool,
        limit: int,
    ) -> list[Copy]:
        """Copies before a number, newest first; or after one, oldest first."""
        statement = self._newest if after is None else self._later
        bound = {"b_key": inbox_key(tenant, recipient), "b_limit": limit}
        bound |= {"b_before": 2**62 if before is None else before} if after is None else {"b_after": after}
        found = connection.execute(statement.where(UNREAD) if unread else statement, bound)
        return [_copy(values) for values in found]

    def changes(
        self, connection: sa.Connection, tenant: str, recipient: str, *, after: int, limit: int
    ) -> list[Copy | ReadMark]:
        """Copies and read marks after a number, oldest first. One statement: what it sees is of one moment."""
        bound = {"b_key": inbox_key(tenant, recipient), "b_after": after, "b_limit": limit}
        found: list[Copy | ReadMark] = []
        for number, marked, *values in connection.execute(self._changes, bound):
            copy = _copy(values)
            found.append(ReadMark(number, copy.id, copy.read_at) if marked else copy)
        return found

    def unread(self, connection: sa.Connection, tenant: str, recipient: str) -> int:
        """How many are not read."""
        found = connection.execute(self._unread, {"b_key": inbox_key(tenant, recipient)})
        return int(found.scalar_one())

    def heads(
        self, connection: sa.Connection, owners: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], int]:
        """The number of the latest change of each (tenant, recipient)'s inbox; 0: there was none."""
        keys = {inbox_key(*owner): owner for owner in owners}
        result = dict.fromkeys(owners, 0)
        if keys:
            listed = {"keys": self._dialect.listed(sorted(keys))}
            result.update((keys[key], last) for key, last in connection.execute(self._heads, listed))
        return result

    def select(
        self,
        connection: sa.Connection,
        tenant: str,
        recipient: str,
        *,
        ids: Sequence[UUID] | None,
        up_to: UUID | int | None,
        limit: int,
    ) -> list[UUID]:
        """Unread copies: the named ones, those up to a copy or a time (microseconds, both included), or all."""
        bound: dict[str, Any] = {"b_key": inbox_key(tenant, recipient), "b_limit": limit}
        if ids is not None:
            return list(
                connection.execute(self._named, bound | {"ids": self._dialect.listed(sorted(ids))}).scalars()
            )
        if isinstance(up_to, int):
            return list(connection.execute(self._older, bound | {"b_time": up_to}).scalars())
        before = 2**62
        if up_to is not None:
            seq = connection.execute(self._seq, {"b_key": bound["b_key"], "b_id": up_to}).scalar()
            before = 0 if seq is None else seq + 1
        return list(connection.execute(self._up_to, bound | {"b_before": before}).scalars())


def _copy(values: Sequence[Any]) -> Copy:
    seq, id_, event_id, type_, subject, thread, priority, created_at, read_at = values[: len(COPY)]
    content = make_content(values[len(COPY) :])
    return Copy(seq, id_, event_id, type_, content, subject, thread, priority, created_at, read_at)


def _changes(key: Any, after: Any, limit: Any) -> sa.Select[Any]:
    """Copies that came and copies that were read after a number, each through its own index."""

    def part(number: sa.Column[Any], *, marked: bool) -> sa.Select[Any]:
        some = (
            sa.select(number.label("number"), sa.literal(marked).label("mark"), _i.notification_id)
            .where(key, number > after)
            .order_by(number)
            .limit(limit)
            .subquery()
        )
        return sa.select(some)

    places = sa.union_all(part(_i.seq, marked=False), part(_i.marked, marked=True)).subquery()
    return (
        sa.select(places.c.number, places.c.mark, *COPY, *CONTENT)
        .select_from(
            places.join(inbox, _i.notification_id == places.c.notification_id)
            .join(notifications, _n.id == _i.notification_id)
            .join(events, OF_EVENT)
            .outerjoin(contents, contents.c.id == _n.content_id)
        )
        .order_by(places.c.number)
        .limit(limit)
    )
