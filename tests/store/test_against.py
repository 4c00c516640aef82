"""Verdicts against addresses inside a settle: weighed, carried out, followed."""

import asyncio
from dataclasses import replace

import pytest

from ringonce.core.lane import of_account
from ringonce.model.event import Event, Recipient
from ringonce.model.notification import Status
from ringonce.model.outcome import Code, Outcome, OutcomeClass
from ringonce.model.policy import DAY, MassInvalidation
from ringonce.model.transition import Answered, Receipt
from ringonce.ports import Change, Claimed, Invalidation, Proposal, Settled
from tests.store.kit import ACCEPTED, NOBODY, SECOND, World

LIMITS = MassInvalidation(proposals=3, share=0.5)
MOVED = replace(NOBODY, re_address="-100")
NOT_IN_USE = Outcome(OutcomeClass.INVALID_RECIPIENT, Code.INVALID_RECIPIENT, text="not in use any more")


def not_in_use(world: World, claimed: Claimed) -> Change:
    """What a worker says of a row whose address is dead: no call was made."""
    lease = claimed.row.lease
    return replace(world.answer(claimed), event=Answered(lease.number, NOT_IN_USE, begun=False), attempt=None)


def weighed(world: World, accepted: int = 0, process: str = "p") -> None:
    """From now on verdicts are weighed."""
    world.credential, world.proposal = "email", Proposal(LIMITS, process, accepted)


async def dead(world: World, *numbers: int) -> list[Settled]:
    """Accept one for each of these people, and have it called dead in one transaction."""
    for number in numbers:
        await world.one(f"e-{world.now}-{number}", address=f"a{number}@example.com", recipient=f"r{number}")
    claimed = (await world.claim(len(numbers))).rows
    await world.mark(*claimed)
    return await world.settle(*(world.answer(one, NOBODY) for one in claimed))


async def live(world: World, *numbers: int) -> list[int]:
    """Who still has an address that is in use."""
    return [number for number in numbers if await world.store.addresses("", f"r{number}")]


# --- the breaker ---------------------------------------------------------------------------------------------------


async def test_below_the_number_a_drop_is_committed_at_once(world: World) -> None:
    """Two verdicts are believed: the addresses are gone, the notifications ended."""
    weighed(world)
    settled = await dead(world, 1, 2)
    assert [one.write.state.final for one in settled] == [True, True]
    assert await live(world, 1, 2) == []


async def test_when_it_trips_nobody_loses_an_address(world: World) -> None:
    """The third verdict trips it: all three are set apart, those dropped a moment ago as well, and the lane stops."""
    weighed(world)
    await dead(world, 1, 2)
    (last,) = await dead(world, 3)
    assert await live(world, 1, 2, 3) == [1, 2, 3]
    assert {one.recipient for one in await world.store.quarantined()} == {"r1", "r2", "r3"}
    assert [kind for kind, _ in last.write.alerts] == ["mass_invalidation"]
    (lane,) = await world.store.lanes()
    assert (lane.lane, lane.paused, lane.until, lane.reason) == ("email", True, None, "mass_invalidation")


async def test_what_is_doubted_waits_and_costs_nothing(world: World) -> None:
    """All verdicts of the transaction that trips it are doubted: the notifications wait, no attempt is counted."""
    weighed(world)
    settled = await dead(world, 1, 2, 3)
    assert [(one.write.state.status, one.write.state.attempts) for one in settled] == [
        (Status.PENDING, 0)
    ] * 3
    assert sum(len(one.write.alerts) for one in settled) == 1
    (state,) = await world.store.breakers()
    assert (state.name, state.quarantined) == ("email", 3)
    life = await world.life(settled[0].change.id)
    assert life.attempts[0].rule.endswith("the verdict is doubted")
    assert [note.kind for note in life.notes] == ["verdict_doubted"]


async def test_while_it_is_tripped_everything_is_doubted(world: World) -> None:
    """A verdict of a call that was under way is doubted as well, without a second alert."""
    weighed(world)
    await world.one("late", address="a9@example.com", recipient="r9")
    under_way = await world.begin()
    await dead(world, 1, 2, 3)
    (late,) = await world.settle(world.answer(under_way, NOBODY))
    assert (late.write.state.status, late.write.alerts) == (Status.PENDING, ())
    assert len(await world.store.quarantined()) == 4


async def test_it_holds_over_a_restart_and_other_workers(world: World) -> None:
    """Each verdict comes from another process, which knows nothing but what the store knows: the third trips."""
    for number in (1, 2, 3):
        weighed(world, process=f"p{number}")
        await dead(world, number)
    assert await live(world, 1, 2, 3) == [1, 2, 3]


async def test_accepted_calls_speak_for_the_verdicts(world: World) -> None:
    """Where the workers have calls accepted in between, the same three verdicts are believed."""
    for number in (1, 2, 3):
        weighed(world, accepted=10 * number)
        await dead(world, number)
    assert await live(world, 1, 2, 3) == []


async def test_good_addresses_weigh_more_than_fresh_ones(world: World) -> None:
    """Three of four answers against addresses that were never good are believed, against good ones they are not."""
    weighed(world, accepted=1)
    await dead(world, 1, 2, 3)
    assert await live(world, 1, 2, 3) == []
    for number in (4, 5, 6):
        await world.one(f"good-{number}", address=f"a{number}@example.com", recipient=f"r{number}")
        await world.send(ACCEPTED)
    world.now += DAY
    weighed(world, accepted=2)
    await dead(world, 4, 5, 6)
    assert await live(world, 4, 5, 6) == [4, 5, 6]


async def test_long_ago_is_not_recently(world: World) -> None:
    """What accepted something more than thirty days ago counts like what never did."""
    for number in (4, 5, 6):
        await world.one(f"good-{number}", address=f"a{number}@example.com", recipient=f"r{number}")
        await world.send(ACCEPTED)
    world.now += 31 * DAY
    weighed(world, accepted=2)
    await dead(world, 4, 5, 6)
    assert await live(world, 4, 5, 6) == []


async def test_one_address_counts_once(world: World) -> None:
    """Five notifications to one dead address are one proposal, not five."""
    weighed(world)
    for number in range(5):
        await world.one(f"e-{number}", address="a1@example.com", recipient="r1")
    claimed = (await world.claim(5)).rows
    await world.mark(*claimed)
    await world.settle(*(world.answer(one, NOBODY) for one in claimed))
    assert await live(world, 1) == []


async def test_an_old_proof_proposes_nothing(world: World) -> None:
    """Verdicts that speak of a time before the registration drop nobody, and do not trip anything."""
    weighed(world)
    for number in (1, 2, 3):
        await world.one(f"e-{number}", address=f"a{number}@example.com", recipient=f"r{number}")
    claimed = (await world.claim(3)).rows
    await world.mark(*claimed)
    old = replace(NOBODY, proof_at=world.now - SECOND)
    settled = await world.settle(*(world.answer(one, old) for one in claimed))
    assert [one.write.state.final for one in settled] == [True] * 3
    assert await live(world, 1, 2, 3) == [1, 2, 3]
    assert await world.store.quarantined() == []


# --- what a person decides -----------------------------------------------------------------------------------------


async def test_released_they_live(world: World) -> None:
    """A release ends the quarantine and the pause; what waited is claimed with its address."""
    weighed(world)
    await dead(world, 1, 2, 3)
    lifted = await world.store.lift(["email", of_account("x")], drop=False, now=world.now)
    assert (lifted.tripped, lifted.addresses) == (True, 3)
    assert await world.store.quarantined() == []
    claimed = (await world.claim()).rows
    assert len(claimed) == 3
    assert all(not one.address_changed for one in claimed)
    assert [one.reason for one in await world.store.addresses("", "r1")] == [None]


async def test_dropped_they_are_gone(world: World) -> None:
    """A person who confirms drops them all, whoever waits for one ends without a call, and the lane goes on."""
    weighed(world)
    await dead(world, 1, 2, 3)
    assert (await world.store.lift(["email"], drop=True, now=world.now)).addresses == 3
    assert await live(world, 1, 2, 3) == []
    claimed = (await world.claim()).rows
    assert all(one.row.address.invalidated_at is not None for one in claimed)
    settled = await world.settle(*(not_in_use(world, one) for one in claimed))
    assert [(one.write.state.final, one.write.state.attempts) for one in settled] == [(True, 0)] * 3


async def test_a_key_that_is_still_wrong_trips_at_the_first(world: World) -> None:
    """After a release one verdict is enough, as long as nothing was accepted: an impatient person loses nothing."""
    weighed(world)
    await dead(world, 1, 2, 3)
    await world.store.lift(["email"], drop=False, now=world.now)
    claimed = await world.begin()
    (settled,) = await world.settle(world.answer(claimed, NOBODY, claimed.row.lease.number + 1))
    assert [kind for kind, _ in settled.write.alerts] == ["mass_invalidation"]
    assert await live(world, 1, 2, 3) == [1, 2, 3]


async def test_a_probe_does_not_decide(world: World) -> None:
    """A call that was to try a refused credential succeeds late: what the breaker has stopped waits for a person."""
    weighed(world)
    await dead(world, 1, 2, 3)
    assert not await world.store.resume("email", below=False, now=world.now)
    (lane,) = await world.store.lanes()
    assert lane.paused
    assert await world.store.resume("email", now=world.now)


async def test_a_pause_of_another_reason_stays(world: World) -> None:
    """Deciding about addresses does not resume what a person or a bad credential has stopped meanwhile."""
    from ringonce.ports import LanePause

    await world.store.pause([LanePause("email", "auth")], now=world.now)
    await world.store.lift(["email"], drop=True, now=world.now)
    (lane,) = await world.store.lanes()
    assert lane.paused


async def test_registered_again_it_leaves_the_quarantine(world: World) -> None:
    """Who registers anew is alive: no decision that comes later takes the address away."""
    weighed(world)
    await dead(world, 1, 2, 3)
    world.now += SECOND
    await world.store.register("", "r1", "email", "a1@example.com", now=world.now)
    await world.store.lift(["email"], drop=True, now=world.now)
    assert await live(world, 1, 2, 3) == [1]


async def test_named_by_to_it_stays_in_quarantine(world: World) -> None:
    """A notification that names an address waits like the others: naming it is no proof."""
    weighed(world)
    await dead(world, 1, 2, 3)
    await world.accept(Event("direct", to={"email": "a1@example.com"}))
    assert len(await world.store.quarantined()) == 3


async def test_a_page_of_the_quarantine(world: World) -> None:
    """They are listed by id, page by page, those of one credential or of all."""
    weighed(world)
    await dead(world, 1, 2, 3)
    first = await world.store.quarantined(["email"], limit=2)
    rest = await world.store.quarantined(["email"], after=first[-1].id)
    assert [len(first), len(rest)] == [2, 1]
    assert await world.store.quarantined(["other"]) == []
    assert {one.reason for one in first} == {NOBODY.code}


# --- whose address it was ------------------------------------------------------------------------------------------


async def test_a_late_bounce_is_charged_to_what_stood_when_it_was_sent(world: World) -> None:
    """A failed receipt without a time proves what was so when its call began: who registered since then stays."""
    for again in (True, False):
        world.now += SECOND
        id_ = await world.one(f"e-{again}", address=f"{again}@example.com", recipient=f"r-{again}")
        world.now += SECOND
        await world.send(ACCEPTED)
        world.now += SECOND
        if again:
            await world.store.register("", f"r-{again}", "email", f"{again}@example.com", now=world.now)
        world.now += SECOND
        await world.settle(Change(id_, Receipt(1, "failed", NOBODY)))
        assert bool(await world.store.addresses("", f"r-{again}")) is again


async def test_a_verdict_is_about_the_address_that_was_called(world: World) -> None:
    """A call that was under way to the old address does not drop the new one, to which its notification went."""
    await world.one(channel="telegram", address="-1")
    called = await world.begin(lane="telegram")
    new = await world.store.register("", "r-e-1", "telegram", "-100", now=world.now)
    told = Invalidation(called.row.address.id, "-1", "moved", None, "-100")
    assert await world.store.invalidate([told], now=world.now) == 1
    await world.settle(world.answer(called, NOBODY))
    assert [one.id for one in await world.store.addresses("", "r-e-1")] == [new.id]


# --- moving --------------------------------------------------------------------------------------------------------


async def test_an_address_that_moved(world: World) -> None:
    """The provider names a new form: it is registered, this goes there, and what waits follows when it is claimed."""
    id_ = await world.one(channel="telegram", address="-1")
    sibling = await world.one("e-2", channel="telegram", address="-1", recipient="r-e-1")
    settled = await world.send(MOVED, lane="telegram")
    assert settled.write.due is not None
    claimed = {one.row.id: one for one in (await world.claim(lane="telegram")).rows}
    assert (claimed[id_].row.address.value, claimed[id_].address_changed) == ("-100", False)
    assert claimed[sibling].row.address.invalidated_at is not None
    await world.settle(not_in_use(world, claimed[sibling]))
    (followed,) = (await world.claim(lane="telegram")).rows
    assert (followed.row.id, followed.row.address.value, followed.address_changed) == (sibling, "-100", False)
    (address,) = await world.store.addresses("", "r-e-1")
    assert address.value == "-100"


@pytest.mark.parametrize("together", [True, False], ids=["one transaction", "one after the other"])
async def test_it_is_replaced_once(world: World, *, together: bool) -> None:
    """Two calls hear of the same move: one new address, both notifications go there, and its registration stays."""
    ids = {await world.one(f"e-{n}", channel="telegram", address="-1", recipient="r") for n in (1, 2)}
    claimed = (await world.claim(lane="telegram")).rows
    await world.mark(*claimed)
    changes = [world.answer(one, MOVED) for one in claimed]
    if together:
        await world.settle(*changes)
    else:
        await world.settle(changes[0])
        (first,) = await world.store.addresses("", "r")
        world.now += SECOND
        await world.settle(changes[1])
        assert await world.store.addresses("", "r") == [first]
    rows = (await world.claim(lane="telegram")).rows
    assert {one.row.id for one in rows} == ids
    assert [(one.row.address.value, one.address_changed) for one in rows] == [("-100", False)] * 2


async def test_two_workers_hear_of_it_at_once(world: World) -> None:
    """Settled at the same moment by two workers, the address is replaced once, and nobody is left behind."""
    ids = {await world.one(f"e-{n}", channel="telegram", address="-1", recipient="r") for n in range(6)}
    claimed = (await world.claim(lane="telegram")).rows
    await world.mark(*claimed)
    changes = [world.answer(one, MOVED) for one in claimed]
    await asyncio.gather(world.settle(*changes[::2]), world.settle(*changes[1::2]))
    rows = (await world.claim(lane="telegram")).rows
    assert {one.row.id for one in rows} == ids
    assert {(one.row.address.value, one.address_changed) for one in rows} == {("-100", False)}
    assert len(await world.store.addresses("", "r", all_=True)) == 2


async def test_the_new_form_belongs_to_somebody_already(world: World) -> None:
    """Who registered the new form himself keeps it; the message follows the chat, and nobody's is cancelled."""
    await world.store.register("", "other", "telegram", "-100", now=world.now)
    mine = await world.one(channel="telegram", address="-1")
    theirs = await world.one("e-2", channel="telegram", address="-100", recipient="other")
    claimed = {one.row.id: one for one in (await world.claim(lane="telegram")).rows}
    await world.mark(*claimed.values())
    await world.settle(world.answer(claimed[mine], MOVED), world.answer(claimed[theirs]))
    (followed,) = (await world.claim(lane="telegram")).rows
    assert (followed.row.id, followed.row.address.value, followed.address_changed) == (mine, "-100", False)
    assert [one.value for one in await world.store.addresses("", "other")] == ["-100"]
    assert await world.store.addresses("", "r-e-1") == []


async def test_nobody_is_told_twice_by_a_move(world: World) -> None:
    """Old and new form were both registered, and one event went to both: what the old one gets ends, not doubled."""
    who = Recipient("r", addresses={"telegram": ("-1", "-100")})
    await world.accept(Event("e-1", recipients=(who,), channels=("telegram",)))
    claimed = {one.row.address.value: one for one in (await world.claim(lane="telegram")).rows}
    await world.mark(*claimed.values())
    await world.settle(world.answer(claimed["-100"]))
    (old,) = await world.settle(world.answer(claimed["-1"], MOVED))
    assert (old.write.state.status, old.write.state.final) == (Status.FAILED, True)
    assert [one.value for one in await world.store.addresses("", "r")] == ["-100"]
    assert (await world.claim(lane="telegram")).rows == ()


async def test_a_second_report_does_not_revive(world: World) -> None:
    """The new address died meanwhile: who hears late of the move follows to it, and ends there."""
    for number in (1, 2):
        await world.one(f"e-{number}", channel="telegram", address="-1", recipient="r")
    first, second = (await world.claim(lane="telegram")).rows
    await world.mark(first, second)
    await world.settle(world.answer(first, MOVED))
    (new,) = await world.store.addresses("", "r")
    await world.store.invalidate([Invalidation(new.id, new.value, "gone")], now=world.now)
    await world.settle(world.answer(second, MOVED))
    assert await world.store.addresses("", "r") == []


async def test_registered_again_during_the_call_it_stays(world: World) -> None:
    """The old form is registered anew after the call began: it stays, and the next call tells whether it moved."""
    await world.one(channel="telegram", address="-1")
    claimed = await world.begin(lane="telegram")
    moved = replace(MOVED, proof_at=world.now)
    world.now += SECOND
    await world.store.register("", "r-e-1", "telegram", "-1", now=world.now)
    await world.settle(world.answer(claimed, moved))
    assert [one.value for one in await world.store.addresses("", "r-e-1")] == ["-1"]
    (again,) = (await world.claim(lane="telegram")).rows
    assert again.row.address.value == "-1"


async def test_it_may_move_on(world: World) -> None:
    """An address that moved twice is followed to where it is now."""
    waiting = await world.one("e-0", channel="telegram", address="-1", recipient="r")
    (late,) = (await world.claim(lane="telegram")).rows
    for number, (old, new) in enumerate([("-1", "-2"), ("-2", "-3")], start=1):
        await world.one(f"e-{number}", channel="telegram", address=old, recipient="r")
        claimed = await world.begin(lane="telegram")
        await world.settle(world.answer(claimed, replace(NOBODY, re_address=new)))
        (again,) = (await world.claim(lane="telegram")).rows
        await world.mark(again)
        await world.settle(world.answer(again, number=again.row.lease.number + 1))
    await world.settle(not_in_use(world, late))
    (followed,) = (await world.claim(lane="telegram")).rows
    assert (followed.row.id, followed.row.address.value) == (waiting, "-3")
