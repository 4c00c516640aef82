"""Statements compiled once and run on SQLite's own cursor, with rows as SQLAlchemy would give them.

A select that asks for no order comes back as one text: SQLite spells all its rows as JSON while the event loop goes on
(for each row that is fetched the interpreter's lock is given away, and is hard to get back beside a busy loop), and to
read that text costs a fraction of making each value by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID
from weakref import WeakKeyDictionary

import msgspec
import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Read = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Spoken:
    """A statement's text for this driver, the order of its parameters, and how its values are read."""

    text: str
    names: tuple[str, ...]
    binds: tuple[tuple[str, Read], ...]
    readers: tuple[tuple[int, Read], ...]
    decode: Callable[[str], list[tuple[Any, ...]]] | None

    def arguments(self, parameters: Mapping[str, Any]) -> list[Any]:
        """The parameters as the driver takes them."""
        values = dict(parameters)
        for name, spell in self.binds:
            values[name] = spell(values[name])
        return [values[name] for name in self.names]


_known: WeakKeyDictionary[Any, Spoken] = WeakKeyDictionary()


def fetch(
    connection: sa.Connection, statement: Any, parameters: Mapping[str, Any]
) -> Sequence[Sequence[Any]]:
    """All rows. Raises what SQLAlchemy raises."""
    spoken = _known.get(statement) or _speak(connection, statement)
    rows: Sequence[Sequence[Any]] = _execute(connection, spoken, parameters, all_=True)
    if spoken.decode is not None:
        ((text,),) = rows
        rows = spoken.decode(text)
    return _read(rows, spoken.readers) if rows and spoken.readers else rows


def change(connection: sa.Connection, statement: Any, parameters: Mapping[str, Any]) -> int:
    """How many rows a statement without ``RETURNING`` has changed. Raises what SQLAlchemy raises."""
    spoken = _known.get(statement) or _speak(connection, statement)
    count: int = _execute(connection, spoken, parameters, all_=False)
    return count


def _execute(connection: sa.Connection, spoken: Spoken, parameters: Mapping[str, Any], *, all_: bool) -> Any:
    raw: Any = connection.connection.driver_connection
    try:
        cursor = raw.execute(spoken.text, spoken.arguments(parameters))
        return cursor.fetchall() if all_ else cursor.rowcount
    except Exception as error:
        kind = connection.dialect.dbapi.Error  # type: ignore[union-attr]
        if not isinstance(error, kind):
            raise
        raise sa.exc.DBAPIError.instance(
            spoken.text, None, error, kind, hide_parameters=True, dialect=connection.dialect
        ) from error


def _read(rows: Sequence[Sequence[Any]], readers: Sequence[tuple[int, Read]]) -> Sequence[Sequence[Any]]:
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for place, read in readers:
        columns[place] = [None if value is None else read(value) for value in columns[place]]
    return list(zip(*columns, strict=True))


def _speak(connection: sa.Connection, statement: Any) -> Spoken:
    dialect = connection.dialect
    compiled = statement.compile(dialect=dialect)
    types = [column.type for column in statement.exported_columns]
    packed = isinstance(statement, sa.Select) and not statement._order_by_clauses  # noqa: SLF001 - no other way
    text, names = _settled(compiled, dialect)
    readers: list[tuple[int, Read]] = []
    decode = None
    if packed:
        text = _packed(text, types)
        kinds: Any = tuple(UUID | None if isinstance(kind, sa.Uuid) else Any for kind in types)
        decode = msgspec.json.Decoder(list[tuple[kinds]]).decode
    for place, kind in enumerate(types):
        own = kind.dialect_impl(dialect)
        read = own.result_processor(dialect, None)
        if read is not None and not (packed and isinstance(kind, sa.Uuid | sa.Boolean)):
            readers.append((place, read))
    binds = []
    for bind, name in compiled.bind_names.items():
        spell = bind.type.dialect_impl(dialect).bind_processor(dialect)
        if spell is not None and name in names:
            binds.append((name, spell))
    spoken = _known[statement] = Spoken(
        text=text,
        names=names,
        binds=tuple(binds),
        readers=tuple(readers),
        decode=decode,
    )
    return spoken


def _settled(compiled: Any, dialect: Any) -> tuple[str, tuple[str, ...]]:
    """The text with its constants written out, and the names of what is left to be bound.

    SQLite plans a statement anew at each run when a parameter that it has planned by is bound, and by a bare limit it
    plans (sqlite3_bind in the C interface, sqlite3VdbeSetVarmask in its source): that took longer than to run it.
    """
    literals: dict[str, str] = {}
    for bind, name in compiled.bind_names.items():
        if not bind.required:
            spell = bind.type.dialect_impl(dialect).bind_processor(dialect)
            value = bind.effective_value
            literals[name] = _literal(value if spell is None else spell(value))
    first, *parts = str(compiled).split("?")
    order = compiled.positiontup or ()
    text = first + "".join(literals.get(name, "?") + part for name, part in zip(order, parts, strict=True))
    return text.replace("LIMIT ?", "LIMIT (? + 0)"), tuple(name for name in order if name not in literals)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(int(value)) if isinstance(value, int) else "'{}'".format(value.replace("'", "''"))


def _packed(text: str, types: Sequence[Any]) -> str:
    """The select, with all its rows in one value."""
    names = [f"c{place}" for place in range(len(types))]
    values = [
        f"json(CASE {name} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END)"
        if isinstance(kind, sa.Boolean)
        else name
        for name, kind in zip(names, types, strict=True)
    ]
    rows = f"json_group_array(json_array({', '.join(values)}))"
    return f"WITH q({', '.join(names)}) AS ({text}) SELECT {rows} FROM q"  # noqa: S608 - it was a statement before
