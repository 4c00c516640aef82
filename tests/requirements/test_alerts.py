"""Alerts over a configured channel: told once a window, whoever raises them, and never about themselves."""

import asyncio
import logging
from typing import Any

import pytest

from ringonce.app import Ringonce
from ringonce.errors import ConfigError
from ringonce.ports import Row
from ringonce.vendors.script import plan
from ringonce.vendors.webhook import WebhookReceiver
from tests.requirements.conftest import SECRET, Start, System, started, webhook

OPS = {"provider": "sandbox"}
DEAD = {"provider": "sandbox", "script": "transient", "budgets": {"transient": 0}}
TYPE = "ringonce.alert"


async def watched(start: Start, alerts: dict[str, Any] | None = None, **channels: Any) -> System:
    """A system whose alerts go to ``ops``."""
    system = await start(ops=OPS, **channels)
    await system.ring.close()
    system.config["alerts"] = {"channel": "ops", "to": "on-call", "window": "1d", **(alerts or {})}
    system.ring = await started(system.config)
    return system


async def told(system: System) -> list[Row]:
    """The alerts that became notifications, oldest first."""
    return (await system.ring.search(event_type=TYPE, limit=500))[::-1]


async def said(system: System) -> list[str]:
    """What they say."""
    return [str((await system.ring.get(row.id)).content.text) for row in await told(system)]


async def several(system: System, count: int) -> None:
    """Wait for so many, and give more the time to be wrong: what was raised before is accepted by the end of close."""

    async def there() -> bool:
        return len(await told(system)) >= count

    await system.until(there)
    await system.ring.close()
    system.ring = await started(system.config)
    assert len(await told(system)) == count


async def fail(system: System, count: int, channel: str = "dead", **fields: object) -> None:
    """So many notifications use all their attempts."""
    ids = [await system.accept(channel, f"place-{n}", **fields) for n in range(count)]
    async with system.working(system.ring):
        for id_ in ids:
            await system.ended(id_)


async def test_exhaustion_is_told_by_channel_and_code(start: Start) -> None:
    """Twelve failures of one channel and code are one alert, which is sent; another channel's is another one."""
    system = await watched(start, dead=DEAD, gone=DEAD)
    await fail(system, 12)
    await fail(system, 1, "gone")
    await several(system, 2)
    await system.work()
    assert {row.state.status.value for row in await told(system)} == {"sent"}
    assert sorted({row.event_id.split(":")[2] for row in await told(system)}) == ["dead", "gone"]
    assert "last error NTF_PROVIDER_TRANSIENT" in (await said(system))[0]
    assert "place-" not in "".join(await said(system))


async def test_each_failure_of_a_high_priority_type_is_told(start: Start) -> None:
    """Notifications of the types in ``[audit]`` are told one by one, with their id; those by class are not."""
    system = await watched(start, dead=DEAD, bad={"provider": "sandbox", "script": "payload"})
    await system.ring.close()
    system.config["audit"] = {"types": ["SECURITY_ALERT"]}
    system.ring = await started(system.config)
    await fail(system, 3, type="SECURITY_ALERT")
    await fail(system, 1, "bad", type="SECURITY_ALERT")
    await several(system, 3)
    ids = {str(row.id) for row in await system.ring.search(event_type="SECURITY_ALERT", channel="dead")}
    assert {text.split("notification ")[1][:36] for text in await said(system)} == ids


async def test_ten_workers_make_one(start: Start) -> None:
    """The same alert raised in many processes within a window is one notification, and nobody's conflict counts."""
    system = await watched(start)
    others = [await started(system.config) for _ in range(3)]
    for number, ring in enumerate((system.ring, *others)):
        ring.telemetry.alert("circuit_open", f"most calls fail, says {number}", channel="push")
    for ring in others:
        await ring.close()
    await several(system, 1)
    (report,) = await system.ring.report()
    assert (report["accepted"], report["duplicates_refused"]) == (1, 0)


async def test_the_rest_of_a_window_is_told_with_the_next(start: Start) -> None:
    """What is raised again within a window is counted, and one notification of the next window tells of it."""
    system = await watched(start, {"window": "2s"})
    for _ in range(5):
        system.ring.telemetry.alert("circuit_open", "most calls fail", channel="push")

    async def first() -> bool:
        return len(await told(system)) == 1

    await system.until(first)
    for _ in range(7):
        system.ring.telemetry.alert("circuit_open", "most calls fail", channel="push")

    async def second() -> bool:
        return any("circuit_open (7 times)" in text for text in await said(system))

    await system.until(second)


async def test_alerts_about_alerts_are_not_sent(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """A dead alert channel: the log and a metric tell of it, and not one further notification is made."""
    system = await watched(start, dead=DEAD)
    system.config["channels"]["ops"] = {**DEAD, "backoff": {"kind": "fixed", "base": "10ms", "jitter": 0}}
    await system.reconfigure()
    with caplog.at_level(logging.WARNING, "ringonce.alerts"):
        await fail(system, 3)
        await several(system, 1)
        await system.work()
        assert [row.state.final for row in await told(system)] == [True]
    assert sum("alert_failed" in record.getMessage() for record in caplog.records) == 1
    await several(system, 1)


async def test_alerts_are_no_high_priority_type(start: Start) -> None:
    """Also where `[audit]` names the alerts' own type, the end of one leads to no other one."""
    system = await watched(start, dead=DEAD)
    system.config["channels"]["ops"] = {**DEAD, "backoff": {"kind": "fixed", "base": "10ms", "jitter": 0}}
    system.config["audit"] = {"types": [TYPE]}
    await system.reconfigure()
    await fail(system, 1)
    await several(system, 1)
    await system.work()
    await several(system, 1)


async def test_what_concerns_the_alert_channel_is_not_sent_over_it(start: Start) -> None:
    """That the alerts' own channel is broken is for the log; that notifications on it failed is sent all the same."""
    system = await watched(start)
    for kind in ("auth", "circuit_open", "stuck_backlog"):
        system.ring.telemetry.alert(kind, "it is down", channel="ops")
    system.ring.telemetry.alert("alert_failed", "it was not delivered", channel="the-former-one")
    system.ring.telemetry.alert("exhausted", "all 3 retries are used", channel="ops", code="X")
    await several(system, 1)
    assert (await said(system))[0].startswith("exhausted: all 3 retries")


async def test_a_storm_of_alerts_is_bounded(start: Start) -> None:
    """More kinds of trouble than anybody reads become twenty notifications and one that counts the rest."""
    system = await watched(start)
    for number in range(50):
        system.ring.telemetry.alert("exhausted", "used up", channel=f"channel-{number}")
    await several(system, 21)
    assert any("30 more alerts" in text for text in await said(system))


async def test_only_the_kinds_that_are_named(start: Start) -> None:
    """``kinds`` chooses; the others stay in the log and the metrics."""
    system = await watched(start, {"kinds": ["auth"]})
    system.ring.telemetry.alert("circuit_open", "most calls fail", channel="push")
    system.ring.telemetry.alert("auth", "refused", channel="push")
    await several(system, 1)
    assert (await said(system))[0].startswith("auth: refused")


async def test_it_is_sent_for_real(start: Start) -> None:
    """Over a webhook: the receiver gets it once, signed, without secrets or addresses."""
    with WebhookReceiver([SECRET], plan=plan(["503:first=1"])) as server:
        system = await start(hook=webhook(backoff={"kind": "fixed", "base": "10ms", "jitter": 0}))
        await system.ring.close()
        system.config["alerts"] = {"channel": "hook", "to": f"{server.url}/ops"}
        system.ring = await started(system.config)
        system.ring.telemetry.alert("auth", "token=abcdefgh12345678 of ada@example.com", channel="push")

        async def sent() -> bool:
            return [row.state.status.value for row in await told(system)] == ["sent"]

        async with system.working(system.ring):
            await system.until(sent)
        assert len({entry.reference for entry in server.ledger.entries}) == 1
        (text,) = await said(system)
        assert "abcdefgh" not in text
        assert "ada@" not in text


async def test_a_backlog_that_does_not_move_is_told_once(start: Start) -> None:
    """Due for longer than ``alerts.backlog`` on a channel that works: one alert; one that is off has its reason."""
    system = await watched(
        start, {"backlog": "1s"}, slow={"provider": "sandbox"}, off={**OPS, "enabled": False}
    )
    for channel in ("slow", "off"):
        await system.accept(channel)
    await system.pass_time(60)
    stop = asyncio.Event()
    running = asyncio.create_task(system.ring.run_worker(stop, only=["retry"]))

    async def there() -> bool:
        return bool(await told(system))

    try:
        await system.until(there)
    finally:
        stop.set()
        await running
    assert (await told(system))[0].event_id.startswith("ringonce.alert:stuck_backlog:slow:")
    assert system.metric("ringonce_alerts_total", kind="stuck_backlog") == 1


@pytest.mark.parametrize(
    ("alerts", "field"),
    [
        ({"channel": "nowhere", "to": "x"}, "alerts.channel"),
        ({"channel": "ops"}, "alerts.to"),
        ({"channel": "hook", "to": "no url"}, "alerts.to"),
        ({"channel": "ops", "to": "x", "kinds": ["exhaustion"]}, "alerts.kinds"),
    ],
)
def test_a_wrong_configuration_names_the_key(alerts: dict[str, Any], field: str) -> None:
    """What could never be sent is refused when the program starts."""
    with pytest.raises(ConfigError) as raised:
        Ringonce({"channels": {"ops": OPS, "hook": webhook()}, "alerts": alerts})
    assert raised.value.field == field


async def test_the_check_says_where_alerts_go(start: Start) -> None:
    """`ringonce check` names the channel, or what is wrong with it."""
    system = await watched(start)
    assert "alerts: also over channel ops" in await system.command("check")
    system.config["alerts"]["channel"] = "nowhere"
    assert "BAD  alerts: " in await system.command("check", code=1)


async def test_a_drained_worker_has_sent_its_alerts(start: Start) -> None:
    """What a drained worker's own failures raise is accepted and sent before it ends."""
    system = await watched(start, dead=DEAD)
    await system.accept("dead")
    await system.ring.run_worker(drain=True)
    assert [row.state.status.value for row in await told(system)] == ["sent"]
