"""Addresses that are dropped, and live again, because their people say so to the provider.

A provider knows no tenants: one bot may serve all of them, so the address is looked for under each. Tenants are found
by leaps through the index of owners, one probe each, for blocks are rare and registering addresses is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from ringonce.model.outcome import Code
from ringonce.model.policy import SECOND
from ringonce.ports import Invalidation
from ringonce.store.addresses import address_key
from ringonce.store.schema import addresses

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ringonce.model.receipt import AddressReport
    from ringonce.ports import OutboxRow
    from ringonce.store.addresses import Addresses
    from ringonce.store.dialect import Dialect

_a = addresses.c
REASON = Code.BLOCKED.value


class Blocks:
    """The statements, built once."""

    def __init__(self, dialect: Dialect, addresses_: Addresses) -> None:
        self._dialect = dialect
        self._addresses = addresses_
        first = sa.select(sa.func.min(_a.tenant).label("tenant")).cte("found", recursive=True)
        after = sa.select(sa.func.min(_a.tenant)).where(_a.tenant > first.c.tenant).scalar_subquery()
        found = first.union_all(sa.select(after).where(first.c.tenant.is_not(None)))
        self._tenants = sa.select(found.c.tenant).where(found.c.tenant.is_not(None))
        self._known = sa.select(_a.key, _a.id, _a.value).where(dialect.among(_a.key, "keys"))
        at = sa.bindparam("b_at", type_=sa.BigInteger)
        # Vendors tell whole seconds: what was dropped within that second may have been before.
        self._revive = (
            sa.update(addresses)
            .where(
                dialect.among(_a.id, "ids"),
                _a.reason == REASON,
                _a.invalidated_at < at + sa.literal_column(str(SECOND)),
            )
            # Registered by then: a block that is told later and happened before proves nothing any more.
            .values(invalidated_at=None, reason=None, registered_at=dialect.greatest(_a.registered_at, at))
            .returning(_a.id)
        )

    def take(
        self,
        connection: sa.Connection,
        channels: Collection[str],
        reports: Sequence[AddressReport],
        now: int,
    ) -> tuple[int, list[OutboxRow]]:
        """Carry reports out in the order of their times.

        How many addresses were dropped or live again, and what tells of the dropped.
        """
        tenants = connection.execute(self._tenants).scalars().all()
        keys = {
            address_key(tenant, channel, self._addresses.identify(channel, value)): value
            for value in {report.value for report in reports}
            for tenant in tenants
            for channel in channels
        }
        meant: dict[str, list[tuple[int, str]]] = {}
        for key, id_, value in connection.execute(self._known, {"keys": self._dialect.listed(sorted(keys))}):
            meant.setdefault(keys[key], []).append((id_, value))
        count = 0
        told: list[OutboxRow] = []
        for report in sorted(reports, key=lambda one: now if one.at is None else one.at):
            found = meant.get(report.value, [])
            # A clock that is ahead of ours would prove things that have not happened.
            at = min(now, now if report.at is None else report.at)
            if report.blocked:
                proof = None if report.at is None else at
                items = [Invalidation(id_, value, REASON, proof) for id_, value in found]
                gone = self._addresses.drop(connection, items, None, at)
                count += len(gone)
                told += gone.values()
            elif found:
                ids = self._dialect.listed(sorted(id_ for id_, _ in found))
                count += len(connection.execute(self._revive, {"ids": ids, "b_at": at}).all())
        return count, told
