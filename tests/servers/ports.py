"""Ports for programs that must be told one: such as nobody else is given by chance."""

import atexit
import random
import socket
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST = 10_000
_held: list[socket.socket] = []


def free_port() -> int:
    """A port that is free, outside of those that the system gives to connections and to servers that name none.

    One of those could be taken before it is used, or while its server is down.
    """
    ephemeral = int(RANGE.read_text().split()[0]) if RANGE.exists() else 49_152
    while True:
        # Drawn, so that test runs beside each other do not meet; none but the system's own are left if it gives all.
        port = random.SystemRandom().randrange(LOWEST, ephemeral) if ephemeral > LOWEST else 0
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            found: int = sock.getsockname()[1]
            return found


def closed_port() -> int:
    """A port where connections are refused: it is bound until the process ends, and nobody listens."""
    sock = socket.socket()
    _held.append(sock)
    sock.bind(("127.0.0.1", 0))
    port: int = sock.getsockname()[1]
    return port


@atexit.register
def _release() -> None:
    for sock in _held:
        sock.close()
