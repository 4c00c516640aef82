"""Celery on Valkey.

Settings: docs.celeryq.dev/en/stable, userguide/optimizing ("Prefetch Limits": 64 or 128 for many short tasks) and
userguide/tasks ("Tips and Best Practices": no results that nobody reads). Tasks are acknowledged before they run, which
is the default and faster: one that a crash interrupts is lost. It runs by its own command, ``celery -A celery_peer
worker``, without gossip, mingle and heartbeats between workers.
"""

from __future__ import annotations

import sys
from typing import Any

from celery import Celery
from common import VALKEY, message, pool, post_blocking

app = Celery("push", broker=VALKEY)
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=128,
    worker_disable_rate_limits=True,
    broker_connection_retry_on_startup=True,
    task_default_queue="push",
)
held: list[Any] = []


@app.task(name="push")
def push(payload: dict[str, Any]) -> None:
    """Deliver; each process has a client of its own."""
    if not held:
        held.append(pool())
    post_blocking(held[0], payload)


if __name__ == "__main__":
    with app.producer_pool.acquire() as producer:
        for number in range(int(sys.argv[2])):
            push.apply_async((message(number),), producer=producer)
