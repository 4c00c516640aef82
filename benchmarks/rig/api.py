"""The HTTP API of ringonce in a process of its own, without a worker: ``python api.py CONFIG`` says its port."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from ringonce import Ringonce
from ringonce.api.app import create_app
from ringonce.api.server import listen, serve
from ringonce.cli.garbage import rarely


async def main(config: Path) -> None:
    """Serve until SIGTERM or SIGINT."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with listen("127.0.0.1", 0, key=None) as listening:
        async with Ringonce(config) as ringonce:
            app = create_app(ringonce)
            print(f"listening on {listening.getsockname()[1]} ", flush=True)
            with rarely():
                await serve(app, listening, stop)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
