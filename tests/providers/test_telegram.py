"""Telegram: chat ids, the call, limits, what is refused."""

import json

import pytest

from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.provider import HttpAnswer, HttpRequest, InDoubt
from ringonce.providers.telegram import Telegram, TelegramOptions
from tests.providers.samples import address, content, context, message

TOKEN = "123456:ABC-DEF_ghi"


def bot(**options: str) -> Telegram:
    """Build a provider with this token."""
    return Telegram(TelegramOptions(**{"token": TOKEN, **options}))


def call(to: str = "4815162342", **said: str | None) -> HttpRequest:
    """Build the call."""
    return bot().request(message(content(**said)), address(to), context())


def test_call() -> None:
    """Title and text are one plain message to the chat's number or the channel's name."""
    request = call(title="Order 42", text="<b>on</b> its _way_ 😀")
    assert (request.method, request.timeout, request.guarded) == ("POST", 15.0, False)
    assert request.url == f"https://api.telegram.org/bot{TOKEN}/sendMessage"
    assert json.loads(request.body) == {"chat_id": 4815162342, "text": "Order 42\n\n<b>on</b> its _way_ 😀"}
    assert json.loads(call("@news").body)["chat_id"] == "@news"
    assert json.loads(call(title="only", text=None).body)["text"] == "only"


def test_own_server() -> None:
    """A Bot API server of one's own is named by its URL."""
    request = bot(base_url="http://127.0.0.1:8081/").request(message(), address("1"), context())
    assert request.url == f"http://127.0.0.1:8081/bot{TOKEN}/sendMessage"


@pytest.mark.parametrize("token", ["", "12 34:abc", "../getMe", "123:abc\n", "x" * 201])
def test_bad_token(token: str) -> None:
    """What can not be a token is refused at start-up, and not repeated."""
    with pytest.raises(ConfigError) as error:
        bot(token=token)
    assert error.value.field == "token"
    assert not token or token not in str(error.value)


@pytest.mark.parametrize(
    "url",
    ["", "api.telegram.org", "ftp://x", "http://", "http://x:y", "http://x?a=1", "http://x#a", "http://x/ y"],
)
def test_bad_url(url: str) -> None:
    """The base is an http or https URL."""
    with pytest.raises(ConfigError) as error:
        bot(base_url=url)
    assert error.value.field == "base_url"


def test_account() -> None:
    """The account is the bot's public number, or a digest; the token shows nowhere."""
    assert bot().account == "telegram:123456"
    assert bot(token="SECRET").account.startswith("telegram:")
    assert "SECRET" not in bot(token="SECRET").account
    assert "ABC-DEF" not in repr(bot().options) + repr(call())


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        ("4815162342", "4815162342"),
        (4815162342, "4815162342"),
        (-1001234567890, "-1001234567890"),
        (" -1001234567890 ", "-1001234567890"),
        ("0042", "42"),
        ("@news_channel", "@news_channel"),
    ],
)
def test_chat(value: object, canonical: str) -> None:
    """A chat is its number, as text or as number, or a public name."""
    assert bot().address(value) == canonical


@pytest.mark.parametrize(
    "value",
    [
        "",
        "0",
        0,
        True,
        None,
        1.5,
        "+79161234567",
        "news",
        "@ab",
        "@1abc",
        "@na me",
        "4815162342\n1",
        "٣٤٥",
        "9" * 17,
        "1_0",
    ],
)
def test_no_chat(value: object) -> None:
    """A phone number, a bare name and other texts are refused with the mend."""
    with pytest.raises(InputError) as error:
        bot().address(value)
    assert error.value.field == "address"
    assert error.value.mend


def test_limit_in_utf16() -> None:
    """4,096 UTF-16 code units of title and text together are carried, one more is refused and nothing is cut."""
    bot().check(content(text="😀" * 2_048))
    bot().check(content(title="t" * 94, text="x" * 4_000))
    for said in (content(text="😀" * 2_048 + "x"), content(title="t" * 95, text="x" * 4_000)):
        with pytest.raises(PayloadTooLarge) as error:
            bot().check(said)
        assert error.value.field == "content.text"
    with pytest.raises(PayloadTooLarge):
        call(text="x" * 4_097)


def test_refused_content() -> None:
    """HTML alone, data and an invisible text are refused; HTML beside a text is another form of it."""
    bot().check(content(text="x", html="<p>x</p>"))
    for said, field in (
        (content(text=None, html="<p>x</p>"), "content.html"),
        (content(data={"a": 1}), "content.data"),
        (content(text=" \n "), "content.text"),
    ):
        with pytest.raises(InputError) as error:
            bot().check(said)
        assert error.value.field == field
        assert error.value.mend


def test_own_words() -> None:
    """The description is kept as the provider's own word; without one it is the status."""
    for code in (400, 401):
        told = {"ok": False, "error_code": code, "description": "Something: else"}
        answer = HttpAnswer(code, {}, json.dumps(told).encode())
        assert Telegram.outcome(answer, context()).provider_code == "Something: else"
    assert Telegram.outcome(HttpAnswer(502, {}, b"<html>"), context()).provider_code == "502"


def test_declarations() -> None:
    """Nothing folds a second message, so a doubt counts as sent."""
    assert Telegram.in_doubt is InDoubt.ASSUME_SENT
