"""A15: callers see their own tenant only. A16: what happened is told in process and counted."""

from typing import Any

import pytest

from ringonce.api.app import create_app
from ringonce.config.model import ApiKey
from tests.api.asgi import Caller
from tests.requirements.conftest import Start, System

ACME, GLOBEX = {"x-api-key": "acme-key"}, {"x-api-key": "globex-key"}
PLATFORM = {"x-api-key": "platform-key"}


def caller(system: System) -> Caller:
    """The API with a key for each of two tenants, and one for the platform."""
    keys = [ApiKey("a", "acme-key", "acme"), ApiKey("g", "globex-key", "globex")]
    return Caller(create_app(system.ring, key="platform-key", keys=keys), host="notify.example.com")


async def furnished(start: Start) -> tuple[System, Caller, dict[str, str]]:
    """Each tenant and the platform have a failed one and an in-app copy of the same person; the copies' ids."""
    system = await start(box={"provider": "sandbox", "script": ["blocked"]}, app={"provider": "inapp"})
    api = caller(system)
    ids = {}
    for name, key in (("acme", ACME), ("globex", GLOBEX), ("", PLATFORM)):
        body = {"recipients": [{"id": "ada", "addresses": {"box": [f"ada-{name}"]}}], "subject": "order:1"}
        answer = await api.post(
            "/v1/notifications", {**body, "content": {"text": name or "all"}}, headers=key
        )
        assert answer.status == 202
        ids[name] = next(one["id"] for one in answer.json["notifications"] if one["channel"] == "app")
    await system.work()
    return system, api, ids


async def test_A15_a_tenants_key_reads_its_own_only(start: Start) -> None:
    """Every reading route tells a tenant's key of its own rows only; the platform's key sees all, null included."""
    _, api, ids = await furnished(start)
    for target in ("/v1/notifications", "/v1/failures"):
        seen = (await api.get(target, headers=ACME)).json["notifications"]
        assert {one["tenant"] for one in seen} == {"acme"}
        everything = (await api.get(target, headers=PLATFORM)).json["notifications"]
        assert {one["tenant"] for one in everything} == {"acme", "globex", ""}
    for tail in ("", "/timeline"):
        assert (await api.get(f"/v1/notifications/{ids['globex']}{tail}", headers=ACME)).status == 404
        assert (await api.get(f"/v1/notifications/{ids['globex']}{tail}", headers=PLATFORM)).status == 200
    (report,) = (await api.get("/v1/report", headers=ACME)).json["report"]
    assert report["accepted"] == 2
    page = (await api.get("/v1/inbox/ada", headers=ACME)).json
    assert [one["content"]["text"] for one in page["notifications"]] == ["acme"]
    found = (await api.get("/v1/recipients/ada", headers=GLOBEX)).json
    assert [one["address"] for one in found["addresses"]] == ["ada-globex"]


async def test_A15_a_tenants_key_changes_its_own_only(start: Start) -> None:
    """Every changing route leaves others' rows as they are."""
    system, api, ids = await furnished(start)
    for verb, body in (("cancel", {}), ("retry", {"force": True}), ("resolve", {"verdict": "sent"})):
        answer = await api.post(f"/v1/notifications/{ids['globex']}/{verb}", body, headers=ACME)
        assert answer.status == 404
    tried = await api.post(
        "/v1/failures/retry", {"dry_run": False, "ids": [ids["globex"]], "force": True}, headers=ACME
    )
    assert tried.json["results"][0]["code"] == "not_found"
    chosen = (await api.post("/v1/failures/retry", {}, headers=ACME)).json["results"]
    assert len(chosen) == 1
    assert (await api.post("/v1/inbox/ada/read", {"all": True}, headers=ACME)).json["read"] == 1
    assert (await api.post("/v1/cancel", {"subject": "order:1"}, headers=ACME)).status == 200
    assert (await api.call("DELETE", "/v1/recipients/ada", headers=ACME)).json == {"erased": 2}
    for other in ("globex", ""):
        assert await system.ring.unread("ada", tenant=other) == 1
        assert [one.value for one in await system.ring.addresses("ada", tenant=other)] == [f"ada-{other}"]
    assert (await api.post("/v1/notifications", {"subject": "order:1", "to": {"app": "x"}, "content": {"text": "x"}},
                           headers=GLOBEX)).json["notifications"][0]["status"] == "sent"  # fmt: skip


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/v1/notifications?tenant=globex", None),
        ("GET", "/v1/inbox/ada?tenant=globex", None),
        ("DELETE", "/v1/recipients/ada?tenant=globex", None),
        ("POST", "/v1/cancel", {"subject": "order:1", "tenant": "globex"}),
        ("GET", "/v1/channels", None),
        ("PATCH", "/v1/channels/box", {"enabled": False}),
        ("GET", "/v1/backlog", None),
        ("GET", "/metrics", None),
    ],
)
async def test_A15_neither_others_nor_what_all_share(
    start: Start, method: str, target: str, body: Any
) -> None:
    """Asking for another tenant, or for what all tenants share, is refused."""
    system = await start(box={"provider": "sandbox"}, app={"provider": "inapp"})
    assert (await caller(system).call(method, target, body, headers=ACME)).status == 403


async def test_A15_one_worker_serves_all_tenants(start: Start) -> None:
    """The platform's worker delivers for every tenant, the null one included, and each row keeps its tenant."""
    system = await start(box={"provider": "sandbox"})
    ids = {name: await system.accept("box", f"a-{name}", tenant=name) for name in ("acme", "globex", "")}
    await system.work()
    for name, id_ in ids.items():
        view = await system.view(id_)
        assert (view["tenant"], view["status"]) == (name, "sent")
    told = {one["tenant"] for one in await system.dispatched()}
    assert told == {"acme", "globex", None}


async def test_A16_every_failure_and_every_success_is_told_in_process(start: Start) -> None:
    """NotificationStatusChanged reaches the program at each Failed, intermediate ones too, and each Sent."""
    system = await start(
        box={
            "provider": "sandbox",
            "script": ["transient", "ok"],
            "backoff": {"kind": "fixed", "base": "0s"},
        },
        app={"provider": "inapp"},
    )
    told: list[tuple[str, object]] = []
    system.ring.subscribe(lambda event: told.append((event.kind, event.payload["data"])))  # type: ignore[arg-type]
    await system.ring.register("ada", "box", "ada")
    made = await system.ring.notify(recipients=["ada"], content={"text": "hello"})
    ids = {one.channel: str(one.id) for one in made.notifications}
    async with system.working(system.ring):
        for one in made.notifications:
            await system.ended(one.id)
    changes = [d for kind, d in told if kind == "notification.status_changed"]
    seen = [(d["notificationId"], d["status"]) for d in changes]  # type: ignore[index]
    assert [status for id_, status in seen if id_ == ids["box"]] == ["Failed", "Sent"]
    assert [status for id_, status in seen if id_ == ids["app"]] == ["Sent"]


async def test_A16_status_changed_is_not_on_the_bus_unless_asked_for(start: Start) -> None:
    """By default the outbox has notification.dispatched only; named in the configuration, the other one too."""
    system = await start(app={"provider": "inapp"})
    await system.ring.notify(recipients=["ada"], content={"text": "hello"})
    assert {row.kind for _, row in await system.ring.outbox()} == {"notification.dispatched"}
    system.config["outbox"] = {"events": ["notification.dispatched", "notification.status_changed"]}
    await system.reconfigure()
    await system.ring.notify(recipients=["ada"], content={"text": "hello"})
    assert [row.kind for _, row in await system.ring.outbox()].count("notification.status_changed") == 1


async def test_A16_metrics_of_the_cycle(start: Start) -> None:
    """Retries that succeeded, what failed and waits, and what met a disabled channel are at /metrics by name."""
    slow = {"kind": "fixed", "base": "1h"}
    system = await start(
        good={
            "provider": "sandbox",
            "script": ["transient", "ok"],
            "backoff": {"kind": "fixed", "base": "0s"},
        },
        bad={"provider": "sandbox", "script": ["transient"], "backoff": slow},
        off={"provider": "sandbox", "enabled": False},
    )
    good = await system.accept("good")
    bad = await system.accept("bad")
    await system.accept("off")
    async with system.working(system.ring):
        await system.ended(good)
        await system.called(bad)
        await system.counted("ringonce_channel_disabled_total", channel="off")

        async def measured() -> bool:
            return system.metric("ringonce_failed_backlog", channel="bad") == 1

        await system.until(measured)
    text = (await caller(system).get("/metrics", headers=PLATFORM)).body.decode()
    assert 'ringonce_retry_sent_total{channel="good",tenant=""} 1' in text
    assert 'ringonce_failed_backlog{channel="bad"} 1' in text
    assert 'ringonce_channel_disabled_total{channel="off",reason="disabled"}' in text
