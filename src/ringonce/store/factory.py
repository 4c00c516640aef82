"""From a URL to a store: which database, how it is opened, which schema it has."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.errors import ConfigError
from ringonce.store.addresses import same
from ringonce.store.backend import Backend, stored_version
from ringonce.store.migrate import upgrade
from ringonce.store.sqlite import SqliteBackend, SqliteOptions
from ringonce.store.store import SqlStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.model.event import Event
    from ringonce.ports import Telemetry, Wakeup


def wall_clock() -> int:
    """Microseconds UTC."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How to open a store.

    ``journal``: ``auto``, ``wal``, ``delete``. ``synchronous``: ``full``, ``normal``. ``sqlite_module``:
    ``auto`` (pysqlite3 where installed: for processes that are ringonce's own), ``stdlib``, ``pysqlite3``.
    ``timeout``: seconds that a transaction of PostgreSQL may take with its connection.
    ``create``: an SQLite file is created and migrated when it is opened. ``outbox_kinds``: events of ours that
    somebody subscribed to; others are not written. ``pgbouncer``, ``listen``: ``auto``, ``true``, ``false``.
    """

    journal: str = "auto"
    synchronous: str = "full"
    sqlite_module: str = "auto"
    create: bool = False
    pool_size: int = 5
    pgbouncer: str = "auto"
    listen: str = "auto"
    timeout: float | None = 30.0
    outbox_kinds: frozenset[str] = frozenset()


def make_backend(url: str, options: StoreOptions) -> Backend:
    """The backend that a URL names. Raises ConfigError."""
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise ConfigError(
            "this is no database URL", field="store.url", mend="sqlite:///ringonce.db"
        ) from error
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        for name, value, known in (
            ("journal", options.journal, ("auto", "wal", "delete")),
            ("synchronous", options.synchronous, ("full", "normal")),
            ("sqlite_module", options.sqlite_module, ("auto", "stdlib", "pysqlite3")),
        ):
            if value not in known:
                raise ConfigError(
                    f"{value!r} is unknown", field=f"store.{name}", mend=f"one of {', '.join(known)}"
                )
        return SqliteBackend(
            SqliteOptions(
                path=parsed.database or ":memory:",
                create=options.create,
                journal=options.journal,
                synchronous=options.synchronous,
                module=options.sqlite_module,
            ),
            wall_clock,
        )
    if kind in {"postgresql", "postgres"}:
        driver = parsed.drivername.partition("+")[2]
        if driver not in {"", "asyncpg", "psycopg"}:
            raise ConfigError(
                f"the driver {driver} is not supported", field="store.url", mend="asyncpg or psycopg"
            )
        # SQLAlchemy's asynchronous engine needs greenlet, which comes with the extra.
        from ringonce.store.postgres import PostgresBackend

        return PostgresBackend(
            parsed.set(drivername=f"postgresql+{driver}" if driver else "postgresql"),
            pool_size=options.pool_size,
            pooled={"true": True, "false": False}.get(options.pgbouncer),
            timeout=options.timeout,
        )
    raise ConfigError(
        f"databases of kind {kind!r} are not supported",
        field="store.url",
        mend="sqlite:///… or postgresql://…",
    )


def make_store(
    url: str,
    options: StoreOptions,
    decode: Callable[[bytes], Event],
    identify: Callable[[str, str], str] = same,
) -> SqlStore:
    """A store that is not open yet. Raises ConfigError.

    ``decode`` turns a stored body into its Event; ``identify``: (channel, value) -> what makes an address one.
    """
    backend = make_backend(url, options)
    create = options.create and backend.dialect.name == "sqlite"
    return SqlStore(backend, decode, options.outbox_kinds, create=create, identify=identify)


def make_wakeup(url: str, options: StoreOptions, telemetry: Telemetry) -> Wakeup | None:
    """Hints between processes; None: there are none. Raises ConfigError."""
    if options.listen == "false":
        return None
    backend = make_backend(url, options)
    if isinstance(backend, SqliteBackend):
        if options.listen == "true":
            raise ConfigError(
                "SQLite can not tell other processes anything", field="store.listen", mend="remove it"
            )
        return None
    from ringonce.store.postgres import PostgresBackend
    from ringonce.store.wakeup import PostgresWakeup

    assert isinstance(backend, PostgresBackend)
    return PostgresWakeup(backend.url, telemetry, insist=options.listen == "true")


def open_store(url: str, *, decode: Callable[[bytes], Event], **options: Any) -> SqlStore:
    """``make_store`` with the fields of StoreOptions as keywords; call ``open()`` on what it returns."""
    return make_store(url, StoreOptions(**options), decode)


async def migrate(url: str, options: StoreOptions | None = None) -> tuple[str | None, str]:
    """Create the SQLite file where it is missing, apply missing migrations: (revision before, revision now).

    Raises:
        SchemaError: The database is newer than this program.
        StoreUnavailable: It can not be reached or written.
    """
    backend = make_backend(url, replace(options or StoreOptions(), create=True))
    try:
        return await backend.open(upgrade)
    finally:
        await backend.close()


async def schema_version(url: str, options: StoreOptions | None = None) -> str | None:
    """The revision that a database is at; None: it has no tables of ours. Raises StoreUnavailable."""
    backend = make_backend(url, options or StoreOptions())
    try:
        return await backend.open(stored_version)
    finally:
        await backend.close()
