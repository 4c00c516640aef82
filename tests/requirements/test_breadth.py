"""Services that are reached by a library and a URL, from acceptance to the end, on both stores."""

import logging
from collections.abc import Iterator

import pytest

from tests.requirements.conftest import Start, outcomes
from tests.servers.sockets import Peer, RawServer, serving

SECRET = "t0pS3cretToken"
# One of the library's plugins imports it.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


@pytest.fixture
def receiver() -> Iterator[RawServer]:
    """A service that refuses the first call and takes the others."""

    def talk(peer: Peer) -> None:
        if peer.request():
            status = b"401 Unauthorized" if peer.number == 1 else b"200 OK"
            peer.send(b"HTTP/1.1 %b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status)

    with serving(talk) as server:
        yield server


async def test_a_url_is_a_secret(start: Start, receiver: RawServer, caplog: pytest.LogCaptureFixture) -> None:
    """A failure is told with the library's words and tried again; the URL is in no log, view, explanation or event."""
    host = f"json://127.0.0.1:{receiver.port}"
    with caplog.at_level(logging.DEBUG, logger="apprise"):
        system = await start(
            ops={
                "provider": "apprise",
                "schemas": [host],
                "timeout": "60s",
                "backoff": {"kind": "fixed", "base": "50s", "jitter": 0},
            }
        )
        id_ = await system.accept("ops", f"{host}/{SECRET}")
        await system.work()
        failed = await system.view(id_)
        assert outcomes(failed) == ["transient"]
        assert "error=401" in failed["last_error"]["text"]
        await system.pass_time()
        await system.work()
    view = await system.view(id_)
    assert (view["status"], outcomes(view)) == ("sent", ["transient", "accepted"])
    told = [failed, view, await system.ring.explain(id_), await system.dispatched(), caplog.text]
    told.append(await system.command("list", "--json"))
    assert SECRET not in str(told)
    assert len(receiver.received) == 2
