"""Whose verdicts against addresses are believed: the breakers' table, and the addresses that wait for a person.

A settle touches this only when it carries such a verdict. It locks the credential's row, so that all workers weigh one
after the other; the row stays through restarts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.core.breaker import GOOD_FOR, Proposed, Step, Window, propose, resumed
from ringonce.model.notification import Address
from ringonce.model.proposals import MASS_INVALIDATION
from ringonce.ports import BreakerState, Lifted
from ringonce.store.outbox import DROPPED
from ringonce.store.schema import QUARANTINED, Words, addresses, breakers, lanes, notifications
from ringonce.store.values import clean, dump, load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from ringonce.ports import OutboxRow, Proposal
    from ringonce.store.dialect import Dialect
    from ringonce.store.outbox import Outbox

_a, _b, _n = addresses.c, breakers.c, notifications.c
COLUMNS = (
    *(_a.id, _a.tenant, _a.recipient, _a.channel, _a.value, _a.registered_at, _a.invalidated_at, _a.reason),
    _a.quarantined_at,
)
"""An address as people see it."""


class Breakers:
    """Statements, built once."""

    def __init__(self, dialect: Dialect, outbox: Outbox) -> None:
        self._dialect = dialect
        self._outbox = outbox
        insert, among = dialect.insert, dialect.among
        name, now = sa.bindparam("b_name", type_=Words), sa.bindparam("b_now", type_=sa.BigInteger)
        columns = {column.name: sa.bindparam(f"b_{column.name}", type_=column.type) for column in breakers.c}
        fresh = insert(breakers).values(columns)
        self._place = fresh.on_conflict_do_nothing(index_elements=["name"])
        self._lock = sa.select(_b.steps, _b.tripped_at, _b.why).where(_b.name == name).with_for_update()
        self._put = (
            sa.update(breakers)
            .where(_b.name == name)
            .values({key: value for key, value in columns.items() if key != "name"})
        )
        self._tripped = (
            sa.select(_b.name)
            .where(among(_b.name, "names"), _b.tripped_at.is_not(None))
            .order_by(_b.name)
            .with_for_update()
        )
        # Something was accepted there not long ago, apart from what is being decided about right now.
        rows = self._asked = dialect.given(
            "r", address=sa.BigInteger, tenant=sa.Text, recipient=sa.Text, id=sa.Uuid
        )
        r = rows.c
        # Row by row through an index: an EXISTS could become a join of the whole table.
        accepted = sa.select(_n.id).where(
            *(_n.tenant == r.tenant, _n.recipient == r.recipient, _n.address_id == r.address),
            *(_n.status == sa.literal_column("'sent'"), _n.id != r.id),
            _n.changed_at >= sa.bindparam("b_since", type_=sa.BigInteger),
        )
        first = accepted.correlate(rows.table).limit(sa.literal_column("1", sa.Integer)).scalar_subquery()
        self._good = sa.select(r.address).select_from(rows.table).where(first.is_not(None))
        # What the credential had dropped a moment before it was found out.
        self._take_back = (
            sa.update(addresses)
            .where(
                _a.refused_by == name,
                _a.invalidated_at >= sa.bindparam("b_since", type_=sa.BigInteger),
                _a.invalidated_at.is_not(None),
            )
            .values(invalidated_at=None, quarantined_at=now)
        )
        theirs = sa.and_(QUARANTINED, among(_a.refused_by, "names"))
        self._release = sa.update(addresses).where(theirs).values(
            quarantined_at=None, reason=None, refused_by=None
        ).returning(_a.id)  # fmt: skip
        self._drop = (
            sa.update(addresses)
            .where(theirs)
            .values(quarantined_at=None, invalidated_at=now)
            .returning(*DROPPED)
        )
        self._resume = (
            sa.update(lanes)
            .where(
                among(lanes.c.lane, "names"),
                lanes.c.paused,
                lanes.c.reason == sa.literal_column(f"'{MASS_INVALIDATION}'"),
            )
            .values(paused=False, paused_until=None, changed_at=now, opened=0)
        )
        page = (
            sa.select(*COLUMNS)
            .where(QUARANTINED, _a.id > sa.bindparam("b_after", type_=sa.BigInteger))
            .order_by(_a.id)
            .limit(sa.bindparam("b_limit", type_=sa.BigInteger))
        )
        self._all, self._some = page, page.where(among(_a.refused_by, "names"))
        count = (
            sa.select(sa.func.count())
            .select_from(addresses)
            .where(QUARANTINED, _a.refused_by == _b.name)
            .scalar_subquery()
        )
        self._states = sa.select(_b.name, _b.tripped_at, _b.why, count).order_by(_b.name)

    # --- weighing ---------------------------------------------------------------------------------------------

    def good(
        self, connection: sa.Connection, asked: Sequence[tuple[int, str, str, UUID]], now: int
    ) -> set[int]:
        """Which of these addresses (id, tenant, recipient, notification) were recently good."""
        if not asked:
            return set()
        parameters = self._asked.bind(asked) | {"b_since": now - GOOD_FOR}
        return set(connection.execute(self._good, parameters).scalars())

    def weigh(
        self, connection: sa.Connection, name: str, proposal: Proposal, good: int, fresh: int, now: int
    ) -> tuple[bool, str | None]:
        """Whether verdicts of a credential are doubted, these included; and why, if it has tripped just now."""
        place = {
            "b_name": clean(name),
            "b_steps": "{}",
            "b_tripped_at": None,
            "b_why": "",
            "b_changed_at": now,
        }
        connection.execute(self._place, place)
        before = _window(connection.execute(self._lock, {"b_name": clean(name)}).one())
        if before.tripped_at is not None:
            return True, None
        proposed = Proposed(proposal.process, proposal.accepted, good, fresh)
        after = propose(before, proposed, proposal.limits, now)
        self._store(connection, name, after, now)
        if after.tripped_at is None:
            return False, None
        since = {"b_name": clean(name), "b_since": now - proposal.limits.within, "b_now": now}
        connection.execute(self._take_back, since)
        return True, after.why

    def _store(self, connection: sa.Connection, name: str, window: Window, now: int) -> None:
        told = {
            "steps": [[step.at, step.accepted, step.good, step.fresh] for step in window.steps],
            "heard": {process: list(count) for process, count in window.heard.items()},
            "wary": window.wary,
        }
        values = {"b_steps": dump(told), "b_tripped_at": window.tripped_at, "b_why": window.why}
        connection.execute(self._put, {"b_name": clean(name), "b_changed_at": now, **values})

    # --- people -----------------------------------------------------------------------------------------------

    def lift(
        self, connection: sa.Connection, names: Sequence[str], now: int, *, drop: bool
    ) -> tuple[Lifted, list[OutboxRow]]:
        """A person has decided; what tells of the dropped."""
        listed: dict[str, Any] = {"names": self._dialect.listed(sorted({clean(name) for name in names}))}
        tripped = list(connection.execute(self._tripped, listed).scalars())
        for name in tripped:
            window = _window(connection.execute(self._lock, {"b_name": name}).one())
            self._store(connection, name, resumed(window, believed=drop), now)
        decided = self._drop if drop else self._release
        changed = connection.execute(decided, listed | ({"b_now": now} if drop else {})).all()
        connection.execute(self._resume, listed | {"b_now": now})
        told = list(self._outbox.dropped(connection, changed, now).values()) if drop else []
        return Lifted(bool(tripped), len(changed)), told

    def quarantined(
        self, connection: sa.Connection, names: Sequence[str] | None, after: int, limit: int
    ) -> list[Address]:
        """Addresses that a person has to decide about."""
        bound: dict[str, Any] = {"b_after": after, "b_limit": limit}
        if names is None:
            return [Address(*row) for row in connection.execute(self._all, bound)]
        bound["names"] = self._dialect.listed([clean(name) for name in names])
        return [Address(*row) for row in connection.execute(self._some, bound)]

    def states(self, connection: sa.Connection) -> list[BreakerState]:
        """All that were ever weighed."""
        return [BreakerState(*row) for row in connection.execute(self._states)]


def _window(stored: Any) -> Window:
    told, tripped_at, why = stored
    found = load(told)
    return Window(
        steps=tuple(Step(*values) for values in found.get("steps", ())),
        heard={process: (count, at) for process, (count, at) in found.get("heard", {}).items()},
        wary=bool(found.get("wary")),
        tripped_at=tripped_at,
        why=why,
    )
