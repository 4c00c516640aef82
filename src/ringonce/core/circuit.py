"""When a provider counts as down, and for how long it is left alone."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringonce.model.outcome import Outcome, OutcomeClass

if TYPE_CHECKING:
    from ringonce.model.policy import Circuit

DOUBLINGS = 30
"""More than these are never needed: the cap is reached, and the number stays an ordinary one."""


def failing(outcome: Outcome) -> bool:
    """The answer, or its absence, speaks against the provider.

    A wait that the receiver asks each stranger for (greylisting, by its ``floor``) does not.
    """
    return outcome.floor is None and (outcome.cls is OutcomeClass.TRANSIENT or outcome.ambiguous)


def open_for(circuit: Circuit, opened: int) -> int:
    """Microseconds for which it stays open when it opened the ``opened``-th time in a row: doubled, up to the cap."""
    return min(circuit.cap, circuit.open << min(max(opened, 1) - 1, DOUBLINGS))


@dataclass(slots=True)
class Window:
    """The answers of the last seconds on one lane. What was begun before it last opened says nothing new."""

    opened_at: int = -1
    _answers: deque[tuple[int, bool]] = field(default_factory=deque)
    _failures: int = 0

    def answered(self, circuit: Circuit, started: int, ended: int, *, failed: bool) -> bool:
        """Count an answer (times in microseconds). True: the circuit opens with it."""
        if started <= self.opened_at:
            return False
        self._answers.append((ended, failed))
        self._failures += failed
        while self._answers and self._answers[0][0] <= ended - circuit.window:
            self._failures -= self._answers.popleft()[1]
        calls = len(self._answers)
        if not failed or calls < circuit.calls or self._failures < circuit.share * calls:
            return False
        self.open(ended)
        return True

    def open(self, at: int) -> None:
        """It is open since ``at``: found out here, or told by another worker."""
        self.opened_at = max(self.opened_at, at)
        self._answers.clear()
        self._failures = 0

    def excuses(self, started: int) -> bool:
        """A failure of a call begun at ``started`` tells of the provider, not of the notification."""
        return started <= self.opened_at
