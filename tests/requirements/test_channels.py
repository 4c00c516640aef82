"""A07, A12, A13, A18, A19: what a channel is set to, and how its answers are told."""

import json

import pytest

from ringonce.app import Ringonce
from ringonce.errors import ConfigError
from ringonce.vendors.script import plan
from ringonce.vendors.smtp import MailServer
from ringonce.vendors.telegram import TelegramApi
from ringonce.vendors.webhook import WebhookReceiver
from tests.requirements.conftest import SECRET, Facts, Start, calls, outcomes, webhook

HOURS = {"kind": "fixed", "base": "1h", "jitter": 0}
AT_ONCE = {"kind": "fixed", "base": "10ms", "jitter": 0}
TOKEN = "1:telegram"


# --- A07 -----------------------------------------------------------------------------------------------------------


async def test_A07_a_a_disabled_channel_is_not_called(start: Start, receiver: WebhookReceiver) -> None:
    """On a disabled channel nothing is attempted, the skip is counted with its reason, and enabling sends it."""
    system = await start(hook=webhook(enabled=False))
    id_ = await system.accept("hook", f"{receiver.url}/ada")
    async with system.working(system.ring):
        await system.counted("ringonce_channel_disabled_total", channel="hook", reason="disabled")
        view = await system.view(id_)
        assert (view["status"], view["final"], view["attempts"]) == ("pending", False, 0)
        assert receiver.ledger.entries == []
        assert "waits: channel disabled" in await system.command("explain", str(id_))
        await system.command("channels", "enable", "hook")
        await system.ended(id_)
    assert (await system.view(id_))["status"] == "sent"


async def test_A07_b_a_stub_provider_waits_until_the_channel_is_enabled(start: Start) -> None:
    """NTF_PROVIDER_NOT_IMPLEMENTED counts no attempt, is counted by its reason, and waits for `channels enable`."""
    system = await start(stub={"provider": "sandbox", "script": ["not_implemented", "ok"], "max_attempts": 1})
    id_ = await system.accept("stub")
    await system.work()
    await system.pass_time(86_400)
    await system.work()
    view = await system.view(id_)
    assert (view["final"], view["attempts"], outcomes(view)) == (False, 0, ["not_implemented"])
    assert view["last_error"]["code"] == "NTF_PROVIDER_NOT_IMPLEMENTED"
    assert await system.dispatched() == []
    async with system.working(system.ring):
        await system.counted("ringonce_channel_disabled_total", channel="stub", reason="not_implemented")
    await system.ring.enable("stub")
    await system.work()
    view = await system.view(id_)
    assert (view["status"], view["attempts"]) == ("sent", 1)


async def test_A07_c_acceptance_is_the_same_on_a_disabled_channel(start: Start) -> None:
    """What is accepted for a disabled channel waits, and may expire while it waits."""
    system = await start(off={"provider": "sandbox", "enabled": False})
    id_ = await system.accept("off", expires_at="2099-01-01T00:00:00Z")
    await system.work()
    assert (await system.view(id_))["status"] == "pending"
    await system.pass_time(100 * 365 * 86_400)
    async with system.working(system.ring):
        await system.ended(id_)
    view = await system.view(id_)
    assert (view["status"], view["attempts"], await system.dispatched()) == ("expired", 0, [])


# --- A12 -----------------------------------------------------------------------------------------------------------


async def test_A12_a_max_attempts_counts_calls(start: Start) -> None:
    """max_attempts are calls in all, the first included."""
    with WebhookReceiver([SECRET], plan=plan(["503"])) as server:
        system = await start(hook=webhook(max_attempts=2, backoff=HOURS))
        id_ = await system.accept("hook", f"{server.url}/ada")
        for _ in range(4):
            await system.work()
            await system.pass_time()
        assert (await system.view(id_))["attempts"] == 2
        assert calls(server) == {str(id_): 2}


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        ({"kind": "fixed", "base": "90s", "jitter": 0}, [90, 90, 90]),
        ({"kind": "exponential", "base": "30s", "factor": 3, "cap": "2m", "jitter": 0}, [30, 90, 120]),
    ],
)
async def test_A12_b_backoff_is_fixed_or_exponential(start: Start, backoff: Facts, waits: list[int]) -> None:
    """The waits before the retries are those of the channel's backoff."""
    system = await start(sand={"provider": "sandbox", "script": ["transient"], "backoff": backoff})
    id_ = await system.accept("sand")
    for wait in waits:
        await system.work()
        assert await system.wait(id_) == wait
        await system.pass_time(wait)


async def test_A12_c_the_configuration_of_a_channel_is_shown(start: Start) -> None:
    """`channels list` tells switch, provider, max_attempts and backoff, as the file and changes made since say."""
    system = await start(
        hook=webhook(max_attempts=7, backoff=HOURS), off={"provider": "sandbox", "enabled": False}
    )
    views = {view["name"]: view for view in json.loads(await system.command("channels", "list", "--json"))}
    hook = views["hook"]
    assert (hook["provider"], hook["enabled"], hook["max_attempts"]) == ("webhook", True, 7)
    assert hook["backoff"] == {"kind": "fixed", "base": 3600.0, "jitter": 0.0}
    assert views["off"]["enabled"] is False
    assert SECRET not in json.dumps(views)
    with pytest.raises(ConfigError, match="max_attempts"):
        Ringonce({"channels": {"hook": webhook(max_attempts=0)}})


# --- A13 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "code", "provider_code"),
    [
        ("500", "NTF_PROVIDER_TRANSIENT", "500"),
        ("503", "NTF_PROVIDER_TRANSIENT", "503"),
        ("429:retry_after=7200", "NTF_PROVIDER_RATE_LIMITED", "429"),
        ("accept_then_hang", "NTF_PROVIDER_TRANSIENT", "read_timeout"),
        ("reset", "NTF_PROVIDER_TRANSIENT", "reset_before_status"),
        ("410", "NTF_PROVIDER_INVALID_RECIPIENT", "410"),
    ],
)
async def test_A13_a_codes_of_http_answers(start: Start, fault: str, code: str, provider_code: str) -> None:
    """5xx, timeouts, broken connections, 429 and a dead endpoint have the NTF_ codes and keep the provider's own."""
    with WebhookReceiver([SECRET], plan=plan([fault])) as server:
        # Long enough for a request to arrive on a machine that stalls for seconds.
        system = await start(hook=webhook(backoff=HOURS, timeout="6s" if "hang" in fault else "60s"))
        id_ = await system.accept("hook", f"{server.url}/ada")
        await system.work()
        view = await system.view(id_)
        assert (view["last_error"]["code"], view["last_error"]["provider_code"]) == (code, provider_code)
        if "429" in fault:
            assert await system.wait(id_) >= 7200


async def test_A13_b_codes_of_recipients(start: Start) -> None:
    """Unknown chat, blocked bot and unknown mailbox have their own codes, and none is retried."""
    with (
        TelegramApi(TOKEN, unknown=["404"], blocked=["403"]) as bot,
        MailServer(unknown=["nobody@example.com"]) as mail,
    ):
        system = await start(
            chat={"provider": "telegram", "token": TOKEN, "base_url": bot.url},
            email={"provider": "smtp", "url": f"smtp://{mail.host}:{mail.port}", "from": "a@example.com"},
        )
        ids = [
            await system.accept("chat", "404"),
            await system.accept("chat", "403"),
            await system.accept("email", "nobody@example.com"),
        ]
        await system.work()
        views = [await system.view(id_) for id_ in ids]
        assert [view["last_error"]["code"] for view in views] == [
            "NTF_PROVIDER_INVALID_RECIPIENT",
            "NTF_PROVIDER_BLOCKED",
            "NTF_PROVIDER_INVALID_RECIPIENT",
        ]
        assert all(view["final"] and view["attempts"] == 1 for view in views)


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("transient", "NTF_PROVIDER_TRANSIENT"),
        ("rate_limited:30", "NTF_PROVIDER_RATE_LIMITED"),
        ("invalid_recipient", "NTF_PROVIDER_INVALID_RECIPIENT"),
        ("payload", "NTF_PROVIDER_INVALID_PAYLOAD"),
        ("blocked", "NTF_PROVIDER_BLOCKED"),
        ("auth", "NTF_PROVIDER_AUTH"),
        ("disabled", "NTF_CHANNEL_DISABLED"),
        ("not_implemented", "NTF_PROVIDER_NOT_IMPLEMENTED"),
    ],
)
async def test_A13_c_every_class_has_its_code(start: Start, step: str, code: str) -> None:
    """Each class of outcome ends up in last_error.code as its NTF_ code, and in `explain`."""
    system = await start(sand={"provider": "sandbox", "script": [step], "backoff": HOURS})
    id_ = await system.accept("sand")
    await system.work()
    assert (await system.view(id_))["last_error"]["code"] == code
    assert code in "\n".join(await system.ring.explain(id_))


# --- A18 -----------------------------------------------------------------------------------------------------------


async def test_A18_the_history_is_told_after_the_end(start: Start) -> None:
    """Attempts and last_error survive the end, a later Sent too; next_attempt_at is null exactly at an end."""
    system = await start(
        sent={"provider": "sandbox", "script": ["transient", "rate_limited:1", "ok"], "backoff": HOURS},
        spent={"provider": "sandbox", "script": ["transient"], "backoff": HOURS, "max_attempts": 3},
        refused={"provider": "sandbox", "script": ["blocked"]},
        held={"provider": "sandbox", "script": ["timeout"], "in_doubt": "hold"},
        idle={"provider": "sandbox"},
    )
    ids = {name: await system.accept(name) for name in ("sent", "spent", "refused", "held")}
    ids["later"] = await system.accept("idle", send_at="2099-01-01T00:00:00Z")
    ids["cancelled"] = await system.accept("idle", send_at="2099-01-01T00:00:00Z")
    await system.ring.cancel(ids["cancelled"])
    for _ in range(3):
        await system.work()
        for id_ in ids.values():
            view = await system.view(id_)
            tries_on = not view["final"] and view["status"] != "in_doubt"
            assert (view["next_attempt_at"] is not None) == tries_on, view
        await system.pass_time(4 * 3600)
    views = {name: await system.view(id_) for name, id_ in ids.items()}
    told = {
        name: (view["status"], view["attempts"], view["last_error"] and view["last_error"]["code"])
        for name, view in views.items()
    }
    assert told == {
        "sent": ("sent", 3, "NTF_PROVIDER_RATE_LIMITED"),
        "spent": ("failed", 3, "NTF_PROVIDER_TRANSIENT"),
        "refused": ("failed", 1, "NTF_PROVIDER_BLOCKED"),
        "held": ("in_doubt", 1, "NTF_PROVIDER_TRANSIENT"),
        "later": ("pending", 0, None),
        "cancelled": ("cancelled", 0, None),
    }
    assert outcomes(views["sent"]) == ["transient", "rate_limited", "accepted"]
    assert [attempt["number"] for attempt in views["spent"]["attempt_list"]] == [1, 2, 3]


# --- A19 -----------------------------------------------------------------------------------------------------------


async def test_A19_a_a_changed_max_attempts_applies_to_waiting_rows(start: Start) -> None:
    """Lowered, a waiting row ends without a further call; raised, it gets the further calls."""
    system = await start(
        less={"provider": "sandbox", "script": ["transient"], "backoff": HOURS, "max_attempts": 4},
        more={
            "provider": "sandbox",
            "script": ["transient", "transient", "ok"],
            "backoff": HOURS,
            "max_attempts": 2,
        },
    )
    less, more = await system.accept("less"), await system.accept("more")
    await system.work()
    await system.ring.change_channel("less", {"max_attempts": 1})
    await system.ring.change_channel("more", {"max_attempts": 3})
    for _ in range(2):
        await system.pass_time()
        await system.work()
    ended, sent = await system.view(less), await system.view(more)
    assert (ended["status"], ended["final"], ended["attempts"]) == ("failed", True, 1)
    assert (ended["last_error"]["code"], len(ended["attempt_list"])) == ("NTF_PROVIDER_TRANSIENT", 1)
    assert [one["status"] for one in await system.dispatched(less)] == ["Failed"]
    assert (sent["status"], sent["attempts"]) == ("sent", 3)


async def test_A19_b_a_changed_backoff_applies_to_waiting_rows(start: Start) -> None:
    """The wait after the next failure is that of the backoff as it is then, changed while running or in the file."""
    system = await start(sand={"provider": "sandbox", "script": ["transient"], "backoff": HOURS})
    id_ = await system.accept("sand")
    await system.work()
    assert await system.wait(id_) == 3600
    await system.ring.change_channel("sand", {"backoff": {"base": "60s"}})
    await system.pass_time()
    await system.work()
    assert await system.wait(id_) == 60
    await system.ring.change_channel("sand", {"backoff": None})
    await system.reconfigure(sand={"backoff": {"kind": "fixed", "base": "5m", "jitter": 0}})
    await system.pass_time(60)
    await system.work()
    assert await system.wait(id_) == 300


async def test_A19_c_the_switch_is_followed_by_a_running_worker(
    start: Start, receiver: WebhookReceiver
) -> None:
    """Switched off by another process, a running worker calls no more; switched on again, it goes on."""
    system = await start(hook=webhook(backoff=AT_ONCE))
    async with system.working(system.ring):
        first = await system.accept("hook", f"{receiver.url}/1")
        await system.ended(first)
        await system.command("channels", "disable", "hook")
        second = await system.accept("hook", f"{receiver.url}/2")
        await system.counted("ringonce_channel_disabled_total", channel="hook", reason="disabled")
        assert (await system.view(second))["attempts"] == 0
        await system.command("channels", "enable", "hook")
        await system.ended(second)
    assert calls(receiver) == {str(first): 1, str(second): 1}


async def test_A19_d_the_provider_is_resolved_anew(start: Start, receiver: WebhookReceiver) -> None:
    """A waiting row goes out by the provider and with the credential that the channel has by then."""
    system = await start(hook={"provider": "sandbox", "script": ["transient"], "backoff": HOURS})
    id_ = await system.accept("hook", f"{receiver.url}/ada")
    await system.work()
    system.config["channels"]["hook"] = webhook(backoff=HOURS)
    await system.reconfigure()
    await system.pass_time()
    await system.work()
    view = await system.view(id_)
    assert (view["status"], view["attempts"]) == ("sent", 2)
    assert calls(receiver) == {str(id_): 1}
