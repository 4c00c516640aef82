"""The library for code that blocks: every method of ``ringonce.app.Ringonce``, without ``await``.

There is no second implementation: one thread with an event loop runs the first one, and each call waits for it.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from ringonce import app
from ringonce.errors import RingonceError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from types import TracebackType

    from ringonce.app import G
    from ringonce.config import Config
    from ringonce.engine.worker import Drained
    from ringonce.parts import Source
    from ringonce.ports import Accepted, Wire

P = ParamSpec("P")
R = TypeVar("R")

LOOK_UP = 0.5
"""Seconds after which a thread that waits looks whether it was interrupted."""


class Portal:
    """A thread with an event loop, for calls from other threads."""

    def __init__(self) -> None:
        """Start it."""
        self.process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._executor = ThreadPoolExecutor(thread_name_prefix="ringonce-blocking")
        self._loop.set_default_executor(self._executor)
        self._tasks: set[asyncio.Task[Any]] = set()
        # A daemon: the interpreter waits for others before it runs what is registered for its exit.
        self._thread = threading.Thread(target=self._main, name="ringonce-blocking", daemon=True)
        self._thread.start()

    def call(self, make: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine to its end. Interrupted (Ctrl-C), it is cancelled, and its end is waited for."""
        if threading.current_thread() is self._thread:
            raise RingonceError(
                "a blocking call from inside the event loop would wait for itself",
                mend="in a coroutine that ringonce runs, such as a guard, use ringonce.Ringonce with await",
            )
        done: Future[R] = Future()
        started: list[asyncio.Task[R]] = []

        def start() -> None:
            task = self._loop.create_task(make())
            started.append(task)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda task: _hand_over(task, done))

        def cancel() -> None:
            started[0].cancel()

        self._loop.call_soon_threadsafe(start)
        try:
            # The system may give Ctrl-C to another thread, and then nothing ends this one's waiting: it looks up.
            while not wait((done,), LOOK_UP).done:
                pass
            return done.result()
        except BaseException:
            if not done.done():
                self._loop.call_soon_threadsafe(cancel)
                with suppress(BaseException):
                    done.result()
            raise

    async def others(self) -> None:
        """Wait until all calls but this one have ended."""
        await asyncio.gather(*(self._tasks - {asyncio.current_task()}), return_exceptions=True)

    def stop(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            # By hand, because the loop would start a thread for it, which is too late at the interpreter's exit.
            self._executor.shutdown()
            self._loop.close()


def _hand_over(task: asyncio.Task[R], done: Future[R]) -> None:
    if task.cancelled():
        done.set_exception(RingonceError("interrupted"))
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())


def _blocking(
    method: Callable[Concatenate[app.Ringonce, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Ringonce, P], R]:
    """The method as one that waits for its result."""

    @functools.wraps(method)
    def call(self: Ringonce, /, *arguments: P.args, **named: P.kwargs) -> R:
        return self.run(lambda ringonce: method(ringonce, *arguments, **named))

    return call


class Ringonce:
    """Accept notifications, deliver them, and tell what became of each, from code that blocks.

    ::

        ringonce = Ringonce("ringonce.toml")
        ringonce.notify(to={"email": "ada@example.com"}, content={"text": "Your order has left."})

    It opens itself with its first call and closes itself at the interpreter's exit; ``with`` and ``close()`` do so
    earlier. All threads may use one. A process that forks may build it before and use it after the fork, but an
    open one does not survive a fork. ``enqueue`` needs nothing open, and runs in the calling thread.
    """

    def __init__(self, config: Source = None, /, *, wire: Wire | None = None, **overrides: object) -> None:
        """Read the configuration and build the providers, as ``ringonce.app.Ringonce`` does."""
        self._ringonce = app.Ringonce(config, wire=wire, **overrides)
        self._lock = threading.Lock()
        self._portal: Portal | None = None
        self._closed = False
        self._stops: set[asyncio.Event] = set()

    @property
    def config(self) -> Config:
        """The configuration, secrets included."""
        return self._ringonce.config

    def open(self) -> None:
        """Connect now, or again after ``close``. Raises as the first call would."""
        self._closed = False
        self._opened()

    def close(self) -> None:
        """Stop workers, let running calls end, give everything back."""
        with self._lock:
            portal, self._portal, self._closed = self._portal, None, True
        if portal is None or portal.process != os.getpid():
            return
        atexit.unregister(self.close)

        async def end() -> None:
            for stop in self._stops:
                stop.set()
            await portal.others()
            await self._ringonce.close()

        try:
            portal.call(end)
        finally:
            portal.stop()

    def __enter__(self) -> Self:
        """Open."""
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def run(self, function: Callable[[app.Ringonce], Coroutine[Any, Any, R]]) -> R:
        """Call a coroutine function with the asynchronous library, in its event loop, and wait for the result."""
        portal = self._opened()
        return portal.call(lambda: function(self._ringonce))

    def _opened(self) -> Portal:
        with self._lock:
            portal = self._portal
            if portal is None:
                if self._closed:
                    raise StoreUnavailable("ringonce is closed", mend="call open(), or leave it open")
                portal = Portal()
                try:
                    portal.call(self._ringonce.open)
                except BaseException:
                    portal.stop()
                    raise
                atexit.register(self.close)
                self._portal = portal
            elif portal.process != os.getpid():
                raise StoreUnavailable(
                    "ringonce was opened before this process forked, and its connections belong to the parent",
                    mend="use it for the first time after the fork, e.g. open() in the server's post-fork hook",
                )
        return portal

    # --- without the event loop ---

    def enqueue(
        self,
        connection: Any,
        body: bytes | Mapping[str, object] | None = None,
        /,
        *,
        caller: str | None = None,
        **fields: object,
    ) -> Accepted:
        """Accept one event inside your own transaction; see ``ringonce.app.Ringonce.enqueue``."""
        return self._ringonce.enqueue(connection, body, caller=caller, **fields)

    def unsubscribed(self, channel: str, token: str) -> tuple[str, str, str] | None:
        """Who followed the link of a mail; see ``ringonce.app.Ringonce.unsubscribed``."""
        return self._ringonce.unsubscribed(channel, token)

    def guard(self, kind: str) -> Callable[[G], G]:
        """Decorate the subject guard of ``kind``; see ``ringonce.app.Ringonce.guard``."""
        return self._ringonce.guard(kind)

    # --- through it ---

    def migrate(self) -> tuple[str | None, str]:
        """See ``ringonce.app.Ringonce.migrate``. Opens nothing else: what it is for can not be opened yet."""
        portal = Portal()
        try:
            return portal.call(self._ringonce.migrate)
        finally:
            portal.stop()

    def run_worker(self, *, drain: bool = False, only: Sequence[str] = ()) -> Drained | None:
        """Deliver until ``close()`` is called in another thread or Ctrl-C; with ``drain`` until nothing is left.

        Raises InputError for an unknown duty in ``only``.
        """

        async def work(ringonce: app.Ringonce) -> Drained | None:
            stop = asyncio.Event()
            self._stops.add(stop)
            try:
                return await ringonce.run_worker(stop, drain=drain, only=only)
            finally:
                self._stops.discard(stop)

        return self.run(work)

    notify = _blocking(app.Ringonce.notify)
    notify_many = _blocking(app.Ringonce.notify_many)
    cancel = _blocking(app.Ringonce.cancel)
    cancel_subject = _blocking(app.Ringonce.cancel_subject)
    retry = _blocking(app.Ringonce.retry)
    resolve = _blocking(app.Ringonce.resolve)
    register = _blocking(app.Ringonce.register)
    addresses = _blocking(app.Ringonce.addresses)
    set_addresses = _blocking(app.Ringonce.set_addresses)
    invalidate = _blocking(app.Ringonce.invalidate)
    quarantined = _blocking(app.Ringonce.quarantined)
    release_quarantined = _blocking(app.Ringonce.release_quarantined)
    drop_quarantined = _blocking(app.Ringonce.drop_quarantined)
    recipient = _blocking(app.Ringonce.recipient)
    set_recipient = _blocking(app.Ringonce.set_recipient)
    erase = _blocking(app.Ringonce.erase)
    inbox = _blocking(app.Ringonce.inbox)
    unread = _blocking(app.Ringonce.unread)
    mark_read = _blocking(app.Ringonce.mark_read)
    draft = _blocking(app.Ringonce.draft)
    drafts = _blocking(app.Ringonce.drafts)
    put_draft = _blocking(app.Ringonce.put_draft)
    send_draft = _blocking(app.Ringonce.send_draft)
    reject_draft = _blocking(app.Ringonce.reject_draft)
    receive = _blocking(app.Ringonce.receive)
    get = _blocking(app.Ringonce.get)
    explain = _blocking(app.Ringonce.explain)
    search = _blocking(app.Ringonce.search)
    failure_outlook = _blocking(app.Ringonce.failure_outlook)
    retry_failures = _blocking(app.Ringonce.retry_failures)
    discard_failures = _blocking(app.Ringonce.discard_failures)
    failure_audit = _blocking(app.Ringonce.failure_audit)
    report = _blocking(app.Ringonce.report)
    backlog = _blocking(app.Ringonce.backlog)
    outbox = _blocking(app.Ringonce.outbox)
    channels = _blocking(app.Ringonce.channels)
    change_channel = _blocking(app.Ringonce.change_channel)
    enable = _blocking(app.Ringonce.enable)
    disable = _blocking(app.Ringonce.disable)
    test = _blocking(app.Ringonce.test)
