"""What a process without the API tells of itself over HTTP: its metrics, that it lives, that it can work."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ringonce.errors import ConfigError
from ringonce.telemetry import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from ringonce.telemetry import Telemetry

LINE = 8_192
"""Bytes of a request's head at most."""
PATIENCE = 10.0
"""Seconds that a request and its answer may take."""
PLAIN = "text/plain; charset=utf-8"


@asynccontextmanager
async def telling(
    where: tuple[str, int] | None, telemetry: Telemetry, ready: Callable[[], Awaitable[bool]]
) -> AsyncIterator[None]:
    """Answer ``GET /metrics``, ``/healthz`` and ``/readyz`` during the block. ``where`` None: nothing is opened.

    Raises ConfigError: the address is not free.
    """
    if where is None:
        yield
        return

    async def answer(path: str) -> tuple[str, str, str]:
        if path == "/metrics":
            return "200 OK", CONTENT_TYPE, telemetry.exposition()
        if path == "/healthz":
            return "200 OK", PLAIN, "ok\n"
        if path == "/readyz":
            return (
                ("200 OK", PLAIN, "ready\n")
                if await ready()
                else ("503 Service Unavailable", PLAIN, "not ready\n")
            )
        return "404 Not Found", PLAIN, "there are /metrics, /healthz, /readyz\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                method, path, *_ = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split(" ", 2)
                if method in {"GET", "HEAD"}:
                    status, kind, body = await answer(path.partition("?")[0])
                else:
                    status, kind, body = "405 Method Not Allowed", PLAIN, "GET only\n"
                data = body.encode()
                head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
                writer.write(f"{head}Connection: close\r\n\r\n".encode())
                writer.write(data if method != "HEAD" else b"")
                await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked has gone, or did not speak HTTP
        finally:
            with suppress(OSError):
                writer.close()

    host, port = where
    try:
        server = await asyncio.start_server(serve, host, port, limit=LINE)
    except OSError as error:
        raise ConfigError(
            f"can not listen on {host}:{port}: {error.strerror}",
            field="worker.metrics",
            mend="choose another port; each process takes one, counted up from it",
        ) from None
    try:
        yield
    finally:
        server.close()
