"""When a provider counts as down, and for how long it is left alone."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringonce.model.outcome import Outcome, OutcomeClass

if TYPE_CHECKING:
    from ringonce.model.policy import Circuit

SLICES = 30
"""Into so many the window is cut; the oldest one leaves it as a whole."""
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
    """The answers of the last seconds on one lane, counted by slice of time: its size does not grow with them.

    What was begun before it last opened says nothing new.
    """

    opened_at: int = -1
    _slices: deque[list[int]] = field(default_factory=deque)
    _calls: int = 0
    _failures: int = 0

    def answered(self, circuit: Circuit, started: int, ended: int, *, failed: bool) -> bool:
        """Count an answer (times in microseconds). True: the circuit opens with it."""
        if started <= self.opened_at:
            return False
        now = ended * SLICES // circuit.window
        slices = self._slices
        if not slices or slices[-1][0] < now:
            slices.append([now, 0, 0])
            while slices[0][0] <= now - SLICES:
                _, calls, failures = slices.popleft()
                self._calls -= calls
                self._failures -= failures
        slices[-1][1] += 1
        self._calls += 1
        if not failed:
            return False
        slices[-1][2] += 1
        self._failures += 1
        if self._calls < circuit.calls or self._failures < circuit.share * self._calls:
            return False
        self.open(ended)
        return True

    def open(self, at: int) -> None:
        """It is open since ``at``: found out here, or told by another worker."""
        self.opened_at = max(self.opened_at, at)
        self._slices.clear()
        self._calls = self._failures = 0

    def excuses(self, started: int) -> bool:
        """A failure of a call begun at ``started`` tells of the provider, not of the notification."""
        return started <= self.opened_at
