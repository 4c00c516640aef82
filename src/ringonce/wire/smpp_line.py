"""All sessions with one short message center: opened again when they break, lent out by their windows, listened to."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from random import SystemRandom
from typing import TYPE_CHECKING

from ringonce.model.exchange import Fault
from ringonce.wire.smpp_pdu import LATER, OK, Packet, delivered
from ringonce.wire.smpp_session import FAREWELL, Broken, Refused, Session

if TYPE_CHECKING:
    import ssl

    from ringonce.model.exchange import SmsCenter
    from ringonce.ports import SmsHeard

log = logging.getLogger("ringonce")

CONNECT = 10.0
"""Seconds that connecting and binding may take."""
BASE, CAP = 0.5, 15.0
"""Seconds before the first new connection, and before each after many."""
STEADY = 10.0
"""Seconds that a session must have stood to count as one that works."""
REFUSED, PATIENCE = 5.0, 300.0
"""Seconds for which a refused bind is not tried again, whoever asks; and until it is though nobody does."""
AGAIN = 1.0
"""Seconds before the center is asked to deliver again what could not be taken."""
MOST = 100
"""Delivered messages that are told of together."""


class Line:
    """The sessions with ``center``; each belongs to a task that keeps it. ``heard``: who listens, if anybody does."""

    def __init__(self, center: SmsCenter, tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        self._center = center
        self._tls = tls
        self._heard: SmsHeard | None = None
        self._loop = loop
        self._closed = False
        self._random = SystemRandom()
        self._sessions: list[Session] = []
        self._waiters: deque[asyncio.Future[Refused | Broken | None]] = deque()
        self._asked = asyncio.Event()
        self._refusal: tuple[Refused, float] | None = None
        self._inbox: asyncio.Queue[tuple[Session, Packet] | None] = asyncio.Queue()
        self._keepers = [loop.create_task(self._keep()) for _ in range(center.sessions)]
        self._teller = loop.create_task(self._tell())

    def listen(self, heard: SmsHeard) -> None:
        """Tell ``heard`` of what the center delivers from now on."""
        self._heard = heard
        self._asked.set()

    # Lending.

    async def take(self) -> Session:
        """A bound session with room in its window; to be given back. Raises Refused or Broken: there is none."""
        while True:
            ready = [s for s in self._sessions if s.bound and s.busy < self._center.window]
            if ready:
                session = min(ready, key=lambda one: one.busy)
                session.busy += 1
                return session
            if self._refusal is not None and self._loop.time() < self._refusal[1] and not self._bound():
                raise self._refusal[0]
            self._asked.set()
            waiter: asyncio.Future[Refused | Broken | None] = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                trouble = await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake()  # it was this one's turn, and it can not take it
                raise
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
            if trouble is not None:
                raise trouble

    def give_back(self, session: Session) -> None:
        """There is room again."""
        session.busy -= 1
        self._wake()

    def _bound(self) -> bool:
        return any(session.bound for session in self._sessions)

    def _wake(self) -> None:
        room = sum(self._center.window - session.busy for session in self._sessions if session.bound)
        while room > 0 and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                room -= 1

    # Keeping.

    async def _keep(self) -> None:
        failed = 0
        while not self._closed:
            if self._heard is None and not self._waiters:
                self._asked.clear()
                await self._asked.wait()
            session = Session(self._center, self._inbound)
            try:
                await session.open(CONNECT, self._tls)
            except asyncio.CancelledError:
                session.abort()
                raise
            except (Refused, Broken) as error:
                session.abort()
                failed += 1
                self._told(error)
                if isinstance(error, Refused):
                    await self._be_patient()
                    continue
            except Exception:
                log.exception("a session with %s can not be opened", self._center.host)
                session.abort()
                failed += 1
                self._told(Broken(Fault.NOT_STARTED, "a session can not be opened, see the log"))
            else:
                self._refusal = None
                self._sessions.append(session)
                since = self._loop.time()
                self._wake()
                try:
                    await session.gone
                finally:
                    self._sessions.remove(session)
                    session.abort()
                failed = 0 if self._loop.time() - since >= STEADY else failed + 1
            if failed:
                await asyncio.sleep(min(CAP, BASE * 2 ** min(failed - 1, 10)) * (1 + self._random.random()))

    def _told(self, error: Refused | Broken) -> None:
        """Whoever waits learns why there is no session, unless there is another."""
        what = f"refused with 0x{error.answer.status:08X}" if isinstance(error, Refused) else error.detail
        log.warning("no session with %s:%s: %s", self._center.host, self._center.port, what)
        if self._bound():
            return
        if isinstance(error, Refused):
            self._refusal = error, self._loop.time() + REFUSED
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(error)

    async def _be_patient(self) -> None:
        """Credentials do not change by themselves, and a center may shut out who tries wrong ones too often."""
        await asyncio.sleep(REFUSED)
        if self._waiters:
            return
        self._asked.clear()
        try:
            async with asyncio.timeout(PATIENCE - REFUSED):
                await self._asked.wait()
        except TimeoutError:
            pass

    # Listening.

    def _inbound(self, session: Session, packet: Packet) -> None:
        self._inbox.put_nowait((session, packet))

    async def _tell(self) -> None:
        """Tell of what was delivered; it is acknowledged when that is done, or the center is asked to come again."""
        while (first := await self._inbox.get()) is not None:
            batch = [first]
            while len(batch) < MOST and not self._inbox.empty():
                more = self._inbox.get_nowait()
                if more is None:
                    self._inbox.put_nowait(None)
                    break
                batch.append(more)
            status = OK if await self._listened([packet for _, packet in batch]) else LATER
            for session, packet in batch:
                session.respond(packet, status)

    async def _listened(self, received: list[Packet]) -> bool:
        if self._heard is None:
            return False
        try:
            await self._heard([delivered(packet) for packet in received])
        except Exception:
            log.exception("messages of %s could not be taken, it will deliver them again", self._center.host)
            await asyncio.sleep(AGAIN)
            return False
        return True

    async def close(self) -> None:
        """Say good-bye. What was delivered and is being told of is finished first, if it takes no longer than that."""
        self._closed = True
        self._inbox.put_nowait(None)
        await asyncio.wait({self._teller}, timeout=FAREWELL)
        tasks = {self._teller, *self._keepers}
        try:
            await asyncio.gather(*(session.leave() for session in self._sessions))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
