"""Where claims begin to read while a snapshot is held: a low-water floor on ``due_at``, per lane and priority.

An index entry whose row was claimed is dead, and stays as long as somebody may still see the row as it was. Rows
are claimed in the order of ``due_at``, so the dead ones lie below, and a claim that begins at the bottom reads all
of them. While the alarm is on, claims begin at a floor instead, and the floor follows what they found:

* the claim was full: nothing that it could see and have is left below the last row that it took of a priority;
* it was not: nothing that it could see and have is left below the time of the claim.

What it could not see or have may lie below: a row whose transaction commits later than a younger one's, a retry
that is armed when it has been due for long, a row that another worker had under its lock and gave back. So the floor
stays ``MARGIN`` behind the clock, which covers the transactions that are under way, and every ``LOOK`` one claim begins
at the bottom again and finds the rest: what waits there is never later than that, and nothing rests on the floor but
the time of a claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.model.policy import SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

MARGIN = SECOND
LOOK = 5 * SECOND
SURE = 10
"""A full batch of so many rows has one at least of each priority of which any is due (``claims.WEIGHTS``)."""
BOTTOM = -(2**63)
"""The least that the column holds. A row left below it would never be sent, whatever clock had made it due."""


class Floor:
    """Of one store. ``lane`` may be any name that claims are made by."""

    def __init__(self) -> None:
        self.on = False
        self._floors: dict[str, list[int]] = {}
        self._looked: dict[str, int] = {}
        self._latest: dict[str, int] = {}

    def set(self, *, on: bool) -> None:
        """Begin, or forget everything."""
        if not on:
            self._floors.clear()
            self._looked.clear()
            self._latest.clear()
        self.on = on

    def below(self, lane: str, priorities: int) -> list[int]:
        """Where the next claim of ``lane`` begins to read, for each priority."""
        bottom = [BOTTOM] * priorities
        if not self.on or lane not in self._floors:
            return bottom
        if self._latest[lane] - self._looked[lane] >= LOOK:
            return bottom
        return list(self._floors[lane])

    def found(
        self, lane: str, began: Sequence[int], limit: int, took: Sequence[tuple[int, int]], time: int
    ) -> None:
        """What a claim of ``limit`` rows at ``time`` found, that began at ``began``.

        ``took``: priority and due time of each row; a time that is too early only costs.
        """
        if not self.on:
            return
        if any(floor == BOTTOM for floor in began):
            self._looked[lane] = time
        self._latest[lane] = time
        safe = time - MARGIN
        last: dict[int, int] = {}
        for priority, due in took:
            last[priority] = max(due, last.get(priority, BOTTOM))
        # A batch that is not full took all; one that is large enough takes the first of each priority at least.
        nothing = safe if limit >= SURE else BOTTOM
        full = len(took) >= limit
        self._floors[lane] = [
            max(floor, min(safe, last.get(priority, nothing) if full else safe))
            for priority, floor in enumerate(began)
        ]
