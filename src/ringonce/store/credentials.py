"""Credentials that all workers use: one sealed text for each account."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from ringonce.model.keeping import REFUSED, Sealed
from ringonce.model.policy import DAY
from ringonce.store.schema import Words, credentials

if TYPE_CHECKING:
    from ringonce.store.dialect import Dialect


class Kept:
    """Statements over the table, built once."""

    def __init__(self, dialect: Dialect) -> None:
        c = credentials.c
        name = sa.bindparam("b_name", type_=Words)
        self._get = sa.select(c.sealed, c.made_at, c.expires_at).where(c.name == name)
        new = dialect.insert(credentials).values(
            name=name,
            sealed=sa.bindparam("b_sealed", type_=Words),
            made_at=sa.bindparam("b_made", type_=sa.BigInteger),
            expires_at=sa.bindparam("b_expires", type_=sa.BigInteger),
        )
        # A worker that was held up, and whose turn is long over, brings an older one.
        self._put = new.on_conflict_do_update(
            index_elements=["name"],
            set_={key: new.excluded[key] for key in ("sealed", "made_at", "expires_at")},
            where=c.made_at <= new.excluded.made_at,
        )
        made = sa.bindparam("b_made", type_=sa.BigInteger)
        self._refuse = (
            sa.update(credentials).where(c.name == name, c.made_at == made).values(expires_at=REFUSED)
        )
        # Of accounts that nobody uses any more.
        self._forget = sa.delete(credentials).where(
            c.expires_at < sa.bindparam("b_before", type_=sa.BigInteger)
        )

    def get(self, connection: sa.Connection, name: str) -> Sealed | None:
        """What is kept of an account."""
        found = connection.execute(self._get, {"b_name": name}).first()
        return None if found is None else Sealed(*found)

    def refuse(self, connection: sa.Connection, name: str, made_at: int) -> None:
        """It is not good any more, if it still is the one."""
        connection.execute(self._refuse, {"b_name": name, "b_made": made_at})

    def put(self, connection: sa.Connection, name: str, sealed: Sealed) -> None:
        """Keep it in place of an older one; what ended a day ago is forgotten."""
        connection.execute(self._forget, {"b_before": sealed.made_at - DAY})
        values = {"b_sealed": sealed.text, "b_made": sealed.made_at, "b_expires": sealed.expires_at}
        connection.execute(self._put, {"b_name": name, **values})
