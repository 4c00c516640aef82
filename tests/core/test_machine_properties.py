"""Whatever happens in whatever order: what must hold for every life of a notification."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from ringonce.core.looking import decided
from ringonce.core.machine import TABLE, step
from ringonce.errors import IllegalTransition
from ringonce.model.looking import Finding, Look, Presence
from ringonce.model.notification import FINAL, State, Status
from ringonce.model.outcome import CODE_OF, Outcome, OutcomeClass
from ringonce.model.policy import Backoff, BackoffKind, Budgets, InDoubt, OnAuth, Policy
from ringonce.model.transition import (
    Answered,
    Approved,
    Cancel,
    Emit,
    Enqueued,
    Expire,
    LateAnswer,
    LeaseLost,
    LookedUp,
    Lookup,
    Read,
    Receipt,
    Regenerated,
    Rejected,
    Resolve,
    Retry,
    Send,
    Step,
    Verdict,
    WakeAt,
)
from tests.core.lives import NOW, S, begun

if TYPE_CHECKING:
    from ringonce.model.transition import TransitionEvent

OUTCOMES = st.builds(
    lambda cls, **facts: Outcome(cls, CODE_OF[cls], **facts),
    st.sampled_from(OutcomeClass),
    ambiguous=st.booleans(),
    drop_address=st.booleans(),
    doubted=st.booleans(),
    re_address=st.sampled_from([None, None, None, "new"]),
    retry_after_s=st.sampled_from([None, 0, 30, 86_400]),
    scope=st.sampled_from([None, "address", "channel", "sender", "platform"]),
    floor=st.sampled_from([None, "greylist", "no such floor"]),
    message_id=st.sampled_from([None, "m"]),
)
POLICIES = st.builds(
    Policy,
    max_attempts=st.integers(1, 6),
    backoff=st.builds(
        Backoff,
        kind=st.sampled_from(BackoffKind),
        delays=st.lists(st.integers(0, 60 * S), max_size=3).map(tuple),
        jitter_ratio=st.sampled_from([0.0, 0.5]),
    ),
    budgets=st.builds(Budgets, st.integers(0, 3), st.integers(0, 3), st.one_of(st.none(), st.integers(0, 2))),
    in_doubt=st.sampled_from(InDoubt),
    hold_for=st.sampled_from([None, 60 * S]),
    on_auth=st.sampled_from(OnAuth),
)
ATTEMPT = st.integers(1, 8)
PRESENCES = st.sampled_from(Presence)
LOOKS = st.lists(
    st.builds(Look, st.integers(NOW - 600 * S, NOW), st.one_of(st.none(), PRESENCES)), max_size=6
).map(lambda looks: tuple(sorted(looks, key=lambda look: look.at)))
ANSWERS = st.one_of(st.builds(Finding, PRESENCES, st.sampled_from([None, "m"])), OUTCOMES)
LOOKED = st.builds(LookedUp, ATTEMPT, ANSWERS, st.just(NOW), LOOKS)
# (what, its arguments): "mark" is the worker's, the others are events.
MOVES = st.one_of(
    st.tuples(st.just("call"), OUTCOMES),
    st.tuples(st.just("call"), OUTCOMES),
    st.tuples(st.just("lose"), st.booleans()),
    st.tuples(st.just("mark"), st.none()),
    st.tuples(st.just("not begun"), OUTCOMES),
    st.tuples(st.just("excused"), OUTCOMES),
    st.tuples(st.just("elsewhere"), OUTCOMES),
    st.tuples(st.just("event"), st.builds(LateAnswer, ATTEMPT, OUTCOMES)),
    st.tuples(st.just("look"), LOOKED),
    st.tuples(
        st.just("event"),
        st.builds(
            Receipt,
            ATTEMPT,
            st.sampled_from(["sent", "delivered", "read", "failed"]),
            st.one_of(st.none(), OUTCOMES),
        ),
    ),
    st.tuples(
        st.just("event"),
        st.one_of(
            st.just(Read()),
            st.just(Cancel("shop")),
            st.just(Expire()),
            st.builds(Resolve, st.sampled_from(Verdict), st.just("ann")),
            st.builds(Retry, st.just("ann"), st.booleans()),
        ),
    ),
)
WISHES = st.one_of(
    st.builds(Approved, st.just("ann"), st.sampled_from([None, None, None, 1, 5])),
    st.builds(Regenerated, st.just("ann"), st.none(), st.sampled_from(["", "why"])),
    st.builds(Rejected, st.just("ann")),
)
DRAFTED = (Approved, Regenerated, Rejected)


@dataclass
class Life:
    """One notification and a worker that calls for it; checks every rule after every step."""

    policy: Policy
    state: State
    now: int = NOW
    number: int = 0
    late: int = 0
    published: list[int] = field(default_factory=list)

    def mark(self) -> bool:
        """Begin a call, if the row may be sent."""
        due = self.state.status in {Status.PENDING, Status.FAILED} and not self.state.final
        if not due or self.state.open:
            return False
        self.number += 1
        self.state = begun(self.state)
        return True

    def move(self, what: str, argument: object) -> None:
        """Do one thing, if it can be done."""
        self.now += 1 * S
        if what == "look":
            if self.state.status is Status.IN_DOUBT:
                self.apply(replace(argument, attempt=self.state.unknown[-1]))  # type: ignore[type-var]
            return
        if what == "event":
            self.apply(argument)  # type: ignore[arg-type]
            return
        if not self.state.open and not self.mark():
            return
        if what == "call":
            self.apply(Answered(self.number, argument))  # type: ignore[arg-type]
        elif what == "elsewhere":
            self.apply(Answered(self.number, argument, elsewhere=True))  # type: ignore[arg-type]
        elif what == "excused":
            self.apply(Answered(self.number, argument, excused=True))  # type: ignore[arg-type]
        elif what == "not begun":
            self.apply(Answered(self.number, argument, begun=False))  # type: ignore[arg-type]
        elif what == "lose":
            self.apply(LeaseLost(self.number, crashed_too_often=bool(argument)))

    def apply(self, event: TransitionEvent) -> None:
        """Step, check, go on."""
        before = self.state
        made = step(before, event, self.now, 0.25, self.policy)
        check_version(before, made)
        check_due(made)
        check_effects(before, made)
        check_finality(before, event, made.state)
        check_doubt(before, event, made, self.policy)
        check_look(before, event, made)
        self.check_budget(before, event, made)
        self.check_published(made)
        self.state = made.state

    def check_budget(self, before: State, event: TransitionEvent, made: Step) -> None:
        """Between two decisions of people, at most max_attempts counted calls are made (late ones apart)."""
        after = made.state
        assert after.attempts >= before.attempts
        assert after.attempts - before.attempts <= 1
        assert after.spent.base >= before.spent.base
        if made.state.version > before.version and isinstance(event, Retry | Approved | Regenerated):
            self.late = 0
            assert after.spent.base == after.attempts
        if isinstance(event, LateAnswer | Receipt):
            self.late += after.attempts - before.attempts
        assert after.attempts - after.spent.base <= self.policy.max_attempts + self.late
        spent = after.spent
        assert min(spent.base, spent.transient, spent.rate_limited, spent.unknown) >= 0

    def check_published(self, made: Step) -> None:
        """Each end of a revision as sent or terminally failed is published once, and revisions only grow."""
        kinds = [e for e in made.effects if isinstance(e, Emit) and e.kind == "notification.dispatched"]
        assert len(kinds) <= 1
        for emit in kinds:
            assert emit.data["revision"] == made.state.revision
            assert not self.published or made.state.revision > self.published[-1]
            assert made.state.final
            expected = "Sent" if made.state.status is Status.SENT else "Failed"
            assert emit.data["status"] == expected
            assert emit.data["assumed"] == made.state.assumed
            assert (emit.data["code"] is None) is (expected == "Sent")
            self.published.append(made.state.revision)
        if made.state.final and made.state.status in {Status.SENT, Status.FAILED}:
            assert self.published[-1] == made.state.revision


def check_version(before: State, made: Step) -> None:
    """The version grows by one exactly when a fact (or a draft's text) changes; a refusal changes nothing at all."""
    after = made.state
    facts = [f.name for f in fields(State) if f.name not in {"version", "open"}]
    differs = any(getattr(before, name) != getattr(after, name) for name in facts)
    differs |= any(note.kind == "draft_regenerated" for note in made.notes)
    assert after.version - before.version == (1 if differs else 0)
    assert before.revision <= after.revision <= before.revision + 1
    if made.refused is not None:
        assert (made.state, made.effects, made.notes) == (before, (), ())


def check_due(made: Step) -> None:
    """next_attempt_at is None exactly when nothing more will be tried by itself, and says when."""
    state = made.state
    waits = state.status in {Status.PENDING, Status.FAILED} and not state.final
    assert (state.next_attempt_at is not None) == waits
    due = [e for e in made.effects if isinstance(e, Send | Lookup | WakeAt)]
    assert len(due) <= 1
    if due and isinstance(due[0], Send):
        assert waits
        assert due[0].due_at == state.next_attempt_at
    elif due:
        assert state.status is Status.IN_DOUBT
    if state.status is Status.IN_DOUBT:
        assert state.unknown
    assert (state.rests_on is not None) or state.status is not Status.SENT
    assert state.maybe_sent is False or state.final


def check_effects(before: State, made: Step) -> None:
    """A state that came to wait has due work; one that a call left never keeps it open."""
    moved = made.state.status is not before.status or made.state.revision != before.revision
    if moved and not made.state.idle:
        assert any(isinstance(e, Send | Lookup | WakeAt) for e in made.effects)


def check_finality(before: State, event: TransitionEvent, after: State) -> None:
    """What has ended changes its status only by a person, a receipt, or a verdict that was missing."""
    if isinstance(event, DRAFTED):
        assert after.revision == before.revision or after.status in {Status.DRAFT, Status.PENDING}
        assert not (isinstance(event, Approved) and before.status is Status.SENT and after != before)
        assert before.version == after.version or not (before.open or before.unknown)
        return
    if before.final and after.status is not before.status:
        assert isinstance(event, Retry | Receipt | LateAnswer)
        assert before.status in {Status.FAILED, Status.SENT}
        assert after.revision == before.revision + 1
    if before.status is Status.SENT and after.status is Status.FAILED:
        assert not isinstance(event, LateAnswer) or before.assumed
        assert getattr(event, "attempt", None) == before.rests_on
    if before.final and after.final and before.status is not after.status:
        assert after.status in {Status.SENT, Status.FAILED}
    if before.status in FINAL - {Status.SENT}:
        assert after.status is before.status


def check_look(before: State, event: TransitionEvent, made: Step) -> None:
    """A look decides for good, or it is followed by another look or by a person; only certain absence sends again."""
    if not isinstance(event, LookedUp) or event.attempt != before.unknown[-1]:
        return
    if decided(event) is None:
        assert made.state == before
        assert any(isinstance(e, Lookup | WakeAt) for e in made.effects)
    else:
        assert made.state.status is (Status.SENT if decided(event) is Verdict.SENT else Status.FAILED)
        assert event.attempt not in made.state.unknown
        assert made.state.revision == before.revision


def check_doubt(before: State, event: TransitionEvent, made: Step, policy: Policy) -> None:
    """Marked and lost is never sent again by itself under hold, lookup and assume_sent."""
    silent = isinstance(event, LeaseLost) or (
        isinstance(event, Answered)
        and event.begun
        and event.outcome.ambiguous
        and event.outcome.cls is OutcomeClass.TRANSIENT
    )
    if silent and policy.in_doubt is not InDoubt.RESEND:
        assert not any(isinstance(e, Send) for e in made.effects)
        assert made.state.next_attempt_at is None
    if silent:
        assert event.attempt in made.state.unknown  # type: ignore[union-attr]
    arrived = isinstance(event, LateAnswer | Answered) and event.outcome.cls is OutcomeClass.ACCEPTED
    if arrived:
        assert made.state.next_attempt_at is None


@settings(max_examples=400, deadline=None)
@given(POLICIES, st.sampled_from([None, NOW + 10 * S, NOW + 3600 * S]), st.lists(MOVES, max_size=14))
def test_every_life(policy: Policy, expires_at: int | None, moves: list[tuple[str, object]]) -> None:
    """Versions, budgets, due times, finality, doubts and publishing hold after every step of any life."""
    made = step(State(Status.PENDING), Enqueued(NOW, expires_at=expires_at), NOW, 0.0, policy)
    life = Life(policy, made.state)
    for what, argument in moves:
        life.move(what, argument)


@settings(max_examples=400, deadline=None)
@given(POLICIES, st.lists(st.one_of(MOVES, st.tuples(st.just("event"), WISHES)), max_size=14))
def test_every_draft(policy: Policy, moves: list[tuple[str, object]]) -> None:
    """The same holds for a draft, whatever is approved, written anew and rejected in between."""
    made = step(State(Status.PENDING), Enqueued(NOW, drafted_by="ann"), NOW, 0.0, policy)
    assert made.state.status is Status.DRAFT
    life = Life(policy, made.state)
    for what, argument in moves:
        life.move(what, argument)


@settings(max_examples=200, deadline=None)
@given(POLICIES, POLICIES, st.lists(MOVES, max_size=14))
def test_settings_may_change_meanwhile(
    policy: Policy, later: Policy, moves: list[tuple[str, object]]
) -> None:
    """A19: the policy of the moment decides; a changed one never raises nor publishes twice."""
    life = Life(policy, step(State(Status.PENDING), Enqueued(NOW), NOW, 0.0, policy).state)
    for i, (what, argument) in enumerate(moves):
        life.policy = replace(policy if i % 2 else later, max_attempts=6)
        life.move(what, argument)


@settings(max_examples=200, deadline=None)
@given(POLICIES, st.lists(MOVES, min_size=1, max_size=10), st.data())
def test_total_over_reachable_states(
    policy: Policy, moves: list[tuple[str, object]], data: st.DataObject
) -> None:
    """In any state that a life reaches, any event is answered, refused, or illegal by the table's own word."""
    life = Life(policy, step(State(Status.PENDING), Enqueued(NOW), NOW, 0.0, policy).state)
    for what, argument in moves:
        life.move(what, argument)
    event = data.draw(
        st.one_of(
            st.builds(Answered, ATTEMPT, OUTCOMES, st.booleans()),
            st.builds(LeaseLost, ATTEMPT, st.booleans()),
            st.builds(LateAnswer, ATTEMPT, OUTCOMES),
            LOOKED,
            st.builds(Resolve, st.sampled_from(Verdict), st.just("ann")),
        )
    )
    try:
        made = step(life.state, event, life.now, 0.0, policy)
    except IllegalTransition:
        assert TABLE[life.state.status, type(event)].__name__ == "illegal"
    else:
        check_version(life.state, made)
        check_due(made)
