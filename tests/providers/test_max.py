"""MAX: numbers of people and chats, the call, limits, what is refused."""

import json

import pytest

from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.provider import HttpAnswer, HttpRequest, InDoubt
from ringonce.providers.max import Max, MaxOptions
from ringonce.testing import check_provider
from tests.providers.samples import address, content, context, message

TOKEN = "f9LHodD0cOJ5a1nOMPJ4"


def bot(**options: str) -> Max:
    """Build a provider with this token."""
    return Max(MaxOptions(**{"token": TOKEN, **options}))


def call(to: str = "user:42", **said: str | None) -> HttpRequest:
    """Build the call."""
    return bot().request(message(content(**said)), address(to), context())


def test_kit() -> None:
    """It keeps what every provider has to keep."""
    check_provider("max", {"token": TOKEN}, address="user:42", bad_addresses=["+79161234567"])


def test_call() -> None:
    """Title and text are one plain message to the person or the chat; the token goes without Bearer."""
    request = call(title="Order 42", text="<b>on</b> its _way_")
    assert (request.method, request.url) == ("POST", "https://platform-api2.max.ru/messages?user_id=42")
    assert ("authorization", TOKEN) in request.headers
    assert json.loads(request.body) == {"text": "Order 42\n\n<b>on</b> its _way_"}
    assert call("chat:-7").url.endswith("/messages?chat_id=-7")


def test_own_server() -> None:
    """Another server is called where one is named."""
    request = bot(base_url="http://127.0.0.1:8081").request(message(), address("user:1"), context())
    assert request.url == "http://127.0.0.1:8081/messages?user_id=1"


@pytest.mark.parametrize("options", [{"token": ""}, {"token": "a\nb"}, {"base_url": "max.ru"}])
def test_bad_options(options: dict[str, str]) -> None:
    """A token or a URL that can not be one is refused at start-up, with the mend."""
    with pytest.raises(ConfigError) as error:
        bot(**options)
    assert error.value.field == next(iter(options))
    assert error.value.mend


def test_token_is_hidden() -> None:
    """Neither account nor repr shows the token."""
    assert TOKEN not in repr(bot().options) + repr(call()) + bot().account


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        ("42", "user:42"),
        (42, "user:42"),
        ("-7", "chat:-7"),
        ("chat:7", "chat:7"),
        (" user:042 ", "user:42"),
    ],
)
def test_numbers(value: object, canonical: str) -> None:
    """A bare number is a person's, a negative one a chat's, and a word before it says which."""
    assert bot().address(value) == canonical


@pytest.mark.parametrize("value", ["0", "user:-7", "user:", "team:7", "+79161234567", "٣٤٥", True, "1" * 19])
def test_no_number(value: object) -> None:
    """A phone number, nobody's number and other texts are refused with the mend."""
    with pytest.raises(InputError) as error:
        bot().address(value)
    assert error.value.mend


def test_limit() -> None:
    """4,000 UTF-16 code units of title and text together are carried, one more is refused."""
    bot().check(content(title="t" * 98, text="x" * 3_900))
    with pytest.raises(PayloadTooLarge):
        bot().check(content(title="t" * 99, text="x" * 3_900))


def test_own_words() -> None:
    """The code is kept as the provider's own word."""
    answer = HttpAnswer(403, {}, b'{"code": "chat.denied", "message": "error.dialog.suspended"}')
    assert Max.outcome(answer, context()).provider_code == "chat.denied"


def test_declarations() -> None:
    """Nothing folds a second message, so a doubt counts as sent."""
    assert Max.in_doubt is InDoubt.ASSUME_SENT
