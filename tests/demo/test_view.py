"""What the demo shows, on a terminal of 80 columns."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ringonce.cli.demo import Outcome, Progress
from ringonce.cli.demo_view import Lines, Screen, calls, interesting, show
from ringonce.vendors.ledger import Entry
from ringonce.vendors.scenario import CONCURRENCY, Scenario
from ringonce.vendors.verdict import Promise, Told, judge

ID = "01a22c1b-a95c-7b22-963e-644425c24ab{}"
TOLD = [
    Told(ID.format(0), "email", "0", "sent", final=True, calls=2),
    Told(ID.format(1), "email", "1", "sent", final=True, calls=2, lost_calls=1),
    Told(ID.format(2), "hook", "2", "sent", final=True, calls=2, unanswered=1),
    Told(ID.format(3), "telegram", "3", "sent", final=True, calls=1, assumed=True, lost_calls=1),
    Told(ID.format(4), "telegram", "4", "sent", final=True, calls=1, assumed=True, unanswered=1),
    Told(ID.format(5), "email", "5", "failed", final=True, calls=1, code="NTF_PROVIDER_INVALID_RECIPIENT"),
    Told(ID.format(6), "telegram", "6", "failed", final=True, calls=1, code="NTF_PROVIDER_BLOCKED"),
    Told(ID.format(7), "push", "7", "failed", final=True, calls=1, code="NTF_PUSH_TOKEN_INVALID"),
]
UNTOLD = [
    Told(ID.format(8), "webpush", "8", "suppressed", final=True),
    Told(ID.format(9), "inapp", "9", "sent", final=True),
]
REPORT: dict[str, Any] = {
    "accepted": 10,
    "sent": 6,
    "assumed": 2,
    "failed": {"NTF_PROVIDER_INVALID_RECIPIENT": 1, "NTF_PROVIDER_BLOCKED": 1, "NTF_PUSH_TOKEN_INVALID": 1},
    "duplicates_refused": 100,
    "suppressed": 1,
    **dict.fromkeys(("in_doubt", "pending", "merged", "cancelled", "expired"), 0),
}


def outcome(*, lost: bool = False) -> Outcome:
    """A run of a thousand; ``lost``: one that was answered never came."""
    scenario = Scenario(1_000, 7)
    came = {
        "email": ["0", "1", "1"],
        "hook": ["2"],
        "telegram": ["3"],
        "push": [],
        "webpush": [],
        "inapp": ["9"],
    }
    if lost:
        came["hook"] = []
    ledgers = {
        name: [Entry(reference, "", 0, "200", accepted=True) for reference in references]
        for name, references in came.items()
    }
    judgement = judge(
        report=REPORT,
        repeats={"email": 1, "hook": 1},
        notifications=[*TOLD, *UNTOLD],
        ledgers=ledgers,
        promises={way.channel: Promise(way.in_doubt, CONCURRENCY) for way in scenario.ways},
        accepted=10,
        refused=100,
        kills=1,
    )
    return Outcome(
        scenario, 7, Path("/tmp/ringonce-demo-ozi4owzm/ringonce.toml"), REPORT, judgement, TOLD, ledgers, 9, 12.3  # noqa: S108
    )  # fmt: skip


def shown(run: Outcome) -> str:
    """The end of the demo."""
    console = Console(width=80, file=io.StringIO(), color_system=None)
    show(console, run)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_end_compares_and_fits() -> None:
    """The table has both sides, nothing is cut off, only commands may be longer than 80 columns."""
    text = shown(outcome())
    assert "ringonce says" in text
    assert "the servers received" in text
    assert "…" not in text
    assert [
        line for line in text.splitlines() if len(line.rstrip()) > 80 and "ringonce explain" not in line
    ] == []
    assert "Every promise was kept" in text
    assert "suppressed: no device left" in text
    assert "stored; streamed to its reader" in text


def test_the_end_names_a_broken_promise() -> None:
    """A loss is shown with its id, and nobody says that all was kept."""
    text = shown(outcome(lost=True))
    assert f"✗ nothing is lost outside the named doubt: {ID.format(2)}" in text
    assert "A promise was broken" in text
    assert "was kept" not in text


def test_every_kind_can_be_explored() -> None:
    """Of each kind there is an id to explain, in a command that can be copied."""
    assert {id_ for _, id_ in interesting(TOLD)} == {told.id for told in TOLD}
    text = shown(outcome())
    for told in TOLD:
        assert f" explain {told.id}\n" in text
    assert "export RINGONCE_CONFIG=/tmp/ringonce-demo-ozi4owzm/ringonce.toml" in text
    assert "failures list" in text


def progress() -> Progress:
    """In the middle."""
    row = {
        "accepted": 400,
        "sent": 390,
        "failed": {"x": 4},
        "in_doubt": 0,
        "assumed": 1,
        "repeats": 2,
        "pending": 6,
    }
    entries = [Entry("r", "", 0, "200", accepted=True), Entry("r", "", 0, "503", accepted=False)]
    names = ("email", "hook", "telegram", "push", "webpush", "inapp")
    return Progress(1_000, 400, 40, dict.fromkeys(names, row), dict.fromkeys(names, entries))


@pytest.mark.parametrize("width", [80, 100])
def test_the_live_view_fits(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers of every channel beside those of its server, in 80 columns."""
    screen = Screen(Console(width=width, force_terminal=True, color_system=None))
    with_servers = Scenario(1_000, 7)
    screen.begin(with_servers, 7, Path("ringonce.toml"))
    screen.step("something happened")
    screen.update(progress())
    screen.end()
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "…" in line] == []
    rows = [line for line in lines if line.strip().startswith("hook")]
    assert rows[-1].split() == ["hook", "390", "4", "3", "6", "│", "2", "1", "1"]


def test_plain_lines() -> None:
    """Without a terminal: a line for each thing that happens, and numbers every two seconds at most."""
    lines: list[str] = []
    plain = Lines(lines.append)
    plain.begin(Scenario(1_000, 7), 7, Path("ringonce.toml"))
    plain.update(progress())
    plain.update(progress())
    assert sum("2340 sent, 24 failed, 18 in doubt; waiting: email 6, hook 6" in line for line in lines) == 1
    assert any("seed 7" in line for line in lines)


def test_what_to_try_while_it_stays() -> None:
    """The running API is named with three calls that can be copied: one notification, its timeline, an inbox."""
    lines = calls("http://127.0.0.1:8070", outcome())
    assert any("The API runs on http://127.0.0.1:8070," in line for line in lines)
    copied = [line.strip() for line in lines if "curl" in line]
    assert copied == [
        f"curl -s http://127.0.0.1:8070/v1/notifications/{ID.format(0)}",
        f"curl -s http://127.0.0.1:8070/v1/notifications/{ID.format(0)}/timeline",
        "curl -s http://127.0.0.1:8070/v1/inbox/customer-1",
    ]
