"""The one class that all long-lived loops share."""

import asyncio

from ringonce.engine.lifecycle import Loop, within
from ringonce.errors import StoreUnavailable

from .conftest import KeptTelemetry, StandingClock, SteadyEntropy


def loop(turn, clock, telemetry, entropy) -> Loop:  # noqa: ANN001 - fixtures
    """A loop over the turn."""
    return Loop("test", turn, clock=clock, entropy=entropy, telemetry=telemetry)


async def test_it_waits_as_told_and_wakes_early(
    clock: StandingClock, telemetry: KeptTelemetry, entropy: SteadyEntropy
) -> None:
    """The next turn begins when the time is over, or at once when it is woken."""
    turns = 0

    async def turn() -> float:
        nonlocal turns
        turns += 1
        return 5.0

    one = loop(turn, clock, telemetry, entropy)
    one.start()
    await clock.settle()
    assert turns == 1
    await clock.advance(4.9)
    assert turns == 1
    await clock.advance(0.2)
    assert turns == 2
    one.wake()
    await clock.settle()
    assert turns == 3
    await one.stop()
    assert turns == 3


async def test_stopping_lets_the_running_turn_finish(
    clock: StandingClock, telemetry: KeptTelemetry, entropy: SteadyEntropy
) -> None:
    """``stop`` waits for the running turn and begins no other."""
    release = asyncio.Event()
    finished = 0

    async def turn() -> float:
        nonlocal finished
        await release.wait()
        finished += 1
        return 0.0

    one = loop(turn, clock, telemetry, entropy)
    one.start()
    await clock.settle()
    stopping = asyncio.ensure_future(one.stop())
    await clock.settle()
    assert not stopping.done()
    release.set()
    await stopping
    assert finished == 1


async def test_an_outage_is_told_once_and_waited_out(
    clock: StandingClock, telemetry: KeptTelemetry, entropy: SteadyEntropy
) -> None:
    """While the store is away the loop waits longer and longer, tells a person once, and goes on afterwards."""
    down = True
    turns = 0

    async def turn() -> float:
        nonlocal turns
        turns += 1
        if down:
            raise StoreUnavailable("gone")
        return 60.0

    one = loop(turn, clock, telemetry, entropy)
    one.start()
    for _ in range(40):
        await clock.advance(0.25)
    assert 4 <= turns <= 12
    assert [kind for kind, _ in telemetry.alerts] == ["store_unavailable"]
    down = False
    await clock.advance(6)
    before = turns
    await clock.advance(59)
    assert turns == before
    await one.stop()


async def test_a_bug_does_not_end_the_loop(
    clock: StandingClock, telemetry: KeptTelemetry, entropy: SteadyEntropy
) -> None:
    """An unexpected exception is told and the loop takes its next turn."""
    turns = 0

    async def turn() -> float:
        nonlocal turns
        turns += 1
        if turns == 1:
            raise KeyError("oops")
        return 60.0

    one = loop(turn, clock, telemetry, entropy)
    one.start()
    await clock.settle()
    await clock.advance(5)
    assert turns == 2
    assert [kind for kind, _ in telemetry.alerts] == ["bug"]
    await one.stop()


async def test_within_ends_in_time(clock: StandingClock) -> None:
    """``within`` is true for work that ends in time and cancels what does not."""
    assert await within(clock, 1.0, asyncio.sleep(0))
    endless = asyncio.ensure_future(asyncio.Event().wait())
    waiting = asyncio.ensure_future(within(clock, 1.0, endless))
    await clock.settle()
    await clock.advance(1.1)
    assert await waiting is False
    assert endless.cancelled()
