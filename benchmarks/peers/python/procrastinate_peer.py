"""Procrastinate.

Settings: procrastinate.readthedocs.io/en/stable, howto/production/concurrency (asynchronous tasks, ``concurrency``),
howto/production/delete_finished_jobs (``delete_jobs``), howto/basics/batch_defer (jobs in bulk).
"""

from __future__ import annotations

import sys
from typing import Any

import procrastinate
import uvloop
from common import DATABASE, SLOTS, message, pieces, post, session

app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=DATABASE, min_size=4, max_size=20),
)
held: dict[str, Any] = {}


@app.task(name="push")
async def push(payload: dict[str, Any]) -> None:
    """Deliver."""
    await post(held["client"], payload)


async def enqueue(count: int) -> None:
    """Make the tables and the jobs."""
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for piece in pieces(count):
            await push.batch_defer_async(*({"payload": message(n)} for n in piece))


async def work() -> None:
    """Until SIGTERM."""
    async with app.open_async(), session() as client:
        held["client"] = client
        await app.run_worker_async(
            concurrency=SLOTS,
            delete_jobs="always",
            install_signal_handlers=True,
            listen_notify=False,
            fetch_job_polling_interval=0.1,
            shutdown_graceful_timeout=2,
        )


if __name__ == "__main__":
    uvloop.run(enqueue(int(sys.argv[2])) if sys.argv[1] == "enqueue" else work())
