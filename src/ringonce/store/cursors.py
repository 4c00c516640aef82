"""Statements compiled once and run on SQLite's own cursor, with rows as SQLAlchemy would give them.

A select comes back as one text: SQLite spells all its rows as JSON while Python does something else (the interpreter's
lock is given back for each row that is fetched, and is hard to get again beside a busy event loop), and reading that
text costs a fraction of making each value by itself.
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
    constants: dict[str, Any]
    binds: tuple[tuple[str, Read], ...]
    readers: tuple[tuple[int, Read], ...]
    decode: Callable[[str], list[tuple[Any, ...]]] | None

    def arguments(self, parameters: Mapping[str, Any]) -> list[Any]:
        """The parameters as the driver takes them."""
        values = {**self.constants, **parameters}
        for name, spell in self.binds:
            values[name] = spell(values[name])
        return [values[name] for name in self.names]


_known: WeakKeyDictionary[Any, Spoken] = WeakKeyDictionary()


def fetch(connection: sa.Connection, statement: Any, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    """All rows. Raises what SQLAlchemy raises."""
    spoken = _known.get(statement) or _speak(connection, statement)
    cursor = _execute(connection, spoken, parameters, all_=True)
    if spoken.decode is not None:
        rows: Sequence[Sequence[Any]] = spoken.decode(cursor[0][0])
    else:
        rows = cursor
    return _read(rows, spoken.readers) if rows and spoken.readers else rows


def change(connection: sa.Connection, statement: Any, parameters: Mapping[str, Any]) -> int:
    """How many rows a statement without ``RETURNING`` has changed. Raises what SQLAlchemy raises."""
    spoken = _known.get(statement) or _speak(connection, statement)
    count: int = _execute(connection, spoken, parameters, all_=False)
    return count


def _execute(
    connection: sa.Connection, spoken: Spoken, parameters: Mapping[str, Any], *, all_: bool
) -> Any:
    raw: Any = connection.connection.driver_connection
    try:
        cursor = raw.execute(spoken.text, spoken.arguments(parameters))
        return cursor.fetchall() if all_ else cursor.rowcount
    except Exception as error:
        kind = connection.dialect.dbapi.Error  # type: ignore[union-attr]
        if not isinstance(error, kind):
            raise
        raise sa.exc.DBAPIError.instance(  # type: ignore[call-overload]
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
    packed = isinstance(statement, sa.Select) and not statement._order_by_clauses
    text = str(compiled)
    readers: list[tuple[int, Read]] = []
    decode = None
    if packed:
        text = _packed(text, types)
        kinds: Any = tuple(UUID | None if isinstance(kind, sa.Uuid) else Any for kind in types)
        decode = msgspec.json.Decoder(list[tuple[kinds]]).decode  # type: ignore[valid-type]
    for place, kind in enumerate(types):
        own = kind.dialect_impl(dialect)
        read = own.result_processor(dialect, None)
        if read is not None and not (packed and isinstance(kind, sa.Uuid | sa.Boolean)):
            readers.append((place, read))
    binds, constants = [], dict(compiled.params)
    for bind, name in compiled.bind_names.items():
        spell = bind.type.dialect_impl(dialect).bind_processor(dialect)
        if spell is not None and bind.required:
            binds.append((name, spell))
        elif spell is not None:
            constants[name] = spell(constants[name])
    spoken = _known[statement] = Spoken(
        text=text,
        names=tuple(compiled.positiontup or ()),
        constants=constants,
        binds=tuple(binds),
        readers=tuple(readers),
        decode=decode,
    )
    return spoken


def _packed(text: str, types: Sequence[Any]) -> str:
    """The select, with all its rows in one value."""
    names = [f"c{place}" for place in range(len(types))]
    values = [
        f"json(CASE {name} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END)" if isinstance(kind, sa.Boolean) else name
        for name, kind in zip(names, types, strict=True)
    ]
    return f"WITH q({', '.join(names)}) AS ({text}) SELECT json_group_array(json_array({', '.join(values)})) FROM q"
