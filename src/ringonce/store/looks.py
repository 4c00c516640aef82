"""Leases on calls without a verdict whose provider is to be asked what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.store.schema import APART, FREE, LOOKUP, Words, dispatch, notifications
from ringonce.store.values import clean

if TYPE_CHECKING:
    from collections.abc import Collection

    from ringonce.ports import Life
    from ringonce.store.dialect import Dialect
    from ringonce.store.reading import Reading


class Looks:
    """Statements over the rows of this purpose, built once. They are few, and no send waits for them."""

    def __init__(self, dialect: Dialect, reading: Reading) -> None:
        self._dialect = dialect
        self._reading = reading
        d, n, now = dispatch.c, notifications.c, dialect.now
        ripe = (
            sa.select(d.id)
            .where(
                *(APART, FREE, LOOKUP, d.due_at <= now),
                sa.exists().where(n.id == d.id, dialect.among(n.channel, "channels")),
            )
            .order_by(d.due_at)
            .limit(sa.bindparam("b_limit", type_=sa.BigInteger))
        )
        self._ripe = ripe
        self._claim = (
            sa.update(dispatch)
            .where(dialect.within(d.id, dialect.lock(ripe)), FREE, LOOKUP)
            .values(
                leased=True,
                owner=sa.bindparam("b_owner", type_=Words),
                fence=sa.bindparam("b_fence", type_=sa.BigInteger),
                due_at=now + sa.bindparam("b_lease", type_=sa.BigInteger),
            )
            .returning(d.id)
        )

    def ripe(self, connection: sa.Connection, channels: Collection[str], limit: int, now: int | None) -> bool:
        """Something is due."""
        return connection.execute(self._ripe, self._bound(channels, limit, now)).first() is not None

    def _bound(self, channels: Collection[str], limit: int, now: int | None) -> dict[str, Any]:
        return {"channels": self._dialect.listed(sorted(channels)), "b_limit": limit, "now": now}

    def claim(
        self,
        connection: sa.Connection,
        owner: str,
        channels: Collection[str],
        limit: int,
        lease: int,
        now: int | None,
    ) -> list[Life]:
        """Lease up to ``limit`` due rows of these channels; nobody else looks at them meanwhile."""
        fence = connection.execute(self._dialect.draw, {"now": now}).scalar_one()
        lease_ = {"b_owner": clean(owner), "b_fence": fence, "b_lease": lease}
        ids = connection.execute(self._claim, self._bound(channels, limit, now) | lease_).scalars().all()
        lives = (self._reading.get(connection, id_, None) for id_ in sorted(ids))
        return [life for life in lives if life is not None]
