"""One event inside the caller's own transaction: what is asked of the database, whatever speaks to it.

A conversation is a generator that yields statements and is sent their rows, so blocking and asynchronous drivers
hold the same one. It writes one row of ``events``, and nothing else: a worker expands it.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import sqlalchemy as sa

from ringonce.errors import ConflictError, SchemaError
from ringonce.ports import Accepted
from ringonce.store.backend import MIGRATE, UNKNOWN_OBJECT
from ringonce.store.dialect import SQLITE
from ringonce.store.factory import wall_clock
from ringonce.store.intake import EVENT, briefs_where, cleaned, event_values, make_brief, targets
from ringonce.store.libraries import SOUND, application_uses, refuse_wal
from ringonce.store.schema import events, notifications

if TYPE_CHECKING:
    from ringonce.ports import NewEvent
    from ringonce.store.dialect import Dialect

Rows: TypeAlias = Sequence[Sequence[Any]]
Parameters: TypeAlias = dict[str, Any]
Talk: TypeAlias = Generator[tuple[Any, Parameters], Rows, Accepted]

# Written out, they may be repeated: a savepoint hides an outer one of its name and gives it back when it ends.
SAVEPOINT = sa.text("SAVEPOINT ringonce_enqueue")
BACK = sa.text("ROLLBACK TO SAVEPOINT ringonce_enqueue")
RELEASE = sa.text("RELEASE SAVEPOINT ringonce_enqueue")
BEGIN = sa.text("BEGIN IMMEDIATE")
ROLLBACK = sa.text("ROLLBACK")
FILES = sa.text("PRAGMA database_list")
JOURNAL = sa.text("PRAGMA journal_mode")
BUILD = sa.text("SELECT sqlite_version()")
PRUNED = 3
"""How often an event may vanish between being in the way and being read, before that is no coincidence."""


class Statements:
    """Of one kind of database, built once from the same tables as everything else."""

    def __init__(self, dialect: Dialect) -> None:
        values: dict[str, Any] = {
            name: sa.bindparam(f"b_{name}", type_=events.c[name].type) for name in EVENT
        }
        values["created_at"] = dialect.arrival
        new = dialect.insert(events).values(values)
        self.insert = new.on_conflict_do_nothing(index_elements=["key"]).returning(events.c.key)
        key = sa.bindparam("b_key", type_=events.c.key.type)
        same = events.c.body_hash == sa.bindparam("b_body_hash", type_=events.c.body_hash.type)
        empty = (events.c.body == sa.literal_column("''")).label("pruned")
        self.known = sa.select(same, events.c.expanded, empty).where(events.c.key == key)
        self.briefs = briefs_where(notifications.c.event_key == key)


@functools.cache
def statements(dialect: Dialect) -> Statements:
    """The statements for a kind of database."""
    return Statements(dialect)


def enqueue(item: NewEvent, dialect: Dialect) -> Talk:
    """Store an event, or find the answer that it was given before.

    Raises:
        ConflictError: Its id is known with another body.
    """
    said = statements(dialect)
    total = len(targets(cleaned(item.event)))
    row = zip(EVENT, event_values(item, total, None, expanded=False), strict=True)
    values = {f"b_{name}": value for name, value in row if name != "created_at"}
    # A server has a clock of its own.
    values["now"] = wall_clock() if dialect is SQLITE else None
    event_id = item.event.event_id
    for _ in range(PRUNED):
        if (yield said.insert, values):
            return Accepted(event_id, expanding=True)
        # In a second statement: what was in the way was perhaps committed after the first one had begun.
        known = yield said.known, {"b_key": item.key, "b_body_hash": item.body_hash}
        if known:
            break
    else:
        raise ConflictError(f"event {event_id} comes and goes", field="event_id", mend="try again")
    ((same, expanded, pruned),) = known
    if not same:
        raise ConflictError(
            f"event {event_id} was accepted with another body", field="event_id", mend="use a new event_id"
        )
    found = yield said.briefs, {"b_key": item.key}
    briefs = tuple(make_brief(*values) for _, *values in found)
    return Accepted(
        event_id, duplicate=True, pruned=bool(pruned), expanding=not expanded, notifications=briefs
    )


def in_savepoint(talk: Talk) -> Talk:
    """Hold a conversation whose failure leaves the transaction as it was."""
    yield SAVEPOINT, {}
    try:
        answer = yield from talk
    except Exception:
        # Of two errors the first one tells more: the second says at most that the connection is gone.
        with suppress(Exception):
            yield BACK, {}
            yield RELEASE, {}
        raise
    yield RELEASE, {}
    return answer


def in_new_transaction(talk: Talk) -> Talk:
    """Hold a conversation that begins the transaction, as Python's SQLite drivers do before they write.

    IMMEDIATE: it is going to write, and waiting for the lock now can not fail later.
    """
    yield BEGIN, {}
    try:
        return (yield from talk)
    except Exception:
        with suppress(Exception):
            yield ROLLBACK, {}
        raise


def on_sqlite(talk: Talk, module: str) -> Talk:
    """Hold a conversation with a file that this library (``sqlite3``, ``pysqlite3``) may safely write to.

    Raises:
        SqliteBuildError: This process uses the file through another library too, or the build is affected.
    """
    files = [path for _, _, path in (yield FILES, {}) if path]
    for path in files:
        application_uses(path, module)
    ((text,),) = yield BUILD, {}
    version = tuple(map(int, text.split(".")))
    if files and version < SOUND:
        ((mode,),) = yield JOURNAL, {}
        if mode == "wal":
            raise refuse_wal(files[0], version, "is")
    return (yield from talk)


def hold(talk: Talk, execute: Callable[[Any, Parameters], Rows]) -> Accepted:
    """Hold a conversation. What a driver raises is raised as it is, but for tables that are missing."""
    try:
        ask = next(talk)
        while True:
            try:
                rows = execute(*ask)
            except Exception as error:  # noqa: BLE001 - the conversation decides
                ask = talk.throw(told(error))
            else:
                ask = talk.send(rows)
    except StopIteration as end:
        answer: Accepted = end.value
        return answer


async def hold_async(talk: Talk, execute: Callable[[Any, Parameters], Awaitable[Rows]]) -> Accepted:
    """The same with an asynchronous driver."""
    try:
        ask = next(talk)
        while True:
            try:
                rows = await execute(*ask)
            except Exception as error:  # noqa: BLE001 - the conversation decides
                ask = talk.throw(told(error))
            else:
                ask = talk.send(rows)
    except StopIteration as end:
        answer: Accepted = end.value
        return answer


def told(error: Exception) -> Exception:
    """The driver's error, which the caller knows how to handle; SchemaError where our tables are missing."""
    cause = getattr(error, "orig", None) or error.__cause__ or error
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or ""
    if state in UNKNOWN_OBJECT or "no such table" in str(cause) or "no such column" in str(cause):
        words = str(cause).strip().split("\n")[0]
        missing = SchemaError(
            f"this connection's database: {words}", mend=f"{MIGRATE} with its URL as store.url"
        )
        missing.__cause__ = error
        return missing
    return error
