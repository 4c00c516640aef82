"""A provider's stand-in that knows when each call arrived; a program of its own, without ringonce.

``python stub.py`` prints its port. It answers as Firebase Cloud Messaging's HTTP v1 API does, and besides:

- ``POST /token`` gives an access token to anybody.
- ``POST /v1/projects/NAME/messages:send`` accepts. A project ``hang`` is never answered, ``broken`` gets 500.
- ``GET /arrivals`` tells, and forgets, ``[[token, monotonic ns], …]`` of the calls accepted.
- ``GET /count`` tells how many were accepted since the start.

``CLOCK_MONOTONIC`` is one clock for all processes of a machine, so callers compare it with their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import time

TOKEN = re.compile(rb'"token":\s*"([^"]*)"')
LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
arrivals: list[tuple[str, int]] = []
counted = [0]


class Talk(asyncio.Protocol):
    """One connection: requests of known length, one after the other."""

    def __init__(self) -> None:
        self._held = b""
        self._out: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)
        self._out = transport

    def data_received(self, data: bytes) -> None:
        """Take the time first."""
        now = time.monotonic_ns()
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = self._held[: end + 2]
            told = LENGTH.search(head)
            whole = end + 4 + (int(told[1]) if told else 0)
            if len(self._held) < whole:
                return
            body, self._held = self._held[end + 4 : whole], self._held[whole:]
            self._answer(head.partition(b"\r\n")[0].split(b" "), body, now)

    def _answer(self, line: list[bytes], body: bytes, now: int) -> None:
        method, path = line[0], line[1]
        if b"/projects/hang/" in path:
            return
        if b"/projects/broken/" in path:
            self._say(b"500 Internal Server Error", {"error": {"code": 500, "status": "INTERNAL"}})
        elif path == b"/token":
            self._say(b"200 OK", {"access_token": "t", "expires_in": 3600, "token_type": "Bearer"})
        elif path == b"/arrivals":
            self._say(b"200 OK", arrivals)
            arrivals.clear()
        elif path == b"/count":
            self._say(b"200 OK", counted[0])
        elif method == b"POST":
            found = TOKEN.search(body)
            arrivals.append((found[1].decode() if found else "", now))
            counted[0] += 1
            self._say(b"200 OK", {"name": f"projects/bench/messages/{counted[0]}"})
        else:
            self._say(b"404 Not Found", {})

    def _say(self, status: bytes, value: object) -> None:
        body = json.dumps(value).encode()
        head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        if self._out is not None:
            self._out.write(head % (status, len(body)) + body)


async def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await loop.create_server(Talk, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await stop.wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
