"""Claim, mark, undo, release, extend: who may send, and what is known to have begun."""

import pytest

from ringonce.model.event import Event, Recipient
from ringonce.model.notification import Status
from ringonce.model.transition import Note
from ringonce.ports import Invalidation
from tests.store.kit import LEASE, NOBODY, SECOND, UNREACHABLE, World


async def test_a_claimed_row_is_not_claimed_again(world: World) -> None:
    """While a lease lives, nobody else gets the row."""
    await world.one()
    assert len((await world.claim(owner="w-1")).rows) == 1
    assert (await world.claim(owner="w-2")).rows == ()


async def test_fences_never_repeat(world: World) -> None:
    """Each claim has a fence of its own, greater than all before."""
    fences = []
    for number in range(3):
        await world.one(f"e-{number}")
        (claimed,) = (await world.claim()).rows
        fences.append(claimed.row.lease.fence)
    assert fences == sorted(set(fences))


async def test_claim_takes_the_most_urgent_first(world: World) -> None:
    """Within a limit, higher priorities and earlier due times come first."""
    for event_id, priority in (("e-1", "low"), ("e-2", "normal"), ("e-3", "high"), ("e-4", "high")):
        await world.one(event_id, priority=priority)
        world.now += 1
    assert [c.row.event_id for c in (await world.claim(2)).rows] == ["e-3", "e-4"]
    assert [c.row.event_id for c in (await world.claim(9)).rows] == ["e-2", "e-1"]


@pytest.mark.parametrize(
    ("waiting", "taken"),
    [((12, 12, 12), [6, 3, 1]), ((12, 0, 12), [9, 0, 1]), ((1, 2, 3), [1, 2, 3])],
)
async def test_priorities_are_weighted_never_strict(
    world: World, waiting: tuple[int, ...], taken: list[int]
) -> None:
    """A full lane of high priority leaves room for the others, and what one leaves the others take."""
    names = ("high", "normal", "low")
    for name, count in zip(names, waiting, strict=True):
        for number in range(count):
            await world.one(f"{name}-{number}", priority=name)
    rows = (await world.claim(10)).rows
    assert [sum(claimed.row.priority == name for claimed in rows) for name in names] == taken


async def test_with_batches_of_one_all_priorities_get_their_turn(world: World) -> None:
    """Of ten claims of one row each, seven serve high, two normal, one low priority."""
    names = ("high", "normal", "low")
    for number in range(10):
        for name in names:
            await world.one(f"{name}-{number}", priority=name)
    served = [(await world.claim(1)).rows[0].row.priority for _ in range(10)]
    assert [served.count(name) for name in names] == [7, 2, 1]


async def test_a_claim_may_begin_the_attempts(world: World) -> None:
    """Claimed to begin, a row has its attempt open at once, and a later mark finds it begun."""
    id_ = await world.one()
    (claimed,) = (await world.store.claim("email", "w-1", 10, LEASE, begin=True, now=world.now)).rows
    assert (claimed.row.lease.attempt, claimed.row.lease.started_at) == (1, world.now)
    assert claimed.row.state.open
    row = (await world.life(id_)).row
    assert (row.lease.attempt, row.lease.started_at) == (1, world.now)
    assert dict((await world.mark(claimed)).begun) == {}


async def test_a_tombstone_stops_a_claim_from_beginning(world: World) -> None:
    """A row of a withdrawn subject is leased, not begun, and the mark says why."""
    id_ = await world.one(subject="order:1")
    store = world.store
    await store._run(lambda c: store._sweeps.bury(c, "", "order:1", "x", world.now))
    (claimed,) = (await world.store.claim("email", "w-1", 10, LEASE, begin=True, now=world.now)).rows
    assert (claimed.row.lease.attempt, claimed.row.lease.started_at) == (0, None)
    assert dict((await world.mark(claimed)).cancelled) == {id_: "order:1"}


async def test_a_claim_tells_of_changed_settings(world: World) -> None:
    """The stamp of a claim is another one after each change of a channel's settings, and only then."""
    stamps = [(await world.claim()).stamp, (await world.claim()).stamp]
    for enabled in (False, True, None):
        await world.store.override("email", {"enabled": enabled}, now=world.now)
        stamps.append((await world.claim()).stamp)
    assert stamps[0] == stamps[1]
    assert len(set(stamps)) == 4


async def test_expired_rows_are_not_claimed(world: World) -> None:
    """A row past its ``expires_at`` is left to the sweep."""
    await world.one(expires_at=world.now + SECOND)
    world.now += SECOND
    assert (await world.claim()).rows == ()


async def test_mark_gives_the_next_number(world: World) -> None:
    """A mark opens the attempt durably and says its number."""
    id_ = await world.one()
    (claimed,) = (await world.claim()).rows
    assert claimed.row.lease.attempt == 0
    marked = await world.mark(claimed)
    assert dict(marked.begun) == {id_: 1}
    assert marked.now == world.now
    row = (await world.life(id_)).row
    assert row.state.open
    assert (row.lease.attempt, row.lease.started_at) == (1, world.now)


@pytest.mark.parametrize("what", ["owner", "fence", "version", "twice", "late", "released"])
async def test_mark_is_guarded(world: World, what: str) -> None:
    """No attempt begins under another owner, fence or version, twice, after the lease's end, or without one."""
    id_ = await world.one()
    (claimed,) = (await world.claim()).rows
    fence, version, owner = claimed.row.lease.fence, claimed.row.state.version, "w-1"
    if what == "owner":
        owner = "w-2"
    elif what == "fence":
        fence += 1
    elif what == "version":
        version += 1
    elif what == "twice":
        await world.mark(claimed)
    elif what == "late":
        world.now += LEASE
    else:
        await world.store.release(owner, [(id_, fence)], now=world.now)
    marked = await world.store.mark(owner, [(id_, fence, version)], now=world.now)
    assert marked.begun == {}
    assert marked.cancelled == {}
    assert marked.now == world.now


async def test_a_tombstone_stops_the_mark(world: World) -> None:
    """A subject withdrawn after the claim is not begun, and the mark names it."""
    id_ = await world.one(subject="order:1")
    other = await world.one("e-2")
    claimed = (await world.claim()).rows
    # The tombstone alone, as another worker would see it before the cancel reaches the row.
    store = world.store
    await store._run(lambda c: store._sweeps.bury(c, "", "order:1", "x", world.now))
    marked = await world.mark(*claimed)
    assert dict(marked.cancelled) == {id_: "order:1"}
    assert set(marked.begun) == {other}


async def test_undo_takes_the_mark_back(world: World) -> None:
    """An undone mark leaves the lease, closes the attempt and burns its number."""
    id_ = await world.one()
    claimed = await world.begin()
    assert await world.store.undo("w-1", [(id_, claimed.row.lease.fence)], now=world.now) == 1
    row = (await world.life(id_)).row
    assert not row.state.open
    assert row.lease is not None
    assert dict((await world.mark(claimed)).begun) == {id_: 2}


async def test_undo_needs_the_lease(world: World) -> None:
    """Nobody undoes another's mark."""
    id_ = await world.one()
    claimed = await world.begin()
    assert await world.store.undo("w-2", [(id_, claimed.row.lease.fence)], now=world.now) == 0
    assert await world.store.undo("w-1", [(id_, claimed.row.lease.fence + 1)], now=world.now) == 0
    assert await world.store.undo("w-1", [(id_, claimed.row.lease.fence)], now=world.now) == 1
    assert await world.store.undo("w-1", [(id_, claimed.row.lease.fence)], now=world.now) == 0


async def test_release_gives_the_row_back(world: World) -> None:
    """A released row is due at the given time, or at once, with a note for the timeline."""
    id_ = await world.one()
    (claimed,) = (await world.claim()).rows
    lease = [(id_, claimed.row.lease.fence)]
    note = Note("guard_failed", {"error": "x"})
    at = world.now + SECOND
    assert await world.store.release("w-1", lease, due_at=at, note=note, now=world.now) == 1
    assert (await world.claim()).rows == ()
    world.now = at
    assert len((await world.claim()).rows) == 1
    assert [(n.kind, n.detail) for n in (await world.life(id_)).notes] == [("guard_failed", {"error": "x"})]


async def test_release_spares_what_has_begun(world: World) -> None:
    """A marked row can not be released: its answer is awaited."""
    id_ = await world.one()
    claimed = await world.begin()
    assert await world.store.release("w-1", [(id_, claimed.row.lease.fence)], now=world.now) == 0


async def test_release_needs_the_lease(world: World) -> None:
    """Nobody gives back what another holds."""
    id_ = await world.one()
    (claimed,) = (await world.claim()).rows
    fence = claimed.row.lease.fence
    assert await world.store.release("w-2", [(id_, fence)], now=world.now) == 0
    assert await world.store.release("w-1", [(id_, fence + 1)], now=world.now) == 0


async def test_extend_prolongs_all_leases_of_the_owner(world: World) -> None:
    """An extended lease outlives its first end; others' leases are not touched."""
    first, second = await world.one("e-1"), await world.one("e-2")
    await world.claim(1, "w-1")
    await world.claim(1, "w-2")
    world.now += LEASE - 1
    assert await world.store.extend("w-1", LEASE, now=world.now) == {first}
    world.now += LEASE - 1
    assert await world.rescue() == []
    assert [c.row.id for c in (await world.claim()).rows] == [second]


async def test_a_lease_nobody_took_can_be_extended_after_its_end(world: World) -> None:
    """After a pause of the database the owner goes on, as long as nobody rescued the row."""
    id_ = await world.one()
    claimed = await world.begin()
    world.now += 2 * LEASE
    assert await world.store.extend("w-1", LEASE, now=world.now) == {id_}
    assert (await world.settle(world.answer(claimed)))[0].lease_held


async def test_numbers_go_on_after_a_settle(world: World) -> None:
    """Attempt numbers never repeat, burnt ones included, although the dispatch row was deleted in between."""
    from ringonce.model.transition import Retry
    from ringonce.ports import Change

    id_ = await world.one()
    claimed = await world.begin()
    await world.store.undo("w-1", [(id_, claimed.row.lease.fence)], now=world.now)
    assert dict((await world.mark(claimed)).begun) == {id_: 2}
    await world.settle(world.answer(claimed, NOBODY, 2))
    assert (await world.life(id_)).due is None
    await world.store.register("", "r-e-1", "email", "e-1@example.com", now=world.now)
    await world.settle(Change(id_, Retry("ann")))
    (claimed,) = (await world.claim()).rows
    assert dict((await world.mark(claimed)).begun) == {id_: 3}


async def test_nothing_is_due_too_early_to_be_found(world: World) -> None:
    """A row is claimed however long ago it was due, also by a clock that stood before 1970."""
    world.now = -SECOND
    id_ = await world.one()
    assert [claimed.row.id for claimed in (await world.claim()).rows] == [id_]


async def test_claim_says_that_the_address_died(world: World) -> None:
    """A row whose address was invalidated meanwhile is marked as changed."""
    await world.one()
    (address,) = await world.store.addresses("", "r-e-1")
    await world.store.invalidate([Invalidation(address.id, address.value, "bounced")], now=world.now)
    (claimed,) = (await world.claim()).rows
    assert claimed.address_changed
    assert claimed.row.address.reason == "bounced"


async def test_claim_says_that_the_address_changed_hands(world: World) -> None:
    """A row made for the former owner of an address is marked as changed; the new owner's is not."""
    await world.one("e-1", address="a@example.com")
    new = Recipient("user-2", addresses={"email": ("a@example.com",)})
    await world.accept(Event("e-2", recipients=(new,)))
    changed = {c.row.recipient: c.address_changed for c in (await world.claim()).rows}
    assert changed == {"r-e-1": True, "user-2": False}


async def test_a_failed_row_waits_for_the_holder_of_the_retry_lease(world: World) -> None:
    """Due again is not claimable yet: only ``arm`` under the live lease and term releases it."""
    await world.one()
    await world.send(UNREACHABLE)
    world.now += 10 * SECOND
    assert (await world.claim()).rows == ()
    lease = "notifications:retry-worker"
    term = await world.store.take_lease(lease, "w-1", 5 * SECOND, now=world.now)
    assert await world.store.arm(term, "w-2", now=world.now) == 0
    assert await world.store.arm(term + 1, "w-1", now=world.now) == 0
    assert await world.store.arm(term, "w-1", now=world.now + 5 * SECOND) == 0
    assert await world.store.arm(term, "w-1", now=world.now) == 1
    (claimed,) = (await world.claim()).rows
    assert claimed.row.state.status is Status.FAILED


async def test_arm_leaves_what_is_not_due(world: World) -> None:
    """A retry is released at its time, not before."""
    await world.one()
    await world.send(UNREACHABLE)
    world.now += 10 * SECOND - 1
    assert await world.arm() == 0
