"""Libraries that block: what they return, how long they may take, and what is known when they do not return."""

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from ringonce.model.exchange import Fault, LibraryAnswer, LibraryCall, LibraryRequest, NoAnswer
from ringonce.wire import Network
from ringonce.wire.library import LibraryWire
from tests.wire.conftest import DEADLINE, ask


class Bell:
    """What the library makes. ``rings`` is what it returns, or the error that it raises."""

    def __init__(self, rings: Any, gate: threading.Event | None = None) -> None:
        self.rings = rings
        self.gate = gate

    def ring(self, *, text: str) -> Any:
        """Ring."""
        RUNG.append(text)
        if self.gate is not None:
            STARTED.set()
            self.gate.wait(DEADLINE)
        if isinstance(self.rings, Exception):
            raise self.rings
        return self.rings


RUNG: list[str] = []
STARTED = threading.Event()


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library called ``belfry``, in which ``Tower.bell`` makes a bell."""

    def bell(rings: Any, gate: Any = None) -> Bell | None:
        if rings == "cracked":
            raise ValueError("secret")
        return None if rings == "none" else Bell(rings, gate)

    module = ModuleType("belfry")
    module.Tower = type("Tower", (), {"bell": staticmethod(bell)})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "belfry", module)
    RUNG.clear()
    STARTED.clear()


@pytest.fixture
async def wire() -> AsyncIterator[LibraryWire]:
    """The wire."""
    made = LibraryWire()
    yield made
    await made.close(0)


def call(*args: Any, timeout: float = DEADLINE, name: str = "belfry:Tower.bell") -> LibraryRequest:
    """Make a bell and ring it."""
    return LibraryRequest(LibraryCall(name, args), LibraryCall("ring", (), (("text", "dong"),)), timeout)


@pytest.mark.parametrize("value", [True, False, None, 1])
async def test_what_is_returned_is_the_answer(wire: LibraryWire, value: Any) -> None:
    """True, False or nothing, each as it is."""
    expected = None if value is None else bool(value)
    assert await ask(wire, call(value)) == [LibraryAnswer(made=True, value=expected)]
    assert RUNG == ["dong"]


async def test_nothing_made_is_nothing_sent(wire: LibraryWire) -> None:
    """Where the arguments are no good, nothing is called."""
    assert await ask(wire, call("none")) == [LibraryAnswer(made=False)]
    assert RUNG == []


@pytest.mark.parametrize("request_", [call("cracked"), call(1, name="belfry:Gone"), call(1, name="nolib:x")])
async def test_an_error_before_the_call_is_not_sent(wire: LibraryWire, request_: LibraryRequest) -> None:
    """Whatever goes wrong before, nothing rang; the error's words are not repeated, for they may hold secrets."""
    [answer] = await ask(wire, request_)
    assert isinstance(answer, NoAnswer)
    assert (answer.fault, answer.sent) == (Fault.NOT_STARTED, False)
    assert "secret" not in answer.detail


async def test_an_error_of_the_call_is_a_doubt(wire: LibraryWire) -> None:
    """An error says nothing about what has been sent."""
    [answer] = await ask(wire, call(OSError("secret")))
    assert answer == NoAnswer(Fault.RESET_BEFORE_STATUS, sent=True, detail="the library failed (OSError)")


async def test_what_it_logs_goes_into_the_answer_only(
    wire: LibraryWire, caplog: pytest.LogCaptureFixture
) -> None:
    """Its last warning, and why, is told without a word of the arguments; the program's logs hear of others only."""
    log = logging.getLogger("belfry")

    class Loud(Bell):
        def ring(self, *, text: str) -> bool:
            """Ring, and say so."""
            log.info("ringing")
            log.warning("no answer of tower-7 for s3cret: error=401")
            log.debug("Reset")
            log.debug("and more")
            return False

    sys.modules["belfry"].loud = lambda _: Loud(False)  # type: ignore[attr-defined]
    request = replace(call("bell://s3cret@tower-7", name="belfry:loud"), loggers=("belfry",))
    with caplog.at_level(logging.INFO):
        await ask(wire, request)
        log.setLevel(logging.NOTSET)  # as a program may do at any time
        [answer] = await ask(wire, request)
        log.warning("somebody else")
        log.debug("as unheard as before")
    assert answer == LibraryAnswer(made=True, value=False, text="no answer of …-7 for …: error=401 Reset")
    assert [record.getMessage() for record in caplog.records if record.name == "belfry"] == ["somebody else"]


async def test_no_return_in_time_is_a_doubt() -> None:
    """A call that takes too long may have rung. Its place is free only when it ends, and until then others wait."""
    gate, wire = threading.Event(), LibraryWire(threads=1)
    try:
        slow = asyncio.ensure_future(ask(wire, call(True, gate, timeout=0.2)))
        assert await asyncio.to_thread(STARTED.wait, DEADLINE)
        [answer] = await slow
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.READ_TIMEOUT, True)
        [late] = await ask(wire, call(True, timeout=0.1))
        assert late == NoAnswer(Fault.NOT_STARTED, sent=False, detail="no free thread in time")
        gate.set()
        assert await ask(wire, call(True)) == [LibraryAnswer(made=True, value=True)]
    finally:
        gate.set()
        await wire.close(0)


@pytest.mark.parametrize("close", [False, True], ids=["its time is over", "shutdown"])
async def test_what_was_called_unsent_never_rings(close: bool) -> None:
    """Who gave up while the library was still getting ready was told that nothing was sent: then it does not ring."""
    wire, gate = LibraryWire(threads=1), threading.Event()
    ready, ended = threading.Event(), threading.Event()

    class Slow(Bell):
        def __bool__(self) -> bool:
            """Asked just before it is rung."""
            ready.set()
            gate.wait(DEADLINE)
            return True

        def __del__(self) -> None:
            """Its call has let go of it."""
            ended.set()

    sys.modules["belfry"].Tower.slow = staticmethod(lambda: Slow(True))
    asked = asyncio.create_task(ask(wire, call(name="belfry:Tower.slow", timeout=DEADLINE if close else 0.2)))
    assert await asyncio.to_thread(ready.wait, DEADLINE)
    if close:
        await wire.close(0)
    [answer] = await asked
    assert isinstance(answer, NoAnswer)
    assert not answer.sent
    gate.set()
    assert await asyncio.to_thread(ended.wait, DEADLINE)
    assert RUNG == []
    await wire.close(0)


async def test_the_end(wire: LibraryWire) -> None:
    """At the end what runs is given up as a doubt, and nothing more is begun."""
    gate = threading.Event()
    running = asyncio.ensure_future(ask(wire, call(True, gate)))
    assert await asyncio.to_thread(STARTED.wait, DEADLINE)
    await wire.close(0)
    [answer] = await running
    gate.set()
    assert answer == NoAnswer(Fault.READ_TIMEOUT, sent=True, detail="given up at shutdown")
    [answer] = await ask(wire, call(True))
    assert answer == NoAnswer(Fault.NOT_STARTED, sent=False, detail="the wire is closed")


async def test_the_network_carries_it() -> None:
    """The one wire of a process calls libraries as well."""
    network = Network()
    await network.start()
    assert await ask(network, call(True)) == [LibraryAnswer(made=True, value=True)]
    await network.close(1)
