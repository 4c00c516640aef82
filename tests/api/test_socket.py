"""In-app copies over a WebSocket, through a real server and a client that is not ours."""

import asyncio
import base64
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ringonce.api import tickets
from ringonce.api.app import create_app
from ringonce.api.server import serve
from ringonce.app import Ringonce
from tests.api.asgi import Caller

KEY = "platform-key"
DEADLINE = 60.0


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant's key."""

    key: str
    tenant: str


class Device:
    """One open connection."""

    def __init__(self, connection: ClientConnection) -> None:
        """Nothing is read yet."""
        self.connection = connection

    async def hear(self, *kinds: str) -> dict[str, Any]:
        """The next message of one of these kinds, or of any but a heartbeat."""
        async with asyncio.timeout(DEADLINE):
            while True:
                said: dict[str, Any] = json.loads(await self.connection.recv())
                if said["type"] in kinds or (not kinds and said["type"] != "heartbeat"):
                    return said

    async def say(self, message: object) -> None:
        """Send JSON, or a text or bytes as they are."""
        raw = message if isinstance(message, str | bytes) else json.dumps(message)
        await self.connection.send(raw)

    async def closed(self) -> int | None:
        """Wait for the server's close; its code."""
        async with asyncio.timeout(DEADLINE):
            try:
                while True:
                    await self.connection.recv()
            except ConnectionClosed as error:
                return error.rcvd.code if error.rcvd else None


@dataclass(slots=True)
class Served:
    """A server and a caller of the same application."""

    ring: Ringonce
    api: Caller
    port: int
    stop: asyncio.Event

    @asynccontextmanager
    async def device(self, target: str = "/v1/inbox/ada/ws", **more: Any) -> AsyncIterator[Device]:
        """Open a connection."""
        url = f"ws://127.0.0.1:{self.port}{target}"
        async with connect(url, open_timeout=DEADLINE, **more) as connection:
            yield Device(connection)

    async def tell(self, recipient: str = "ada", **fields: object) -> str:
        """Accept one; its id."""
        accepted = await self.ring.notify({"recipients": [recipient], "content": {"text": "hello"}, **fields})
        return str(accepted.notifications[0].id)


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
async def ring(tmp_path: Path) -> AsyncIterator[Ringonce]:
    """One channel: in-app."""
    config = {
        "store": {"url": f"sqlite:///{tmp_path}/ringonce.db"},
        "channels": {"app": {"provider": "inapp"}},
    }
    async with Ringonce(config) as ring:
        yield ring


@pytest.fixture
def served(ring: Ringonce) -> Serve:
    """The API on a free port, with the options given, until the end of the block."""

    @asynccontextmanager
    async def begin(**options: Any) -> AsyncIterator[Served]:
        app = create_app(ring, **options)
        listening = socket.create_server(("127.0.0.1", 0))
        stop = asyncio.Event()
        running = asyncio.create_task(serve(app, listening, stop))
        try:
            yield Served(ring, Caller(app), listening.getsockname()[1], stop)
        finally:
            stop.set()
            await running

    return begin


def offering(secret: str) -> list[str]:
    """The subprotocols by which a page shows a ticket."""
    raw = base64.urlsafe_b64encode(secret.encode()).rstrip(b"=").decode()
    return ["ringonce.inbox", f"ringonce.key.{raw}"]


async def test_copies_marks_and_the_counter(served: Serve) -> None:
    """A device hears how things stand, each new copy, what another one read, and after each change the counter."""
    async with served() as at:
        first = await at.tell()
        async with at.device() as phone, at.device() as desk:
            for device in (phone, desk):
                assert await device.hear() == {"type": "hello", "cursor": 1, "unread": 1}
            second = await at.tell(subject="order:1")
            said = await phone.hear()
            assert (said["type"], said["seq"]) == ("notification", 2)
            assert (said["notification"]["id"], said["notification"]["subject"]) == (second, "order:1")
            assert await phone.hear() == {"type": "unread", "unread": 2}
            await phone.say({"type": "read", "ids": [first]})
            assert (await desk.hear("read"))["ids"] == [first]
            assert await desk.hear() == {"type": "unread", "unread": 1}
            assert (await phone.hear("read"))["seq"] == 3
            await desk.say({"type": "read", "all": True})
            assert (await phone.hear("read"))["ids"] == [second]
            assert (await phone.hear())["unread"] == 0


async def test_a_device_goes_on_where_it_was(served: Serve) -> None:
    """After the last number that it saw it gets everything since, in order; and nobody else's."""
    async with served() as at:
        ids = [await at.tell() for _ in range(3)]
        await at.tell("bob")
        await at.ring.mark_read("ada")
        async with at.device("/v1/inbox/ada/ws?after=1") as device:
            assert (await device.hear())["cursor"] == 1
            assert [(await device.hear())["notification"]["id"] for _ in ids[1:]] == ids[1:]
            said = await device.hear()
            assert (said["type"], sorted(said["ids"]), said["seq"]) == ("read", sorted(ids), 6)
            assert (await device.hear())["unread"] == 0


async def test_a_silence_is_told(served: Serve) -> None:
    """While nothing happens heartbeats come, by which a page notices a dead connection."""
    async with served(heartbeat=0.01) as at, at.device() as device:
        await device.hear("heartbeat")
        await device.hear("heartbeat")


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("no json", "invalid_input"),
        ("[1]", "invalid_input"),
        ({"type": "shout"}, "invalid_input"),
        ({"type": "read"}, "invalid_input"),
        ({"type": "read", "all": True, "ids": []}, "invalid_input"),
        ({"type": "read", "ids": ["x"]}, "invalid_input"),
        ("[" * 5_000, "invalid_input"),
    ],
)
async def test_what_a_page_may_not_say(served: Serve, message: object, code: str) -> None:
    """A message that is none is answered with an error; the connection goes on, and nothing is read."""
    async with served() as at, at.device() as device:
        await at.tell()
        await device.say(message)
        assert (await device.hear("error"))["error"]["code"] == code
        await device.say({"type": "read", "all": True})
        assert len((await device.hear("read"))["ids"]) == 1


async def test_bytes_end_it(served: Serve) -> None:
    """Only texts are understood: close code 1003. One that is too large is not even read: 1009."""
    async with served() as at:
        async with at.device() as device:
            await device.say(b"\0")
            assert await device.closed() == 1003
        async with at.device() as device:
            await device.say("x" * 70_000)
            assert await device.closed() == 1009


async def test_a_server_that_stops_says_so(served: Serve) -> None:
    """On shutdown every connection is closed with 1001 (or 1012, by the server beneath), and none holds it up."""
    async with served() as at, at.device() as device, at.device("/v1/inbox/bob/ws") as other:
        await device.hear("hello")
        await other.hear("hello")
        at.stop.set()
        assert await device.closed() in {1001, 1012}
        assert await other.closed() in {1001, 1012}


async def refused(at: Served, target: str = "/v1/inbox/ada/ws", **more: Any) -> tuple[int, str]:
    """Status and code of a refusal."""
    with pytest.raises(InvalidStatus) as error:
        async with at.device(target, **more):
            pass
    return error.value.response.status_code, json.loads(error.value.response.body)["code"]


@pytest.mark.parametrize(
    "query", ["after=x", "after=-1", "after=1&after=2", "page=1", "tenant=a%00", "after=" + "9" * 16]
)
async def test_what_is_asked_wrongly(served: Serve, query: str) -> None:
    """A wrong query is refused before anything begins, with a problem document."""
    async with served() as at:
        assert await refused(at, f"/v1/inbox/ada/ws?{query}") == (422, "invalid_input")
        assert await refused(at, f"/v1/inbox/{'a' * 257}/ws") == (422, "invalid_input")


async def test_a_key_is_asked_for(served: Serve) -> None:
    """Without a key nothing opens; with one in a header or in a subprotocol it does, and the key is not sent back."""
    async with served(key=KEY) as at:
        assert await refused(at) == (401, "unauthorized")
        assert await refused(at, subprotocols=offering("another")) == (401, "unauthorized")
        assert await refused(at, subprotocols=["ringonce.key.%"]) == (401, "unauthorized")
        async with at.device(additional_headers={"Authorization": f"Bearer {KEY}"}) as device:
            await device.hear("hello")
            assert device.connection.subprotocol is None
        async with at.device(subprotocols=offering(KEY)) as device:
            await device.hear("hello")
            assert device.connection.subprotocol == "ringonce.inbox"


async def ticket(at: Served, key: str | None, recipient: str = "ada", **body: object) -> str:
    """Ask for a ticket, as the application's server does."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    answer = await at.api.post(f"/v1/inbox/{recipient}/ticket", body, headers=headers)
    assert answer.status == 200, answer.json
    assert answer.json["expires_at"].endswith("Z")
    return str(answer.json["ticket"])


async def test_a_ticket_opens_one_inbox(served: Serve) -> None:
    """A page shows a ticket: it opens this inbox, over the socket and HTTP, and nothing else; it makes no new ones."""
    async with served(key=KEY) as at:
        got = await ticket(at, KEY, "team%2F7")
        async with at.device("/v1/inbox/team%2F7/ws", subprotocols=offering(got)) as device:
            await device.hear("hello")
        assert await refused(at, subprotocols=offering(got)) == (403, "forbidden")
        headers = {"authorization": f"Bearer {got}"}
        assert (await at.api.get("/v1/inbox/team%2F7/unread", headers=headers)).json == {"unread": 0}
        for method, target in (
            ("GET", "/v1/inbox/ada/unread"),
            ("GET", "/v1/notifications"),
            ("GET", "/v1/channels"),
            ("POST", "/v1/inbox/team%2F7/ticket"),
        ):
            assert (await at.api.call(method, target, headers=headers)).status == 403


async def test_a_ticket_can_not_be_made_up(served: Serve) -> None:
    """A changed one, one of another server's key, and one that a tenant's key sealed for others open nothing."""
    keys = [Tenant("acme-key", "acme"), Tenant("other-key", "other")]
    async with served(key=KEY, keys=keys) as at, served(key="another") as elsewhere:
        got = await ticket(at, "acme-key")
        assert await refused(at, subprotocols=offering(got[:-2] + "AA")) == (401, "ticket_over")
        assert await refused(elsewhere, subprotocols=offering(got)) == (401, "ticket_over")
        assert await refused(at, "/v1/inbox/ada/ws?tenant=other", subprotocols=offering(got)) == (
            403,
            "forbidden",
        )
        await at.tell(tenant="acme")
        async with at.device(subprotocols=offering(got)) as device:
            assert (await device.hear())["unread"] == 1
        forged = tickets.write("acme-key", tickets.Ticket("other", "ada", 2**40))
        assert await refused(at, subprotocols=offering(forged)) == (401, "ticket_over")


async def test_a_ticket_ends(served: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """When its time is over connection and stream end, the first with 4401, and it opens nothing any more."""
    async with served(key=KEY, heartbeat=0.01) as at:
        got = await ticket(at, KEY, seconds=600)
        headers = {"authorization": f"Bearer {got}"}
        async with at.device(subprotocols=offering(got)) as device:
            await device.hear("hello")
            streaming = asyncio.create_task(at.api.get("/v1/inbox/ada/stream", headers=headers))
            async with asyncio.timeout(DEADLINE):
                while len(at.api.app.state.streams) < 2:  # noqa: ASYNC110 - another task opens it
                    await asyncio.sleep(0.005)
            later = SimpleNamespace(time=lambda: time.time() + 601)
            for module in ("socket", "inbox", "access"):
                monkeypatch.setattr(f"ringonce.api.{module}.time", later)
            assert await device.closed() == 4401
            assert (await asyncio.wait_for(streaming, DEADLINE)).status == 200
        assert await refused(at, subprotocols=offering(got)) == (401, "ticket_over")


async def test_without_a_key_only_pages_of_this_machine(served: Serve) -> None:
    """Without a key a page of another origin opens nothing; one of this server does, with a ticket like anywhere."""
    async with served() as at:
        assert await refused(at, origin="https://evil.example") == (403, "forbidden_origin")
        got = await ticket(at, None)
        async with at.device(origin=f"http://127.0.0.1:{at.port}", subprotocols=offering(got)) as device:
            await device.hear("hello")


async def test_a_slow_device_holds_up_nobody(served: Serve) -> None:
    """What a device does not take waits in its connection: the store is asked no further, and others get everything."""
    async with (
        served() as at,
        connect(
            f"ws://127.0.0.1:{at.port}/v1/inbox/ada/ws", open_timeout=DEADLINE, max_queue=1, compression=None
        ) as slow,
    ):
        assert json.loads(await slow.recv())["type"] == "hello"
        (held,) = at.api.app.state.streams
        async with at.device(compression=None) as quick:
            for _ in range(40):
                await at.ring.notify_many(
                    [{"recipients": ["ada"], "content": {"text": "x" * 20_000}} for _ in range(10)]
                )
            found = [(await quick.hear("notification"))["seq"] for _ in range(400)]
        assert found == list(range(1, 401))
        assert held.cursor < 400
        slow.transport.abort()
