"""HTTP for everybody: one libcurl multi handle on the event loop, requests in and answers out in batches.

Thousands of exchanges share it; none of them is a task, a future or a thread. The loop watches one descriptor that
stands for all sockets of libcurl. What is ready is handed to libcurl, a few milliseconds of it at a time, and the
answers that came of it go out with one call per receiver. Names are looked up in threads of libcurl's own.

A thread of its own for libcurl was measured too: each of its dozen callbacks per request then waits for the
interpreter's lock, and that costs more than all else that the wire does. The price is that somebody else may block
the loop, and libcurl looks at the time before it looks at the socket: an answer that came in time would be lost. So
after a long pause the sockets are read first, and only then is it said what came too late.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pycurl

from ringonce.model.exchange import Fault, HttpRequest, NoAnswer
from ringonce.wire.easy import STOPPED, Exchange
from ringonce.wire.guard import Guard
from ringonce.wire.links import Links
from ringonce.wire.ready import BROKEN, IN, OUT, ready

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ringonce.model.exchange import Answer
    from ringonce.ports import Deliver

_LONGEST_TURN = 0.005
_PAUSE = 0.5  # seconds
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
        self._closed = False
        self._running = 0
        self._unsaid: list[tuple[Deliver, object, Answer]] = []
        self._idle: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pumps: dict[str, _Pump] = {}

    async def start(self) -> None:
        """Begin; must be called inside the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._idle = asyncio.Event()
        self._idle.set()
        self._fresh("", self._loop)

    def _fresh(self, label: str, loop: asyncio.AbstractEventLoop) -> _Pump:
        """A pump for requests of one label: libcurl keeps connections for each multi handle by itself."""
        call = partial(self._turn, label)
        pump = self._pumps[label] = _Pump(self._guard, self._ca, self._agent, self._max_idle, loop, call)
        return pump

    def submit(self, batch: Sequence[tuple[object, HttpRequest]], deliver: Deliver) -> None:
        """Begin all of ``batch``."""
        if self._idle is None or self._loop is None:
            raise RuntimeError("submit comes after start")
        self._running += len(batch)
        if self._running:
            self._idle.clear()
        unsaid: list[tuple[Deliver, object, Answer]] = []
        if not self._pumps or self._closed:
            unsaid = [(deliver, token, _NOT_STARTED) for token, _ in batch]
        else:
            labels = {request.connection for _, request in batch}
            for label in labels:
                pump = self._pumps.get(label) or self._fresh(label, self._loop)
                some = [pair for pair in batch if pair[1].connection == label] if len(labels) > 1 else batch
                unsaid += pump.begin(some, deliver)
                pump.arm()
        if unsaid:
            # Not from inside of this call: who submits is not ready for answers yet.
            if not self._unsaid:
                self._loop.call_soon(self._say)
            self._unsaid += unsaid

    async def close(self, grace: float) -> None:
        """Start nothing more, wait for what runs, give the rest up. Again: does nothing."""
        idle = self._idle
        if idle is None or self._closed:
            return
        self._closed = True
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, grace)):
                    await idle.wait()
        finally:
            self._say()
            pumps, self._pumps = self._pumps, {}
            for pump in pumps.values():
                self._tell(pump.give_up())
                pump.close()

    def _turn(self, label: str) -> None:
        """Something is ready or due: let libcurl work on it, and hand out what came of it."""
        pump = self._pumps.get(label)
        if pump is None or self._loop is None:
            return
        try:
            pump.turn()
            done = pump.harvest()
        except Exception as error:  # noqa: BLE001 - a bug, of ours or below: the next pump starts afresh
            self._loop.call_exception_handler({"message": "the HTTP wire failed", "exception": error})
            done = pump.give_up()
            pump.close()
            pump = self._fresh(label, self._loop)
        if done:
            self._tell(done)
        pump.arm()

    def _say(self) -> None:
        unsaid, self._unsaid = self._unsaid, []
        self._tell(unsaid)

    def _tell(self, done: list[tuple[Deliver, object, Answer]]) -> None:
        """Hand all answers over, one call for each ``deliver``."""
        calls: dict[Deliver, list[tuple[object, Answer]]] = {}
        last: Deliver | None = None
        pairs: list[tuple[object, Answer]] = []
        for deliver, token, answer in done:
            if deliver is not last:
                last = deliver
                pairs = calls.setdefault(deliver, [])
            pairs.append((token, answer))
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


class _Pump:
    """libcurl's multi handle with its sockets, its timer, and the easy handles that are free or at work.

    ``turn`` is called by the loop through ``call``, and again whenever ``arm`` says so.
    """

    def __init__(
        self,
        guard: Guard,
        ca: tuple[str | None, str | None],
        agent: str,
        max_idle: int,
        loop: asyncio.AbstractEventLoop,
        call: Callable[[], None],
    ) -> None:
        self._recipe = (guard, Links(), ca, agent)
        self._free: dict[tuple[bool, bool], list[Exchange]] = {}
        self._busy: dict[Any, Exchange] = {}
        self._overdue: list[Exchange] = []
        self._turned = time.monotonic()
        self._loop = loop
        self._call = call
        self._ready = ready(loop, call)
        # The last word of libcurl's timer, in milliseconds; it speaks twice per request, so nothing is done then.
        self._told: deque[int] = deque(maxlen=1)
        self._deadline: float | None = None
        self._soon = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._told.append)
        self._multi.setopt(pycurl.M_MAXCONNECTS, max_idle)

    def turn(self) -> None:
        """Let libcurl work on what is ready and due. What takes too long stays ready for the next turn."""
        self._soon = False
        act, clock = self._multi.socket_action, time.monotonic
        began = clock()
        if began - self._turned > _PAUSE:
            self._overdue = [exchange for exchange in self._busy.values() if exchange.overdue(began)]
        for fd, mask in self._ready.take():
            bits = (pycurl.CSELECT_IN if mask & IN else 0) | (pycurl.CSELECT_OUT if mask & OUT else 0)
            act(fd, bits | (pycurl.CSELECT_ERR if mask & BROKEN else 0))
            if clock() - began > _LONGEST_TURN and not self._overdue:
                break
        self._heed()
        if self._deadline is not None and self._deadline <= clock():
            self._deadline = None
            act(pycurl.SOCKET_TIMEOUT, 0)
        self._turned = clock()

    def _heed(self) -> None:
        """Take over when libcurl wants to be called."""
        if self._told:
            milliseconds = self._told.pop()
            self._deadline = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000

    def arm(self) -> None:
        """See to it that there is a turn when libcurl's timer ends."""
        self._heed()
        if self._deadline is None or self._soon:
            return
        wait = self._deadline - time.monotonic()
        if wait <= 0:
            self._soon = True
            self._loop.call_soon(self._call)
        elif self._alarm is None or self._alarm_at > self._deadline:
            if self._alarm is not None:
                self._alarm.cancel()
            # One that rings too early is set anew then: that is seldom, while deadlines move with each request.
            self._alarm_at = self._deadline
            self._alarm = self._loop.call_later(wait, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._call()

    def begin(
        self, batch: Sequence[tuple[object, HttpRequest]], deliver: Deliver
    ) -> list[tuple[Deliver, object, Answer]]:
        """Start exchanges; the answers of those that can not even start."""
        failed: list[tuple[Deliver, object, Answer]] = []
        now = time.monotonic()
        for token, request in batch:
            kind = (request.guarded, request.http2)
            free = self._free.get(kind)
            if free is None:
                free = self._free[kind] = []
            exchange = free.pop() if free else Exchange(kind, *self._recipe)
            try:
                exchange.load(request, token, deliver, now)
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
            for curl in complete:
                done.append(self._end(curl, 0, ""))  # noqa: PERF401 - quicker than a list of its own each time
            for curl, code, words in broken:
                if self._busy[curl].again():
                    self._multi.remove_handle(curl)
                    self._multi.add_handle(curl)
                else:
                    done.append(self._end(curl, code, words))
        if self._overdue:
            late = [exchange.curl for exchange in self._overdue if exchange.curl in self._busy]
            done += [self._end(curl, pycurl.E_OPERATION_TIMEDOUT, "") for curl in late]
            self._overdue = []
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
        self._ready.close()
        if self._alarm is not None:
            self._alarm.cancel()

    def _socket(self, what: int, fd: int, _multi: object, _known: object) -> None:
        if what == pycurl.POLL_REMOVE:
            self._ready.rest(fd)
        else:
            self._ready.watch(
                fd, (IN if what & pycurl.POLL_IN else 0) | (OUT if what & pycurl.POLL_OUT else 0)
            )


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
