"""Events of ours that are kept: who publishes one calls ``publish`` in the transaction that made it true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.core.outbox import INVALIDATED, invalidated_row, person_events
from ringonce.store.schema import Words, addresses, outbox
from ringonce.store.values import digest, dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ringonce.ports import OutboxRow, Tell
    from ringonce.store.dialect import Dialect

_a, _o = addresses.c, outbox.c
DROPPED = (_a.id, _a.tenant, _a.recipient, _a.channel, _a.registered_at, _a.invalidated_at, _a.reason)
"""What an UPDATE that drops addresses returns, for ``Outbox.dropped``."""


class Outbox:
    """The statements, built once."""

    def __init__(self, dialect: Dialect, kinds: frozenset[str]) -> None:
        """``kinds``: what somebody subscribed to; nothing else is kept."""
        self._kinds = kinds
        self._events = dialect.given(
            "r", event_key=_o.event_key.type, event_id=sa.Text, kind=sa.Text, key=sa.Text, payload=sa.Text
        )
        names = ["event_key", "event_id", "kind", "key", "payload"]
        now = sa.bindparam("b_now", type_=sa.BigInteger)
        self._publish = (
            dialect.insert(outbox)
            .from_select(
                [*names, "created_at"],
                sa.select(*(self._events.c[name] for name in names), now).where(sa.true()),
            )
            .on_conflict_do_nothing(index_elements=["event_key"])
        )
        kind, key = (sa.bindparam(f"b_{name}", type_=Words) for name in ("kind", "key"))
        self._forget = sa.delete(outbox).where(_o.kind == kind, _o.key == key)

    def publish(self, connection: sa.Connection, rows: Iterable[OutboxRow], now: int) -> None:
        """Insert events of ours that somebody subscribed to, each once."""
        values = [
            (digest(row.event_id), row.event_id, row.kind, row.key, dump(row.payload))
            for row in rows
            if row.kind in self._kinds
        ]
        if values:
            connection.execute(self._publish, self._events.bind(values) | {"b_now": now})

    def dropped(self, connection: sa.Connection, found: Sequence[Any], now: int) -> dict[int, OutboxRow]:
        """Publish that these addresses (DROPPED) are dropped; what was told, by the address."""
        told = {values[0]: invalidated_row(*values) for values in found}
        self.publish(connection, told.values(), now)
        return told

    def forget(self, connection: sa.Connection, tenant: str, recipient: str) -> None:
        """Take out what names a person. It reads the whole table, so only where such events are kept."""
        if INVALIDATED in self._kinds:
            bound = {"b_kind": INVALIDATED, "b_key": person_events(tenant, recipient)}
            connection.execute(self._forget, bound)


def hand_over(rows: Iterable[OutboxRow], tell: Tell | None) -> None:
    """Tell the program's listeners of what is committed."""
    if tell is not None:
        for row in rows:
            tell(row)
