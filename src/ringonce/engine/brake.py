"""A crude brake against dropping everybody's addresses."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from typing import TYPE_CHECKING

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
