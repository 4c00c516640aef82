"""Reading, people's decisions, channels, metrics."""

from uuid import uuid4

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ringonce.app import Ringonce
from ringonce.ports import LanePause
from tests.api.asgi import Caller


async def accepted(api: Caller, channel: str, **more: object) -> str:
    """The id of one accepted notification on this channel."""
    answer = await api.post(
        "/v1/notifications", {"to": {channel: "4815162342"}, "content": {"text": "x"}, **more}
    )
    assert answer.status == 202, answer.body
    return str(answer.json["notifications"][0]["id"])


async def test_read_one(api: Caller, ringonce: Ringonce) -> None:
    """A notification shows status, finality, attempts, the provider's id, content and attempts; no address."""
    id_ = await accepted(api, "ok", event_id="e1", subject="order:1")
    await ringonce.run_worker(drain=True)
    answer = await api.get(f"/v1/notifications/{id_}")
    view = answer.json
    assert answer.status == 200
    assert (view["id"], view["event_id"], view["subject"]) == (id_, "e1", "order:1")
    assert (view["status"], view["final"], view["attempts"], view["next_attempt_at"]) == (
        "sent",
        True,
        1,
        None,
    )
    assert view["content"]["text"] == "x"
    assert view["created_at"].endswith("Z")
    (attempt,) = view["attempt_list"]
    assert (attempt["number"], attempt["outcome"]) == (1, "accepted")
    assert view["address"] == "***2342"


async def test_timeline_in_words(api: Caller, ringonce: Ringonce) -> None:
    """The timeline has data and words, and says status and finality too."""
    id_ = await accepted(api, "dead")
    await ringonce.run_worker(drain=True)
    view = (await api.get(f"/v1/notifications/{id_}/timeline")).json
    assert (view["status"], view["final"]) == ("failed", True)
    assert any(entry["kind"] == "attempt" for entry in view["entries"])
    assert view["words"]


async def test_unknown_and_malformed_ids(api: Caller) -> None:
    """An id that nobody has is 404, and so is what is no id; both are problem documents."""
    unknown = await api.get(f"/v1/notifications/{uuid4()}")
    malformed = await api.get("/v1/notifications/abc")
    assert (unknown.status, unknown.json["code"]) == (404, "not_found")
    assert (malformed.status, malformed.json["code"]) == (404, "not_found")
    assert (await api.get("/v1/nothing")).json["code"] == "not_found"


async def test_search(api: Caller, ringonce: Ringonce) -> None:
    """A search filters, pages, masks addresses, and refuses an unknown status."""
    for number in range(3):
        await accepted(api, "ok", event_id=f"e{number}")
    await accepted(api, "dead")
    await ringonce.run_worker(drain=True)
    failed = (await api.get("/v1/notifications?failures=true")).json["notifications"]
    assert [(item["channel"], item["last_error"]["code"]) for item in failed] == [
        ("dead", "NTF_PROVIDER_INVALID_RECIPIENT")
    ]
    first = (await api.get("/v1/notifications?channel=ok&status=sent&limit=2")).json
    rest = (await api.get(f"/v1/notifications?channel=ok&limit=2&after={first['next']}")).json
    assert [item["event_id"] for item in first["notifications"] + rest["notifications"]] == ["e2", "e1", "e0"]
    assert rest["next"] is None
    assert "4815162342" not in str(first)
    wrong = await api.get("/v1/notifications?status=snet")
    assert (wrong.status, wrong.json["code"]) == (422, "invalid_input")
    assert wrong.json["field"].startswith("status")


async def test_cancel(api: Caller, ringonce: Ringonce) -> None:
    """Cancelling answers with the new status; a second time, or when it is sent, it is 409."""
    id_ = await accepted(api, "ok", send_at="2099-01-01T00:00:00Z")
    answer = await api.post(f"/v1/notifications/{id_}/cancel", {"by": "ada"})
    assert (answer.status, answer.json["status"], answer.json["final"]) == (200, "cancelled", True)
    assert (await api.post(f"/v1/notifications/{id_}/cancel")).status == 409
    sent = await accepted(api, "ok")
    await ringonce.run_worker(drain=True)
    assert (await api.post(f"/v1/notifications/{sent}/cancel")).status == 409


async def test_cancel_by_subject(api: Caller) -> None:
    """Withdrawing a subject cancels its notifications, and those accepted afterwards too."""
    first = await accepted(api, "ok", subject="order:7")
    answer = await api.post("/v1/cancel", {"subject": "order:7"})
    assert [(item["id"], item["status"]) for item in answer.json["notifications"]] == [(first, "cancelled")]
    later = await accepted(api, "ok", subject="order:7")
    assert (await api.get(f"/v1/notifications/{later}")).json["status"] == "cancelled"


async def test_retry(api: Caller, ringonce: Ringonce) -> None:
    """A terminal failure goes back to work with a new revision; a sent one is 409 without force."""
    id_ = await accepted(api, "dead")
    await ringonce.run_worker(drain=True)
    answer = await api.post(f"/v1/notifications/{id_}/retry", {"by": "ada"})
    assert (answer.status, answer.json["final"]) == (200, False)
    assert (await api.get(f"/v1/notifications/{id_}")).json["revision"] == 2
    sent = await accepted(api, "ok")
    await ringonce.run_worker(drain=True)
    assert (await api.post(f"/v1/notifications/{sent}/retry")).status == 409
    assert (await api.post(f"/v1/notifications/{sent}/retry", {"force": True})).status == 200


async def test_resolve(api: Caller, ringonce: Ringonce) -> None:
    """A doubt is decided by a person; a verdict that is none names the field."""
    id_ = await accepted(api, "doubt")
    await ringonce.run_worker(drain=True)
    assert (await api.get(f"/v1/notifications/{id_}")).json["status"] == "in_doubt"
    wrong = await api.post(f"/v1/notifications/{id_}/resolve", {"verdict": "maybe"})
    assert (wrong.status, wrong.json["field"]) == (422, "verdict")
    answer = await api.post(f"/v1/notifications/{id_}/resolve", {"verdict": "sent"})
    assert (answer.json["status"], answer.json["final"]) == ("sent", True)


async def test_unknown_keys_of_a_decision_are_refused(api: Caller) -> None:
    """A misspelt key in a decision is an error, not ignored."""
    id_ = await accepted(api, "ok")
    answer = await api.post(f"/v1/notifications/{id_}/retry", {"forse": True})
    assert (answer.status, answer.json["field"]) == (422, "forse")


async def test_channels_are_switched_while_everything_runs(api: Caller, ringonce: Ringonce) -> None:
    """A change of a channel applies to what waits already; null takes it back; a wrong one is 422."""
    changed = await api.call("PATCH", "/v1/channels/ok", {"enabled": False, "max_attempts": 3})
    assert (changed.status, changed.json["enabled"], changed.json["max_attempts"]) == (200, False, 3)
    id_ = await accepted(api, "ok")
    await ringonce.run_worker(drain=True)
    assert (await api.get(f"/v1/notifications/{id_}")).json["status"] == "pending"
    back = await api.call("PATCH", "/v1/channels/ok", {"enabled": True, "max_attempts": None})
    assert (back.json["enabled"], back.json["max_attempts"]) == (True, 10)
    await ringonce.run_worker(drain=True)
    assert (await api.get(f"/v1/notifications/{id_}")).json["status"] == "sent"
    wrong = await api.call("PATCH", "/v1/channels/ok", {"max_atempts": 3})
    assert (wrong.status, wrong.json["field"]) == (422, "channels.ok.max_atempts")
    assert (await api.call("PATCH", "/v1/channels/okk", {"enabled": True})).status == 404


async def test_channels_show_no_setting_of_the_provider(ringonce: Ringonce, api: Caller) -> None:
    """What belongs to the provider, secrets among it, is not shown."""
    answer = await api.get("/v1/channels/dead")
    assert answer.json["provider"] == "sandbox"
    assert "script" not in answer.json
    assert {view["name"] for view in (await api.get("/v1/channels")).json["channels"]} == {
        "ok",
        "dead",
        "doubt",
    }


async def test_report(api: Caller, ringonce: Ringonce) -> None:
    """The once report adds up, in all and by channel."""
    await accepted(api, "ok")
    await accepted(api, "dead")
    await ringonce.run_worker(drain=True)
    (total,) = (await api.get("/v1/report")).json["report"]
    assert (total["accepted"], total["sent"], sum(total["failed"].values())) == (2, 1, 1)
    by_channel = (await api.get("/v1/report?by=channel")).json["report"]
    assert {row["channel"]: row["accepted"] for row in by_channel} == {"ok": 1, "dead": 1}


async def test_metrics(api: Caller, ringonce: Ringonce) -> None:
    """/metrics is what Prometheus reads."""
    await accepted(api, "dead")
    await ringonce.run_worker(drain=True)
    answer = await api.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    names = {family.name for family in text_string_to_metric_families(answer.body.decode())}
    assert "ringonce_status_changes" in names


async def test_openapi_describes_the_structure_and_the_errors(api: Caller) -> None:
    """The description has the accepted structure, from the contract itself, and problem documents as errors."""
    description = (await api.get("/openapi.json")).json
    post = description["paths"]["/v1/notifications"]["post"]
    assert post["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/Body")
    assert "send_at" in description["components"]["schemas"]["Body"]["properties"]
    assert "application/problem+json" in post["responses"]["default"]["content"]


async def test_bodies_of_decisions_are_limited_too(api: Caller) -> None:
    """No route reads a body without end."""
    answer = await api.call("PATCH", "/v1/channels/ok", raw=[b'{"enabled": "', *([b"x" * 65_536] * 3)])
    assert (answer.status, answer.json["code"]) == (413, "payload_too_large")


async def test_unknown_methods_are_problem_documents(api: Caller) -> None:
    """Also what the framework refuses is a problem document with a code."""
    answer = await api.call("DELETE", "/v1/notifications")
    assert (answer.status, answer.json["code"]) == (405, "method_not_allowed")


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("/v1/notifications?since=0.5", None),
        ("/v1/notifications?until=2026-12-01T09:00:00", None),
        ("/v1/notifications?tenant=a&tenant=b", None),
        ("/v1/failures/retry", {"channel": "ok", "dry_run": 0}),
        ("/v1/failures/retry", {"channel": "ok", "limit": True}),
        ("/v1/failures/retry", {}),
    ],
)
async def test_what_could_be_read_in_two_ways_is_refused(
    api: Caller, target: str, body: dict[str, object] | None
) -> None:
    """Times without offset, switches that are numbers, and parameters given twice are 422."""
    answer = await (api.get(target) if body is None else api.post(target, body))
    assert answer.status == 422


async def test_failures_are_retried_after_a_look(api: Caller, ringonce: Ringonce) -> None:
    """A dry run, the default, changes nothing; the run sends them again; one that may have arrived is refused."""
    dead = await accepted(api, "dead")
    await ringonce.run_worker(drain=True)
    assert [one["id"] for one in (await api.get("/v1/failures?channel=dead")).json["notifications"]] == [dead]
    look = (await api.post("/v1/failures/retry", {"channel": "dead"})).json
    assert (look["dry_run"], look["more"], [one["id"] for one in look["results"]]) == (True, False, [dead])
    assert [(one["channel"], one["count"], one["refused"]) for one in look["counts"]] == [("dead", 1, None)]
    assert (await api.get(f"/v1/notifications/{dead}")).json["status"] == "failed"
    run = (await api.post("/v1/failures/retry", {"ids": [dead], "dry_run": False})).json
    assert (run["refused"], run["results"][0]["result"]) == (0, "will be sent again")
    assert (await api.get(f"/v1/notifications/{dead}")).json["status"] == "pending"
    again = (await api.post("/v1/failures/retry", {"ids": [dead], "dry_run": False})).json
    assert (again["refused"], again["results"][0]["code"]) == (1, "conflict")
    assert (again["next"], again["counts"]) == (None, None)


async def test_failures_are_discarded_after_a_look(api: Caller, ringonce: Ringonce) -> None:
    """A dry run, the default, changes nothing; the run ends them for good, with a note by whom and why."""
    dead = await accepted(api, "dead")
    await ringonce.run_worker(drain=True)
    look = (await api.post("/v1/failures/discard", {"channel": "dead"})).json
    assert (look["dry_run"], look["results"][0]["result"]) == (True, "would be discarded")
    body = {"channel": "dead", "by": "ann", "reason": "old phones", "dry_run": False}
    run = (await api.post("/v1/failures/discard", body)).json
    assert (run["refused"], run["results"]) == (0, [{"id": dead, "result": "discarded"}])
    assert (await api.get("/v1/failures?channel=dead")).json["notifications"] == []
    told = (await api.get(f"/v1/notifications/{dead}")).json
    assert (told["status"], told["timeline"][-1]["detail"]) == (
        "cancelled", {"by": "ann", "reason": "old phones"},
    )  # fmt: skip
    again = (await api.post("/v1/failures/discard", {"ids": [dead], "dry_run": False})).json
    assert again["results"][0]["detail"] == "it is cancelled, and no terminal failure"


async def test_a_part_of_a_channel_is_resumed(api: Caller, ringonce: Ringonce) -> None:
    """A channel shows which parts of it are paused; one is resumed by its name, and an unknown name tells those."""
    pauses = [LanePause(f"ok//template%3A{name}", "auth") for name in ("a", "b")]
    await ringonce.store.pause(pauses)
    shown = (await api.get("/v1/channels/ok")).json
    assert shown["paused"] is False
    assert [one["scope"] for one in shown["scopes"]] == ["template:a", "template:b"]
    resumed = await api.post("/v1/channels/ok/resume", {"scope": "template:a"})
    assert resumed.status == 200
    assert [one["scope"] for one in resumed.json["scopes"]] == ["template:b"]
    again = await api.post("/v1/channels/ok/resume", {"scope": "template:a"})
    assert (again.status, again.json["code"]) == (404, "not_found")
    assert "template:b" in str(again.json)
    assert (await api.post("/v1/channels/none/resume", {"scope": "x"})).status == 404
    assert (await api.post("/v1/channels/ok/resume", {"scope": ""})).status == 422
