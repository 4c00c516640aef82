"""Field reports about the database, tenants and endpoints. The ids are those of docs/reference/field-reports.md."""

import asyncio
import contextlib
import sqlite3
from collections import Counter
from datetime import UTC, datetime, timedelta

import pysqlite3.dbapi2
import pytest
import sqlalchemy as sa

from ringonce.app import Ringonce
from ringonce.errors import ConflictError, RingonceError
from ringonce.model.policy import SECOND
from ringonce.store.schema import events, journal, metadata, notifications, outbox
from ringonce.vendors.script import plan
from ringonce.vendors.smtp import MailServer
from ringonce.vendors.webhook import WebhookReceiver
from tests.field.test_failures import mail
from tests.field.test_mail import built
from tests.providers.samples import message
from tests.requirements.conftest import SECRET, Start, calls, outcomes, webhook
from tests.servers.postgres import Database

BOX = {"provider": "sandbox"}
HELLO = {"content": {"text": "hello"}}


# --- one event, one time ---------------------------------------------------------------------------------------------


async def test_idem_01_the_same_request_many_times_at_once(start: Start) -> None:
    """IDEM-01: the key was looked up and then set, so two equal requests at once were both carried out.

    Sources: thesongzhu/Friday#403, mitos-run/mitos#240, jcagarcia/grape-idempotency#10. Here: of 50 at once in two
    programs one stores it, all others get its answer.
    """
    system = await start(box=BOX)
    async with Ringonce(system.config) as other:
        body = {"event_id": "order-7", "to": {"box": "ada"}, **HELLO}
        rings = (system.ring, other)
        accepted = await asyncio.gather(*(rings[n % 2].notify(body) for n in range(50)))
    assert len({one.notifications[0].id for one in accepted}) == 1
    assert sum(not one.duplicate for one in accepted) == 1
    assert [await system.count(table) for table in (events, journal, notifications)] == [1, 1, 1]


async def test_idem_02_key_and_request_are_one(start: Start) -> None:
    """IDEM-02: the key was stored, then the program died before the request was: it was swallowed for ever.

    Sources: idempot-dev/idempot-js#186, mhayk/Overpass#16. Here: both are one transaction, so a request that failed
    can be made again; another body under the key is a conflict without effect; a key belongs to its tenant.
    """
    system = await start(box=BOX)
    body = {"event_id": "order-7", "to": {"box": "ada"}, **HELLO}
    await system.refuse("ringonce_notifications", "NEW.channel = 'box'")
    with pytest.raises(RingonceError):
        await system.ring.notify(body)
    await system.allow("ringonce_notifications")
    assert not (await system.ring.notify(body)).duplicate
    with pytest.raises(ConflictError):
        await system.ring.notify({**body, "content": {"text": "other"}})
    assert await system.count(notifications) == 1
    assert not (await system.ring.notify({**body, "tenant": "b"})).duplicate


async def test_outb_03_state_and_event_are_one(start: Start) -> None:
    """OUTB-03: the event was written after the commit of the state; a crash in between lost it.

    Source: opendefender/OpenRisk#344. Here: both are one transaction: while the event can not be written the state is
    not either, the write is tried again, and nothing is sent twice.
    """
    with WebhookReceiver([SECRET]) as server:
        system = await start(hook=webhook())
        id_ = await system.accept("hook", f"{server.url}/ada")
        await system.refuse("ringonce_outbox", "1 = 1")
        async with system.working(system.ring):
            told = await asyncio.to_thread(server.ledger.wait_for, bool)
            assert told
            assert (await system.view(id_))["status"] == "pending"
            assert await system.count(outbox) == 0
            await system.allow("ringonce_outbox")
            await system.called(id_)
        await system.pass_time()
        await system.work()
        view = await system.view(id_)
        assert view["final"]
        assert len(await system.dispatched(id_)) == 1
        assert server.ledger.repeats() == {}


async def test_outb_01_a_row_that_commits_late_is_not_skipped(start: Start) -> None:
    """OUTB-01: the reader remembered the last number, and a lower one that was committed later was skipped for ever.

    Sources: kamu-data/kamu-cli#1398, Eventuous/eventuous#222, patchlevel/event-sourcing#615. Here: a reader that
    follows the positions sees each event once while several workers write.
    """
    system = await start(box=BOX)
    for n in range(60):
        await system.accept("box", f"a{n}")
    seen: list[str] = []
    after = 0
    async with Ringonce(system.config) as other, system.working(system.ring, other):
        async with asyncio.timeout(90):
            while len(seen) < 60:
                rows = await system.ring.outbox(kind="notification.dispatched", after=after, limit=7)
                seen.extend(row.event_id for _, row in rows)
                after = max([after, *(position for position, _ in rows)])
                await asyncio.sleep(0)
    assert len(set(seen)) == len(seen) == 60


@pytest.mark.parametrize("commits", [True, False])
async def test_outb_05_a_worker_that_looks_before_the_commit_loses_nothing(
    start: Start, receiver: WebhookReceiver, store_url: str, *, commits: bool
) -> None:
    """OUTB-05: the worker was woken before the commit, found nothing and gave up: nothing was sent.

    Sources: rafalp/Misago#1600, griffithlab/civic-server#661, catarse/catarse#496. Here: a wake-up is a hint, and the
    row the truth: what commits is found by the next look, what is rolled back never happened.
    """
    if store_url.startswith("sqlite"):
        engine = sa.create_engine(store_url, module=pysqlite3.dbapi2)
    else:
        engine = sa.create_engine(store_url.replace("+asyncpg", "+psycopg"))
    system = await start(hook=webhook())
    with contextlib.suppress(ZeroDivisionError), engine.begin() as connection:
        system.ring.enqueue(connection, to={"hook": f"{receiver.url}/ada"}, **HELLO)
        if not store_url.startswith("sqlite"):  # a second writer would wait for this transaction
            await system.work()
        assert receiver.ledger.entries == []
        if not commits:
            raise ZeroDivisionError
    engine.dispose()
    await system.work()
    assert len(calls(receiver)) == int(commits)


# --- wake-ups --------------------------------------------------------------------------------------------------------


async def test_lost_04_what_another_program_accepts_is_found_without_a_wake_up(start: Start) -> None:
    """LOST-04: between the scan of the table and LISTEN a wake-up was lost, and the worker slept on.

    Sources: iopsystems/durable#66, transact-rs/sqlx#1102. Here: workers look again within a second in any case; no
    wake-up comes from another program at all, and what it accepted is sent.
    """
    system = await start(box=BOX)
    async with Ringonce(system.config) as other, system.working(system.ring):
        await system.until(system.idle)
        (brief,) = (await other.notify(to={"box": "ada"}, **HELLO)).notifications
        await system.ended(brief.id)


async def test_lost_05_after_an_outage_work_is_found_as_before(pg_database: Database) -> None:
    """LOST-05: after an outage of the database the log said "reconnected", and no wake-up came any more.

    Source: janbjorge/pgqueuer#253. Here: every connection of the worker is cut, and what is accepted afterwards by
    another program is found as before. (SQLite: tests/crash/test_outages.py.)
    """
    config = {"store": {"url": pg_database.url("asyncpg")}, "channels": {"box": BOX}}
    ring, other = Ringonce(config), Ringonce(config)
    await ring.migrate()
    stop = asyncio.Event()
    async with ring:
        work = asyncio.create_task(ring.run_worker(stop))
        await ring.notify(to={"box": "before"}, **HELLO)
        await _sent(ring, 1)
        with pg_database.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        async with other:
            await other.notify(to={"box": "after"}, **HELLO)
            await _sent(other, 2)
        stop.set()
        await work


async def test_scal_02_no_payload_in_a_wake_up(start: Start) -> None:
    """SCAL-02: NOTIFY with more than 8,000 bytes made the INSERT itself fail.

    Sources: oban-bg/oban#791, saurabhnanda/odd-jobs#42, ansible/awx#12999. Here: large bodies and many ids at once
    are accepted: nothing about them is sent through the database's wake-ups.
    """
    system = await start(box=BOX)
    body = {"to": {"box": "ada"}, "content": {"text": "ж" * 9_000}}
    accepted = await system.ring.notify_many([{**body, "event_id": f"{n}" * 100} for n in range(100)])
    assert len(accepted) == 100


async def _sent(ring: Ringonce, count: int) -> None:
    async with asyncio.timeout(90):
        while len(await ring.search(status=("sent",), limit=100)) < count:  # noqa: ASYNC110 - a fact of the database
            await asyncio.sleep(0.01)


# --- locks and transactions ------------------------------------------------------------------------------------------


async def test_conc_06_a_busy_sqlite_file_waits(tmp_path: object) -> None:
    """CONC-06: a transaction that read first and then wrote was refused at once, without the busy timeout.

    Sources: ish-app/ish#2479, jentic/jentic-one#529, IntersectMBO/ouroboros-consensus#2233. Here: every transaction
    that writes begins as one; two programs on one file that accept and deliver at the same time see no lock error.
    """
    config = {
        "store": {"url": f"sqlite:///{tmp_path}/ringonce.db"},
        "retry": {"cycle": "10ms"},
        "channels": {"box": BOX},
    }
    async with Ringonce(config) as one, Ringonce(config) as other:
        stop = asyncio.Event()
        workers = [asyncio.create_task(ring.run_worker(stop)) for ring in (one, other)]
        for n in range(20):
            body = {"to": {"box": f"a{n}"}, **HELLO}
            await asyncio.gather(*(ring.notify(body) for ring in (one, other) for _ in range(2)))
        await _sent(one, 80)
        stop.set()
        await asyncio.gather(*workers)


async def test_scal_01_no_transaction_is_open_during_a_call(start: Start) -> None:
    """SCAL-01: a transaction that stayed open stopped the vacuum, and claims got slower and slower.

    Sources: hardbyte/awa#169, NikolayS/PgQue#80, que-rb/que#131. Here: while calls are under way the database can be
    written by others at once (SQLite), and no connection is idle in a transaction (PostgreSQL).
    """
    with WebhookReceiver([SECRET], plan=plan(["accept_then_hang"])) as server:
        system = await start(hook=webhook(timeout="5m"))
        for n in range(3):
            await system.accept("hook", f"{server.url}/{n}")
        async with system.working(system.ring):
            assert await asyncio.to_thread(server.ledger.wait_for, lambda entries: len(entries) == 3)
            url = system.config["store"]["url"]
            if url.startswith("sqlite"):
                with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as other:
                    other.execute("BEGIN EXCLUSIVE")
                    other.execute("ROLLBACK")
            else:
                query = sa.text(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND state = 'idle in transaction' AND now() - state_change > interval '1 second'"
                )

                async def none() -> bool:
                    # One that is open for the calls stays open with them; one that a stall has caught ends.
                    return bool(await system.sql(lambda c: c.execute(query).scalar_one()) == 0)

                await system.until(none)
            server.stop()


# --- clocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [-1, 24 * 3650])
async def test_clck_06_the_clock_jumps(tmp_path: object, hours: int) -> None:
    """CLCK-06: the clock was set back and timers slept for the step; set forward, everything fired at once.

    Sources: agronholm/apscheduler#351, dbader/schedule#323, Metaswitch/chronos#85, go-co-op/gocron#438. Here: on SQLite
    the wall clock jumps during the work, and what is accepted afterwards is sent within the poll interval, once.
    """
    config = {
        "store": {"url": f"sqlite:///{tmp_path}/ringonce.db"},
        "retry": {"cycle": "10ms"},
        "channels": {"box": BOX},
    }
    async with Ringonce(config) as ring:
        stop = asyncio.Event()
        work = asyncio.create_task(ring.run_worker(stop))
        await ring.notify(to={"box": "a"}, **HELLO)
        backend = ring.store.backend  # type: ignore[attr-defined]
        wall = backend._wall
        backend._wall = lambda: wall() + hours * 3600 * SECOND
        await ring.notify(to={"box": "b"}, **HELLO)
        await _sent(ring, 2)
        backend._wall = wall
        await ring.notify(to={"box": "c"}, **HELLO)
        await _sent(ring, 3)
        stop.set()
        await work
        lives = [await ring.get(row.id) for row in await ring.search()]
        assert Counter(len(life.attempts) for life in lives) == {1: 3}


# --- what people see, and what is withdrawn --------------------------------------------------------------------------


async def test_ops_06_which_one_has_failed(start: Start) -> None:
    """OPS-06: the log said that one alert had failed, and not which.

    Sources: grafana/prometheus-alertmanager#107, grafana/prometheus-alertmanager#46. Here: it is found by event id,
    recipient, channel, status and code, with its last error; metrics have no person in their labels.
    """
    with MailServer(unknown=["bob@example.com"]) as server:
        system = await start(mail=mail(server))
        person = {"id": "bob", "addresses": {"mail": "bob@example.com"}}
        accepted = await system.ring.notify(
            event_id="order-7", recipients=[person], channels=["mail"], **HELLO
        )
        (brief,) = accepted.notifications
        await system.work()
        code = "NTF_PROVIDER_INVALID_RECIPIENT"
        for terms in (
            {"event_id": "order-7"},
            {"recipient": "bob"},
            {"code": code},
            {"terminal_failures": True},
        ):
            (row,) = await system.ring.search(**terms)
            assert row.id == brief.id
        assert (await system.view(brief.id))["last_error"]["code"] == code
        assert code in await system.command("explain", str(brief.id))
        assert "bob" not in system.ring.telemetry.exposition()


async def test_pres_02_withdrawn_before_it_was_sent(start: Start) -> None:
    """PRES-02: what was deleted while its push was queued was told all the same, or stayed on the phone.

    Source: zulip/zulip#15505. Here: withdrawing a subject cancels what has not begun, and what is accepted for it
    later, also when the withdrawal comes first.
    """
    system = await start(box=BOX)
    waiting = await system.accept("box", "a", subject="post:1")
    await system.ring.cancel_subject("post:1")
    await system.ring.cancel_subject("post:2")
    late = [await system.accept("box", "a", subject=subject) for subject in ("post:1", "post:2")]
    await system.work()
    assert [(await system.view(id_))["status"] for id_ in (waiting, *late)] == ["cancelled"] * 3
    assert {(await system.view(id_))["attempts"] for id_ in (waiting, *late)} == {0}


async def test_lost_08_everything_that_is_sent_is_in_the_row(start: Start) -> None:
    """LOST-08: the body was in a cache and had expired; the worker logged a line and counted it as sent.

    Source: trade-tariff/trade-tariff-backend#3731. Here: the content is stored with the acceptance and is sent
    although a month has passed; an empty one is never accepted.
    """
    with WebhookReceiver([SECRET]) as server:
        system = await start(hook=webhook())
        later = (datetime.now(UTC) + timedelta(days=30)).isoformat()
        id_ = await system.accept("hook", f"{server.url}/a", send_at=later, content={"text": "still here"})
        await system.pass_time(31 * 86_400)
        await system.work()
        assert (await system.view(id_))["status"] == "sent"
        for empty in ({}, {"text": ""}, {"title": None}):
            with pytest.raises(RingonceError):
                await system.accept("hook", f"{server.url}/a", content=empty)


async def test_mail_05_mails_say_what_they_are(start: Start) -> None:
    """MAIL-05: random Message-IDs split threads, and auto-replies to notifications made loops.

    Source: zulip/zulip#12672. Here: the Message-ID belongs to the notification and stays over retries, and the mail
    says that a program has written it.
    """
    with MailServer(plan=plan(["451:first=1"])) as server:
        system = await start(mail=mail(server))
        id_ = await system.accept("mail", "bob@example.com")
        await system.work()
        await system.pass_time()
        await system.work()
        assert outcomes(await system.view(id_)) == ["transient", "accepted"]
        (reference,) = {entry.reference for entry in server.ledger.entries}
        assert str(id_) in reference
    assert b"Auto-Submitted: auto-generated" in built(message().content).message


# --- tenants ---------------------------------------------------------------------------------------------------------


async def test_tena_01_another_tenants_id_leads_nowhere(start: Start) -> None:
    """TENA-01: a tenant of a query parameter won over the caller's own, or a query had no tenant in it.

    Sources: Senthil455/Atlas-Workforce-System#41, utksh1/SecuScan#2284. Here: with the tenant of the caller every
    call that takes an id finds nothing of another one and changes nothing; the body can not name another either.
    """
    system = await start(box={"provider": "sandbox", "script": ["timeout"], "in_doubt": "hold"})
    ring = system.ring
    (theirs,) = (
        await ring.notify(tenant="b", event_id="e", to={"box": "x"}, subject="s:1", **HELLO)
    ).notifications
    await ring.register("u", "box", "y", tenant="b")
    before = await system.view(theirs.id)
    for call in (
        ring.get(theirs.id, tenant="a"),
        ring.explain(theirs.id, tenant="a"),
        ring.cancel(theirs.id, tenant="a"),
        ring.retry(theirs.id, tenant="a", force=True),
        ring.resolve(theirs.id, "sent", tenant="a"),
        ring.invalidate("u", "box", "y", tenant="a"),
        ring.notify(tenant="b", to={"box": "x"}, caller="a", **HELLO),
    ):
        with pytest.raises(RingonceError):
            await call
    assert await ring.cancel_subject("s:1", tenant="a") == []
    assert await ring.search(tenant="a") == []
    assert await ring.addresses("u", tenant="a") == []
    assert [row["accepted"] for row in await ring.report(tenant="a")] in ([], [0])
    (mine,) = (await ring.notify(tenant="a", event_id="e", to={"box": "x"}, **HELLO)).notifications
    assert mine.id != theirs.id
    assert await system.view(theirs.id) == before


def test_tena_01_every_table_of_tenants_names_it() -> None:
    """TENA-01: a query without a tenant. Here: what belongs to somebody has the tenant in its row or its key."""
    named = {table.name for table in metadata.sorted_tables if "tenant" in table.c}
    assert named >= {"ringonce_events", "ringonce_notifications", "ringonce_addresses", "ringonce_recipients"}


async def test_tena_02_equal_names_in_two_tenants_do_not_mix(start: Start) -> None:
    """TENA-02: one tenant's people were told with another's credentials or name, from a cache with too short a key.

    Sources: reown-com/push-server#168, KelvinTegelaar/CIPP#2894. Here: the same recipient, address, event ids and
    texts in two tenants are two of everything, in any order and by several workers.
    """
    system = await start(box=BOX)
    for tenant in ("a", "b"):
        await system.ring.register("u1", "box", "token", tenant=tenant)
    bodies = [
        {"event_id": f"e{n}", "tenant": tenant, "recipients": ["u1"], "channels": ["box"],
         "content": {"text": f"for {tenant}"}}
        for n in range(30)
        for tenant in ("a", "b")
    ]  # fmt: skip
    await system.ring.notify_many(bodies)
    async with Ringonce(system.config) as other, system.working(system.ring, other):
        await system.until(system.idle)
    for tenant in ("a", "b"):
        rows = await system.ring.search(tenant=tenant, limit=100)
        assert len(rows) == 30
        lives = [await system.ring.get(row.id) for row in rows]
        assert {(life.row.tenant, life.content.text) for life in lives} == {(tenant, f"for {tenant}")}
        assert {life.row.state.status.value for life in lives} == {"sent"}
        assert {life.row.address.tenant for life in lives} == {tenant}


# --- endpoints -------------------------------------------------------------------------------------------------------

FORBIDDEN = [
    "http://169.254.169.254/latest/meta-data",
    "https://[::1]/",
    "https://127.1/",
    "https://0x7f000001/",
    "https://[::ffff:10.0.0.1]/",
    "https://100.64.0.1/",
    "https://localhost/",
    "http://user@127.0.0.1/",
    "gopher://127.0.0.1:6379/",
    "http://127.0.0.1:6379/",
]


@pytest.mark.parametrize("endpoint", FORBIDDEN)
async def test_secu_02_no_endpoint_leads_inside(endpoint: str) -> None:
    """SECU-02: an endpoint that a client named led into the provider's own network.

    Sources: SandeepVashishtha/Eventra#16257, SandeepVashishtha/Eventra#18841, midarrlabs/web-push-elixir#94,
    sheaf-project/sheaf#195, Scottcjn/Rustchain#2053. Here: it is refused when it is given, or checked at the moment of
    connecting (after resolving, so rebinding does not help) and never called. Redirects: tests/wire/test_guard.py.
    """
    config = {"store": {"url": "sqlite://"}, "channels": {"hook": {"provider": "webhook", "secret": SECRET}}}
    async with Ringonce(config) as ring:
        try:
            (brief,) = (await ring.notify(to={"hook": endpoint}, **HELLO)).notifications
        except RingonceError:
            return
        await ring.run_worker(drain=True)
        life = await ring.get(brief.id)
        assert life.row.state.final
        assert life.row.state.status.value == "failed"
        assert [attempt.provider_code for attempt in life.attempts] == ["address_refused"]
