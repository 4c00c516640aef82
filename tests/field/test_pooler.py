"""Field reports about poolers. The ids are those of docs/reference/field-reports.md."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from ringonce.app import Ringonce
from ringonce.store import wakeup
from tests.servers.pgbouncer import pgbouncer, prepared
from tests.servers.postgres import Database
from tests.store.kit import told

pytestmark = pytest.mark.debian

PATIENCE = 60.0
TO = {"to": {"ok": "ada"}, "content": {"text": "hello"}}
DRIVERS = ("asyncpg", "psycopg")


@pytest.fixture
def pooled(pg_database: Database) -> Iterator[Database]:
    """An empty database behind a PgBouncer with two connections to the server."""
    with pgbouncer(pg_database) as front:
        yield front


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hint that does not come is not waited for long."""
    monkeypatch.setattr(wakeup, "ECHO_WITHIN", 1.0)


@pytest.mark.parametrize("driver", DRIVERS)
async def test_ops_03_workers_share_a_poolers_connections(
    pooled: Database, pg_database: Database, driver: str
) -> None:
    """OPS-03: behind PgBouncer in transaction mode locks of a session locked nothing, and prepared statements failed.

    Sources: alphagov/govuk-puppet#7920, malthe/pq#30, MagicStack/asyncpg#121. Here: four workers and a sender on two
    connections of the server; all is sent once, nothing fails, and no statement stays behind.
    """
    config = {
        "store": {"url": pooled.url(driver)},
        "retry": {"cycle": "20ms"},
        "channels": {
            "ok": {"provider": "sandbox"},
            "flaky": {
                "provider": "sandbox",
                "script": ["transient", "ok"],
                "backoff": {"kind": "fixed", "base": "10ms", "jitter": 0},
            },
        },
    }
    await Ringonce(config).migrate()

    async def work() -> float:
        async with Ringonce(config) as ringonce:
            await ringonce.run_worker(drain=True)
            return ringonce.telemetry.value("ringonce_alerts_total")

    async with Ringonce(config) as ringonce:
        for number in range(12):
            bodies = [
                {"event_id": f"{number}-{channel}", "to": {channel: f"a{number}"}, "content": {"text": "x"}}
                for channel in ("ok", "flaky")
            ]
            await ringonce.notify_many(bodies)
        assert await asyncio.gather(*(work() for _ in range(4))) == [0, 0, 0, 0]
        report = (await ringonce.report())[0]
        assert (report["accepted"], report["sent"]) == (24, 24)
        assert await ringonce.store.backend.run(prepared) == 0


@pytest.mark.parametrize("driver", DRIVERS)
async def test_ops_03_without_hints_it_polls(
    pooled: Database, quick: None, caplog: pytest.LogCaptureFixture, driver: str
) -> None:
    """OPS-03: behind PgBouncer in transaction mode LISTEN succeeds and hears nothing, so nothing woke up.

    Source: bensheldon/good_job#269. Here: what a worker tells itself does not come back, which it says in one line;
    it polls, and what others accept is sent all the same.
    """
    caplog.set_level(logging.INFO, "ringonce.store")
    config = {
        "store": {"url": pooled.url(driver)},
        "channels": {"ok": {"provider": "sandbox"}},
        "outbox": {"events": ["notification.dispatched"]},
    }
    await Ringonce(config).migrate()
    async with Ringonce(config) as sender, Ringonce(config) as receiver:
        sent, stop, polls = asyncio.Event(), asyncio.Event(), told(caplog, "polls")
        receiver.subscribe(lambda _: sent.set())
        worker = asyncio.ensure_future(receiver.run_worker(stop))
        async with asyncio.timeout(PATIENCE):
            await polls.wait()
            await sender.notify(**TO)
            await sent.wait()
        stop.set()
        await worker
    assert receiver.telemetry.value("ringonce_listening") == 0
    assert len([record for record in caplog.records if "polls" in record.message]) == 1
