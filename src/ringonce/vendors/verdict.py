"""What ringonce says against what the servers really received: the verdict, as a pure function.

The *named doubt* are the calls that began and got no answer, each stored as an attempt without a verdict. Only
there may something be missing (under ``assume_sent``) or come twice (under ``resend``). A doubt that the kill of a
worker left is bounded by the calls that a channel may have under way; one that a server caused itself (it took the
message and answered never, or reset the connection) is not, and is counted apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ringonce.ports import AttemptRow, Row
    from ringonce.vendors.ledger import Entry

LEASE_LOST = "lease lost"
"""The rule of an attempt whose worker did not live to see the answer."""
SHOWN = 3
"""Ids in a detail."""


@dataclass(frozen=True, slots=True)
class Told:
    """What ringonce says about one notification.

    ``reference``: as the ledger of its channel writes it. ``lost_calls``: calls without a verdict because the
    worker was killed; ``unanswered``: because the server did not answer.
    """

    id: str
    channel: str
    reference: str
    status: str
    final: bool
    code: str = ""
    calls: int = 0
    assumed: bool = False
    maybe_sent: bool = False
    lost_calls: int = 0
    unanswered: int = 0

    @property
    def doubts(self) -> int:
        """All calls without a verdict."""
        return self.lost_calls + self.unanswered


@dataclass(frozen=True, slots=True)
class Promise:
    """How a channel is set: ``in_doubt`` is ``resend`` or ``assume_sent``; ``concurrency``: calls under way at most."""

    in_doubt: str
    concurrency: int


@dataclass(slots=True)
class Count:
    """One channel. Notifications, but for ``repeats…``, ``lost_calls`` and ``unanswered``, which are calls."""

    accepted: int = 0
    answered: int = 0
    answered_arrived: int = 0
    assumed: int = 0
    assumed_arrived: int = 0
    failed: int = 0
    failed_arrived: int = 0
    suppressed: int = 0
    others: int = 0
    repeats: int = 0
    repeats_arrived: int = 0
    lost_calls: int = 0
    unanswered: int = 0
    codes: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Check:
    """One promise: kept or not, and the numbers."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """All promises, and the counts by channel."""

    checks: tuple[Check, ...]
    channels: Mapping[str, Count]

    @property
    def ok(self) -> bool:
        """Every promise was kept."""
        return all(check.ok for check in self.checks)


def told(row: Row, reference: str, attempts: Iterable[AttemptRow] = ()) -> Told:
    """The facts of a row; ``attempts`` are needed only where one has no verdict."""
    state = row.state
    unknown = [attempt for attempt in attempts if attempt.number in state.unknown]
    lost = sum(attempt.rule == LEASE_LOST for attempt in unknown)
    return Told(
        id=str(row.id),
        channel=row.channel,
        reference=reference,
        status=state.status.value,
        final=state.final,
        code=state.last_error.code if state.last_error else "",
        calls=state.attempts,
        assumed=state.assumed,
        maybe_sent=state.maybe_sent,
        lost_calls=lost,
        unanswered=len(state.unknown) - lost,
    )


def judge(
    *,
    report: Mapping[str, Any],
    repeats: Mapping[str, int],
    notifications: Sequence[Told],
    ledgers: Mapping[str, Sequence[Entry]],
    promises: Mapping[str, Promise],
    accepted: int,
    refused: int,
    kills: int,
    more: Sequence[Check] = (),
) -> Judgement:
    """Compare.

    Args:
        report: the totals of the once report.
        repeats: the once report's ``repeats`` by channel.
        notifications: what ringonce says about each.
        ledgers: by channel, what its server received.
        promises: by channel.
        accepted: how many notifications were handed over.
        refused: how many events were handed over a second time.
        kills: how many workers were killed.
        more: what else was looked at.
    """
    arrivals = {
        name: Counter(entry.reference for entry in entries if entry.arrived)
        for name, entries in ledgers.items()
    }
    channels = {name: Count(repeats=repeats.get(name, 0)) for name in promises}
    lost, denied, twice, outside = [], [], [], []
    for item in notifications:
        came = arrivals[item.channel][item.reference]
        _add(channels[item.channel], item, came)
        if item.status == "sent" and not item.assumed and not came:
            lost.append(item.id)
        if item.status != "sent" and not item.maybe_sent and came:
            denied.append(item.id)
        if came > 1:
            if promises[item.channel].in_doubt == "assume_sent":
                twice.append(item.id)
            elif came - 1 > item.doubts:
                outside.append(item.id)
    known = {(item.channel, item.reference) for item in notifications}
    strangers = [
        reference for name, seen in arrivals.items() for reference in seen if (name, reference) not in known
    ]
    waiting = [item.id for item in notifications if not item.final]
    assumed = sum(count.assumed for count in channels.values())
    missing = sum(count.assumed - count.assumed_arrived for count in channels.values())
    again = sum(count.repeats_arrived for count in channels.values())
    killed = {name: count.lost_calls for name, count in channels.items()}
    checks = (
        listed(
            "nothing is lost outside the named doubt", lost, _of(missing, assumed, "assumed", "never came")
        ),
        listed("assume_sent: nothing came twice", twice),
        listed("resend: nothing came twice outside the doubt", outside, f"{again} did, all in doubt"),
        listed(
            f"doubts of {kills} kill{'s' * (kills != 1)} <= concurrency",
            [
                f"{name} {count} of {promises[name].concurrency * kills}"
                for name, count in killed.items()
                if count > promises[name].concurrency * kills
            ],
            f"{max(killed.values(), default=0)} at most on a channel",
        ),
        listed("nothing came that is said not to be sent", denied),
        listed("nothing came that was not accepted", strangers),
        listed("everything has come to its end", waiting),
        *more,
        Check(
            "what was handed over twice was refused once",
            report["duplicates_refused"] == refused,
            f"{report['duplicates_refused']} of {refused} events",
        ),
        _adds_up(report, notifications, channels, accepted),
    )
    return Judgement(checks, channels)


def _add(count: Count, item: Told, came: int) -> None:
    count.accepted += 1
    count.lost_calls += item.lost_calls
    count.unanswered += item.unanswered
    count.repeats_arrived += max(0, came - 1)
    if item.status == "sent" and item.assumed:
        count.assumed += 1
        count.assumed_arrived += bool(came)
    elif item.status == "sent":
        count.answered += 1
        count.answered_arrived += bool(came)
    elif item.status == "failed" and item.final:
        count.failed += 1
        count.failed_arrived += bool(came)
        count.codes[item.code] += 1
    elif item.status == "suppressed":
        count.suppressed += 1
    else:
        count.others += 1


def _of(part: int, whole: int, what: str, did: str) -> str:
    return f"{part} of {whole} {what} {did}" if whole else ""


def listed(name: str, wrong: Sequence[str], right: str = "") -> Check:
    """A check that fails when anything is listed. ``right``: the detail otherwise."""
    more = "" if len(wrong) <= SHOWN else f" and {len(wrong) - SHOWN} more"
    return Check(name, not wrong, f"{', '.join(wrong[:SHOWN])}{more}" if wrong else right)


def _adds_up(
    report: Mapping[str, Any], notifications: Sequence[Told], channels: Mapping[str, Count], accepted: int
) -> Check:
    """The once report says what the rows say, and counts everything that was handed over."""
    counts = channels.values()
    rows = {
        "accepted": len(notifications),
        "sent": sum(count.answered + count.assumed for count in counts),
        "assumed": sum(count.assumed for count in counts),
        "failed": sum(count.failed for count in counts),
    }
    says = {name: sum(report[name].values()) if name == "failed" else report[name] for name in rows}
    wrong = [f"{name} {says[name]}, counted {rows[name]}" for name in rows if says[name] != rows[name]]
    ended = ("sent", "suppressed", "merged", "cancelled", "expired", "in_doubt", "pending")
    total = says["failed"] + sum(report[name] for name in ended)
    if total != accepted or says["accepted"] != accepted:
        wrong.append(f"{accepted} handed over, {says['accepted']} accepted, {total} accounted for")
    wrong += [
        f"{name}: {count.repeats_arrived} came twice, and {count.repeats} repeats are told of"
        for name, count in channels.items()
        if count.repeats_arrived > count.repeats
    ]
    detail = f"{accepted} = {says['sent']} sent + {says['failed']} failed"
    if report["suppressed"]:
        detail += f" + {report['suppressed']} suppressed"
    rest = accepted - says["sent"] - says["failed"] - report["suppressed"]
    return Check(
        "the once report adds up", not wrong, "; ".join(wrong) or detail + (f" + {rest}" * bool(rest))
    )
