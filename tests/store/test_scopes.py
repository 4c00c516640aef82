"""Scopes in the store: who began a pause, how workers learn of it, and that its rows do not stay; on every database."""

from ringonce.model.outcome import Code, Outcome, OutcomeClass
from ringonce.model.policy import DAY
from ringonce.ports import LanePause
from tests.store.kit import SECOND, World

SCOPE = "email//template%3Aa"
REFUSED = Outcome(OutcomeClass.AUTH, Code.AUTH, scope="channel")


async def names(world: World) -> set[str]:
    """Every name that the store remembers."""
    return {one.lane for one in await world.store.lanes()}


async def pause(world: World, name: str, reason: str = "auth", until: int | None = None) -> None:
    """Pause it now."""
    await world.store.pause([LanePause(name, reason, until or world.now + SECOND)], now=world.now)


async def test_a_released_row_goes_into_another_lane(world: World) -> None:
    """What is given back into a scope's lane is due there, and no claim of the channel's own lane finds it."""
    id_ = await world.one()
    (claimed,) = (await world.claim()).rows
    lease = [(id_, claimed.row.lease.fence)]
    assert await world.store.release("w-1", lease, lane=SCOPE, now=world.now) == 1
    assert (await world.claim()).rows == ()
    assert await world.store.waiting_lanes() == [SCOPE]
    life = await world.life(id_)
    assert life.due is not None
    assert life.due.lane == SCOPE


async def test_the_stamp_moves_when_a_scope_stops_or_goes_on(world: World) -> None:
    """A claim's stamp is another one after a scope's pause began or ended, and the same while it is only prolonged."""
    stamps = [(await world.claim()).stamp]
    for _ in range(2):
        await pause(world, SCOPE)
        stamps.append((await world.claim()).stamp)
        world.now += SECOND
    await world.store.resume("email", now=world.now)
    stamps.append((await world.claim()).stamp)
    assert stamps[1] == stamps[2]
    assert len(set(stamps)) == 3
    await pause(world, "email/acme", "rate_limited")
    assert (await world.claim()).stamp == stamps[-1]
    assert await world.store.overrides() == {}


async def test_rows_of_scopes_do_not_stay(world: World) -> None:
    """A scope is forgotten when it is resumed, and when for a day nobody tried it; a channel's pause is not."""
    await pause(world, SCOPE)
    await pause(world, "email")
    assert await world.store.resume(SCOPE, below=False, now=world.now)
    assert await names(world) == {"email"}
    await pause(world, SCOPE)
    world.now += DAY + 2 * SECOND
    await pause(world, "email//country%3A1")
    assert await names(world) == {"email", "email//country%3A1"}


async def test_one_change_begins_a_pause(world: World) -> None:
    """Of all changes that name a pause, also of later ones, the first began it; after a resume it begins anew."""
    for number in range(4):
        await world.one(f"e-{number}")
    changes = [world.answer(await world.begin(), REFUSED) for _ in range(4)]
    settled = [*await world.settle(*changes[:2]), *await world.settle(changes[2])]
    assert [one.began for one in settled] == [("email",), (), ()]
    await world.store.resume("email", now=world.now)
    (last,) = await world.settle(changes[3])
    assert last.began == ("email",)


async def test_another_reason_begins_another_pause(world: World) -> None:
    """A limit that turns into a refused credential is told; how often in a row counts for one reason."""
    await pause(world, "email", "rate_limited")
    for number in (1, 2):
        world.now += SECOND
        await pause(world, "email")
        (state,) = await world.store.lanes()
        assert (state.reason, state.opened) == ("auth", number)


async def test_the_backlog_of_a_scope(world: World) -> None:
    """What waits for a scope waits for a person or a probe, also in a tenant's own lane of it; all else moves."""
    for tenant, lane in (
        ("", SCOPE),
        ("acme", "email/acme/template%3Aa"),
        ("acme", "email/acme"),
        ("", None),
    ):
        world.lane = lane
        await world.one(f"e-{tenant}-{lane}", tenant=tenant)
    await pause(world, SCOPE, until=world.now + 9 * SECOND)
    (email,) = await world.store.backlog(now=world.now)
    assert (email.movable, email.paused) == (2, 2)
    await world.store.resume(SCOPE, now=world.now)
    (email,) = await world.store.backlog(now=world.now)
    assert (email.movable, email.paused) == (4, 0)
