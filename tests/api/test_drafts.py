"""Drafts over HTTP: saved, looked for, sent, rejected; what is refused, and by which code."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ringonce.api.app import create_app
from ringonce.app import Ringonce
from tests.api.asgi import Caller

URL = "/v1/drafts/feedback%3A1"


@pytest.fixture
async def ring(tmp_path: Path) -> AsyncIterator[Ringonce]:
    """Drafts go to ``reply``; praise is sent by itself."""
    config = {
        "store": {"url": f"sqlite:///{tmp_path}/ringonce.db"},
        "drafts": {"channel": "reply", "scenarios": {"praise": "auto"}},
        "channels": {
            "reply": {"provider": "sandbox"},
            "other": {"provider": "sandbox", "script": ["payload"]},
        },
    }
    async with Ringonce(config) as ring:
        yield ring


@pytest.fixture
def desk(ring: Ringonce) -> Caller:
    """The API without a key."""
    return Caller(create_app(ring))


async def test_a_draft_from_saving_to_sending(desk: Caller, ring: Ringonce) -> None:
    """201 for a new one, 200 for another text, 202 for sending, again with the same id; then 409 with who and when."""
    made = await desk.put(URL, {"text": "Thank you", "by": "generator"})
    assert (made.status, made.json["state"], made.json["created"]) == (201, "draft", True)
    changed = await desk.put(URL, {"text": "Thank you!", "version": made.json["version"]})
    assert (changed.status, changed.json["id"], changed.json["created"]) == (200, made.json["id"], False)
    sent = await desk.post(f"{URL}/send", {"by": "ann", "version": changed.json["version"]})
    again = await desk.post(f"{URL}/send")
    assert (sent.status, sent.json["state"]) == (202, "pending")
    assert (again.status, again.json["id"], again.json["version"]) == (
        202,
        sent.json["id"],
        sent.json["version"],
    )
    await ring.run_worker(drain=True)
    seen = (await desk.get(URL)).json
    assert (seen["state"], seen["send_attempts"], seen["send_error"]) == ("sent", 1, None)
    assert seen["sent_at"] == seen["history"][-1]["ended_at"]
    assert [entry["what"] for entry in seen["history"]] == ["created", "regenerated", "approved", "attempt"]
    refused = await desk.post(f"{URL}/send")
    assert (refused.status, refused.json["code"]) == (409, "already_sent")
    assert "approved by ann" in refused.json["detail"]


async def test_auto_is_queued_or_skipped(desk: Caller, ring: Ringonce) -> None:
    """Under auto a PUT queues, and on what is sent it is answered 200 with skipped."""
    made = await desk.put(URL, {"text": "Thank you", "scenario": "praise"})
    assert (made.status, made.json["state"], made.json["skipped"]) == (201, "pending", False)
    await ring.run_worker(drain=True)
    again = await desk.put(URL, {"text": "Thank you so much", "mode": "auto"})
    assert (again.status, again.json["skipped"], again.json["text"]) == (200, True, "Thank you")
    by_hand = await desk.put(URL, {"text": "Thank you so much", "mode": "manual"})
    assert (by_hand.status, by_hand.json["code"]) == (409, "already_sent")


async def test_rejecting(desk: Caller) -> None:
    """A draft is put aside, a rejected one stays so; what is approved is not rejected; another text opens it again."""
    await desk.put(URL, {"text": "Hm"})
    rejected = await desk.post(f"{URL}/reject", {"by": "eve", "reason": "rude"})
    assert (rejected.status, rejected.json["state"]) == (200, "rejected")
    assert rejected.json["history"][-1]["reason"] == "rude"
    assert (await desk.post(f"{URL}/reject")).status == 200
    assert (await desk.post(f"{URL}/send")).json["code"] == "already_final"
    assert (await desk.put(URL, {"text": "Thank you"})).json["state"] == "draft"
    await desk.post(f"{URL}/send")
    refused = await desk.post(f"{URL}/reject")
    assert (refused.status, refused.json["code"]) == (409, "conflict")


async def test_a_search(desk: Caller, ring: Ringonce) -> None:
    """By state, several at once, channel and scenario; page by page."""
    for number in range(3):
        await desk.put(f"/v1/drafts/k{number}", {"text": f"text {number}", "scenario": "sorrow"})
    await desk.put("/v1/drafts/k3", {"text": "bad", "channel": "other", "mode": "auto"})
    await ring.run_worker(drain=True)
    await desk.post("/v1/drafts/k0/send")
    page = (await desk.get("/v1/drafts?limit=2")).json
    assert [draft["key"] for draft in page["drafts"]] == ["k3", "k2"]
    rest = (await desk.get(f"/v1/drafts?limit=2&after={page['next']}")).json
    assert [draft["key"] for draft in rest["drafts"]] == ["k1", "k0"]
    assert "history" not in rest["drafts"][0]
    found = (await desk.get("/v1/drafts?state=error&state=pending")).json["drafts"]
    assert [(draft["key"], draft["state"]) for draft in found] == [("k3", "error"), ("k0", "pending")]
    assert found[0]["send_error"]["code"] == "NTF_PROVIDER_INVALID_PAYLOAD"
    assert len((await desk.get("/v1/drafts?channel=reply&scenario=sorrow")).json["drafts"]) == 3
    assert (await desk.get("/v1/drafts?state=done")).status == 422


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({}, "content", "invalid_input"),
        ({"text": ""}, "text", "invalid_input"),
        ({"text": "a\u0000b"}, "text", "invalid_input"),
        ({"text": "a", "content": {"text": "b"}}, "text", "invalid_input"),
        ({"content": {"title": 1}}, "content.title", "invalid_input"),
        ({"text": "a", "channel": "none"}, "channel", "unknown_channel"),
        ({"text": "a", "mode": "never"}, "mode", "invalid_input"),
        ({"text": "a", "to": {"x": 1}}, "to", "invalid_address"),
        ({"text": "a", "shout": True}, "shout", "invalid_input"),
    ],
)
async def test_a_wrong_draft(desk: Caller, body: dict[str, object], field: str, code: str) -> None:
    """The error names the field, and nothing is saved."""
    answer = await desk.put(URL, body)
    assert (answer.status, answer.json["field"], answer.json["code"]) == (422, field, code)
    assert (await desk.get("/v1/drafts")).json["drafts"] == []


async def test_what_is_not_there(desk: Caller) -> None:
    """404 for a key that has no draft, whatever is asked of it."""
    assert (await desk.get(URL)).status == 404
    assert (await desk.post(f"{URL}/send")).status == 404
    assert (await desk.post(f"{URL}/reject")).json["code"] == "not_found"


async def test_one_key_on_two_channels(desk: Caller) -> None:
    """Where two channels have a draft of one key, the channel must be named."""
    await desk.put(URL, {"text": "one"})
    await desk.put(URL, {"text": "two", "channel": "other"})
    refused = await desk.get(URL)
    assert (refused.status, refused.json["field"]) == (422, "channel")
    assert (await desk.get(f"{URL}?channel=other")).json["text"] == "two"
    assert (await desk.put(URL, {"text": "three"})).status == 422
    assert (await desk.post(f"{URL}/send?channel=reply")).json["channel"] == "reply"


async def test_another_address(desk: Caller) -> None:
    """The address is the key, or what ``to`` says; a draft's address stays."""
    made = await desk.put(URL, {"text": "one", "to": "ada"})
    assert made.status == 201
    assert (await desk.put(URL, {"text": "two"})).status == 200
    assert (await desk.put(URL, {"text": "three", "to": "ada"})).status == 200
    refused = await desk.put(URL, {"text": "four", "to": "bob"})
    assert (refused.status, refused.json["field"]) == (409, "to")


async def test_tenants_see_their_own(ring: Ringonce) -> None:
    """A tenant's key saves and sees drafts of that tenant only."""
    from ringonce.config.model import ApiKey

    keys = [ApiKey(name, name, name) for name in ("acme", "bulk")]
    caller = Caller(create_app(ring, keys=keys))
    mine, other = ({"authorization": f"Bearer {name}"} for name in ("acme", "bulk"))
    assert (await caller.put(URL, {"text": "one"}, headers=mine)).json["tenant"] == "acme"
    assert (await caller.get(URL, headers=other)).status == 404
    assert (await caller.get("/v1/drafts", headers=other)).json["drafts"] == []
    assert (await caller.post(f"{URL}/send?tenant=acme", headers=other)).status == 403
    assert (await caller.get(URL, headers=mine)).status == 200
