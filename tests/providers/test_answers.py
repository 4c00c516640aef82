"""Every known answer of every provider is classified right; the cases are data with their sources."""

import json
from pathlib import Path
from typing import Any

import pytest

from ringonce import registry
from ringonce.cli.classify import case_from_options, classify_case, classify_cases
from ringonce.errors import InputError
from ringonce.model.outcome import CODE_OF, Code, OutcomeClass

DATA = Path(__file__).parents[1] / "data"
CASES: list[dict[str, Any]] = [
    case for path in sorted(DATA.glob("answers*.json")) for case in json.loads(path.read_text("utf-8"))
]


def test_cases_are_complete() -> None:
    """No case is lost, and each is of a provider that exists."""
    assert len({case["id"] for case in CASES}) == len(CASES)
    assert all(registry.answering(case["provider"]) for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_answer(case: dict[str, Any]) -> None:
    """The answer means what the case says: class, drop, wait, doubt, scope, id, new address, code."""
    row = classify_case(case)
    assert "error" not in row
    assert row["id"] == case["id"]
    assert row["class"] == case["expected_class"]
    assert row["drop_address"] == case["expected_token_dropped"]
    assert row["retry_after_s"] == case["expected_retry_after_s"]
    assert row["ambiguous"] == case.get("ambiguous", False)
    assert row["re_address"] == case.get("replace_recipient_with")
    cls = OutcomeClass(case["expected_class"])
    code = CODE_OF[cls]
    if cls is OutcomeClass.INVALID_RECIPIENT and registry.provider(row_owner(case)).push:
        code = Code.PUSH_TOKEN_INVALID
    assert row["code"] == (code.value if code else None)
    if "message_id" in case:
        assert row["message_id"] == case["message_id"]
    if "auth_scope" in case:
        assert row["scope"] == case["auth_scope"]
    assert row["rule"]
    assert row["source"]


def row_owner(case: dict[str, Any]) -> str:
    """Name the provider whose answers these are."""
    cls = registry.answering(case["provider"])
    assert cls is not None
    return cls.name


def test_rows_in_order() -> None:
    """A list of cases becomes a list of rows in the same order, bad cases included."""
    rows = classify_cases(
        [{"id": "a", "provider": "webhook", "http_status": 200}, 7, {"id": "b", "provider": "no"}]
    )
    assert [row["id"] for row in rows] == ["a", None, "b"]
    assert [row["class"] for row in rows] == ["accepted", None, None]
    assert rows[2]["error"] == "unknown provider"
    assert {"id", "class", "code", "drop_address", "retry_after_s", "ambiguous"} <= rows[1].keys()


@pytest.mark.parametrize(
    "case",
    [
        {"provider": None},
        {"provider": "webhook"},
        {"provider": "smtp"},
        {"provider": "webhook", "http_status": "200"},
        {"provider": "webhook", "http_status": True},
        {"provider": "webhook", "http_status": -1},
        {"provider": "webhook", "http_status": 10_000},
        {"provider": "webhook", "http_status": 200, "headers": ["a"]},
        {"provider": "webhook", "event": "earthquake"},
        {"provider": "webhook", "event": 7},
        {"provider": "webhook", "http_status": 200, "now": "soon"},
        {"provider": "webhook", "http_status": 200, "now": 7.5},
        {"provider": "webhook", "http_status": 200, "token_registered_at_ms": "x"},
        {"provider": "smtp", "smtp_code": 250, "stage": 7},
        {"provider": "smtp", "body": {"refused": {}}},
        {"provider": "smtp", "body": {"refused": {"a@x": "no"}}},
        {"provider": "smtp", "body": {"refused": ["a@x"]}},
        {"provider": "smtp", "body": {"refused": {"a@x": ["x", "no"]}}},
    ],
)
def test_bad_case(case: dict[str, Any]) -> None:
    """A case that can not be read is a row with the reason, never an exception."""
    row = classify_case(case)
    assert row["class"] is None
    assert row["error"]


def test_mail_without_code() -> None:
    """The code of a reply is read from its text when the case does not name it."""
    assert classify_case({"provider": "smtp", "body": "550 5.1.1 unknown", "stage": "RCPT"})["drop_address"]
    assert classify_case({"provider": "smtp", "http_status": 250})["class"] == "accepted"
    assert classify_case({"provider": "smtp", "smtp_code": 550, "enhanced": "5.1.1", "body": "x"})[
        "drop_address"
    ]
    all_gone = {"refused": {"a@x": [550, "5.1.1 unknown"], "b@x": [551, "moved"]}, "accepted": []}
    assert classify_case({"provider": "smtp", "body": all_gone})["class"] == "invalid_recipient"


def test_options_become_a_case() -> None:
    """The command's options tell the same as a case in a file."""
    case = case_from_options(
        "webhook",
        status=503,
        headers=["Retry-After: Thu, 01 Jan 2026 00:05:00 GMT"],
        body="busy",
        now="2026-01-01T00:00:00Z",
        registered_at="2026-01-01T00:00:00+00:00",
    )
    assert case["token_registered_at_ms"] == 1_767_225_600_000
    assert classify_case(case)["retry_after_s"] == 300
    mail = case_from_options("smtp", status=550, body="5.1.1 unknown", stage="RCPT")
    assert classify_case(mail)["drop_address"]
    assert classify_case(case_from_options("smtp", event="read_timeout", stage="DATA_END"))["ambiguous"]


def test_statuses_of_short_messages() -> None:
    """A command_status is told by the option or in the body, up to 32 bits; a report is told by its text."""
    assert classify_case(case_from_options("smpp", status=0))["class"] == "accepted"
    assert classify_case(case_from_options("smpp", status=0x0401))["class"] == "transient"
    refused = classify_case(case_from_options("smpp", status=14, stage="bind_transceiver_resp"))
    assert (refused["class"], refused["scope"]) == ("auth", "channel")
    body = {"command_status": 0, "message_id": "0A1"}
    assert classify_case({"provider": "smpp", "body": body})["message_id"] == "a1"
    report = classify_case(case_from_options("smpp", body="id:1 stat:REJECTD err:0C1 text:"))
    assert (report["class"], report["provider_code"]) == ("blocked", "0C1")
    assert classify_case(case_from_options("smpp", event="read_timeout"))["ambiguous"]
    assert not classify_case(case_from_options("smpp", event="connect_refused"))["ambiguous"]
    late = {"provider": "smpp", "event": "reset_after_reply", "body": body}
    assert classify_case(late)["class"] == "accepted"


@pytest.mark.parametrize(
    ("told", "cls"),
    [("true", "accepted"), ("False", "transient"), (None, "transient"), ("not made", "invalid_recipient")],
)
def test_what_a_library_returned(told: str | None, cls: str) -> None:
    """Of a library the body is what it returned."""
    assert classify_case(case_from_options("apprise", body=told))["class"] == cls


@pytest.mark.parametrize(
    "case",
    [
        {"provider": "smpp"},
        {"provider": "smpp", "body": {}},
        {"provider": "smpp", "body": {"command_status": "88"}},
        {"provider": "smpp", "body": {"command_status": 2**32}},
        {"provider": "smpp", "body": {"command_status": 0, "command": 4}},
        {"provider": "smpp", "body": {"command_status": 0, "message_id": 7}},
        {"provider": "apprise", "body": "maybe"},
    ],
)
def test_what_says_nothing(case: dict[str, Any]) -> None:
    """A case without an answer is a row that says what is missing."""
    row = classify_case(case)
    assert row["class"] is None
    assert row["error"]


@pytest.mark.parametrize(
    "now",
    [1_767_225_540, "1767225540", 1_767_225_540_000, "2025-12-31T23:59:00", "2026-01-01T03:59:00+04:00"],
)
def test_forms_of_time(now: object) -> None:
    """A moment is ISO 8601, UTC unless it says otherwise, or a Unix time in seconds or milliseconds."""
    headers = {"retry-after": "Thu, 01 Jan 2026 00:00:00 GMT"}
    case = {"provider": "webhook", "http_status": 503, "headers": headers, "now": now}
    assert classify_case(case)["retry_after_s"] == 60


@pytest.mark.parametrize("header", ["Retry-After", ": 30"])
def test_bad_header_option(header: str) -> None:
    """A header without a name or a colon is refused."""
    with pytest.raises(InputError) as error:
        case_from_options("webhook", status=200, headers=[header])
    assert error.value.field == "header"


def test_bad_time_option() -> None:
    """A moment that is none is refused."""
    with pytest.raises(InputError):
        case_from_options("webhook", status=200, registered_at="yesterday")
