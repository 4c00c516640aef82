"""What goes with a notification that is removed, and what is left of it: its line in the sums of the once report."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.model.policy import DAY
from ringonce.store.schema import attempts, contents, drafts, events, inbox, notifications, timeline
from ringonce.store.values import load_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from ringonce.store.dialect import Dialect
    from ringonce.store.duties import Duties

PRUNED = "pruned:"
"""Counters with this prefix are the totals of the once report that pruned notifications had."""

_n, _a, _e, _c = notifications.c, attempts.c, events.c, contents.c
_FACTS = (_n.id, _n.tenant, _n.channel, _n.created_at, _n.event_key, _n.content_id)
_STATE = (_n.status, _n.error_code, _n.unknown, _n.rests_on)


class Remains:
    """Statements that remove notifications, built once. The rows are under the caller's lock."""

    def __init__(self, dialect: Dialect, duties: Duties) -> None:
        self._dialect = dialect
        self._duties = duties
        among = dialect.among
        ids = among(_n.id, "ids")
        self._facts = sa.select(*_FACTS, *_STATE).where(ids)
        self._drop = sa.delete(notifications).where(ids)
        self._attempts = (
            sa.delete(attempts)
            .where(among(_a.notification_id, "ids"))
            .returning(_a.notification_id, _a.revision, _a.number, _a.doubt, _a.outcome, _a.late)
        )
        self._timeline = sa.delete(timeline).where(among(timeline.c.notification_id, "ids"))
        self._drafts = sa.delete(drafts).where(among(drafts.c.notification_id, "ids"))
        self._inbox = sa.delete(inbox).where(among(inbox.c.notification_id, "ids"))
        # One look through the index of the event for each content: as EXISTS it could become a join of all rows.
        self._told = dialect.given("r", event=_n.event_key.type, content=_n.content_id.type)
        used = (
            sa.select(sa.literal_column("1"))
            .where(_n.event_key == self._told.c.event, _n.content_id == self._told.c.content)
            .limit(sa.literal_column("1"))
            .scalar_subquery()
        )
        self._unused = sa.select(self._told.c.content).where(used.is_(None))
        self._contents = sa.delete(contents).where(among(_c.id, "ids"))
        left = (
            sa.select(sa.literal_column("1"))
            .where(_n.event_key == _e.key)
            .limit(sa.literal_column("1"))
            .scalar_subquery()
        )
        # An empty body is no event's: it says that nothing is left of what was accepted.
        self._empty = (
            sa.update(events)
            .where(among(_e.key, "keys"), _e.expanded == sa.true(), left.is_(None))
            .values(body=sa.literal(""))
        )

    def remove(self, connection: sa.Connection, gone: Sequence[UUID], worn: Sequence[UUID]) -> dict[str, int]:
        """Remove notifications whole, and of others the attempts; how many rows of each table went."""
        counts: dict[str, int] = {}
        if not gone and not worn:
            return counts
        listed = {"ids": self._dialect.listed([*gone, *worn])}
        facts = {row.id: row for row in connection.execute(self._facts, listed)}
        told = connection.execute(self._attempts, listed).all()
        counts["attempts"] = len(told)
        sums = _calls(facts, told)
        if gone:
            only = {"ids": self._dialect.listed(gone)}
            for name, statement in (
                ("timeline", self._timeline),
                ("inbox", self._inbox),
                ("drafts", self._drafts),
                ("notifications", self._drop),
            ):
                counts[name] = connection.execute(statement, only).rowcount
            rows = [facts[id_] for id_ in gone]
            for row in rows:
                for name in _totals(row):
                    _add(sums, row, name)
            pairs = sorted({(row.event_key, row.content_id) for row in rows})
            unused = connection.execute(self._unused, self._told.bind(pairs)).scalars().all()
            if unused:
                counts["contents"] = connection.execute(
                    self._contents, {"ids": self._dialect.listed(unused)}
                ).rowcount
            keys = sorted({row.event_key for row in rows})
            connection.execute(self._empty, {"keys": self._dialect.listed(keys)})
        self._duties.count(connection, sums)
        return counts


def _totals(row: Any) -> list[str]:
    """The totals of the once report in which it stood."""
    names = ["accepted"]
    if row.status == "failed":
        names.append(f"failed:{row.error_code or 'unknown'}")
    else:
        names.append(row.status)
    if row.status == "sent" and row.rests_on in load_numbers(row.unknown):
        names.append("assumed")
    return names


def _calls(facts: dict[UUID, Any], told: Sequence[Any]) -> dict[tuple[int, str, str, str], int]:
    """Repeats and late answers, by the rule of the once report (``Reading``)."""
    sums: dict[tuple[int, str, str, str], int] = {}
    ordered = sorted(told, key=lambda row: (row.notification_id, row.revision, row.number))
    for (id_, _), calls in groupby(ordered, key=lambda row: (row.notification_id, row.revision)):
        arrived = False
        for call in calls:
            if arrived:
                _add(sums, facts[id_], "repeats")
            if call.late:
                _add(sums, facts[id_], "late_answers")
            arrived |= bool(call.doubt) and call.outcome in {"unknown", "accepted"}
    return sums


def _add(sums: dict[tuple[int, str, str, str], int], row: Any, name: str) -> None:
    key = (row.created_at // DAY, row.tenant, row.channel, PRUNED + name)
    sums[key] = sums.get(key, 0) + 1
