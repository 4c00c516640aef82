"""What outlasts the notifications that made it, and goes when nothing needs it: steps of ``store.pruning``.

No index leads to what is old here. The tables are walked by their keys instead, a page in each transaction.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.store.schema import addresses, cancellations, notifications

if TYPE_CHECKING:
    from ringonce.model.retention import Retention
    from ringonce.store.dialect import Dialect

    Place = tuple[object, ...] | None

_a, _c, _n = addresses.c, cancellations.c, notifications.c
_FIRST = sa.literal_column("1", sa.Integer)


class Lasting:
    """The statements, built once."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        # An address that nobody registered stands for its recipient.
        named = _a.recipient == _a.channel + ":" + _a.value

        @cache
        def places(limit: int) -> Any:
            last = sa.bindparam("b_last", type_=sa.BigInteger)
            page = sa.select(_a.id, _a.invalidated_at, _a.registered_at, named).where(_a.id > last)
            return page.order_by(_a.id).limit(sa.literal_column(str(int(limit)), sa.Integer))

        @cache
        def subjects(limit: int) -> Any:
            page = sa.select(_c.key, _c.at).where(_c.key > sa.bindparam("b_last", type_=_c.key.type))
            return page.order_by(_c.key).limit(sa.literal_column(str(int(limit)), sa.Integer))

        self._places, self._subjects = places, subjects
        # Whoever is naming one right now holds it until his notification is there to be seen.
        self._lock = sa.select(_a.id).where(dialect.among(_a.id, "ids")).with_for_update(skip_locked=True)
        mine = (_n.tenant == _a.tenant, _n.recipient == _a.recipient, _n.address_id == _a.id)
        used = sa.select(_FIRST).select_from(notifications).where(*mine).limit(_FIRST).scalar_subquery()
        until = sa.bindparam("b_until", type_=sa.BigInteger)
        over = sa.or_(_a.invalidated_at <= until, sa.and_(named, _a.registered_at <= until))
        self._drop = sa.delete(addresses).where(dialect.among(_a.id, "ids"), over, used.is_(None))
        self._forget = sa.delete(cancellations).where(dialect.among(_c.key, "keys"), _c.at <= until)

    def addresses(
        self, connection: sa.Connection, keep: Retention, place: Place, limit: int, now: int
    ) -> tuple[dict[str, int], int, Place]:
        """Remove dropped addresses, and those only named by ``to``, that no notification names any more."""
        if keep.addresses is None:
            return {}, 0, place
        until = now - keep.addresses
        found = connection.execute(self._places(limit), {"b_last": (place or (0,))[0]}).all()
        old = [
            id_
            for id_, invalidated, registered, named in found
            if (invalidated is not None and invalidated <= until) or (named and registered <= until)
        ]
        count = 0
        if old:
            locked = connection.execute(self._lock, {"ids": self._dialect.listed(old)}).scalars().all()
            bound = {"ids": self._dialect.listed(locked), "b_until": until}
            count = connection.execute(self._drop, bound).rowcount
        return {"addresses": count}, len(found), (found[-1][0],) if found else place

    def cancellations(
        self, connection: sa.Connection, keep: Retention, place: Place, limit: int, now: int
    ) -> tuple[dict[str, int], int, Place]:
        """Remove what withdrew a subject long ago."""
        if keep.cancellations is None:
            return {}, 0, place
        until = now - keep.cancellations
        found = connection.execute(self._subjects(limit), {"b_last": (place or (b"",))[0]}).all()
        keys = [key for key, at in found if at <= until]
        count = 0
        if keys:
            bound = {"keys": self._dialect.listed(keys), "b_until": until}
            count = connection.execute(self._forget, bound).rowcount
        return {"cancellations": count}, len(found), (found[-1][0],) if found else place
