"""Token buckets in a table: one row each, locked while tokens are taken, so that all workers share them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from ringonce.store.schema import rates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ringonce.store.dialect import Dialect


class Rates:
    """Statements over ``rates``, built once."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._lock = (
            sa.select(rates.c.name, rates.c.full_at)
            .where(dialect.among(rates.c.name, "names"))
            .order_by(rates.c.name)
            .with_for_update()
        )
        rows = self._rows = dialect.given("r", name=sa.Text, full_at=sa.BigInteger)
        fresh = dialect.insert(rates).from_select(
            ["name", "full_at"], sa.select(rows.c.name, rows.c.full_at).where(sa.true())
        )
        self._add = fresh.on_conflict_do_nothing(index_elements=["name"])
        self._put = sa.update(rates).where(rates.c.name == rows.c.name).values(full_at=rows.c.full_at)

    def lock(self, connection: sa.Connection, names: Iterable[str]) -> dict[str, int]:
        """When each bucket is full again, its row locked until the transaction ends. A new one is full."""
        wanted = sorted(set(names))
        parameters = {"names": self._dialect.listed(wanted)}
        found = {row.name: row.full_at for row in connection.execute(self._lock, parameters)}
        if len(found) < len(wanted):
            new = [(name, 0) for name in wanted if name not in found]
            connection.execute(self._add, self._rows.bind(new))
            found = {row.name: row.full_at for row in connection.execute(self._lock, parameters)}
        return found

    def put(self, connection: sa.Connection, full_at: Mapping[str, int]) -> None:
        """Write buckets back that ``lock`` has locked."""
        if full_at:
            connection.execute(self._put, self._rows.bind(sorted(full_at.items())))
