"""What the peers in Python share: the message, the call, and how they are told what to do.

Each is run as ``python PEER.py enqueue COUNT`` and then, unless it brings a command of its own, as ``python PEER.py
work``.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import aiohttp
    import urllib3

URL = os.environ["BENCH_URL"]
HEADERS: dict[str, str] = json.loads(os.environ["BENCH_HEADERS"])
TEMPLATE = os.environ["BENCH_TEMPLATE"]
DATABASE = os.environ.get("BENCH_DATABASE", "")
VALKEY = f"redis://127.0.0.1:{os.environ.get('BENCH_VALKEY', '')}/0"
SLOTS = 100


def message(number: int) -> dict[str, Any]:
    """The payload of job ``number``."""
    made: dict[str, Any] = json.loads(TEMPLATE.replace("@NUMBER@", f"{number:012d}"))
    return made


def body(payload: dict[str, Any]) -> bytes:
    """The payload as it is sent: without spaces, as everybody sends it."""
    return json.dumps(payload, separators=(",", ":")).encode()


def pieces(count: int, size: int = 1_000) -> Iterator[range]:
    """Numbers 0 … count - 1 in pieces, as makers of jobs in bulk want them."""
    for begin in range(0, count, size):
        yield range(begin, min(count, begin + size))


def session() -> aiohttp.ClientSession:
    """Of aiohttp: as many connections as calls (docs.aiohttp.org, "Limiting connection pool size"); it parses in C."""
    import aiohttp

    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=SLOTS), headers=HEADERS)


async def post(client: aiohttp.ClientSession, payload: dict[str, Any]) -> None:
    """One POST, its answer read and looked at."""
    async with client.post(URL, data=body(payload)) as answer:
        told = json.loads(await answer.read())
    if answer.status != 200 or not told["name"]:
        raise RuntimeError(f"answered {answer.status}")


def pool() -> urllib3.HTTPConnectionPool:
    """Of urllib3, what requests stands on, without its cost (urllib3.readthedocs.io, "Customizing pool behavior")."""
    import urllib3

    parts = urlsplit(URL)
    return urllib3.HTTPConnectionPool(parts.hostname, parts.port, maxsize=SLOTS, headers=HEADERS)


def post_blocking(client: urllib3.HTTPConnectionPool, payload: dict[str, Any]) -> None:
    """``post`` for code that blocks."""
    answer = client.request("POST", urlsplit(URL).path, body=body(payload), retries=False)
    if answer.status != 200 or not json.loads(answer.data)["name"]:
        raise RuntimeError(f"answered {answer.status}")


def on_sigterm(stop: Callable[[], object]) -> None:
    """Stop when the benchmark says so."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
