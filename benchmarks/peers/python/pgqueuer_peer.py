"""PgQueuer.

Settings: pgqueuer.readthedocs.io/en/latest/guides/performance-tuning (a larger batch for short jobs, at most half of
``max_concurrent_tasks``; asyncpg with a single connection for the manager, ``durable``, ``pgq autovac``), and its own
benchmark, which runs on uvloop (github.com/janbjorge/pgqueuer tools/benchmark.py).
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta

import asyncpg
import uvloop
from common import DATABASE, SLOTS, body, message, on_sigterm, pieces, post, session
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job  # noqa: TC002 - the entrypoint's annotations are read
from pgqueuer.queries import Queries


async def enqueue(count: int) -> None:
    """Make the tables and the jobs."""
    connection = await asyncpg.connect(DATABASE)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.optimize_autovacuum()
    for piece in pieces(count):
        await queries.enqueue(["push"] * len(piece), [body(message(n)) for n in piece], [0] * len(piece))
    await connection.close()


async def work() -> None:
    """Until SIGTERM."""
    connection = await asyncpg.connect(DATABASE)
    async with session() as client:
        queue = PgQueuer(AsyncpgDriver(connection))

        @queue.entrypoint("push")
        async def push(job: Job) -> None:
            await post(client, json.loads(job.payload or b""))

        on_sigterm(queue.shutdown.set)
        await queue.run(
            batch_size=SLOTS // 2, max_concurrent_tasks=SLOTS, dequeue_timeout=timedelta(seconds=1)
        )


if __name__ == "__main__":
    uvloop.run(enqueue(int(sys.argv[2])) if sys.argv[1] == "enqueue" else work())
