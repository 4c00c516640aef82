"""Statements compiled once and run on the driver itself, where it is asyncpg or SQLite's.

SQLAlchemy builds every statement, and begins and ends every transaction. Between the two its share of a statement's
processor time is larger than the driver's and the server's together, although nothing of it is needed: parameters are
arrays that asyncpg takes as they are, and its records read like rows. Of SQLite `cursors` tells. Other drivers go
through SQLAlchemy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.util import await_only

from ringonce.store import cursors
from ringonce.store.backend import DataRefusedError, LostReplyError

if TYPE_CHECKING:
    from collections.abc import Mapping

Rows: TypeAlias = Sequence[Sequence[Any]]

_PROBE = sa.text("SELECT 1")
_known: WeakKeyDictionary[Any, tuple[str, tuple[str, ...], dict[str, Any]]] = WeakKeyDictionary()


def fetch(connection: sa.Connection, statement: Any, parameters: Mapping[str, Any]) -> Rows:
    """Run a statement of fixed text; all its rows, or none where it returns none.

    A transaction is begun by its first statement, which therefore goes through SQLAlchemy; where each statement is
    one by itself, none needs to.

    Raises:
        LostReplyError: the connection broke.
        DataRefusedError: the driver can not say a value.
    """
    driver = connection.dialect.driver
    if driver == "pysqlite":
        return cursors.fetch(connection, statement, parameters)
    raw = connection.connection.driver_connection if driver == "asyncpg" else None
    if raw is None or not (raw.is_in_transaction() or _by_itself(connection)):
        result = connection.execute(statement, parameters)
        return result.all() if result.returns_rows else ()
    text, names, constants = _known.get(statement) or _compile(connection, statement)
    values = {**constants, **parameters}
    try:
        rows: Rows = await_only(raw.fetch(text, *[values[name] for name in names]))
    except Exception as error:
        if raw.is_closed():
            connection.execute(_PROBE)  # it fails, of course: so SQLAlchemy learns that its pool is stale
            raise LostReplyError(type(error).__name__) from error
        if isinstance(error, ValueError):
            raise DataRefusedError(type(error).__name__) from error
        raise
    return rows


def _by_itself(connection: sa.Connection) -> bool:
    return bool(connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT")


def _compile(connection: sa.Connection, statement: Any) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    compiled = statement.compile(dialect=connection.dialect)
    known = _known[statement] = str(compiled), tuple(compiled.positiontup or ()), dict(compiled.params)
    return known
