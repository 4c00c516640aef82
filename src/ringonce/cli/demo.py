"""``demo``: the whole thing on real protocols against flaky servers, with a kill, and a verdict at its end."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ringonce.cli.session import FAILED, OK, UsageError, config_file, note, show_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cyclopts import App

    from ringonce.app import Ringonce
    from ringonce.ports import Row
    from ringonce.vendors.ledger import Entry
    from ringonce.vendors.scenario import Scenario
    from ringonce.vendors.verdict import Judgement, Told

FEWEST, MOST = 20, 20_000
BATCH = 50
LOOK = 0.2
"""Seconds between two looks at the database."""
PATIENCE = 120.0
PATIENCE_EACH = 0.05
"""Seconds that a worker may take, and more for each notification: ten times what two cores need."""


def register(app: App) -> None:
    """Add the command."""
    app.command(demo)


def demo(
    *,
    notifications: int = 1_000,
    seed: int | None = None,
    keep: Path | None = None,
    json: bool = False,
) -> int:
    """See it work: notifications through flaky local servers, the worker killed in the middle, and the once report.

    An SMTP server, a receiver of signed webhooks and a bot API run on this machine and misbehave. What ringonce says in
    the end is compared with what they received. Ends with 1 when a promise was broken.

    Args:
        notifications: How many, 20 to 20000.
        seed: Repeats the same faults; default: a new one, which is printed.
        keep: The folder for configuration, database and ledgers; default: a new temporary one, which is printed.
        json: Print only the report, with the verdict, as JSON.
    """
    began = time.monotonic()
    from ringonce.cli.demo_view import Lines, Screen

    if not FEWEST <= notifications <= MOST:
        raise UsageError(f"must be between {FEWEST} and {MOST}", field="NOTIFICATIONS")
    if config_file.get() is not None:
        raise UsageError("the demo writes a configuration of its own", field="CONFIG", mend="leave it out")
    seed = secrets.randbelow(10_000) if seed is None else seed
    folder = _folder(keep)
    if json:
        view: View = Lines(note)
    else:
        view = Screen() if sys.stdout.isatty() else Lines(_at_once)
    try:
        with _interruptible():
            outcome = asyncio.run(_play(notifications, seed, folder, view, began))
    except KeyboardInterrupt:
        note(f"stopped; what there was until then is in {folder}")
        raise
    if json:
        show_json(outcome.json())
    else:
        view.result(outcome)
    return OK if outcome.judgement.ok else FAILED


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


class Killer:
    """Kills the worker within the answer to a drawn request: so calls are under way, whatever the machine's speed."""

    def __init__(self, after: int) -> None:
        """``after``: the number of the request, over all servers."""
        self._after = after
        self.worker: subprocess.Popen[bytes] | None = None
        self.killed = threading.Event()
        self._seen = 0
        self._lock = threading.Lock()

    def __call__(self, _: Entry) -> None:
        """A server has received something."""
        with self._lock:
            self._seen += 1
            if self._seen == self._after and self.worker is not None:
                self.worker.kill()
                self.killed.set()


async def _play(notifications: int, seed: int, folder: Path, view: View, began: float) -> Outcome:
    from ringonce.app import Ringonce
    from ringonce.config import load
    from ringonce.vendors.scenario import Scenario

    with Scenario(notifications, seed, folder) as scenario:
        config = folder / "ringonce.toml"
        config.write_text(scenario.config(folder / "ringonce.db"), encoding="utf-8")
        view.begin(scenario, seed, config)
        try:
            async with Ringonce(load(config, environ={})) as ringonce:
                play = _Play(scenario, ringonce, config, view)
                await play.accept()
                under_way = await play.kill(scenario.kill_at)
                await play.drain()
                return await play.verdict(seed, under_way, began)
        finally:
            view.end()


class _Play:
    """The acts."""

    def __init__(self, scenario: Scenario, ringonce: Ringonce, config: Path, view: View) -> None:
        self._scenario = scenario
        self._ringonce = ringonce
        self._config = config
        self._view = view
        self._progress = Progress()

    async def accept(self) -> None:
        """Hand everything over, then some events again."""
        progress = self._progress
        events = [*self._scenario.events, *self._scenario.repeated]
        bodies = self._scenario.bodies(events)
        for start in range(0, len(bodies), BATCH):
            for accepted in await self._ringonce.notify_many(bodies[start : start + BATCH]):
                progress.refused += accepted.duplicate
                progress.events += not accepted.duplicate
                progress.handed += 0 if accepted.duplicate else len(accepted.notifications)
            await self._look()
        self._view.step(
            f"accepted {progress.handed:,} notifications of {progress.events:,} events; "
            f"{progress.refused} repeats refused"
        )

    async def kill(self, after: int) -> int:
        """Start a worker and kill it within the request of that number; the calls that were under way."""
        killer = Killer(after)
        for way in self._scenario.ways:
            way.server.ledger.listen(killer)
        with self._worker(killer) as worker:
            self._view.step(f"worker {worker.pid} started")
            await self._until_ended(worker)
        if not killer.killed.is_set():
            raise self._unexpected(f"the worker ended before request {after}")
        rows = await self._rows()
        under_way = sum(row.lease is not None and row.lease.started_at is not None for row in rows)
        self._view.step(
            f"worker {worker.pid} killed (SIGKILL) in request {after}, {under_way} calls unanswered",
            "✗",
        )
        return under_way

    async def drain(self) -> None:
        """Start another worker and let it do the rest."""
        with self._worker() as worker:
            self._view.step(f"worker {worker.pid} started, it goes on")
            await self._until_ended(worker)
        if worker.returncode:
            raise self._unexpected(f"the worker ended with {worker.returncode}")
        self._view.step("nothing is left to do")

    async def verdict(self, seed: int, under_way: int, began: float) -> Outcome:
        """Compare what ringonce says with what the servers received."""
        from ringonce.vendors.scenario import CONCURRENCY
        from ringonce.vendors.verdict import Promise, judge, told

        scenario, ringonce = self._scenario, self._ringonce
        await self._look()
        notifications = []
        for row in await self._rows():
            attempts = (await ringonce.get(row.id)).attempts if row.state.unknown else ()
            notifications.append(told(row, scenario.way(row.channel).reference(row), attempts))
        (report,) = await ringonce.report()
        ledgers = {way.channel: way.server.ledger.entries for way in scenario.ways}
        judgement = judge(
            report=report,
            repeats={name: int(row["repeats"]) for name, row in self._progress.channels.items()},
            notifications=notifications,
            ledgers=ledgers,
            promises={way.channel: Promise(way.in_doubt, CONCURRENCY) for way in scenario.ways},
            accepted=scenario.notifications,
            refused=len(scenario.repeated),
            kills=1,
        )
        seconds = time.monotonic() - began
        return Outcome(
            scenario, seed, self._config, report, judgement, notifications, ledgers, under_way, seconds
        )

    @contextmanager
    def _worker(self, killer: Killer | None = None) -> Iterator[subprocess.Popen[bytes]]:
        """A worker process. It drains, so that it would end by itself even if nobody were left to stop it."""
        command = [sys.executable, "-m", "ringonce", "--config", str(self._config), "worker", "--drain"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RINGONCE_")}
        with self._log.open("ab") as log:
            # In a session of its own: Ctrl-C is for us, and we end the worker.
            worker = subprocess.Popen(  # noqa: S603 - our own command line
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        try:
            if killer is not None:
                killer.worker = worker
            yield worker
        finally:
            worker.kill()
            worker.wait()

    async def _until_ended(self, worker: subprocess.Popen[bytes]) -> None:
        """Show the numbers until the process is gone."""
        ended = asyncio.ensure_future(asyncio.to_thread(_wait, worker))
        patience = PATIENCE + PATIENCE_EACH * self._scenario.notifications
        deadline = time.monotonic() + patience
        while not ended.done():
            await self._look()
            await asyncio.wait({ended}, timeout=LOOK)
            if time.monotonic() > deadline:
                raise self._unexpected(f"the worker has not ended after {patience:.0f} s")
        await self._look()

    async def _look(self) -> None:
        progress = self._progress
        progress.channels = {str(row["channel"]): row for row in await self._ringonce.report(by=["channel"])}
        progress.channels.pop("", None)
        progress.received = {way.channel: way.server.ledger.entries for way in self._scenario.ways}
        self._view.update(progress)

    async def _rows(self) -> list[Row]:
        return await self._ringonce.search(limit=self._scenario.notifications + 1)

    @property
    def _log(self) -> Path:
        return self._config.with_name("worker.log")

    def _unexpected(self, text: str) -> Exception:
        from ringonce.errors import RingonceError

        return RingonceError(text, mend=f"see {self._log}", code="demo_failed")


def _at_once(line: str) -> None:
    """A line that a reader of the pipe sees now."""
    print(line, flush=True)


def _wait(worker: subprocess.Popen[bytes]) -> None:
    worker.wait()


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
