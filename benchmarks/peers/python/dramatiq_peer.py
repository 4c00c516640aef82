"""Dramatiq on Valkey.

Settings: dramatiq.io/advanced.html ("Prefetch Limits": ``dramatiq_queue_prefetch``) and dramatiq.io/guide.html
("Workers": processes and threads). It runs by its own command, ``dramatiq dramatiq_peer``.
"""

from __future__ import annotations

import sys
from typing import Any

import dramatiq
from common import VALKEY, message, pool, post_blocking
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=VALKEY))
held: list[Any] = []


@dramatiq.actor(queue_name="push")
def push(payload: dict[str, Any]) -> None:
    """Deliver; each process has a client of its own."""
    if not held:
        held.append(pool())
    post_blocking(held[0], payload)


if __name__ == "__main__":
    for number in range(int(sys.argv[2])):
        push.send(message(number))
