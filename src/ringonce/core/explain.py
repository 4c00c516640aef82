"""One notification's life in words: every decision, attempt and doubt, and what happens next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from ringonce.core.lane import parse
from ringonce.core.scope import in_words
from ringonce.model.notification import Status
from ringonce.model.outcome import Code
from ringonce.model.proposals import MASS_INVALIDATION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ringonce.model.notification import State
    from ringonce.model.policy import Policy
    from ringonce.model.records import AttemptRow, LaneState, Life, TimelineEntry

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence. ``at``: when it happened, microseconds UTC; None: it is about now and later."""

    at: int | None
    text: str


def iso(micros: int) -> str:
    """Microseconds UTC as ISO 8601 with milliseconds and ``Z``."""
    moment = EPOCH + timedelta(microseconds=micros)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def explain(
    life: Life,
    now: int,
    *,
    policy: Policy | None = None,
    lane: LaneState | None = None,
    enabled: bool = True,
    when: Callable[[int], str] = iso,
) -> list[str]:
    """The lines of ``story`` as text, each past one with its time before it."""
    told = story(life, now, policy=policy, lane=lane, enabled=enabled, when=when)
    return [line.text if line.at is None else f"{when(line.at)}  {line.text}" for line in told]


def story(
    life: Life,
    now: int,
    *,
    policy: Policy | None = None,
    lane: LaneState | None = None,
    enabled: bool = True,
    when: Callable[[int], str] = iso,
) -> list[Line]:
    """What happened, in order of time, then how it stands, its doubts, and what happens next.

    Args:
        life: Everything the store knows about the notification.
        now: Microseconds UTC.
        policy: The channel's settings, for "retry 2 of 3"; None: they are not known here.
        lane: The state of the channel's lane; None: it is not paused.
        enabled: The channel is switched on.
        when: How times are written.
    """
    row, state = life.row, life.row.state
    kind = f" ({row.event_type})" if row.event_type else ""
    born = Line(row.created_at, f"accepted: event {row.event_id}{kind} for {row.recipient} by {row.channel}")
    past = [Line(entry.at, _note(entry)) for entry in life.notes]
    several = len({attempt.account for attempt in life.attempts}) > 1
    past += [_attempt(attempt, several=several) for attempt in life.attempts]
    past.sort(key=_moment)
    lines = [born, *past, Line(None, _standing(life))]
    if state.unknown and state.status is not Status.IN_DOUBT:
        lines.append(
            Line(None, f"in doubt: {_numbers(state)} got no verdict and may have reached the recipient")
        )
    lines.extend(Line(None, text) for text in _next(life, now, policy, lane, when, enabled=enabled))
    return lines


def _moment(line: Line) -> int:
    return line.at or 0


def _attempt(attempt: AttemptRow, *, several: bool) -> Line:
    """One call: what came of it, by which rule that was read from the answer, and (of several) who was asked."""
    at = attempt.started_at if attempt.ended_at is None else attempt.ended_at
    who = f"attempt {attempt.number}" + (f" at {attempt.account}" if several else "")
    who += " (answered late)" if attempt.late else ""
    if attempt.outcome == "accepted":
        known = f", message id {attempt.message_id}" if attempt.message_id else ""
        return Line(at, f"{who}: the provider accepted it{known}")
    told, word = attempt.answer, attempt.provider_code or ""
    answer = told if word in told else f"{word} {told}".strip()
    said = f": {answer}" if answer else ""
    rule = f" [rule: {attempt.rule}]" if attempt.rule else ""
    if attempt.outcome == "unknown":
        return Line(at, f"{who}: it began, and no verdict came{said}{rule}")
    code = f" {attempt.code}" if attempt.code else ""
    return Line(at, f"{who}: {attempt.outcome.replace('_', ' ')}{code}{said}{rule}")


def _reason(detail: Mapping[str, object]) -> str:
    by, reason = detail.get("by"), detail.get("reason")
    return (f" by {by}" if by else "") + (f": {reason}" if reason else "")


def _note(entry: TimelineEntry) -> str:
    """One entry of the timeline; a kind that has no sentence of its own is told as it is."""
    detail = entry.detail
    match entry.kind:
        case "suppressed":
            return f"suppressed by the rule {detail.get('reason')}"
        case "cancelled" | "expired":
            return f"{entry.kind}{_reason(detail)}"
        case "resolved":
            verdict = {"sent": "it was sent", "not_sent": "it was not sent", "assumed": "it counts as sent"}
            said = verdict.get(str(detail.get("verdict")), str(detail.get("verdict")))
            return f"the doubt was resolved by {detail.get('by')}: {said}"
        case "retried":
            force = ", forced" if detail.get("force") else ""
            return f"{detail.get('by')} wanted it sent again{force}: revision {detail.get('revision')}, new budgets"
        case "discarded":
            return f"looked at and let be{_reason(detail)}"
        case "reopened":
            return (
                f"reopened as revision {detail.get('revision')}: attempt {detail.get('attempt')}, on which it "
                f"rested, proved to have failed ({detail.get('code')})"
            )
        case "late_verdict":
            return f"the late answer to attempt {detail.get('attempt')} decided: {detail.get('outcome')}"
        case "looked_up":
            return _look(detail)
        case "receipt":
            codes = " ".join(str(detail[name]) for name in ("code", "provider_code") if detail.get(name))
            why = f" ({codes})" if codes else ""
            return f"the provider reports attempt {detail.get('attempt')} as {detail.get('kind')}{why}"
        case "read":
            return "read by the recipient"
        case "erased":
            return f"the person was erased by {detail.get('by')}: their data are gone, this line stays"
        case "code_error" if detail.get("code") == Code.TEMPLATE_INVALID:
            return f"its template failed: {detail.get('text')}"
        case "verdict_doubted":
            return (
                "the address was called dead, as too many others were: the verdict is doubted, the address is set "
                "apart, and this waits until a person has decided"
            )
        case "credential_failed":
            return f"no credential could be fetched, so no attempt began: {detail.get('text')}"
        case "code_error":
            return f"a code error: what we sent can not be accepted ({detail.get('code')})"
        case _:
            facts = ", ".join(f"{key} {value}" for key, value in detail.items())
            return entry.kind.replace("_", " ") + (f": {facts}" if facts else "")


def _look(detail: Mapping[str, object]) -> str:
    """One look at the provider."""
    words = {
        "arrived": "it is there",
        "absent": "it is not there",
        "unsure": "the answer does not tell",
        "failed": "it could not be asked",
    }
    said = words.get(str(detail.get("told")), str(detail.get("told")))
    why = f": {detail['text']}" if detail.get("text") else ""
    return f"the provider was asked what became of attempt {detail.get('attempt')}: {said}{why}"


def _numbers(state: State) -> str:
    numbers = ", ".join(str(number) for number in state.unknown)
    return f"attempt {numbers}" if len(state.unknown) == 1 else f"attempts {numbers}"


def _standing(life: Life) -> str:
    """The status in a sentence."""
    state = life.row.state
    error = f": {state.last_error.code} {state.last_error.text}".rstrip() if state.last_error else ""
    match state.status:
        case Status.SENT:
            return "sent, by assumption: no verdict ever came" if state.assumed else "sent"
        case Status.FAILED:
            return f"failed{'' if state.next_attempt_at is None else ', for now'}{error}"
        case Status.IN_DOUBT:
            return f"in doubt: {_numbers(state)} began and no verdict came; it may have reached the recipient"
        case Status.CANCELLED | Status.EXPIRED if state.rests_on is not None:
            return f"{state.status.value}, but attempt {state.rests_on} had reached the provider"
        case Status.PENDING if state.last_error is not None:
            return f"pending; last error{error}"
        case _:
            return state.status.value


def _next(
    life: Life,
    now: int,
    policy: Policy | None,
    lane: LaneState | None,
    when: Callable[[int], str],
    *,
    enabled: bool,
) -> list[str]:
    """What will happen by itself, what holds it up, or who must act."""
    state, id_ = life.row.state, life.row.id
    if state.final:
        if state.status is Status.FAILED:
            return [f"nothing more will be tried; a person must look: ringonce failures retry {id_}"]
        return []
    if state.status is Status.DRAFT:
        return ["waits for approval"]
    if state.status is Status.IN_DOUBT:
        return [_doubt(life, when)]
    lease = life.row.lease
    if lease is not None:
        if lease.started_at is None:
            return ["next: a worker holds it and is about to send it"]
        return [f"next: the answer to attempt {lease.attempt}, which began at {when(lease.started_at)}"]
    lines = [f"next: {_call(life, now, policy, when)}"]
    if not enabled:
        lines.append("waits: channel disabled")
    elif lane is not None and lane.paused:
        why = f" ({lane.reason})" if lane.reason else ""
        until = "somebody resumes it" if lane.until is None else when(lane.until)
        if scope := parse(lane.lane).scope:
            lines.append(f"waits: {in_words(scope)} is paused{why}; at {until} one call tries it again")
        else:
            lines.append(f"waits: channel paused{why} until {until}")
        if lane.reason == MASS_INVALIDATION:
            lines.append(f"decide: ringonce recipients quarantine list --channel {life.row.channel}")
    if state.expires_at is not None:
        lines.append(f"expires at {when(state.expires_at)} unless it is sent before")
    return lines


def _doubt(life: Life, when: Callable[[int], str]) -> str:
    """Who decides the doubt."""
    due = life.due
    if due is not None and due.purpose == "lookup" and due.at is None:
        return "next: the provider is being asked what became of it"
    if due is not None and due.at is not None:
        if due.purpose == "lookup":
            return f"next: at {when(due.at)} the provider is asked what became of it"
        return f"next: at {when(due.at)} it counts as sent, unless a person or a receipt decides before"
    return "nothing is tried by itself; a receipt decides, or a person: resolve it as sent or not sent"


def _call(life: Life, now: int, policy: Policy | None, when: Callable[[int], str]) -> str:
    """The next call: which, and when."""
    state = life.row.state
    due = state.next_attempt_at or now
    at = "as soon as a worker is free" if due <= now else f"at {when(due)}"
    if state.status is Status.PENDING:
        return f"it is sent {at}" if not state.attempts else f"it is sent again {at}"
    if due <= now and life.due is not None and not life.due.armed:
        at = "at the next tick of the retry cycle"
    return f"a retry {at}{_which(life, policy)}"


def _which(life: Life, policy: Policy | None) -> str:
    """Which retry it is, counted in the class that failed last: ``(retry 2 of 3)``."""
    spent, error = life.row.state.spent, life.row.state.last_error
    if policy is None or error is None:
        return ""
    silent = bool(life.attempts) and life.attempts[-1].outcome == "unknown"
    if silent and policy.budgets.unknown is not None:
        number, of = spent.unknown, policy.budgets.unknown
    elif error.code == Code.RATE_LIMITED:
        number, of = spent.rate_limited, policy.budgets.rate_limited
    else:
        number, of = spent.transient, policy.budgets.transient
    return f" (retry {number} of {of})" if number else ""
