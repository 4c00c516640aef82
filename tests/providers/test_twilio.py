"""Twilio: the form, who sends, reports, limits, what is refused."""

import base64
import json
from typing import Any
from urllib.parse import parse_qsl

import pytest

from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.provider import Content, HttpAnswer, HttpRequest, InDoubt, OutcomeClass
from ringonce.providers.twilio import Twilio, TwilioOptions
from ringonce.testing import check_provider
from tests.providers.samples import ID, NOW, address, content, context, message

SID = "AC" + "0" * 32
GOOD: dict[str, Any] = {"account_sid": SID, "auth_token": "hunter22", "from": "+15005550006"}


def twilio(**options: Any) -> Twilio:
    """Build a provider."""
    known = {("from_" if name == "from" else name): value for name, value in {**GOOD, **options}.items()}
    return Twilio(TwilioOptions(**known))


def call(said: Content | None = None, channel: Twilio | None = None, **more: Any) -> HttpRequest:
    """Build the call."""
    return (channel or twilio()).request(message(said, **more), address("+447700900123"), context())


def form(request: HttpRequest) -> dict[str, str]:
    """Read the form."""
    pairs = parse_qsl(request.body.decode(), strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def test_kit() -> None:
    """It keeps what every provider has to keep."""
    check_provider("twilio", GOOD, address="+447700900123", bad_addresses=["07700900123"])


def test_call() -> None:
    """A form with To, From and Body goes to the account's Messages, with basic authentication."""
    request = call(content(title="Order 42", text="On its way & soon 😀"))
    assert (request.method, request.timeout, request.http2) == ("POST", 15.0, False)
    assert request.url == f"https://api.twilio.com/2010-04-01/Accounts/{SID}/Messages.json"
    headers = dict(request.headers)
    assert headers["content-type"] == "application/x-www-form-urlencoded"
    assert base64.b64decode(headers["authorization"].removeprefix("Basic ")).decode() == f"{SID}:hunter22"
    assert form(request) == {
        "To": "+447700900123",
        "From": "+15005550006",
        "Body": "Order 42\nOn its way & soon 😀",
    }


def test_messaging_service() -> None:
    """A Messaging Service sends in the place of a number."""
    told = form(call(channel=twilio(**{"from": "", "messaging_service": "MG1"})))
    assert told["MessagingServiceSid"] == "MG1"
    assert "From" not in told


def test_api_key() -> None:
    """An API key authenticates in the account's place, and the path stays the account's."""
    request = call(channel=twilio(api_key="SK" + "1" * 32))
    known = base64.b64decode(dict(request.headers)["authorization"].removeprefix("Basic ")).decode()
    assert known == "SK" + "1" * 32 + ":hunter22"
    assert f"/Accounts/{SID}/" in request.url


@pytest.mark.parametrize(
    ("url", "joined"),
    [
        ("https://a.example/cb", f"https://a.example/cb?reference={ID}"),
        ("https://a/cb?x=1", f"https://a/cb?x=1&reference={ID}"),
    ],
)
def test_status_callback(url: str, joined: str) -> None:
    """Reports come to the URL that is set, with our reference: also those of a call that had no answer."""
    assert form(call(channel=twilio(status_callback=url)))["StatusCallback"] == joined


@pytest.mark.parametrize(
    ("left", "seconds"), [(60_000_000, "60"), (0, "1"), (-5_000_000, "1"), (10**12, "36000")]
)
def test_validity(left: int, seconds: str) -> None:
    """What expires is not delivered later: the time that is left is told, within what the vendor allows."""
    assert form(call(expires_at=NOW + left))["ValidityPeriod"] == seconds
    assert "ValidityPeriod" not in form(call())


def test_limits() -> None:
    """1,600 UTF-16 code units of title and text are carried, in as many short messages as are allowed."""
    twilio().check(content(title="t" * 99, text="x" * 1_500))
    for said in (content(text="😀" * 801), content(title="t" * 100, text="x" * 1_500)):
        with pytest.raises(PayloadTooLarge):
            twilio().check(said)
    twilio(max_segments=2).check(content(text="x" * 306))
    with pytest.raises(PayloadTooLarge):
        twilio(max_segments=2).check(content(text="x" * 307))


def test_refused_content() -> None:
    """HTML alone, data and an invisible text are refused."""
    for said in (content(text=None, html="<p>"), content(data={"a": 1}), content(text=" ")):
        with pytest.raises(InputError):
            twilio().check(said)


def test_address() -> None:
    """A number is kept as E.164 writes it."""
    assert twilio().address("+44 7700 900-123") == "+447700900123"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"account_sid": "../x"}, "account_sid"),
        ({"auth_token": ""}, "auth_token"),
        ({"auth_token": "a b"}, "auth_token"),
        ({"api_key": "AC1"}, "api_key"),
        ({"from": ""}, "from"),
        ({"messaging_service": "MG1"}, "from"),
        ({"status_callback": "a.example"}, "status_callback"),
        ({"base_url": "a.example"}, "base_url"),
    ],
)
def test_bad_options(options: dict[str, str], field: str) -> None:
    """What can not be right is refused at start-up by its name, without the token."""
    with pytest.raises(ConfigError) as error:
        twilio(**options)
    assert error.value.field == field
    assert "hunter22" not in str(error.value)


def test_account() -> None:
    """The account is the SID with the sender; the token shows nowhere."""
    assert twilio().account == f"twilio:{SID}:+15005550006"
    assert twilio(**{"from": "", "messaging_service": "MG1"}).account == f"twilio:{SID}:MG1"
    assert "hunter22" not in repr(twilio().options) + repr(call())


def report(body: object) -> OutcomeClass:
    """Read a report in its own words."""
    return Twilio.outcome(HttpAnswer(0, {}, json.dumps(body).encode()), context()).cls


def test_report() -> None:
    """A report says the same with other names; a warning about a quota on a message that is under way is none."""
    assert report({"MessageStatus": "undelivered", "ErrorCode": "30005"}) is OutcomeClass.INVALID_RECIPIENT
    assert report({"MessageStatus": "undelivered", "ErrorCode": 30005}) is OutcomeClass.INVALID_RECIPIENT
    assert report({"MessageStatus": "sent", "ErrorCode": "30025"}) is OutcomeClass.ACCEPTED
    assert report({"MessageStatus": "failed", "ErrorCode": "99999"}) is OutcomeClass.TRANSIENT


@pytest.mark.parametrize(
    "body", [{}, [], "sent", {"MessageStatus": {}, "ErrorCode": []}, {"MessageStatus": "\ud800"}]
)
def test_odd_report(body: object) -> None:
    """What is no report says nothing, and breaks nothing."""
    outcome = Twilio.outcome(HttpAnswer(0, {}, json.dumps(body).encode()), context())
    assert (outcome.cls, outcome.ambiguous) == (OutcomeClass.TRANSIENT, True)
    assert Twilio.outcome(HttpAnswer(0, {}, b"{"), context()).ambiguous


def test_own_word() -> None:
    """The vendor's number is kept; an id is taken for one only if it looks like one."""
    body = {"code": 21610, "message": "x", "status": 400}
    assert Twilio.outcome(HttpAnswer(400, {}, json.dumps(body).encode()), context()).provider_code == "21610"
    odd = Twilio.outcome(HttpAnswer(201, {}, b'{"sid":"queued"}'), context())
    assert (odd.cls, odd.ambiguous) == (OutcomeClass.TRANSIENT, True)


def test_scopes() -> None:
    """A country or a sender that is refused is told apart from the account; a carrier's limit is not the channel's."""

    def scope(code: int) -> str | None:
        return Twilio.outcome(HttpAnswer(400, {}, json.dumps({"code": code}).encode()), context()).scope

    assert [scope(code) for code in (21408, 21606, 20003, 20429, 30023)] == [
        "country",
        "sender",
        "channel",
        "channel",
        None,
    ]


def test_declarations() -> None:
    """Nothing folds a second message, so a doubt counts as sent."""
    assert Twilio.in_doubt is InDoubt.ASSUME_SENT
