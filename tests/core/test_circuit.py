"""When the circuit opens, and for how long."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.core.circuit import Window, failing, open_for
from ringonce.model.outcome import Outcome, OutcomeClass
from ringonce.model.policy import Circuit

S = 1_000_000
NOW = 1_800_000_000 * S
USUAL = Circuit()


def answer(window: Window, at: int, *, failed: bool = True, circuit: Circuit = USUAL) -> bool:
    """An answer at ``at`` to a call begun a second before."""
    return window.answered(circuit, NOW + at - S, NOW + at, failed=failed)


def test_it_opens_with_the_twentieth_failure() -> None:
    """Nineteen failures are too few to judge by; the twentieth opens it, once."""
    window = Window()
    assert [answer(window, i) for i in range(20)] == [False] * 19 + [True]
    assert not answer(window, 20)


def test_a_fifth_of_good_answers_still_opens_it() -> None:
    """At 80 per cent it opens, below it stays closed; only a failure opens it."""
    window = Window()
    for i in range(4):
        answer(window, i, failed=False)
    assert [answer(window, 4 + i) for i in range(16)] == [False] * 15 + [True]
    window = Window()
    for i in range(5):
        answer(window, i, failed=False)
    assert not any(answer(window, 5 + i) for i in range(19))
    assert answer(window, 30)


def test_old_answers_do_not_count() -> None:
    """What is older than the window says nothing about now."""
    window = Window()
    for i in range(19):
        answer(window, i)
    assert not answer(window, 31 * S)
    assert not any(answer(window, 31 * S + i) for i in range(18))
    assert answer(window, 31 * S + 18)


def test_what_began_before_it_opened_is_excused() -> None:
    """Answers to calls begun before the opening neither count nor burden their notifications."""
    window = Window()
    for i in range(20):
        answer(window, i)
    assert window.excuses(NOW + 19)
    assert not window.excuses(NOW + 20)
    assert not any(window.answered(USUAL, NOW + 19, NOW + S + i, failed=True) for i in range(100))
    assert not Window().excuses(0)


def test_another_worker_found_out() -> None:
    """Told that it is open, it counts from there on, and a word of long ago changes nothing."""
    window = Window()
    for i in range(19):
        answer(window, i)
    window.open(NOW + 50)
    window.open(NOW + 10)
    assert window.opened_at == NOW + 50
    assert not answer(window, S + 51)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome(OutcomeClass.TRANSIENT), True),
        (Outcome(OutcomeClass.TRANSIENT, ambiguous=True), True),
        (Outcome(OutcomeClass.TRANSIENT, floor="greylist"), False),
        (Outcome(OutcomeClass.ACCEPTED), False),
        (Outcome(OutcomeClass.INVALID_RECIPIENT), False),
        (Outcome(OutcomeClass.RATE_LIMITED), False),
    ],
)
def test_what_speaks_against_the_provider(outcome: Outcome, expected: bool) -> None:
    """Failures that may pass and silence do; refusals show that it works, greylisting shows nothing."""
    assert failing(outcome) is expected


@given(st.integers(-5, 10**9), st.integers(1, 10**9), st.integers(0, 10**9))
def test_it_stays_open_longer_and_longer(opened: int, base: int, more: int) -> None:
    """Twice as long each time, never longer than the cap, always finite."""
    circuit = replace(USUAL, open=base, cap=base + more)
    time, next_ = open_for(circuit, opened), open_for(circuit, opened + 1)
    assert base <= time <= next_ <= base + more
    assert next_ in {time, 2 * time, base + more}


@given(st.lists(st.tuples(st.integers(0, 5 * S), st.booleans()), max_size=120))
def test_it_opens_exactly_when_the_rule_says(answers: list[tuple[int, bool]]) -> None:
    """Against the rule, counted anew for each answer: the window is that of whole seconds."""
    window, at, kept = Window(), NOW, list[tuple[int, bool]]()
    for passed, failed in answers:
        at += passed
        kept = [(t, f) for t, f in kept if t // S > at // S - USUAL.window // S]
        kept.append((at, failed))
        bad = sum(f for _, f in kept)
        expected = failed and len(kept) >= USUAL.calls and bad >= USUAL.share * len(kept)
        assert window.answered(USUAL, at - 1 if not expected else at, at, failed=failed) is expected
        if expected:
            window, kept = Window(), []
