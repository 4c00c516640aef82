"""Lanes: fair claims, what stops them, probes, rates; on every database."""

from collections import Counter

import pytest

from ringonce.core.lane import Lane, spell, stops
from ringonce.model.event import Event, Recipient
from ringonce.model.policy import Rate
from ringonce.ports import Batch, LanePause, Lot, Terms
from tests.store.kit import LEASE, SECOND, UNREACHABLE, World

HOLD = 30 * SECOND


def lot(group: str = "", scope: str = "", account: str = "", **more: object) -> Lot:
    """A lane of the channel email."""
    lane = Lane("email", group, scope)
    return Lot(spell(lane), stops(lane, account), **more)  # type: ignore[arg-type]


def terms(*lots: Lot, **more: object) -> Terms:
    """Terms of a claim."""
    return Terms(lots or (lot(),), HOLD, **more)  # type: ignore[arg-type]


async def claim(world: World, limit: int, by: Terms, owner: str = "w-1") -> Batch:
    """Claim now, by terms."""
    return await world.store.claim("email", owner, limit, LEASE, terms=by, now=world.now)


async def flood(world: World, name: str, count: int, *, lane: str | None = None) -> None:
    """So many due rows, in a lane."""
    people = tuple(Recipient(f"{name}-{i}", addresses={"email": (f"{name}-{i}",)}) for i in range(count))
    world.lane = lane
    await world.accept(Event(name, recipients=people, channels=("email",)))
    world.lane = None


async def pause(world: World, *pauses: LanePause) -> list[str]:
    """Pause now."""
    return await world.store.pause(pauses, now=world.now)


# --- fairness ---------------------------------------------------------------------------------------------------


async def test_one_claim_serves_lanes_by_weight(world: World) -> None:
    """A batch comes from all lanes by weight; what one does not want the others take."""
    await flood(world, "many", 90)
    await flood(world, "acme", 90, lane="email/acme")
    await flood(world, "tiny", 2, lane="email/tiny")
    by = terms(lot(), lot("acme", weight=3), lot("tiny"))
    batch = await claim(world, 42, by)
    assert Counter(row.lane for row in batch.rows) == {"email": 10, "email/acme": 30, "email/tiny": 2}


async def test_a_single_row_beside_a_flood_is_not_late(world: World) -> None:
    """With batches of one, a tenant's single row waits for its share of turns, not for the others' backlog."""
    await flood(world, "flood", 90, lane="email/flood")
    await flood(world, "small", 1, lane="email/small")
    by = terms(lot("flood", weight=3), lot("small"))
    served = [(await claim(world, 1, by)).rows[0].lane for _ in range(4)]
    assert served.count("email/small") == 1


async def test_priorities_stay_weighted_inside_a_lane(world: World) -> None:
    """Within the quota of a lane high, normal and low have their shares."""
    for name in ("high", "normal", "low"):
        for number in range(12):
            await world.one(f"{name}-{number}", priority=name)
    await flood(world, "other", 12, lane="email/other")
    batch = await claim(world, 20, terms(lot(), lot("other")))
    mine = Counter(row.row.priority for row in batch.rows if row.lane == "email")
    assert mine == {"high": 6, "normal": 3, "low": 1}


async def test_a_full_bulkhead_gives_nothing(world: World) -> None:
    """A lane gives no more rows than there is room for, whatever waits."""
    await flood(world, "acme", 9, lane="email/acme")
    await flood(world, "rest", 9)
    batch = await claim(world, 10, terms(lot(), lot("acme", room=2, weight=50)))
    assert Counter(row.lane for row in batch.rows) == {"email": 8, "email/acme": 2}
    assert (await claim(world, 10, terms(lot("acme", room=0)))).rows == ()


async def test_what_two_claims_take_is_taken_once(world: World) -> None:
    """Two workers that claim the same lanes share their rows."""
    await flood(world, "a", 10)
    await flood(world, "b", 10, lane="email/b")
    by = terms(lot(), lot("b"))
    first, second = await claim(world, 12, by, "w-1"), await claim(world, 12, by, "w-2")
    ids = [row.row.id for batch in (first, second) for row in batch.rows]
    assert len(ids) == len(set(ids)) == 20
    assert {row.row.lease.owner for row in second.rows if row.row.lease} == {"w-2"}


async def test_lanes_with_rows_are_found(world: World) -> None:
    """Every lane in which something lies is found, however it came there, and no other."""
    assert await world.store.waiting_lanes() == []
    await flood(world, "a", 3, lane="email/a")
    await flood(world, "b", 3, lane="push//platform")
    await flood(world, "c", 1)
    assert await world.store.waiting_lanes() == ["email", "email/a", "push//platform"]


# --- what stops lanes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("@shared", set()),
        ("email", set()),
        ("email/", {"email/acme"}),
        ("email/acme", {"email", "email//platform"}),
        ("email//platform", {"email", "email/acme"}),
        ("emails", {"email", "email/acme", "email//platform"}),
    ],
)
async def test_one_row_stops_all_lanes_below(world: World, name: str, left: set[str]) -> None:
    """A pause of an account, a channel, a group or a scope stops its lanes and no others; a resume lets them go."""
    for lane in ("email", "email/acme", "email//platform"):
        await flood(world, lane, 2, lane=lane)
    by = terms(*(lot(group, scope, "shared") for group, scope in (("", ""), ("acme", ""), ("", "platform"))))
    assert await pause(world, LanePause(name, "rate_limited", world.now + SECOND)) == [name]
    batch = await claim(world, 3, by)
    assert {row.lane for row in batch.rows} == left
    assert await world.store.resume(name, now=world.now)
    assert {row.lane for row in (await claim(world, 9, by)).rows} | left == {
        "email",
        "email/acme",
        "email//platform",
    }


async def test_a_whole_channel_is_resumed_with_all_below(world: World) -> None:
    """One update lifts every pause below a name, and touches no other channel's."""
    names = ["email", "email/", "email/acme", "email//platform", "emails"]
    await pause(world, *(LanePause(name, "circuit", None, 1) for name in names))
    assert await world.store.resume("email", now=world.now)
    assert {one.lane for one in await world.store.lanes() if one.paused} == {"emails"}
    await pause(world, LanePause("email/", "circuit", None, 1), LanePause("email/acme", "circuit", None, 1))
    assert await world.store.resume("email/", below=False, now=world.now)
    assert {one.lane for one in await world.store.lanes() if one.paused} == {"email/acme", "emails"}


async def test_the_plain_claim_knows_pauses_too(world: World) -> None:
    """A claim without terms obeys the pause of its channel and of its group, and says that a circuit is open."""
    await world.one()
    await pause(world, LanePause("email/", "circuit", world.now + SECOND, 1))
    batch = await world.claim()
    assert (batch.rows, batch.braked) == ((), ("email/",))
    await world.store.resume("email/", now=world.now)
    await pause(world, LanePause("email", "rate_limited", world.now + SECOND))
    batch = await world.claim()
    assert (batch.rows, batch.braked) == ((), ())
    world.now += SECOND
    assert len((await world.claim()).rows) == 1


# --- probes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["circuit", "auth"])
async def test_one_row_probes_when_the_time_is_over(world: World, reason: str) -> None:
    """After the pause of a circuit or a credential one worker gets one row, until it tells or its time is over."""
    await flood(world, "a", 9)
    await pause(world, LanePause("email/", reason, world.now + SECOND, 3))
    assert (await world.claim()).rows == ()
    world.now += SECOND
    (probe,) = (await world.claim(5)).rows
    assert [(one.name, one.reason, one.opened) for one in probe.probe] == [("email/", reason, 3)]
    assert (await world.claim(5, "w-2")).rows == ()
    world.now += 2 * LEASE
    assert len((await world.claim(5, "w-2")).rows) == 1
    assert await world.store.resume("email/", below=False, now=world.now)
    rows = (await world.claim(5, "w-2")).rows
    assert len(rows) == 5
    assert all(row.probe == () for row in rows)


async def test_a_failed_probe_prolongs_and_nobody_else_does(world: World) -> None:
    """The circuit that opened again stays open; another worker's count of failures changes nothing about it."""
    await flood(world, "a", 3)
    assert await pause(world, LanePause("email/", "circuit", world.now + SECOND, 1)) == ["email/"]
    assert await pause(world, LanePause("email/", "circuit", world.now + 9 * SECOND, 1)) == []
    world.now += SECOND
    assert await pause(world, LanePause("email/", "circuit", world.now + 9 * SECOND, 1)) == []
    assert len((await world.claim()).rows) == 1
    assert await pause(world, LanePause("email/", "circuit", world.now + 2 * SECOND, 2)) == ["email/"]
    (state,) = await world.store.lanes()
    assert state.opened == 2
    world.now += 2 * SECOND
    assert len((await world.claim()).rows) == 1


async def test_a_probe_that_led_to_no_call_is_made_up_for(world: World) -> None:
    """When the row that was to probe is given back, the next one may try at once."""
    await flood(world, "a", 3)
    await pause(world, LanePause("email/", "circuit", world.now, 1))
    assert len((await world.claim()).rows) == 1
    assert (await world.claim()).rows == ()
    await world.store.probe_again(["email/"], now=world.now)
    assert len((await world.claim()).rows) == 1


async def test_lanes_share_the_probe_of_what_stops_them_all(world: World) -> None:
    """What stopped the whole channel is probed with one row in all; a circuit of one tenant leaves the others alone."""
    await flood(world, "a", 3)
    await flood(world, "b", 3, lane="email/b")
    by = terms(lot(), lot("b"))
    await pause(world, LanePause("email", "auth", world.now, 0))
    assert len((await claim(world, 9, by)).rows) == 1
    await world.store.resume("email", now=world.now)
    await pause(world, LanePause("email/b", "circuit", world.now, 1))
    rows = (await claim(world, 9, by)).rows
    assert Counter(row.lane for row in rows if row.lane == "email/b") == {"email/b": 1}
    assert {row.lane for row in rows if not row.probe} == {"email"}


async def test_nobody_probes_without_a_row(world: World) -> None:
    """An idle channel does not use its probe up."""
    await pause(world, LanePause("email/", "circuit", world.now, 1))
    assert (await world.claim()).rows == ()
    await world.one()
    assert len((await world.claim()).rows) == 1


# --- rates --------------------------------------------------------------------------------------------------------

TEN = Rate(10, SECOND, 4)


async def test_a_row_needs_a_token(world: World) -> None:
    """No more rows come than tokens are there, over all workers; the batch says when it is worth to come again."""
    await flood(world, "a", 40)
    by = terms(rate=TEN, bucket="email")
    batch = await claim(world, 3, by, "w-1")
    assert (len(batch.rows), batch.wait) == (3, None)
    batch = await claim(world, 3, by, "w-2")
    assert (len(batch.rows), batch.wait) == (1, 200_000)
    batch = await claim(world, 3, by)
    assert (batch.rows, batch.wait) == ((), 200_000)
    world.now += 250_000
    assert len((await claim(world, 3, by)).rows) == 2
    world.now += 3600 * SECOND
    assert len((await claim(world, 30, by)).rows) == 4


async def test_without_rows_no_token_is_spent(world: World) -> None:
    """A poll that finds nothing, or only something paused, costs no token."""
    by = terms(rate=TEN, bucket="email")
    assert (await claim(world, 9, by)).wait is None
    await flood(world, "a", 9)
    await pause(world, LanePause("email", "rate_limited", world.now + SECOND))
    await claim(world, 9, by)
    await world.store.resume("email", now=world.now)
    assert len((await claim(world, 9, by)).rows) == 4


async def test_a_tenant_has_its_own_rate_within_the_channel(world: World) -> None:
    """A tenant's tokens limit the tenant, the channel's limit all; a tenant without tokens leaves places to others."""
    await flood(world, "rest", 20)
    await flood(world, "acme", 20, lane="email/acme")
    acme = lot("acme", weight=100, rate=Rate(1, SECOND, 2), bucket="email/acme")
    batch = await claim(world, 10, terms(lot(), acme, rate=Rate(100, SECOND, 8), bucket="email"))
    assert Counter(row.lane for row in batch.rows) == {"email": 6, "email/acme": 2}
    assert batch.wait is not None
    batch = await claim(world, 10, terms(lot(), acme))
    assert Counter(row.lane for row in batch.rows) == {"email": 10}


# --- what becomes of a row ------------------------------------------------------------------------------------------


async def test_a_row_goes_where_its_settle_says(world: World) -> None:
    """What met a paused scope goes into the scope's lane, and from there back; who says nothing leaves it."""
    await world.one()
    for lane in ("email//platform", None, "email"):
        claimed = (await claim(world, 1, terms(lot(), lot(scope="platform")))).rows[0]
        await world.mark(claimed)
        world.lane = lane
        await world.settle(world.answer(claimed, UNREACHABLE, claimed.row.lease.attempt + 1))
        assert await world.store.waiting_lanes() == ["email" if lane == "email" else "email//platform"]
        world.now += 60 * SECOND
        await world.arm()


async def test_max_age_reaches_every_lane(world: World) -> None:
    """A row that is too old expires, whatever lane it is in."""
    await flood(world, "acme", 2, lane="email/acme")
    world.now += 100 * SECOND
    swept = await world.store.sweep(world.decide, max_age={"email": 60 * SECOND}, now=world.now)
    assert len(swept) == 2


async def test_the_backlog_knows_what_stops_each_lane(world: World) -> None:
    """Rows are told as paused where their group is, and as movable where it is not; each row once."""
    await flood(world, "rest", 2)
    await flood(world, "acme", 3, lane="email/acme")
    until = world.now + 60 * SECOND
    await pause(world, LanePause("email/acme", "circuit", until, 1))
    (item,) = await world.store.backlog(now=world.now)
    assert (item.movable, item.paused, item.next_due) == (5, 3, until)
    await pause(world, LanePause("email", "auth", until))
    (item,) = await world.store.backlog(now=world.now)
    assert (item.movable, item.paused) == (0, 5)
