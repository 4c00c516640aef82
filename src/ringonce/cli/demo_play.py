"""The acts of ``demo``: hand over, kill the worker, go on without one, drain, let devices come back, judge."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ringonce.cli.demo import LOG, Progress
from ringonce.errors import RingonceError
from ringonce.model.notification import Status
from ringonce.model.outcome import Code
from ringonce.vendors.devices import Story, device_checks
from ringonce.vendors.scenario import CONCURRENCY, REMINDER
from ringonce.vendors.verdict import Promise, judge, told

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from pathlib import Path

    from ringonce.app import Ringonce
    from ringonce.cli.demo import View
    from ringonce.ports import Row
    from ringonce.vendors.ledger import Entry
    from ringonce.vendors.scenario import Device, Scenario
    from ringonce.vendors.verdict import Judgement, Told

BATCH = 50
LATER = 10
"""One event in so many is handed over when the worker is dead."""
LOOK = 0.2
"""Seconds between two looks at the database."""
PATIENCE = 120.0
PATIENCE_EACH = 0.05
"""Seconds that a worker may take, and more for each notification: ten times what two cores need."""
STREAM_PATIENCE = 30.0


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


class Play:
    """The acts."""

    def __init__(self, scenario: Scenario, ringonce: Ringonce, config: Path, view: View) -> None:
        self._scenario = scenario
        self._ringonce = ringonce
        self._config = config
        self._view = view
        self._progress = Progress()
        self._later = scenario.events[-max(1, len(scenario.events) // LATER) :]
        self._streamed = asyncio.Event()
        self._stories: list[tuple[Device, str, Story]] = []
        self._told_at: dict[Device, str] = {}

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Everybody looks at their inbox; what their streams bring stands in the ledger of the in-app channel."""
        ready = asyncio.Semaphore(0)
        watchers = [asyncio.create_task(self._watch(person, ready)) for person in self._scenario.people]
        try:
            for _ in watchers:
                await ready.acquire()
            yield
        finally:
            for watcher in watchers:
                watcher.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)

    async def _watch(self, person: str, ready: asyncio.Semaphore) -> None:
        ledger = self._scenario.way("inapp").ledger
        async with self._ringonce.stream(person) as copies:
            ready.release()
            async for copy in copies:
                ledger.record(str(copy.id), person, "streamed", accepted=True)
                self._streamed.set()

    async def accept(self) -> None:
        """Hand most of it over."""
        scenario, progress = self._scenario, self._progress
        await self._hand_over(scenario.bodies(scenario.events[: -len(self._later)]))
        self._view.step(f"accepted {progress.handed:,} notifications of {progress.events:,} events")

    async def meanwhile(self) -> None:
        """No worker lives: hand over the rest, and some events again. In-app copies come all the same."""
        scenario, progress = self._scenario, self._progress
        before = progress.handed
        await self._hand_over(scenario.bodies([*self._later, *scenario.repeated]))
        copies = await self._all_streamed()
        self._view.step(
            f"no worker: {progress.handed - before:,} more accepted, all {copies:,} in-app copies streamed"
        )
        self._view.step(f"{progress.refused} events given twice, refused")

    async def devices(self) -> None:
        """Look what was dropped, let some devices register again, and tell their owners of something new."""
        scenario, ringonce = self._scenario, self._ringonce
        dropped = 0
        for device in scenario.devices:
            way = scenario.way(device.channel)
            assert way.address is not None
            provider = ringonce.engine.channels.all()[device.channel].provider
            value = provider.address(way.address(device.who))
            at = await self._dropped_at(device, value)
            dropped += at is not None
            back = None
            told = value
            if device.returns:
                address = scenario.come_back(device)
                registered = await ringonce.register(device.recipient, device.channel, address)
                back, told = registered.registered_at, registered.value
            story = Story(device.channel, device.recipient, refused=False, dropped_at=at, back_at=back)
            self._stories.append((device, value, story))
            self._told_at[device] = told
        self._view.step(
            f"{dropped} dead devices dropped, {sum(d.returns for d in scenario.devices)} register again"
        )
        before = self._progress.handed
        await self._hand_over([json.dumps(event).encode() for event in scenario.reminders()])
        async with asyncio.timeout(self._patience):
            await ringonce.run_worker(drain=True)
        await self._all_streamed()
        await self._look()
        self._view.step(
            f"{self._progress.handed - before} more for their owners, by a worker in this process"
        )

    async def _dropped_at(self, device: Device, value: str) -> int | None:
        found = await self._ringonce.addresses(device.recipient, device.channel, invalidated=True)
        return next((one.invalidated_at for one in found if one.value == value), None)

    async def _hand_over(self, bodies: Sequence[bytes]) -> None:
        progress = self._progress
        for start in range(0, len(bodies), BATCH):
            for accepted in await self._ringonce.notify_many(bodies[start : start + BATCH]):
                progress.refused += accepted.duplicate
                progress.events += not accepted.duplicate
                progress.handed += 0 if accepted.duplicate else len(accepted.notifications)
            await self._look()

    async def _all_streamed(self) -> int:
        """Wait until the streams have brought every copy that there is; how many. The verdict tells what never came."""
        ledger = self._scenario.way("inapp").ledger
        (row,) = [one for one in await self._ringonce.report(by=["channel"]) if one["channel"] == "inapp"]
        wanted = cast("int", row["accepted"])
        with suppress(TimeoutError):
            async with asyncio.timeout(STREAM_PATIENCE):
                while len(ledger.entries) < wanted:
                    self._streamed.clear()
                    await self._streamed.wait()
        return len(ledger.entries)

    async def kill(self, after: int) -> int:
        """Start a worker and kill it within the request of that number; the calls that were under way."""
        killer = Killer(after)
        for way in self._scenario.ways:
            if way.server is not None:
                way.ledger.listen(killer)
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

    async def verdict(self) -> tuple[Judgement, list[Told], Mapping[str, Any]]:
        """Compare what ringonce says with what was received: the judgement, its facts, the once report."""
        scenario, ringonce = self._scenario, self._ringonce
        rows = await self._rows()
        notifications = []
        for row in rows:
            attempts = (await ringonce.get(row.id)).attempts if row.state.unknown else ()
            notifications.append(told(row, scenario.way(row.channel).reference(row), attempts))
        stories = [await self._ending(rows, *one) for one in self._stories]
        (report,) = await ringonce.report()
        judgement = judge(
            report=report,
            repeats={name: int(row["repeats"]) for name, row in self._progress.channels.items()},
            notifications=notifications,
            ledgers={way.channel: way.entries for way in scenario.ways},
            promises={
                way.channel: Promise(way.in_doubt, CONCURRENCY if way.server is not None else 0)
                for way in scenario.ways
            },
            accepted=self._progress.handed,
            refused=len(scenario.repeated),
            kills=1,
            more=device_checks(stories),
        )
        return judgement, notifications, report

    async def _ending(self, rows: Sequence[Row], device: Device, value: str, story: Story) -> Story:
        """The story with what the notifications to the address, and its server, have to tell."""
        scenario = self._scenario
        way = scenario.way(device.channel)
        mine = [row for row in rows if row.channel == device.channel and row.address is not None]
        there = [row for row in mine if row.address is not None and row.address.value == value]
        lives = [await self._ringonce.get(row.id) for row in there]
        seen = way.seen_as(value)
        dropped_at = story.dropped_at
        if dropped_at is None:
            dropped_at = await self._dropped_at(device, value)
        return replace(
            story,
            dropped_at=dropped_at,
            refused=any(a.code == Code.PUSH_TOKEN_INVALID for life in lives for a in life.attempts),
            begun=tuple(attempt.started_at for life in lives for attempt in life.attempts),
            requests=sum(entry.address == seen for entry in way.ledger.entries),
            told=any(
                row.address is not None
                and row.address.value == self._told_at[device]
                and row.event_type == REMINDER[0]
                and row.state.status is Status.SENT
                for row in mine
            ),
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
        deadline = time.monotonic() + self._patience
        while not ended.done():
            await self._look()
            await asyncio.wait({ended}, timeout=LOOK)
            if time.monotonic() > deadline:
                raise self._unexpected(f"the worker has not ended after {self._patience:.0f} s")
        await self._look()

    async def _look(self) -> None:
        progress = self._progress
        progress.channels = {str(row["channel"]): row for row in await self._ringonce.report(by=["channel"])}
        progress.channels.pop("", None)
        progress.received = {way.channel: way.ledger.entries for way in self._scenario.ways}
        self._view.update(progress)

    async def _rows(self) -> list[Row]:
        return await self._ringonce.search(limit=self._progress.handed + 1)

    @property
    def _patience(self) -> float:
        """Seconds that a worker may take."""
        return PATIENCE + PATIENCE_EACH * self._scenario.notifications

    @property
    def _log(self) -> Path:
        return self._config.with_name(LOG)

    def _unexpected(self, text: str) -> Exception:
        return RingonceError(text, mend=f"see {self._log}", code="demo_failed")


def _wait(worker: subprocess.Popen[bytes]) -> None:
    worker.wait()
