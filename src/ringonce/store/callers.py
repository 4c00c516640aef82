"""The connections of applications, told apart without importing what they come from.

Each is used as its own library wants it: SQLAlchemy and Django by their savepoints and their cursors, drivers by
statements that SQLAlchemy compiled for them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import registry

from ringonce.errors import InputError
from ringonce.store.dialect import POSTGRES, SQLITE
from ringonce.store.enqueue import (
    BEGIN,
    enqueue,
    hold,
    hold_async,
    in_new_transaction,
    in_savepoint,
    on_sqlite,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.ports import Accepted, NewEvent
    from ringonce.store.enqueue import Parameters, Rows

KINDS = {"postgresql": POSTGRES, "sqlite": SQLITE}
SQLITES = ("sqlite3", "pysqlite3")
KNOWN = (
    "SQLAlchemy (Session, AsyncSession, Connection, AsyncConnection), Django (connections[alias], or the alias), "
    "psycopg, asyncpg and sqlite3"
)


@functools.cache
def speaks(spoken: str) -> Any:
    """SQLAlchemy's idea of a driver. Imported when asked for: the asynchronous ones need greenlet."""
    match spoken:
        case "sqlite":
            return registry.load("sqlite")(paramstyle="qmark")
        case "django-sqlite":
            # Django rewrites %s for SQLite.
            return registry.load("sqlite")(paramstyle="format")
        case _:
            return registry.load(f"postgresql.{spoken}")()


class Spelling:
    """One statement in the words of one driver."""

    def __init__(self, statement: Any, spoken: str) -> None:
        dialect = speaks(spoken)
        compiled = statement.compile(dialect=dialect)
        self.text = str(compiled)
        self._order: list[str] | None = compiled.positiontup
        self._binds: dict[str, Callable[[Any], Any]] = {}
        for name, bind in compiled.binds.items():
            process = bind.type.dialect_impl(dialect).bind_processor(dialect)
            if process is not None:
                self._binds[name] = process
        columns = () if isinstance(statement, sa.TextClause) else statement.exported_columns
        self._results = [c.type.dialect_impl(dialect).result_processor(dialect, None) for c in columns]

    def bind(self, parameters: Parameters) -> Any:
        """The parameters as the driver takes them: by name, or in their order."""
        same: Callable[[Any], Any] = _same
        values = {name: self._binds.get(name, same)(value) for name, value in parameters.items()}
        return values if self._order is None else [values[name] for name in self._order]

    def read(self, rows: Rows) -> Rows:
        """Rows as SQLAlchemy would give them."""
        if not self._results:
            return rows
        return [
            [value if read is None else read(value) for read, value in zip(self._results, row, strict=True)]
            for row in rows
        ]


@functools.cache
def spell(statement: Any, spoken: str) -> Spelling:
    """The statements of ``Statements`` live as long as the process, so there are few of these."""
    return Spelling(statement, spoken)


def enqueue_on(connection: Any, item: NewEvent) -> Accepted:
    """Write an event in the transaction of a blocking connection.

    Raises:
        InputError: It is no connection that is known, it is an asynchronous one, or it is in no transaction.
        ConflictError: The event id is known with another body.
        SchemaError: Its database has no tables of ours.
        SqliteBuildError: The file is used by two SQLite libraries in this process, or by an affected build in WAL.
    """
    if isinstance(connection, str):
        connection = _django_alias(connection)
    match _library(connection):
        case "sqlalchemy" if not _is_async(connection):
            return _sqlalchemy(connection, item)
        case "django":
            return _django(connection, item)
        case "psycopg" if not _is_async(connection):
            return _psycopg(connection, item)
        case "sqlite3" | "pysqlite3" as module:
            return _sqlite(connection, module, item)
        case "sqlalchemy" | "psycopg" | "asyncpg":
            raise InputError(
                "this connection is asynchronous",
                field="connection",
                mend="await enqueue_async(connection, …)",
            )
        case _:
            raise _unknown(connection)


async def enqueue_on_async(connection: Any, item: NewEvent) -> Accepted:
    """Write an event in the transaction of an asynchronous connection. Raises as ``enqueue_on``."""
    match _library(connection):
        case "sqlalchemy" if _is_async(connection):
            return await _sqlalchemy_async(connection, item)
        case "psycopg" if _is_async(connection):
            return await _psycopg_async(connection, item)
        case "asyncpg":
            return await _asyncpg(connection, item)
        case "sqlalchemy" | "psycopg" | "django" | "sqlite3" | "pysqlite3":
            raise InputError(
                "this connection is blocking",
                field="connection",
                mend="enqueue(connection, …), without await",
            )
        case _:
            raise _unknown(connection)


# --- what it is ---------------------------------------------------------------------------------------------------


def _library(connection: Any) -> str:
    """The distribution that its class, or a class that it inherits from, comes from."""
    roots = [kind.__module__.partition(".")[0] for kind in type(connection).__mro__]
    known = ("sqlalchemy", "django", "psycopg", "asyncpg", *SQLITES)
    return next((root for root in roots if root in known), "")


def _is_async(connection: Any) -> bool:
    return any(kind.__name__.startswith(("Async", "async_")) for kind in type(connection).__mro__)


def _unknown(connection: Any) -> InputError:
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    return InputError(
        f"{kind} is no connection that ringonce knows", field="connection", mend=f"there are {KNOWN}"
    )


def _outside(mend: str) -> InputError:
    return InputError(
        "it is in no transaction: the event would be stored even if your work fails",
        field="connection",
        mend=f"{mend}; or use notify()",
    )


def _django_alias(alias: str) -> Any:
    from django.db import connections

    if alias not in connections:
        raise InputError(
            f"Django has no database {alias!r}",
            field="connection",
            mend=f"there are {', '.join(connections)}",
        )
    return connections[alias]


def _kind(name: str) -> Any:
    dialect = KINDS.get(name)
    if dialect is None:
        raise InputError(
            f"{name} holds no notifications",
            field="connection",
            mend="SQLite or PostgreSQL, where ringonce's tables are",
        )
    return dialect


def _same(value: Any) -> Any:
    return value


# --- SQLAlchemy ---------------------------------------------------------------------------------------------------


def _sqlalchemy(given: Any, item: NewEvent) -> Accepted:
    if isinstance(given, sa.Engine):
        raise _unknown(given)
    return _on_connection(given if isinstance(given, sa.Connection) else given.connection(), item)


async def _sqlalchemy_async(given: Any, item: NewEvent) -> Accepted:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

    if isinstance(given, AsyncEngine):
        raise _unknown(given)
    connection = given if isinstance(given, AsyncConnection) else await given.connection()
    return await connection.run_sync(_on_connection, item)


def _on_connection(connection: sa.Connection, item: NewEvent) -> Accepted:
    dialect = _kind(connection.dialect.name)
    talk = enqueue(item, dialect)
    raw = connection.connection
    driver: Any = raw.driver_connection
    if dialect is SQLITE:
        talk = on_sqlite(talk, _library(driver) or "sqlite3")
    if not (dialect is SQLITE and driver.in_transaction):
        if raw.dbapi_connection is None or connection.dialect.detect_autocommit_setting(raw.dbapi_connection):
            raise _outside("use the connection without the isolation level AUTOCOMMIT")
        if dialect is SQLITE:
            # The driver would begin before it writes, but not before a savepoint.
            connection.exec_driver_sql(BEGIN.text)
    with connection.begin_nested():
        return hold(talk, lambda statement, values: connection.execute(statement, values).all())


# --- Django -------------------------------------------------------------------------------------------------------


def _django(connection: Any, item: NewEvent) -> Accepted:
    from django.db import transaction

    dialect = _kind(connection.vendor)
    if not connection.in_atomic_block and connection.get_autocommit():
        raise _outside("call it inside transaction.atomic()")
    talk, spoken = enqueue(item, dialect), "psycopg"
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        if dialect is SQLITE:
            talk, spoken = on_sqlite(talk, _library(connection.connection) or "sqlite3"), "django-sqlite"
        return hold(talk, _by_cursor(cursor, spoken))


def _by_cursor(cursor: Any, spoken: str) -> Callable[[Any, Parameters], Rows]:
    def execute(statement: Any, parameters: Parameters) -> Rows:
        said = spell(statement, spoken)
        cursor.execute(said.text, said.bind(parameters))
        return said.read(cursor.fetchall()) if cursor.description else ()

    return execute


# --- drivers ------------------------------------------------------------------------------------------------------


def _psycopg(connection: Any, item: NewEvent) -> Accepted:
    from psycopg import Cursor
    from psycopg.rows import tuple_row

    _check_psycopg(connection)
    # A cursor of our own: the connection's may spell rows and parameters in another way.
    with Cursor(connection, row_factory=tuple_row) as cursor:
        return hold(in_savepoint(enqueue(item, POSTGRES)), _by_cursor(cursor, "psycopg"))


async def _psycopg_async(connection: Any, item: NewEvent) -> Accepted:
    from psycopg import AsyncCursor
    from psycopg.rows import tuple_row

    _check_psycopg(connection)
    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:

        async def execute(statement: Any, parameters: Parameters) -> Rows:
            said = spell(statement, "psycopg")
            await cursor.execute(said.text, said.bind(parameters))
            return said.read(await cursor.fetchall()) if cursor.description else ()

        return await hold_async(in_savepoint(enqueue(item, POSTGRES)), execute)


def _check_psycopg(connection: Any) -> None:
    from psycopg.pq import TransactionStatus

    if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
        raise _outside("call it inside `with connection.transaction():`")


async def _asyncpg(connection: Any, item: NewEvent) -> Accepted:
    if not hasattr(connection, "is_in_transaction"):
        raise _unknown(connection)
    if not connection.is_in_transaction():
        raise _outside("call it inside `async with connection.transaction():`")

    async def execute(statement: Any, parameters: Parameters) -> Rows:
        said = spell(statement, "asyncpg")
        return said.read(await connection.fetch(said.text, *said.bind(parameters)))

    return await hold_async(in_savepoint(enqueue(item, POSTGRES)), execute)


def _sqlite(connection: Any, module: str, item: NewEvent) -> Accepted:
    talk = on_sqlite(enqueue(item, SQLITE), module)
    if connection.in_transaction:
        talk = in_savepoint(talk)
    elif connection.isolation_level is None or getattr(connection, "autocommit", -1) is True:
        raise _outside('run "BEGIN" first')
    else:
        talk = in_new_transaction(talk)
    cursor = connection.cursor()
    cursor.row_factory = None
    try:
        return hold(talk, _by_cursor(cursor, "sqlite"))
    finally:
        cursor.close()
