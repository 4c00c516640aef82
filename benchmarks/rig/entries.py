"""The ways in, each as a function that hands over events in groups of some size."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg

from benchmarks.kit import push
from benchmarks.rig import http, programs, rows
from ringonce import Ringonce

try:
    from pysqlite3 import dbapi2 as sqlite3
except ModuleNotFoundError:  # what ringonce takes, too, where there is no wheel
    import sqlite3

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.servers.postgres import Database

TOGETHER = 20
"""Calls of notify() at the same time, as a busy web service has them."""
SINGLES, BATCHES = 16, 8
"""Connections to the API: what several callers send meanwhile goes in one transaction."""


@dataclass(slots=True)
class Way:
    """One way in.

    Attributes:
        count: how many notifications are right for a figure.
        group: how many are handed over at once.
        prepare: makes what is needed for so many, which is not timed; returns what is.
        api: the process that is called over HTTP.
    """

    count: int
    group: int
    prepare: Callable[[int], Callable[[], None]]
    api: int | None = None


@dataclass(slots=True)
class Numbers:
    """Events that nobody has handed over yet."""

    used: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def events(self, count: int) -> list[dict[str, Any]]:
        """So many new ones."""
        self.used += count
        return [push.event(self.used - number) for number in range(count)]

    def groups(self, count: int, size: int) -> list[list[dict[str, Any]]]:
        """The same in groups."""
        return [self.events(size) for _ in range(count // size)]


class Inside:
    """Ways of one program that has ringonce as a library."""

    def __init__(self, runner: asyncio.Runner, ringonce: Ringonce, numbers: Numbers) -> None:
        self._run, self._ringonce, self._numbers = runner.run, ringonce, numbers

    def single(self, count: int) -> Callable[[], None]:
        """notify(), one after the other."""
        events = self._numbers.events(count)

        async def go() -> None:
            for event in events:
                await self._ringonce.notify(event)

        return lambda: self._run(go())

    def together(self, count: int) -> Callable[[], None]:
        """notify(), several at the same time."""
        waiting = iter(self._numbers.events(count))

        async def caller() -> None:
            for event in waiting:
                await self._ringonce.notify(event)

        async def go() -> None:
            await asyncio.gather(*(caller() for _ in range(TOGETHER)))

        return lambda: self._run(go())

    def many(self, size: int) -> Callable[[int], Callable[[], None]]:
        """notify_many()."""

        def prepare(count: int) -> Callable[[], None]:
            groups = self._numbers.groups(count, size)

            async def go() -> None:
                for group in groups:
                    await self._ringonce.notify_many(group)

            return lambda: self._run(go())

        return prepare

    def on_asyncpg(self, connection: Any, size: int) -> Callable[[int], Callable[[], None]]:
        """enqueue_async(connection) in transactions of the caller."""

        def prepare(count: int) -> Callable[[], None]:
            groups = self._numbers.groups(count, size)

            async def go() -> None:
                for group in groups:
                    async with connection.transaction():
                        for event in group:
                            await self._ringonce.enqueue_async(connection, event)

            return lambda: self._run(go())

        return prepare

    def on_psycopg(
        self, connection: psycopg.Connection[Any], size: int
    ) -> Callable[[int], Callable[[], None]]:
        """enqueue(connection) in transactions of the caller."""

        def prepare(count: int) -> Callable[[], None]:
            groups = self._numbers.groups(count, size)

            def go() -> None:
                for group in groups:
                    with connection.transaction():
                        for event in group:
                            self._ringonce.enqueue(connection, event)

            return go

        return prepare

    def on_sqlite(self, connection: Any, size: int) -> Callable[[int], Callable[[], None]]:
        """The same with sqlite3."""

        def prepare(count: int) -> Callable[[], None]:
            groups = self._numbers.groups(count, size)

            def go() -> None:
                for group in groups:
                    with connection:
                        for event in group:
                            self._ringonce.enqueue(connection, event)

            return go

        return prepare


def over_http(numbers: Numbers, port: int, size: int) -> Callable[[int], Callable[[], None]]:
    """POST: singles, or batches."""
    path = "/v1/notifications" if size == 1 else "/v1/notifications/batch"

    def prepare(count: int) -> Callable[[], None]:
        bodies = [group[0] if size == 1 else group for group in numbers.groups(count, size)]
        requests = [http.request(path, json.dumps(body).encode()) for body in bodies]
        return lambda: http.storm(port, requests, SINGLES if size == 1 else BATCHES)

    return prepare


def bare_postgres(
    runner: asyncio.Runner, connection: Any, copies: rows.Copies, said: Mapping[str, str], size: int
) -> Callable[[int], Callable[[], None]]:
    """One INSERT per table and transaction."""

    def prepare(count: int) -> Callable[[], None]:
        groups = [copies.make(size) for _ in range(count // size)]

        async def go() -> None:
            for group in groups:
                async with connection.transaction():
                    for table, columns in group.items():
                        await connection.execute(said[table], *columns)

        return lambda: runner.run(go())

    return prepare


def bare_sqlite(connection: Any, copies: rows.Copies, size: int) -> Callable[[int], Callable[[], None]]:
    """One executemany() per table and transaction."""

    def prepare(count: int) -> Callable[[], None]:
        groups = [copies.make(size) for _ in range(count // size)]

        def go() -> None:
            for group in groups:
                with connection:
                    for table, columns in group.items():
                        marks = ", ".join("?" * len(columns))
                        connection.executemany(
                            f"INSERT INTO ringonce_{table} VALUES ({marks})", rows.lines(columns)
                        )

        return go

    return prepare


@contextlib.contextmanager
def on_postgres(folder: Path, database: Database) -> Iterator[dict[str, Way]]:
    """All ways into PostgreSQL. No worker runs."""
    with contextlib.ExitStack() as stack:
        runner, numbers = stack.enter_context(asyncio.Runner()), Numbers()
        config = push.config(UNUSED, database.url("asyncpg"))
        pattern = programs.migrated(config, push.event(0))[0]
        inside = Inside(runner, opened(stack, runner, config), numbers)
        one = runner.run(connected(database))
        stack.callback(lambda: runner.run(one.close()))
        two = stack.enter_context(psycopg.connect(database.url()))
        said = runner.run(rows.inserts(one))
        copies = rows.Copies(runner.run(rows.pattern_of(one, pattern)), lite=False)
        file = programs.write(folder / "enqueue-postgres.toml", config)
        process, port = stack.enter_context(programs.api(file))
        yield {
            "bare INSERTs by asyncpg": Way(600, 1, bare_postgres(runner, one, copies, said, 1)),
            "bare INSERTs by asyncpg x 100": Way(10_000, 100, bare_postgres(runner, one, copies, said, 100)),
            "notify()": Way(300, 1, inside.single),
            f"notify() {TOGETHER} at a time": Way(600, 1, inside.together),
            "notify_many(100)": Way(5_000, 100, inside.many(100)),
            "notify_many(1000)": Way(10_000, 1000, inside.many(1000)),
            "enqueue() on asyncpg": Way(500, 1, inside.on_asyncpg(one, 1)),
            "enqueue() on asyncpg x 100": Way(2_000, 100, inside.on_asyncpg(one, 100)),
            "enqueue() on psycopg": Way(500, 1, inside.on_psycopg(two, 1)),
            "enqueue() on psycopg x 100": Way(2_000, 100, inside.on_psycopg(two, 100)),
            "HTTP": Way(800, 1, over_http(numbers, port, 1), process.pid),
            "HTTP batches of 100": Way(10_000, 100, over_http(numbers, port, 100), process.pid),
        }


@contextlib.contextmanager
def on_sqlite(folder: Path) -> Iterator[dict[str, Way]]:
    """All ways into an SQLite file. No worker runs; the API has a file of its own."""
    with contextlib.ExitStack() as stack:
        runner, numbers = stack.enter_context(asyncio.Runner()), Numbers()
        config = push.config(UNUSED, f"sqlite:///{folder / 'enqueue.db'}")
        pattern = programs.migrated(config, push.event(0))[0]
        inside = Inside(runner, opened(stack, runner, config), numbers)
        connection = sqlite3.connect(folder / "enqueue.db")
        stack.callback(connection.close)
        copies = rows.Copies(rows.pattern_of_lite(connection, pattern), lite=True)
        other = push.config(UNUSED, f"sqlite:///{folder / 'api.db'}")
        process, port = stack.enter_context(
            programs.api(programs.write(folder / "enqueue-sqlite.toml", other))
        )
        yield {
            "bare INSERTs by sqlite3": Way(600, 1, bare_sqlite(connection, copies, 1)),
            "bare INSERTs by sqlite3 x 100": Way(10_000, 100, bare_sqlite(connection, copies, 100)),
            "notify()": Way(300, 1, inside.single),
            f"notify() {TOGETHER} at a time": Way(600, 1, inside.together),
            "notify_many(100)": Way(5_000, 100, inside.many(100)),
            "enqueue() on sqlite3": Way(500, 1, inside.on_sqlite(connection, 1)),
            "enqueue() on sqlite3 x 100": Way(2_000, 100, inside.on_sqlite(connection, 100)),
            "HTTP": Way(800, 1, over_http(numbers, port, 1), process.pid),
            "HTTP batches of 100": Way(10_000, 100, over_http(numbers, port, 100), process.pid),
        }


UNUSED = programs.Clocked(9, 0)
"""Nothing is sent; the channel only has to be configured."""


def opened(stack: contextlib.ExitStack, runner: asyncio.Runner, config: Mapping[str, Any]) -> Ringonce:
    """A library that is open until the end."""
    ringonce = Ringonce(config)
    runner.run(ringonce.open())
    stack.callback(lambda: runner.run(ringonce.close()))
    return ringonce


async def connected(database: Database) -> asyncpg.Connection[Any]:
    """The application's own connection."""
    return await asyncpg.connect(database.url())
