"""``demo``: the whole thing on real protocols against flaky servers, with a kill, and a verdict at its end."""

from __future__ import annotations

import logging
import secrets
import signal
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ringonce.cli.session import FAILED, OK, UsageError, config_file, note, run_async, show_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cyclopts import App

    from ringonce.app import Ringonce
    from ringonce.vendors.ledger import Entry
    from ringonce.vendors.scenario import Scenario
    from ringonce.vendors.verdict import Judgement, Told

FEWEST, MOST = 20, 20_000
FEWEST_OF_ALL, MOST_OF_ALL = 100, 3_000
"""With ``--all``: each provider is to misbehave, and no question is answered twice."""
LOG = "worker.log"


def register(app: App) -> None:
    """Add the command."""
    app.command(demo)


def demo(
    *,
    notifications: int = 1_000,
    seed: int | None = None,
    keep: Path | None = None,
    json: bool = False,
    stay: bool = False,
    all: bool = False,  # noqa: A002 - the name of the option
) -> int:
    """See it work: notifications through flaky local servers, the worker killed in the middle, and the once report.

    An SMTP server, a receiver of signed webhooks, a bot API and two push services run on this machine and misbehave;
    devices die, and some come back; people watch their in-app inbox. What ringonce says in the end is compared with
    what all of them received. Ends with 1 when a promise was broken.

    Args:
        notifications: How many, 20 to 20000.
        seed: Repeats the same faults; default: a new one, which is printed.
        keep: The folder for configuration, database and ledgers; default: a new temporary one, which is printed.
        json: Print only the report, with the verdict, as JSON.
        all: Through every provider, each with its stand-in; what needs an extra that is not installed is left out.
        stay: Afterwards serve the HTTP API, with a worker, until Ctrl-C.
    """
    began = time.monotonic()
    from ringonce.cli.demo_view import Lines, Screen

    fewest, most = (FEWEST_OF_ALL, MOST_OF_ALL) if all else (FEWEST, MOST)
    if not fewest <= notifications <= most:
        raise UsageError(f"must be between {fewest} and {most}", field="NOTIFICATIONS")
    if config_file.get() is not None:
        raise UsageError("the demo writes a configuration of its own", field="CONFIG", mend="leave it out")
    if json and stay:
        raise UsageError("prints the report and ends", field="JSON", mend="leave out --json or --stay")
    seed = secrets.randbelow(10_000) if seed is None else seed
    folder = _folder(keep)
    if json:
        view: View = Lines(note)
    else:
        view = Screen() if sys.stdout.isatty() else Lines(_at_once)
    # What the library has to say goes where the workers' words go, not into the view.
    logging.basicConfig(filename=folder / LOG, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        with _interruptible():
            outcome = run_async(
                _play(notifications, seed, folder, view, began, json=json, stay=stay, everything=all)
            )
    except KeyboardInterrupt:
        note(f"stopped; what there was until then is in {folder}")
        raise
    return OK if outcome.judgement.ok else FAILED


async def _play(
    notifications: int,
    seed: int,
    folder: Path,
    view: View,
    began: float,
    *,
    json: bool,
    stay: bool,
    everything: bool,
) -> Outcome:
    """The acts, from the first server that listens to the report."""
    from ringonce.app import Ringonce
    from ringonce.cli.demo_play import Play
    from ringonce.config import load
    from ringonce.vendors.scenario import Scenario

    with Scenario(notifications, seed, folder, everything=everything) as scenario:
        config = folder / "ringonce.toml"
        config.write_text(scenario.config(folder / "ringonce.db"), encoding="utf-8")
        view.begin(scenario, seed, config)
        try:
            async with Ringonce(load(config, environ={})) as ringonce:
                play = Play(scenario, ringonce, config, view)
                async with play.watching():
                    await play.accept()
                    under_way = await play.kill(scenario.kill_at)
                    await play.meanwhile()
                    await play.drain()
                    await play.devices()
                    judgement, told, report = await play.verdict()
                view.end()
                outcome = Outcome(
                    scenario=scenario,
                    seed=seed,
                    config=config,
                    report=report,
                    judgement=judgement,
                    notifications=told,
                    ledgers={way.channel: way.entries for way in scenario.ways},
                    under_way=under_way,
                    seconds=time.monotonic() - began,
                )
                if json:
                    show_json(outcome.json())
                else:
                    view.result(outcome)
                if stay:
                    await _stay(ringonce, outcome)
                return outcome
        finally:
            view.end()


async def _stay(ringonce: Ringonce, outcome: Outcome) -> None:
    """Serve the API with a worker until Ctrl-C; the demo's servers go on, too."""
    import asyncio

    from ringonce.cli.demo_view import calls
    from ringonce.cli.signals import stopping
    from ringonce.cli.work import api, serve

    make, listen = api()
    with listen("127.0.0.1", 0, key=None) as listening:
        stop = asyncio.Event()
        with stopping(stop):
            for line in calls(f"http://127.0.0.1:{listening.getsockname()[1]}", outcome):
                _at_once(line)
            await serve(ringonce, make(ringonce), listening, stop)


@dataclass(slots=True)
class Progress:
    """What is known while it runs. ``channels``: the once report by channel; ``received``: by the servers."""

    handed: int = 0
    events: int = 0
    refused: int = 0
    channels: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    received: dict[str, Sequence[Entry]] = field(default_factory=dict)

    @property
    def ended(self) -> int:
        """Notifications that have come to their end."""
        return sum(int(row["accepted"]) - int(row["pending"]) for row in self.channels.values())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened in the end."""

    scenario: Scenario
    seed: int
    config: Path
    report: Mapping[str, Any]
    judgement: Judgement
    notifications: Sequence[Told]
    ledgers: Mapping[str, Sequence[Entry]]
    under_way: int
    seconds: float

    def json(self) -> dict[str, object]:
        """The once report first, then the verdict."""
        from ringonce.cli.demo_view import interesting
        from ringonce.vendors.scenario import SETTINGS

        return {
            **self.report,
            "verdict": "kept" if self.judgement.ok else "broken",
            "checks": [
                {"name": check.name, "ok": check.ok, "detail": check.detail}
                for check in self.judgement.checks
            ],
            "channels": {
                name: {
                    "accepted": count.accepted,
                    "sent": count.answered + count.assumed,
                    "assumed": count.assumed,
                    "failed": dict(count.codes),
                    "repeats": count.repeats,
                    "doubts_of_the_kill": count.lost_calls,
                    "doubts_of_the_server": count.unanswered,
                    "received": {
                        "requests": len(self.ledgers[name]),
                        "sent": count.answered_arrived,
                        "assumed": count.assumed_arrived,
                        "failed": count.failed_arrived,
                        "repeats": count.repeats_arrived,
                    },
                }
                for name, count in self.judgement.channels.items()
            },
            "kills": 1,
            "calls_under_way_at_the_kill": self.under_way,
            "settings": {name: value for name, value, _ in SETTINGS},
            "left_out": self.scenario.left_out,
            "seed": self.seed,
            "explore": dict(interesting(self.notifications)),
            "config": str(self.config),
            "seconds": round(self.seconds, 1),
        }


class View(Protocol):
    """Shows what goes on."""

    def begin(self, scenario: Scenario, seed: int, config: Path) -> None:
        """The servers listen."""

    def step(self, text: str, mark: str = "✓") -> None:
        """Something is done, or has happened."""

    def update(self, progress: Progress) -> None:
        """The numbers as they are now."""

    def end(self) -> None:
        """Nothing changes any more."""

    def result(self, outcome: Outcome) -> None:
        """The once report, the verdict, and how to go on."""


def _at_once(line: str) -> None:
    """A line that a reader of the pipe sees now."""
    print(line, flush=True)


def _folder(keep: Path | None) -> Path:
    """Where everything is written. Raises UsageError: it is not empty, or can not be made."""
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="ringonce-demo-"))
    try:
        keep.mkdir(parents=True, exist_ok=True)
        full = any(keep.iterdir())
    except OSError as error:
        raise UsageError(f"{keep} can not be used: {error.strerror}", field="KEEP") from None
    if full:
        raise UsageError(f"{keep} is not empty", field="KEEP", mend="name a new folder")
    return keep.resolve()


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM and a closed terminal end it like Ctrl-C: the worker is stopped, the ports are closed."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
