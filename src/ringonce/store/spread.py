"""Rows to be inserted, as cheap parameters of PostgreSQL: one array per column that differs, one value for each other.

asyncpg looks at every element of an array twice, by way of Python, before it writes it. So a column whose rows are all
alike travels as one value, short columns (keys, numbers) as the text of an array, and texts as one text with marks
between them, which costs a tenth.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from ringonce.store.schema import Digest, Words
from ringonce.store.values import clean, clean_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy.sql.expression import FromClause

    Spell = Callable[[Sequence[Any]], str]


class Spread:
    """``unnest(:a, :b) AS name(a, b)``, where b of each row is its own or else ``:b_same``.

    ``unnest`` fills arrays that are too short with nulls: an empty one says that all its rows are alike. The first
    column is always written out, so that the rows can be counted.
    """

    def __init__(self, name: str, types: dict[str, Any]) -> None:
        arrays: list[Any] = []
        columns, picked = [], {}
        self._marks = f"{name}_parted", f"{name}_none"
        parted, none = (sa.bindparam(mark, type_=sa.Text()) for mark in self._marks)
        self._columns: list[tuple[str, Spell | None]] = []
        for key, type_ in types.items():
            plain, spell = _plain(type_)
            bound = f"{name}_{key}"
            parameter = sa.bindparam(bound, type_=sa.Text())
            if spell is None:
                arrays.append(sa.func.trim_array(sa.func.string_to_array(parameter, parted, none), 1))
            else:
                arrays.append(sa.cast(parameter, postgresql.ARRAY(plain)))
            columns.append(sa.column(key, type_))
            self._columns.append((bound, spell))
        self.table: FromClause = sa.func.unnest(*arrays).table_valued(*columns).render_derived(name=name)
        for place, (key, type_) in enumerate(types.items()):
            own = self.table.c[key]
            same = sa.bindparam(f"{name}_{key}_same", type_=_plain(type_)[0])
            picked[key] = own if place == 0 else sa.func.coalesce(own, same)
        self.c = SimpleNamespace(**picked)

    def bind(self, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Two parameters per column: what differs, what is alike."""
        parameters: dict[str, Any] = {}
        texts: dict[str, list[str | None]] = {}
        columns = zip(*rows, strict=True) if rows else [()] * len(self._columns)
        for place, ((bound, spell), values) in enumerate(zip(self._columns, columns, strict=True)):
            alike = bool(
                place and values and values[0] == values[-1] and values.count(values[0]) == len(values)
            )
            own = () if alike else values
            if spell is None:
                texts[bound] = clean_all(own)
            else:
                parameters[bound] = spell(own)
            if place:
                same = values[0] if alike else None
                parameters[f"{bound}_same"] = clean(same) if spell is None and same is not None else same
        parted, none = marks = _marks(texts.values())
        for bound, said in texts.items():
            # A mark behind the last one, too: else one empty text would read like no text at all.
            each = [none if value is None else value for value in said]
            parameters[bound] = parted.join([*each, ""]) if said else None
        return {**parameters, **dict(zip(self._marks, marks, strict=True))}


def _marks(columns: Iterable[Sequence[str | None]]) -> tuple[str, str]:
    """What stands behind each text, and for null: control characters, or more where a text has these."""
    whole = "".join([value for column in columns for value in column if value])
    parted, none, number = "\x1f", "\x1e", 0
    while parted in whole or none in whole:
        number += 1
        parted, none = f"\x1f{number}\x1e", f"\x1e{number}\x1f"
    return parted, none


def looked_up(given: Any, columns: Sequence[Any], where: Any, lock: str = "") -> sa.Select[Any]:
    """The rows that fit those of ``given``, by one look into an index for each of them.

    As a subquery of its own: a join, or ``= ANY``, that is planned while the table is small reads all of it for as
    long as the plan is kept, and the table grows. ``lock``: ``share``, or ``key`` against deletion alone.
    """
    inner = sa.select(*columns).where(where).offset(sa.literal_column("0"))
    if lock:
        inner = inner.with_for_update(read=True, key_share=lock == "key")
    found = inner.correlate(given.table).lateral("found")
    return sa.select(*found.c).select_from(given.table.join(found, sa.true()))


def joined(given: Any, columns: Sequence[Any], where: Any, lock: str = "") -> sa.Select[Any]:  # noqa: ARG001
    """The same in SQLite, which keeps no plan and has one writer."""
    return sa.select(*columns).select_from(columns[0].table.join(given.table, where))


def _plain(type_: Any) -> tuple[Any, Spell | None]:
    """The column's own type, and how an array of it is spelled; None: texts, which ``bind`` puts together."""
    if isinstance(type_, Words | sa.Text):
        return sa.Text(), None
    if isinstance(type_, Digest):
        return sa.LargeBinary(), _bytes
    if isinstance(type_, sa.Uuid):
        return type_, _uuids
    return type_, _numbers


# An array's text takes a backslash for an escape, and so doubles it.
def _bytes(values: Sequence[bytes | None]) -> str:
    return _array(["NULL" if value is None else rf"\\x{value.hex()}" for value in values])


def _uuids(values: Sequence[Any]) -> str:
    return _array(["NULL" if value is None else value.hex for value in values])


def _numbers(values: Sequence[int | bool | None]) -> str:
    return _array(["NULL" if value is None else str(value) for value in values])


def _array(values: list[str]) -> str:
    return f"{{{','.join(values)}}}"
