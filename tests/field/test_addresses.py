"""Field reports about tokens and other addresses. The ids are those of docs/reference/field-reports.md."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from ringonce.errors import InputError
from ringonce.vendors.ledger import Entry, Ledger
from ringonce.vendors.script import plan
from ringonce.vendors.telegram import TelegramApi
from ringonce.vendors.webhook import WebhookReceiver
from ringonce.vendors.webpush import PushService
from tests.requirements.conftest import SECRET, Start, System, webhook
from tests.requirements.test_push import ALERTS, Api, push, sends, tell, webpush

CHAT = {"provider": "telegram", "token": "1:x"}


def meanwhile(ledger: Ledger, work: Callable[[], Awaitable[object]]) -> None:
    """While the server holds its first answer back, do this to the end."""
    loop = asyncio.get_running_loop()
    todo = [work]

    def told(_entry: Entry) -> None:
        if todo:
            asyncio.run_coroutine_threadsafe(todo.pop()(), loop).result(90)  # type: ignore[arg-type]

    ledger.listen(told)


async def live(system: System, channel: str, *recipients: str) -> list[tuple[str, str]]:
    """(recipient, value) of all live addresses."""
    return [
        (recipient, address.value)
        for recipient in recipients
        for address in await system.ring.addresses(recipient, channel)
    ]


@pytest.mark.parametrize("again", [True, False])
async def test_tokn_01_an_answer_speaks_of_the_time_of_its_call(
    start: Start,
    browsers: PushService,
    *,
    again: bool,
) -> None:
    """TOKN-01: callers deleted tokens which the app had registered again after the provider called them dead.

    Sources: Pr0Ger/PyAPNs2#61, jchambers/pushy#674. Here: an answer without a time of its own proves what was so when
    its call began; an address that was registered since then is kept. (A provider's own time: tests/store.)
    """
    system = await start(web=webpush())
    subscription = browsers.subscribe()
    await system.ring.register("ada", "web", subscription)
    browsers.unsubscribe(subscription)
    if again:
        meanwhile(browsers.ledger, lambda: system.ring.register("ada", "web", subscription))
    (id_,) = await tell(system)
    await system.work()
    assert (await system.view(id_))["last_error"]["provider_code"] == "410"
    assert bool(await live(system, "web", "ada")) is again


async def test_tokn_02_a_wrong_key_costs_nobody_a_device(start: Start) -> None:
    """TOKN-02: the sender's key was wrong, every device was called unknown, and all registrations were deleted.

    Sources: mozilla-services/autopush#807, mozilla-services/autopush#1436, nextcloud/notifications#2586,
    nextcloud/notifications#2774. Here: 401 and 403 are about our key: nothing is dropped, whatever the number.
    """
    for fault in ("401", "403"):
        with PushService(plan=plan([fault])) as server:
            system = await start(web=webpush())
            for number in range(10):
                await system.ring.register(f"{fault}-{number}", "web", server.subscribe())
                await tell(system, f"{fault}-{number}")
            await system.work()
            people = [f"{fault}-{number}" for number in range(10)]
            assert len(await live(system, "web", *people)) == 10


@pytest.mark.parametrize("fault", ["404", "410"])
async def test_tokn_02_a_gateway_that_calls_everybody_unknown(start: Start, fault: str) -> None:
    """TOKN-02: a changed secret made the gateway call every device unknown, and the first push deleted them all.

    Sources: see above. Here: when nothing but such verdicts comes, they are doubted: the channel is paused, one alert
    is raised, and every registration stays, those of the first verdicts as well.
    """
    with PushService(plan=plan([fault])) as server:
        system = await start(web=webpush(concurrency=4))
        people = [f"p-{number}" for number in range(30)]
        for person in people:
            await system.ring.register(person, "web", server.subscribe())
        await tell(system, recipients=people)
        await system.work()
        assert len(await live(system, "web", *people)) == 30
        assert len(sends(server)) < 30
        assert system.metric(ALERTS, kind="mass_invalidation") == 1


@pytest.mark.parametrize("fault", ["400", "413"])
async def test_tokn_03_a_message_error_leaves_the_token(start: Start, api: Api, fault: str) -> None:
    """TOKN-03: "too long" was told as an error of the token, and the device was removed.

    Source: matrix-org/sygnal#8. Here: what is wrong with the message ends the notification and no address, with FCM
    and with Web Push.
    """
    with PushService(plan=plan([fault])) as server:
        fcm = api(fault)
        system = await start(push=push(fcm), web=webpush())
        await system.ring.register("ada", "push", "token-1")
        await system.ring.register("ada", "web", server.subscribe())
        ids = await tell(system)
        await system.work()
        views = [await system.view(id_) for id_ in ids]
        assert {view["channel"]: view["final"] for view in views} == {"push": True, "web": True}
        assert {view["last_error"]["code"] for view in views} == {"NTF_PROVIDER_INVALID_PAYLOAD"}
        assert [len(await live(system, name, "ada")) for name in ("push", "web")] == [1, 1]


async def test_tokn_06_a_malformed_token_is_alone(start: Start, api: Api) -> None:
    """TOKN-06: one malformed token made the whole send throw, and nobody knew who had been told.

    Source: eladnava/fcm-v1-http2#4. Here: what can not be a token is refused when it is registered; what the vendor
    does not know fails alone, and each of the others has its own result.
    """
    server = api(dead=["abc", "x" * 4096])
    system = await start(push=push(server))
    for bad in ("", " ", "to\nken", "to\0ken", None, 5):
        with pytest.raises(InputError) as caught:
            await system.ring.register("ada", "push", bad)
        assert caught.value.field.startswith("address")
    for token in ("valid-1", "abc", "x" * 1000, " valid-2\n"):
        await system.ring.register("ada", "push", token)
    ids = await tell(system)
    await system.work()
    results = Counter([(await system.view(id_))["status"] for id_ in ids])
    assert results == {"sent": 3, "failed": 1}
    assert sends(server) == {"valid-1": 1, "abc": 1, "x" * 1000: 1, "valid-2": 1}


async def test_tokn_07_the_phone_is_somebody_elses_now(start: Start, api: Api) -> None:
    """TOKN-07: a token stayed with the account before, so one person's phone showed another's messages.

    Sources: macro-inc/macro#5348, linagora/Twake-Mobile#319, chatwoot/chatwoot-mobile-app#430,
    SkygearIO/skygear-server#71. Here: one value has one owner; what waits for the former owner is not sent to it.
    """
    server = api()
    system = await start(push=push(server))
    await system.ring.register("ada", "push", "phone")
    (waiting,) = await tell(system, "ada", content={"text": "for ada"})
    await system.ring.register("bob", "push", "phone")
    await tell(system, "ada", content={"text": "for ada"})
    (bobs,) = await tell(system, "bob", content={"text": "for bob"})
    await system.work()
    view = await system.view(waiting)
    assert (view["final"], view["attempts"], sends(server)) == (True, 0, {"phone": 1})
    assert (await system.view(bobs))["status"] == "sent"
    assert "for ada" not in json.dumps(server.messages)
    assert await live(system, "push", "ada", "bob") == [("bob", "phone")]


async def test_tokn_07_a_late_proof_does_not_drop_the_new_owners_address(
    start: Start,
    browsers: PushService,
) -> None:
    """TOKN-07, TOKN-01: the phone changes hands during a call that ends with "gone": the new owner keeps it."""
    system = await start(web=webpush())
    subscription = browsers.subscribe()
    await system.ring.register("ada", "web", subscription)
    browsers.unsubscribe(subscription)
    meanwhile(browsers.ledger, lambda: system.ring.register("bob", "web", subscription))
    await tell(system)
    await system.work()
    assert [owner for owner, _ in await live(system, "web", "ada", "bob")] == ["bob"]


async def test_tokn_09_the_group_has_become_a_supergroup(start: Start) -> None:
    """TOKN-09: a group was upgraded, and bots lost the subscriber instead of following the new id.

    Sources: yagop/node-telegram-bot-api#1155, laravel-notification-channels/telegram#166. Here: the address becomes
    the new id, which needs 64 bits; the message follows it once, and so does what else waits.
    """
    old, new = "-5036", -1001234567890
    with TelegramApi("1:x", migrated={old: new}) as server:
        system = await start(chat={**CHAT, "base_url": server.url, "concurrency": 1})
        await system.ring.register("group", "chat", old)
        ids = [(await tell(system, "group", content={"text": f"n{n}"}))[0] for n in range(3)]
        async with system.working(system.ring):
            for id_ in ids:
                await system.ended(id_)
        assert {(await system.view(id_))["status"] for id_ in ids} == {"sent"}
        assert await live(system, "chat", "group") == [("group", str(new))]
        told = Counter(entry.reference for entry in server.ledger.entries if entry.accepted)
        assert told == {"n0": 1, "n1": 1, "n2": 1}


async def test_tokn_10_one_token_one_row(start: Start, api: Api) -> None:
    """TOKN-10: the same token in two rows was pushed to twice, and its cleanup crashed on finding two.

    Sources: jazzband/django-push-notifications#738, jazzband/django-push-notifications#216,
    jazzband/django-push-notifications#795. Here: registering is an upsert, by many at once as well; one event tells
    one address once; dropping takes the one row.
    """
    server = api(dead=["token"])
    system = await start(push=push(server))
    owners = [f"user-{n % 2}" for n in range(10)]
    await asyncio.gather(*(system.ring.register(owner, "push", "token") for owner in owners))
    assert len(await live(system, "push", "user-0", "user-1")) == 1
    await tell(system, recipients=["user-0", "user-1"])
    inline = [{"id": "user-9", "addresses": {"push": ["other", "other"]}}]
    assert len(await tell(system, recipients=inline)) == 1
    await system.work()
    assert sends(server) == {"token": 1, "other": 1}
    assert await live(system, "push", "user-0", "user-1") == []


async def test_clas_04_a_blocked_bot_is_not_asked_again(start: Start) -> None:
    """CLAS-04: "bot was blocked by the user" was logged again and again, and the chat stayed subscribed.

    Sources: GameFeeder/GameFeeder#201, laravel-notification-channels/telegram#195. Here: one call, an end with a code
    of its own, no retry and no alert; later events do not choose the chat until it is registered again.
    """
    with TelegramApi("1:x", blocked=["42"]) as server:
        system = await start(chat={**CHAT, "base_url": server.url})
        await system.ring.register("ada", "chat", "42")
        (id_,) = await tell(system)
        await system.work()
        view = await system.view(id_)
        assert (view["final"], view["attempts"]) == (True, 1)
        assert view["last_error"]["code"] == "NTF_PROVIDER_BLOCKED"
        await tell(system)
        await system.pass_time(86_400)
        await system.work()
        assert len(server.ledger.entries) == 1
        assert system.metric(ALERTS) == 0
        await system.ring.register("ada", "chat", "42")
        await tell(system)
        await system.work()
        assert len(server.ledger.entries) == 2


async def test_idem_05_the_browser_subscribes_anew_during_a_send(
    start: Start,
    browsers: PushService,
) -> None:
    """IDEM-05: an endpoint was replaced while a push to it was under way, and errors did not say which was gone.

    Sources: zaru/webpush#31, web-push-libs/web-push-csharp#5. Here: 410 drops that endpoint alone; the same endpoint
    with new keys replaces the old keys; keys that are none are refused when they are registered.
    """
    system = await start(web=webpush())
    old, new = browsers.subscribe(), browsers.subscribe()
    await system.ring.register("ada", "web", old)
    browsers.unsubscribe(old)
    meanwhile(browsers.ledger, lambda: system.ring.register("ada", "web", new))
    (first,) = await tell(system)
    await system.work()
    assert (await system.view(first))["final"]
    ((_, kept),) = await live(system, "web", "ada")
    assert json.loads(kept)["endpoint"] == new["endpoint"]
    for key in ("", "AAAA", "BA" + "A" * 85, "!"):
        with pytest.raises(InputError):
            await system.ring.register("ada", "web", {**new, "keys": {**new["keys"], "p256dh": key}})
    await asyncio.gather(*(system.ring.register("ada", "web", new) for _ in range(5)))
    (second,) = await tell(system)
    await system.work()
    assert (await system.view(second))["status"] == "sent"


async def test_idem_05_new_keys_replace_the_old_ones(start: Start, browsers: PushService) -> None:
    """IDEM-05: the same endpoint comes with new keys. Here: one subscription is left, the one with the new keys."""
    system = await start(web=webpush())
    new, other = browsers.subscribe(), browsers.subscribe()
    await system.ring.register("ada", "web", {**new, "keys": other["keys"]})
    await system.ring.register("ada", "web", new)
    values = [json.loads(value) for _, value in await live(system, "web", "ada")]
    assert [value["keys"] for value in values if value["endpoint"] == new["endpoint"]] == [new["keys"]]


async def test_dup_07_one_dead_endpoint_among_many(start: Start) -> None:
    """DUP-07: one bad token ended the connection; what came after it in the batch was repeated or lost.

    Sources: rpush/rpush#331, rpush/rpush#93. Here: each address has a call and a result of its own; a connection that
    breaks after acceptance leaves the others told exactly once.
    """
    faults = ["410:address=/5", "accept_then_close:each=1,address=/7", "reset:each=1,address=/9"]
    with WebhookReceiver([SECRET], plan=plan(faults)) as server:
        system = await start(hook=webhook(backoff={"kind": "fixed", "base": "10ms", "jitter": 0}))
        ids = [await system.accept("hook", f"{server.url}/{n}") for n in range(30)]
        async with system.working(system.ring):
            for id_ in ids:
                await system.ended(id_)
        views = [await system.view(id_) for id_ in ids]
        assert [n for n, view in enumerate(views) if view["status"] != "sent"] == [5]
        assert server.ledger.repeats() == {}
        assert len(server.ledger.accepted()) == 29


async def test_idem_05_a_direct_send_may_bring_new_keys(start: Start, browsers: PushService) -> None:
    """IDEM-05: new keys come with `to`, twice in one batch. Here: both are sent, with the keys that came last."""
    system = await start(web=webpush())
    new, other = browsers.subscribe(), browsers.subscribe()
    bodies = [
        {"to": {"web": {**new, "keys": keys}}, "content": {"text": "hello"}, "event_id": name}
        for name, keys in (("old", other["keys"]), ("new", new["keys"]))
    ]
    await system.ring.notify_many(bodies)
    await system.work()
    assert len(browsers.browser(new).received) == 2
