"""ringonce with a full queue, and its worker emptying it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from benchmarks.kit import push
from benchmarks.kit.context import environment, ringonce
from benchmarks.kit.drain import Program, drain
from benchmarks.kit.servers import settle, temporary
from ringonce import Ringonce
from ringonce.errors import ConfigError
from tests.servers.postgres import create_database, fresh_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.kit.context import Context
    from benchmarks.kit.servers import Stub
    from tests.servers.postgres import Database

BATCH = 1_000


def on_postgres(context: Context, count: int, *, processes: int = 1, **channel: Any) -> dict[str, float]:
    """Empty a queue of ``count`` on a PostgreSQL database of its own; ``channel``: more keys of the channel."""
    server = context.postgres
    template = context.once(f"postgres {count} {channel}", lambda: filled_postgres(context, count, channel))
    with fresh_database(server.database, template.name) as database:
        settle(database)
        config = push.config(context.stub, database.url("asyncpg"), channel=channel)
        return emptied(context, config, count, {"postgres": server.pid}, processes)


def on_sqlite(context: Context, count: int, **channel: Any) -> dict[str, float]:
    """Empty a queue of ``count`` in a SQLite file of its own, with the settings that a file has by default."""
    template = context.once(f"sqlite {count} {channel}", lambda: filled_sqlite(context, count, channel))
    with temporary("ringonce-sqlite-") as folder:
        shutil.copytree(template, folder, dirs_exist_ok=True)
        os.sync()
        config = push.config(context.stub, f"sqlite:///{folder / 'queue.db'}", channel=channel)
        return emptied(context, config, count, {})


def filled_postgres(context: Context, count: int, channel: dict[str, Any]) -> Database:
    """A database with a full queue, to be copied: to fill one anew for each run would take longer than to empty it."""
    database = create_database(context.postgres.database)
    asyncio.run(fill(push.config(context.stub, database.url("asyncpg"), channel=channel), count))
    return database


def filled_sqlite(context: Context, count: int, channel: dict[str, Any]) -> Path:
    """A folder with a file that holds a full queue, to be copied."""
    folder = context.stack.enter_context(temporary("ringonce-sqlite-"))
    asyncio.run(fill(push.config(context.stub, f"sqlite:///{folder / 'queue.db'}", channel=channel), count))
    return folder


def emptied(
    context: Context, config: dict[str, Any], count: int, servers: dict[str, int], processes: int = 1
) -> dict[str, float]:
    """Let workers empty a queue that is filled, and see that the database says the same as the stub."""
    file = written(context.folder, config)
    command = ["worker", "--drain", "--config", str(file)]
    if processes > 1:
        command += ["--processes", str(processes)]
    program = Program(
        ringonce(*command), environment(), context.folder, context.folder / "worker.log", ends=True
    )
    measured = drain(program, context.stub, count, servers)
    told = reported(context.folder, file)
    if told["sent"] != count:
        raise RuntimeError(f"the database says {told['sent']} of {count} were sent: {told}")
    return measured


def refused(stub: Stub, **channel: Any) -> str:
    """Why this version does not take these keys of a channel; nothing when it does."""
    try:
        Ringonce(push.config(stub, "sqlite://", channel=channel))
    except ConfigError as error:
        return str(error)
    return ""


def without_option(name: str) -> str:
    """Why this version's worker does not take an option; nothing when it does."""
    done = subprocess.run(ringonce("worker", "--help"), capture_output=True, text=True, check=True)
    return "" if name in done.stdout else f"ringonce worker has no {name}"


async def fill(config: dict[str, Any], count: int) -> None:
    """Make the tables and accept ``count`` notifications."""
    engine = Ringonce(config)
    await engine.migrate()
    async with engine:
        for begin in range(0, count, BATCH):
            await engine.notify_many([push.event(n) for n in range(begin, min(count, begin + BATCH))])


def written(folder: Path, config: dict[str, Any]) -> Path:
    """The configuration as a file."""
    file = folder / "ringonce.toml"
    file.write_text("\n".join(toml(config)) + "\n")
    return file


def toml(table: dict[str, Any], path: str = "") -> Iterator[str]:
    """A nested structure as TOML: plain keys first, tables below. JSON's texts, numbers and lists are TOML's, too."""
    for key, value in table.items():
        if not isinstance(value, dict):
            yield f"{key} = {json.dumps(value)}"
    for key, value in table.items():
        if isinstance(value, dict):
            yield f"[{path}{key}]"
            yield from toml(value, f"{path}{key}.")


def reported(folder: Path, file: Path) -> dict[str, int]:
    """The once report."""
    done = subprocess.run(
        ringonce("report", "--json", "--config", str(file)),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    told: dict[str, int] = json.loads(done.stdout)
    return told
