"""The floor under claims while a snapshot is held: what it may skip, and what it must find."""

import itertools

import pytest

from ringonce.core.lane import Lane, spell, stops
from ringonce.model.policy import SECOND
from ringonce.ports import Lot, Terms
from ringonce.store.claims import WEIGHTS
from ringonce.store.floor import BOTTOM, LOOK, MARGIN, SURE, Floor
from tests.store.kit import UNREACHABLE, World

T = 1_800_000_000 * SECOND
LANES = (Lane("email", "", ""), Lane("email", "acme", ""))
TERMS = Terms(tuple(Lot(spell(lane), stops(lane, "")) for lane in LANES), 30 * SECOND)


def test_there_is_no_floor_without_an_alarm() -> None:
    """While nothing is held, claims begin at the bottom."""
    floor = Floor()
    floor.found("a", [BOTTOM] * 3, 10, [], T)
    assert floor.below("a", 3) == [BOTTOM] * 3


def test_the_floor_is_the_last_row_of_a_full_claim() -> None:
    """Below the last row of a priority that a full claim took, nothing is left; of one without a row nothing is due."""
    floor = Floor()
    floor.set(on=True)
    took = [(0, T - 9 * SECOND), *[(1, T - number * SECOND) for number in range(16, 7, -1)]]
    floor.found("a", [BOTTOM] * 3, 10, took, T)
    assert floor.below("a", 3) == [T - 9 * SECOND, T - 8 * SECOND, T - MARGIN]
    assert floor.below("b", 3) == [BOTTOM] * 3


def test_a_small_full_claim_says_nothing_of_the_others() -> None:
    """A claim of one row may have left the other priorities out: their floor stays where it was."""
    floor = Floor()
    floor.set(on=True)
    floor.found("a", [BOTTOM] * 3, 1, [(1, T - 9 * SECOND)], T)
    assert floor.below("a", 3) == [BOTTOM, T - 9 * SECOND, BOTTOM]


def test_every_priority_has_a_place_in_a_batch_of_ten() -> None:
    """What the floor takes for sure is what the weights of a claim say."""
    assert sum(WEIGHTS) == SURE


def test_the_floor_stays_behind_the_clock() -> None:
    """Transactions that are under way may commit rows due a moment ago: the floor is a margin below the time."""
    floor = Floor()
    floor.set(on=True)
    floor.found("a", [BOTTOM] * 2, 2, [(0, T - 1), (1, T - 2)], T)
    assert floor.below("a", 2) == [T - MARGIN, T - MARGIN]
    floor.set(on=False)
    floor.set(on=True)
    floor.found("a", [BOTTOM] * 2, 2, [(0, T - 9 * SECOND)], T)
    assert floor.below("a", 2) == [T - MARGIN, T - MARGIN]


def test_a_floor_never_sinks_between_two_looks() -> None:
    """A claim that began at a floor knows nothing of what lies below it."""
    floor = Floor()
    floor.set(on=True)
    floor.found("a", [BOTTOM], 10, [], T)
    floor.found("a", [T - MARGIN], 1, [(0, T - MARGIN)], T + 1)
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
        floor.found("a", began, 10, [], time)
    gaps = [later - earlier for earlier, later in itertools.pairwise(bottoms)]
    assert len(gaps) >= 3
    assert max(gaps) <= LOOK / SECOND + 1


def test_the_end_of_the_alarm_forgets_all() -> None:
    """Afterwards claims begin at the bottom, and so they do when the next alarm begins."""
    floor = Floor()
    floor.set(on=True)
    floor.found("a", [BOTTOM], 10, [], T)
    floor.set(on=True)
    assert floor.below("a", 1) != [BOTTOM]
    floor.set(on=False)
    assert floor.below("a", 1) == [BOTTOM]
    floor.set(on=True)
    assert floor.below("a", 1) == [BOTTOM]


@pytest.mark.parametrize("terms", [None, TERMS], ids=["one lane", "by terms"])
async def test_what_lies_below_the_floor_is_found_in_time(world: World, terms: Terms | None) -> None:
    """A row that appears below the floor is claimed at the next claim from the bottom, and no later."""
    world.store.shorten(on=True)
    await world.one("e-1")
    await world.send(UNREACHABLE)
    world.now += 60 * SECOND
    assert (await world.claim(terms=terms)).rows == ()
    assert await world.arm() == 1  # due for 50 s, and claimable only now
    world.now += SECOND
    assert (await world.claim(terms=terms)).rows == ()
    world.now += LOOK
    assert (await world.claim(terms=terms)).rows == ()
    assert len((await world.claim(terms=terms)).rows) == 1


async def test_every_lane_has_a_floor_of_its_own(world: World) -> None:
    """A claim by terms raises the floor of the lanes that it asked, also where nothing waited."""
    world.store.shorten(on=True)
    for number in range(SURE):
        await world.one(f"e-{number}")
    assert len((await world.claim(SURE, terms=TERMS)).rows) == SURE
    floors = {lot.lane: world.store._floor.below(lot.lane, 3) for lot in TERMS.lots}
    assert all(BOTTOM not in lows for lows in floors.values())


async def test_without_the_alarm_nothing_waits(world: World) -> None:
    """With the floor off again, such a row is found at once."""
    world.store.shorten(on=True)
    await world.one("e-1")
    await world.send(UNREACHABLE)
    world.now += 60 * SECOND
    assert (await world.claim()).rows == ()
    assert await world.arm() == 1
    world.store.shorten(on=False)
    assert len((await world.claim()).rows) == 1


@pytest.mark.parametrize("terms", [None, TERMS], ids=["one lane", "by terms"])
async def test_new_rows_are_found_at_once(world: World, terms: Terms | None) -> None:
    """The floor holds up nothing that becomes due while it stands: of every priority, in batches of any size."""
    world.store.shorten(on=True)
    for step, limit in enumerate((1, 3, 10, 50)):
        for number in range(limit):
            for priority in ("high", "normal", "low"):
                await world.one(f"{step}-{number}-{priority}", priority=priority)
        found = [len((await world.claim(limit, terms=terms)).rows) for _ in range(4)]
        assert found == [limit, limit, limit, 0]
        world.now += SECOND // 2
