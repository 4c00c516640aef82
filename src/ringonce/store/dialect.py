"""Where SQLite and PostgreSQL differ, as data; everything else in this package is one text for both.

A batch travels as a table: ``unnest`` of arrays on PostgreSQL, ``json_each`` of one JSON text on SQLite. So a
statement is compiled once whatever the size of the batch, and one round trip carries all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from ringonce.store.schema import FENCE, Digest, Words, ticks
from ringonce.store.spread import Spread, joined, looked_up
from ringonce.store.values import clean, clean_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy.sql.expression import FromClause
    from sqlalchemy.types import TypeEngine


class Given(Protocol):
    """Rows of a batch, as a table in a statement."""

    table: FromClause

    @property
    def c(self) -> Any:
        """Its columns."""
        ...

    def bind(self, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Turn rows into parameters."""
        ...


def _is_text(type_: Any) -> bool:
    return type_ in {Words, sa.Text} or isinstance(type_, Words | sa.Text)


def _is_digest(type_: Any) -> bool:
    return type_ is Digest or isinstance(type_, Digest)


class GivenArrays:
    """``unnest(:a, :b) AS name(a, b)``."""

    def __init__(self, name: str, types: dict[str, Any]) -> None:
        plain = {
            k: sa.Text if _is_text(t) else sa.LargeBinary if _is_digest(t) else t for k, t in types.items()
        }
        arrays = [sa.bindparam(f"{name}_{k}", type_=postgresql.ARRAY(t)) for k, t in plain.items()]
        columns = [sa.column(k, t) for k, t in types.items()]
        self.table: FromClause = sa.func.unnest(*arrays).table_valued(*columns).render_derived(name=name)
        self._keys = [(f"{name}_{k}", _is_text(t)) for k, t in types.items()]

    @property
    def c(self) -> Any:
        """Its columns."""
        return self.table.c

    def bind(self, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """One array per column."""
        columns = zip(*rows, strict=True) if rows else [()] * len(self._keys)
        return {
            key: clean_all(values) if text else list(values)
            for (key, text), values in zip(self._keys, columns, strict=True)
        }


class GivenJson:
    """``(SELECT json_extract(value, '$[0]') AS a, … FROM json_each(:name)) AS name``.

    With ``spread`` a column that is alike in all rows travels as one value, ``coalesce(:name_a_same, …)``, and is not
    looked for in each of them.
    """

    def __init__(self, name: str, types: dict[str, Any], *, spread: bool = False) -> None:
        items = (
            sa.func.json_each(sa.bindparam(name, type_=sa.Text))
            .table_valued(sa.column("value"))
            .alias(f"{name}_j")
        )
        picks = []
        for place, (key, type_) in enumerate(types.items()):
            pick: Any = sa.func.json_extract(items.c.value, sa.literal_column(f"'$[{place}]'"))
            if spread and place:
                pick = sa.func.coalesce(sa.bindparam(f"{name}_{key}_same", type_=sa.types.NullType()), pick)
            picks.append(sa.type_coerce(pick, type_).label(key))
        self.table: FromClause = sa.select(*picks).select_from(items).subquery(name)
        self._name = name
        self._spell = [_spelling(t) for t in types.values()]
        self._same = [f"{name}_{key}_same" for key in types] if spread else []

    @property
    def c(self) -> Any:
        """Its columns."""
        return self.table.c

    def bind(self, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """One JSON text of all rows."""
        parameters: dict[str, Any] = {}
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(self._spell)
        for place, spell in enumerate(self._spell):
            values = columns[place]
            alike = place > 0 and bool(self._same) and bool(values) and values.count(values[0]) == len(values)
            own = values[:1] if alike else values
            spelled = own if spell is None else spell(own)
            if self._same and place:
                parameters[self._same[place]] = _plain(spelled[0]) if alike else None
            columns[place] = (None,) * len(values) if alike else spelled
        parameters[self._name] = _json(list(zip(*columns, strict=True)))
        return parameters


class GivenSpread(GivenJson):
    """Rows to be inserted."""

    def __init__(self, name: str, types: dict[str, Any]) -> None:
        super().__init__(name, types, spread=True)


def _spelling(type_: Any) -> Callable[[Sequence[Any]], Sequence[Any]] | None:
    """How JSON says the values of a column; None: as they are."""
    if _is_text(type_):
        return clean_all
    if _is_digest(type_):
        return lambda values: [None if value is None else value.hex() for value in values]
    return None


def _plain(value: Any) -> Any:
    """As JSON can say it, and as SQLite stores it."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, UUID | bytes):
        return value.hex if isinstance(value, UUID) else value.hex()
    return value


_encode = msgspec.json.Encoder(uuid_format="hex").encode


def _json(value: list[Any]) -> str:
    return _encode(value).decode()


@dataclass(frozen=True, slots=True)
class Dialect:
    """One database kind.

    ``now``: the parameter ``now``, or the database's own clock where it has one. ``arrival``: the same for who
    has no store open and so does not know the latest time that it has given out. ``draw``: the statement that
    returns a new fence. ``lock``: a select whose rows are locked, and left out where somebody else holds them, where
    rows can be locked at all. ``within``: the condition that a column is among what a select finds. ``fused``: a
    statement that writes may be a part of one that reads, so that one round trip does it all. ``place``: where a text
    begins in another.
    """

    name: str
    insert: Callable[[sa.Table], Any]
    now: sa.ColumnElement[int]
    arrival: sa.ColumnElement[int]
    draw: Any
    make_given: Callable[[str, dict[str, Any]], Given]
    make_inserted: Callable[[str, dict[str, Any]], Given]
    look_up: Callable[..., sa.Select[Any]]
    among: Callable[[Any, str], sa.ColumnElement[bool]]
    listed: Callable[[Iterable[Any]], Any]
    lock: Callable[[Any], Any]
    within: Callable[[Any, Any], sa.ColumnElement[bool]]
    fused: bool
    greatest: Callable[..., Any]
    place: Callable[..., Any]
    lock_outbox: str | None
    retry: frozenset[str]

    def given(self, name: str, /, **types: TypeEngine[Any] | type[TypeEngine[Any]]) -> Given:
        """A table of rows that the caller binds."""
        return self.make_given(name, types)

    def inserted(self, table: sa.Table, names: Sequence[str], called: str = "r") -> Given:
        """Rows that are to be inserted into a table, or looked up there."""
        return self.make_inserted(called, {name: table.c[name].type for name in names})


def _among_array(column: Any, name: str) -> sa.ColumnElement[bool]:
    item = (
        sa.LargeBinary() if _is_digest(column.type) else sa.Text() if _is_text(column.type) else column.type
    )
    return sa.type_coerce(column, item) == sa.any_(sa.bindparam(name, type_=postgresql.ARRAY(item)))


def _among_json(column: Any, name: str) -> sa.ColumnElement[bool]:
    items = (
        sa.func.json_each(sa.bindparam(name, type_=sa.Text))
        .table_valued(sa.column("value"))
        .alias(f"{name}_j")
    )
    condition: sa.ColumnElement[bool] = column.in_(sa.select(sa.type_coerce(items.c.value, column.type)))
    return condition


def _lock(select: Any) -> Any:
    return select.with_for_update(skip_locked=True)


def _within_array(column: Any, select: Any) -> sa.ColumnElement[bool]:
    # As an array it is computed once, before the scan: as a join, a generic plan reads the whole table.
    array = sa.func.array(select.scalar_subquery(), type_=postgresql.ARRAY(column.type))
    condition: sa.ColumnElement[bool] = column == sa.any_(array)
    return condition


def _within_set(column: Any, select: Any) -> sa.ColumnElement[bool]:
    condition: sa.ColumnElement[bool] = column.in_(select)
    return condition


_NOW = sa.bindparam("now", type_=sa.BigInteger)
_CLOCK = sa.literal_column("(extract(epoch from clock_timestamp()) * 1000000)::bigint", sa.BigInteger)

# As a scalar subquery it is computed once, before the scan: in the predicate it would be computed per row and no
# index could be used for it.
_SERVER_NOW = sa.select(sa.func.coalesce(_NOW, _CLOCK)).scalar_subquery()

POSTGRES = Dialect(
    name="postgresql",
    insert=postgresql.insert,
    now=_SERVER_NOW,
    arrival=_SERVER_NOW,
    draw=sa.select(sa.func.nextval(sa.literal_column(f"'{FENCE}'"), type_=sa.BigInteger)),
    make_given=GivenArrays,
    make_inserted=Spread,
    look_up=looked_up,
    among=_among_array,
    listed=list,
    lock=_lock,
    within=_within_array,
    fused=True,
    greatest=sa.func.greatest,
    place=sa.func.strpos,
    # Waits for transactions that have drawn a number and are not yet visible.
    lock_outbox="LOCK TABLE ringonce_outbox IN SHARE MODE",
    # serialization_failure, deadlock_detected, lock_not_available
    retry=frozenset({"40001", "40P01", "55P03"}),
)

SQLITE = Dialect(
    name="sqlite",
    insert=sqlite.insert,
    now=_NOW,
    arrival=sa.select(sa.func.max(ticks.c.at, _NOW)).scalar_subquery(),
    draw=sa.update(ticks)
    .values(fence=ticks.c.fence + 1, at=sa.func.max(ticks.c.at, _NOW))
    .returning(ticks.c.fence),
    make_given=GivenJson,
    make_inserted=GivenSpread,
    look_up=joined,
    among=_among_json,
    listed=lambda values: _json([_plain(value) for value in values]),
    lock=lambda select: select,
    within=_within_set,
    fused=False,
    greatest=sa.func.max,
    place=sa.func.instr,
    lock_outbox=None,
    retry=frozenset(),
)
