"""Serves the application inside a running event loop, until told to stop."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI

from ringonce.api.access import is_loopback
from ringonce.errors import ConfigError

LARGEST_MESSAGE = 65_536
"""Bytes of one message that a page sends over a WebSocket."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the program, which stops the worker and the server together."""
        yield


def listen(host: str, port: int, *, key: str | None, locked: bool = False) -> socket.socket:
    """The listening socket. ``locked``: there are other keys.

    Raises ConfigError: not on loopback and without a key, or the address is not free.
    """
    if key is None and not locked and not is_loopback(host):
        raise ConfigError(
            f"without a key the API listens on loopback only, not on {host}",
            field="api.host",
            mend='set RINGONCE_API_KEY, or host = "127.0.0.1"',
        )
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            # From here on callers are queued, so that the printed address works at once.
            listening.listen(socket.SOMAXCONN)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"can not listen on {host}:{port}: {error.strerror}",
            field="api.port",
            mend="choose another port, e.g. RINGONCE_API_PORT=8071, or 0 for any free one",
        ) from None
    return listening


async def serve(app: FastAPI, listening: socket.socket, stop: asyncio.Event, *, grace: float = 5.0) -> None:
    """Answer requests until ``stop`` is set, then let the running ones finish for up to ``grace`` seconds."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        # It has its say about every WebSocket, path and query included; only trouble is worth a line.
        log_level="warning",
        ws="websockets-sansio",
        ws_max_size=LARGEST_MESSAGE,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=max(1, round(grace)),
        timeout_keep_alive=30,
    )
    server = _Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        # Streams have no end of their own; who reads them comes again and goes on where they were.
        for stream in tuple(app.state.streams):
            stream.end()
        server.should_exit = True
        await serving
