"""Classification: matching order, conditions of rules, defaults of every family, totality."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.core import classify as classification
from ringonce.core.answer_defaults import DEFAULTS
from ringonce.core.answer_facts import Facts, find
from ringonce.core.classify import JSON_API, Rule, classify
from ringonce.model.exchange import Answer, Fault, HttpAnswer, MailAnswer, NoAnswer, ScriptedAnswer
from ringonce.model.outcome import CODE_OF, Code, Outcome, OutcomeClass

NOW = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z


def verdict(answer: Answer, *rules: Rule, push: bool = False) -> Outcome:
    """Classify by these rules and the defaults."""
    return classify(answer, rules, push=push, now=NOW)


def http(status: int, body: object = b"", **headers: str) -> HttpAnswer:
    """Build an HTTP answer; a body that is no bytes becomes JSON, ``_`` in a header's name a hyphen."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpAnswer(status, {name.replace("_", "-"): value for name, value in headers.items()}, raw)


def rule(**when: object) -> Rule:
    """Build a rule with these conditions."""
    return Rule("mine", OutcomeClass.BLOCKED, "test", **when)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "body", "expected", "ambiguous"),
    [
        (100, b"", "transient", False),
        (200, b"", "accepted", False),
        (299, b"", "accepted", False),
        (302, b"", "transient", False),
        (400, b"", "invalid_payload", False),
        (401, b"", "auth", False),
        (402, b"", "auth", False),
        (403, b"", "auth", False),
        (404, b"<html>", "auth", False),
        (404, b"", "auth", False),
        (404, b"{}", "invalid_recipient", False),
        (405, b"", "invalid_payload", False),
        (407, b"", "auth", False),
        (408, b"", "transient", False),
        (409, b"", "transient", False),
        (410, b"<html>", "transient", False),
        (410, b"{}", "invalid_recipient", False),
        (413, b"", "invalid_payload", False),
        (422, b"", "invalid_payload", False),
        (429, b"", "rate_limited", False),
        (499, b"", "transient", False),
        (500, b"", "transient", False),
        (501, b"", "not_implemented", False),
        (502, b"", "transient", False),
        (504, b"", "transient", True),
        (599, b"", "transient", False),
        (0, b"", "transient", True),
        (600, b"", "transient", True),
    ],
)
def test_http_families(status: int, body: bytes, expected: str, ambiguous: bool) -> None:
    """Without a rule the HTTP status family decides, and no address is dropped."""
    outcome = verdict(HttpAnswer(status, {}, body))
    assert (outcome.cls, outcome.ambiguous, outcome.drop_address) == (expected, ambiguous, False)


@pytest.mark.parametrize(
    ("code", "stage", "expected", "ambiguous"),
    [
        (250, "DATA_END", "accepted", False),
        (299, "DATA_END", "transient", True),
        (354, "DATA_END", "transient", True),
        (250, "RCPT", "transient", False),
        (451, "DATA_END", "transient", False),
        (421, "CONNECT", "transient", False),
        (554, "DATA_END", "invalid_payload", False),
        (421, "QUIT", "accepted", False),
    ],
)
def test_mail_families(code: int, stage: str, expected: str, ambiguous: bool) -> None:
    """Without a rule the first digit of the SMTP reply decides; only the end of data can be ambiguous."""
    outcome = verdict(MailAnswer(code, "", None, stage))
    assert (outcome.cls, outcome.ambiguous) == (expected, ambiguous)


@pytest.mark.parametrize(
    ("fault", "sent", "expected", "ambiguous"),
    [
        (Fault.CONNECT_REFUSED, False, "transient", False),
        (Fault.READ_TIMEOUT, True, "transient", True),
        (Fault.TLS_CERT_INVALID, False, "auth", False),
        (Fault.ADDRESS_REFUSED, False, "invalid_recipient", False),
    ],
)
def test_broken_exchanges(fault: Fault, sent: bool, expected: str, ambiguous: bool) -> None:
    """An exchange that broke is ambiguous exactly when something may have been sent."""
    outcome = verdict(NoAnswer(fault, sent=sent))
    assert (outcome.cls, outcome.ambiguous, outcome.drop_address) == (expected, ambiguous, False)
    assert outcome.provider_code == fault.value


def test_refused_network_is_named() -> None:
    """An endpoint in a private network is final for this recipient, and the code names why."""
    outcome = verdict(NoAnswer(Fault.ADDRESS_REFUSED, sent=False, detail="10.0.0.1 is private"))
    assert outcome.code is Code.INVALID_RECIPIENT
    assert outcome.text == "address_refused: 10.0.0.1 is private"


def test_unknown_script_step() -> None:
    """A script's word that nobody knows is not a success."""
    assert verdict(ScriptedAnswer("dance", "r")).cls is OutcomeClass.NOT_IMPLEMENTED


def test_first_rule_wins() -> None:
    """Rules are tried in order, before the defaults."""
    first, second = rule(status=500), Rule("other", OutcomeClass.AUTH, "test", status=500)
    assert verdict(http(500), first, second).rule == "mine"
    assert verdict(http(500), second, first).rule == "other"
    assert verdict(http(503), first, second).rule == "http.server_error"


@pytest.mark.parametrize(
    ("when", "answer", "holds"),
    [
        ({"status": 400}, http(400), True),
        ({"status": 400}, http(401), False),
        ({"status": (400, 401)}, http(401), True),
        ({"status": range(400, 500)}, http(500), False),
        ({"status": 400}, ScriptedAnswer("400", "r"), False),
        ({"stage": ("RCPT",)}, MailAnswer(550, "", None, "RCPT"), True),
        ({"stage": ("RCPT",)}, MailAnswer(550, "", None, "MAIL"), False),
        ({"enhanced": ("5.1.1",)}, MailAnswer(550, "", "5.1.1", "RCPT"), True),
        ({"enhanced": ("5.1.1",)}, MailAnswer(550, "", "5.1.10", "RCPT"), False),
        ({"enhanced": ("5.1",)}, MailAnswer(550, "", "5.1.10", "RCPT"), True),
        ({"enhanced": ("5.1.1",)}, MailAnswer(550, "5.1.1 unknown", None, "RCPT"), True),
        ({"enhanced": ("5.1.1",)}, MailAnswer(550, "unknown", None, "RCPT"), False),
        ({"json": {"a.b": 1}}, http(400, {"a": {"b": 1}}), True),
        ({"json": {"a.b": 1}}, http(400, {"a": {"b": True}}), False),
        ({"json": {"a.b": True}}, http(400, {"a": {"b": 1}}), False),
        ({"json": {"a": (1, "1")}}, http(400, {"a": "1"}), True),
        ({"json": {"a": 1, "b": 2}}, http(400, {"a": 1}), False),
        ({"json": {"a": 1}}, http(400, b"not json"), False),
        ({"text": "no .* user"}, http(400, b"there is NO such User"), True),
        ({"text": "no .* user"}, http(400, b"fine"), False),
        ({"text": "gone", "at": "why"}, http(400, {"why": "it is gone"}), True),
        ({"text": "gone", "at": "why"}, http(400, {"why": "no", "other": "gone"}), False),
        ({"text": "gone", "at": "why"}, http(400, {"other": "gone"}), False),
        ({"header": {"x-state": "^drop"}}, http(400, x_state="dropped"), True),
        ({"header": {"x-state": "^drop"}}, http(400), False),
        ({"form": ("page",)}, http(400, b" \xef\xbb\xbf<html>"), True),
        ({"form": ("page",)}, http(400, {}), False),
        ({"form": ("other",)}, http(400, b""), True),
        ({"form": ("json",)}, HttpAnswer(400, {}, b"{}", truncated=True), False),
        ({"step": "blocked"}, ScriptedAnswer("blocked:hard", "r"), True),
        ({"step": "blocked"}, ScriptedAnswer("ok", "r"), False),
        ({"re_address": "json:new"}, http(400, {"new": 7}), True),
        ({"re_address": "json:new"}, http(400, {}), False),
        ({"fault": (Fault.WRITE_RESET,)}, NoAnswer(Fault.WRITE_RESET, sent=True), True),
        ({"fault": (Fault.WRITE_RESET,)}, NoAnswer(Fault.READ_TIMEOUT, sent=True), False),
        (
            {"fault": (Fault.WRITE_RESET,), "stage": ("RCPT",)},
            NoAnswer(Fault.WRITE_RESET, True, "", "RCPT"),
            True,
        ),
        ({"sent": False}, NoAnswer(Fault.WRITE_RESET, sent=True), False),
        ({"fault": (Fault.WRITE_RESET,)}, http(400), False),
        ({}, http(400), True),
        ({}, NoAnswer(Fault.WRITE_RESET, sent=True), False),
    ],
)
def test_conditions(when: dict[str, object], answer: Answer, holds: bool) -> None:
    """A rule holds when all that it states holds; only rules about faults are asked about broken exchanges."""
    assert (verdict(answer, rule(**when)).rule == "mine") is holds


def test_extraction() -> None:
    """Code, wait and new address are read where the rule points: JSON, header or text; otherwise a default."""
    answer = http(429, {"e": [{"x": ""}, {"code": "SLOW"}], "moved": -7}, x_wait="9", retry_after="3")
    told = Rule(
        "t",
        OutcomeClass.RATE_LIMITED,
        "test",
        provider_code="json:e.*.code",
        retry_after=("json:nothing", "header:x-wait"),
        re_address="json:moved",
    )
    outcome = verdict(answer, told)
    assert (outcome.provider_code, outcome.retry_after_s, outcome.re_address) == ("SLOW", 9, "-7")
    missing = Rule("t", OutcomeClass.BLOCKED, "test", provider_code="text:no such (thing)")
    assert verdict(answer, missing).provider_code == "429"
    named = Rule("t", OutcomeClass.BLOCKED, "test", provider_code=r"text:(SL\w+)")
    assert verdict(answer, named).provider_code == "SLOW"


def test_message_id_of_accepted_only() -> None:
    """A message id is kept with a success, and a success carries no code."""
    told = Rule("t", OutcomeClass.ACCEPTED, "test", message_id="json:id")
    outcome = verdict(http(200, {"id": 42}), told)
    assert (outcome.message_id, outcome.code, outcome.provider_code) == ("42", None, None)
    assert verdict(http(200, {"id": True}), told).message_id is None


def test_retry_after_is_for_waiting() -> None:
    """Retry-After counts for what is tried again; on success and on a final refusal it is ignored."""
    for status, wait in ((429, 30), (503, 30), (302, 30), (200, None), (400, None), (401, None)):
        assert verdict(http(status, retry_after="30")).retry_after_s == wait


def test_longer_wait_wins() -> None:
    """Header and body disagree: the longer wait is kept."""
    assert verdict(http(429, {"retry_after": 5}, retry_after="30")).retry_after_s == 30
    assert verdict(http(429, {"retry_after": 64.2}, retry_after="30")).retry_after_s == 65


def test_push_token() -> None:
    """A dead address of a push provider has its own code; other codes stay."""
    gone = Rule("t", OutcomeClass.INVALID_RECIPIENT, "test", status=410, drop_address=True)
    assert verdict(http(410), gone, push=True).code is Code.PUSH_TOKEN_INVALID
    assert verdict(http(410), gone).code is Code.INVALID_RECIPIENT
    assert verdict(http(400), push=True).code is Code.INVALID_PAYLOAD


def test_code_override() -> None:
    """A rule may name the code; otherwise it follows from the class."""
    template = Rule("t", OutcomeClass.INVALID_PAYLOAD, "test", code=Code.TEMPLATE_INVALID)
    assert verdict(http(400), template).code is Code.TEMPLATE_INVALID


def test_scope_and_floor() -> None:
    """A refused credential reaches the channel unless said otherwise; a rate limit has its floor."""
    assert verdict(http(401)).scope == "channel"
    assert verdict(NoAnswer(Fault.TLS_CERT_INVALID, sent=False)).scope == "endpoint"
    limited = verdict(http(429))
    assert (limited.scope, limited.floor) == (None, "rate_limited")
    own = Rule("t", OutcomeClass.RATE_LIMITED, "test", scope="address", floor="slow")
    assert (verdict(http(429), own).scope, verdict(http(429), own).floor) == ("address", "slow")


def test_json_api() -> None:
    """2xx of a JSON API without its JSON is no success: a page was never the API, anything else may have been."""
    page = verdict(http(200, b"<html>log in</html>"), *JSON_API)
    assert (page.cls, page.ambiguous) == (OutcomeClass.TRANSIENT, False)
    for body in (b"", b'{"ok": tru', b"{}", b"ok"):
        other = verdict(http(200, body), *JSON_API)
        assert (other.cls, other.ambiguous) == (OutcomeClass.TRANSIENT, True)


def test_kept_text() -> None:
    """What is kept of an answer is short, clean, without addresses; nothing of an accepted body is kept."""
    failed = verdict(http(500, b"no mailbox bob@example.com \x00" + b"x y " * 500))
    assert failed.text.startswith("HTTP 500 no mailbox [address] x y")
    assert len(failed.text) == 500
    assert verdict(http(200, b"hello bob")).text == "HTTP 200"
    assert verdict(MailAnswer(550, "5.1.1 unknown", "5.1.1", "RCPT")).text == "550 5.1.1 unknown"
    assert verdict(MailAnswer(550, "unknown", "5.1.1", "RCPT")).provider_code == "550 5.1.1"
    assert verdict(NoAnswer(Fault.DNS_TIMEOUT, sent=False)).text == "dns_timeout"
    assert verdict(ScriptedAnswer("dance:slowly", "r")).text == "dance slowly"


def test_json_paths() -> None:
    """A path walks objects and lists; ``*`` is every element; what is not there is nothing."""
    document = {"a": [{"b": 1}, {"b": 2}], "c": {"x": {"b": 3}, "y": {"b": 4}}}
    assert list(find(document, "a.*.b")) == [1, 2]
    assert list(find(document, "c.*.b")) == [3, 4]
    assert list(find(document, "a.1.b")) == [2]
    for path in ("a.7.b", "a.x", "a.0.b.c", "z", f"a.{'9' * 5000}"):
        assert list(find(document, path)) == []


@pytest.mark.parametrize(
    "body", [b"[" * 60_000, b"9" * 5_000, b"\xff\xfe{", b'"\\ud800"', b'{"retry_after": "\\u0000"}']
)
def test_hostile_bodies(body: bytes) -> None:
    """Nesting, endless numbers, broken encodings and surrogates do not stop the retry path."""
    outcome = verdict(HttpAnswer(503, {}, body))
    assert outcome.cls is OutcomeClass.TRANSIENT
    assert "\0" not in outcome.text
    outcome.text.encode()


answers = st.one_of(
    st.builds(
        HttpAnswer,
        st.integers(0, 999),
        st.dictionaries(st.sampled_from(["retry-after", "date", "content-type"]), st.text()),
        st.binary(max_size=200)
        | st.recursive(st.none() | st.text(max_size=9), st.lists).map(lambda v: json.dumps(v).encode()),
        st.booleans(),
    ),
    st.builds(
        MailAnswer,
        st.integers(0, 999),
        st.text(),
        st.none() | st.text(),
        st.sampled_from(["RCPT", "DATA_END", "QUIT"]),
    ),
    st.builds(ScriptedAnswer, st.text(), st.text()),
    st.builds(NoAnswer, st.sampled_from(Fault), st.booleans(), st.text(), st.none() | st.just("RCPT")),
)


@given(answers, st.booleans())
def test_total(answer: Answer, push: bool) -> None:
    """Every answer has a meaning: a code unless accepted, a wait within a day, storable text, never a drop."""
    outcome = verdict(answer, push=push)
    assert (outcome.code is None) is (outcome.cls is OutcomeClass.ACCEPTED)
    assert outcome.retry_after_s is None or 0 <= outcome.retry_after_s <= 86_400
    assert not outcome.drop_address
    assert outcome.rule
    assert outcome.source
    for text in (outcome.text, outcome.provider_code or ""):
        assert len(text) <= 500
        assert "\0" not in text
        text.encode()


def test_rules_that_change_are_read_anew() -> None:
    """A list of rules may be changed between two answers, and each is judged by what it holds then."""
    rules = [rule(status=500)]
    for name in ("mine", "http.server_error"):
        assert classify(http(500), rules, push=False, now=NOW).rule == name
        rules.clear()


def test_however_many_rules_and_statuses_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept about rules and statuses has a bound, and no verdict depends on it."""
    monkeypatch.setattr(classification, "_MOST", 2)
    for _ in range(2):
        for status in (500, 501, 502, 503):
            assert verdict(http(status), rule(status=status)).rule == "mine"
    known = (rule(status=502),)
    expected = {
        500: "http.server_error",
        501: "http.not_implemented",
        502: "mine",
        429: "http.too_many_requests",
    }
    for status, name in (expected | expected).items():
        assert classify(http(status), known, push=False, now=NOW).rule == name


def test_every_class_has_a_code() -> None:
    """The table of codes covers every class, and the defaults end in a rule without conditions."""
    assert set(CODE_OF) == set(OutcomeClass)
    for kind, answer in (("http", http(0)), ("mail", MailAnswer(0)), ("script", ScriptedAnswer("", ""))):
        last = DEFAULTS[kind][-1]
        assert not last.conditions()
        assert last.concerns(kind, Facts(answer).status)
