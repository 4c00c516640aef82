"""When verdicts against addresses are believed, and when a person has to look."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ringonce.core.breaker import PROCESSES, Proposed, Window, propose, resumed
from ringonce.model.policy import MINUTE, SECOND, MassInvalidation

LIMITS = MassInvalidation()
NOW = 1_000_000 * SECOND


def after(
    *steps: tuple[int, int, int], window: Window | None = None, limits: MassInvalidation = LIMITS
) -> Window:
    """A window after steps of (accepted before, good, fresh), a second apart, told by one process."""
    made = window or Window()
    total = made.heard.get("p", (0, 0))[0]
    for number, (accepted, good, fresh) in enumerate(steps):
        total += accepted
        made = propose(made, Proposed("p", total, good, fresh), limits, NOW + number * SECOND)
    return made


def test_fewer_than_twenty_are_believed() -> None:
    """Nineteen verdicts against good addresses, and not one accepted call, are believed: there are too few of them."""
    assert after(*[(0, 1, 0)] * 19).tripped_at is None


def test_a_wrong_key_trips_at_the_twentieth() -> None:
    """Twenty verdicts against good addresses without an accepted call trip it, and the reason says so."""
    window = after(*[(0, 1, 0)] * 20)
    assert window.tripped_at == NOW + 19 * SECOND
    assert window.why == "the last 20 calls would each drop an address, and none was accepted"


def test_what_was_accepted_before_does_not_hide_it() -> None:
    """A million accepted calls before the key went wrong delay it by no more than one step."""
    assert after((1_000_000, 1, 0), *[(0, 1, 0)] * 20).tripped_at is not None


def test_an_ordinary_share_never_trips() -> None:
    """One drop in ten answers is an ordinary day, however long it lasts."""
    assert after(*[(9, 1, 0)] * 500).tripped_at is None


def test_a_part_that_breaks_trips() -> None:
    """Where half of all good addresses are called dead, it trips although the other half is accepted."""
    window = after(*[(1, 1, 0)] * 20)
    assert window.why == "the last 40 answers would drop 20 addresses that worked within 30 days"


def test_a_list_of_old_tokens_may_be_mostly_dead() -> None:
    """Eighty of a hundred imported tokens are dead, none was ever good: they are dropped, and nothing trips."""
    assert after(*[(1, 0, 4)] * 100).tripped_at is None


def test_nothing_but_dead_ones_is_doubted_all_the_same() -> None:
    """Twenty addresses that never worked are called dead and nothing is accepted: that says more about the key."""
    assert after(*[(0, 0, 1)] * 19).tripped_at is None
    assert after(*[(0, 0, 1)] * 20).tripped_at is not None


def test_only_those_of_the_last_minutes_count() -> None:
    """Verdicts that are spread over more than ten minutes are believed."""
    window = Window()
    for number in range(60):
        window = propose(window, Proposed("p", 0, 1, 0), LIMITS, NOW + number * MINUTE)
    assert window.tripped_at is None


def test_one_large_step_is_looked_at_as_a_whole() -> None:
    """Thirty drops among five hundred answers of one transaction are few; thirty of fifty are too many."""
    assert after((470, 30, 0)).tripped_at is None
    assert after((20, 30, 0)).tripped_at is not None


def test_what_is_tripped_stays_so() -> None:
    """Only a person lifts it, not time and not what is accepted meanwhile."""
    tripped = after(*[(0, 1, 0)] * 20)
    later = propose(tripped, Proposed("p", 10**6, 1, 0), LIMITS, NOW + 10**6 * MINUTE)
    assert later == tripped


def test_it_must_prove_itself_after_a_release() -> None:
    """Resumed with the key still wrong, the first verdict trips it again; after an accepted call it needs twenty."""
    released = resumed(after(*[(0, 1, 0)] * 20), believed=False)
    assert (released.tripped_at, released.why) == (None, "")
    again = after((0, 1, 0), window=released)
    assert (
        again.why == "the last 1 calls would each drop an address, and none was accepted since it was resumed"
    )
    proved = after((1, 1, 0), *[(0, 1, 0)] * 18, window=released)
    assert (proved.tripped_at, proved.wary) == (None, False)


def test_a_person_may_vouch_for_the_verdicts() -> None:
    """Where a person has confirmed that they were right, the next ones are believed like the first."""
    confirmed = resumed(after(*[(0, 1, 0)] * 20), believed=True)
    assert after(*[(0, 1, 0)] * 19, window=confirmed).tripped_at is None


def test_each_process_counts_for_itself() -> None:
    """What one process accepted is counted once, whoever else proposes in between, and told again it adds nothing."""
    window = Window()
    for total in (10, 10, 25):
        window = propose(window, Proposed("a", total, 1, 0), LIMITS, NOW)
        window = propose(window, Proposed("b", 2 * total, 1, 0), LIMITS, NOW)
    assert sum(step.accepted for step in window.steps) == 25 + 50


def test_what_it_remembers_is_bounded() -> None:
    """A thousand processes and ten thousand steps leave a window of a few lines."""
    window = Window()
    for number in range(10_000):
        told = Proposed(f"p{number % 1000}", 100 + number, number % 7 == 0, number % 7 != 0)
        window = propose(window, told, LIMITS, NOW + number)
    assert len(window.heard) <= PROCESSES
    assert len(window.steps) <= 2 * LIMITS.proposals + 2


def test_a_report_without_an_address_is_only_heard() -> None:
    """A verdict that drops nothing (an old proof) leaves no step, and what was accepted is not counted twice."""
    window = after((5, 0, 0), (5, 1, 0))
    assert [(step.accepted, step.good) for step in window.steps] == [(5, 1)]


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_the_share_is_a_setting(share: float) -> None:
    """The same half trips where less is allowed, and passes where more is."""
    limits = replace(LIMITS, share=share)
    assert (after(*[(1, 1, 0)] * 40, limits=limits).tripped_at is None) is (share > 0.5)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5), st.integers(0, 5)), max_size=60))
def test_nothing_trips_on_few_proposals(steps: list[tuple[int, int, int]]) -> None:
    """Whatever comes, it trips only with twenty proposals, and never while every verdict stands beside four others."""
    window = after(*steps)
    if window.tripped_at is not None:
        assert sum(good + fresh for _, good, fresh in steps) >= LIMITS.proposals
        assert any(accepted < 4 * (good + fresh) for accepted, good, fresh in steps)


class Life(RuleBasedStateMachine):
    """Workers that answer, a key that goes wrong, and a person: against what may be lost."""

    def __init__(self) -> None:
        super().__init__()
        self.window = Window()
        self.now = NOW
        self.totals = {"a": 0, "b": 0}
        self.believed_in_a_row = 0

    @rule(process=st.sampled_from("ab"), count=st.integers(1, 1000))
    def accept(self, process: str, count: int) -> None:
        """Calls are accepted; nobody is told."""
        self.totals[process] += count
        self.believed_in_a_row = 0

    @rule(process=st.sampled_from("ab"), good=st.integers(1, 3))
    def refuse(self, process: str, good: int) -> None:
        """Good addresses are called dead, one transaction."""
        self.now += SECOND
        before = self.window.tripped_at
        self.window = propose(self.window, Proposed(process, self.totals[process], good, 0), LIMITS, self.now)
        if self.window.tripped_at is None:
            self.believed_in_a_row += good
        assert before is None or self.window.tripped_at == before

    @rule(believed=st.booleans())
    def decide(self, *, believed: bool) -> None:
        """A person decides."""
        self.window = resumed(self.window, believed=believed)
        self.believed_in_a_row = 0

    @invariant()
    def few_are_believed(self) -> None:
        """In a row, so many as it looks at and one step of each worker are believed at most."""
        assert self.believed_in_a_row <= LIMITS.proposals + 3 * (len(self.totals) + 1)


TestLife = Life.TestCase
