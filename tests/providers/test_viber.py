"""Viber: subscribers' ids, the call, limits, what is refused."""

import json

import pytest

from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.provider import HttpAnswer, HttpRequest, InDoubt
from ringonce.providers.viber import Viber, ViberOptions
from ringonce.testing import check_provider
from tests.providers.samples import address, content, context, message

TOKEN = "445da6az1s345z78-dazcczb2542zv51a-e0vc5fva17480im9"
PERSON = "01234567890A="


def bot(**options: str) -> Viber:
    """Build a provider with this token."""
    return Viber(ViberOptions(**{"token": TOKEN, "sender": "Acme", **options}))


def call(provider: Viber | None = None, **said: str | None) -> HttpRequest:
    """Build the call."""
    return (provider or bot()).request(message(content(**said)), address(PERSON), context())


def test_kit() -> None:
    """It keeps what every provider has to keep."""
    check_provider(
        "viber", {"token": TOKEN, "sender": "Acme"}, address=PERSON, bad_addresses=["+380501234567"]
    )


def test_call() -> None:
    """Title and text are one plain message of the named sender; the reference travels with it, the token beside it."""
    request = call(title="Order 42", text="<b>on</b> its _way_")
    assert (request.method, request.url) == ("POST", "https://chatapi.viber.com/pa/send_message")
    assert ("x-viber-auth-token", TOKEN) in request.headers
    assert json.loads(request.body) == {
        "receiver": PERSON,
        "type": "text",
        "sender": {"name": "Acme"},
        "tracking_data": "018f2f6e-1111-7222-8333-444455556666",
        "text": "Order 42\n\n<b>on</b> its _way_",
    }


def test_picture_and_server() -> None:
    """A picture of the sender is sent where one is set, and another server is called where one is named."""
    request = call(bot(avatar="https://acme.example/a.png", base_url="http://127.0.0.1:8081/"))
    assert request.url == "http://127.0.0.1:8081/pa/send_message"
    assert json.loads(request.body)["sender"] == {"name": "Acme", "avatar": "https://acme.example/a.png"}


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"token": ""}, "token"),
        ({"token": "a b"}, "token"),
        ({"sender": " "}, "sender"),
        ({"sender": "x" * 29}, "sender"),
        ({"base_url": "viber"}, "base_url"),
    ],
)
def test_bad_options(options: dict[str, str], key: str) -> None:
    """A token, a sender or a URL that can not be one is refused at start-up, with the mend."""
    with pytest.raises(ConfigError) as error:
        bot(**options)
    assert error.value.field == key
    assert error.value.mend


def test_token_is_hidden() -> None:
    """Neither account nor repr shows the token, and two tokens are two accounts."""
    assert TOKEN not in repr(bot().options) + repr(call()) + bot().account
    assert bot().account != bot(token="another").account


@pytest.mark.parametrize("value", ["+380501234567", "380501234567", "Ann", "a b c d e f g", 380501234567])
def test_no_subscriber(value: object) -> None:
    """A phone number, a name and other texts are refused with the mend."""
    with pytest.raises(InputError) as error:
        bot().address(value)
    assert error.value.mend


def test_limit() -> None:
    """7,000 UTF-16 code units of title and text together are carried, one more is refused."""
    bot().check(content(title="t" * 98, text="x" * 6_900))
    for said in (content(title="t" * 99, text="x" * 6_900), content(text="😀" * 3_500 + "x")):
        with pytest.raises(PayloadTooLarge):
            bot().check(said)


def test_own_words() -> None:
    """The name of the status is kept as the provider's own word."""
    answer = HttpAnswer(200, {}, b'{"status": 6, "status_message": "receiverNotSubscribed"}')
    assert Viber.outcome(answer, context()).provider_code == "receiverNotSubscribed"


def test_declarations() -> None:
    """Nothing folds a second message, so a doubt counts as sent."""
    assert Viber.in_doubt is InDoubt.ASSUME_SENT
