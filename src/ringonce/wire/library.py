"""Libraries that do their own I/O and block: a few threads, and no more patience than the request has.

A call that is not answered in time goes on in its thread, which nobody can stop; until it ends its place is taken.
What a library logs may hold the credentials that it was given: it is kept from the program's logs, and what is told
of it has lost every word of theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ringonce.model.exchange import Fault, LibraryAnswer, NoAnswer
from ringonce.wire.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.model.exchange import Answer, LibraryCall, LibraryRequest
    from ringonce.ports import Deliver

log = logging.getLogger("ringonce")

THREADS = 8
ALL = logging.DEBUG - 1
"""A level that no program sets."""
LONGEST = 2_000
"""Characters that are kept of what a library says."""


class LibraryWire:
    """The part of the wire that calls libraries. See ``ports.Wire`` for what its methods promise."""

    def __init__(self, threads: int = THREADS) -> None:
        self._places = asyncio.Semaphore(threads)
        self._tasks = Tasks()
        self._closed = False

    def submit(self, batch: Sequence[tuple[object, LibraryRequest]], deliver: Deliver) -> None:
        """Begin all of ``batch``; so many at a time as there are threads."""
        for token, request in batch:
            self._tasks.begin(self._carry(token, request, deliver))

    async def close(self, grace: float) -> None:
        """Wait up to ``grace`` seconds for what runs, then give it up; a thread that still runs is left behind."""
        self._closed = True
        await self._tasks.end(grace)

    async def _carry(self, token: object, request: LibraryRequest, deliver: Deliver) -> None:
        try:
            answer = await self._call(request)
        except BaseException as error:  # noqa: BLE001 - every request gets its answer
            answer = _not_started(error)
        deliver([(token, answer)])

    async def _call(self, request: LibraryRequest) -> Answer:
        if self._closed:
            return _CLOSED
        async with asyncio.timeout(request.timeout):
            await self._places.acquire()
        call = _Call(request, asyncio.get_running_loop(), self._places)
        try:
            call.start()
        except BaseException:
            self._places.release()
            raise
        try:
            async with asyncio.timeout(request.timeout):
                return await call.answer
        except TimeoutError:
            return NoAnswer(
                Fault.READ_TIMEOUT, sent=call.give_up(), detail="the library did not return in time"
            )
        except asyncio.CancelledError:
            return NoAnswer(Fault.READ_TIMEOUT, sent=call.give_up(), detail="given up at shutdown")


class _Call(threading.Thread):
    """One call in its thread. ``begun``: it may have rung. The process does not wait for it when it ends."""

    def __init__(
        self, request: LibraryRequest, loop: asyncio.AbstractEventLoop, places: asyncio.Semaphore
    ) -> None:
        super().__init__(name="ringonce-library", daemon=True)
        self.begun = False
        self._given_up = False
        self._decision = threading.Lock()
        self.answer: asyncio.Future[Answer] = loop.create_future()
        self._request = request
        self._loop = loop
        self._places = places
        self._said = self._why = ""
        for name in request.loggers:
            _listen(logging.getLogger(name))

    def hear(self, record: logging.LogRecord) -> None:
        """Remember its last warning, and what was said right after it: libraries tell details so."""
        if record.levelno >= logging.WARNING:
            self._said, self._why = record.getMessage(), ""
        elif self._said and not self._why:
            self._why = f" {record.getMessage()}"

    def give_up(self) -> bool:
        """Nobody waits for it any more: what has not rung by now never will. Whether it may have."""
        with self._decision:
            self._given_up = True
            return self.begun

    def _begin(self) -> bool:
        """The next thing that happens may ring, unless it was said meanwhile that nothing has."""
        with self._decision:
            self.begun = not self._given_up
            return self.begun

    def run(self) -> None:
        """Call, and tell the event loop, if it is still there."""
        answer = self._called()
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._ended, answer)

    def _ended(self, answer: Answer) -> None:
        self._places.release()
        if not self.answer.done():
            self.answer.set_result(answer)

    def _called(self) -> Answer:
        """Never raises: what a library says in an error may hold what is secret."""
        try:
            made = _called(_named(self._request.make.name), self._request.make)
            if not made:
                return LibraryAnswer(made=False, text=self._told())
            method = getattr(made, self._request.call.name)
            if not self._begin():
                return NoAnswer(Fault.NOT_STARTED, sent=False, detail="given up before the call")
            value = _called(method, self._request.call)
        except Exception as error:  # noqa: BLE001 - a library may raise anything
            fault = Fault.RESET_BEFORE_STATUS if self.begun else Fault.NOT_STARTED
            return NoAnswer(fault, sent=self.begun, detail=f"the library failed ({type(error).__name__})")
        return LibraryAnswer(made=True, value=None if value is None else bool(value), text=self._told())

    def _told(self) -> str:
        said = self._said + self._why
        for secret in sorted(set(_WORD.findall(repr(self._request.make.args))), key=len, reverse=True):
            said = said.replace(secret, "…")
        return said[:LONGEST]


class _KeptBack(logging.Filter):
    """Lets a call's own words, of all levels, reach the call only; others log as they did before."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__()
        self._logger, self._parent, self._level = logger, logger.parent, logging.NOTSET

    def open(self) -> None:
        """Let all through to this filter; whatever level the program has set since then is the others'."""
        if self._logger.level != ALL:
            self._level = self._logger.level
            self._logger.setLevel(ALL)

    def filter(self, record: logging.LogRecord) -> bool:
        call = threading.current_thread()
        if isinstance(call, _Call):
            call.hear(record)
            return False
        inherited = self._parent.getEffectiveLevel() if self._parent else logging.NOTSET
        return record.levelno >= (self._level or inherited)


def _listen(logger: logging.Logger) -> None:
    kept = next((one for one in logger.filters if isinstance(one, _KeptBack)), None)
    if kept is None:
        kept = _KeptBack(logger)
        logger.addFilter(kept)
    kept.open()


_WORD = re.compile(r"[^\W_]{3,}")


def _named(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = import_module(module)
    for step in path.split("."):
        found = getattr(found, step)
    return found


def _called(function: Any, call: LibraryCall) -> Any:
    return function(*call.args, **dict(call.kwargs))


def _not_started(error: BaseException) -> Answer:
    if isinstance(error, TimeoutError):
        return NoAnswer(Fault.NOT_STARTED, sent=False, detail="no free thread in time")
    if isinstance(error, asyncio.CancelledError):
        return _CLOSED
    log.error("a library could not be called", exc_info=error)
    return NoAnswer(Fault.NOT_STARTED, sent=False, detail=f"it can not be called ({type(error).__name__})")


_CLOSED = NoAnswer(Fault.NOT_STARTED, sent=False, detail="the wire is closed")
