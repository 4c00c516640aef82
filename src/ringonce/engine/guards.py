"""Subject guards: is the notification still wanted? Asked before every attempt, the first included."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringonce.engine.lifecycle import within
from ringonce.model.policy import MINUTE, SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ringonce.ports import Claimed, Clock, Guard, Telemetry

log = logging.getLogger("ringonce")

WAIT_FIRST = SECOND
WAIT_LAST = MINUTE
ALERT_AFTER = 5 * MINUTE
GUARD_SECONDS = 10.0
"""How long a guard may think about one notification; more is a failure, so that it never stops its lane."""


@dataclass(slots=True)
class _Outage:
    since: int
    failures: int = 0
    alerted: bool = False


@dataclass(frozen=True, slots=True)
class Guarded:
    """Which rows are wanted, withdrawn, or could not be asked about (with the microseconds to wait)."""

    wanted: list[Claimed]
    withdrawn: list[Claimed]
    unasked: list[tuple[Claimed, int]]


class Guards:
    """Asks the guard registered for the part of ``subject`` before the colon.

    A guard that fails, or gives no answer within 10 seconds, never lets a notification out and never burns an
    attempt: the row waits with growing backoff, and after 5 minutes a person is told.
    """

    def __init__(self, guards: Mapping[str, Guard], telemetry: Telemetry, clock: Clock) -> None:
        """``guards`` is read at each question, so it may still grow."""
        self._guards = guards
        self._telemetry = telemetry
        self._clock = clock
        self._outages: dict[str, _Outage] = {}

    @property
    def watching(self) -> bool:
        """There is a guard at all."""
        return bool(self._guards)

    async def ask(self, rows: Sequence[Claimed], now: int) -> Guarded:
        """Ask about all rows at once."""
        guarded = [(claimed, self._kind(claimed)) for claimed in rows]
        asked = [(claimed, kind) for claimed, kind in guarded if kind is not None]
        result = Guarded([claimed for claimed, kind in guarded if kind is None], [], [])
        if not asked:
            return result
        answers = await asyncio.gather(
            *(self._one(claimed, kind) for claimed, kind in asked), return_exceptions=True
        )
        for (claimed, kind), answer in zip(asked, answers, strict=True):
            if isinstance(answer, BaseException):
                result.unasked.append((claimed, self._failed(kind, answer, now)))
                continue
            self._outages.pop(kind, None)
            (result.wanted if answer else result.withdrawn).append(claimed)
        return result

    def _kind(self, claimed: Claimed) -> str | None:
        subject = claimed.row.subject
        kind = None if subject is None else subject.partition(":")[0]
        return kind if kind in self._guards else None

    async def _one(self, claimed: Claimed, kind: str) -> bool:
        question = asyncio.ensure_future(self._guards[kind](claimed.row))
        if not await within(self._clock, GUARD_SECONDS, question):
            raise TimeoutError(f"no answer within {GUARD_SECONDS:.0f} s")
        return bool(question.result())

    def _failed(self, kind: str, error: BaseException, now: int) -> int:
        outage = self._outages.setdefault(kind, _Outage(now))
        outage.failures += 1
        log.warning("guard %s failed: %s", kind, type(error).__name__)
        if now - outage.since >= ALERT_AFTER and not outage.alerted:
            outage.alerted = True
            self._telemetry.alert("guard_failing", f"guard {kind} has failed for 5 minutes; its rows wait")
        return min(WAIT_LAST, WAIT_FIRST << min(outage.failures - 1, 10))
