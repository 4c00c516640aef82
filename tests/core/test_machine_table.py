"""The table is total, and what is illegal says so."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from ringonce.core.machine import ILLEGAL, TABLE, step
from ringonce.errors import IllegalTransition
from ringonce.model.notification import LastError, State, Status
from ringonce.model.transition import (
    Emit,
    Enqueued,
    Expire,
    Fold,
    Receipt,
    Send,
    TransitionEvent,
)
from tests.core.lives import NOW, PLAIN, ready, take

EVENTS = get_args(TransitionEvent)


def test_total() -> None:
    """Every status has an entry for every event type, and there are no others."""
    assert set(TABLE) == set(itertools.product(Status, EVENTS))


@pytest.mark.parametrize("event", [Fold("d")])
def test_features_to_come_are_illegal(event: TransitionEvent) -> None:
    """What no feature asks for yet is illegal in every status, explicitly."""
    assert {TABLE[status, type(event)] for status in Status} == {ILLEGAL}
    with pytest.raises(IllegalTransition, match=f"{type(event).__name__} is illegal in status pending"):
        take(ready(), event)


def test_enqueued_is_due() -> None:
    """A new notification is pending, due at its time, and armed."""
    made = step(State(Status.PENDING), Enqueued(NOW + 5, expires_at=NOW + 9), NOW, 0.0, PLAIN)
    assert made.state == State(Status.PENDING, 1, next_attempt_at=NOW + 5, expires_at=NOW + 9)
    assert made.effects == (Send(NOW + 5, armed=True),)


@pytest.mark.parametrize(
    ("event", "status", "note"),
    [
        (Enqueued(NOW, cancelled=True, suppressed_by="muted"), Status.CANCELLED, "cancelled"),
        (Enqueued(NOW, suppressed_by="no_address", expires_at=NOW), Status.SUPPRESSED, "suppressed"),
        (Enqueued(NOW, expires_at=NOW), Status.EXPIRED, "expired"),
        (Enqueued(NOW, invalid="why", expires_at=NOW), Status.EXPIRED, "expired"),
    ],
)
def test_enqueued_may_end_at_once(event: Enqueued, status: Status, note: str) -> None:
    """A withdrawn subject, a rule or the clock ends it before it begins: final, nothing due, told in a note."""
    made = take(State(Status.PENDING), event)
    assert (made.state.status, made.state.version, made.state.final) == (status, 1, True)
    assert (made.state.next_attempt_at, made.effects) == (None, ())
    assert made.state.expires_at == event.expires_at
    assert [n.kind for n in made.notes] == [note]


def test_enqueued_without_a_text_fails_for_good() -> None:
    """A template that failed meanwhile: terminal, with its own code and its reason, and published like any end."""
    made = take(State(Status.PENDING), Enqueued(NOW, invalid="line 3"))
    assert (made.state.status, made.state.version, made.state.final) == (Status.FAILED, 1, True)
    assert made.state.last_error == LastError("NTF_TEMPLATE_INVALID", None, "line 3")
    assert [n.kind for n in made.notes] == ["code_error"]
    assert [effect.kind for effect in made.effects if isinstance(effect, Emit)] == [
        "notification.status_changed",
        "notification.dispatched",
    ]


def test_enqueued_and_stored_is_sent() -> None:
    """What only has to be stored is sent at once, without a call, and says so; before it is due it waits."""
    made = step(State(Status.PENDING), Enqueued(NOW, stored=True), NOW, 0.0, PLAIN)
    assert made.state == State(Status.SENT, 1)
    assert [effect.kind for effect in made.effects if isinstance(effect, Emit)] == [
        "notification.status_changed",
        "notification.dispatched",
    ]
    later = step(State(Status.PENDING), Enqueued(NOW + 1, stored=True), NOW, 0.0, PLAIN)
    assert later.effects == (Send(NOW + 1, armed=True),)
    for ended in (Enqueued(NOW, cancelled=True, stored=True), Enqueued(NOW, expires_at=NOW, stored=True)):
        assert take(State(Status.PENDING), ended).state.status in {Status.CANCELLED, Status.EXPIRED}


def test_enqueued_once() -> None:
    """A notification that exists is never enqueued again."""
    with pytest.raises(IllegalTransition):
        take(ready(), Enqueued(NOW))


def test_expires_in_time_is_due() -> None:
    """An expiry in the future lets it be sent."""
    assert take(State(Status.PENDING), Enqueued(NOW, expires_at=NOW + 1)).state.status is Status.PENDING
    assert take(ready(), Expire()).state.status is Status.EXPIRED


def test_unknown_receipt_kind() -> None:
    """A kind of receipt that nobody defined is a bug of the provider's file."""
    with pytest.raises(IllegalTransition, match="'queued'"):
        take(ready(), Receipt(1, "queued"))
