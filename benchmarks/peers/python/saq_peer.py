"""SAQ on Valkey.

Settings: saq-py.readthedocs.io (``concurrency``; redis with the parser of hiredis, the extra ``saq[hiredis]``); on
uvloop, which its worker's command also takes.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import uvloop
from common import SLOTS, VALKEY, message, pieces, post, session
from saq import Queue, Worker

logging.disable(logging.INFO)


async def push(ctx: dict[str, Any], *, payload: dict[str, Any]) -> None:
    """Deliver."""
    await post(ctx["client"], payload)


async def startup(ctx: dict[str, Any]) -> None:
    """One client for all."""
    ctx["client"] = session()


async def shutdown(ctx: dict[str, Any]) -> None:
    """Close it."""
    await ctx["client"].close()


async def enqueue(count: int) -> None:
    """Make the jobs; what is kept of one that is done goes at once."""
    queue = Queue.from_url(VALKEY, name="push", max_concurrent_ops=SLOTS)
    for piece in pieces(count, 200):
        await asyncio.gather(*(queue.enqueue("push", payload=message(n), ttl=-1) for n in piece))
    await queue.disconnect()


async def work() -> None:
    """Until SIGTERM."""
    queue = Queue.from_url(VALKEY, name="push", max_concurrent_ops=SLOTS)
    worker = Worker(queue, functions=[push], concurrency=SLOTS, startup=startup, shutdown=shutdown)
    await worker.start()


if __name__ == "__main__":
    uvloop.run(enqueue(int(sys.argv[2])) if sys.argv[1] == "enqueue" else work())
