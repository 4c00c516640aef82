"""In-app copies over HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ringonce.api.app import create_app
from ringonce.app import Ringonce
from tests.api.asgi import Caller


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
def inbox(ring: Ringonce) -> Caller:
    """The API, with streams that say soon that they are still there."""
    return Caller(create_app(ring, heartbeat=0.01))


async def tell(api: Caller, recipient: str = "ada", **fields: object) -> str:
    """Accept one; its id."""
    body = {"recipients": [recipient], "content": {"text": "hello"}, **fields}
    answer = await api.post("/v1/notifications", body)
    assert answer.status == 202
    return str(answer.json["notifications"][0]["id"])


@asynccontextmanager
async def streaming(api: Caller, target: str, **more: Any) -> AsyncIterator[list[str]]:
    """What a stream has sent by the end of the block, event by event."""
    events: list[str] = []
    open_ = api.app.state.streams
    task = asyncio.create_task(api.get(target, **more))
    async with asyncio.timeout(60):
        while not open_ and not task.done():  # noqa: ASYNC110 - another task opens it
            await asyncio.sleep(0.005)
    yield events
    for stream in tuple(open_):
        stream.end()
    answer = await task
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    events += [part for part in answer.body.decode().split("\n\n") if part and not part.startswith(":")]


async def reached(api: Caller, cursor: int) -> None:
    """The one open stream has sent everything up to here."""
    async with asyncio.timeout(60):
        while not all((stream.cursor or 0) >= cursor for stream in api.app.state.streams):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_pages(inbox: Caller) -> None:
    """Newest first; `next` leads to the following page, the last one has none."""
    ids = [await tell(inbox) for _ in range(3)]
    first = (await inbox.get("/v1/inbox/ada?limit=2")).json
    assert [one["id"] for one in first["notifications"]] == [ids[2], ids[1]]
    assert (first["unread"], first["cursor"]) == (3, 3)
    second = (await inbox.get(f"/v1/inbox/ada?limit=2&before={first['next']}")).json
    assert ([one["id"] for one in second["notifications"]], second["next"]) == ([ids[0]], None)
    assert (await inbox.get("/v1/inbox/bob")).json["notifications"] == []


async def test_mark_read(inbox: Caller) -> None:
    """By ids, up to one, until a time, or all; the counter follows, and others' copies are not touched."""
    ids = [await tell(inbox) for _ in range(5)]
    foreign = await tell(inbox, "bob")
    answer = await inbox.post("/v1/inbox/ada/read", {"ids": [ids[4], foreign]})
    assert answer.json == {"read": 1, "unread": 4}
    assert (await inbox.post("/v1/inbox/ada/read", {"up_to": ids[1]})).json == {"read": 2, "unread": 2}
    until = (await inbox.get(f"/v1/notifications/{ids[2]}")).json["created_at"]
    assert (await inbox.post("/v1/inbox/ada/read", {"until": until})).json == {"read": 1, "unread": 1}
    assert [one["id"] for one in (await inbox.get("/v1/inbox/ada?unread=true")).json["notifications"]] == [
        ids[3]
    ]
    assert (await inbox.post("/v1/inbox/ada/read", {"all": True})).json == {"read": 1, "unread": 0}
    assert (await inbox.get("/v1/inbox/bob/unread")).json == {"unread": 1}


@pytest.mark.parametrize(
    "body", [{}, {"all": None}, {"all": False}, {"all": True, "ids": []}, {"ids": ["x"]}]
)
async def test_mark_read_says_what(inbox: Caller, body: dict[str, object]) -> None:
    """Nothing, two things at once, or something else is refused, and nothing is read."""
    await tell(inbox)
    assert (await inbox.post("/v1/inbox/ada/read", body)).status == 422
    assert (await inbox.get("/v1/inbox/ada/unread")).json == {"unread": 1}


async def test_stream_goes_on_where_it_was(inbox: Caller) -> None:
    """With Last-Event-ID everything since comes once and in order, then what is new; a silence is commented."""
    for _ in range(2):
        await tell(inbox)
    async with streaming(inbox, "/v1/inbox/ada/stream", headers={"last-event-id": "1"}) as events:
        await reached(inbox, 2)
        await tell(inbox)
        await tell(inbox, "bob")
        await reached(inbox, 3)
    assert events[0] == "retry: 1000\nid: 1"
    assert [event.split("\n")[:2] for event in events[1:] if event.startswith("id: ")] == [
        ["id: 2", "event: notification"],
        ["id: 3", "event: notification"],
    ]


async def test_stream_tells_what_was_read_elsewhere(inbox: Caller) -> None:
    """What another device reads comes as one event with the ids, and after it the counter."""
    ids = [await tell(inbox) for _ in range(3)]
    async with streaming(inbox, "/v1/inbox/ada/stream?after=3") as events:
        await inbox.post("/v1/inbox/ada/read", {"ids": ids[:2]})
        await reached(inbox, 5)
    number, name, data = events[1].split("\n")
    assert (number, name) == ("id: 5", "event: read")
    said = json.loads(data.removeprefix("data: "))
    assert sorted(said["ids"]) == sorted(ids[:2])
    assert said["read_at"].endswith("Z")
    assert events[2] == 'event: unread\ndata: {"unread":1}'


async def test_stream_continues_a_page(inbox: Caller) -> None:
    """`after` the cursor of a page there is no gap; without either a stream begins with what comes next."""
    await tell(inbox)
    cursor = (await inbox.get("/v1/inbox/ada")).json["cursor"]
    await tell(inbox)
    async with streaming(inbox, f"/v1/inbox/ada/stream?after={cursor}") as events:
        await reached(inbox, 2)
    assert [event.split("\n")[0] for event in events] == ["retry: 1000", "id: 2", "event: unread"]
    async with streaming(inbox, "/v1/inbox/ada/stream") as events:
        await reached(inbox, 2)
    assert events == ["retry: 1000\nid: 2"]


async def test_stream_refuses_a_foreign_cursor(inbox: Caller) -> None:
    """A Last-Event-ID that is none of ours is refused before the stream begins."""
    answer = await inbox.get("/v1/inbox/ada/stream", headers={"last-event-id": "x"})
    assert answer.status == 422


async def test_a_slow_reader_holds_up_nobody(ring: Ringonce) -> None:
    """A stream that nobody reads keeps no copies, and another one of the same person gets all of them."""
    async with ring.stream("ada") as slow, ring.stream("ada") as quick:
        for _ in range(120):
            await ring.notify(recipients=["ada"], content={"text": "hello"})
        found = []
        while len(found) < 120:
            found += await quick.next(20)
        assert slow.cursor == 0
        assert len(await slow.next(20)) == 50


async def test_ids_with_a_slash(inbox: Caller) -> None:
    """A recipient's id may hold a slash and a per cent sign: encoded, it is one segment of the path."""
    await tell(inbox, "team/7%2F")
    for target, count in (("/v1/inbox/team%2F7%252F/unread", 1), ("/v1/inbox/team%2F7%2F/unread", 0)):
        assert (await inbox.get(target)).json == {"unread": count}
