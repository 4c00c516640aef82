"""B01 (its APNs half): what each answer means for the budget, the device's token and the people who are told."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ringonce.vendors.apns import ApnsApi
from ringonce.vendors.script import Fault, Plan, Rule, plan
from tests.requirements.conftest import Facts, Start, System, outcomes

DEVICE, OTHER = "0a" * 32, "0b" * 32
ALERTS = "ringonce_alerts_total"
Api = Callable[..., ApnsApi]


@pytest.fixture
def api() -> Iterator[Api]:
    """Start the vendor's server; ``faults`` is its plan in words."""
    started: list[ApnsApi] = []

    def begin(*faults: str, script: Plan | None = None, **options: Any) -> ApnsApi:
        server = ApnsApi(plan=script or plan(faults), **options)
        started.append(server.start())
        return server

    yield begin
    for server in started:
        server.stop()


def push(server: ApnsApi, **more: object) -> Facts:
    """A channel for it."""
    return {
        "provider": "apns",
        "key": server.key,
        "key_id": server.key_id,
        "team_id": server.team_id,
        "topic": server.topic,
        "base_url": server.url,
        "backoff": {"kind": "fixed", "base": "50s", "jitter": 0},
        **more,
    }


def sends(server: ApnsApi) -> Counter[str]:
    """Calls per device."""
    return Counter(entry.address for entry in server.ledger.entries)


async def drain(system: System, rounds: int) -> None:
    """Let time pass until all retries are made."""
    for _ in range(rounds):
        await system.work()
        await system.pass_time(86_400)


async def devices(system: System) -> list[str]:
    """The tokens that are in use."""
    return [address.value for address in await system.ring.addresses("ada", "push")]


@pytest.mark.parametrize(
    ("fault", "code", "word", "calls"),
    [
        ("503", "NTF_PROVIDER_TRANSIENT", "ServiceUnavailable", 4),
        ("429:retry_after=60", "NTF_PROVIDER_RATE_LIMITED", "TooManyRequests", 6),
        ("413", "NTF_PROVIDER_INVALID_PAYLOAD", "PayloadTooLarge", 1),
        ("403", "NTF_PROVIDER_AUTH", "InvalidProviderToken", 1),
        ("410", "NTF_PUSH_TOKEN_INVALID", "Unregistered", 1),
    ],
)
async def test_B01_n_each_class_has_its_budget(
    start: Start, api: Api, fault: str, code: str, word: str, calls: int
) -> None:
    """Unavailable is retried 3 times, a limit 5 times, everything else not at all; the service's reason is kept."""
    server = api(fault)
    system = await start(push=push(server, on_auth="fail"))
    id_ = await system.accept("push", DEVICE)
    await drain(system, 8)
    view = await system.view(id_)
    assert (view["status"], view["final"], view["attempts"]) == ("failed", True, calls)
    assert (view["last_error"]["code"], view["last_error"]["provider_code"]) == (code, word)
    assert sends(server) == {DEVICE: calls}
    assert system.metric(ALERTS, kind="auth") == (1 if code == "NTF_PROVIDER_AUTH" else 0)


async def test_B01_o_a_dead_device_is_cleared(start: Start, api: Api) -> None:
    """A token that died after it was registered is gone after one call, and the other devices go on."""
    server = api(dead=[DEVICE])
    system = await start(push=push(server))
    for token in (DEVICE, OTHER):
        await system.ring.register("ada", "push", token)
    server.died_at += 3_600_000  # by the clock of the service, which is never trusted beyond now
    for _ in range(2):
        await system.ring.notify(recipients=["ada"], content={"text": "hello"})
        await drain(system, 2)
    assert await devices(system) == [OTHER]
    assert sends(server) == {DEVICE: 1, OTHER: 2}


async def test_B01_p_a_device_that_registered_again_is_kept(start: Start, api: Api) -> None:
    """A proof from before the registration ends the notification, and leaves the device its token."""
    server = api(dead=[DEVICE])
    server.died_at -= 3_600_000
    system = await start(push=push(server))
    await system.ring.register("ada", "push", DEVICE)
    await system.ring.notify(recipients=["ada"], content={"text": "hello"})
    await system.work()
    assert await devices(system) == [DEVICE]
    assert sends(server) == {DEVICE: 1}


async def test_B01_q_an_expired_token_heals(start: Start, api: Api) -> None:
    """A token called expired is made anew and the call made again at once: no alert, no pause, no budget used."""
    expired = Fault("status", 403, body=b'{"reason":"ExpiredProviderToken"}')
    server = api(script=Plan((Rule(expired, numbers=frozenset({1})),)))
    system = await start(push=push(server, on_auth="fail", budgets={"transient": 0}))
    async with system.working(system.ring):
        id_ = await system.accept("push", DEVICE)
        await system.ended(id_)
    view = await system.view(id_)
    assert (view["status"], view["attempts"], outcomes(view)) == ("sent", 1, ["auth", "accepted"])
    assert system.metric(ALERTS) == 0


async def test_B01_r_too_many_tokens_pause(start: Start, api: Api) -> None:
    """A team whose tokens change too often is not retried: the channel pauses with one alert, and nothing counts."""
    too_many = Fault("status", 429, body=b'{"reason":"TooManyProviderTokenUpdates"}')
    server = api(script=Plan((Rule(too_many),)))
    system = await start(push=push(server))
    first = await system.accept("push", DEVICE)
    await system.work()
    second = await system.accept("push", OTHER)
    await system.work()
    assert [view["paused"] for view in await system.ring.channels()] == [True]
    assert [(await system.view(id_))["attempts"] for id_ in (first, second)] == [0, 0]
    assert (sends(server), system.metric(ALERTS, kind="auth")) == ({DEVICE: 1}, 1)


async def test_B01_s_a_repeat_replaces(start: Start, api: Api) -> None:
    """A call whose answer was lost is made again under the same id, so that the device shows one."""
    server = api("accept_then_close:first=1")
    system = await start(push=push(server))
    id_ = await system.accept("push", DEVICE)
    await drain(system, 2)
    assert (await system.view(id_))["status"] == "sent"
    assert list(server.shown[DEVICE]) == [str(id_)]
    assert server.ledger.accepted() == {(str(id_), DEVICE): 2}
