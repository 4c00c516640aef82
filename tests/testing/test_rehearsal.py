"""``testing.ringonce``: the real engine, where only the vendors' answers are told by the test."""

import pytest

from ringonce import ConfigError, InputError, Status, testing
from ringonce.provider import HttpRequest, MailRequest


async def test_what_was_sent_is_seen() -> None:
    """A test sees whom was told what."""
    async with testing.ringonce(["email"]) as ringonce:
        await ringonce.notify(to={"email": "ada@example.com"}, content={"text": "It left."}, event_id="o-1")
        assert ringonce.sent == []
        await ringonce.drain()
        (sent,) = ringonce.sent
        assert (sent.channel, sent.address, sent.content.text) == ("email", "ada@example.com", "It left.")
        assert (sent.event_id, sent.attempt, sent.step) == ("o-1", 1, "ok")


async def test_answers_are_told_by_the_test() -> None:
    """Failures are retried at once by the real engine, and every call is on the record."""
    async with testing.ringonce(["email"]) as ringonce:
        ringonce.answer("transient", "rate_limited:0")
        accepted = await ringonce.notify(to={"email": "a@example.com"}, content={"text": "x"})
        await ringonce.drain()
        assert [call.step for call in ringonce.calls] == ["transient", "rate_limited:0", "ok"]
        assert [call.attempt for call in ringonce.sent] == [3]
        life = await ringonce.get(accepted.notifications[0].id)
        assert life.row.state.status is Status.SENT
    with pytest.raises(ConfigError, match="unknown step"):
        testing.ringonce().answer("explode")


async def test_the_channel_s_own_provider_checks() -> None:
    """With a table the real provider refuses what it would refuse in production, and its requests are seen."""
    channels = {
        "mail": {"provider": "smtp", "url": "smtp://127.0.0.1:1", "from": "app@example.com"},
        "hook": {"provider": "webhook", "secret": "whsec_" + "a" * 40 + "=="},
    }
    channels["hook"]["secret"] = "whsec_" + "YWFh" * 10
    async with testing.ringonce(channels) as ringonce:
        with pytest.raises(InputError):
            await ringonce.notify(to={"mail": "no address"}, content={"text": "x"})
        await ringonce.notify(
            to={"mail": "a@example.com", "hook": "https://example.com/"}, content={"text": "x"}
        )
        await ringonce.drain()
        kinds = {call.channel: type(call.request) for call in ringonce.sent}
        assert kinds == {"mail": MailRequest, "hook": HttpRequest}


async def test_a_doubt_follows_the_channel_s_policy() -> None:
    """A call without verdict is assumed sent where the channel says so, and is not called again."""
    async with testing.ringonce({"sms": {"in_doubt": "assume_sent"}}) as ringonce:
        ringonce.answer("timeout")
        await ringonce.notify(to={"sms": "1"}, content={"text": "x"})
        await ringonce.drain()
        assert [call.step for call in ringonce.calls] == ["timeout"]
        assert (await ringonce.report())[0]["assumed"] == 1


async def test_a_guard_is_asked() -> None:
    """Subject guards run as they do in production."""
    async with testing.ringonce(["email"]) as ringonce:

        @ringonce.guard("order")
        def wanted(_row: object) -> bool:
            return False

        await ringonce.notify(to={"email": "a"}, content={"text": "x"}, subject="order:1")
        await ringonce.drain()
        assert ringonce.calls == []
