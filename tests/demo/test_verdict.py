"""The verdict of the demo: it must see what is lost, what came twice, and what was doubted too often."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ringonce.vendors.devices import Story, device_checks
from ringonce.vendors.ledger import Entry
from ringonce.vendors.verdict import Judgement, Promise, Told, judge

PROMISES = {"once": Promise("assume_sent", 2), "again": Promise("resend", 2)}
SENT = [
    Told(
        id=f"{channel}-{number}", channel=channel, reference=f"{channel}-{number}", status="sent", final=True
    )
    for channel in PROMISES
    for number in range(4)
]
REPORT: dict[str, Any] = {
    "accepted": 8,
    "sent": 8,
    "assumed": 0,
    "in_doubt": 0,
    "pending": 0,
    "failed": {},
    "suppressed": 0,
    "merged": 0,
    "cancelled": 0,
    "expired": 0,
    "duplicates_refused": 3,
}


def arrival(reference: str, verdict: str = "200") -> Entry:
    """A request; ``repeat``: one that the receiver ignored."""
    return Entry(reference, "somebody", 0, verdict, accepted=verdict == "200")


def all_arrived() -> dict[str, list[Entry]]:
    """Each notification once."""
    return {
        channel: [arrival(item.reference) for item in SENT if item.channel == channel] for channel in PROMISES
    }


def verdict(
    notifications: list[Told] = SENT,
    ledgers: Mapping[str, list[Entry]] | None = None,
    repeats: int = 0,
    kills: int = 1,
    **report: Any,
) -> Judgement:
    """A run in which everything went well but for what is said."""
    return judge(
        report=REPORT | report,
        repeats={"once": 0, "again": repeats},
        notifications=notifications,
        ledgers=all_arrived() if ledgers is None else ledgers,
        promises=PROMISES,
        accepted=8,
        refused=3,
        kills=kills,
    )


def broken(judgement: Judgement) -> list[str]:
    """The promises that were not kept, by their first words."""
    return [check.name for check in judgement.checks if not check.ok]


def changed(id_: str, **facts: Any) -> list[Told]:
    """All notifications, one of them with other facts."""
    return [replace(item, **facts) if item.id == id_ else item for item in SENT]


def test_all_is_well() -> None:
    """Everything sent arrived once: every promise is kept, and the counts say so."""
    judgement = verdict()
    assert (judgement.ok, broken(judgement)) == (True, [])
    assert {name: count.answered_arrived for name, count in judgement.channels.items()} == {
        "once": 4,
        "again": 4,
    }


@pytest.mark.parametrize("channel", PROMISES)
def test_a_lost_one_is_seen(channel: str) -> None:
    """Sent with an answer, and the server never received it: lost, and named."""
    ledgers = all_arrived()
    gone = ledgers[channel].pop()
    judgement = verdict(ledgers=ledgers)
    assert broken(judgement) == ["nothing is lost outside the named doubt"]
    assert gone.reference in judgement.checks[0].detail


def test_a_refused_arrival_is_lost() -> None:
    """A request that the server refused is no arrival."""
    ledgers = all_arrived()
    ledgers["once"][0] = replace(ledgers["once"][0], accepted=False, verdict="503")
    assert broken(verdict(ledgers=ledgers)) == ["nothing is lost outside the named doubt"]


def test_missing_inside_the_doubt_is_named() -> None:
    """What was assumed and never came is no loss outside the doubt, and is counted."""
    ledgers = all_arrived()
    ledgers["once"].pop()
    judgement = verdict(changed("once-3", assumed=True, unanswered=1), ledgers, assumed=1)
    assert judgement.ok
    assert (judgement.channels["once"].assumed, judgement.channels["once"].assumed_arrived) == (1, 0)


def test_assume_sent_forbids_any_repeat() -> None:
    """Under assume_sent a second arrival is a broken promise, even in doubt."""
    ledgers = all_arrived()
    ledgers["once"].append(arrival("once-1"))
    judgement = verdict(changed("once-1", unanswered=1), ledgers)
    assert "assume_sent: nothing came twice" in broken(judgement)


@pytest.mark.parametrize("how", ["200", "repeat"])
def test_resend_repeats_only_in_doubt(how: str) -> None:
    """Under resend a second arrival needs a call without a verdict, also where the receiver ignored it."""
    ledgers = all_arrived()
    ledgers["again"].append(arrival("again-1", how))
    assert broken(verdict(ledgers=ledgers, repeats=1)) == ["resend: nothing came twice outside the doubt"]
    assert verdict(changed("again-1", unanswered=1), ledgers, repeats=1).ok
    ledgers["again"].append(arrival("again-1", how))
    assert broken(verdict(changed("again-1", unanswered=1), ledgers, repeats=2)) == [
        "resend: nothing came twice outside the doubt"
    ]


def test_repeats_must_be_told_of() -> None:
    """More came twice than the once report's repeats say: it does not add up."""
    ledgers = all_arrived()
    ledgers["again"].append(arrival("again-1"))
    assert broken(verdict(changed("again-1", lost_calls=1), ledgers, repeats=0)) == [
        "the once report adds up"
    ]


@pytest.mark.parametrize(("kills", "kept"), [(1, False), (2, True)])
def test_too_many_doubts_of_a_kill_are_seen(kills: int, kept: bool) -> None:
    """Three calls lost with a worker whose channel may have two under way: one too many, unless two were killed."""
    doubted = [
        replace(item, lost_calls=1) if item.id in {"again-0", "again-1", "again-2"} else item for item in SENT
    ]
    judgement = verdict(doubted, kills=kills)
    assert judgement.ok is kept
    assert kept or "<= concurrency" in broken(judgement)[0]


def test_doubts_of_the_server_are_counted_apart() -> None:
    """A server that does not answer causes doubts beyond any bound of the kill."""
    judgement = verdict([replace(item, unanswered=1) for item in SENT])
    assert judgement.ok
    assert (judgement.channels["again"].unanswered, judgement.channels["again"].lost_calls) == (4, 0)


def test_a_failed_one_must_not_have_come() -> None:
    """Told as failed, and it came: broken, unless it is named as possibly sent."""
    failed = {"status": "failed", "code": "NTF_PROVIDER_BLOCKED"}
    report = {"sent": 7, "failed": {"NTF_PROVIDER_BLOCKED": 1}}
    assert broken(verdict(changed("once-0", **failed), **report)) == [
        "nothing came that is said not to be sent"
    ]
    assert verdict(changed("once-0", **failed, maybe_sent=True, unanswered=1), **report).ok


def test_what_was_never_accepted_must_not_come() -> None:
    """An arrival that belongs to no notification is seen."""
    ledgers = all_arrived()
    ledgers["once"].append(arrival("from nowhere"))
    assert broken(verdict(ledgers=ledgers)) == ["nothing came that was not accepted"]


def test_everything_must_have_ended() -> None:
    """What still waits is seen."""
    waiting = changed("once-0", status="pending", final=False)
    judgement = verdict(waiting, {**all_arrived(), "once": all_arrived()["once"][1:]}, sent=7, pending=1)
    assert broken(judgement) == ["everything has come to its end"]


@pytest.mark.parametrize(
    "report", [{"sent": 7}, {"accepted": 7}, {"pending": 1}, {"assumed": 1}, {"failed": {"x": 1}}]
)
def test_the_report_must_say_what_the_rows_say(report: dict[str, Any]) -> None:
    """A once report that differs from the notifications does not add up."""
    assert broken(verdict(**report)) == ["the once report adds up"]


def story(**facts: Any) -> Story:
    """A device that was called once, refused, dropped at 20, and called no more."""
    whole: dict[str, Any] = {"refused": True, "dropped_at": 20, "begun": (10,), "requests": 1, **facts}
    return Story("push", "customer-1", **whole)


@pytest.mark.parametrize(
    ("facts", "kept"),
    [
        ({}, True),
        ({"begun": (10, 21), "requests": 2}, False),
        ({"requests": 2}, False),
        ({"dropped_at": None}, False),
        ({"dropped_at": None, "refused": False}, True),
        ({"back_at": 30, "told": True, "begun": (10, 31), "requests": 2}, True),
        ({"back_at": 30, "told": True, "begun": (10, 25), "requests": 2}, False),
        ({"back_at": 15, "told": True}, True),
        ({"back_at": 15, "told": True, "begun": (10, 21), "requests": 2}, False),
    ],
)
def test_a_dead_device_is_left_alone(facts: dict[str, Any], kept: bool) -> None:
    """Called while it was dropped, called more often than is told of, or refused and not dropped: each is seen."""
    left_alone, told_again = device_checks([story(**facts)])
    assert left_alone.ok is kept
    assert kept or left_alone.detail == "customer-1 (push)"
    assert told_again.ok


def test_who_comes_back_is_told() -> None:
    """A device that registered again and was not told of the next event is seen, and breaks the verdict."""
    checks = device_checks([story(back_at=30), story(back_at=30, told=True)])
    assert [check.ok for check in checks] == [True, False]
    judgement = judge(
        report=REPORT,
        repeats={},
        notifications=SENT,
        ledgers=all_arrived(),
        promises=PROMISES,
        accepted=8,
        refused=3,
        kills=1,
        more=checks,
    )
    assert broken(judgement) == ["a device that registers again is told again"]


def test_duplicates_must_have_been_refused() -> None:
    """Fewer refused than handed over twice: seen."""
    assert broken(verdict(duplicates_refused=2)) == ["what was handed over twice was refused once"]
