"""Hints between processes: LISTEN and NOTIFY on connections of their own, watched."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

from ringonce.app import Ringonce
from ringonce.engine import dispatch, duties
from ringonce.errors import ConfigError
from ringonce.store import StoreOptions, line_asyncpg, line_psycopg, make_wakeup, wakeup
from ringonce.store.wakeup import HINTS, PostgresWakeup, decode, encode
from ringonce.telemetry import Telemetry
from tests.servers.postgres import Database
from tests.servers.sockets import Peer, serving
from tests.store.kit import told

PATIENCE = 90.0
EVERYTHING: frozenset[str] = frozenset()
CHANNELS = {"ok": {"provider": "sandbox"}}
TO = {"to": {"ok": "ada"}, "content": {"text": "hello"}}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is ever late: whoever is taken for dead is replaced, and then everything may have happened."""
    for module, name in (
        (wakeup, "ECHO_WITHIN"),
        (wakeup, "OPEN_WITHIN"),
        (wakeup, "LAST_HINT"),
        (line_asyncpg, "CONNECT_WITHIN"),
        (line_psycopg, "CONNECT_WITHIN"),
    ):
        monkeypatch.setattr(module, name, PATIENCE)


class Counting(Telemetry):
    """Says when a hint has gone out: its receiver may have it before its sender knows."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = asyncio.Event()

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        """Add to a counter."""
        super().count(name, value, **labels)
        if labels.get("direction") == "sent":
            self.sent.set()


@dataclass
class Ear:
    """A wakeup that listens, what it has heard, and how it is."""

    wakeup: PostgresWakeup
    telemetry: Counting
    heard: "asyncio.Queue[frozenset[str]]" = field(default_factory=asyncio.Queue)

    async def hears(self) -> frozenset[str]:
        """The next hint."""
        async with asyncio.timeout(PATIENCE):
            return await self.heard.get()

    async def told(self) -> None:
        """A hint has gone out, and its connection is free again."""
        async with asyncio.timeout(PATIENCE):
            await self.telemetry.sent.wait()


@asynccontextmanager
async def listening(url: str, **options: str) -> AsyncIterator[Ear]:
    """Somebody who listens; the first thing that is heard is that anything may have happened until now."""
    telemetry = Counting()
    made = make_wakeup(url, StoreOptions(**options), telemetry)
    assert isinstance(made, PostgresWakeup)
    ear = Ear(made, telemetry)
    made.listen(ear.heard.put_nowait)
    try:
        yield ear
    finally:
        await made.close()


@asynccontextmanager
async def speaking(url: str) -> AsyncIterator[Ear]:
    """Somebody who only tells others."""
    telemetry = Counting()
    made = make_wakeup(url, StoreOptions(), telemetry)
    assert isinstance(made, PostgresWakeup)
    try:
        yield Ear(made, telemetry)
    finally:
        await made.close()


@pytest.fixture(params=["asyncpg", "psycopg"])
def url(request: pytest.FixtureRequest, pg_database: Database) -> str:
    """An empty database, by either driver."""
    return pg_database.url(request.param)


async def test_others_hear_which_channels(url: str) -> None:
    """A hint names channels, arrives in other processes, and not where it came from."""
    async with listening(url) as one, listening(url) as other:
        assert await one.hears() == EVERYTHING
        assert await other.hears() == EVERYTHING
        one.wakeup.hint({"email", "push it"})
        assert await other.hears() == {"email", "push it"}
        other.wakeup.hint()
        assert await one.hears() == EVERYTHING  # and not its own, which was there before
        assert one.heard.empty()


async def test_hints_of_one_moment_are_one(url: str) -> None:
    """Many hints while one is under way become one more, with all their channels."""
    async with listening(url) as ear, speaking(url) as mouth:
        await ear.hears()
        for number in range(50):
            mouth.wakeup.hint({f"c{number}"})
        assert await ear.hears() == {f"c{number}" for number in range(50)}
        await mouth.wakeup.close()  # which sends whatever there is left
        assert mouth.telemetry.value("ringonce_hints_total", direction="sent") == 1


async def test_closing_sends_the_last_hint(url: str) -> None:
    """A process that accepts and ends at once has told the others."""
    async with listening(url) as ear:
        await ear.hears()
        async with speaking(url) as mouth:
            mouth.wakeup.hint({"email"})
        assert await ear.hears() == {"email"}


async def test_a_killed_listener_comes_back(pg_database: Database, url: str) -> None:
    """The server ends the listening connection: it is opened again, and whatever was missed is looked for."""
    async with listening(url) as ear, speaking(url) as mouth:
        await ear.hears()
        assert ear.telemetry.value("ringonce_listening") == 1
        with pg_database.connect() as admin:
            killed = admin.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name = 'ringonce-hints'"
            ).fetchone()
        assert killed == (2,)  # the one that listens, and the one by which it tells itself
        assert await ear.hears() == EVERYTHING
        mouth.wakeup.hint({"email"})
        assert await ear.hears() == {"email"}


async def test_a_killed_speaker_says_it_again(pg_database: Database, url: str) -> None:
    """The server ended the speaking connection while nothing was said: the next hint arrives all the same."""
    async with listening(url) as ear, speaking(url) as mouth:
        await ear.hears()
        mouth.wakeup.hint({"first"})
        assert await ear.hears() == {"first"}
        await mouth.told()
        with pg_database.connect() as admin:
            killed = admin.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND query LIKE '%NOTIFY%first%' AND pid <> pg_backend_pid()"
            ).fetchall()
        assert killed == [(True,)]
        mouth.wakeup.hint({"second"})
        assert await ear.hears() == {"second"}


async def test_a_half_open_listener_is_noticed(
    pg_database: Database, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is open and carries nothing any more: what it tells itself stays away, so it is replaced."""
    monkeypatch.setattr(wakeup, "PING_EVERY", 0.05)
    dead = threading.Event()

    def carry(peer: Peer) -> None:
        """Both ways, until it is dead: then what the server says is lost. Later connections live."""
        import socket

        mute = not dead.is_set()
        with socket.create_connection(("127.0.0.1", pg_database.port)) as server:

            def back() -> None:
                while data := server.recv(65536):
                    if not (mute and dead.is_set()):
                        peer.sock.sendall(data)

            thread = threading.Thread(target=back)
            thread.start()
            try:
                while data := peer.sock.recv(65536):
                    server.sendall(data)
            finally:
                server.shutdown(socket.SHUT_RDWR)
                thread.join()

    with serving(carry) as proxy:
        through = sa.make_url(url).set(port=proxy.port).render_as_string(hide_password=False)
        async with listening(through) as ear, speaking(url) as mouth:
            await ear.hears()
            dead.set()
            monkeypatch.setattr(wakeup, "ECHO_WITHIN", 1.0)
            assert await ear.hears() == EVERYTHING
            monkeypatch.setattr(wakeup, "ECHO_WITHIN", PATIENCE)
            mouth.wakeup.hint({"email"})
            assert await ear.hears() == {"email"}


async def test_a_server_that_is_away_is_waited_for(
    pg_database: Database, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """While nobody can be reached, one line says so, hints are dropped, and nothing is raised."""
    caplog.set_level(logging.INFO, "ringonce.store")
    away = sa.make_url(url).set(port=1).render_as_string(hide_password=False)
    polls = told(caplog, "polls")
    async with listening(away) as ear:
        ear.wakeup.hint({"email"})
        async with asyncio.timeout(PATIENCE):
            await polls.wait()
    lines = [record.message for record in caplog.records if "polls" in record.message]
    assert len(lines) == 1
    assert pg_database.password not in caplog.text
    assert ear.telemetry.value("ringonce_listening") == 0


@pytest.fixture
async def opened(url: str) -> AsyncIterator[Callable[[], Any]]:
    """Makes libraries on one migrated database, as processes of their own would."""
    async with AsyncExitStack() as stack:

        async def make(**store: object) -> Ringonce:
            return await stack.enter_async_context(
                Ringonce(
                    {
                        "store": {"url": url, **store},
                        "channels": CHANNELS,
                        "outbox": {"events": ["notification.dispatched"]},
                    }
                )
            )

        await Ringonce({"store": {"url": url}}).migrate()
        yield make


@pytest.fixture
def never_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has found nothing looks again when it is woken, and never by itself."""
    monkeypatch.setattr(dispatch, "POLL_BUSY", 3_600.0)
    monkeypatch.setattr(dispatch, "POLL_IDLE", 3_600.0)
    monkeypatch.setattr(duties, "EXPAND_IDLE", 3_600.0)


@asynccontextmanager
async def at_work(ringonce: Ringonce) -> AsyncIterator["asyncio.Queue[str]"]:
    """A worker that listens; something for each notification that it sent."""
    sent: asyncio.Queue[str] = asyncio.Queue()
    ringonce.subscribe(
        lambda event: sent.put_nowait(event.kind) if event.kind == "notification.dispatched" else None
    )
    stop, hears = asyncio.Event(), asyncio.Event()
    ringonce.engine.listen(lambda _: hears.set())  # once it listens, it looks for whatever there is
    worker = asyncio.ensure_future(ringonce.run_worker(stop))
    async with asyncio.timeout(PATIENCE):
        await hears.wait()
    try:
        yield sent
    finally:
        stop.set()
        await worker


async def test_accepted_elsewhere_is_sent_by_the_hint(opened: Any, never_polling: None) -> None:
    """What another process accepts is sent by a worker that does not poll: small events, and those with a fan-out."""
    sender, receiver = await opened(), await opened()
    async with at_work(receiver) as sent:
        await sender.notify(event_id="small", **TO)
        async with asyncio.timeout(PATIENCE):
            await sent.get()
            people = [{"id": f"r{n}", "addresses": {"ok": f"a{n}"}} for n in range(120)]
            await sender.notify(event_id="large", recipients=people, content={"text": "x"})
            for _ in range(120):
                await sent.get()


async def test_inside_the_callers_transaction_nothing_is_told(
    opened: Any, pg_database: Database, url: str
) -> None:
    """``enqueue`` on the caller's connection sends no hint: a NOTIFY would make its commits wait for each other."""
    sender = await opened()
    async with listening(url) as ear:
        await ear.hears()
        connection = await asyncpg.connect(pg_database.url())
        async with connection.transaction():
            await sender.enqueue_async(connection, event_id="e-1", **TO)
        await connection.close()
        sender.engine.wakeup.hint({"sentinel"})
        assert await ear.hears() == {"sentinel"}


async def test_by_hand_and_by_switch(opened: Any, url: str) -> None:
    """A person's retry names its channel; a channel that is switched on may concern everything."""
    sender = await opened()
    async with listening(url) as ear:
        assert await ear.hears() == EVERYTHING
        accepted = await sender.notify(event_id="e-1", **TO)
        assert await ear.hears() == {"ok"}
        await sender.cancel(accepted.notifications[0].id)
        assert await ear.hears() == {"ok"}
        await sender.enable("ok")
        assert await ear.hears() == EVERYTHING


async def test_switched_off_there_is_none(opened: Any) -> None:
    """``listen = false``: no connection but those of the pool."""
    assert (await opened(listen=False)).engine.wakeup is None


def test_sqlite_has_none() -> None:
    """On SQLite there is nothing to listen to: nothing is said about it, unless it is asked for."""
    assert make_wakeup("sqlite://", StoreOptions(), Telemetry()) is None
    with pytest.raises(ConfigError, match="SQLite") as refused:
        make_wakeup("sqlite://", replace(StoreOptions(), listen="true"), Telemetry())
    assert refused.value.field == "store.listen"


@pytest.mark.parametrize("channels", [(), ("email",), ("a b", "it's", "*", "é\n", '"')])
def test_a_hint_is_read_as_it_was_written(channels: tuple[str, ...]) -> None:
    """Any name survives, and the payload needs no quoting in a statement."""
    payload = encode("me", channels)
    assert decode(payload) == ("me", frozenset(channels))
    assert payload.isascii()
    assert not set(payload) & set("'\\\"\n")


def test_too_many_channels_are_everything() -> None:
    """A hint stays far below what PostgreSQL allows for a payload."""
    payload = encode("me", [f"channel-{number}" for number in range(1_000)])
    assert decode(payload) == ("me", EVERYTHING)
    assert HINTS.isidentifier()
