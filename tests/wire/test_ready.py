"""Which sockets are ready: one descriptor for all of them, or the loop itself where there is no epoll."""

import asyncio
import os
import select
import socket
from collections.abc import AsyncIterator

import pytest

from ringonce.model.exchange import HttpAnswer, HttpRequest
from ringonce.wire import http as http_module
from ringonce.wire.http import HttpWire
from ringonce.wire.ready import IN, OUT, EpollReady, LoopReady
from tests.servers.sockets import Peer, serving
from tests.wire.conftest import ask

KINDS = [LoopReady, *([EpollReady] if hasattr(select, "epoll") else [])]


class Seen:
    """What was told, and a way to wait for it."""

    def __init__(self, kind: type[LoopReady | EpollReady]) -> None:
        self.calls = 0
        self._told = asyncio.Event()
        self.ready = kind(asyncio.get_running_loop(), self._tell)

    def _tell(self) -> None:
        self.calls += 1
        self._told.set()

    async def next(self) -> list[tuple[int, int]]:
        """What is ready after the next call."""
        self._told.clear()
        await asyncio.wait_for(self._told.wait(), 30)
        return self.ready.take()


@pytest.fixture(params=KINDS)
async def seen(request: pytest.FixtureRequest) -> AsyncIterator[Seen]:
    """One of each kind."""
    made = Seen(request.param)
    yield made
    made.ready.close()


@pytest.fixture
def pair() -> AsyncIterator[tuple[socket.socket, socket.socket]]:
    """Two connected sockets; what the second one sends makes the first one ready."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


async def turns(count: int = 20) -> None:
    """Let the loop look at its sockets a few times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_is_ready_is_told(seen: Seen, pair: tuple[socket.socket, socket.socket]) -> None:
    """Data to read and room to write are told with their bits, for as long as they are asked for."""
    ours, theirs = pair
    seen.ready.watch(ours.fileno(), OUT)
    assert await seen.next() == [(ours.fileno(), OUT)]
    seen.ready.watch(ours.fileno(), IN)
    await turns()
    seen.ready.take()
    theirs.send(b"x")
    assert await seen.next() == [(ours.fileno(), IN)]
    assert await seen.next() == [(ours.fileno(), IN)], "nobody has read it"


async def test_a_resting_socket_is_not_told(seen: Seen, pair: tuple[socket.socket, socket.socket]) -> None:
    """Nobody listens: data and a hang-up are not told, the loop does not spin, and later it can be watched again."""
    ours, theirs = pair
    seen.ready.watch(ours.fileno(), IN)
    seen.ready.rest(ours.fileno())
    theirs.send(b"x")
    for _ in range(10):
        await turns(2)
        assert seen.ready.take() == []
    before = seen.calls
    await turns()
    assert seen.calls == before
    seen.ready.watch(ours.fileno(), IN)
    assert await seen.next() == [(ours.fileno(), IN)]


async def test_a_number_that_comes_back_is_a_new_socket(
    seen: Seen, pair: tuple[socket.socket, socket.socket]
) -> None:
    """A socket that got the number of a closed one is watched like any other."""
    ours, theirs = pair
    old, far = socket.socketpair()
    number = old.fileno()
    seen.ready.watch(number, IN)
    seen.ready.rest(number)
    old.close()
    far.close()
    again = os.dup2(ours.fileno(), number)
    try:
        seen.ready.watch(again, IN)
        theirs.send(b"x")
        assert await seen.next() == [(again, IN)]
        seen.ready.rest(again)
    finally:
        os.close(again)


async def test_after_close_nothing_is_told(pair: tuple[socket.socket, socket.socket]) -> None:
    """A closed one has left the loop."""
    ours, theirs = pair
    for kind in KINDS:
        seen = Seen(kind)
        seen.ready.watch(ours.fileno(), IN | OUT)
        seen.ready.close()
        theirs.send(b"x")
        await turns()
        assert seen.calls == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_the_wire_works_with_each(
    kind: type[LoopReady | EpollReady], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred requests at a time, three times over: each is answered with its own answer."""

    def serve(peer: Peer) -> None:
        while request := peer.request():
            peer.ok(request.rpartition(b"\r\n\r\n")[2])

    monkeypatch.setattr(http_module, "ready", kind)
    with serving(serve) as server:
        wire = HttpWire()
        await wire.start()
        for _ in range(3):
            requests = [HttpRequest("POST", server.url, body=b"%d" % number) for number in range(100)]
            answers = await ask(wire, *requests)
            assert [answer.body for answer in answers if isinstance(answer, HttpAnswer)] == [
                request.body for request in requests
            ]
        await wire.close(1)
        assert len(server.received) == 300
