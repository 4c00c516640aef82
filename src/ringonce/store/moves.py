"""Moving what waits from one lane to another: from a provider that is stopped to the next of its channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from ringonce.store.schema import FREE, SEND, Words, dispatch, notifications
from ringonce.store.values import clean

if TYPE_CHECKING:
    from ringonce.store.dialect import Dialect


class Moves:
    """The statement, built once."""

    def __init__(self, dialect: Dialect) -> None:
        d, n = dispatch.c, notifications.c
        lane = sa.bindparam("b_lane", type_=Words)
        # A call without a verdict keeps its notification where it was made.
        certain = sa.exists().where(n.id == d.id, n.unknown == "")
        due = (
            sa.select(d.id)
            .where(d.lane == lane, SEND, FREE, d.due_at <= dialect.now, certain)
            .order_by(d.due_at, d.id)
            .limit(sa.bindparam("b_limit", type_=sa.BigInteger))
        )
        self._move = (
            sa.update(dispatch)
            .where(dialect.within(d.id, dialect.lock(due)), FREE, d.lane == lane)
            .values(lane=sa.bindparam("b_target", type_=Words))
            .returning(d.id)
        )

    def move(self, connection: sa.Connection, source: str, target: str, limit: int, now: int | None) -> int:
        """Move what is due; how many."""
        names = {"b_lane": clean(source), "b_target": clean(target)}
        return len(connection.execute(self._move, names | {"b_limit": limit, "now": now}).all())
