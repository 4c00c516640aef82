"""Vonage: the form, the alphabet, the verdict inside a 200, parts, what is refused."""

import json
from typing import Any
from urllib.parse import parse_qsl

import pytest

from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.provider import Content, HttpAnswer, HttpRequest, InDoubt, Outcome, OutcomeClass
from ringonce.providers.vonage import Vonage, VonageOptions
from ringonce.testing import check_provider
from tests.providers.samples import ID, NOW, address, content, context, message

GOOD: dict[str, Any] = {"api_key": "abcd1234", "api_secret": "hunter22", "from": "Acme"}


def vonage(**options: Any) -> Vonage:
    """Build a provider."""
    known = {("from_" if name == "from" else name): value for name, value in {**GOOD, **options}.items()}
    return Vonage(VonageOptions(**known))


def call(said: Content | None = None, channel: Vonage | None = None, **more: Any) -> HttpRequest:
    """Build the call."""
    return (channel or vonage()).request(message(said, **more), address("+447700900123"), context())


def form(request: HttpRequest) -> dict[str, str]:
    """Read the form."""
    pairs = parse_qsl(request.body.decode(), strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def told(*entries: object, status: int = 200) -> Outcome:
    """Read an answer with these entries."""
    body = json.dumps({"message-count": str(len(entries)), "messages": entries}).encode()
    return Vonage.outcome(HttpAnswer(status, {}, body), context())


def test_kit() -> None:
    """It keeps what every provider has to keep."""
    check_provider("vonage", GOOD, address="+447700900123", bad_addresses=["07700900123"])


def test_call() -> None:
    """A form with credentials, sender, number without plus, text and our reference."""
    request = call(content(title="Order 42", text="On its way & soon"))
    assert (request.method, request.url, request.timeout) == ("POST", "https://rest.nexmo.com/sms/json", 15.0)
    assert dict(request.headers)["content-type"] == "application/x-www-form-urlencoded"
    assert form(request) == {
        "api_key": "abcd1234",
        "api_secret": "hunter22",
        "from": "Acme",
        "to": "447700900123",
        "text": "Order 42\nOn its way & soon",
        "type": "text",
        "client-ref": str(ID),
    }


@pytest.mark.parametrize(("text", "kind"), [("€ 5", "text"), ("ж", "unicode"), ("😀", "unicode")])
def test_alphabet(text: str, kind: str) -> None:
    """A text beyond the GSM alphabet says so, or it would come as question marks."""
    assert form(call(content(text=text)))["type"] == kind


def test_reports() -> None:
    """Reports are asked for where a URL is set."""
    asked = form(call(channel=vonage(status_callback="https://a.example/cb?x=1")))
    assert (asked["status-report-req"], asked["callback"]) == ("1", "https://a.example/cb?x=1")


@pytest.mark.parametrize(
    ("left", "millis"), [(60_000_000, "60000"), (0, "20000"), (-1, "20000"), (10**13, "604800000")]
)
def test_ttl(left: int, millis: str) -> None:
    """The time that is left is told in milliseconds, within what the vendor allows."""
    assert form(call(expires_at=NOW + left))["ttl"] == millis
    assert "ttl" not in form(call())


def test_sender_number() -> None:
    """A number as the sender is told without its plus."""
    assert form(call(channel=vonage(**{"from": "+447700900000"})))["from"] == "447700900000"


def test_accepted() -> None:
    """All parts taken: accepted, under the first part's id."""
    outcome = told({"status": "0", "message-id": "A"}, {"status": "0", "message-id": "B"})
    assert (outcome.cls, outcome.message_id) == (OutcomeClass.ACCEPTED, "A")


def test_a_word_that_looks_true() -> None:
    """Status is a text, and "0" is success; the number is understood, too."""
    assert told({"status": "0"}).cls is OutcomeClass.ACCEPTED
    assert told({"status": 0}).cls is OutcomeClass.ACCEPTED
    assert told({"status": 4}).cls is OutcomeClass.AUTH


def test_in_part() -> None:
    """Some parts taken and others refused is no verdict: sending again would show some of it twice."""
    outcome = told({"status": "0", "message-id": "A"}, {"status": "1"})
    assert (outcome.cls, outcome.ambiguous) == (OutcomeClass.TRANSIENT, True)


def test_refused_in_all_parts() -> None:
    """All parts refused is a refusal, by the first one's reason."""
    outcome = told({"status": "9", "error-text": "Partner quota"}, {"status": "1"})
    assert (outcome.cls, outcome.provider_code) == (OutcomeClass.AUTH, "9")


def test_unknown_status() -> None:
    """A number that nobody knows is a refusal that is tried again; a word is no verdict."""
    unknown = told({"status": "99"})
    assert (unknown.cls, unknown.ambiguous, unknown.drop_address) == (OutcomeClass.TRANSIENT, False, False)
    assert told({"status": "ok"}).ambiguous


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"7", b'{"messages":[]}', b'{"messages":{"a":1}}', b'{"messages":[[]]}', b"{"]
)
def test_no_verdict(body: bytes) -> None:
    """A 200 without a list of entries says nothing: it may have been sent."""
    outcome = Vonage.outcome(HttpAnswer(200, {}, body), context())
    assert (outcome.cls, outcome.ambiguous) == (OutcomeClass.TRANSIENT, True)


def test_statuses_of_http() -> None:
    """Where HTTP itself refuses, the body's status is not asked."""
    assert told({"status": "0"}, status=503).cls is OutcomeClass.TRANSIENT


def test_scopes() -> None:
    """The account's speed holds up its channel, a sender is told apart."""
    assert [told({"status": status}).scope for status in ("1", "10", "15", "4")] == [
        "channel",
        "channel",
        "sender",
        "channel",
    ]


def test_limits() -> None:
    """A text becomes as many short messages as are allowed; data, HTML alone and an invisible text are refused."""
    vonage(max_segments=2).check(content(text="x" * 306))
    with pytest.raises(PayloadTooLarge):
        vonage(max_segments=2).check(content(text="x" * 307))
    for said in (content(text=None, html="<p>"), content(data={"a": 1}), content(text=" ")):
        with pytest.raises(InputError):
            vonage().check(said)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"api_key": ""}, "api_key"),
        ({"api_secret": "a b"}, "api_secret"),
        ({"from": "a name too long"}, "from"),
        ({"from": ""}, "from"),
        ({"status_callback": "a.example"}, "status_callback"),
        ({"base_url": "a.example"}, "base_url"),
    ],
)
def test_bad_options(options: dict[str, str], field: str) -> None:
    """What can not be right is refused at start-up by its name, without the secret."""
    with pytest.raises(ConfigError) as error:
        vonage(**options)
    assert error.value.field == field
    assert "hunter22" not in str(error.value)


def test_account() -> None:
    """The account is a digest of the key with the sender; neither key nor secret shows."""
    assert vonage().account.endswith(":Acme")
    assert vonage().account != vonage(api_key="other").account
    assert "abcd1234" not in repr(vonage().options) + vonage().account
    assert "hunter22" not in repr(vonage().options) + repr(call())


def test_declarations() -> None:
    """Nothing folds a second message, so a doubt counts as sent."""
    assert Vonage.in_doubt is InDoubt.ASSUME_SENT
