"""The floor under claims while a snapshot is held: what it may skip, and what it must find."""

import itertools

from ringonce.model.policy import SECOND
from ringonce.store.floor import BOTTOM, LOOK, MARGIN, Floor

T = 1_800_000_000 * SECOND


def test_there_is_no_floor_without_an_alarm() -> None:
    """While nothing is held, claims begin at the bottom."""
    floor = Floor()
    floor.found("a", [BOTTOM] * 3, [None] * 3, T)
    assert floor.below("a", 3) == [BOTTOM] * 3


def test_the_floor_is_the_last_row_of_a_full_claim() -> None:
    """Below the last row of a claim that took all that it was to take, nothing is left."""
    floor = Floor()
    floor.set(on=True)
    floor.found("a", [BOTTOM] * 3, [T - 9 * SECOND, T - 8 * SECOND, BOTTOM], T)
    assert floor.below("a", 3) == [T - 9 * SECOND, T - 8 * SECOND, BOTTOM]
    assert floor.below("b", 3) == [BOTTOM] * 3


def test_the_floor_stays_behind_the_clock() -> None:
    """Transactions that are under way may commit rows due a moment ago: the floor is a margin below the time."""
    floor = Floor()
    floor.set(on=True)
    floor.found("a", [BOTTOM] * 2, [None, T - 1], T)
    assert floor.below("a", 2) == [T - MARGIN, T - MARGIN]


def test_a_floor_never_sinks_between_two_looks() -> None:
    """A claim that began at a floor knows nothing of what lies below it."""
    floor = Floor()
    floor.set(on=True)
    floor.found("a", [BOTTOM], [None], T)
    floor.found("a", [T - MARGIN], [BOTTOM], T + 1)
    assert floor.below("a", 1) == [T - MARGIN]


def test_every_few_seconds_a_claim_begins_at_the_bottom() -> None:
    """What lies below the floor is found in a bounded time, again and again."""
    floor = Floor()
    floor.set(on=True)
    bottoms = []
    for step in range(int(4 * LOOK / SECOND) + 1):
        time = T + step * SECOND
        began = floor.below("a", 1)
        if began == [BOTTOM]:
            bottoms.append(step)
        floor.found("a", began, [None], time)
    gaps = [later - earlier for earlier, later in itertools.pairwise(bottoms)]
    assert len(gaps) >= 3
    assert max(gaps) <= LOOK / SECOND + 1


def test_the_end_of_the_alarm_forgets_all() -> None:
    """Afterwards claims begin at the bottom, and so they do when the next alarm begins."""
    floor = Floor()
    floor.set(on=True)
    floor.found("a", [BOTTOM], [None], T)
    floor.set(on=True)
    assert floor.below("a", 1) != [BOTTOM]
    floor.set(on=False)
    assert floor.below("a", 1) == [BOTTOM]
    floor.set(on=True)
    assert floor.below("a", 1) == [BOTTOM]
