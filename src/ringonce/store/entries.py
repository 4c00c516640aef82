"""What events become: contents, notifications and their dispatch rows, in one statement where that can be.

A new notification knows little of its life: what is the same for all of them stands in the statement, and does not
travel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.core.machine import NEW
from ringonce.errors import StoreError
from ringonce.ports import Brief
from ringonce.store.compiled import fetch
from ringonce.store.ledger import Ledger
from ringonce.store.rows import STATE, state_values
from ringonce.store.schema import contents, dispatch, notifications
from ringonce.store.values import PRIORITIES, dated, digest, dump

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ringonce.ports import Due, Plan, Write
    from ringonce.store.arrivals import Chunk
    from ringonce.store.dialect import Dialect

CONTENT = ("id", "title", "text", "html", "data")
OWN = ("status", "version", "next_attempt_at", "error_code", "error_text", "expires_at")
"""What the states of new notifications differ in."""
NOTIFICATION = (
    *("id", "tenant", "event_key", "recipient", "channel", "account", "address_id", "address_generation"),
    *("content_id", "event_at", *OWN),
)
DESK = (
    *("id", "lane", "priority", "due_at", "purpose", "armed", "version", "expires_at", "created_at"),
    *("subject_key", "collapse_key"),
)
NEWBORN = dict(zip(STATE, state_values(NEW), strict=True))
IDLE = {"leased": sa.false(), "fence": sa.literal_column("0"), "attempt": sa.literal_column("0")}
IDLE |= {"rescued": sa.literal_column("0")}


@dataclass(frozen=True, slots=True)
class Made:
    """What a Write makes of every notification that it is the write of."""

    values: tuple[Any, ...]
    due: Due | None
    final: bool
    plain: bool


class Entries:
    """The statements, built once."""

    def __init__(self, dialect: Dialect) -> None:
        now = sa.bindparam("b_now", type_=sa.BigInteger)

        def bulk(
            called: str, table: sa.Table, names: Sequence[str], same: Mapping[str, sa.ColumnElement[Any]]
        ) -> tuple[Any, Any]:
            rows = dialect.inserted(table, names, called)
            select = sa.select(*(getattr(rows.c, name) for name in names), *same.values()).where(sa.true())
            return rows, dialect.insert(table).from_select([*names, *same], select)

        self._contents, new = bulk("c", contents, CONTENT, {"created_at": now})
        self._content = new.on_conflict_do_nothing(index_elements=["id"])
        same: dict[str, sa.ColumnElement[Any]] = {
            name: _said(value) for name, value in NEWBORN.items() if name not in OWN and value is not None
        }
        same |= {"created_at": now, "changed_at": now, "last_attempt": sa.literal_column("0")}
        self._notifications, self._notification = bulk("n", notifications, NOTIFICATION, same)
        self._desks, self._desk = bulk("d", dispatch, DESK, IDLE)
        self._all = None
        if dialect.fused:
            self._all = self._desk.add_cte(self._content.cte("said"), self._notification.cte("made"))

    def insert(
        self,
        connection: sa.Connection,
        planned: Sequence[tuple[Chunk, Plan]],
        generations: Mapping[int, int],
        time: int,
    ) -> Ledger:
        """Write what chunks became, and say it in their briefs; what else is to be written."""
        said: dict[bytes, tuple[Any, ...]] = {}
        rows: list[tuple[Any, ...]] = []
        desks: list[tuple[Any, ...]] = []
        known: dict[int, Made] = {}
        ledger = Ledger(time)
        for chunk, plan in planned:
            event, key, name = chunk.event, chunk.key, chunk.key.hex()
            priority = PRIORITIES.get(event.priority, 1)
            ids: dict[str, bytes] = {}
            for item in plan.contents:
                c, id_ = item.content, dated(chunk.accepted_at, digest(name, item.key))
                ids[item.key] = id_
                said[id_] = (id_, c.title, c.text, c.html, dump(c.data))
            for new in plan.notifications:
                # The plan holds its writes, so that none takes the place of another in memory.
                made = known.get(id(new.write)) or known.setdefault(id(new.write), _made(new.write))
                where = (None, 0) if new.address is None else (new.address.id, generations[new.address.id])
                content = ids.get(new.content_key) or dated(chunk.accepted_at, digest(name, new.content_key))
                rows.append(
                    (
                        *(new.id, event.tenant, key, new.recipient, new.channel, new.account),
                        *(*where, content, chunk.accepted_at, *made.values),
                    )
                )
                if made.due is not None:
                    due, state = made.due, new.write.state
                    desks.append(
                        (
                            *(
                                new.id,
                                due.lane or new.channel,
                                priority,
                                due.at,
                                due.purpose,
                                due.armed,
                                state.version,
                            ),
                            *(state.expires_at, max(time, due.at or time), chunk.subject_key),
                            chunk.collapse_key(new.recipient, new.channel),
                        )
                    )
                if not made.plain:
                    ledger.collect(new.id, event.tenant, new.recipient, new.channel, new.write)
                chunk.briefs.append(
                    Brief(new.id, new.recipient, new.channel, new.write.state.status, made.final)
                )
        self._write(connection, [said[key] for key in sorted(said)], rows, desks, {"b_now": time})
        return ledger

    def _write(
        self,
        connection: sa.Connection,
        said: Sequence[Sequence[Any]],
        rows: Sequence[Sequence[Any]],
        desks: Sequence[Sequence[Any]],
        at: Mapping[str, Any],
    ) -> None:
        if self._all is not None and rows:
            bound = {**self._contents.bind(said), **self._notifications.bind(rows), **self._desks.bind(desks)}
            fetch(connection, self._all, {**bound, **at})
            return
        if said:
            fetch(connection, self._content, {**self._contents.bind(said), **at})
        if rows:
            fetch(connection, self._notification, {**self._notifications.bind(rows), **at})
        if desks:
            fetch(connection, self._desk, self._desks.bind(desks))


def _said(value: Any) -> sa.ColumnElement[Any]:
    return sa.literal_column(f"'{value}'" if isinstance(value, str) else str(value))


def _made(write: Write) -> Made:
    values = dict(zip(STATE, state_values(write.state), strict=True))
    if {name: value for name, value in values.items() if name not in OWN} != {
        name: value for name, value in NEWBORN.items() if name not in OWN
    }:
        raise StoreError("a new notification has no past", mend="report it: a bug of ours")
    plain = not (
        write.stored or write.read or write.notes or write.outbox or write.invalidate or write.pauses
    )
    own = tuple(values[name] for name in OWN)
    plain = plain and not write.counters and write.failure is None
    return Made(own, write.due, write.state.final, plain)
