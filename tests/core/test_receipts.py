"""Which attempt a report is about, references that are read back, and callbacks read with care."""

from uuid import UUID

import pytest

from ringonce.core import callbacks
from ringonce.core.journal import client_reference, message_key, read_reference, receipt_key
from ringonce.core.receipts import attempt_of
from ringonce.model.receipt import Callback
from ringonce.ports import AttemptRow

ID = UUID("018f2f6e-1111-7222-8333-444455556666")


def row(
    number: int, outcome: str = "accepted", message_id: str | None = None, revision: int = 1
) -> AttemptRow:
    """A stored attempt."""
    return AttemptRow(number, revision, 1, "", 0, 0, outcome, message_id=message_id)


@pytest.mark.parametrize(
    ("attempts", "facts", "number"),
    [
        ([], {}, None),
        ([], {"running": 1}, 1),
        ([row(1)], {}, 1),
        ([row(1, revision=2)], {}, None),
        ([row(1, message_id="a"), row(2, message_id="b")], {"message_id": "a"}, 1),
        ([row(1, "unknown"), row(2, message_id="b")], {"message_id": "c"}, 1),
        ([row(1, "unknown"), row(2, message_id="b")], {"message_id": "b"}, 2),
        ([row(1, "unknown"), row(3, "unknown"), row(2)], {}, 3),
        ([row(1, "unknown")], {"running": 2}, 1),
        ([row(1, "transient")], {"running": 2}, 2),
        ([row(1), row(2, "transient")], {"rests_on": 1}, 1),
        ([row(1, message_id="part-1")], {"message_id": "part-2"}, 1),
        ([row(1, "transient"), row(2, "transient")], {"rests_on": 9}, 2),
    ],
)
def test_a_report_is_about_one_attempt(
    attempts: list[AttemptRow], facts: dict[str, object], number: int | None
) -> None:
    """By the provider's id, else the one in doubt, the one under way, the one it rests on, the latest."""
    assert attempt_of(attempts, **{"revision": 1, "message_id": None, **facts}) == number


@pytest.mark.parametrize("revision", [1, 2, 17])
def test_a_reference_is_read_back(revision: int) -> None:
    """What was told to the provider leads back to notification and revision."""
    assert read_reference(client_reference(ID, revision)) == (ID, revision)


@pytest.mark.parametrize(
    "text", [None, "", "x", f"{ID}.r0", f"{ID}.r", f"{ID} ", str(ID).upper(), f"{ID}.r1234567890"]
)
def test_what_is_no_reference_of_ours_is_none(text: str | None) -> None:
    """Another spelling is not ours."""
    assert read_reference(text) is None


def test_keys_tell_accounts_and_facts_apart() -> None:
    """One report of two accounts is two; parts that run into each other are not the same."""
    keys = {
        receipt_key("a", "b", "c"),
        receipt_key("a", "bc"),
        receipt_key("ab", "c"),
        receipt_key("a", None, "bc"),
    }
    assert len(keys | {message_key("a", "bc"), message_key("ab", "c")}) == 6


@pytest.mark.parametrize(
    ("value", "per_second", "micros"),
    [
        (1_767_225_600, 1, 1_767_225_600_000_000),
        ("1767225600", 1, 1_767_225_600_000_000),
        (1_767_225_600_123, 1_000, 1_767_225_600_123_000),
        ("1767225600123", 1_000, 1_767_225_600_123_000),
        ("٦٠", 1, None),
        (-1, 1, None),
        (True, 1, None),
        (1.5, 1, None),
        ("9" * 19, 1, None),
        (None, 1, None),
    ],
)
def test_a_moment_is_whole_and_possible(value: object, per_second: int, micros: int | None) -> None:
    """Numbers and ASCII digits that a database can hold are times; anything else is none."""
    assert callbacks.moment(value, per_second) == micros


def test_odd_shapes_are_empty() -> None:
    """A part that is missing or of another type is empty, never an error."""
    assert callbacks.at({"a": {"b": {"c": 1}}}, "a", "b") == {"c": 1}
    assert callbacks.at({"a": [1]}, "a") == callbacks.at(1, "a") == callbacks.at(None) == {}
    assert callbacks.each([1, {"a": 1}, None]) == [{"a": 1}]
    assert callbacks.each({"a": 1}) == []
    assert [callbacks.word(value) for value in ("a", 7, "", True, None, 1.5, [])] == ["a", "7", *[None] * 5]


def test_a_form_is_read_in_its_order() -> None:
    """Fields keep their order, empty ones too; another content type is no form, and odd bytes break nothing."""
    headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
    body = b"b=1&a=&a=x%20y&c=\xff"
    form = callbacks.pairs(Callback("POST", "https://a/?q=1&q=", headers, body))
    assert form == [("b", "1"), ("a", ""), ("a", "x y"), ("c", "\ufffd")]
    assert callbacks.pairs(Callback("POST", "https://a/", {}, body)) == []
    assert callbacks.query(Callback("GET", "https://a/?q=1&q=")) == [("q", "1"), ("q", "")]
