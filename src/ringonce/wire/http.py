"""HTTP for everybody: one libcurl multi handle in one thread, requests in and answers out in batches.

Thousands of exchanges share the thread; none of them is a task or a future. The thread waits on libcurl's own
sockets and on a pipe that ``submit`` writes to. Its answers reach the event loop with one call per batch.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import ssl
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pycurl

from ringonce.model.exchange import Fault, HttpRequest, NoAnswer
from ringonce.wire.easy import STOPPED, Exchange
from ringonce.wire.guard import Guard
from ringonce.wire.links import Links

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.model.exchange import Answer
    from ringonce.ports import Deliver

_IN, _OUT, _BROKEN = 1, 4, 8 | 16  # the same bits in epoll and in poll
_LONGEST_WAIT = 1.0
_KEPT_HANDLES = 256
# Where systems keep the certificates that they trust, for an interpreter that does not know.
_CA_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


class HttpWire:
    """The HTTP part of the wire. See ``ports.Wire`` for what its methods promise.

    Args:
        allow_private_networks: networks that guarded requests may reach although they are not public.
        ca_file: certificates to trust instead of the system's.
        user_agent: how we call ourselves where the request does not say it.
        max_idle_connections: how many connections are kept for later at most.
    """

    def __init__(
        self,
        *,
        allow_private_networks: Sequence[str] = (),
        ca_file: str | None = None,
        user_agent: str = "ringonce",
        max_idle_connections: int = 256,
    ) -> None:
        self._guard = Guard(allow_private_networks)
        self._ca = (ca_file, None) if ca_file is not None else _system_ca()
        self._agent = user_agent
        self._max_idle = max_idle_connections
        self._inbox: deque[tuple[Sequence[tuple[object, HttpRequest]], Deliver]] = deque()
        self._outbox: deque[list[tuple[Deliver, object, Answer]]] = deque()
        self._woken = False
        self._announced = False
        self._stop = False
        self._closed = False
        self._running = 0
        self._idle: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._wake_in = self._wake_out = -1

    # On the event loop.

    async def start(self) -> None:
        """Start the thread."""
        self._loop = asyncio.get_running_loop()
        self._idle = asyncio.Event()
        self._idle.set()
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self._thread = threading.Thread(target=self._run, name="ringonce-http", daemon=True)
        self._thread.start()

    def submit(self, batch: Sequence[tuple[object, HttpRequest]], deliver: Deliver) -> None:
        """Begin all of ``batch``."""
        if self._idle is None or self._loop is None:
            raise RuntimeError("submit comes after start")
        self._running += len(batch)
        if self._running:
            self._idle.clear()
        if self._closed:
            self._post([(deliver, token, _NOT_STARTED) for token, _ in batch])
            return
        self._inbox.append((batch, deliver))
        if not self._woken:
            self._woken = True
            self._wake()

    async def close(self, grace: float) -> None:
        """Start nothing more, wait for what runs, give the rest up, join the thread. Again: does nothing."""
        thread, idle = self._thread, self._idle
        if thread is None or idle is None or self._closed:
            return
        self._closed = True
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, grace)):
                    await idle.wait()
        finally:
            self._stop = True
            self._wake()
            # Shielded by not being awaited on: the thread ends by itself within a moment of being told so.
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, thread.join))
            self._flush()
            os.close(self._wake_out)
            self._wake_out = -1

    def _wake(self) -> None:
        # A full pipe wakes as well; a closed one means that the thread is gone and has said so.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._wake_out, b"\0")

    def _flush(self) -> None:
        """Hand all answers over, one call for each ``deliver``."""
        self._announced = False
        calls: dict[Deliver, list[tuple[object, Answer]]] = {}
        while self._outbox:
            for deliver, token, answer in self._outbox.popleft():
                calls.setdefault(deliver, []).append((token, answer))
        for deliver, pairs in calls.items():
            self._running -= len(pairs)
            try:
                deliver(pairs)
            except Exception as error:  # noqa: BLE001 - one receiver's bug must not swallow another's answers
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "a receiver of answers failed", "exception": error}
                )
        if not self._running and self._idle is not None:
            self._idle.set()

    # In the thread.

    def _post(self, answers: list[tuple[Deliver, object, Answer]]) -> None:
        if not answers or self._loop is None:
            return
        self._outbox.append(answers)
        if not self._announced:
            self._announced = True
            # A loop that is closed has nobody left to tell.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._flush)

    def _run(self) -> None:
        while not self._stop:
            pump = _Pump(self._guard, self._ca, self._agent, self._max_idle, self._wake_in)
            try:
                self._work(pump)
            except Exception as error:  # noqa: BLE001 - a bug, of ours or below: the next pump starts afresh
                self._report(error)
            finally:
                self._post(pump.give_up())
                pump.close()
        while self._inbox:
            batch, deliver = self._inbox.popleft()
            self._post([(deliver, token, _NOT_STARTED) for token, _ in batch])
        os.close(self._wake_in)

    def _work(self, pump: _Pump) -> None:
        while not self._stop:
            if pump.turn():
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_in, 4096)
                self._woken = False
                while self._inbox:
                    batch, deliver = self._inbox.popleft()
                    self._post(pump.begin(batch, deliver))
            self._post(pump.harvest())

    def _report(self, error: Exception) -> None:
        if self._loop is not None:
            context = {"message": "the HTTP thread failed", "exception": error}
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._loop.call_exception_handler, context)


class _Pump:
    """libcurl's multi handle with its sockets, its timer, and the easy handles that are free or at work."""

    def __init__(
        self, guard: Guard, ca: tuple[str | None, str | None], agent: str, max_idle: int, wake: int
    ) -> None:
        self._recipe = (guard, Links(), ca, agent)
        self._free: dict[tuple[bool, bool], list[Exchange]] = {}
        self._busy: dict[Any, Exchange] = {}
        self._poller: Any = select.epoll() if hasattr(select, "epoll") else select.poll()
        self._unit = 1.0 if hasattr(select, "epoll") else 1000.0
        self._watched: set[int] = set()
        self._deadline: float | None = None
        self._wake = wake
        self._poller.register(wake, _IN)
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, max_idle)

    def turn(self) -> bool:
        """Wait for something, let libcurl work on it. True: the wake-up pipe was written to."""
        wait = _LONGEST_WAIT
        if self._deadline is not None:
            wait = min(wait, max(0.0, self._deadline - time.monotonic()))
        woken = False
        for fd, mask in self._poller.poll(wait * self._unit):
            if fd == self._wake:
                woken = True
                continue
            bits = (pycurl.CSELECT_IN if mask & _IN else 0) | (pycurl.CSELECT_OUT if mask & _OUT else 0)
            self._multi.socket_action(fd, bits | (pycurl.CSELECT_ERR if mask & _BROKEN else 0))
        if self._deadline is not None and self._deadline <= time.monotonic():
            self._deadline = None
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        return woken

    def begin(
        self, batch: Sequence[tuple[object, HttpRequest]], deliver: Deliver
    ) -> list[tuple[Deliver, object, Answer]]:
        """Start exchanges; the answers of those that can not even start."""
        failed: list[tuple[Deliver, object, Answer]] = []
        for token, request in batch:
            kind = (request.guarded, request.http2)
            free = self._free.setdefault(kind, [])
            exchange = free.pop() if free else Exchange(kind, *self._recipe)
            try:
                exchange.load(request, token, deliver)
                self._multi.add_handle(exchange.curl)
            except (ValueError, TypeError, AttributeError, pycurl.error) as error:
                exchange.curl.close()
                failed.append((deliver, token, NoAnswer(Fault.NOT_STARTED, sent=False, detail=_said(error))))
            else:
                self._busy[exchange.curl] = exchange
        return failed

    def harvest(self) -> list[tuple[Deliver, object, Answer]]:
        """The answers of all exchanges that have ended since the last call."""
        done: list[tuple[Deliver, object, Answer]] = []
        left = 1
        while left and self._busy:
            left, complete, broken = self._multi.info_read()
            done += [self._end(curl, 0, "") for curl in complete]
            for curl, code, words in broken:
                if self._busy[curl].again():
                    self._multi.remove_handle(curl)
                    self._multi.add_handle(curl)
                else:
                    done.append(self._end(curl, code, words))
        return done

    def _end(self, curl: Any, code: int, words: str) -> tuple[Deliver, object, Answer]:
        exchange = self._busy.pop(curl)
        result = exchange.deliver, exchange.token, exchange.answer(code, words)
        self._multi.remove_handle(curl)
        exchange.unload()
        free = self._free[exchange.kind]
        if len(free) < _KEPT_HANDLES:
            free.append(exchange)
        else:
            curl.close()
        return result  # type: ignore[return-value]

    def give_up(self) -> list[tuple[Deliver, object, Answer]]:
        """End all exchanges now; their answers say whether anything of them was sent."""
        done: list[tuple[Deliver, object, Answer]] = []
        with contextlib.suppress(pycurl.error):
            # One turn, so that a handle just added has forgotten the counters of its last exchange.
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
            done = self.harvest()
        return done + [self._end(curl, STOPPED, "") for curl in list(self._busy)]

    def close(self) -> None:
        """Free everything."""
        for free in self._free.values():
            for exchange in free:
                exchange.curl.close()
        self._multi.close()
        if hasattr(self._poller, "close"):
            self._poller.close()

    def _socket(self, what: int, fd: int, _multi: object, _known: object) -> None:
        if what == pycurl.POLL_REMOVE:
            self._watched.discard(fd)
            # libcurl may have closed it already; epoll has forgotten it then.
            with contextlib.suppress(OSError, KeyError):
                self._poller.unregister(fd)
            return
        mask = (_IN if what & pycurl.POLL_IN else 0) | (_OUT if what & pycurl.POLL_OUT else 0)
        if fd in self._watched:
            self._poller.modify(fd, mask)
        else:
            self._watched.add(fd)
            self._poller.register(fd, mask)

    def _timer(self, milliseconds: int) -> None:
        self._deadline = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000


_NOT_STARTED = NoAnswer(Fault.NOT_STARTED, sent=False, detail="the wire is closed")


def _said(error: Exception) -> str:
    """What was wrong with a request, without quoting it: it holds tokens and addresses."""
    return (
        str(error)
        if type(error) is ValueError
        else f"the request can not be carried ({type(error).__name__})"
    )


def _system_ca() -> tuple[str | None, str | None]:
    """The system's trusted certificates: pycurl's wheels look where another system keeps them."""
    paths = ssl.get_default_verify_paths()
    file = paths.cafile or next((path for path in _CA_FILES if Path(path).is_file()), None)
    return file, paths.capath
