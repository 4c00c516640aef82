"""A doubt, and a provider that can be asked about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringonce.core.looking import BETWEEN, FIRST, KIND, looks
from ringonce.model.looking import Finding, Look, Presence
from ringonce.model.notification import State, Status
from ringonce.model.outcome import Outcome, OutcomeClass
from ringonce.model.policy import MINUTE, Budgets, InDoubt
from ringonce.model.records import TimelineEntry
from ringonce.model.transition import Alert, LeaseLost, LookedUp, Lookup, Pause, Send, Step, WakeAt
from tests.core.lives import (
    DENIED,
    DOWN,
    GONE,
    LIMITED,
    NOW,
    PLAIN,
    S,
    begun,
    effects,
    emitted,
    out,
    ready,
    take,
)

LOOKUP = replace(PLAIN, in_doubt=InDoubt.LOOKUP)
ABSENT, UNSURE = Finding(Presence.ABSENT), Finding(Presence.UNSURE, text="another text")
FOUND = Finding(Presence.ARRIVED, "m7")


def doubt() -> State:
    """A notification in doubt about attempt 1."""
    return take(begun(ready()), LeaseLost(1), policy=LOOKUP).state


def before(*told: Presence | None, until: int = NOW) -> tuple[Look, ...]:
    """Looks at their usual distance, the last one that long before ``until``."""
    return tuple(Look(until - (len(told) - n) * BETWEEN, one) for n, one in enumerate(told))


def look(answer: Finding | Outcome, *told: Presence | None, policy: object = LOOKUP) -> Step:
    """One more look, after those."""
    return take(doubt(), LookedUp(1, answer, NOW, before(*told)), policy=policy)  # type: ignore[arg-type]


def test_found_is_sent_by_fact() -> None:
    """One look that finds it decides: sent, not assumed, with its message id, published once."""
    made = look(FOUND, Presence.ABSENT)
    assert (made.state.status, made.state.rests_on, made.state.unknown) == (Status.SENT, 1, ())
    assert (made.state.assumed, made.state.message_id, made.state.attempts) == (False, "m7", 1)
    assert emitted(made) == [{"status": "Sent", "revision": 1, "code": None, "assumed": False}]
    assert [note.detail["told"] for note in made.notes] == ["arrived"]


def test_the_first_look_comes_after_a_minute() -> None:
    """A provider gets a minute to show what it took."""
    made = take(begun(ready()), LeaseLost(1), policy=LOOKUP)
    assert made.effects == (Lookup(NOW + FIRST),)


@pytest.mark.parametrize("told", [(), (Presence.ABSENT,), (Presence.ABSENT, Presence.UNSURE)])
def test_missing_is_no_proof_at_first(told: tuple[Presence, ...]) -> None:
    """Fewer than three looks in a row without it: no fact changes, it is looked for again."""
    made = look(ABSENT, *told)
    assert made.state == doubt()
    assert made.effects == (Lookup(NOW + BETWEEN),)


def test_three_looks_at_once_are_no_proof() -> None:
    """Three looks within less than five minutes count as too early, however many there are of them."""
    hasty = tuple(Look(NOW - seconds * S, Presence.ABSENT) for seconds in (299, 200, 100))
    made = take(doubt(), LookedUp(1, ABSENT, NOW, hasty), policy=LOOKUP)
    assert effects(made, Send) == []


def test_missing_three_times_over_five_minutes_was_not_sent() -> None:
    """Then it goes on under its budget: armed at once, the same revision, and no doubt is left."""
    made = look(ABSENT, Presence.ABSENT, Presence.ABSENT)
    assert (made.state.status, made.state.unknown, made.state.revision) == (Status.FAILED, (), 1)
    assert (made.state.attempts, made.state.next_attempt_at) == (1, NOW)
    assert effects(made, Send) == [Send(NOW, armed=True)]


def test_failed_looks_between_do_not_count() -> None:
    """A look that failed neither counts nor breaks the row of those that told something."""
    made = look(ABSENT, Presence.ABSENT, None, Presence.ABSENT, None)
    assert made.state.status is Status.FAILED


def test_not_sent_and_no_call_left() -> None:
    """Certainly not sent, and no retry left: a terminal failure that says that nothing arrived."""
    spent = replace(LOOKUP, budgets=Budgets(transient=0))
    made = look(ABSENT, Presence.ABSENT, Presence.ABSENT, policy=spent)
    assert (made.state.final, made.state.maybe_sent) == (True, False)
    assert emitted(made)[0]["status"] == "Failed"


@pytest.mark.parametrize(("hold_for", "wake"), [(None, None), (600 * S, NOW + 600 * S)])
def test_what_the_provider_can_not_tell_is_held(hold_for: int | None, wake: int | None) -> None:
    """Three looks that do not tell: a person is alerted and decides, or the end of hold_for does."""
    made = look(UNSURE, Presence.UNSURE, Presence.UNSURE, policy=replace(LOOKUP, hold_for=hold_for))
    assert made.state == doubt()
    assert effects(made, WakeAt) == [WakeAt(wake)]
    assert [alert.kind for alert in effects(made, Alert)] == ["in_doubt"]  # type: ignore[attr-defined]


def test_answers_that_contradict_each_other_are_held() -> None:
    """Six answers without three alike in a row: a person must look."""
    made = look(ABSENT, *[Presence.UNSURE, Presence.ABSENT] * 2, Presence.UNSURE)
    assert effects(made, WakeAt) == [WakeAt(None)]


def test_a_refusal_to_tell_is_unsure() -> None:
    """A verdict on the question that will not pass (it is gone, a wrong id) tells nothing about the call."""
    made = look(GONE)
    assert made.effects == (Lookup(NOW + BETWEEN),)
    assert [note.detail["told"] for note in made.notes] == ["unsure"]


@pytest.mark.parametrize(
    ("answer", "failed", "wait"),
    [
        (DOWN, 0, 5 * S),
        (DOWN, 2, 20 * S),
        (LIMITED, 0, 20 * S),
        (out("rate_limited", retry_after_s=90), 0, 90 * S),
    ],
)
def test_a_look_that_failed_is_made_again(answer: Outcome, failed: int, wait: int) -> None:
    """Later each time by the channel's backoff, never before Retry-After; no fact changes."""
    made = look(answer, Presence.ABSENT, *[None] * failed)
    assert made.state == doubt()
    assert effects(made, Lookup) == [Lookup(NOW + wait)]
    assert [note.detail["told"] for note in made.notes] == ["failed"]


def test_one_alert_when_it_can_not_be_asked_for_long() -> None:
    """Five minutes of failed looks alert once, and an answer begins anew."""

    def alerts(*ages: int) -> list[str]:
        failed = tuple(Look(NOW - age * S, None) for age in ages)
        made = take(
            doubt(), LookedUp(1, DOWN, NOW, (Look(NOW - 900 * S, Presence.ABSENT), *failed)), policy=LOOKUP
        )
        return [alert.kind for alert in effects(made, Alert)]  # type: ignore[attr-defined]

    assert alerts() == []
    assert alerts(299) == []
    assert alerts(300, 100) == ["lookup_failing"]
    assert alerts(400, 350) == ["lookup_failing"]
    assert alerts(400, 50) == []


def test_a_refused_credential_pauses_the_channel() -> None:
    """What stops looks stops calls as well; a person is told at the first one, and it is asked again later."""
    made = look(DENIED)
    again = look(DENIED, None)
    assert effects(made, Lookup) == effects(again, Lookup) == [Lookup(NOW + 5 * MINUTE)]
    assert effects(made, Pause) == [Pause("channel", "auth", NOW + 5 * MINUTE)]
    assert [alert.kind for alert in effects(made, Alert)] == ["auth"]  # type: ignore[attr-defined]
    assert effects(again, Alert) == []


def test_a_limit_of_the_channel_holds_for_its_calls() -> None:
    """Looks and calls share the vendor's limit: what one meets, the others wait for."""
    made = look(out("rate_limited", scope="channel", retry_after_s=30))
    assert effects(made, Pause) == [Pause("channel", "rate_limited", NOW + 30 * S)]
    late = look(out("rate_limited", scope="channel"))
    assert effects(late, Pause) == [Pause("channel", "rate_limited", NOW + 20 * S)]


def test_a_look_about_another_attempt() -> None:
    """When the doubt is about another call by now, it is asked about that one at once."""
    made = take(doubt(), LookedUp(2, FOUND, NOW), policy=LOOKUP)
    assert (made.state, made.effects, made.notes) == (doubt(), (Lookup(NOW),), ())


def test_looks_are_read_from_their_notes() -> None:
    """The looks at an attempt are those that the timeline keeps of it, in order."""
    notes = [
        TimelineEntry(1, "receipt", {"attempt": 2}),
        TimelineEntry(2, KIND, {"attempt": 1, "told": "absent"}),
        TimelineEntry(3, KIND, {"attempt": 2, "told": "unsure"}),
        TimelineEntry(4, KIND, {"attempt": 2, "told": "failed"}),
    ]
    assert looks(notes, 2) == (Look(3, Presence.UNSURE), Look(4, None))


def test_told_outcome() -> None:
    """The call is stored with what the look proved: accepted, or failed without a doubt."""
    from ringonce.core.looking import told

    arrived, absent = told(LookedUp(1, FOUND, NOW)), told(LookedUp(1, ABSENT, NOW))
    assert (arrived.cls, arrived.message_id) == (OutcomeClass.ACCEPTED, "m7")
    assert (absent.cls, absent.ambiguous) == (OutcomeClass.TRANSIENT, False)
