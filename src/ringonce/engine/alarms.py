"""Alerts as notifications over a channel of their own, through the engine itself.

Alike are those of one kind, channel and code; within a window they become one notification, whichever worker was the
first to accept it, for its event id names the window. What comes later in the window is told with the next one.
Nothing about the alerts' own notifications, or about the provider that carries them, becomes one: of that the log and
the metrics tell. ``put`` only remembers, so that nobody ever waits for an alert.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringonce.core.redact import redact
from ringonce.core.text import cut
from ringonce.engine.lifecycle import Loop, within
from ringonce.engine.settle import ALERT
from ringonce.engine.views import stamp
from ringonce.errors import StoreError
from ringonce.model.policy import DAY, MINUTE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.engine.engine import Engine

log = logging.getLogger("ringonce")

OF_NOTIFICATIONS = frozenset({"exhausted", "priority_failed", "worker_crash"})
"""Kinds that tell of notifications: also one on the alerts' own channel is worth telling."""
NEVER = frozenset({"alert_failed"})
MOST = 20
"""Notifications of one process in one window; more are told of in one."""
MOST_KEPT = 1_000
LONGEST = 600
LONGEST_NAME = 220
LAST_WORDS = 2.0
PACE = 0.05
IDLE = 3600.0

Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where alerts go. ``kinds`` empty: all of them. ``window`` in microseconds."""

    channel: str
    to: str
    kinds: frozenset[str] = frozenset()
    window: int = 10 * MINUTE


@dataclass(slots=True)
class Heard:
    """What was raised and not told yet."""

    text: str
    labels: Mapping[str, str]
    count: int = 0


class Alarms:
    """Takes alerts from ``Telemetry``; one for each opened library."""

    def __init__(self, engine: Engine, receiver: Receiver) -> None:
        """Nothing is sent before ``start``."""
        self._engine = engine
        self._receiver = receiver
        # Threads only append to it; everything else happens in the event loop.
        self._raised: deque[tuple[Key, str, Mapping[str, str], int]] = deque(maxlen=MOST_KEPT)
        self._heard: dict[Key, Heard] = {}
        self._told: dict[Key, int] = {}
        self._at_work = False
        self._window = 0
        self._said = 0
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._loop: Loop | None = None

    def start(self) -> None:
        """Begin; must be called inside the running event loop."""
        engine = self._engine
        self._event_loop = asyncio.get_running_loop()
        self._loop = Loop(
            "alerts", self.turn, clock=engine.clock, entropy=engine.entropy, telemetry=engine.telemetry
        )
        self._loop.start()

    async def stop(self) -> None:
        """Tell what was raised last, if that goes quickly, and end."""
        loop, self._loop = self._loop, None
        if loop is not None:
            await within(self._engine.clock, LAST_WORDS, loop.stop())
            await within(self._engine.clock, LAST_WORDS, self._last())

    async def _last(self) -> None:
        try:
            await self.turn()
        except StoreError as error:
            log.warning("alerts are not told: %s", error)

    @property
    def busy(self) -> bool:
        """Something was raised that is not looked at yet."""
        return self._at_work or bool(self._raised)

    def put(self, kind: str, text: str, labels: Mapping[str, str], count: int) -> None:
        """An alert was raised: remember it. Called from any thread; returns at once and raises nothing."""
        if not self._wanted(kind, labels):
            return
        key = kind, labels.get("channel", ""), labels.get("code", ""), labels.get("notification", "")
        self._raised.append((key, text, dict(labels), count))
        if self._loop is not None and self._event_loop is not None:
            with suppress(RuntimeError):  # it has ended meanwhile
                self._event_loop.call_soon_threadsafe(self._loop.wake)

    def _gather(self) -> list[Key]:
        """Put together what is alike; what waits to be told, oldest first."""
        while self._raised:
            key, text, labels, count = self._raised.popleft()
            if key not in self._heard and len(self._heard) >= MOST_KEPT:
                continue
            heard = self._heard.setdefault(key, Heard(text, labels))
            heard.text, heard.count = text, heard.count + count
        return list(self._heard)

    def _wanted(self, kind: str, labels: Mapping[str, str]) -> bool:
        if kind in NEVER or (self._receiver.kinds and kind not in self._receiver.kinds):
            return False
        return kind in OF_NOTIFICATIONS or not self._own(labels)

    def _own(self, labels: Mapping[str, str]) -> bool:
        """It is about the provider that would have to carry it."""
        name = self._receiver.channel
        entry = self._engine.channels.get(name)
        accounts = {entry.channel.account, entry.provider.account} - {""} if entry is not None else set()
        return labels.get("channel") == name or labels.get("account") in accounts

    async def turn(self) -> float:
        """Accept what is to be told now; the seconds until more may be. Raises StoreError, and keeps it for later."""
        if not self._raised and not self._heard:
            return IDLE
        self._at_work = True
        try:
            await self._engine.clock.sleep(PACE)  # a storm comes in many small pieces
            return await self._tell_all(self._gather())
        finally:
            self._at_work = False

    async def _tell_all(self, waiting: list[Key]) -> float:
        now, length = await self._engine.store.now(), self._receiver.window
        window = now // length
        if window != self._window:
            self._window, self._said = window, 0
            self._told = {key: told for key, told in self._told.items() if told == window}
        more = 0
        for key in waiting:
            if self._told.get(key) == window:
                continue
            if self._said >= MOST:
                more += self._heard.pop(key).count
                continue
            heard = self._heard[key]
            await self._tell(key, heard.text, heard.labels, heard.count, now)
            del self._heard[key]
            self._told[key] = window
            self._said += 1
        if more:
            rest = ("many", "", "", "")
            await self._tell(rest, f"{more} more alerts were raised; the log has them", {}, more, now)
        return (length - now % length) / 1_000_000 if self._heard else IDLE

    async def _tell(self, key: Key, text: str, labels: Mapping[str, str], count: int, now: int) -> None:
        kind, window = key[0], now // self._receiver.window
        about = next((labels[name] for name in ("channel", "account") if labels.get(name)), "")
        times = f" ({count} times)" if count > 1 else ""
        facts = ", ".join(f"{name} {value}" for name, value in labels.items() if value)
        said = cut(redact(f"{kind}{times}: {text}" + (f" [{facts}]" if facts else "")), LONGEST)
        title = f"ringonce: {kind}" + (f", {about}" if about else "")
        entry = self._engine.channels.get(self._receiver.channel)
        titled = entry is not None and entry.provider.features.title
        name = ":".join((ALERT, *(part for part in key if part)))
        body = {
            "event_id": f"{name[:LONGEST_NAME]}:{window}",
            "type": ALERT,
            "to": {self._receiver.channel: self._receiver.to},
            "content": {"title": title, "text": said} if titled else {"text": said},
            "priority": "high",
            "expires_at": stamp(now + DAY),
        }
        try:
            event = self._engine.prepare(body)
            await self._engine.accept_own(event)
        except StoreError:
            raise
        except Exception:
            log.exception("an alert can not be sent over channel %s", self._receiver.channel)
