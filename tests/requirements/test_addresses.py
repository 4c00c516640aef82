"""D06, DP5, A06, B01: a dead address is gone, and a wrong key takes nobody's away (SPEC §3, the breaker)."""

import json
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from ringonce.api.app import create_app
from ringonce.model.policy import DAY
from ringonce.store.schema import addresses, notifications
from ringonce.vendors.apns import ApnsApi
from ringonce.vendors.script import Plan, plan
from ringonce.vendors.webpush import PushService
from tests.api.asgi import Caller
from tests.requirements.conftest import Start, System
from tests.requirements.test_push import ALERTS, Api, api, browsers, push, sends, tell, webpush
from tests.requirements.test_push_apns import push as apns
from tests.requirements.test_retention import pruning

__all__ = ["api", "browsers"]
MANY = 25
PAUSED = "mass_invalidation"


@pytest.fixture
def apple() -> Iterator[ApnsApi]:
    """The vendor's server."""
    with ApnsApi() as server:
        yield server


async def people(system: System, server: PushService, *, known: bool = True) -> list[str]:
    """Many with one browser each, to whom something was sent a while ago."""
    names = [f"user-{number}" for number in range(MANY)]
    for name in names:
        await system.ring.register(name, "web", server.subscribe())
    if known:
        await tell(system, recipients=names)
        await system.work()
        assert system.metric("ringonce_status_changes_total", status="sent") == MANY
    return names


async def left(system: System, names: list[str], channel: str = "web") -> int:
    """How many of them still have an address that is in use."""
    return len([name for name in names if await system.ring.addresses(name, channel)])


def gone(server: PushService, *, is_: bool) -> None:
    """To the service, all subscriptions are gone (a wrong key in a vendor who says so), or known again."""
    for browser in server.browsers.values():
        browser.gone = is_


@pytest.mark.parametrize("known", [True, False], ids=["good before", "never used"])
async def test_D06_d_a_wrong_key_takes_nobodys_subscription(
    start: Start, browsers: PushService, *, known: bool
) -> None:
    """When every subscription is called gone, none is lost: one alert, a pause, and after the mend all are told."""
    system = await start(web=webpush(concurrency=5))
    names = await people(system, browsers, known=known)
    gone(browsers, is_=True)
    ids = await tell(system, recipients=names)
    await system.work()
    assert await left(system, names) == MANY
    (channel,) = await system.ring.channels()
    assert (channel["paused"], channel["paused_until"], channel["paused_reason"]) == (True, None, PAUSED)
    assert system.metric(ALERTS, kind=PAUSED) == 1
    assert system.metric(ALERTS, kind="mass_invalidation_over") == 0
    calls = sum(sends(browsers).values())
    more = await tell(system, recipients=names)
    await system.work()
    assert len(more) == MANY  # they are still told of what happens meanwhile
    assert sum(sends(browsers).values()) == calls
    gone(browsers, is_=False)
    await system.ring.enable("web")
    await system.work()
    assert [(await system.view(id_))["status"] for id_ in more] == ["sent"] * MANY
    failed = [id_ for id_ in ids if (await system.view(id_))["status"] != "sent"]
    assert len(failed) <= 24  # those whose verdicts came before it could be known
    assert await left(system, names) == MANY
    assert await system.ring.quarantined("web") == []
    assert system.metric(ALERTS, kind="mass_invalidation_over") == 1


async def test_D06_e_what_was_doubted_waits_and_is_sent(start: Start, browsers: PushService) -> None:
    """A notification whose verdict was doubted has used no attempt; `explain` says why it waits and who decides."""
    system = await start(web=webpush(concurrency=MANY))
    names = await people(system, browsers)
    gone(browsers, is_=True)
    ids = await tell(system, recipients=names)
    await system.work()
    views = [await system.view(id_) for id_ in ids]
    waiting = [view for view in views if not view["final"]]
    assert waiting
    assert {(view["status"], view["attempts"]) for view in waiting} == {("pending", 0)}
    said = "\n".join(await system.ring.explain(ids[views.index(waiting[0])]))
    assert "the verdict is doubted" in said
    assert "waits: channel paused (mass_invalidation) until somebody resumes it" in said
    assert "ringonce recipients quarantine list --channel web" in said
    gone(browsers, is_=False)
    await system.command("channels", "enable", "web")
    await system.work()
    for id_, view in zip(ids, views, strict=True):
        assert view["final"] or (await system.view(id_))["status"] == "sent"


async def test_D06_f_a_person_confirms_the_drop(start: Start, browsers: PushService) -> None:
    """Where they are gone indeed, a person drops them: nobody is called again, and what waited ends."""
    system = await start(web=webpush(concurrency=MANY))
    names = await people(system, browsers)
    gone(browsers, is_=True)
    ids = await tell(system, recipients=names)
    await system.work()
    calls = sends(browsers)
    apart = json.loads(await system.command("recipients", "quarantine", "list", "--channel", "web", "--json"))
    assert 0 < len(apart) <= MANY
    assert {one["channel"] for one in apart} == {"web"}
    assert not any("/push/" in one["address"] for one in apart)
    told = json.loads(await system.command("recipients", "quarantine", "drop", "web", "--yes", "--json"))
    assert told == {"dropped": len(apart)}
    await system.work()
    assert sends(browsers) == calls
    assert [(await system.view(id_))["final"] for id_ in ids] == [True] * MANY
    assert await left(system, names) == MANY - len(apart)
    (channel,) = await system.ring.channels()
    assert not channel["paused"]


async def test_D06_g_a_key_that_is_still_wrong(start: Start, browsers: PushService) -> None:
    """Resumed too early it trips again at its first verdict, with an alert of its own, and still nobody is lost."""
    system = await start(web=webpush(concurrency=1))
    names = await people(system, browsers)
    gone(browsers, is_=True)
    await tell(system, recipients=names)
    await system.work()
    calls = sum(sends(browsers).values())
    await system.ring.release_quarantined("web")
    await system.work()
    assert sum(sends(browsers).values()) == calls + 1
    assert await left(system, names) == MANY
    assert system.metric(ALERTS, kind=PAUSED) == 2


async def test_D06_h_an_ordinary_day(start: Start, browsers: PushService) -> None:
    """A few dead among many good ones are dropped at once, each after one call."""
    system = await start(web=webpush())
    names = await people(system, browsers)
    for browser in list(browsers.browsers.values())[:3]:
        browser.gone = True
    for _ in range(3):
        await tell(system, recipients=names)
        await system.work()
    assert await left(system, names) == MANY - 3
    assert sum(sends(browsers).values()) == MANY + MANY + 2 * (MANY - 3)
    assert system.metric(ALERTS) == 0


async def test_D06_i_it_may_be_off(start: Start, browsers: PushService) -> None:
    """With `mass_invalidation = "off"` every verdict is believed."""
    system = await start(web=webpush(mass_invalidation="off"))
    names = await people(system, browsers)
    gone(browsers, is_=True)
    await tell(system, recipients=names)
    await system.work()
    assert (await left(system, names), system.metric(ALERTS)) == (0, 0)


async def test_D06_j_over_http(start: Start, browsers: PushService) -> None:
    """The quarantine is seen and decided over HTTP, addresses masked; the metrics count what waits for a person."""
    system = await start(web=webpush(concurrency=MANY))
    names = await people(system, browsers)
    gone(browsers, is_=True)
    await tell(system, recipients=names)
    await system.work()
    caller = Caller(create_app(system.ring))
    page = (await caller.call("GET", "/v1/channels/web/quarantine?limit=2")).json
    assert len(page["addresses"]) == 2
    rest = (await caller.call("GET", f"/v1/channels/web/quarantine?after={page['next']}")).json
    count = 2 + len(rest["addresses"])
    assert {one["address"].rpartition("/")[2] for one in rest["addresses"]} == {"***"}
    async with system.working(system.ring):

        async def counted() -> bool:
            return system.metric("ringonce_quarantined_addresses", channel="web") == count

        await system.until(counted)
    answer = await caller.call("POST", "/v1/channels/web/quarantine/release")
    assert answer.json == {"addresses": count}
    assert (await caller.call("GET", "/v1/channels/none/quarantine")).status == 404
    assert await left(system, names) == MANY


async def test_D06_k_channels_that_share_an_account_stop_together(start: Start) -> None:
    """The breaker is the account's: verdicts of both channels count together, both stop, a decision resumes both."""
    box = {"provider": "sandbox", "script": ["invalid_recipient:drop"], "account": "firm", "concurrency": 4}
    system = await start(one=box, two=box)
    for number in range(12):
        for channel in ("one", "two"):
            await system.accept(channel, f"{channel}-{number}")
    await system.work()
    assert [view["paused_reason"] for view in await system.ring.channels()] == [PAUSED, PAUSED]
    assert len(await system.ring.quarantined("one")) == len(await system.ring.quarantined()) >= 20
    await system.command("recipients", "quarantine", "drop", "two", "--yes")
    assert [view["paused"] for view in await system.ring.channels()] == [False, False]
    assert await system.ring.quarantined() == []


async def test_D06_l_a_person_decides_about_each_provider_of_a_channel(start: Start) -> None:
    """What the provider behind a refusing first one called dead is seen and decided by its channel, or its own name."""
    ways = [{"provider": "sandbox", "script": script} for script in ("disabled", "invalid_recipient:drop")]
    system = await start(sms={"providers": ways, "concurrency": 1})
    for number in range(24):
        await system.accept("sms", f"sms-{number}")

    async def stopped() -> bool:
        return bool((await system.ring.channels())[0]["paused"])

    async def counted() -> bool:
        return system.metric("ringonce_quarantined_addresses", channel="sms") >= 20

    async with system.working(system.ring):
        await system.until(stopped)
        await system.until(counted)
    apart = await system.ring.quarantined("sms")
    assert len(apart) == len(await system.ring.quarantined()) >= 20
    assert await system.ring.quarantined("sms~sandbox2") == apart
    assert await system.ring.drop_quarantined("sms") == len(apart)
    assert await system.ring.quarantined() == []
    (channel,) = await system.ring.channels()
    assert [one["paused"] for one in channel["providers"]] == [True, False]  # type: ignore[attr-defined]


async def test_B01_t_a_wrong_environment_takes_no_device(start: Start, apple: ApnsApi) -> None:
    """APNs calls every token of another environment BadDeviceToken: after twenty none is lost, and a person is told."""
    system = await start(push=apns(apple))
    tokens = [f"{number:064x}" for number in range(MANY)]
    for number, token in enumerate(tokens):
        await system.ring.register(f"user-{number}", "push", token)
    names = [f"user-{number}" for number in range(MANY)]
    await tell(system, recipients=names)
    await system.work()
    apple.plan = plan(["400"])
    await tell(system, recipients=names)
    await system.work()
    assert await left(system, names, "push") == MANY
    assert system.metric(ALERTS, kind=PAUSED) == 1
    apple.plan = Plan()
    await system.ring.enable("push")
    await system.work()
    await tell(system, recipients=names)
    await system.work()
    assert system.metric("ringonce_status_changes_total", status="sent") >= 2 * MANY
    assert await left(system, names, "push") == MANY


async def test_DP5_a_410_removes_one_device(start: Start, browsers: PushService) -> None:
    """Of three devices one answers 410: it is called once, it is removed, and the next events go to the rest."""
    system = await start(web=webpush())
    devices = [browsers.subscribe() for _ in range(3)]
    for device in devices:
        await system.ring.register("ada", "web", device)
    browsers.unsubscribe(devices[0])
    for _ in range(3):
        await tell(system)
        await system.work()
    paths = [device["endpoint"].removeprefix(browsers.url) for device in devices]
    assert sends(browsers) == {paths[0]: 1, paths[1]: 3, paths[2]: 3}
    values = [json.loads(one.value)["endpoint"] for one in await system.ring.addresses("ada", "web")]
    assert sorted(values) == sorted(device["endpoint"] for device in devices[1:])


@pytest.mark.parametrize("mark", [True, False])
async def test_DP5_b_what_waits_already_makes_no_call(
    start: Start, browsers: PushService, *, mark: bool
) -> None:
    """Rows that wait for the dead endpoint, or were claimed ahead, end without a call."""
    box = webpush(concurrency=1, mark=mark, in_doubt="resend")
    system = await start(web=box)
    dead, alive = browsers.subscribe(), browsers.subscribe()
    for device in (dead, alive):
        await system.ring.register("ada", "web", device)
    browsers.unsubscribe(dead)
    ids = [id_ for _ in range(5) for id_ in await tell(system)]
    await system.work()
    calls = sends(browsers)
    assert calls[dead["endpoint"].removeprefix(browsers.url)] == 1
    assert calls[alive["endpoint"].removeprefix(browsers.url)] == 5
    views = [await system.view(id_) for id_ in ids]
    assert sorted(view["status"] for view in views) == ["failed"] * 5 + ["sent"] * 5
    assert sum(len(view["attempt_list"]) for view in views) == 6


async def test_A06_c_a_dead_token_leaves_reason_and_date(start: Start, api: Api) -> None:
    """A token that FCM does not know ends the notification at once; the row keeps why and when, and no list has it."""
    server = api(dead=["token"])
    system = await start(push=push(server))
    await system.ring.register("ada", "push", "token")
    (id_,) = await tell(system)
    await system.work()
    view = await system.view(id_)
    assert (view["final"], view["attempts"]) == (True, 1)
    assert await system.ring.addresses("ada") == []
    (kept,) = await system.ring.addresses("ada", invalidated=True)
    assert kept.reason == "NTF_PUSH_TOKEN_INVALID"
    assert kept.invalidated_at is not None
    await tell(system)
    await system.work()
    assert sends(server) == {"token": 1}


async def test_A06_d_what_is_left_of_a_dead_token_is_erased(start: Start, api: Api) -> None:
    """Reason and date of a dead token are removed by retention."""
    system = await start(push=push(api(dead=["token"])))
    await system.ring.register("ada", "push", "token")
    await tell(system)
    await system.work()

    def grow_old(connection: sa.Connection) -> None:
        connection.execute(sa.update(addresses).values(invalidated_at=addresses.c.invalidated_at - 91 * DAY))
        connection.execute(sa.delete(notifications))

    await system.sql(grow_old)

    async def gone() -> bool:
        return await system.ring.addresses("ada", invalidated=True) == []

    async with pruning(system):
        await system.until(gone)
