"""Two crude brakes: one against dropping everybody's addresses, one against hammering a provider that is down."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ringonce.model.outcome import OutcomeClass
from ringonce.model.policy import SECOND
from ringonce.ports import LanePause

if TYPE_CHECKING:
    from ringonce.model.outcome import Outcome
    from ringonce.ports import Telemetry

LAST_ANSWERS = 100
DROPS_ALLOWED = 5
SHARE_ALLOWED = 0.2


class DropBrake:
    """A wrong key must never wipe everybody's devices.

    Per credential: more than 5 drops that are more than 20 % of its last 100 answers stop all dropping; the
    notification still fails, the address stays, and a person is told.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        """Nothing is braked at first."""
        self._telemetry = telemetry
        self._answers: dict[str, deque[bool]] = defaultdict(lambda: deque(maxlen=LAST_ANSWERS))

    def judge(self, account: str, outcome: Outcome) -> Outcome:
        """Count the answer; take its proposal to drop the address back when too many are proposed."""
        answers = self._answers[account]
        answers.append(outcome.drop_address)
        if not outcome.drop_address:
            return outcome
        drops = sum(answers)
        if drops > DROPS_ALLOWED and drops > SHARE_ALLOWED * len(answers):
            self._telemetry.alert(
                "mass_invalidation",
                f"{drops} of the last {len(answers)} answers would drop an address; dropping is stopped",
                account=account,
            )
            return replace(outcome, drop_address=False, rule=f"{outcome.rule}; drop held back by the brake")
        return outcome


@dataclass(slots=True)
class _Run:
    failures: int = 0


class LaneBrake:
    """Too many transient or ambiguous answers in a row pause the lane; then one probe at a time until it works."""

    def __init__(self, telemetry: Telemetry, *, after: int, pause: int) -> None:
        """``after`` answers in a row; ``pause`` in microseconds."""
        self._telemetry = telemetry
        self._after = after
        self._pause = pause
        self._runs: dict[str, _Run] = defaultdict(_Run)

    def judge(self, lane: str, outcome: Outcome, now: int) -> LanePause | None:
        """Count the answer; the pause that it leads to, if any."""
        run = self._runs[lane]
        if outcome.floor is not None:
            # A wait that the receiver asks each stranger for (greylisting) says nothing about the provider.
            return None
        if outcome.cls is not OutcomeClass.TRANSIENT:
            run.failures = 0
            return None
        run.failures += 1
        if run.failures < self._after:
            return None
        self._telemetry.alert(
            "lane_paused",
            f"{run.failures} failures in a row; paused for {self._pause // SECOND} s",
            channel=lane,
        )
        return LanePause(lane, "failing", now + self._pause)

    def probing(self, lane: str) -> bool:
        """The lane was paused and has not worked since: send one at a time."""
        return self._runs[lane].failures >= self._after
