"""What a draft's reader sees, and what a text that is put again leads to."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from ringonce.core.drafts import calls_of, renewal, replaceable, send_error, sent_at, state_of
from ringonce.model.draft import Draft, DraftMode, DraftState
from ringonce.model.notification import Content, LastError, State, Status
from ringonce.model.policy import DAY, Edits
from ringonce.model.records import AttemptRow, Row
from ringonce.model.transition import Approved, Regenerated
from tests.core.lives import NOW

ERROR = LastError("NTF_PROVIDER_TRANSIENT", "503", "try later")
ONCE = Edits(1, 60 * DAY)
OLD, NEW = Content(text="old"), Content(text="new")


def call(number: int = 1, outcome: str = "accepted", revision: int = 1, at: int = NOW) -> AttemptRow:
    """A call and its end."""
    return AttemptRow(number, revision, 1, "", at, at + 5, outcome)


def draft(status: str = "draft", *calls: AttemptRow, **facts: object) -> Draft:
    """A draft in this status."""
    state = State(Status(status), 4, **facts)  # type: ignore[arg-type]
    row = Row(UUID(int=1), "", "e", "draft", "r", "reply", "", None, None, None, "normal", None, NOW, state)
    return Draft("feedback:1", None, DraftMode.MANUAL, NOW, NOW, row, OLD, calls)


@pytest.mark.parametrize(
    ("status", "due", "seen"),
    [
        ("draft", None, "draft"),
        ("pending", NOW, "pending"),
        ("failed", NOW, "pending"),
        ("in_doubt", None, "pending"),
        ("sent", None, "sent"),
        ("failed", None, "error"),
        ("expired", None, "error"),
        ("suppressed", None, "error"),
        ("merged", None, "error"),
        ("cancelled", None, "rejected"),
    ],
)
def test_what_its_reader_sees(status: str, due: int | None, seen: str) -> None:
    """C03: error is the end alone: between two attempts and in doubt it is pending."""
    assert state_of(State(Status(status), next_attempt_at=due)) is DraftState(seen)


def test_the_present_text_has_its_own_attempts() -> None:
    """C02: what was tried with an earlier text is history."""
    one = draft("failed", call(1, "transient"), call(2, "transient", 2), call(3, "transient", 2), revision=2)
    assert [c.number for c in calls_of(one)] == [2, 3]


def test_when_it_was_sent() -> None:
    """The end of the call that it rests on; where that never ended, its beginning; nothing else is a time."""
    assert sent_at(draft("sent", call(1, "transient"), call(2), rests_on=2)) == NOW + 5
    silent = replace(call(), ended_at=None, outcome="unknown")
    assert sent_at(draft("sent", silent, rests_on=1, unknown=(1,))) == NOW
    assert sent_at(draft("sent")) is None
    assert sent_at(draft("draft", call(), rests_on=1)) is None


def test_send_error() -> None:
    """The last error while it waits and at the end; none of a draft and of what is sent; other ends say which."""
    for status in ("pending", "failed", "cancelled"):
        assert send_error(draft(status, last_error=ERROR)) == ERROR
    for status in ("draft", "sent"):
        assert send_error(draft(status, last_error=ERROR)) is None
    assert send_error(draft("expired")) == LastError(
        "expired", None, "it has expired before it could be sent"
    )


def test_the_same_text_changes_nothing() -> None:
    """CONC-04: a PUT that is told again is its own repeat, whatever happened to the draft in between."""
    for status, facts in (
        ("draft", {}),
        ("pending", {"next_attempt_at": NOW}),
        ("sent", {}),
        ("cancelled", {}),
    ):
        assert not renewal(draft(status, **facts), OLD, DraftMode.MANUAL, "ann", None, ONCE, NOW)  # type: ignore[arg-type]
    for status, facts in (("pending", {"next_attempt_at": NOW}), ("sent", {}), ("cancelled", {})):
        assert not renewal(draft(status, **facts), OLD, DraftMode.AUTO, "ann", None, ONCE, NOW)  # type: ignore[arg-type]


def test_the_same_text_after_an_error_begins_anew() -> None:
    """C02: what failed for good goes back to draft, even with the same words."""
    made = renewal(draft("failed"), OLD, DraftMode.MANUAL, "ann", None, None, NOW)
    assert [type(event) for event in made] == [Regenerated]


def test_auto_approves_exactly_what_it_saved() -> None:
    """C05: the approval names the version that the text will have: were it not saved, nothing is approved."""
    saved, approved = renewal(draft(), NEW, DraftMode.AUTO, "ann", 4, ONCE, NOW)
    assert isinstance(saved, Regenerated)
    assert (saved.version, saved.barred != "") == (4, True)
    assert approved == Approved("ann", 5, auto=True)
    assert renewal(draft(), OLD, DraftMode.AUTO, "ann", None, ONCE, NOW) == [Approved("ann", 4, auto=True)]


def test_a_published_text() -> None:
    """It is replaced as often and as long as its provider allows, counted from the first call that may have arrived."""
    sent = draft("sent", call(), rests_on=1)
    assert replaceable(sent, ONCE, NOW) == ("", NOW + 60 * DAY)
    assert replaceable(sent, Edits(2), NOW + 900 * DAY) == ("", None)
    assert "for 60 days" in replaceable(sent, ONCE, NOW + 60 * DAY)[0]
    assert "changes nothing" in replaceable(sent, None, NOW)[0]
    assert "nothing is left" in replaceable(draft("sent"), ONCE, NOW)[0]
    twice = draft("sent", call(), call(2, "unknown", 2), call(3, "transient", 3), rests_on=2, revision=2)
    assert "(once)" in replaceable(twice, ONCE, NOW)[0]
    assert replaceable(twice, Edits(2), NOW) == ("", None)
    thrice = draft("sent", call(), call(2, revision=2), call(3, revision=3), rests_on=3, revision=3)
    assert "(2 times)" in replaceable(thrice, Edits(2), NOW)[0]
    assert replaceable(draft("sent", call(1, "transient"), rests_on=1), ONCE, NOW)[0] == ""
