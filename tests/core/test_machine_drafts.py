"""What becomes of a draft: approved, written anew, rejected, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringonce.model.notification import Spent, State, Status
from ringonce.model.transition import (
    Answered,
    Approved,
    Emit,
    Enqueued,
    LateAnswer,
    Note,
    Receipt,
    Regenerated,
    Rejected,
    Retry,
    Send,
)
from tests.core.lives import DOWN, GONE, NOW, OK, PLAIN, S, answered, begun, effects, emitted, take

DRAFT = take(State(Status.PENDING), Enqueued(NOW, drafted_by="ann")).state
QUEUED = take(DRAFT, Approved("bob")).state
SENT = answered(OK, state=QUEUED).state
TRIED = answered(DOWN, state=QUEUED).state
BROKEN = answered(GONE, state=QUEUED).state
DOUBTED = replace(BROKEN, unknown=(1,))


def test_a_draft_waits() -> None:
    """C01: a draft begins as one, with nothing due, whatever its due time; who wrote it is noted and told."""
    made = take(State(Status.PENDING), Enqueued(NOW, drafted_by="ann"))
    assert made.state == State(Status.DRAFT, 1)
    assert (made.state.idle, made.state.final) == (True, False)
    assert made.notes == (Note("draft_created", {"by": "ann", "revision": 1}),)
    assert emitted(made, "draft.created") == [{"by": "ann", "revision": 1, "version": 1}]


def test_a_draft_of_a_withdrawn_subject_is_cancelled() -> None:
    """What nobody wants any more is not even drafted."""
    made = take(State(Status.PENDING), Enqueued(NOW, drafted_by="ann", cancelled=True))
    assert made.state.status is Status.CANCELLED


def test_approved_is_due() -> None:
    """C01: approved, it is to be sent at once, in its revision; who did it is noted and told."""
    made = take(DRAFT, Approved("bob", DRAFT.version, auto=True), now=NOW + S)
    assert made.state == State(Status.PENDING, 2, next_attempt_at=NOW + S)
    assert effects(made, Send) == [Send(NOW + S, armed=True)]
    assert made.notes == (Note("draft_approved", {"by": "bob", "auto": True, "revision": 1}),)
    assert [told["by"] for told in emitted(made, "draft.approved")] == ["bob"]


@pytest.mark.parametrize(
    "state", [QUEUED, TRIED, begun(QUEUED), replace(QUEUED, status=Status.IN_DOUBT, unknown=(1,))]
)
def test_approved_again_makes_no_second_job(state: State) -> None:
    """C04: what waits to be sent stays as it is, and nothing becomes due a second time."""
    made = take(state, Approved("eve", version=1))
    assert (made.state, made.effects, made.notes, made.refused) == (state, (), (), None)


def test_approved_from_error_is_queued_anew() -> None:
    """What failed for good is another revision with all budgets; the error is remembered."""
    made = take(BROKEN, Approved("bob"), now=NOW + S)
    assert (made.state.status, made.state.revision, made.state.next_attempt_at) == (
        Status.PENDING,
        2,
        NOW + S,
    )
    assert (made.state.spent, made.state.last_error) == (Spent(1), BROKEN.last_error)


@pytest.mark.parametrize(
    ("state", "event", "code"),
    [
        (SENT, Approved("eve"), "already_sent"),
        (SENT, Retry("eve", force=True, reply=True), "already_sent"),
        (take(DRAFT, Rejected("bob")).state, Approved("eve"), "already_final"),
        (replace(DRAFT, status=Status.MERGED), Approved("eve"), "already_final"),
        (replace(DRAFT, status=Status.EXPIRED, rests_on=1), Approved("eve"), "already_final"),
        (DRAFT, Approved("eve", version=7), "stale_version"),
        (DOUBTED, Approved("eve"), "in_doubt"),
        (replace(DRAFT, expires_at=NOW), Approved("eve"), "expired"),
        (begun(QUEUED), Regenerated("eve"), "too_late"),
        (replace(QUEUED, status=Status.IN_DOUBT, unknown=(1,)), Regenerated("eve"), "in_doubt"),
        (DOUBTED, Regenerated("eve"), "in_doubt"),
        (SENT, Regenerated("eve", barred="no edits"), "already_sent"),
        (replace(BROKEN, rests_on=1), Regenerated("eve", barred="no edits"), "already_sent"),
        (replace(DRAFT, status=Status.MERGED), Regenerated("eve"), "already_final"),
        (DRAFT, Regenerated("eve", version=7), "stale_version"),
        (SENT, Rejected("eve"), "already_sent"),
        (QUEUED, Rejected("eve"), "conflict"),
        (TRIED, Rejected("eve"), "conflict"),
        (DOUBTED, Rejected("eve"), "in_doubt"),
        (take(DRAFT, Rejected("bob")).state, Rejected("eve"), "already_final"),
        (DRAFT, Rejected("eve", version=7), "stale_version"),
    ],
)
def test_refused(state: State, event: Approved | Regenerated | Rejected | Retry, code: str) -> None:
    """What may not be: the caller is told why, and nothing changes."""
    made = take(state, event)
    assert made.refused is not None
    assert (made.refused.code, made.state, made.effects, made.notes) == (code, state, (), ())


def test_regenerated_draft_stays_one() -> None:
    """Another text for what nobody approved is the same revision, with another version."""
    made = take(DRAFT, Regenerated("ann", DRAFT.version))
    assert made.state == State(Status.DRAFT, 2)
    assert made.notes == (Note("draft_regenerated", {"by": "ann", "revision": 1}),)


@pytest.mark.parametrize("state", [QUEUED, TRIED, BROKEN, take(DRAFT, Rejected("bob")).state])
def test_regenerated_goes_back_to_draft(state: State) -> None:
    """C02: before a mark, after a failure, after a rejection: a draft again, without error, in another revision."""
    made = take(state, Regenerated("ann", barred="nothing of it is published"))
    assert (made.state.status, made.state.revision) == (Status.DRAFT, state.revision + 1)
    assert (made.state.last_error, made.state.next_attempt_at, made.state.idle) == (None, None, True)
    assert made.state.spent == Spent(state.attempts)
    assert not effects(made, Send)


def test_a_published_text_is_replaced() -> None:
    """Where the provider can edit, a sent one is a draft again that remembers what is public, and until when."""
    edit = take(SENT, Regenerated("ann", until=NOW + 9 * S)).state
    assert (edit.status, edit.revision, edit.rests_on, edit.message_id) == (Status.DRAFT, 2, 1, "m1")
    assert edit.expires_at == NOW + 9 * S
    again = take(edit, Regenerated("ann", until=NOW + 9 * S)).state
    assert (again.revision, again.rests_on) == (2, 1)
    queued = take(again, Approved("bob")).state
    assert (queued.rests_on, queued.expires_at) == (1, NOW + 9 * S)
    failed = answered(DOWN, state=queued).state
    assert (failed.status, failed.rests_on, failed.maybe_sent) == (Status.FAILED, 1, False)
    sent = answered(OK, state=failed).state
    assert (sent.status, sent.revision, sent.rests_on) == (Status.SENT, 2, 1)
    ended = answered(GONE, state=queued).state
    assert (ended.rests_on, ended.maybe_sent) == (1, False)


def test_a_late_answer_to_an_earlier_text() -> None:
    """It tells that a text is public, and the draft stays a draft, whose approval then replaces that."""
    draft = take(TRIED, Regenerated("ann")).state
    late = take(draft, LateAnswer(1, OK))
    assert (late.state.status, late.state.rests_on) == (Status.DRAFT, 1)
    assert take(draft, LateAnswer(1, DOWN)).state == draft
    assert take(draft, Receipt(1, "delivered")).state == draft


def test_rejected() -> None:
    """A draft, or one whose last attempt failed, is put aside: final, told, and nothing is published of an end."""
    for state in (DRAFT, BROKEN):
        made = take(state, Rejected("bob", "rude"))
        assert (made.state.status, made.state.revision) == (Status.CANCELLED, state.revision)
        assert made.notes == (
            Note("draft_rejected", {"by": "bob", "reason": "rude", "revision": state.revision}),
        )
        assert [e.kind for e in made.effects if isinstance(e, Emit)] == ["draft.rejected"]


def test_a_person_retries_a_reply_like_anything_else() -> None:
    """The failures of drafts are retried where all failures are; a draft itself is not."""
    assert take(BROKEN, Retry("bob")).state.status is Status.PENDING
    assert take(DRAFT, Retry("bob")).refused is not None
    assert answered(OK, state=take(BROKEN, Retry("bob")).state, policy=PLAIN).state.status is Status.SENT
    assert take(QUEUED, Answered(1, OK)).state.status is Status.SENT
