"""Mail: one envelope per recipient, over a small pool of connections for each server and user.

A connection serves one mail at a time. It is used again (after RSET) only if its last mail ended with a
reply; one whose reply was lost, or that idled for five seconds, is closed and never used again.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import deque
from typing import TYPE_CHECKING

from ringonce.model.exchange import Fault, NoAnswer
from ringonce.wire.dialogue import Broken, Dialogue, Refused, broken
from ringonce.wire.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.model.exchange import Answer, MailRequest, MailServer
    from ringonce.ports import Deliver

MAX_IDLE = 5.0
"""Seconds after which an idle connection is not used again (STORE: Send)."""
MAX_MAILS = 100
"""Mails over one connection; servers limit it, and say so only by refusing."""


class MailWire:
    """The mail part of the wire. See ``ports.Wire`` for what its methods promise.

    Args:
        ca_file: certificates to trust instead of the system's.
        helo: how we call ourselves; None: this machine's name.
        max_connections: so many at a time to one server and user; further mails wait, for a free connection
            at most as long as their ``timeout``.
    """

    def __init__(
        self, *, ca_file: str | None = None, helo: str | None = None, max_connections: int = 20
    ) -> None:
        self._ca_file = ca_file
        self._helo = helo
        self._max = max_connections
        self._pools: dict[MailServer, _Pool] = {}
        self._tasks = Tasks()
        self._done: list[tuple[Deliver, object, Answer]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tls: ssl.SSLContext | None = None
        self._prepared: asyncio.Lock | None = None
        self._closed = False

    async def start(self) -> None:
        """Remember the event loop; the rest is made with the first mail."""
        self._loop = asyncio.get_running_loop()
        self._prepared = asyncio.Lock()

    def submit(self, batch: Sequence[tuple[object, MailRequest]], deliver: Deliver) -> None:
        """Begin all of ``batch``, one task each."""
        if self._loop is None:
            raise RuntimeError("submit comes after start")
        for token, request in batch:
            if self._closed:
                self._post(deliver, token, _NOT_STARTED)
                continue
            self._tasks.begin(self._carry(token, request, deliver))

    async def close(self, grace: float) -> None:
        """Wait up to ``grace`` seconds for what runs, give the rest up, say good-bye to the servers."""
        self._closed = True
        try:
            await self._tasks.end(grace)
        finally:
            self._flush()
            await asyncio.gather(*(pool.close() for pool in self._pools.values()))
            self._pools.clear()
            await asyncio.sleep(0)  # closed sockets are let go of in the next turn of the loop

    async def _carry(self, token: object, request: MailRequest, deliver: Deliver) -> None:
        try:
            answer = await self._exchange(request)
        except BaseException as error:  # noqa: BLE001 - before any dialogue: certainly not sent
            answer = broken(error, sent=False, stage="CONNECT")
        self._post(deliver, token, answer)

    async def _exchange(self, request: MailRequest) -> Answer:
        pool = await self._pool(request.server)
        try:
            async with asyncio.timeout(request.timeout):
                await pool.slots.acquire()
        except TimeoutError:
            return NoAnswer(
                Fault.NOT_STARTED, sent=False, detail="no free connection in time", stage="CONNECT"
            )
        dialogue: Dialogue | None = None
        keep = False
        try:
            async with asyncio.timeout(request.timeout):
                dialogue = pool.take()
                if dialogue is not None:
                    dialogue = await _revived(dialogue)
                if dialogue is None:
                    dialogue = pool.new()
                    await dialogue.connect(request.connect_timeout)
                    await dialogue.introduce()
                await dialogue.begin(request)
                reply = await dialogue.body(request.message)
            async with asyncio.timeout(request.final_timeout):
                answer = await dialogue.end(reply)
            keep = True
        except BaseException as error:  # noqa: BLE001 - every mail gets its answer, at shutdown too
            # A refused MAIL or RCPT leaves the connection in good order; anything else does not.
            keep = isinstance(error, Refused) and error.answer.stage in {"MAIL", "RCPT"}
            if dialogue is None:
                return broken(error, sent=False, stage="CONNECT")
            return broken(error, sent=dialogue.sent, stage=dialogue.stage)
        else:
            return answer
        finally:
            if dialogue is not None:
                pool.give_back(dialogue, keep=keep and not self._closed)
            pool.slots.release()

    async def _pool(self, server: MailServer) -> _Pool:
        pool = self._pools.get(server)
        if pool is None:
            assert self._prepared is not None
            async with self._prepared:
                # Both may take a while: they read files and ask the resolver.
                if self._tls is None:
                    self._tls = await asyncio.to_thread(ssl.create_default_context, cafile=self._ca_file)
                if self._helo is None:
                    self._helo = await asyncio.to_thread(_own_name)
            pool = self._pools.setdefault(server, _Pool(server, self._helo, self._tls, self._max))
        return pool

    def _post(self, deliver: Deliver, token: object, answer: Answer) -> None:
        """What ends in one turn of the event loop is delivered together."""
        assert self._loop is not None
        if not self._done:
            self._loop.call_soon(self._flush)
        self._done.append((deliver, token, answer))

    def _flush(self) -> None:
        done, self._done = self._done, []
        calls: dict[Deliver, list[tuple[object, Answer]]] = {}
        for deliver, token, answer in done:
            calls.setdefault(deliver, []).append((token, answer))
        for deliver, pairs in calls.items():
            try:
                deliver(pairs)
            except Exception as error:  # noqa: BLE001 - one receiver's bug must not swallow another's answers
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "a receiver of answers failed", "exception": error}
                )


class _Pool:
    """The connections to one server as one user."""

    def __init__(self, server: MailServer, helo: str, tls: ssl.SSLContext, size: int) -> None:
        self.slots = asyncio.Semaphore(size)
        self._server = server
        self._helo = helo
        self._tls = tls
        self._idle: deque[Dialogue] = deque()
        self._farewells: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def new(self) -> Dialogue:
        """A dialogue that is not connected yet."""
        return Dialogue(self._server, self._helo, self._tls)

    def take(self) -> Dialogue | None:
        """The connection that was used last, if it is still good."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            dialogue = self._idle.pop()
            if dialogue.open and now - dialogue.since < MAX_IDLE:
                return dialogue
            self._dismiss(dialogue)
        return None

    def give_back(self, dialogue: Dialogue, *, keep: bool) -> None:
        """Keep the connection for the next mail, or close it."""
        loop = asyncio.get_running_loop()
        dialogue.mails += 1
        dialogue.since = loop.time()
        if not keep:
            dialogue.close()
        elif dialogue.mails >= MAX_MAILS:
            self._dismiss(dialogue)
        elif dialogue.open:
            self._idle.append(dialogue)
            if self._timer is None:
                self._timer = loop.call_later(MAX_IDLE, self._tidy)

    def _tidy(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        while self._idle and loop.time() - self._idle[0].since >= MAX_IDLE:
            self._dismiss(self._idle.popleft())
        if self._idle:
            self._timer = loop.call_at(self._idle[0].since + MAX_IDLE, self._tidy)

    def _dismiss(self, dialogue: Dialogue) -> None:
        task = asyncio.ensure_future(dialogue.quit())
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    async def close(self) -> None:
        """Say good-bye on all idle connections."""
        if self._timer is not None:
            self._timer.cancel()
        while self._idle:
            self._dismiss(self._idle.pop())
        await asyncio.gather(*self._farewells)


_NOT_STARTED = NoAnswer(Fault.NOT_STARTED, sent=False, detail="the wire is closed", stage="CONNECT")


async def _revived(dialogue: Dialogue) -> Dialogue | None:
    """The same connection after RSET, or None: it is not good any more, and nothing is lost."""
    with contextlib.suppress(Refused, Broken, OSError):
        await dialogue.reset()
        return dialogue
    dialogue.close()
    return None


def _own_name() -> str:
    """RFC 5321 section 4.1.1.1: our fully qualified name; one that can not be sent is none."""
    name = socket.getfqdn()
    return name if name.isascii() and name.replace("-", "").replace(".", "").isalnum() else "localhost"
