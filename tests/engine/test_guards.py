"""Subject guards: nothing goes out unasked, and a guard that fails burns nothing."""

import asyncio

from ringonce.engine.guards import GUARD_SECONDS, Guards
from ringonce.model.notification import Content, State, Status
from ringonce.model.policy import MINUTE, SECOND
from ringonce.ports import Claimed, Row

from .conftest import KeptTelemetry, StandingClock, number


def claimed(index: int, subject: str | None) -> Claimed:
    """A row under a lease."""
    row = Row(
        id=number(index),
        tenant="",
        event_id="e",
        event_type="",
        recipient="u",
        channel="box",
        account="",
        address=None,
        subject=subject,
        thread=None,
        priority="normal",
        collapse=None,
        created_at=0,
        state=State(Status.PENDING),
    )
    return Claimed(row, Content(text="x"))


async def test_the_answer_decides(telemetry: KeptTelemetry, clock: StandingClock) -> None:
    """Rows whose subject is withdrawn are told apart from those that are wanted or not guarded at all."""

    async def order(row: Row) -> bool:
        return row.subject != "order:2"

    rows = [claimed(1, "order:1"), claimed(2, "order:2"), claimed(3, "visit:2"), claimed(4, None)]
    answer = await Guards({"order": order}, telemetry, clock).ask(rows, 0)
    assert {c.row.id.int for c in answer.wanted} == {1, 3, 4}
    assert [c.row.id.int for c in answer.withdrawn] == [2]
    assert answer.unasked == []


async def test_a_failing_guard_makes_its_rows_wait_longer_and_longer(
    telemetry: KeptTelemetry, clock: StandingClock
) -> None:
    """A guard that raises lets nothing out; the wait grows to a minute and starts anew after an answer."""
    broken = True

    async def order(_row: Row) -> bool:
        if broken:
            raise ConnectionError("database down")
        return True

    guards = Guards({"order": order}, telemetry, clock)
    waits = [(await guards.ask([claimed(1, "order:1")], 0)).unasked[0][1] for _ in range(9)]
    assert waits[:3] == [SECOND, 2 * SECOND, 4 * SECOND]
    assert waits[-1] == MINUTE
    broken = False
    assert len((await guards.ask([claimed(1, "order:1")], 0)).wanted) == 1
    broken = True
    assert (await guards.ask([claimed(1, "order:1")], 0)).unasked[0][1] == SECOND


async def test_a_guard_that_fails_for_five_minutes_is_told_once(
    telemetry: KeptTelemetry, clock: StandingClock
) -> None:
    """After five minutes of failures a person is told, once per outage."""

    async def order(_row: Row) -> bool:
        raise OSError("no route")

    guards = Guards({"order": order}, telemetry, clock)
    for at in (0, 4 * MINUTE, 5 * MINUTE, 6 * MINUTE):
        await guards.ask([claimed(1, "order:1")], at)
    assert [kind for kind, _ in telemetry.alerts] == ["guard_failing"]


async def test_a_guard_that_hangs_has_failed(telemetry: KeptTelemetry, clock: StandingClock) -> None:
    """A guard that gives no answer in ten seconds lets nothing out, holds its neighbours up no longer, is told."""
    given_up: list[str] = []

    async def order(_row: Row) -> bool:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            given_up.append("order")
        return True

    async def visit(_row: Row) -> bool:
        return True

    guards = Guards({"order": order, "visit": visit}, telemetry, clock)
    waits = []
    for at in (0, 5 * MINUTE):
        asking = asyncio.ensure_future(guards.ask([claimed(1, "order:1"), claimed(2, "visit:1")], at))
        await clock.settle()
        await clock.advance(GUARD_SECONDS - 0.1)
        assert not asking.done()
        await clock.advance(0.1)
        answer = await asking
        assert [c.row.id.int for c in answer.wanted] == [2]
        assert answer.withdrawn == []
        waits += [wait for _, wait in answer.unasked]
    assert waits == [SECOND, 2 * SECOND]
    assert given_up == ["order", "order"]
    assert [kind for kind, _ in telemetry.alerts] == ["guard_failing"]
