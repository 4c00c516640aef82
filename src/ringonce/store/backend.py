"""How work reaches a database: one transaction per call, retried whole when the database says "again"."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import sqlalchemy as sa

from ringonce.errors import RingonceError, SchemaError, StoreError, StoreUnavailable
from ringonce.store.schema import VERSION_TABLE

if TYPE_CHECKING:
    from ringonce.store.dialect import Dialect

T = TypeVar("T")
Work: TypeAlias = Callable[[sa.Connection], T]

PATIENCE = 20.0
"""Seconds after which a transaction that never gets through is given up."""
MIGRATE = "run `ringonce migrate`"
REACH = "is the server running, and is store.url right?"

# SQLSTATE classes: what the data are to blame for, and what time may heal (PostgreSQL manual, appendix A).
DATA = ("22", "23", "54")
AWAY = ("08", "28", "3D", "53", "57", "58", "25006", "42501")
UNKNOWN_OBJECT = ("42P01", "42703")


class DataRefusedError(StoreError):
    """The database does not take these values: one row's fault, never its neighbours'.

    The driver's words are left out: they quote the value, and it may be an address.
    """

    def __init__(self, why: str) -> None:
        super().__init__(f"the database refuses a value ({why})")


class AgainError(Exception):
    """The transaction was rolled back and may be repeated as it is."""


class LostReplyError(Exception):
    """The connection broke: the transaction is gone, or done and its reply lost."""


class Backend(Protocol):
    """A database that is open."""

    dialect: Dialect

    where: str

    async def open(self, prepare: Work[T]) -> T:
        """Connect, check server or build, then run ``prepare`` (a check of the schema, or a migration)."""
        ...

    async def close(self) -> None:
        """Give all connections back."""
        ...

    async def run(self, work: Work[T], *, write: bool = True, repeat: bool = True, single: bool = False) -> T:
        """Run ``work`` in one transaction.

        ``repeat`` False: it is not begun anew after a lost reply, for the first one may have been done. ``single``:
        it is one statement where statements can be fused, and so needs no word about begin and commit.
        """
        ...

    def clock(self, now: int | None) -> int | None:
        """The time to bind: as given, or None where the database's own clock is asked."""
        ...


def wait(attempt: int) -> float:
    """Seconds before the next attempt: 5 ms doubling to 250 ms, with jitter so that rivals part."""
    spread: float = random.uniform(0.5, 1.5)  # noqa: S311 - jitter, not a secret
    return min(0.25, 0.005 * 2.0 ** min(attempt, 10)) * spread


def translate(error: BaseException, dialect: Dialect, where: str) -> Exception:
    """What a driver's exception means to us. ``where``: the database, without its password."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig is not None else error
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or ""
    words = str(cause).strip().split("\n")[0]
    if state in dialect.retry:
        return AgainError(words)
    if isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated:
        return LostReplyError(words)
    if state.startswith(DATA) or isinstance(error, UnicodeError | OverflowError):
        return DataRefusedError(state or type(error).__name__)
    if state.startswith(AWAY):
        read_only = state == "25006"
        mend = "this server is read-only: name the primary in store.url" if read_only else REACH
        return StoreUnavailable(f"{where}: {words}", mend=mend)
    if state in UNKNOWN_OBJECT:
        return SchemaError(f"{where}: {words}", mend=MIGRATE)
    if isinstance(error, OSError | TimeoutError):
        return StoreUnavailable(
            f"{where} can not be reached: {words}", mend="is the server running, is the URL right?"
        )
    if isinstance(error, sa.exc.DBAPIError):
        return _by_words(words, where) or _by_kind(error, words, where)
    if isinstance(error, RingonceError) or not isinstance(error, sa.exc.SQLAlchemyError):
        return error if isinstance(error, Exception) else StoreError(words)
    return StoreUnavailable(f"{where}: {words}")


# SQLite tells by words (sqlite3ErrStr in its main.c); extended codes are not available on Python 3.10 and older
# drivers, and pysqlite3 has none.
WORDS: tuple[tuple[str, str], ...] = (
    ("readonly database", "the file or its folder is read-only for this user: chmod or chown them"),
    ("disk is full", "free some space; nothing is lost"),
    ("unable to open database file", "does the folder exist, and may this user write in it?"),
    ("disk I/O error", "the disk reported an error; see the system log"),
    ("file is not a database", "store.url names a file that is no SQLite database, or an encrypted one"),
    ("database disk image is malformed", "restore it from a backup, or run `sqlite3 FILE .recover`"),
)


def _by_words(words: str, where: str) -> Exception | None:
    if "locked" in words or "busy" in words:
        return AgainError(words)
    if "no such table" in words or "no such column" in words:
        return SchemaError(f"{where}: {words}", mend=MIGRATE)
    if "too big" in words or "too large" in words:
        return DataRefusedError("too big")
    for part, mend in WORDS:
        if part in words:
            return StoreUnavailable(f"{where}: {part}", mend=mend)
    return None


def _by_kind(error: sa.exc.DBAPIError, words: str, where: str) -> Exception:
    if isinstance(error, sa.exc.IntegrityError | sa.exc.DataError):
        return DataRefusedError(type(error).__name__)
    if isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError):
        return StoreUnavailable(f"{where}: {words}", mend=REACH)
    return error


def check_schema(connection: sa.Connection, where: str) -> None:
    """Compare the database's schema with ours. Raises SchemaError with the mend."""
    found = stored_version(connection)
    known = revisions()
    if found is None:
        raise SchemaError(f"{where} has no tables of ringonce", mend=MIGRATE)
    if found not in known:
        raise SchemaError(
            f"{where} has schema {found}, which is newer than this program knows ({known[-1]})",
            mend="upgrade ringonce here too",
        )
    if found != known[-1]:
        raise SchemaError(f"{where} has schema {found}, this program needs {known[-1]}", mend=MIGRATE)


def revisions() -> tuple[str, ...]:
    """The names of all migrations, oldest first. Read from the file names, so that Alembic is not imported."""
    from importlib.resources import files

    folder = files("ringonce.store.migrations").joinpath("versions")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name[:4].isdigit())
    return tuple(name.removesuffix(".py").split("_")[0] for name in names)


def stored_version(connection: sa.Connection) -> str | None:
    """The revision that the database is at."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    version = sa.table(VERSION_TABLE, sa.column("version_num", sa.Text))
    return connection.execute(sa.select(version.c.version_num)).scalar_one_or_none()
