"""B06: asking for a notification inside an API call neither blocks on the provider nor touches the caller's work."""

from collections.abc import Callable, Iterator

import pysqlite3.dbapi2
import pytest
import sqlalchemy as sa

from ringonce.errors import ConflictError, InputError, RingonceError, SchemaError
from ringonce.vendors.script import plan
from ringonce.vendors.webhook import WebhookReceiver
from tests.requirements.conftest import SECRET, Start, System, calls, webhook

HELLO = {"content": {"text": "hello"}}


@pytest.fixture
async def system(start: Start, receiver: WebhookReceiver, store_url: str) -> System:
    """A ringonce whose only channel is the webhook."""
    return await start(hook=webhook(backoff={"kind": "fixed", "base": "10ms", "jitter": 0}))


@pytest.fixture
def application(system: System, store_url: str) -> Iterator[sa.Engine]:
    """The application's own engine, on the database that holds ringonce's tables, with a table of its own."""
    if store_url.startswith("sqlite"):
        engine = sa.create_engine(store_url, module=pysqlite3.dbapi2)
    else:
        engine = sa.create_engine(store_url.replace("+asyncpg", "+psycopg"))
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE orders (id TEXT)"))
    yield engine
    engine.dispose()


def orders(application: sa.Engine) -> list[str]:
    """What the application has committed."""
    with application.connect() as connection:
        return list(connection.execute(sa.text("SELECT id FROM orders ORDER BY id")).scalars())


async def test_B06_a_the_provider_is_not_asked_inside_the_call(
    system: System, application: sa.Engine, receiver: WebhookReceiver
) -> None:
    """The state change and the event are committed without a call; the send happens afterwards, once."""
    to = {"hook": f"{receiver.url}/ada"}
    with application.begin() as connection:
        connection.execute(sa.text("INSERT INTO orders VALUES ('o-1')"))
        system.ring.enqueue(connection, event_id="e-1", to=to, **HELLO)
    assert receiver.ledger.entries == []
    assert orders(application) == ["o-1"]
    await system.work()
    assert list(calls(receiver).values()) == [1]


async def test_B06_b_a_provider_that_fails_rolls_nothing_back(system: System, application: sa.Engine) -> None:
    """Whatever the provider answers, the caller's committed work stays."""
    with WebhookReceiver([SECRET], plan=plan(["500"])) as broken:
        await system.reconfigure(hook={"max_attempts": 1})
        with application.begin() as connection:
            connection.execute(sa.text("INSERT INTO orders VALUES ('o-1')"))
            system.ring.enqueue(connection, to={"hook": broken.url}, **HELLO)
        await system.work()
        (row,) = await system.ring.search()
    assert (row.state.status.value, orders(application)) == ("failed", ["o-1"])


async def test_B06_c_it_validates_before_its_first_statement(system: System, application: sa.Engine) -> None:
    """A wrong structure is refused without a word to the database."""
    said: list[str] = []
    with application.begin() as connection:
        connection.execute(sa.text("INSERT INTO orders VALUES ('o-1')"))
        sa.event.listen(
            application, "before_cursor_execute", lambda _c, _u, statement, *_: said.append(statement)
        )
        with pytest.raises(InputError):
            system.ring.enqueue(connection, to={"nowhere": "ada"}, **HELLO)
        assert said == []
    assert orders(application) == ["o-1"]


def conflict(system: System, connection: sa.Connection) -> None:
    """A known id with another body."""
    system.ring.enqueue(connection, event_id="e-1", to={"hook": "https://example.com/1"}, **HELLO)
    system.ring.enqueue(connection, event_id="e-1", to={"hook": "https://example.com/2"}, **HELLO)


def no_tables(system: System, connection: sa.Connection) -> None:
    """A database that was never migrated."""
    connection.execute(sa.text("ALTER TABLE ringonce_events RENAME TO elsewhere"))
    try:
        system.ring.enqueue(connection, to={"hook": "https://example.com/1"}, **HELLO)
    finally:
        connection.execute(sa.text("ALTER TABLE elsewhere RENAME TO ringonce_events"))


@pytest.mark.parametrize(("fault", "error"), [(conflict, ConflictError), (no_tables, SchemaError)])
async def test_B06_d_a_failing_enqueue_does_not_poison_the_transaction(
    system: System,
    application: sa.Engine,
    fault: Callable[[System, sa.Connection], None],
    error: type[RingonceError],
) -> None:
    """After a refusal by the database the transaction goes on and is committed."""
    with application.begin() as connection:
        connection.execute(sa.text("INSERT INTO orders VALUES ('o-1')"))
        with pytest.raises(error):
            fault(system, connection)
        connection.execute(sa.text("INSERT INTO orders VALUES ('o-2')"))
    assert orders(application) == ["o-1", "o-2"]
