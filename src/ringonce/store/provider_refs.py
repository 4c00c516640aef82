"""The ids that providers gave to messages, where their reports will name nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from ringonce.store.schema import OPEN, provider_refs, receipts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from ringonce.store.dialect import Dialect

_p, _r = provider_refs.c, receipts.c


class ProviderRefs:
    """The statements, built once."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        now = sa.bindparam("b_now", type_=sa.BigInteger)
        self._rows = dialect.given("r", key=_p.key.type, id=sa.Uuid, attempt=sa.Integer)
        given = self._rows.c
        self._write = (
            dialect.insert(provider_refs)
            .from_select(
                ["key", "notification_id", "attempt", "created_at"],
                sa.select(given.key, given.id, given.attempt, now).where(sa.true()),
            )
            .on_conflict_do_nothing(index_elements=["key"])
        )
        # Who holds a report holds it to find this; it finds it when it looks again.
        early = dialect.lock(sa.select(_r.key).where(OPEN, dialect.among(_r.ref, "keys")))
        self._wake = sa.update(receipts).where(dialect.within(_r.key, early)).values(look_at=now)

    def write(self, connection: sa.Connection, rows: Sequence[tuple[bytes, UUID, int]], now: int) -> None:
        """Keep (key, notification, attempt), and have reports looked at that came before."""
        if rows:
            bound = {"b_now": now}
            connection.execute(self._write, self._rows.bind(sorted(rows)) | bound)
            keys = self._dialect.listed(sorted(row[0] for row in rows))
            connection.execute(self._wake, {"keys": keys} | bound)
