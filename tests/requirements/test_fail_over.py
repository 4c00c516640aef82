"""Several providers of one channel: after a definite refusal the next one is asked, after silence never."""

import asyncio

import pytest
import sqlalchemy as sa

from ringonce.errors import ConfigError, InputError
from ringonce.model.policy import MINUTE
from ringonce.ports import LanePause
from ringonce.providers.sandbox import Sandbox
from ringonce.store.schema import dispatch
from ringonce.vendors.script import plan
from ringonce.vendors.twilio import TwilioApi
from ringonce.vendors.vonage import VonageApi
from tests.requirements.conftest import Start, System, outcomes
from tests.requirements.test_doubt import AT_ONCE, SHORT, killed_after_acceptance

PHONE = "+447700900123"
TWILIO = {"account_sid": "AC1", "auth_token": "t", "from": "+15005550006"}
VONAGE = {"api_key": "k", "api_secret": "s", "from": "shop"}
SECOND = "sms~sandbox2"


@pytest.fixture(autouse=True)
def accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox's script stands for its credentials."""
    monkeypatch.setattr(Sandbox, "account", property(lambda box: str(box.options.script)))


def two(first: str, second: str = "ok", **more: object) -> dict[str, object]:
    """A channel with two providers that say what they are told to."""
    scripts = [{"provider": "sandbox", "script": script} for script in (first, second)]
    return {"providers": scripts, "backoff": AT_ONCE, **more}


async def asked(system: System, id_: object) -> list[str]:
    """Which provider each attempt asked."""
    return [attempt.account for attempt in (await system.ring.get(id_)).attempts]  # type: ignore[arg-type]


async def lane(system: System, id_: object) -> str:
    """Where it waits."""
    query = sa.select(dispatch.c.lane).where(dispatch.c.id == id_)
    return str(await system.sql(lambda c: c.execute(query).scalar_one()))


@pytest.mark.parametrize("refusal", ["transient", "auth", "disabled", "not_implemented"])
async def test_a_definite_refusal_goes_to_the_next(start: Start, refusal: str) -> None:
    """What speaks of the provider sends the same notification to the next one, without waiting for its backoff."""
    system = await start(sms=two(refusal, backoff={"kind": "fixed", "base": "1h", "jitter": 0}))
    id_ = await system.accept("sms")
    async with system.working(system.ring):
        await system.ended(id_)
    view = await system.view(id_)
    assert (view["status"], outcomes(view)) == ("sent", [refusal, "accepted"])
    assert await asked(system, id_) == [refusal, "ok"]
    assert {attempt["reference"] for attempt in view["attempt_list"]} == {str(id_)}


@pytest.mark.parametrize("verdict", ["invalid_recipient", "blocked", "payload"])
async def test_a_verdict_on_the_message_is_final(start: Start, verdict: str) -> None:
    """What speaks of the message or the address would be no other with another provider: nobody else is asked."""
    system = await start(sms=two(verdict))
    id_ = await system.accept("sms")
    async with system.working(system.ring):
        await system.ended(id_)
    view = await system.view(id_)
    assert (view["status"], len(view["attempt_list"])) == ("failed", 1)


@pytest.mark.parametrize("policy", ["resend", "assume_sent", "hold"])
async def test_silence_never_goes_to_another(start: Start, policy: str) -> None:
    """Without a verdict the notification stays with the provider that was asked, whatever is paused meanwhile."""
    system = await start(sms=two("timeout", in_doubt=policy))
    id_ = await system.accept("sms")
    await system.ring.store.pause([LanePause(SECOND, "auth", None)])
    async with system.working(system.ring):
        await system.called(id_)
        if policy == "resend":
            await system.ended(id_)
    assert set(await asked(system, id_)) == {"timeout"}


async def test_a_later_refusal_does_not_lift_a_doubt(start: Start) -> None:
    """While one call has no verdict, the refusals that follow it lead to no other provider either."""
    system = await start(sms=two("timeout,transient,transient,ok", in_doubt="resend"))
    id_ = await system.accept("sms")
    async with system.working(system.ring):
        await system.ended(id_)
    assert outcomes(await system.view(id_)) == ["unknown", "transient", "transient", "accepted"]
    assert len(set(await asked(system, id_))) == 1


async def test_a_doubt_stays_with_the_second(start: Start) -> None:
    """A doubt about a call to the second provider is resent to the second, though the first is there again."""
    system = await start(sms=two("transient,ok", "ok,timeout,ok", in_doubt="resend"))
    id_ = await system.accept("sms")
    async with system.working(system.ring):
        await system.ended(id_)
    assert outcomes(await system.view(id_)) == ["transient", "unknown", "accepted"]
    assert await asked(system, id_) == ["transient,ok", "ok,timeout,ok", "ok,timeout,ok"]


async def test_a_doubt_is_resent_to_the_one_that_was_asked(start: Start) -> None:
    """Under resend a doubt waits in the lane of its provider, also while that one is paused."""
    system = await start(
        sms=two("timeout", in_doubt="resend", backoff={"kind": "fixed", "base": "1h", "jitter": 0})
    )
    id_ = await system.accept("sms")
    await system.work()
    assert await lane(system, id_) == "sms"
    await system.ring.store.pause([LanePause("sms", "auth", None)])
    assert await system.ring.store.move("sms", SECOND) == 0
    await system.pass_time()
    assert await system.ring.store.move("sms", SECOND) == 0
    assert await lane(system, id_) == "sms"


async def test_after_the_last_it_waits_and_begins_anew(start: Start) -> None:
    """When all have refused, it waits as its policy says and then asks the first again, within its budget."""
    system = await start(sms=two("transient", "rate_limited", max_attempts=4))
    id_ = await system.accept("sms")
    async with system.working(system.ring):
        await system.ended(id_)
    view = await system.view(id_)
    assert (view["status"], outcomes(view)) == ("failed", ["transient", "rate_limited"] * 2)
    assert await asked(system, id_) == ["transient", "rate_limited"] * 2


async def test_what_waits_for_a_paused_one_moves_on(start: Start) -> None:
    """While the first is paused, new notifications go to the second; when it works again, to the first."""
    system = await start(sms=two("ok", "delay:0"))
    await system.ring.store.pause([LanePause("sms", "auth", (await system.ring.store.now()) + 60 * MINUTE)])
    moved = await system.accept("sms")
    async with system.working(system.ring):
        await system.ended(moved)
        assert await asked(system, moved) == ["delay:0"]
        await system.ring.enable("sms")
        direct = await system.accept("sms")
        await system.ended(direct)
    assert await asked(system, direct) == ["ok"]


async def test_all_paused_waits_and_drain_ends(start: Start) -> None:
    """When all providers are stopped by their credentials it waits, and says so."""
    system = await start(sms=two("auth", "auth"))
    id_ = await system.accept("sms")
    async with asyncio.timeout(60):
        drained = await system.ring.run_worker(drain=True)
    assert drained is not None
    assert [(item.channel, item.movable, item.paused) for item in drained.left] == [("sms", 0, 1)]
    assert not (await system.view(id_))["final"]
    (view,) = await system.ring.channels()
    assert [(one["name"], one["paused"]) for one in view["providers"]] == [("sms", True), (SECOND, True)]  # type: ignore[attr-defined]
    assert view["paused"]


async def test_crash_after_the_mark_stays_with_its_provider(start: Start) -> None:
    """SIGKILL while the second provider has accepted and not answered: the doubt is the second's, the first is idle."""
    with (
        TwilioApi("AC1", "t", plan=plan(["503"])) as first,
        VonageApi("k", "s", plan=plan(["accept_then_hang:first=1"])) as second,
    ):
        system = await start(
            sms={
                "providers": [
                    {"provider": "twilio", **TWILIO, "base_url": first.url},
                    {"provider": "vonage", **VONAGE, "base_url": second.url},
                ],
                "backoff": {"kind": "fixed", "base": "1h", "jitter": 0},
                **SHORT,
            }
        )
        id_ = await system.accept("sms", PHONE)
        async with killed_after_acceptance(system, second):
            pass
        async with system.working(system.ring):
            await system.ended(id_)
        view = await system.view(id_)
        assert (view["status"], view["assumed"], outcomes(view)) == ("sent", True, ["transient", "unknown"])
        assert (await asked(system, id_))[1].startswith("vonage")
        assert len(first.ledger.entries) == 1
        assert len(second.ledger.accepted()) == 1
        told = await system.command("explain", str(id_))
        assert "attempt 1 at twilio" in told
        assert "attempt 2 at vonage" in told


async def test_what_lies_with_a_provider_that_is_gone(start: Start) -> None:
    """When a provider is taken out of its channel, what waited for it goes to the first, but for a doubt about it."""
    later = {"kind": "fixed", "base": "1h", "jitter": 0}
    system = await start(sms=two("transient,ok", "ok,timeout,ok", in_doubt="resend", backoff=later))
    doubt = await system.accept("sms")
    await system.work()
    await system.pass_time()
    certain = await system.accept("sms")
    assert await system.ring.store.move("sms", SECOND) == 1
    system.config["channels"]["sms"] = {"provider": "sandbox"}
    await system.reconfigure()
    async with system.working(system.ring):
        await system.ended(certain)
    assert (await system.view(certain))["status"] == "sent"
    assert await lane(system, doubt) == SECOND
    assert await asked(system, doubt) == ["transient,ok", "ok,timeout,ok"]


async def test_address_forms_must_be_the_same(start: Start) -> None:
    """Providers that take other addresses, or do something else in doubt, are refused at start-up by their place."""
    for others, why in (
        ({"provider": "slack"}, "takes other addresses"),
        ({"provider": "sandbox", "script": "no such step"}, r"providers\[1\]\.script"),
        ({"script": "ok"}, r"providers\[1\]\.provider"),
        ({"provider": "sandbox", "max_attempts": 3}, "belongs to the channel"),
    ):
        with pytest.raises(ConfigError, match=why):
            await start(sms={"providers": [{"provider": "sandbox"}, others]})


async def test_a_way_is_no_channel(start: Start) -> None:
    """The name of another provider can not be sent to."""
    system = await start(sms=two("ok"))
    with pytest.raises(InputError):
        await system.accept(SECOND)
