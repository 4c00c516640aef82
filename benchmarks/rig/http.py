"""A caller of the HTTP API that costs little itself: connections that stay open, requests made beforehand."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST = "127.0.0.1"


def request(path: str, body: bytes) -> bytes:
    """The bytes of one POST."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {HOST}", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


class Connection:
    """One blocking connection that is kept."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), 60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, raw: bytes) -> None:
        """Send a request and read its whole answer. Raises RuntimeError: it is not of the 2xx family."""
        self._socket.sendall(raw)
        held = b""
        while (end := held.find(b"\r\n\r\n")) < 0:
            held += self._more()
        missing = end + 4 + length(held[:end]) - len(held)
        while missing > 0:
            missing -= len(self._more())
        if held[9:10] != b"2":
            raise RuntimeError(f"the API answered {held[:500]!r}")

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 20)
        if not data:
            raise RuntimeError("the API closed the connection")
        return data

    def close(self) -> None:
        """Give it back."""
        self._socket.close()


def length(head: bytes) -> int:
    """What Content-Length says."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise RuntimeError(f"an answer without a length: {head!r}")


def storm(port: int, requests: Sequence[bytes], connections: int) -> None:
    """Send all, over so many connections at the same time. Raises RuntimeError: one was refused."""
    failed: list[Exception] = []

    def send(mine: Sequence[bytes]) -> None:
        connection = Connection(port)
        try:
            for raw in mine:
                connection.post(raw)
        except (OSError, RuntimeError) as error:
            failed.append(error)
        finally:
            connection.close()

    threads = [
        threading.Thread(target=send, args=(requests[number::connections],)) for number in range(connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise RuntimeError(f"{len(failed)} of {connections} connections failed: {failed[0]}")


async def in_thread(connection: Connection, raw: bytes) -> None:
    """``post`` without holding up the event loop."""
    await asyncio.to_thread(connection.post, raw)
