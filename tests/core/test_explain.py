"""A notification's life in words."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from ringonce.core.explain import Line, explain, iso, story
from ringonce.core.lane import Lane, spell
from ringonce.model.notification import Content, State, Status
from ringonce.model.policy import Budgets, InDoubt
from ringonce.model.records import AttemptRow, Due, LaneState, Lease, Life, Row, TimelineEntry
from ringonce.model.transition import Cancel, Enqueued, Expire, LateAnswer, LeaseLost, Retry
from tests.core.lives import DOWN, GONE, LIMITED, NOW, OK, PLAIN, S, answered, begun, ready, take

ID = UUID("0190a7c2-7c1e-7b3a-9d5f-1a2b3c4d5e6f")
HOLD = replace(PLAIN, in_doubt=InDoubt.HOLD)
HELD = take(begun(ready()), LeaseLost(1), policy=HOLD).state
ASSUMED = take(begun(ready()), LeaseLost(1)).state


def call(number: int, outcome: str, **facts: object) -> AttemptRow:
    """One attempt, a second after the one before."""
    row = AttemptRow(number, 1, 1, "acc", NOW + number * S, NOW + number * S + 1000, outcome)
    return replace(row, **facts)  # type: ignore[arg-type]


def life(
    state: State,
    *attempts: AttemptRow,
    notes: tuple[TimelineEntry, ...] = (),
    due: Due | None = None,
    lease: Lease | None = None,
    event_type: str = "message.new",
) -> Life:
    """The facts about one notification."""
    row = Row(
        ID, "", "msg-981", event_type, "user-1", "email", "acc", None, None, None, "normal", None, NOW, state,
        lease,
    )  # fmt: skip
    return Life(row, Content(), attempts, notes, due)


def later(made: Life, now: int = NOW, **facts: object) -> list[str]:
    """The sentences about now and later."""
    return [line.text for line in story(made, now, **facts) if line.at is None]  # type: ignore[arg-type]


def test_a_life_that_ended_well() -> None:
    """All that happened in order of time, with its times, then how it stands; the address is not told."""
    state = answered(OK, state=answered(DOWN).state, attempt=2).state
    first = call(
        1, "transient", code="NTF_PROVIDER_TRANSIENT", provider_code="503", answer="busy", rule="http-5xx"
    )
    told = explain(life(state, first, call(2, "accepted", message_id="m1")), NOW + 9 * S)
    assert told == [
        "2027-01-15T08:00:00.000Z  accepted: event msg-981 (message.new) for user-1 by email",
        "2027-01-15T08:00:01.001Z  attempt 1: transient NTF_PROVIDER_TRANSIENT: 503 busy [rule: http-5xx]",
        "2027-01-15T08:00:02.001Z  attempt 2: the provider accepted it, message id m1",
        "sent",
    ]


def test_notes_and_attempts_are_told_in_order() -> None:
    """Notes and attempts are one story; an attempt that is still open has only its beginning."""
    notes = (TimelineEntry(NOW + 500_000, "read"), TimelineEntry(NOW + 3 * S, "retried", {"by": "ann"}))
    made = story(life(ready(), call(1, "accepted", ended_at=None), notes=notes, event_type=""), NOW)
    assert [line.at for line in made[:4]] == [NOW, NOW + 500_000, NOW + 1 * S, NOW + 3 * S]
    assert made[0] == Line(NOW, "accepted: event msg-981 for user-1 by email")
    assert made[2].text == "attempt 1: the provider accepted it"


@pytest.mark.parametrize(
    ("attempt", "text"),
    [
        (call(1, "unknown"), "attempt 1: it began, and no verdict came"),
        (call(1, "unknown", answer="reset"), "attempt 1: it began, and no verdict came: reset"),
        (call(2, "accepted", late=True), "attempt 2 (answered late): the provider accepted it"),
        (call(1, "rate_limited"), "attempt 1: rate limited"),
    ],
)
def test_attempts(attempt: AttemptRow, text: str) -> None:
    """Each attempt says what came of it, a missing verdict and a late answer included."""
    assert story(life(ready(), attempt), NOW)[1].text == text


@pytest.mark.parametrize(
    ("kind", "detail", "text"),
    [
        ("suppressed", {"reason": "no_address"}, "suppressed by the rule no_address"),
        ("cancelled", {"by": "shop", "reason": "order:42"}, "cancelled by shop: order:42"),
        ("cancelled", {"by": "shop", "reason": ""}, "cancelled by shop"),
        ("expired", {"reason": "max_age"}, "expired: max_age"),
        ("resolved", {"verdict": "not_sent", "by": "ann"}, "the doubt was resolved by ann: it was not sent"),
        ("resolved", {"verdict": "sent", "by": "ann"}, "the doubt was resolved by ann: it was sent"),
        (
            "retried",
            {"by": "ann", "force": True, "revision": 2},
            "ann wanted it sent again, forced: revision 2, new budgets",
        ),
        (
            "reopened",
            {"attempt": 1, "revision": 2, "code": "X"},
            "reopened as revision 2: attempt 1, on which it rested, proved to have failed (X)",
        ),
        (
            "late_verdict",
            {"attempt": 1, "outcome": "accepted"},
            "the late answer to attempt 1 decided: accepted",
        ),
        (
            "looked_up",
            {"attempt": 1, "told": "absent", "text": ""},
            "the provider was asked what became of attempt 1: it is not there",
        ),
        (
            "looked_up",
            {"attempt": 1, "told": "failed", "text": "HTTP 503"},
            "the provider was asked what became of attempt 1: it could not be asked: HTTP 503",
        ),
        ("receipt", {"attempt": 1, "kind": "delivered"}, "the provider reports attempt 1 as delivered"),
        (
            "receipt",
            {"attempt": 2, "kind": "failed", "code": "X"},
            "the provider reports attempt 2 as failed (X)",
        ),
        (
            "receipt",
            {"attempt": 2, "kind": "failed", "code": "X", "provider_code": "131000"},
            "the provider reports attempt 2 as failed (X 131000)",
        ),
        ("read", {}, "read by the recipient"),
        ("erased", {"by": "ann"}, "the person was erased by ann: their data are gone, this line stays"),
        (
            "code_error",
            {"code": "NTF_TEMPLATE_INVALID", "text": "line 3"},
            "its template failed: line 3",
        ),
        ("code_error", {"code": "X"}, "a code error: what we sent can not be accepted (X)"),
        (
            "credential_failed",
            {"text": "HTTP 503"},
            "no credential could be fetched, so no attempt began: HTTP 503",
        ),
        ("discarded", {"by": "ann", "reason": "too old"}, "looked at and let be by ann: too old"),
        (
            "verdict_doubted",
            {"reason": "mass_invalidation"},
            (
                "the address was called dead, as too many others were: the verdict is doubted, "
                "the address is set apart, and this waits until a person has decided"
            ),
        ),
        ("guard_failed", {"error": "boom"}, "guard failed: error boom"),
        ("released", {}, "released"),
    ],
)
def test_notes(kind: str, detail: dict[str, object], text: str) -> None:
    """Each kind of note has its sentence; an unknown one is told as it is."""
    notes = (TimelineEntry(NOW, kind, detail),)
    assert story(life(ready(), notes=notes), NOW)[1].text == text


def test_terminal_failure_names_the_command() -> None:
    """Nothing more will be tried, and the line to type stands there."""
    assert later(life(answered(GONE).state)) == [
        "failed: NTF_PROVIDER_INVALID_RECIPIENT",
        f"nothing more will be tried; a person must look: ringonce failures retry {ID}",
    ]


def test_next_retry() -> None:
    """The next retry with its time and its number in the budget of its class."""
    failed = answered(DOWN, state=answered(DOWN).state, attempt=2).state
    assert later(life(failed), policy=PLAIN) == [
        "failed, for now: NTF_PROVIDER_TRANSIENT try later",
        "next: a retry at 2027-01-15T08:00:10.000Z (retry 2 of 3)",
    ]
    assert later(life(failed))[1] == "next: a retry at 2027-01-15T08:00:10.000Z"
    limited = answered(LIMITED).state
    assert later(life(limited), policy=PLAIN)[1].endswith("(retry 1 of 5)")
    own = replace(PLAIN, in_doubt=InDoubt.RESEND, budgets=Budgets(unknown=1))
    silent = take(begun(ready()), LeaseLost(1), policy=own).state
    lines = later(life(silent, call(1, "unknown")), policy=own)
    assert lines[1] == "in doubt: attempt 1 got no verdict and may have reached the recipient"
    assert lines[2].endswith("(retry 1 of 1)")
    shared = replace(PLAIN, in_doubt=InDoubt.RESEND)
    silent = take(begun(ready()), LeaseLost(1), policy=shared).state
    assert later(life(silent, call(1, "unknown")), policy=shared)[2].endswith("(retry 1 of 3)")


def test_a_retry_that_is_due() -> None:
    """A due retry waits for the retry cycle first, then for a worker."""
    failed, now = answered(DOWN).state, NOW + 60 * S
    cold = life(failed, due=Due("send", NOW, armed=False))
    assert later(cold, now)[1] == "next: a retry at the next tick of the retry cycle"
    armed = life(failed, due=Due("send", NOW))
    assert later(armed, now)[1] == "next: a retry as soon as a worker is free"
    assert later(life(failed), now)[1] == "next: a retry as soon as a worker is free"
    bare = replace(failed, last_error=None, spent=ready().spent)
    assert later(life(bare), now, policy=PLAIN)[1] == "next: a retry as soon as a worker is free"
    assert later(life(replace(failed, spent=ready().spent)), now, policy=PLAIN)[1].endswith("is free")


def test_pending() -> None:
    """What waits says until when, and what would end it."""
    assert later(life(ready())) == ["pending", "next: it is sent as soon as a worker is free"]
    scheduled = take(State(Status.PENDING), Enqueued(NOW + 9 * S, expires_at=NOW + 60 * S)).state
    assert later(life(scheduled))[1:] == [
        "next: it is sent at 2027-01-15T08:00:09.000Z",
        "expires at 2027-01-15T08:01:00.000Z unless it is sent before",
    ]
    retried = take(answered(DOWN).state, Retry("ann")).state
    assert later(life(retried)) == [
        "pending; last error: NTF_PROVIDER_TRANSIENT try later",
        "next: it is sent again as soon as a worker is free",
    ]


def test_what_holds_it_up() -> None:
    """A channel that is off or paused is named, with the reason and the end of the pause."""
    made = life(ready())
    assert later(made, enabled=False)[-1] == "waits: channel disabled"
    paused = LaneState("email", paused=True, until=NOW + 300 * S, reason="auth")
    assert later(made, lane=paused)[-1] == "waits: channel paused (auth) until 2027-01-15T08:05:00.000Z"
    for_ever = replace(paused, until=None, reason=None)
    assert later(made, lane=for_ever)[-1] == "waits: channel paused until somebody resumes it"
    assert len(later(made, lane=replace(paused, paused=False))) == 2
    part = replace(paused, lane=spell(Lane("email", "", "country:44")))
    told = "waits: country 44 is paused (auth); at 2027-01-15T08:05:00.000Z one call tries it again"
    assert later(made, lane=part)[-1] == told
    apart = later(made, lane=replace(for_ever, reason="mass_invalidation"))
    assert apart[-2] == "waits: channel paused (mass_invalidation) until somebody resumes it"
    assert apart[-1] == "decide: ringonce recipients quarantine list --channel email"


def test_in_the_hands_of_a_worker() -> None:
    """A claimed one is about to be sent; a marked one awaits its answer."""
    lease = Lease("w1", 7, NOW + 15 * S)
    assert later(life(ready(), lease=lease))[1] == "next: a worker holds it and is about to send it"
    marked = replace(lease, attempt=1, started_at=NOW)
    assert later(life(begun(ready()), lease=marked))[1] == (
        "next: the answer to attempt 1, which began at 2027-01-15T08:00:00.000Z"
    )


def test_in_doubt_says_who_decides() -> None:
    """A doubt is named, with what ends it: a person, the clock, or the provider."""
    assert later(life(HELD)) == [
        "in doubt: attempt 1 began and no verdict came; it may have reached the recipient",
        "nothing is tried by itself; a receipt decides, or a person: resolve it as sent or not sent",
    ]
    assert later(life(HELD, due=Due("hold", None)))[1].startswith("nothing is tried")
    assert later(life(HELD, due=Due("hold", NOW)))[1] == (
        "next: at 2027-01-15T08:00:00.000Z it counts as sent, unless a person or a receipt decides before"
    )
    assert later(life(HELD, due=Due("lookup", NOW)))[1] == (
        "next: at 2027-01-15T08:00:00.000Z the provider is asked what became of it"
    )
    assert later(life(HELD, due=Due("lookup", None)))[1] == (
        "next: the provider is being asked what became of it"
    )


def test_doubts_stay_named_after_the_end() -> None:
    """What was assumed, and what may have been sent before it was stopped, is told."""
    assert later(life(ASSUMED)) == [
        "sent, by assumption: no verdict ever came",
        "in doubt: attempt 1 got no verdict and may have reached the recipient",
    ]
    cancelled = take(HELD, Cancel("shop"), policy=HOLD).state
    assert later(life(cancelled)) == [
        "cancelled",
        "in doubt: attempt 1 got no verdict and may have reached the recipient",
    ]
    arrived = take(cancelled, LateAnswer(1, OK)).state
    assert later(life(arrived)) == ["cancelled, but attempt 1 had reached the provider"]
    expired = take(replace(HELD, unknown=(1, 2)), Expire(), policy=HOLD).state
    assert later(life(expired)) == [
        "expired",
        "in doubt: attempts 1, 2 got no verdict and may have reached the recipient",
    ]


def test_draft() -> None:
    """A draft waits for a person."""
    assert later(life(State(Status.DRAFT, 1))) == ["draft", "waits for approval"]


def test_times_may_be_written_otherwise() -> None:
    """The writer of times is an argument."""
    assert explain(life(ready()), NOW, when=lambda at: f"T{at - NOW}")[0].startswith("T0  accepted")


def test_iso() -> None:
    """ISO 8601 in UTC with milliseconds, before 1970 too."""
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(-1_000_000) == "1969-12-31T23:59:59.000Z"


def test_of_several_providers_the_asked_one_is_told() -> None:
    """Where calls went to different accounts, each says to which; otherwise nobody wants to know."""
    first, second = call(1, "transient"), call(2, "accepted", account="other")
    told = [line.text for line in story(life(ASSUMED, first, second), NOW)]
    assert any(line.startswith("attempt 1 at acc: ") for line in told)
    assert "attempt 2 at other: the provider accepted it" in told
    alone = [line.text for line in story(life(ASSUMED, first, call(2, "accepted")), NOW)]
    assert "attempt 2: the provider accepted it" in alone
