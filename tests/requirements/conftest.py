"""A whole ringonce on each store, used as its users use it, and the vendors' stand-ins for it to talk to."""

import asyncio
import base64
import io
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from ringonce.app import Ringonce
from ringonce.cli.root import run
from ringonce.core.lane import Lane, spell
from ringonce.engine.views import life_view
from ringonce.store.schema import dispatch, events, leases, notifications, timeline
from ringonce.vendors.webhook import WebhookReceiver
from tests.servers.postgres import Database, create_database, drop_database, fresh_database

SECRET = "whsec_" + base64.b64encode(b"requirements-secret-0123").decode()
SOON = 200_000
"""Microseconds: what is due within them is not left lying by ``work``."""
DEADLINE = 90.0
Facts = dict[str, Any]


@dataclass(slots=True)
class System:
    """One ringonce: its database, its configuration as it is now, and the library opened on them."""

    folder: Path
    config: dict[str, Any]
    ring: Ringonce

    # --- as an application ---

    async def accept(self, channel: str, address: object = "ada", **fields: object) -> UUID:
        """Accept one notification on a channel; its id."""
        body = {"to": {channel: address}, "content": {"text": "hello"}, **fields}
        (brief,) = (await self.ring.notify(body)).notifications
        return brief.id

    async def view(self, id_: UUID) -> Facts:
        """Everything that the API would tell about it."""
        return life_view(await self.ring.get(id_))

    async def wait(self, id_: UUID) -> float:
        """Seconds from the moment its failure was settled (which is when the wait begins) to its next attempt."""
        facts = notifications.c
        query = sa.select(facts.next_attempt_at - facts.changed_at).where(facts.id == id_)
        return int(await self.sql(lambda c: c.execute(query).scalar_one())) / 1_000_000

    async def dispatched(self, id_: UUID | None = None) -> list[Facts]:
        """The data of the published ``notification.dispatched``, in order."""
        rows = await self.ring.outbox(kind="notification.dispatched", limit=1000)
        data = [dict(row.payload)["data"] for _, row in rows]
        return [one for one in data if id_ is None or one["notificationId"] == str(id_)]

    async def reconfigure(self, **channels: Mapping[str, object]) -> None:
        """A new version of the file, and the program started anew with it."""
        await self.ring.close()
        for name, changes in channels.items():
            self.config["channels"][name] = {**self.config["channels"][name], **changes}
        self.ring = await started(self.config)

    def metric(self, name: str, **labels: str) -> float:
        """A counter or gauge of this process."""
        return self.ring.telemetry.value(name, **labels)

    # --- as time and workers ---

    async def work(self) -> None:
        """A worker runs until everything that is due now is done; what is due later stays."""
        async with self.working(self.ring):
            await self.until(self.idle)

    @asynccontextmanager
    async def working(self, *rings: Ringonce) -> AsyncIterator[None]:
        """A worker runs in each, and stops at the end as on SIGTERM."""
        stop = asyncio.Event()
        running = [asyncio.create_task(ring.run_worker(stop)) for ring in rings]
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(*running)

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait for a fact in the database."""
        async with asyncio.timeout(DEADLINE):
            while not await condition():  # noqa: ASYNC110 - the fact may be made by another process
                await asyncio.sleep(0.005)

    async def ended(self, id_: UUID) -> None:
        """Wait until it is final."""
        await self._until_view(id_, "final")

    async def called(self, id_: UUID) -> None:
        """Wait until a call of it has ended."""
        await self._until_view(id_, "attempts")

    async def _until_view(self, id_: UUID, name: str) -> None:
        async def told() -> bool:
            return bool((await self.view(id_))[name])

        await self.until(told)

    async def counted(self, name: str, **labels: str) -> None:
        """Wait until this process has counted it once more than now."""
        before = self.metric(name, **labels)

        async def more() -> bool:
            return self.metric(name, **labels) > before

        await self.until(more)

    async def idle(self) -> bool:
        """Nothing is leased, to be expanded or due, but what waits for a channel that does not send."""
        now = await self.ring.store.now()
        views: list[Facts] = await self.ring.channels()
        waiting = [view["name"] for view in views if view["paused"] or not view["enabled"]]
        waiting += [
            spell(Lane(view["name"], "", one["scope"]))
            for view in views
            for one in view["scopes"]
            if not one["probing"]
        ]
        busy = dispatch.c.leased | (
            (dispatch.c.due_at <= now + SOON)
            & ~((dispatch.c.purpose == "send") & dispatch.c.lane.in_(waiting))
        )
        left = sa.select(
            sa.select(sa.func.count()).where(busy).scalar_subquery()
            + sa.select(sa.func.count()).where(~events.c.expanded).scalar_subquery()
        )
        return await self.sql(lambda c: c.execute(left).scalar_one()) == 0

    async def pass_time(self, seconds: float = 3600.0) -> None:
        """Bring everything that is to happen in future so much nearer."""
        by = int(seconds * 1_000_000)
        moved = (
            sa.update(dispatch).values(due_at=dispatch.c.due_at - by, expires_at=dispatch.c.expires_at - by),
            sa.update(notifications).values(
                next_attempt_at=notifications.c.next_attempt_at - by,
                expires_at=notifications.c.expires_at - by,
            ),
            sa.update(leases).values(expires_at=leases.c.expires_at - by),
            sa.update(timeline).values(at=timeline.c.at - by),
        )

        def move(connection: sa.Connection) -> None:
            for statement in moved:
                connection.execute(statement)

        await self.sql(move)

    async def sql(self, work: Callable[[sa.Connection], Any]) -> Any:
        """Look into the database, through the one connection that may."""
        return await self.ring.store.backend.run(work)  # type: ignore[attr-defined]

    async def refuse(self, table: str, condition: str) -> None:
        """From now on the database refuses to insert such rows (``condition`` on ``NEW``)."""
        if self.config["store"]["url"].startswith("sqlite"):
            body = "BEGIN SELECT RAISE(ABORT, 'refused'); END"
            statements = [f"CREATE TRIGGER refuse BEFORE INSERT ON {table} WHEN {condition} {body}"]
        else:
            body = "BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '23514'; END"
            on = f"BEFORE INSERT ON {table} FOR EACH ROW WHEN ({condition})"
            statements = [
                f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$",
                f"CREATE TRIGGER refuse {on} EXECUTE FUNCTION refuse()",
            ]
        await self.execute(*statements)

    async def allow(self, table: str) -> None:
        """The database takes everything again."""
        if self.config["store"]["url"].startswith("sqlite"):
            await self.execute("DROP TRIGGER refuse")
        else:
            await self.execute(f"DROP TRIGGER refuse ON {table}", "DROP FUNCTION refuse")

    async def execute(self, *statements: str) -> None:
        """Run statements as they are."""

        def run(connection: sa.Connection) -> None:
            for statement in statements:
                connection.exec_driver_sql(statement)

        await self.sql(run)

    async def count(self, table: sa.Table) -> int:
        """How many rows a table has."""
        query = sa.select(sa.func.count()).select_from(table)
        return int(await self.sql(lambda c: c.execute(query).scalar_one()))

    # --- as a person at a terminal ---

    @property
    def file(self) -> Path:
        """The configuration as a file."""
        path = self.folder / "ringonce.toml"
        path.write_text(toml(self.config), encoding="utf-8")
        return path

    async def command(self, *arguments: str, code: int = 0) -> str:
        """Run ``ringonce …`` in this process; its standard output."""
        out, err = io.StringIO(), io.StringIO()

        def call() -> int:
            with redirect_stdout(out), redirect_stderr(err):
                return run(["--config", str(self.file), *arguments])

        assert await asyncio.to_thread(call) == code, err.getvalue()
        return out.getvalue()

    async def process(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start ``ringonce …``."""
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ringonce", "--config", str(self.file), *arguments,
            stdin=pipe, stdout=pipe, stderr=pipe, cwd=self.folder,
        )  # fmt: skip


async def started(config: Mapping[str, Any]) -> Ringonce:
    """The library, opened."""
    ring = Ringonce(config)
    await ring.open()
    return ring


def toml(config: Mapping[str, Any]) -> str:
    """The configuration as its file says it: sections, and channels with inline tables."""
    lines = []
    for section, keys in config.items():
        if section != "channels":
            lines += [f"[{section}]", *(f"{key} = {value(item)}" for key, item in keys.items())]
    for name, keys in config["channels"].items():
        lines += [f"[channels.{name}]", *(f"{key} = {value(item)}" for key, item in keys.items())]
    return "\n".join(lines) + "\n"


def value(item: object) -> str:
    """One value in TOML."""
    if isinstance(item, dict):
        return "{ " + ", ".join(f"{key} = {value(below)}" for key, below in item.items()) + " }"
    if isinstance(item, (list, tuple)):
        return "[" + ", ".join(value(below) for below in item) + "]"
    return json.dumps(item)


Start = Callable[..., Awaitable[System]]


@pytest.fixture(scope="session")
def migrated(pg_server: Database) -> Iterator[Database]:
    """A database with all tables, to be copied."""
    database = create_database(pg_server)
    try:
        ring = Ringonce({"store": {"url": database.url("asyncpg")}})
        asyncio.run(ring.migrate())
        yield database
    finally:
        drop_database(pg_server, database)


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh database of each kind: an SQLite file that does not exist yet, a migrated PostgreSQL."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/ringonce.db"
        return
    template: Database = request.getfixturevalue("migrated")
    with fresh_database(request.getfixturevalue("pg_server"), template.name) as database:
        yield database.url("asyncpg")


@pytest.fixture
async def start(store_url: str, tmp_path: Path) -> AsyncIterator[Start]:
    """Start systems with the channels that are given, for example ``email={"provider": …}``."""
    async with AsyncExitStack() as stack:

        async def begin(**channels: Mapping[str, object]) -> System:
            config: dict[str, Any] = {
                "store": {"url": store_url},
                "retry": {"cycle": "10ms"},
                "worker": {"grace": "10s"},
                "security": {"allow_private_networks": ["127.0.0.0/8"]},
                "channels": {name: dict(keys) for name, keys in channels.items()},
            }
            system = System(tmp_path, config, await started(config))

            async def close() -> None:
                # Not the ring of now: a reconfiguration replaces it.
                await system.ring.close()

            stack.push_async_callback(close)
            return system

        yield begin


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    """A receiver of signed webhooks that verifies and deduplicates."""
    with WebhookReceiver([SECRET]) as server:
        yield server


def webhook(**more: object) -> Facts:
    """A channel for it."""
    return {"provider": "webhook", "secret": SECRET, **more}


def outcomes(view: Facts) -> list[str]:
    """What each attempt came to."""
    return [attempt["outcome"] for attempt in view["attempt_list"]]


def calls(receiver: WebhookReceiver) -> Counter[str]:
    """Requests per reference, repeats included."""
    return Counter(entry.reference for entry in receiver.ledger.entries)
