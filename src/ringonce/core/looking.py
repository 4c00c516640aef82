"""What looks at the provider tell of a call without a verdict, and when the next one is due.

Found once, it arrived. A provider may show late what it took, so that it is missing counts only when three looks in a
row, over five minutes at least, missed it. Three in a row that can not tell, or twice as many that contradict each
other, leave it to a person. A look that failed says nothing: it is made again, later each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ringonce.core.backoff import delay
from ringonce.model.looking import Finding, Look, Presence
from ringonce.model.outcome import Code, Outcome, OutcomeClass
from ringonce.model.policy import MINUTE, SECOND
from ringonce.model.transition import Alert, Effect, Lookup, Note, Pause, Verdict, WakeAt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ringonce.model.policy import Policy
    from ringonce.model.records import TimelineEntry
    from ringonce.model.transition import LookedUp

    Judged: TypeAlias = tuple[Verdict | None, tuple[Effect, ...], tuple[Note, ...]]

KIND: Final = "looked_up"
"""The notes that keep the looks: they are told to people, and counted after a crash."""
FAILED: Final = "failed"
FIRST: Final = 60 * SECOND
LOOKS: Final = 3
OVER: Final = 5 * MINUTE
BETWEEN: Final = OVER // (LOOKS - 1) + 5 * SECOND
"""A little more than needed, so that the third look in a row is always late enough."""
MOST: Final = 2 * LOOKS
"""So many answers that contradict each other, and a person must look."""
AUTH_AGAIN: Final = 5 * MINUTE
ALERT_AFTER: Final = 5 * MINUTE
_MAY_PASS: Final = frozenset({OutcomeClass.TRANSIENT, OutcomeClass.RATE_LIMITED, OutcomeClass.AUTH})


def judge(event: LookedUp, jitter: float, policy: Policy) -> Judged:
    """What follows: the verdict on the doubt, or (None) the next look or wake-up; and the note that keeps this look."""
    answer = found(event.answer)
    if isinstance(answer, Outcome):
        return None, _failed(event, answer, jitter, policy), (_note(event, FAILED, answer.text),)
    notes = (_note(event, answer.presence.value, answer.text),)
    verdict = decided(event)
    if verdict is not None:
        return verdict, (), notes
    if not _spent(event, answer.presence):
        return None, (Lookup(event.at + BETWEEN),), notes
    alert = Alert(
        "in_doubt", f"attempt {event.attempt}: the provider can not tell what became of it; resolve it"
    )
    until = None if policy.hold_for is None else event.at + policy.hold_for
    return None, (WakeAt(until), alert), notes


def decided(event: LookedUp) -> Verdict | None:
    """It is certain that it arrived, or that it did not; None: neither."""
    answer = found(event.answer)
    if isinstance(answer, Outcome) or answer.presence is Presence.UNSURE:
        return None
    if answer.presence is Presence.ARRIVED:
        return Verdict.SENT
    return Verdict.NOT_SENT if _enough(event, Presence.ABSENT) else None


def told(event: LookedUp) -> Outcome:
    """A look that decided, as the outcome of the call that it is about."""
    answer = event.answer
    id_ = answer.message_id if isinstance(answer, Finding) else None
    if decided(event) is Verdict.SENT:
        return Outcome(OutcomeClass.ACCEPTED, message_id=id_, text=answer.text, rule="looked up: it is there")
    return Outcome(
        OutcomeClass.TRANSIENT, Code.TRANSIENT, text=answer.text, rule="looked up: it is not there"
    )


def found(answer: Finding | Outcome) -> Finding | Outcome:
    """What the provider told. A refusal that will not pass is an answer as well, which tells nothing."""
    if isinstance(answer, Outcome) and answer.cls not in _MAY_PASS:
        return Finding(Presence.UNSURE, text=answer.text)
    return answer


def looks(notes: Iterable[TimelineEntry], attempt: int) -> tuple[Look, ...]:
    """The looks of before, from the notes that kept them."""
    told = ((note.at, note.detail) for note in notes if note.kind == KIND)
    return tuple(
        Look(at, None if detail["told"] == FAILED else Presence(str(detail["told"])))
        for at, detail in told
        if detail["attempt"] == attempt
    )


def _spent(event: LookedUp, told: Presence) -> bool:
    """More looks would tell nothing new."""
    answers = [look for look in event.before if look.told is not None]
    return len(answers) + 1 >= MOST or (told is Presence.UNSURE and _enough(event, told))


def _enough(event: LookedUp, told: Presence) -> bool:
    """Three answers in a row say so, this one included, and lie far enough apart."""
    times = [event.at]
    for look in reversed(event.before):
        if look.told is not None:
            if look.told is not told:
                break
            times.append(look.at)
    return len(times) >= LOOKS and event.at - times[-1] >= OVER


def _failed(event: LookedUp, outcome: Outcome, jitter: float, policy: Policy) -> tuple[Effect, ...]:
    """Asked again later. What stops calls stops them here as well; a person is told once of a failure that lasts."""
    failed: list[int] = []
    for look in reversed(event.before):
        if look.told is not None:
            break
        failed.append(look.at)
    lasts = bool(failed) and event.at - failed[-1] >= ALERT_AFTER > failed[0] - failed[-1]
    more: tuple[Effect, ...] = ()
    if lasts:
        text = f"attempt {event.attempt}: the provider can not be asked what became of it: {outcome.text}"
        more = (Alert("lookup_failing", text),)
    if outcome.cls is OutcomeClass.AUTH:
        due = event.at + AUTH_AGAIN
        if not failed:
            more = (
                Pause(outcome.scope or "channel", "auth", due),
                Alert("auth", f"{outcome.code}: {outcome.text}"),
            )
        return (Lookup(due), *more)
    limited = outcome.cls is OutcomeClass.RATE_LIMITED
    hint = None if outcome.retry_after_s is None else outcome.retry_after_s * SECOND
    due = event.at + delay(policy, len(failed) + 1, jitter, hint, extended=limited, floor=outcome.floor)
    if limited and outcome.scope == "channel":
        more = (Pause("channel", "rate_limited", event.at + hint if hint is not None else due), *more)
    return (Lookup(due), *more)


def _note(event: LookedUp, told: str, text: str) -> Note:
    return Note(KIND, {"attempt": event.attempt, "told": told, "text": text})
