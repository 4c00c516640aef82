"""A provider or a wire that misbehaves costs its own notification one attempt, and its neighbours nothing."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ringonce import Ringonce
from ringonce.engine.limits import Limits
from ringonce.model.outcome import Code, Outcome, OutcomeClass
from ringonce.ports import Life
from ringonce.providers.sandbox import Sandbox
from ringonce.wire.script import ScriptedWire

CONFIG = {
    "store": {"url": "sqlite:///:memory:"},
    "channels": {"box": {"provider": "sandbox", "backoff": {"base": "1ms", "jitter": "1ms"}}},
    "retry": {"cycle": "10ms"},
}
FIRST = "bad"
ALL = (FIRST, "b", "c")


async def sent(ringonce: Ringonce) -> dict[str, Life]:
    """Notify three people in one wave and look at each when nothing moves any more."""
    accepted = {to: await ringonce.notify(to={"box": to}, content={"text": to}) for to in ALL}
    async with asyncio.timeout(60):
        await ringonce.run_worker(drain=True)
    return {to: await ringonce.get(one.notifications[0].id) for to, one in accepted.items()}


def bad_for_the_first(good: Callable[..., Any], result: object) -> Callable[..., Any]:
    """A method that gives ``result`` where FIRST is concerned."""

    def method(self: Sandbox, message: Any, *rest: Any) -> Any:
        return result if message.content.text == FIRST else good(self, message, *rest)

    return method


async def test_a_request_of_a_wrong_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no request is never handed to the wire: that notification fails and says so, the wave goes out."""
    monkeypatch.setattr(Sandbox, "request", bad_for_the_first(Sandbox.request, {"url": "x"}))
    async with Ringonce(CONFIG) as ringonce:
        views = await sent(ringonce)
    assert [views[to].row.state.status.value for to in ALL] == ["failed", "sent", "sent"]
    error = views[FIRST].row.state.last_error
    assert error is not None
    assert (error.code, "not dict" in error.text) == (Code.INVALID_PAYLOAD.value, True)
    assert views[FIRST].row.state.attempts == 0


@pytest.mark.parametrize("result", [None, "ok", Outcome("sent"), Outcome(OutcomeClass.AUTH, "x")])  # type: ignore[arg-type]
async def test_a_verdict_of_a_wrong_type(monkeypatch: pytest.MonkeyPatch, result: object) -> None:
    """What is no outcome leaves that call without a verdict; the answers that came with it have theirs."""
    good = Sandbox.outcome.__func__  # type: ignore[attr-defined]
    first: list[object] = []

    def outcome(cls: type[Sandbox], answer: Any, context: Any) -> Any:
        first.append(answer)
        return result if first[0] is answer else good(cls, answer, context)

    monkeypatch.setattr(Sandbox, "outcome", classmethod(outcome))
    async with Ringonce(CONFIG) as ringonce:
        views = await sent(ringonce)
    assert sorted(view.row.state.unknown for view in views.values()) == [(), (), (1,)]
    assert sorted(len(view.attempts) for view in views.values()) == [1, 1, 2]


async def test_an_answer_that_can_not_be_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever breaks while an answer is judged concerns that one: its neighbours' verdicts are kept."""
    judge, judged = Limits.judge, []

    def breaks_once(self: Limits, channel: str, address: int, outcome: Outcome, now: int) -> Outcome:
        judged.append(outcome)
        if len(judged) == 1:
            raise ZeroDivisionError
        return judge(self, channel, address, outcome, now)

    monkeypatch.setattr(Limits, "judge", breaks_once)
    async with Ringonce(CONFIG) as ringonce:
        views = await sent(ringonce)
    assert sorted(view.row.state.unknown for view in views.values()) == [(), (), (1,)]
    assert sorted(len(view.attempts) for view in views.values()) == [1, 1, 2]


async def test_a_wire_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wave that the wire did not take is given back: each of it is called later, as its first attempt."""
    submit, waves = ScriptedWire.submit, []

    def breaks_once(self: ScriptedWire, batch: Sequence[Any], deliver: Any) -> None:
        waves.append(len(batch))
        if len(waves) == 1:
            raise RuntimeError("out of threads")
        submit(self, batch, deliver)

    monkeypatch.setattr(ScriptedWire, "submit", breaks_once)
    monkeypatch.setattr("ringonce.engine.lifecycle.BACKOFF_LAST", 0.01)
    async with Ringonce(CONFIG) as ringonce:
        views = await sent(ringonce)
    assert waves == [len(ALL), len(ALL)]
    assert {(view.row.state.status.value, view.row.state.attempts) for view in views.values()} == {
        ("sent", 1)
    }
    assert {len(view.attempts) for view in views.values()} == {1}
