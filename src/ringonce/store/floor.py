"""Where claims begin to read while a snapshot is held: a low-water floor on ``due_at``, per lane and priority.

An index entry whose row was claimed is dead, and stays as long as somebody may still see the row as it was. Rows
are claimed in the order of ``due_at``, so the dead ones lie below, and a claim that begins at the bottom reads all
of them. While the alarm is on, claims begin at a floor instead, and the floor follows what they found:

* the claim took as much as it was to take: nothing that it could see and have is left below the last row it took;
* it took less: nothing that it could see and have is left below the time of the claim.

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
BOTTOM = 0
"""No row is due earlier: the microseconds count from 1970."""


class Floor:
    """Of one store. ``lane`` may be any name that claims are made by."""

    def __init__(self) -> None:
        self._on = False
        self._floors: dict[str, list[int]] = {}
        self._looked: dict[str, int] = {}
        self._latest: dict[str, int] = {}

    def set(self, *, on: bool) -> None:
        """Begin, or forget everything."""
        if not on:
            self._floors.clear()
            self._looked.clear()
            self._latest.clear()
        self._on = on

    def below(self, lane: str, priorities: int) -> list[int]:
        """Where the next claim of ``lane`` begins to read, for each priority."""
        bottom = [BOTTOM] * priorities
        if not self._on or lane not in self._floors:
            return bottom
        if self._latest[lane] - self._looked[lane] >= LOOK:
            return bottom
        return list(self._floors[lane])

    def found(self, lane: str, began: Sequence[int], last: Sequence[int | None], time: int) -> None:
        """What the claim at ``time`` found, that began at ``began``.

        ``last``: for each priority the ``due_at`` of the last row that it took, where it took all that it was to
        take; None where it took less, so that nothing due was left.
        """
        if not self._on:
            return
        if any(floor == BOTTOM for floor in began):
            self._looked[lane] = time
        self._latest[lane] = time
        safe = time - MARGIN
        self._floors[lane] = [
            max(floor, min(safe, safe if due is None else due))
            for floor, due in zip(began, last, strict=True)
        ]
