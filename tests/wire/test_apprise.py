"""Apprise as it is installed, calling a receiver of ours: what it makes of what happens, and what it never does."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from ringonce.model.exchange import LibraryAnswer, LibraryRequest, NoAnswer
from ringonce.providers.apprise import Apprise, AppriseOptions
from ringonce.wire.library import LibraryWire
from tests.providers.samples import address, content, context, message
from tests.servers.ports import closed_port
from tests.servers.sockets import Peer, RawServer, serving
from tests.wire.conftest import DEADLINE, ask

pytestmark = pytest.mark.filterwarnings(
    "ignore:'imghdr' is deprecated:DeprecationWarning"
)  # by one of its plugins


@pytest.fixture
async def wire() -> AsyncIterator[LibraryWire]:
    """The wire."""
    made = LibraryWire()
    yield made
    await made.close(0)


def call(port: int, timeout: float = DEADLINE, query: str = "") -> LibraryRequest:
    """A notification to a service of its own kind at this port, as the provider asks for it."""
    said = content(title="Order 42", text="On its way")
    if query:
        channel = Apprise(AppriseOptions(url=f"json://127.0.0.1:{port}/{{address}}{query}"))
        return channel.request(message(said), address("t0ken-of-hers"), context(timeout=timeout))
    channel = Apprise(AppriseOptions(schemas=(f"json://127.0.0.1:{port}",)))
    value = channel.address(f"json://127.0.0.1:{port}/t0ken-of-hers")
    return channel.request(message(said), address(value), context(timeout=timeout))


@contextmanager
def answering(*answers: bytes) -> Iterator[RawServer]:
    """A server that gives these answers, one for each connection; the last for all further ones."""

    def talk(peer: Peer) -> None:
        if not peer.request():
            return
        answer = answers[min(peer.number, len(answers)) - 1]
        if answer:
            peer.send(answer)
        else:
            peer.reset()

    with serving(talk) as server:
        yield server


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


async def test_a_service_is_told(wire: LibraryWire) -> None:
    """Title and text come as they are, and it says that it worked."""
    with answering(OK) as server:
        assert await ask(wire, call(server.port)) == [LibraryAnswer(made=True, value=True)]
        (request,) = server.received
        head, _, body = request.partition(b"\r\n\r\n")
        assert head.startswith(b"POST /t0ken-of-hers")
        told = json.loads(body)
        assert (told["title"], told["message"]) == ("Order 42", "On its way")


@pytest.mark.parametrize(
    ("answer", "doubt"),
    [(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", False), (b"", True)],
)
async def test_a_failure_has_words_and_no_secret(
    wire: LibraryWire, answer: bytes, doubt: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """After a lost connection it may have been taken, after a refusal not; no word of the URL is told or logged."""
    with answering(answer) as server:
        [told] = await ask(wire, call(server.port))
        assert isinstance(told, LibraryAnswer)
        assert told.value is False
        assert Apprise.outcome(told, context()).ambiguous is doubt
        assert "JSON" in told.text
        assert "ken" not in told.text
        assert "ken" not in caplog.text
        assert len(server.received) == 1


async def test_it_repeats_nothing_even_if_a_url_asks_for_it(wire: LibraryWire) -> None:
    """A URL may ask the library for repeats; the way in which it is called has none."""
    with answering(b"", OK) as server:
        [told] = await ask(wire, call(server.port, query="?retry=3"))
        assert isinstance(told, LibraryAnswer)
        assert told.value is False
        assert len(server.received) == 1


async def test_nobody_there(wire: LibraryWire) -> None:
    """Where nothing listens it fails, and nobody can have been told."""
    [told] = await ask(wire, call(closed_port()))
    assert isinstance(told, LibraryAnswer)
    assert told.value is False
    assert not Apprise.outcome(told, context()).ambiguous


async def test_the_time_out_of_the_library_is_a_doubt(wire: LibraryWire) -> None:
    """It waits for so long as a URL says, and then says that it failed: the service may have taken it."""

    def talk(peer: Peer) -> None:
        peer.request()
        peer.until_closed()

    with serving(talk) as server:
        [told] = await ask(wire, call(server.port, query="?rto=0.2"))
        assert isinstance(told, LibraryAnswer)
        assert told.value is False
        assert Apprise.outcome(told, context()).ambiguous


async def test_a_silent_service_is_a_doubt(wire: LibraryWire) -> None:
    """When it takes longer than the channel waits, it may have been told."""

    def talk(peer: Peer) -> None:
        peer.request()
        peer.until_closed()

    # First a call that loads the library, which takes seconds: the time of the second is for the service alone.
    with answering(OK) as server:
        await ask(wire, call(server.port))
    with serving(talk) as server:
        [told] = await ask(wire, call(server.port, timeout=1.0))
        assert isinstance(told, NoAnswer)
        assert told.sent


async def test_what_it_does_not_know(wire: LibraryWire) -> None:
    """A URL that leads to no service is told as such."""
    channel = Apprise(AppriseOptions(schemas=("nosuch",)))
    request = channel.request(message(), address("nosuch://x/y"), context(timeout=DEADLINE))
    [told] = await ask(wire, request)
    assert isinstance(told, LibraryAnswer)
    assert not told.made
