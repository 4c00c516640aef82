"""What PostgreSQL does for each hot statement, among 10^6 finished and 10^5 future notifications.

The server itself tells, through auto_explain, while the store runs as always: under plans made for the
parameters and under generic ones.
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from ringonce.core.lane import Lane, spell, stops
from ringonce.model.event import Event, Recipient
from ringonce.model.policy import DAY, SECOND, MassInvalidation, Rate
from ringonce.model.retention import Retention, Walk
from ringonce.ports import PRUNE_LEASE, Lot, Proposal, Terms
from ringonce.store import open_store
from ringonce.store.values import dated, digest
from tests.servers.postgres import Database, create_database, drop_database
from tests.store.kit import KINDS, LEASE, NOBODY, START, World, decode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("plans")]

FINISHED, FUTURE = 1_000_000, 100_000
LARGE = (
    "ringonce_notifications",
    "ringonce_dispatch",
    "ringonce_attempts",
    "ringonce_events",
    "ringonce_addresses",
    "ringonce_event_recipients",
    "ringonce_contents",
    "ringonce_timeline",
    "ringonce_outbox",
)
ROWS = 50

FILL = f"""
INSERT INTO ringonce_events SELECT decode(md5('e' || i), 'hex'), '', 'e' || i, 't', NULL, NULL, NULL, 'normal', NULL,
    '\\x00', '{{}}', 1, 1, true, {START} + i FROM generate_series(1, {FINISHED // 100}) i;
INSERT INTO ringonce_contents VALUES ('\\x01', NULL, 'hello', NULL, '{{}}', {START});
INSERT INTO ringonce_contents SELECT decode(md5('c' || i), 'hex'), NULL, 'hello', NULL, '{{}}', {START}
    FROM generate_series(1, 100000) i;
INSERT INTO ringonce_event_recipients SELECT decode(md5('j' || i), 'hex'), decode(md5('e' || (i / 100 + 1)), 'hex'),
    'u' || i, {START} - i FROM generate_series(1, {FINISHED}) i;
INSERT INTO ringonce_outbox (event_key, event_id, kind, key, payload, created_at, published_at)
    SELECT decode(md5('o' || i), 'hex'), 'o' || i, 'k', 'n', '{{}}', {START}, CASE WHEN i % 3 = 0 THEN {START} END
    FROM generate_series(1, 100000) i;
INSERT INTO ringonce_timeline (notification_id, at, kind, detail)
    SELECT md5('n' || i)::uuid, {START}, 'k', '{{}}' FROM generate_series(1, {FINISHED}, 10) i;
INSERT INTO ringonce_addresses (key, tenant, recipient, channel, value, registered_at, generation)
    SELECT decode(md5('a' || i), 'hex'), '', 'u' || i, 'email', 'u' || i, {START}, 0 FROM generate_series(1, 100000) i;
INSERT INTO ringonce_notifications SELECT md5('n' || i)::uuid, '', decode(md5('e' || (i / 100 + 1)), 'hex'),
    'u' || (i % 100000), 'email', '', i % 100000 + 1, 0, '\\x01', {START} - i, {START},
    CASE WHEN i <= {FUTURE} THEN 'pending' ELSE 'sent' END, 1, 1, 1, 0, 0, 0, 0, '', NULL, NULL, NULL, NULL, 'm', 1,
    NULL, 1, NULL, {START} + i / 100 + 1 FROM generate_series(1, {FINISHED + FUTURE}) i;
INSERT INTO ringonce_dispatch SELECT md5('n' || i)::uuid, 'email', i % 3, {START} + 10^12 + i, 'send', i % 10 <> 0,
    false, NULL, NULL, 0, 0, 1, 0, CASE WHEN i % 2 = 0 THEN {START} + 2 * 10^12 END, {START}, NULL, NULL
    FROM generate_series(1, {FUTURE}) i;
INSERT INTO ringonce_attempts SELECT md5('n' || i)::uuid, 1, 1, i, '', {START}, {START}, 'accepted', NULL, NULL, NULL,
    'm', '', '', false, false FROM generate_series({FUTURE}, {FINISHED + FUTURE}) i;
"""


@pytest.fixture(scope="module")
def large(pg_server: Database, pg_template: Database) -> Iterator[Database]:
    """A database after a year of work."""
    database = create_database(pg_server, pg_template.name)
    with database.connect() as connection:
        for statement in FILL.split(";\n"):
            if statement.strip():
                connection.execute(statement)
        connection.execute("VACUUM ANALYZE")
        for setting in (
            "session_preload_libraries = 'auto_explain'",
            "auto_explain.log_min_duration = 0",
            "auto_explain.log_analyze = on",
            "auto_explain.log_buffers = on",
            "auto_explain.log_format = 'json'",
            "client_min_messages = 'log'",
        ):
            connection.execute(f"ALTER DATABASE {database.name} SET {setting}")
    yield database
    drop_database(pg_server, database)


class Explained:
    """The plans of the statements that ran."""

    def __init__(self) -> None:
        self.plans: list[dict[str, Any]] = []

    def hear(self, notice: Any) -> None:
        """Take a message of the server."""
        text = notice.message_primary or ""
        if "plan:" in text:
            self.plans.append(json.loads(text[text.index("{") :]))

    def blocks(self) -> int:
        """All buffers that were touched since the last look; whole tables must not be among them."""
        plans, self.plans = self.plans, []
        assert plans
        total = 0
        for plan in plans:
            top = plan["Plan"]
            total += top["Shared Hit Blocks"] + top["Shared Read Blocks"]
            for node in nodes(top):
                scanned = node["Node Type"] == "Seq Scan" and node["Relation Name"] in LARGE
                assert not scanned, json.dumps(plan, indent=1)
                removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
                assert removed <= 10 * ROWS, json.dumps(plan, indent=1)
        return total


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A plan's nodes, itself included."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


@pytest.fixture(params=["force_custom_plan", "force_generic_plan"])
async def watched(request: pytest.FixtureRequest, large: Database) -> AsyncIterator[tuple[World, Explained]]:
    """A store whose statements are explained."""
    store = open_store(large.url("psycopg"), decode=decode, outbox_kinds=KINDS, pool_size=1)
    await store.open()
    explained = Explained()

    def listen(connection: sa.Connection) -> None:
        raw = connection.connection.driver_connection
        raw.prepare_threshold = 0
        raw.add_notice_handler(explained.hear)
        # Behind a pooler nothing is planned but for the parameters at hand.
        connection.exec_driver_sql(f"SET plan_cache_mode = {request.param}")

    await store.backend.run(listen)
    # Later than what earlier tests left behind.
    with large.connect() as connection:
        count = connection.execute("SELECT count(*) FROM ringonce_events").fetchone()[0]
    world = World(store, now=START + count * 10**6)
    world.ids = iter(range(count * 10**6, count * 10**6 + 10**6))
    yield world, explained
    await store.close()


async def accept(world: World) -> None:
    """Due rows among all the others."""
    name = f"{world.now}{world.lane or ''}"
    people = tuple(Recipient(f"{name}-{i}", addresses={"email": (f"{name}-{i}",)}) for i in range(ROWS))
    await world.accept(Event(name, recipients=people))


async def test_accept(watched: tuple[World, Explained]) -> None:
    """Accepting touches what it writes and the paths to it."""
    world, explained = watched
    await accept(world)
    assert explained.blocks() < ROWS * 120


async def test_an_empty_poll(watched: tuple[World, Explained]) -> None:
    """A poll that finds nothing due reads a handful of pages."""
    world, explained = watched
    await world.claim(10_000, "w-0")
    explained.plans.clear()
    assert (await world.claim()).rows == ()
    assert explained.blocks() < 40


async def test_claim_mark_settle(watched: tuple[World, Explained]) -> None:
    """Each step of a batch costs a few dozen pages per row, however many rows lie around."""
    world, explained = watched
    await world.claim(10_000, "w-0")
    await accept(world)
    explained.plans.clear()
    claimed = (await world.claim(ROWS)).rows
    assert len(claimed) == ROWS
    assert explained.blocks() < ROWS * 60
    assert len((await world.mark(*claimed)).begun) == ROWS
    assert explained.blocks() < ROWS * 30
    await world.store.extend("w-1", LEASE, now=world.now)
    explained.plans.clear()
    await world.settle(*(world.answer(c) for c in claimed))
    assert explained.blocks() < ROWS * 100


async def test_a_claim_finds_what_it_reads_among_its_neighbours(watched: tuple[World, Explained]) -> None:
    """Events are looked up by their time, and contents of one time lie side by side: no row needs a page of its own."""
    world, explained = watched
    await world.claim(10_000, "w-0")
    await accept(world)
    explained.plans.clear()
    claimed = (await world.claim(ROWS)).rows
    assert len(claimed) == ROWS
    used = {
        node["Index Name"]
        for plan in explained.plans
        for node in nodes(plan["Plan"])
        if node.get("Relation Name") == "ringonce_events"
    }
    assert used == {"ringonce_events_age"}
    await world.mark(*claimed)
    await world.settle(*(world.answer(c) for c in claimed))
    first, second = (dated(world.now + more, digest("any", str(more))) for more in (0, 1_000))
    assert first[:6] < second[:6]


async def test_verdicts_against_addresses(watched: tuple[World, Explained]) -> None:
    """Weighing verdicts, dropping, setting apart and deciding read through their indexes, however many lie around."""
    world, explained = watched
    await world.claim(10_000, "w-0")
    world.credential = f"email-{world.now}"
    for limit in (10 * ROWS, 2):  # believed, then doubted
        world.proposal = Proposal(MassInvalidation(proposals=limit), f"p-{limit}", 0)
        await accept(world)
        claimed = (await world.claim(ROWS)).rows
        await world.mark(*claimed)
        explained.plans.clear()
        await world.settle(*(world.answer(c, NOBODY) for c in claimed))
        assert explained.blocks() < ROWS * 250
        world.now += SECOND
    assert len(await world.store.quarantined([world.credential], limit=500)) == 2 * ROWS
    await world.store.breakers()
    assert (await world.store.lift([world.credential], drop=True, now=world.now)).addresses == 2 * ROWS
    assert explained.blocks() < ROWS * 250
    await world.store.resume("email", now=world.now)


async def test_undo_release(watched: tuple[World, Explained]) -> None:
    """Giving back is as cheap as taking."""
    world, explained = watched
    await world.claim(10_000, "w-0")
    await accept(world)
    claimed = (await world.claim(ROWS)).rows
    await world.mark(*claimed)
    leases = [(c.row.id, c.row.lease.fence) for c in claimed]
    explained.plans.clear()
    assert await world.store.undo("w-1", leases, now=world.now) == ROWS
    assert explained.blocks() < ROWS * 30
    assert await world.store.release("w-1", leases, now=world.now) == ROWS
    assert explained.blocks() < ROWS * 40


async def test_rescue_arm_sweep(watched: tuple[World, Explained]) -> None:
    """The duties read through their partial indexes."""
    world, explained = watched
    await world.store.rescue(world.decide, limit=10_000, now=world.now)
    await world.claim(10_000, "w-0")
    await accept(world)
    claimed = (await world.claim(ROWS)).rows
    await world.mark(*claimed)
    await world.store.extend("w-1", 0, now=world.now)
    explained.plans.clear()
    rescued = await world.store.rescue(world.decide, limit=ROWS, now=world.now)
    assert len(rescued) == ROWS
    assert explained.blocks() < ROWS * 100
    world.now += 10 * 10**6
    assert await world.arm() == ROWS
    assert explained.blocks() < ROWS * 40
    ages = {"email": 7 * 86_400 * 10**6}
    assert await world.store.sweep(world.decide, max_age=ages, limit=ROWS, now=world.now) == []
    assert explained.blocks() < 60


async def test_reading(watched: tuple[World, Explained]) -> None:
    """A page of the search, one life and the cancel of a subject find their rows through an index."""
    from ringonce.ports import Query

    world, explained = watched
    explained.plans.clear()
    rows = await world.store.search(Query(limit=ROWS))
    assert explained.blocks() < ROWS * 30
    await world.store.get(rows[0].id)
    assert explained.blocks() < 60
    await world.store.search(Query(tenant="", recipient="u77", limit=ROWS))
    assert explained.blocks() < ROWS * 30
    await world.store.search(Query(event_id="e77", limit=ROWS))
    assert explained.blocks() < 2000
    await world.store.cancel_subject("", "order:1", world.decide, now=world.now)
    assert explained.blocks() < 60


@pytest.mark.parametrize(
    ("table", "gone"),
    [("notifications", ROWS), ("events", 0), ("event_recipients", 0), ("outbox", ROWS // 3)],
)
async def test_prune(watched: tuple[World, Explained], table: str, gone: int) -> None:
    """Each step of pruning finds the oldest rows, and what belongs to them, through an index."""
    world, explained = watched
    now = world.now + 1000 * DAY
    term = await world.store.take_lease(PRUNE_LEASE, "w-1", DAY, now=now)
    assert term is not None
    walk = Walk(("notifications", "events", "event_recipients", "outbox").index(table), (None,) * 4)
    explained.plans.clear()
    # Only what every walk finds again is left for the next test: what is removed is a step's worth.
    for _ in range(2):
        step = await world.store.prune(term, "w-1", Retention(), walk=walk, limit=ROWS, now=now)
        walk = step.walk
        assert (step.looked, step.done) == (ROWS, False)
        # Earlier tests leave a row or two behind, and of the outbox what is not published.
        removed = step.counts.get(table, 0)
        assert removed <= gone + 1
        assert removed >= gone or table == "outbox"
        # Of each row: the page, four indexes, lock, attempts, notes, inbox, content, event.
        assert explained.blocks() < ROWS * 100


async def test_claims_by_terms(watched: tuple[World, Explained]) -> None:
    """Several lanes, a rate and a probe cost a look and a claim with quotas; lanes are found without reading rows."""
    world, explained = watched
    lots = tuple(
        Lot(spell(lane), stops(lane), weight=3 if lane.group else 1)
        for lane in (Lane("email"), *(Lane("email", f"t{i}") for i in range(50)))
    )
    terms = Terms(lots, LEASE, Rate(1_000_000, SECOND, 1_000), "email")
    rest = Terms(lots, LEASE)
    await world.store.claim("email", "w-0", 10_000, LEASE, terms=rest, now=world.now)
    explained.plans.clear()
    assert set(await world.store.waiting_lanes()) >= {"email"}
    assert explained.blocks() < 60
    empty = await world.store.claim("email", "w-1", ROWS, LEASE, terms=terms, now=world.now)
    assert empty.rows == ()
    assert explained.blocks() < 1_500
    await accept(world)
    world.lane = "email/t7"
    await accept(world)
    world.lane = None
    explained.plans.clear()
    batch = await world.store.claim("email", "w-1", ROWS, LEASE, terms=terms, now=world.now)
    assert len(batch.rows) == ROWS
    assert {row.lane for row in batch.rows} == {"email", "email/t7"}
    assert explained.blocks() < 1_500 + ROWS * 60
