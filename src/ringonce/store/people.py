"""Recipients' records: locale and time zone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from ringonce.ports import Person
from ringonce.store.schema import recipients
from ringonce.store.values import clean, digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.store.dialect import Dialect

_r = recipients.c
RECORD = (_r.tenant, _r.id, _r.locale, _r.timezone, _r.created_at, _r.updated_at)


class People:
    """Statements over recipients, built once."""

    def __init__(self, dialect: Dialect) -> None:
        insert = dialect.insert
        key = _r.key == sa.bindparam("b_key", type_=_r.key.type)
        self._get = sa.select(*RECORD).where(key)
        names = ("key", "tenant", "id", "locale", "timezone", "created_at", "updated_at")
        new = insert(recipients).values(
            {name: sa.bindparam(f"b_{name}", type_=_r[name].type) for name in names}
        )
        self._put = new.on_conflict_do_update(
            index_elements=["key"],
            set_={name: new.excluded[name] for name in ("locale", "timezone", "updated_at")},
        ).returning(*RECORD)

    def get(self, connection: sa.Connection, tenant: str, recipient: str) -> Person | None:
        """The record."""
        found = connection.execute(self._get, {"b_key": digest(clean(tenant), clean(recipient))}).first()
        return None if found is None else Person(*found)

    def put(
        self,
        connection: sa.Connection,
        tenant: str,
        recipient: str,
        changes: Mapping[str, str | None],
        now: int,
    ) -> Person:
        """Make or change it; what is not named stays."""
        known = self.get(connection, tenant, recipient)
        old = {} if known is None else {"locale": known.locale, "timezone": known.timezone}
        values = {"locale": None, "timezone": None, **old, **changes}
        return Person(
            *connection.execute(
                self._put,
                {
                    "b_key": digest(clean(tenant), clean(recipient)),
                    "b_tenant": tenant,
                    "b_id": recipient,
                    "b_locale": values["locale"],
                    "b_timezone": values["timezone"],
                    "b_created_at": now,
                    "b_updated_at": now,
                },
            ).one()
        )
