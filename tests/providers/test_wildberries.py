"""Wildberries: answers to feedbacks and questions, their ids, what a 200 says, what is refused."""

import json

import pytest

from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.provider import (
    DAY,
    Content,
    Edits,
    Finding,
    HttpAnswer,
    HttpRequest,
    InDoubt,
    Outcome,
    OutcomeClass,
    Presence,
)
from ringonce.providers.wildberries import Wildberries, WildberriesOptions
from ringonce.testing import check_provider
from tests.providers.samples import address, content, context, message

FEEDBACK = "feedback:n5um6IUBQOOSTxXoo0gV"
QUESTION = "question:2ncBtX4B9I0UHoornoqG"


def seller(**options: str) -> Wildberries:
    """Build a provider."""
    return Wildberries(WildberriesOptions(**{"token": "hunter.22", **options}))


def call(to: str = FEEDBACK, said: Content | None = None, channel: Wildberries | None = None) -> HttpRequest:
    """Build the call."""
    return (channel or seller()).request(message(said), address(to), context())


def told(status: int, body: object = None, **headers: str) -> Outcome:
    """Read an answer."""
    raw = b"" if body is None else json.dumps(body).encode()
    return Wildberries.outcome(HttpAnswer(status, headers, raw), context())


def test_kit() -> None:
    """It keeps what every provider has to keep."""
    check_provider("wildberries", {"token": "hunter.22"}, address=FEEDBACK, bad_addresses=["n5um6"])


def test_feedback() -> None:
    """A feedback is answered by a POST with its id and the text."""
    request = call(said=content(text="Спасибо!"))
    assert (request.method, request.timeout) == ("POST", 15.0)
    assert request.url == "https://feedbacks-api.wildberries.ru/api/v1/feedbacks/answer"
    assert dict(request.headers)["authorization"] == "hunter.22"
    assert json.loads(request.body) == {"id": "n5um6IUBQOOSTxXoo0gV", "text": "Спасибо!"}


def test_a_published_answer_is_changed() -> None:
    """A feedback's published answer is replaced by PATCH, a question's as it was given; once within 60 days."""
    edit = seller().request(message(content(text="Да"), replaces=True), address(FEEDBACK), context())
    assert (edit.method, edit.url.rpartition(".ru")[2]) == ("PATCH", "/api/v1/feedbacks/answer")
    assert json.loads(edit.body) == {"id": "n5um6IUBQOOSTxXoo0gV", "text": "Да"}
    first, again = (
        seller().request(message(content(text="Да"), replaces=replaces), address(QUESTION), context())
        for replaces in (False, True)
    )
    assert first == again
    assert Wildberries.edits == Edits(1, 60 * DAY)


def test_question() -> None:
    """A question is answered by a PATCH that publishes it with the answer."""
    request = call(QUESTION, content(text="Да"), seller(base_url="http://127.0.0.1:1/"))
    assert (request.method, request.url) == ("PATCH", "http://127.0.0.1:1/api/v1/questions")
    assert json.loads(request.body) == {
        "id": "2ncBtX4B9I0UHoornoqG",
        "answer": {"text": "Да"},
        "state": "wbRu",
    }


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        (FEEDBACK, FEEDBACK),
        (f" {QUESTION} ", QUESTION),
        ({"feedback": "n5um6IUBQOOSTxXoo0gV"}, FEEDBACK),
        ({"question": "2ncBtX4B9I0UHoornoqG"}, QUESTION),
    ],
)
def test_address(value: object, canonical: str) -> None:
    """What is answered is named by its kind and id, as an object or as text."""
    assert seller().address(value) == canonical


@pytest.mark.parametrize(
    "value",
    [
        "",
        "feedback:",
        "feedback:a/b",
        "chat:1",
        "n5um6",
        {"feedback": 7},
        {"chat": "1"},
        {},
        {"feedback": "1", "question": "2"},
        None,
        7,
    ],
)
def test_no_address(value: object) -> None:
    """Another kind, an id with odd characters, or two at once are refused with the mend."""
    with pytest.raises(InputError) as error:
        seller().address(value)
    assert error.value.field == "address"
    assert error.value.mend


def test_limits() -> None:
    """An answer has 2 to 5,000 characters."""
    seller().check(content(text="ok"))
    seller().check(content(text="ж" * 5_000))
    with pytest.raises(PayloadTooLarge):
        seller().check(content(text="ж" * 5_001))
    for said in (
        content(text="a"),
        content(text=" a \n"),
        content(text="ok", title="t"),
        content(data={"a": 1}),
    ):
        with pytest.raises(InputError):
            seller().check(said)


def test_error_inside_success() -> None:
    """A 200 says in its body whether the answer was taken; without that flag it says nothing."""
    assert told(200, {"data": None, "error": False, "errorText": ""}).cls is OutcomeClass.ACCEPTED
    refused = told(200, {"data": None, "error": True, "errorText": "No"})
    assert (refused.cls, refused.provider_code) == (OutcomeClass.INVALID_PAYLOAD, "No")
    silent = told(200, {"data": None})
    assert (silent.cls, silent.ambiguous) == (OutcomeClass.TRANSIENT, True)


def test_conflict() -> None:
    """A conflict is not tried again, whatever its body says."""
    assert told(409).cls is OutcomeClass.INVALID_PAYLOAD


def test_server_errors_are_doubts() -> None:
    """After any 5xx the answer may stand there, and a repeat could use up the only change."""
    assert all(told(status).ambiguous for status in (500, 501, 502, 503, 504))


def test_wait() -> None:
    """The wait stands in a header of its own, and holds up the seller's whole channel."""
    outcome = told(429, {"title": "too many requests"}, **{"x-ratelimit-retry": "3"})
    assert (outcome.cls, outcome.retry_after_s, outcome.scope) == (OutcomeClass.RATE_LIMITED, 3, "channel")


@pytest.mark.parametrize(
    ("options", "field"),
    [({"token": ""}, "token"), ({"token": "a b"}, "token"), ({"base_url": "x"}, "base_url")],
)
def test_bad_options(options: dict[str, str], field: str) -> None:
    """What can not be right is refused at start-up by its name."""
    with pytest.raises(ConfigError) as error:
        seller(**options)
    assert error.value.field == field


def test_account() -> None:
    """The account is a digest of the token, which shows nowhere."""
    assert seller().account.startswith("wildberries:")
    assert seller().account != seller(token="other").account
    assert "hunter" not in repr(seller().options) + repr(call()) + seller().account


def test_declarations() -> None:
    """After a doubt it is read back what is published."""
    assert (Wildberries.in_doubt, Wildberries.looks_up) == (InDoubt.LOOKUP, True)


# --- reading back ---


def looked(status: int, body: object = None, text: str = "Спасибо!") -> Finding | Outcome:
    """Read what is published."""
    raw = b"" if body is None else json.dumps(body).encode()
    return Wildberries.looked(HttpAnswer(status, {}, raw), message(content(text=text)), context())


def shown(answer: object) -> dict[str, object]:
    """A reading."""
    return {"data": {"id": "f1", "answer": answer}, "error": False, "errorText": "", "additionalErrors": None}


@pytest.mark.parametrize(("to", "path"), [(FEEDBACK, "feedback"), (QUESTION, "question")])
def test_lookup(to: str, path: str) -> None:
    """What is published is read by its id, with the same token."""
    request = seller().lookup(message(), address(to), context())
    assert isinstance(request, HttpRequest)
    assert (request.method, request.body) == ("GET", b"")
    assert request.url == f"https://feedbacks-api.wildberries.ru/api/v1/{path}?id={to.partition(':')[2]}"
    assert dict(request.headers)["authorization"] == "hunter.22"


@pytest.mark.parametrize("state", ["none", "wbRu", "reviewRequired", "rejected"])
def test_our_text_stands_there(state: str) -> None:
    """Our text has arrived, whatever the moderation makes of it, and whatever stands around it."""
    for text in ("Спасибо!", " Спасибо!\r\n"):
        assert looked(200, shown({"text": text, "state": state})) == Finding(Presence.ARRIVED)


@pytest.mark.parametrize("answer", [None, {}, {"text": ""}, {"text": None}])
def test_nothing_stands_there(answer: object) -> None:
    """A whole reading without an answer says that there is none (yet)."""
    assert looked(200, shown(answer)) == Finding(Presence.ABSENT)


@pytest.mark.parametrize(
    "body",
    [
        shown({"text": "спасибо!"}),
        shown({"text": "Спасибо! Ждём вас"}),
        shown({"text": 7}),
        shown(7),
        {"data": {"id": "f1"}, "error": False},
        {"data": None, "error": False},
        {"data": [], "error": False},
    ],
)
def test_nobody_can_tell(body: object) -> None:
    """Another text, or a reading without its parts, tells nothing about our call."""
    finding = looked(200, body)
    assert isinstance(finding, Finding)
    assert finding.presence is Presence.UNSURE


@pytest.mark.parametrize(
    ("status", "body", "cls"),
    [
        (401, {"title": "unauthorized"}, OutcomeClass.AUTH),
        (429, {"title": "too many requests"}, OutcomeClass.RATE_LIMITED),
        (503, None, OutcomeClass.TRANSIENT),
        (422, {"data": None, "error": True, "errorText": "x"}, OutcomeClass.INVALID_PAYLOAD),
    ],
)
def test_a_reading_that_fails(status: int, body: object, cls: OutcomeClass) -> None:
    """A reading that fails is no finding, but an outcome like that of any call."""
    outcome = looked(status, body)
    assert isinstance(outcome, Outcome)
    assert outcome.cls is cls


def test_an_empty_success_shows_nothing() -> None:
    """A 204, or a body that is none, shows neither a feedback nor a question."""
    for raw in (b"", b"[1]", b"{"):
        finding = Wildberries.looked(HttpAnswer(204, {}, raw), message(), context())
        assert isinstance(finding, Finding)
        assert finding.presence is Presence.UNSURE
