"""What ``demo`` shows: a live view on a terminal, plain lines elsewhere, and the once report in the end.

80 columns, and named colours only, so that it reads on dark and on light terminals.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ringonce.cli.demo import Outcome, Progress
    from ringonce.vendors.flaky import Way
    from ringonce.vendors.scenario import Scenario
    from ringonce.vendors.verdict import Count, Told

WIDTH = 80
EVERY = 2.0
"""Seconds between two plain lines of numbers."""
COLOURS = {"✓": "green", "✗": "red"}
FOR_GOOD = ("NTF_PROVIDER_INVALID_RECIPIENT", "NTF_PROVIDER_BLOCKED", "NTF_PUSH_TOKEN_INVALID")
SAID = {
    FOR_GOOD[0]: "the recipient is unknown",
    FOR_GOOD[1]: "the recipient blocked us",
    FOR_GOOD[2]: "the device is dead",
    "NTF_PROVIDER_TRANSIENT": "retries used up",
    "NTF_PROVIDER_RATE_LIMITED": "retries used up",
}

KINDS = (
    "refused for now, called again",
    "called again, since the server did not answer",
    "called again, since the worker was killed",
    "assumed sent, since the server did not answer",
    "assumed sent, since the worker was killed",
)


def numbers(progress: Progress, name: str) -> tuple[int, int, int, int]:
    """Sent, failed, in doubt and waiting, of a channel."""
    row = progress.channels.get(name)
    if row is None:
        return 0, 0, 0, 0
    failed = sum(row["failed"].values())
    doubt = int(row["in_doubt"]) + int(row["assumed"]) + int(row["repeats"])
    return int(row["sent"]), failed, doubt, int(row["pending"])


def server_numbers(progress: Progress, name: str) -> tuple[int, int, int]:
    """Requests, messages taken, and what a server refused or broke off."""
    entries = progress.received.get(name, ())
    taken = sum(entry.accepted for entry in entries)
    return len(entries), taken, sum(not entry.arrived for entry in entries)


class Lines:
    """Plain lines: for files, pipes and ``--json``."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """``write`` takes one line."""
        self._write = write
        self._began = time.monotonic()
        self._next = 0.0

    def begin(self, scenario: Scenario, seed: int, config: Path) -> None:
        """The servers listen."""
        self._write(title(scenario, seed))
        for way in scenario.ways:
            self._write(f"  {way.title}{way.where}: {'; '.join(way.faults)}")
        for name, why in scenario.left_out.items():
            self._write(f"  left out: {name}, for {why}")
        self._write(f"  {low()}")
        self._write(f"  {config}")

    def step(self, text: str, mark: str = "✓") -> None:
        """Something has happened."""
        self._write(f"{mark} {time.monotonic() - self._began:5.1f} s  {text}")

    def update(self, progress: Progress) -> None:
        """The numbers, every two seconds."""
        now = time.monotonic() - self._began
        if not progress.channels or now < self._next:
            return
        self._next = now + EVERY
        told = {name: numbers(progress, name) for name in progress.channels}
        sent, failed, doubt, _ = (sum(column) for column in zip(*told.values(), strict=True))
        waiting = ", ".join(f"{name} {row[3]}" for name, row in told.items() if row[3])
        self._write(
            f"  {now:5.1f} s  {sent} sent, {failed} failed, {doubt} in doubt; waiting: {waiting or 'none'}"
        )

    def end(self) -> None:
        """Nothing to tidy up."""

    def result(self, outcome: Outcome) -> None:
        """The report, unstyled."""
        show(Console(width=WIDTH, highlight=False, no_color=True), outcome)


class Screen:
    """A live view on the terminal."""

    def __init__(self, console: Console | None = None) -> None:
        """Nothing is shown before ``begin``. ``console``: None is the terminal."""
        self._console = console or Console(highlight=False)
        self._console.width = min(self._console.width, WIDTH)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._began = time.monotonic()
        self._ways: tuple[Way, ...] = ()
        self._total = 0

    def begin(self, scenario: Scenario, seed: int, config: Path) -> None:  # noqa: ARG002 - shown in the end
        """The servers listen."""
        self._ways, self._total = scenario.ways, scenario.notifications
        self._console.print(Text(title(scenario, seed), "bold"))
        for way in scenario.ways:
            line = Text.assemble((f"  {way.title:<19}", "cyan"))
            line.append("; ".join(way.faults), "default")
            self._console.print(line, no_wrap=True, overflow="ellipsis")
        for name, why in scenario.left_out.items():
            self._console.print(Text(f"  left out: {name}, for {why}", "yellow"))
        self._console.print(Text(f"  {low()}", "dim"))
        self._live.start()

    def step(self, text: str, mark: str = "✓") -> None:
        """Something has happened: it stays above the numbers."""
        line = Text.assemble((f"{mark} ", COLOURS[mark]))
        line.append(f"{time.monotonic() - self._began:5.1f} s  ", "dim")
        line.append(text, "bold red" if mark == "✗" else "default")
        self._console.print(line)

    def update(self, progress: Progress) -> None:
        """Draw the numbers anew."""
        table = _table()
        table.add_column("", min_width=8)
        for name, style in (("sent", "green"), ("failed", "red"), ("in doubt", "magenta"), ("waiting", "")):
            table.add_column(name, justify="right", style=style, min_width=7)
        table.add_column("│", style="dim")
        for name in ("requests", "messages", "refused"):
            table.add_column(name, justify="right")
        for way in self._ways:
            told, received = numbers(progress, way.channel), server_numbers(progress, way.channel)
            table.add_row(Text(way.channel, "bold"), *map(str, told), "│", *map(str, received))
        ended = progress.ended if progress.handed >= self._total else 0
        # Owners of dead devices are told once more in the end.
        total = max(self._total, progress.handed)
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(
                total=total, completed=ended, width=44, complete_style="green", finished_style="green"
            ),
            f"{ended:,} of {total:,} have come to their end",
        )
        head = Text(f"\n{'':10}{'ringonce says':^35}    {'the servers received':^27}", "bold cyan")
        self._live.update(Group(head, table, bar), refresh=True)

    def end(self) -> None:
        """Take the numbers away; the report follows."""
        self._live.stop()

    def result(self, outcome: Outcome) -> None:
        """The report in colours."""
        show(self._console, outcome)


def _table(*, footer: bool = False) -> Table:
    """An airy table that fits: two columns between its columns."""
    return Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        header_style="bold",
        footer_style="bold",
        show_footer=footer,
    )


def title(scenario: Scenario, seed: int) -> str:
    """The first line."""
    flaky = sum(way.server is not None for way in scenario.ways)
    return (
        f"ringonce demo: {scenario.notifications:,} notifications for {scenario.recipients} people, "
        f"{flaky} flaky servers, seed {seed}"
    )


def low() -> str:
    """What is set low."""
    from ringonce.vendors.scenario import SETTINGS

    return "set low: " + ", ".join(f"{name} {value}" for name, value, _ in SETTINGS)


# --- the end ---------------------------------------------------------------------------------------------------------


def show(console: Console, outcome: Outcome) -> None:
    """The once report against the ledgers, the checks, the verdict, and how to explore."""
    console.print(compared(outcome))
    counts = outcome.judgement.channels.values()
    lost, silent = sum(count.lost_calls for count in counts), sum(count.unanswered for count in counts)
    console.print(
        Text(f"In doubt: {lost} calls by the kill, {silent} by the servers' own faults.\n", "magenta")
    )
    for check in outcome.judgement.checks:
        mark = "✓" if check.ok else "✗"
        line = Text.assemble((f"{mark} ", COLOURS[mark]))
        line.append(check.name, "default" if check.ok else "bold red")
        if check.detail:
            line.append(f": {check.detail}", "dim" if check.ok else "default")
        console.print(line)
    if outcome.scenario.everything:
        console.print(Text("\nWhat went wrong, and what became of it:", "bold"))
        for way in outcome.scenario.ways:
            console.print(Text.assemble((f"  {way.channel:<9} ", "cyan"), "; ".join(way.faults)))
            mine = [item for item in outcome.notifications if item.channel == way.channel]
            ends = Text(became(outcome.judgement.channels[way.channel], mine), "dim")
            console.print(Padding(ends, (0, 0, 0, 12)))
    console.print()
    if outcome.judgement.ok:
        console.print(Text(f"Every promise was kept, in {outcome.seconds:.0f} s.", "bold green"))
    else:
        console.print(Text("A promise was broken.", "bold red"))
    explore(console, outcome)


def compared(outcome: Outcome) -> Table:
    """The table: ringonce says / the servers received."""
    table = _table(footer=True)
    judgement, report = outcome.judgement, outcome.report
    total = sum(count.accepted for count in judgement.channels.values())
    arrived = sum(
        count.answered_arrived + count.assumed_arrived + count.failed_arrived
        for count in judgement.channels.values()
    )
    again = sum(count.repeats_arrived for count in judgement.channels.values())
    table.add_column("channel", "in all", no_wrap=True, min_width=8)
    table.add_column("", "accepted; messages", no_wrap=True)
    table.add_column("ringonce says", f"{total:,}", justify="right", no_wrap=True)
    table.add_column("the servers received", f"{arrived:,} + {again} again", justify="right", no_wrap=True)
    for way in outcome.scenario.ways:
        first = True
        for what, says, received, style in _rows(way, judgement.channels[way.channel]):
            table.add_row(
                Text(way.channel if first else "", "bold"), Text(what, style), str(says), str(received)
            )
            first = False
    table.add_row("", "events given twice, refused", str(report["duplicates_refused"]), "0")
    return table


def _rows(way: Way, count: Count) -> Iterable[tuple[str, int, int, str]]:
    if way.server is None:
        yield "stored; streamed to its reader", count.answered, count.answered_arrived, "default"
        return
    yield "sent: it said yes", count.answered, count.answered_arrived, "default"
    if way.in_doubt == "assume_sent":
        yield "assumed sent: no answer", count.assumed, count.assumed_arrived, "magenta"
    else:
        yield f"called again: {way.repeat}", count.repeats, count.repeats_arrived, "magenta"
    if count.failed:
        reason = "refused for good" if set(count.codes) <= set(FOR_GOOD) else "some after all retries"
        yield f"failed: {reason}", count.failed, count.failed_arrived, "red"
    if count.suppressed:
        yield "suppressed: no device left", count.suppressed, 0, "yellow"
    if count.others:
        yield "not sent, not failed", count.others, 0, "red"


def became(count: Count, items: Iterable[Told]) -> str:
    """The ends of a channel's notifications, in words."""
    again = sum(item.calls > 1 and item.status == "sent" for item in items)
    parts = [f"{count.answered} sent" + (f", {again} of them at a later try" if again else "")]
    if count.assumed:
        parts.append(f"{count.assumed} assumed sent, since no answer came")
    parts += [f"{number} failed: {SAID.get(code, code)}" for code, number in sorted(count.codes.items())]
    if count.suppressed:
        parts.append(f"{count.suppressed} suppressed: no device left")
    return "; ".join(parts)


def explore(console: Console, outcome: Outcome) -> None:
    """Commands to go on with, with ids of this run."""
    command = program()
    console.print()
    console.print(Text("Look for yourself (the variable stands for --config; the folder stays):", "bold"))
    lines = [(f"export RINGONCE_CONFIG={shlex.quote(str(outcome.config))}", "")]
    lines += [(f"{command} explain {id_}", f"# {why}") for why, id_ in interesting(outcome.notifications)]
    lines += [(f"{command} report --by channel", ""), (f"{command} failures list", "")]
    for line, why in lines:
        if why:
            console.print(Text(f"  {why}", "dim"))
        console.print(Text(f"  {line}", "cyan"), soft_wrap=True)


def calls(url: str, outcome: Outcome) -> list[str]:
    """Where the API listens, and what to try: one notification, its timeline, an inbox."""
    found = dict(interesting(outcome.notifications))
    id_ = next(iter(found.values()), outcome.notifications[0].id)
    person = outcome.scenario.people[0]
    return [
        "",
        f"The API runs on {url}, with a worker, until Ctrl-C:",
        f"  curl -s {url}/v1/notifications/{id_}",
        f"  curl -s {url}/v1/notifications/{id_}/timeline",
        f"  curl -s {url}/v1/inbox/{person}",
    ]


def interesting(notifications: Iterable[Told]) -> list[tuple[str, str]]:
    """One notification of each kind: (why it is interesting, id)."""
    found: dict[str, str] = {}
    for item in sorted(notifications, key=lambda told: -told.calls):
        kind = _kind(item)
        if kind:
            found.setdefault(kind, item.id)
    order = {kind: number for number, kind in enumerate(KINDS)}
    return sorted(found.items(), key=lambda pair: order.get(pair[0], len(order)))


def _kind(item: Told) -> str:
    """Why it is interesting; empty: it is not."""
    if item.assumed:
        return KINDS[4] if item.lost_calls else KINDS[3]
    if item.status == "failed":
        return f"failed: {SAID.get(item.code, item.code)}"
    if item.doubts:
        return KINDS[2] if item.lost_calls else KINDS[1]
    return KINDS[0] if item.calls > 1 else ""


def program() -> str:
    """How this program is called in a shell."""
    called = Path(sys.argv[0])
    if called.name != "ringonce":
        return f"{shlex.quote(sys.executable)} -m ringonce"
    found = shutil.which("ringonce")
    if found is not None and Path(found).resolve() == called.resolve():
        return "ringonce"
    try:
        return shlex.quote(str(called.absolute().relative_to(Path.cwd())))
    except ValueError:
        return shlex.quote(str(called.absolute()))
