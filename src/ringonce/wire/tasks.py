"""Exchanges that have a task each: all are remembered, and none outlives its wire."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Tasks:
    """Those of one wire. To be used in the running event loop."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def begin(self, exchange: Coroutine[None, None, None]) -> None:
        """Let it run."""
        task = asyncio.get_running_loop().create_task(exchange)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def end(self, grace: float) -> None:
        """Wait up to ``grace`` seconds for what runs, then give the rest up, whatever happens meanwhile."""
        try:
            if self._running:
                await asyncio.wait(self._running, timeout=max(0.0, grace))
        finally:
            for task in list(self._running):
                task.cancel()
            while self._running:
                await asyncio.wait(self._running)
