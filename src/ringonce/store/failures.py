"""``notification_failures``: definitive failures of the audited types, written in the transaction that ends them.

The columns have the names of the audit that this table was asked for. Nothing here runs while no type is audited.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.core.failures import payload_of
from ringonce.model.audit import AuditRow
from ringonce.store.erasure import ERASED
from ringonce.store.rows import CONTENT, make_content
from ringonce.store.schema import addresses, attempts, contents, failures, notifications
from ringonce.store.values import dump, load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from ringonce.model.audit import AuditQuery, Failure
    from ringonce.model.retention import Retention
    from ringonce.store.dialect import Dialect

    Place = tuple[object, ...] | None

_n, _f = notifications.c, failures.c
COLUMNS = tuple(column.name for column in failures.c)


class Failures:
    """The statements, built once."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        calls = sa.select(sa.func.count()).where(attempts.c.notification_id == _n.id).scalar_subquery()
        said = notifications.outerjoin(contents, contents.c.id == _n.content_id)
        self._facts = (
            sa.select(_n.id, _n.tenant, _n.recipient, _n.channel, calls, addresses.c.value, *CONTENT)
            .select_from(said.outerjoin(addresses, addresses.c.id == _n.address_id))
            .where(dialect.among(_n.id, "ids"))
        )
        self._rows = dialect.given("r", **{name: failures.c[name].type for name in COLUMNS})
        rows = sa.select(*(self._rows.c[name] for name in COLUMNS)).where(sa.true())
        new = dialect.insert(failures).from_select(list(COLUMNS), rows)
        self._insert = new.on_conflict_do_nothing(index_elements=["id"])
        mine = sa.and_(
            _f.tenant == sa.bindparam("b_tenant", type_=sa.Text), dialect.among(_f.driver_id, "names")
        )
        self._forget = (
            sa.update(failures).where(mine).values(driver_id=sa.literal(ERASED), payload=sa.literal("{}"))
        )
        until = sa.bindparam("b_until", type_=sa.BigInteger)

        @cache
        def old(limit: int) -> Any:
            # The size is part of the text: of a parameter the planner would guess a tenth of the table.
            size = sa.literal_column(str(int(limit)), sa.Integer)
            return sa.select(_f.id).where(_f.failed_at <= until).order_by(_f.failed_at, _f.id).limit(size)

        self._old = old
        self._drop = sa.delete(failures).where(dialect.among(_f.id, "ids"))

    def write(self, connection: sa.Connection, ended: Sequence[tuple[UUID, Failure]], now: int) -> None:
        """Insert rows for revisions that have ended, each once. Their calls and facts are written already."""
        if not ended:
            return
        ids = self._dialect.listed(sorted({id_ for id_, _ in ended}))
        facts = {values[0]: values[1:] for values in connection.execute(self._facts, {"ids": ids})}
        rows = []
        for id_, failure in ended:
            tenant, recipient, channel, calls, address, *content = facts[id_]
            said = {} if recipient == ERASED else payload_of(make_content(content), address)
            rows.append(
                (
                    *(failure.id, tenant, id_, failure.revision, channel, recipient, failure.push_type),
                    *(dump(said), failure.error_code, failure.code, calls, now),
                )
            )
        connection.execute(self._insert, self._rows.bind(rows))

    def forget(self, connection: sa.Connection, tenant: str, names: Sequence[str]) -> None:
        """Take a person out; that something failed for somebody stays."""
        connection.execute(self._forget, {"b_tenant": tenant, "names": self._dialect.listed(names)})

    def page(self, connection: sa.Connection, query: AuditQuery) -> list[AuditRow]:
        """Newest first."""
        equal: dict[Any, Any] = {
            _f.tenant: query.tenant,
            _f.driver_id: query.recipient,
            _f.push_type: query.event_type,
            _f.channel: query.channel,
            _f.code: query.code,
        }
        statement = sa.select(failures).where(
            *(column == value for column, value in equal.items() if value is not None)
        )
        if query.since is not None:
            statement = statement.where(_f.failed_at >= query.since)
        if query.until is not None:
            statement = statement.where(_f.failed_at < query.until)
        if query.after is not None:
            edge = sa.select(_f.failed_at).where(_f.id == query.after).scalar_subquery()
            statement = statement.where(
                sa.or_(_f.failed_at < edge, sa.and_(_f.failed_at == edge, _f.id < query.after))
            )
        page = sa.literal_column(str(int(query.limit)), sa.Integer)
        ordered = statement.order_by(_f.failed_at.desc(), _f.id.desc()).limit(page)
        return [_row(values) for values in connection.execute(ordered)]

    def prune(
        self, connection: sa.Connection, keep: Retention, place: Place, limit: int, now: int
    ) -> tuple[dict[str, int], int, Place]:
        """Remove the oldest rows that are over: a step of ``store.pruning``."""
        if keep.audit is None:
            return {}, 0, place
        found = list(connection.execute(self._old(limit), {"b_until": now - keep.audit}).scalars())
        if found:
            connection.execute(self._drop, {"ids": self._dialect.listed(found)})
        return {"notification_failures": len(found)}, len(found), place


def _row(values: Any) -> AuditRow:
    told = dict(zip(COLUMNS, values, strict=True))
    return AuditRow(**{**told, "payload": load(told["payload"])})
