"""What all stand-ins share: a server on loopback in a thread or a process of its own, a plan, a ledger."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import struct
import sys
import threading
from abc import ABC, abstractmethod
from argparse import ArgumentParser, ArgumentTypeError
from typing import TYPE_CHECKING, Any

from ringonce.errors import InputError
from ringonce.vendors.ledger import Ledger
from ringonce.vendors.script import Plan, plan, rule

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from ringonce.vendors.script import Fault

HEAD_LIMIT = 65_536
BODY_LIMIT = 32 * 1024 * 1024


class StandIn(ABC):
    """A server. ``with StandIn() as server:`` runs it in a thread; ``run_until_stopped`` is for a process.

    Args:
        plan: what goes wrong, and when; None: nothing.
        ledger: where to write what was received; None: a new one in memory.
        host: the address to listen at.
        port: the port; 0: any that is free, see ``port``.
    """

    def __init__(
        self,
        *,
        plan: Plan | None = None,
        ledger: Ledger | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.plan = plan or Plan()
        self.ledger = ledger or Ledger()
        self.host = host
        self.port = port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._talks: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; it is closed when this returns."""

    # Running.

    def start(self) -> Self:
        """Listen, in a thread. Raises OSError: the port is taken."""
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def stop(self) -> None:
        """Close all connections and end the thread."""
        if self._loop is not None and self._stop is not None:
            # A loop that has ended already needs no telling.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve(self._ready.set))
        except OSError as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self, ready: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = await asyncio.start_server(
            self._connected, self.host, self.port, limit=HEAD_LIMIT, backlog=1024
        )
        self.port = server.sockets[0].getsockname()[1]
        ready()
        await self._stop.wait()
        server.close()
        for task in self._talks:
            task.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._talks.add(task)
            task.add_done_callback(self._talks.discard)
        try:
            await self.talk(reader, writer)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # the client went away or speaks something else, or the server stops
        finally:
            writer.transport.close()

    def run_until_stopped(self) -> None:
        """Listen in this thread, print the port on a line of its own, end at SIGTERM or SIGINT."""

        def announce() -> None:
            if self._loop is not None and self._stop is not None:
                for number in (signal.SIGTERM, signal.SIGINT):
                    self._loop.add_signal_handler(number, self._stop.set)
            sys.stdout.write(f"{self.port}\n")
            sys.stdout.flush()

        asyncio.run(self._serve(announce))
        self.ledger.close()


async def break_off(fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Do what a fault without an answer says; afterwards the connection is to be closed."""
    match fault.verb.removeprefix("accept_then_"):
        case "hang":
            while await reader.read(65_536):
                pass
        case "reset":
            sock = writer.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        case "garbage":
            writer.write(b"\x16\x03\x01\x00\xff garbage \x00\r\n")
            await writer.drain()
        case _:
            pass  # closing is all


def arguments(description: str) -> ArgumentParser:
    """The options that all stand-ins have as programs."""
    parser = ArgumentParser(description=description)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free port, printed on the first line")
    parser.add_argument("--ledger", metavar="FILE", help="append what was received, as JSON lines")
    parser.add_argument("--fsync", action="store_true", help="each line is on disk before the answer")
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="RULE",
        type=_rule,
        help="for example 503:first=20 (may be repeated)",
    )
    parser.add_argument("--seed", type=int, default=0, help="for the share of faults")
    return parser


def _rule(text: str) -> str:
    try:
        rule(text)
    except InputError as error:
        raise ArgumentTypeError(str(error)) from None
    return text


def common(options: Namespace) -> dict[str, Any]:
    """What the options that all stand-ins have make of one."""
    faults: Sequence[str] = options.fault
    return {
        "plan": plan(faults, options.seed),
        "ledger": Ledger(options.ledger, fsync=options.fsync),
        "host": options.host,
        "port": options.port,
    }
