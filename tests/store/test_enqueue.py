"""An event inside the caller's own transaction, with every library, on both databases."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import psycopg
import pytest
import sqlalchemy as sa

from ringonce.app import Ringonce
from ringonce.errors import ConflictError, InputError, SchemaError
from ringonce.store.schema import events
from tests.servers.postgres import fresh_database
from tests.store.callers import CALLERS, Caller

TO = {"to": {"ok": "4815162342"}, "content": {"text": "hello"}}
Open: TypeAlias = Callable[[], Awaitable[Caller]]


@pytest.fixture(params=CALLERS)
def kind(request: pytest.FixtureRequest) -> str:
    """A library and a database."""
    return str(request.param)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh database with our tables and one of the application's."""
    own = "CREATE TABLE work (name TEXT)"
    if kind.startswith("sqlite"):
        path = request.getfixturevalue("tmp_path") / "shop.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        # Without a pool: a connection that is given back is closed.
        engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool)
        with contextlib.closing(engine.connect()) as connection:
            connection.execute(sa.text(own))
        yield f"sqlite:///{path}"
    else:
        template = request.getfixturevalue("pg_template")
        with fresh_database(request.getfixturevalue("pg_server"), template.name) as database:
            with database.connect() as connection:
                connection.execute(own)
            yield database.url()


@pytest.fixture
def ringonce(url: str) -> Ringonce:
    """The library, not open."""
    store = {"url": url, "sqlite_module": "stdlib"}
    return Ringonce({"store": store, "channels": {"ok": {"provider": "sandbox"}}})


@pytest.fixture
async def open_caller(kind: str, url: str) -> AsyncIterator[Open]:
    """Opens connections of the application."""
    opened: list[Caller] = []

    async def open_() -> Caller:
        caller = CALLERS[kind]()
        await caller.open(url)
        opened.append(caller)
        return caller

    yield open_
    for caller in opened:
        await caller.close()


@pytest.fixture
async def caller(open_caller: Open) -> Caller:
    """An application that has begun a transaction and done some work in it."""
    caller = await open_caller()
    await caller.begin()
    await caller.execute("INSERT INTO work VALUES ('before')")
    return caller


def rows(url: str, table: str = "ringonce_events", columns: str = "*") -> list[Any]:
    """What is committed."""
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        found = connection.execute(sa.text(f"SELECT {columns} FROM {table}")).all()
    engine.dispose()
    return [tuple(row) for row in found]


async def delivered(ringonce: Ringonce) -> list[str]:
    """Let a worker do all there is to do; the statuses of all notifications."""
    async with ringonce:
        await ringonce.run_worker(drain=True)
        return [row.state.status.value for row in await ringonce.search()]


async def test_committed_is_delivered_once(caller: Caller, ringonce: Ringonce, url: str) -> None:
    """What was committed with the caller's work is delivered, once."""
    accepted = await caller.enqueue(ringonce, event_id="e-1", **TO)
    assert (accepted.event_id, accepted.duplicate, accepted.expanding) == ("e-1", False, True)
    await caller.commit()
    assert await delivered(ringonce) == ["sent"]
    assert rows(url, "work") == [("before",)]


async def test_rolled_back_never_happened(caller: Caller, ringonce: Ringonce, url: str) -> None:
    """With the caller's work the event is gone, and its id is free."""
    await caller.enqueue(ringonce, event_id="e-1", **TO)
    await caller.rollback()
    assert (rows(url), rows(url, "work")) == ([], [])
    await caller.begin()
    assert not (
        await caller.enqueue(ringonce, event_id="e-1", content={"text": "other"}, to=TO["to"])
    ).duplicate
    await caller.commit()


@pytest.mark.parametrize("ending", ["commit", "rollback"])
async def test_first_in_its_transaction(ringonce: Ringonce, url: str, open_caller: Open, ending: str) -> None:
    """Where it is the caller's first statement, it begins the transaction that the caller ends."""
    caller = await open_caller()
    await caller.begin()
    await caller.enqueue(ringonce, event_id="e-1", **TO)
    assert rows(url) == []
    await (caller.commit() if ending == "commit" else caller.rollback())
    assert len(rows(url)) == (1 if ending == "commit" else 0)


async def test_nothing_is_seen_before_the_commit(caller: Caller, ringonce: Ringonce, url: str) -> None:
    """A connection that is lost before the commit takes the event along."""
    await caller.enqueue(ringonce, event_id="e-1", **TO)
    if url.startswith("postgresql"):
        assert rows(url) == []
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            with contextlib.suppress(Exception):
                await caller.commit()
    else:
        await caller.rollback()
    assert rows(url) == []


async def test_the_row_is_the_one_that_acceptance_writes(
    caller: Caller, ringonce: Ringonce, url: str
) -> None:
    """A fan-out that acceptance leaves to a worker is stored alike, whichever way it comes in."""
    names = ", ".join(column.name for column in events.c if column.name != "created_at")
    body = {
        "event_id": "e-1",
        "type": "order.shipped",
        "tenant": "acme",
        "recipients": [f"r-{number}" for number in range(101)],
        "content": {"title": "Здравствуйте", "text": "100 % shipped: $1 ? :x"},
        "subject": "order:42",
        "thread": "t",
        "priority": "high",
        "collapse": "c",
        "data": {"n": 1},
    }
    await caller.enqueue(ringonce, **body)
    await caller.commit()
    ours = rows(url, columns=names)
    await caller.begin()
    await caller.execute("DELETE FROM ringonce_events")
    await caller.commit()
    async with ringonce:
        await ringonce.notify(body)
    assert ours == rows(url, columns=names)


async def test_known_event_gets_its_first_answer(caller: Caller, ringonce: Ringonce, url: str) -> None:
    """The same event again: a duplicate, in the same transaction and after its delivery."""
    await caller.enqueue(ringonce, event_id="e-1", **TO)
    again = await caller.enqueue(ringonce, event_id="e-1", **TO)
    assert (again.duplicate, again.expanding, again.notifications) == (True, True, ())
    await caller.commit()
    assert await delivered(ringonce) == ["sent"]
    await caller.begin()
    late = await caller.enqueue(ringonce, event_id="e-1", **TO)
    await caller.commit()
    assert (late.duplicate, late.expanding) == (True, False)
    async with ringonce:
        (row,) = await ringonce.search()
    (brief,) = late.notifications
    assert (brief.id, brief.recipient, brief.channel, brief.status.value, brief.final) == (
        *(row.id, row.recipient, "ok", "sent", True),
    )
    assert len(rows(url)) == 1


async def test_other_body_is_refused_and_the_transaction_goes_on(
    caller: Caller, ringonce: Ringonce, url: str
) -> None:
    """A known id with another body is a conflict; what the caller did before and does afterwards is committed."""
    await caller.enqueue(ringonce, event_id="e-1", **TO)
    with pytest.raises(ConflictError):
        await caller.enqueue(ringonce, event_id="e-1", to=TO["to"], content={"text": "other"})
    await caller.execute("INSERT INTO work VALUES ('after')")
    await caller.commit()
    assert rows(url, "work") == [("before",), ("after",)]
    assert len(rows(url)) == 1


async def test_bad_body_is_refused_and_the_transaction_goes_on(
    caller: Caller, ringonce: Ringonce, url: str
) -> None:
    """A wrong structure costs the caller nothing but the exception."""
    with pytest.raises(InputError) as caught:
        await caller.enqueue(ringonce, to={"nowhere": "1"}, content={"text": "x"})
    assert caught.value.field == "to"
    await caller.execute("INSERT INTO work VALUES ('after')")
    await caller.commit()
    assert (rows(url), rows(url, "work")) == ([], [("before",), ("after",)])


async def test_missing_tables_are_told_and_the_transaction_goes_on(
    caller: Caller, ringonce: Ringonce, url: str
) -> None:
    """Without our tables the caller is told to migrate, and its transaction stays usable."""
    await caller.execute("ALTER TABLE ringonce_events RENAME TO elsewhere")
    with pytest.raises(SchemaError, match="ringonce migrate"):
        await caller.enqueue(ringonce, **TO)
    await caller.execute("INSERT INTO work VALUES ('after')")
    await caller.commit()
    assert rows(url, "work") == [("before",), ("after",)]


@pytest.mark.parametrize("ending", ["commit", "rollback"])
async def test_two_transactions_with_one_event(
    caller: Caller, ringonce: Ringonce, url: str, open_caller: Open, ending: str
) -> None:
    """The second waits for the first to end: then it is a duplicate, or the first of its kind."""
    await caller.enqueue(ringonce, event_id="e-1", **TO)
    other = await open_caller()
    await other.begin()
    second = asyncio.create_task(other.enqueue(ringonce, event_id="e-1", **TO))
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as admin:
            waits = (
                "SELECT 1 FROM pg_stat_activity "
                "WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            while not admin.execute(waits).fetchone():  # noqa: ASYNC110 - a server has no event for it
                await asyncio.sleep(0.01)
    await (caller.commit() if ending == "commit" else caller.rollback())
    assert (await second).duplicate is (ending == "commit")
    await other.commit()
    assert len(rows(url)) == 1
