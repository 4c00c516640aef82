"""Hints between processes by PostgreSQL's LISTEN and NOTIFY, on connections of their own.

A hint is a hint: what one says is found by polling too, only later. So none is sent inside a transaction that does
work (a NOTIFY there makes all commits wait for each other, measured at -40 to -60 %), a lost one is not sent again,
and while no hints come through, the workers poll.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from ringonce.errors import StoreError, StoreUnavailable
from ringonce.store.lines import connect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from sqlalchemy.engine import URL

    from ringonce.ports import Telemetry
    from ringonce.store.lines import Line

log = logging.getLogger("ringonce.store")

HINTS = "ringonce_hints"
"""The channel of PostgreSQL. Hints stay in their database."""
EVERYTHING = "*"
LONGEST = 2_000
"""Bytes of a hint; PostgreSQL allows 7,999. More channels than fit are called everything."""
GAP_FIRST, GAP_LAST = 0.005, 0.02
"""Seconds between two hints: a busy worker looks every 20 ms by itself, so hints in a row need not come faster."""
QUIET = 0.1
"""Seconds without a hint after which the next one goes out at once again."""
PING_EVERY = 3.0
ECHO_WITHIN = 3.0
"""Seconds within which what we tell ourselves must come back; otherwise the listener is dead, whatever TCP says."""
OPEN_WITHIN = 10.0
BACKOFF_FIRST, BACKOFF_LAST = 0.2, 10.0
LAST_HINT = 2.0
"""Seconds that closing waits for the last hint."""
# One message; the commit of a hint need not be on disk, and so it waits for no flush.
SCRIPT = "BEGIN; SET LOCAL synchronous_commit TO off; NOTIFY {channel}, '{payload}'; COMMIT"


class NoEchoError(StoreUnavailable):
    """What we told ourselves did not come back. ``pooled``: and somebody stands between us and the server."""

    def __init__(self, *, pooled: bool) -> None:
        super().__init__("no hint comes back")
        self.pooled = pooled


def encode(sender: str, channels: Collection[str]) -> str:
    """A hint's payload: plain ASCII without quotes, at most LONGEST bytes. No channels: everything."""
    names = " ".join(quote(name, safe="") for name in sorted(channels)) or EVERYTHING
    whole = f"{sender} {names}"
    return whole if len(whole) <= LONGEST else f"{sender} {EVERYTHING}"


def decode(payload: str) -> tuple[str, frozenset[str]]:
    """Who sent it, and the channels; none: everything."""
    sender, *names = payload.split(" ")
    if EVERYTHING in names:
        return sender, frozenset()
    return sender, frozenset(unquote(name) for name in names)


class PostgresWakeup:
    """``ports.Wakeup``. One connection to notify, and while somebody listens one more."""

    def __init__(
        self,
        url: URL,
        telemetry: Telemetry,
        *,
        insist: bool = False,
        opener: Callable[[URL], Awaitable[Line]] = connect,
    ) -> None:
        """``insist``: hints are wanted, so their absence is an alert and is never taken for granted."""
        self._url = url
        self._telemetry = telemetry
        self._insist = insist
        self._connect = opener
        self._name = secrets.token_hex(8)
        self._own = f"ringonce_{self._name}"
        self._line: Line | None = None
        self._sending: asyncio.Task[None] | None = None
        self._one = asyncio.Lock()
        self._waiting: set[str] | None = None
        self._next = 0.0
        self._gap = GAP_FIRST
        self._listening: asyncio.Task[None] | None = None
        self._heard: Callable[[frozenset[str]], None] | None = None
        self._echo: asyncio.Future[None] | None = None
        self._works: bool | None = None
        self._off = False

    # --- telling ---

    def hint(self, channels: Collection[str] = ()) -> None:
        """Tell other processes; those of one moment become one hint."""
        if self._off:
            return
        if self._waiting is None:
            self._waiting = set(channels) or {EVERYTHING}
        else:
            self._waiting |= set(channels) or {EVERYTHING}
        if self._sending is None:
            loop = asyncio.get_running_loop()
            self._sending = loop.create_task(self._send(), name="ringonce-hint")

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting is not None:
                late = loop.time() - self._next
                self._gap = GAP_FIRST if late > QUIET else min(GAP_LAST, 2 * self._gap)
                if late < 0:
                    await asyncio.sleep(-late)
                names, self._waiting = self._waiting, None
                await self._notify(HINTS, encode(self._name, () if EVERYTHING in names else names))
                self._telemetry.count("ringonce_hints_total", direction="sent")
                self._next = loop.time() + self._gap
        except StoreError as error:
            self._waiting = None
            log.debug("a hint was not sent: %s", error)
        except Exception:
            self._waiting = None
            log.exception("bug: a hint was not sent")
        finally:
            self._sending = None

    async def _notify(self, channel: str, payload: str) -> None:
        """Once more on a new connection where the old one turns out to be dead."""
        async with self._one:
            known = self._line is not None
            try:
                await self._say(channel, payload)
            except StoreUnavailable:
                if not known:
                    raise
                await self._say(channel, payload)

    async def _say(self, channel: str, payload: str) -> None:
        try:
            if self._line is None:
                self._line = await self._connect(self._url)
            async with asyncio.timeout(ECHO_WITHIN):
                await self._line.execute(SCRIPT.format(channel=channel, payload=payload))
        except BaseException as error:
            line, self._line = self._line, None
            if line is not None:
                await line.close()
            if isinstance(error, TimeoutError):
                raise StoreUnavailable("a connection for hints does not answer") from error
            raise

    # --- listening ---

    def listen(self, heard: Callable[[frozenset[str]], None]) -> None:
        """Call ``heard`` for the hints of other processes from now on; no channels: everything."""
        self._heard = heard
        if self._listening is None:
            loop = asyncio.get_running_loop()
            self._listening = loop.create_task(self._listen(), name="ringonce-listen")

    async def _listen(self) -> None:
        attempt = 0
        while True:
            try:
                await self._session()
            except StoreError as error:
                if self._works:
                    attempt = 0
                self._tell(works=False, why=str(error))
                if isinstance(error, NoEchoError) and error.pooled and not self._insist:
                    self._off = True
                    return
            except Exception:
                log.exception("bug: listening failed")
                self._tell(works=False, why="see the log")
            wait = min(BACKOFF_LAST, BACKOFF_FIRST * 2.0 ** min(attempt, 10))
            attempt += 1
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret

    async def _session(self) -> None:
        """One listening connection, from its opening to its end, which is always an error."""
        loop = asyncio.get_running_loop()
        line = await self._connect(self._url)
        try:
            try:
                async with asyncio.timeout(OPEN_WITHIN):
                    pooled = await line.pooled()
                    await line.listen((HINTS, self._own), self._take)
            except TimeoutError as error:
                raise StoreUnavailable("the connection for hints does not answer") from error
            while True:
                # By the other connection: a pooler hands what it gets for the server to whoever uses it just now,
                # so that a test on one connection would succeed where nothing ever arrives.
                self._echo = loop.create_future()
                await self._notify(self._own, "")
                await asyncio.wait(
                    {line.lost, self._echo}, timeout=ECHO_WITHIN, return_when=asyncio.FIRST_COMPLETED
                )
                if not self._echo.done() and not line.lost.done():
                    raise NoEchoError(pooled=pooled and not self._works)
                if not line.lost.done():
                    self._tell(works=True)
                    await asyncio.wait({line.lost}, timeout=PING_EVERY)
                if line.lost.done():
                    raise StoreUnavailable("the connection for hints was lost")
        finally:
            await line.close()

    def _take(self, channel: str, payload: str) -> None:
        if channel == self._own:
            if self._echo is not None and not self._echo.done():
                self._echo.set_result(None)
            return
        sender, channels = decode(payload)
        if sender != self._name and self._heard is not None:
            self._telemetry.count("ringonce_hints_total", direction="heard")
            self._heard(channels)

    def _tell(self, *, works: bool, why: str = "") -> None:
        """Once per change."""
        if works == self._works:
            return
        before, self._works = self._works, works
        self._telemetry.gauge("ringonce_listening", int(works))
        if works:
            if before is not None:
                log.info("hints of other processes come again")
            if self._heard is not None:
                self._heard(frozenset())  # whatever was hinted at meanwhile
            return
        if self._insist:
            self._telemetry.alert("not_listening", f"no hints of other processes, so this one polls: {why}")
        else:
            log.info("no hints of other processes, so this one polls: %s", why)

    async def close(self) -> None:
        """Send what waits to be sent, then give everything back."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
        if self._sending is not None:
            _, late = await asyncio.wait({self._sending}, timeout=LAST_HINT)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        line, self._line = self._line, None
        if line is not None:
            await line.close()
        self._works = None
