"""Field reports about what providers report. The ids are those of docs/reference/field-reports.md."""

import asyncio
import hashlib
import hmac
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest

from ringonce.app import Ringonce
from ringonce.errors import ForgedError
from ringonce.model.receipt import Callback
from ringonce.provider import Context
from ringonce.vendors.reports import Told
from ringonce.vendors.viber import ViberApi
from ringonce.vendors.whatsapp import WhatsAppApi
from tests.providers.samples import NOW
from tests.providers.test_receipts import SLACK, URL, WHATSAPP, called, read, slack
from tests.requirements.conftest import Facts, Start, System
from tests.requirements.reporting import callable_at, report
from tests.requirements.test_receipts import ADA, HOURS, kinds, stand_in, way

WORDS = ("queued", "sent", "delivered", "read")


@asynccontextmanager
async def sent(start: Start, count: int = 1) -> AsyncIterator[tuple[System, WhatsAppApi, list[UUID]]]:
    """Messages that the vendor has taken, and a vendor that can report."""
    with stand_in() as server:
        system = await start(way=way(server, backoff=HOURS))
        async with callable_at(system.ring) as url:
            server.reports_to = f"{url}/v1/receipts/way"
            ids = [await system.accept("way", f"+1555{n:07}") for n in range(count)]
            await system.work()
            yield system, server, ids


def told(server: WhatsAppApi, id_: UUID) -> Told:
    """What the vendor knows of a message."""
    return next(one for one in server.told if one.reference == str(id_))


def state(view: Facts) -> tuple[object, ...]:
    """How it stands."""
    error = view["last_error"] or {}
    return view["status"], view["final"], error.get("provider_code")


async def test_hook_01_a_callback_before_the_answer_is_not_lost(start: Start) -> None:
    """HOOK-01: a status came within milliseconds, before the id was stored, and was logged as "not found" and lost.

    Source: botpress/botpress#15029. Here: it is kept, answered 200, and carried out when the send commits; an id
    that will never exist is answered 200 and counted; another account's changes nothing.
    """
    with ViberApi("vb-token", reports=["early:seen"]) as server, stand_in() as other:
        keys = {"provider": "viber", "token": "vb-token", "sender": "Shop", "base_url": server.url}
        system = await start(bot=keys, way=way(other))
        async with callable_at(system.ring) as url:
            server.reports_to, other.reports_to = f"{url}/v1/receipts/bot", f"{url}/v1/receipts/way"
            id_ = await system.accept("bot", "01234567890A=")

            async def matched() -> bool:
                return bool((await system.view(id_))["read_at"])

            async with system.working(system.ring):
                await system.until(matched)
            before = await system.view(id_)
            assert (before["status"], kinds(before)) == ("sent", ["read"])
            nobody = Told("", ADA, "5741311803571799999")
            assert await report(server, nobody, "failed") == 200
            assert await report(other, Told(str(id_), ADA, "wamid.x"), "failed=131026") == 200
            assert await system.view(id_) == before
        assert server.answers == [("seen", 200), ("failed", 200)]
        labels = {"kind": "failed", "fate": "unknown"}
        assert [system.metric("ringonce_receipts_total", channel=c, **labels) for c in ("bot", "way")] == [
            1,
            1,
        ]


async def test_hook_02_the_end_does_not_depend_on_the_order(start: Start) -> None:
    """HOOK-02: "sent" after "delivered", or after "failed", overwrote what was newer.

    Sources: chatwoot/chatwoot#14529, twilio-labs/twilio-firebase-extensions#21, twilio/twilio-csharp#633. Here: all
    orders of four statuses, and a failure at each place of some, end alike; so do all at once. What arrived, arrived.
    """
    orders = [list(order) for order in itertools.permutations(WORDS)]
    for place in range(len(WORDS) + 1):
        orders += [[*order[:place], "failed=131000", *order[place:]] for order in (WORDS, WORDS[::-1])]
    async with sent(start, len(orders) + 4) as (system, server, ids):
        stamp = 1_800_000_000.0

        async def one_by_one(id_: UUID, order: list[str]) -> None:
            for word in order:
                assert await report(server, told(server, id_), word, at=stamp) == 200

        pairs = list(zip(ids, orders, strict=False))
        for some in itertools.batched(pairs, 5) if hasattr(itertools, "batched") else [pairs]:
            await asyncio.gather(*(one_by_one(*pair) for pair in some))
        for id_ in ids[-4:]:
            at_once = [report(server, told(server, id_), w, at=stamp) for w in (*WORDS, "failed=131000")]
            assert set(await asyncio.gather(*at_once)) == {200}
        views = [await system.view(id_) for id_ in ids]
    assert {view["status"] for view in views} == {"sent"}
    assert all(view["final"] and view["read_at"] for view in views)


async def test_hook_03_a_reason_is_never_erased(start: Start) -> None:
    """HOOK-03: a second "failed" without a code erased the reason; a row was "delivered" and had an error.

    Sources: chatwoot/chatwoot#14149, chatwoot/chatwoot#13377. Here: the first failure decides with its reason, the next
    is only told in the timeline; what arrived has its status changed, and the history keeps each callback.
    """
    async with sent(start, 2) as (system, server, (first, second)):
        one, two = told(server, first), told(server, second)
        assert await report(server, one, "failed=131026") == 200
        assert await report(server, one, "failed") == 200
        assert state(await system.view(first)) == ("failed", True, "131026")
        assert await report(server, one, "delivered") == 200
        view = await system.view(first)
        assert (state(view), kinds(view)) == (("sent", True, "131026"), ["failed", "failed", "delivered"])
        assert await report(server, two, "delivered") == 200
        before = await system.view(second)
        assert await report(server, two, "failed=131026") == 200
        view = await system.view(second)
        assert (state(view), view["version"]) == (state(before), before["version"])
        assert (view["last_error"], kinds(view)) == (None, ["delivered", "failed"])


async def test_hook_06_a_captured_callback_does_nothing_again(start: Start) -> None:
    """HOOK-06: the age of a signature was not checked, so a captured request could be replayed for ever.

    Sources: flippercloud/flipper#1022, linear/linear#1268, deskhq/the-desk#1187. Here: where the vendor signs a time it
    must be within five minutes, both ways; where it signs none, the same callback is answered 200 and does nothing.
    """
    fresh = slack(b"{}")
    for now in (NOW, NOW + 299_000_000, NOW - 299_000_000):
        assert SLACK.receipts(fresh, Context(now)) == ()
    for now in (NOW + 600_000_000, NOW - 3_600_000_000):
        with pytest.raises(ForgedError):
            SLACK.receipts(fresh, Context(now))
    for stamp in (str(NOW // 1_000_000), "", "abc", str(NOW // 1_000)):
        moved = replace(fresh, headers=fresh.headers | {"x-slack-request-timestamp": stamp})
        with pytest.raises(ForgedError):
            SLACK.receipts(moved if stamp != str(NOW // 1_000_000) else slack(b"{}", str(NOW)), Context(NOW))
    async with sent(start) as (system, server, (id_,)):
        at = 1_800_000_000.0
        for _ in range(3):
            assert await report(server, told(server, id_), "delivered", at=at) == 200
        assert kinds(await system.view(id_)) == ["delivered"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"b":1,  "a":2}',
        b'{"a":"\\u00e9"}',
        '{"a":"é"}'.encode(),
        b'{"a":1.0}',
        b'{"entry":[],"entry":[]}',
        b'{"a":2}\n',
        b"\xef\xbb\xbf{}",
    ],
)
def test_hook_07_the_raw_bytes_are_signed(body: bytes) -> None:
    """HOOK-07: the signature was made over JSON that was written anew, so spacing or escapes broke it.

    Sources: hcompai/hai-agents-python#94, SatyamPandey-07/WorkSphere#431. Here: over the bytes as they came; the same
    value in another spelling is not what was signed. (More than 3 MiB is 413: tests/api/test_receipts.py.)
    """
    made = hmac.new(b"agreed-secret", body, hashlib.sha256).hexdigest()
    right = Callback("POST", URL, {"x-hub-signature-256": f"sha256={made}"}, body)
    assert WHATSAPP.receipts(right, Context(NOW)) == []
    for other in (json.dumps(json.loads(body)).encode() + b" ", body + b"\n", b" " + body):
        with pytest.raises(ForgedError):
            WHATSAPP.receipts(replace(right, body=other), Context(NOW))


def test_hook_08_either_secret_counts_while_one_is_replaced() -> None:
    """HOOK-08: only the first of several keys was tried, so events were refused while keys were rotated.

    Source: NousResearch/hermes-agent#20518. Here: any secret of the channel proves a callback, one that is out of use
    does not, and a missing header is refused without a word about why.
    """
    for secret, good in (("new", True), ("agreed-secret", True), ("old", False), ("", False)):
        if good:
            assert read("telegram", called("telegram", "blocked", secret))
        else:
            with pytest.raises(ForgedError) as refused:
                read("telegram", called("telegram", "blocked", secret))
            assert str(refused.value) == str(ForgedError())
    with pytest.raises(ForgedError):
        read("telegram", replace(called("telegram", "blocked"), headers={}))


async def test_hook_09_two_equal_callbacks_at_once_count_once(start: Start) -> None:
    """HOOK-09: the same event came twice within a second, a check before the write let both pass.

    Sources: rmyndharis/OpenWA#464, green-api/issues#684. Here: two API processes get it at the same moment; both answer
    200, and the database's unique key lets one of them act.
    """
    async with sent(start) as (system, server, (id_,)):
        async with Ringonce(system.config) as second, callable_at(second) as url:
            other = WhatsAppApi("t", "106540352242922", receipt_secret="app-secret")
            other.reports_to = f"{url}/v1/receipts/way"
            one, at = told(server, id_), 1_800_000_000.0
            both = [report(each, one, "failed=131000", at=at) for each in (server, other) for _ in range(4)]
            assert set(await asyncio.gather(*both)) == {200}
        view = await system.view(id_)
    assert (view["status"], view["revision"], kinds(view)) == ("failed", 2, ["failed"])
