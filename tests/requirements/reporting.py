"""The API over real HTTP beside a system under test, for vendors that call it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ringonce.api.app import create_app
from ringonce.api.server import listen, serve
from ringonce.app import Ringonce
from ringonce.vendors.reports import Reporter, Told


@asynccontextmanager
async def callable_at(ring: Ringonce) -> AsyncIterator[str]:
    """The API of ``ring`` on a port of its own, with a key that no vendor knows; its URL."""
    with listen("127.0.0.1", 0, key="k") as listening:
        stop = asyncio.Event()
        serving = asyncio.create_task(serve(create_app(ring, key="k"), listening, stop))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            stop.set()
            await serving


async def report(server: Reporter, told: Told, text: str, *, at: float = 0.0) -> int:
    """One callback over HTTP; the status of the answer."""
    return await asyncio.to_thread(server.report, told, text, at=at)
