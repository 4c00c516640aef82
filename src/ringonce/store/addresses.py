"""Where recipients are reached: one value of a channel and tenant has one owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.model.notification import Address
from ringonce.store.compiled import fetch
from ringonce.store.outbox import DROPPED
from ringonce.store.schema import Words, addresses
from ringonce.store.values import clean, digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ringonce.ports import Invalidation, OutboxRow
    from ringonce.store.dialect import Dialect
    from ringonce.store.outbox import Outbox

_a = addresses.c
COLUMNS = (
    *(_a.id, _a.tenant, _a.recipient, _a.channel, _a.value, _a.registered_at, _a.invalidated_at, _a.reason),
    _a.generation,
)


SHOWN = (*COLUMNS[:-1], _a.quarantined_at)
"""An address as people see it."""


def address_key(tenant: str, channel: str, value: str) -> bytes:
    """What makes an address one."""
    return digest(tenant, channel, value)


def same(_channel: str, value: str) -> str:
    """The value itself."""
    return value


class Addresses:
    """Statements over ``addresses``, built once."""

    def __init__(self, dialect: Dialect, outbox: Outbox, identify: Callable[[str, str], str] = same) -> None:
        """``outbox``: hears of what is dropped. ``identify``: (channel, value) -> what makes the address one."""
        self._outbox = outbox
        self.identify = identify
        given, insert = dialect.given, dialect.insert
        types = ("key", "tenant", "recipient", "channel", "value")
        now = sa.bindparam("b_now", type_=sa.BigInteger)

        def upsert() -> tuple[Any, Any]:
            rows = dialect.inserted(addresses, types)
            picks = [getattr(rows.c, key) for key in types]
            statement = insert(addresses).from_select(
                [*types, "registered_at", "generation"],
                sa.select(*picks, now, sa.literal_column("0")).where(sa.true()),
            )
            return rows, statement

        self._rows, new = upsert()
        moved = sa.case((_a.recipient == new.excluded.recipient, 0), else_=1)
        self._register = new.on_conflict_do_update(
            index_elements=["key"],
            set_={
                "recipient": new.excluded.recipient,
                "value": new.excluded.value,
                "registered_at": new.excluded.registered_at,
                "invalidated_at": None,
                "reason": None,
                "generation": _a.generation + moved,
                "quarantined_at": None,
                "refused_by": None,
            },
        ).returning(_a.key, *COLUMNS)
        # An address named by ``to`` keeps the owner it has; naming it makes a dead one live again.
        self._named, named = upsert()
        self._name = named.on_conflict_do_update(
            index_elements=["key"],
            set_={
                "value": named.excluded.value,
                "registered_at": sa.case(
                    (_a.invalidated_at.is_(None), _a.registered_at), else_=named.excluded.registered_at
                ),
                "invalidated_at": None,
                # What a verdict that is doubted says of it stays.
                "reason": sa.case((_a.invalidated_at.is_(None), _a.reason)),
                "refused_by": sa.case((_a.invalidated_at.is_(None), _a.refused_by)),
            },
        ).returning(_a.key, *COLUMNS)

        # Most are known and live. Their owners stay who they are until what is sent there is stored: an erasure waits.
        self._keys = dialect.inserted(addresses, ["key"])
        same_key = sa.and_(_a.key == self._keys.c.key, _a.invalidated_at.is_(None))
        self._standing = dialect.look_up(self._keys, (_a.key, *COLUMNS), same_key, "share")

        verdict = {"reason": sa.Text, "proof": sa.BigInteger, "at": sa.BigInteger, "by": sa.Text}
        self._dropped = given("r", id=sa.BigInteger, value=sa.Text, **verdict)
        r = self._dropped.c
        tenant = sa.bindparam("b_tenant", type_=Words)
        condemned = sa.update(addresses).where(
            _a.id == r.id,
            _a.value == r.value,
            _a.invalidated_at.is_(None),
            # Strictly older than a dated proof; a proof of this very moment covers what stands now.
            sa.or_(_a.registered_at < r.proof, sa.and_(r.proof.is_(None), _a.registered_at <= r.at)),
            sa.or_(tenant.is_(None), _a.tenant == tenant),
        )
        self._drop = condemned.values(
            invalidated_at=r.at, reason=r.reason, refused_by=r.by, quarantined_at=None
        ).returning(*DROPPED)
        self._set_apart = (
            condemned.where(_a.quarantined_at.is_(None))
            .values(quarantined_at=r.at, reason=r.reason, refused_by=r.by)
            .returning(_a.id)
        )
        id_ = sa.bindparam("b_id", type_=sa.BigInteger)
        self._one = sa.select(*COLUMNS, _a.moved_to).where(_a.id == id_)
        self._known = sa.select(*COLUMNS).where(_a.key == sa.bindparam("b_key", type_=_a.key.type))
        self._move = (
            sa.update(addresses)
            .where(_a.id == id_)
            .values(moved_to=sa.bindparam("b_new", type_=sa.BigInteger))
        )
        one = sa.select(*SHOWN).where(
            _a.tenant == sa.bindparam("b_tenant", type_=Words),
            _a.recipient == sa.bindparam("b_recipient", type_=Words),
        )
        channel = sa.bindparam("b_channel", type_=Words)
        self._of = one.where(sa.or_(channel.is_(None), _a.channel == channel)).order_by(_a.channel, _a.id)
        m = self._many = dialect.inserted(addresses, ["recipient", "tenant"])
        owned = sa.and_(_a.tenant == m.c.tenant, _a.recipient == m.c.recipient, _a.invalidated_at.is_(None))
        self._live = dialect.look_up(m, COLUMNS, owned)

    def register(
        self, connection: sa.Connection, tenant: str, recipient: str, channel: str, value: str, now: int
    ) -> tuple[Address, int]:
        """Register one; the address and its generation."""
        return self.register_many(connection, [(tenant, recipient, channel, value)], now)[0]

    def register_many(
        self, connection: sa.Connection, items: Sequence[tuple[str, str, str, str]], now: int
    ) -> list[tuple[Address, int]]:
        """Register (tenant, recipient, channel, value); of two owners of one value the last named wins."""
        if not items:
            return []
        unique = {self._key(*item): item for item in items}
        return list(self._upsert(connection, self._rows, self._register, unique, now).values())

    def name_many(
        self, connection: sa.Connection, items: Sequence[tuple[str, str, str, str]], now: int
    ) -> dict[tuple[str, str, str], tuple[Address, int]]:
        """Make sure that addresses exist and live, without taking them from their owners.

        They are found in the answer by (tenant, channel, value) as they were named.
        """
        if not items:
            return {}
        keys = {item: self._key(*item) for item in items}
        unique = {key: item for item, key in keys.items()}
        found: dict[bytes, tuple[Address, int]] = {}
        for key, *row in fetch(
            connection, self._standing, self._keys.bind([(key,) for key in sorted(unique)])
        ):
            if row[4] == unique[key][3]:
                found[key] = Address(*row[:-1]), row[-1]
        missing = {key: item for key, item in unique.items() if key not in found}
        if missing:
            found |= self._upsert(connection, self._named, self._name, missing, now)
        return {(tenant, channel, value): found[key] for (tenant, _, channel, value), key in keys.items()}

    def _key(self, tenant: str, _recipient: str, channel: str, value: str) -> bytes:
        return address_key(tenant, channel, self.identify(channel, value))

    @staticmethod
    def _upsert(
        connection: sa.Connection,
        rows: Any,
        statement: Any,
        unique: dict[bytes, tuple[str, str, str, str]],
        now: int,
    ) -> dict[bytes, tuple[Address, int]]:
        # In one order everywhere: two batches that share addresses wait for each other, never in a circle.
        values = [(key, *unique[key]) for key in sorted(unique)]
        found = fetch(connection, statement, rows.bind(values) | {"b_now": now})
        return {row[0]: (Address(*row[1:-1]), row[-1]) for row in found}

    def of(
        self, connection: sa.Connection, tenant: str, recipient: str, channel: str | None, *, all_: bool
    ) -> list[Address]:
        """The addresses of one recipient."""
        parameters = {"b_tenant": tenant, "b_recipient": recipient, "b_channel": channel}
        found = [Address(*row) for row in connection.execute(self._of, parameters)]
        return [address for address in found if all_ or address.invalidated_at is None]

    def live(
        self, connection: sa.Connection, owners: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], list[tuple[Address, int]]]:
        """The live addresses of many (tenant, recipient), with their generations."""
        result: dict[tuple[str, str], list[tuple[Address, int]]] = {}
        if owners:
            named = sorted({(recipient, tenant) for tenant, recipient in owners})
            for row in fetch(connection, self._live, self._many.bind(named)):
                address = Address(*row[:-1])
                result.setdefault((address.tenant, address.recipient), []).append((address, row[-1]))
            for owned in result.values():
                owned.sort(key=_place)
        return result

    def drop(
        self, connection: sa.Connection, items: Sequence[Invalidation], tenant: str | None, now: int
    ) -> dict[int, OutboxRow]:
        """Drop what was registered before the proof, or set it apart where that is doubted; events of the dropped."""
        gone: dict[int, OutboxRow] = {}
        for doubted, statement in ((False, self._drop), (True, self._set_apart)):
            if some := [item for item in items if item.doubted is doubted]:
                parameters = self._dropped.bind(_latest(some, now)) | {"b_tenant": tenant}
                found = connection.execute(statement, parameters).all()
                if not doubted:
                    gone = self._outbox.dropped(connection, found, now)
        return gone

    # --- moving -----------------------------------------------------------------------------------------------

    def one(self, connection: sa.Connection, id_: int) -> tuple[Address, int, int | None] | None:
        """An address, its generation, and the id of the one that took its place."""
        row = connection.execute(self._one, {"b_id": id_}).first()
        return None if row is None else (Address(*row[:-2]), row[-2], row[-1])

    def known(
        self, connection: sa.Connection, tenant: str, channel: str, value: str
    ) -> tuple[Address, int] | None:
        """The address of this value, dead or alive."""
        key = self._key(clean(tenant), "", clean(channel), clean(value))
        row = connection.execute(self._known, {"b_key": key}).first()
        return None if row is None else (Address(*row[:-1]), row[-1])

    def move(self, connection: sa.Connection, old: int, new: int) -> None:
        """Remember where it has moved to."""
        connection.execute(self._move, {"b_id": old, "b_new": new})


def _latest(items: Sequence[Invalidation], now: int) -> list[tuple[Any, ...]]:
    """One row per address: the latest proof says the most."""
    latest: dict[tuple[int, str], Invalidation] = {}
    for item in items:
        other = latest.get((item.address_id, item.value))
        if other is None or (item.proof_at or now) > (other.proof_at or now):
            latest[item.address_id, item.value] = item
    return [(i.address_id, i.value, i.reason, i.proof_at, now, i.by) for i in latest.values()]


def _place(owned: tuple[Address, int]) -> tuple[str, int]:
    return owned[0].channel, owned[0].id
