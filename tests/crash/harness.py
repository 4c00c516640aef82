"""Worker processes on a real database, vendors' stand-ins with ledgers, and the verdict over both.

The work goes through the command line alone; the stand-ins run in the test's process, so that its signals are what
the recipients really saw.
"""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import psycopg

from ringonce.app import Ringonce
from ringonce.model.records import Life
from ringonce.vendors.fcm import FcmApi
from ringonce.vendors.ledger import Entry, Ledger
from ringonce.vendors.script import Plan, plan
from ringonce.vendors.smtp import MailServer
from ringonce.vendors.telegram import TelegramApi
from ringonce.vendors.webhook import WebhookReceiver
from ringonce.vendors.webpush import PushService

Vendor: TypeAlias = TelegramApi | WebhookReceiver | MailServer | FcmApi | PushService

PATIENCE = 120.0
VAPID = "A" * 42 + "E"
"""The private key 1: 32 bytes in base64url."""
SECRET = "whsec_" + "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
CONCURRENCY = 4

CONFIG = """
[store]
url = "{url}"
[retry]
cycle = "50ms"
[worker]
grace = "{grace}"
[security]
allow_private_networks = ["127.0.0.0/8"]
"""

CHANNEL = """
[channels.{name}]
{provider}
in_doubt = "{in_doubt}"
lease = "{lease}"
timeout = "{timeout}"
concurrency = {concurrency}
max_attempts = 10
backoff = {{ kind = "fixed", base = "50ms", jitter = 0 }}
budgets = {{ transient = 8, unknown = 8 }}
"""


@dataclass(slots=True)
class Process:
    """One `ringonce worker`; what it says on standard error is kept, and can be waited for."""

    popen: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    out: str = ""
    _said: threading.Condition = field(default_factory=threading.Condition)
    _reader: threading.Thread | None = None

    def read(self) -> "Process":
        """Begin to listen."""
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        return self

    def _listen(self) -> None:
        assert self.popen.stderr is not None
        for line in self.popen.stderr:
            with self._said:
                self.lines.append(line.rstrip())
                self._said.notify_all()
        with self._said:
            self.lines.append("")
            self._said.notify_all()

    def said(self, part: str, *, within: float = PATIENCE) -> None:
        """Wait until a line holds ``part``."""
        with self._said:
            heard = self._said.wait_for(
                lambda: any(part in line for line in self.lines) or self.lines[-1:] == [""], within
            )
        assert heard, f"it never said {part!r}: {self.lines}"
        assert any(part in line for line in self.lines), f"it ended and never said {part!r}: {self.lines}"

    def kill(self) -> None:
        """SIGKILL; wait until it is gone."""
        self.popen.kill()
        self.popen.wait(PATIENCE)

    def signal(self, number: signal.Signals) -> None:
        """Send any other signal."""
        self.popen.send_signal(number)

    def ended(self, within: float = PATIENCE) -> int:
        """Wait for its end; the exit code."""
        code = self.popen.wait(within)
        if self._reader is not None:
            self._reader.join(PATIENCE)
        if self.popen.stdout is not None:
            self.out = self.popen.stdout.read()
        return code


@dataclass(frozen=True, slots=True)
class Way:
    """A channel: what is done about doubts, and the stand-in behind it."""

    provider: str
    in_doubt: str
    vendor: Vendor

    @property
    def name(self) -> str:
        """The channel's name."""
        return f"{self.provider}-{self.in_doubt}"

    @property
    def lines(self) -> str:
        """The provider's part of the configuration."""
        port = self.vendor.port
        return {
            "telegram": f'provider = "telegram"\ntoken = "1:x"\nbase_url = "http://127.0.0.1:{port}"',
            "webhook": f'provider = "webhook"\nsecret = "{SECRET}"',
            "fcm": f'provider = "fcm"\nbase_url = "http://127.0.0.1:{port}"\ncredentials = \'{self._account}\'',
            "webpush": f'provider = "webpush"\nvapid_private_key = "{VAPID}"\nsubject = "mailto:ops@example.org"',
            "smtp": f'provider = "smtp"\nurl = "smtp://127.0.0.1:{port}?tls=none"\nfrom = "ringonce@example.org"',
        }[self.provider]

    @property
    def _account(self) -> str:
        return json.dumps(self.vendor.credentials) if isinstance(self.vendor, FcmApi) else ""

    def address(self, number: int) -> Any:
        """Where number n goes: one address each."""
        if isinstance(self.vendor, PushService):
            subscription = self.vendor.subscribe()
            # What comes is known by the last part of its path.
            old = subscription["endpoint"].removeprefix(self.vendor.url)
            self.vendor.browsers[f"/push/n{number}"] = self.vendor.browsers.pop(old)
            subscription["endpoint"] = f"{self.vendor.url}/push/n{number}"
            return subscription
        if self.provider == "telegram":
            return str(1000 + number)
        if self.provider == "smtp":
            return f"n{number}@example.com"
        if self.provider == "fcm":
            return f"n{number}"
        return f"http://127.0.0.1:{self.vendor.port}/n{number}"


def numbered(address: str) -> int:
    """The number that an address of the ledger stands for."""
    return (
        int(address) - 1000 if address.isdigit() else int(re.sub(r"^/push|^/|@.*$", "", address).lstrip("/n"))
    )


@dataclass(slots=True)
class Site:
    """A folder with a configuration, its channels with their stand-ins, which share one ledger."""

    folder: Path
    url: str
    ways: list[Way]
    ledger: Ledger
    concurrency: int = CONCURRENCY
    lease: str = "1s"
    timeout: str = "60s"
    grace: str = "60s"
    kills: int = 0
    processes: list[Process] = field(default_factory=list)

    def configure(self) -> "Site":
        """Write ringonce.toml and create the tables."""
        shared = {"lease": self.lease, "timeout": self.timeout, "concurrency": self.concurrency}
        self.folder.joinpath("ringonce.toml").write_text(
            CONFIG.format(url=self.url, grace=self.grace)
            + "".join(
                CHANNEL.format(name=way.name, provider=way.lines, in_doubt=way.in_doubt, **shared)
                for way in self.ways
            )
        )
        if self.url.startswith("postgresql"):
            self.ring("migrate")
        return self

    # --- the command line ---

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "ringonce", "--config", str(self.folder / "ringonce.toml"), *arguments]

    def ring(self, *arguments: str) -> Any:
        """Run one command to its end; its JSON, if it was asked for any. A failure is the test's."""
        done = subprocess.run(
            self._command(*arguments),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout) if "--json" in arguments else done.stdout

    def send(self, count: int, first: int = 0) -> None:
        """Accept ``count`` events for one recipient each, with `send --file`."""
        bodies = [
            {
                "event_id": f"n-{number}",
                "to": {self.way(number).name: self.way(number).address(number)},
                "content": {"text": f"this is number {number}"},
            }
            for number in range(first, first + count)
        ]
        file = self.folder / f"events-{first}.jsonl"
        file.write_text("\n".join(json.dumps(body) for body in bodies))
        summary = self.ring("send", "--file", str(file), "--json")
        assert (summary["accepted"], summary["bad"]) == (count, 0)

    def worker(self, *arguments: str, **environment: str) -> Process:
        """Start `ringonce worker`."""
        popen = subprocess.Popen(
            self._command("worker", *arguments),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        )
        process = Process(popen).read()
        self.processes.append(process)
        return process

    def drain(self) -> None:
        """Let a last worker do what can be done."""
        process = self.worker("--drain", "--json")
        assert process.ended() == 0, process.lines

    # --- the ledger ---

    def way(self, number: int) -> Way:
        """The channel of number n."""
        return self.ways[number % len(self.ways)]

    def calls(self) -> Counter[int]:
        """Number -> how often the vendor was told so and did it (or, for webhooks, knew it already)."""
        return Counter(
            numbered(entry.address)
            for entry in self.ledger.entries
            if entry.accepted or entry.verdict == "repeat"
        )

    def received(self, more: int) -> None:
        """Wait until the vendor has had ``more`` further calls."""
        target = len(self.ledger.entries) + more
        assert self.ledger.wait_for(lambda entries: len(entries) >= target, PATIENCE), "nothing comes"

    def moment(self, seconds: float) -> None:
        """Let an accidental time pass: what is looked for is a random moment, not a state."""
        self.ledger.wait_for(lambda _: False, seconds)

    def kill(self, process: Process) -> None:
        """Kill a worker, and count."""
        process.kill()
        self.kills += 1

    def bury(self, process: Process) -> None:
        """Kill a worker, and let its leases be over at once (PostgreSQL).

        Beside other workers leases must be so long that no stall of the machine lasts longer, else a living worker is
        taken for a dead one; nobody wants to wait for them.
        """
        self.kill(process)
        with self.connected() as connection:
            for table, until, owner in (
                ("ringonce_dispatch", "due_at", "owner"),
                ("ringonce_leases", "expires_at", "holder"),
            ):
                leased = " AND leased" if table == "ringonce_dispatch" else ""
                connection.execute(
                    f"UPDATE {table} SET {until} = 0 WHERE split_part({owner}, '-', 1) = %s{leased}",
                    [str(process.popen.pid)],
                )

    def connected(self) -> psycopg.Connection:
        """A look into PostgreSQL."""
        return psycopg.connect(self.url.replace("+asyncpg", ""), autocommit=True)

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Until the end of the block each stand-in stands still with its next call: heard of, and not answered."""
        go_on = threading.Event()

        def wait(_: Entry) -> None:
            go_on.wait(PATIENCE)

        self.ledger.listen(wait)
        try:
            yield
        finally:
            go_on.set()

    # --- the verdict ---

    def lives(self, count: int) -> dict[int, Life]:
        """Everything about each number."""

        async def read() -> dict[int, Life]:
            async with Ringonce(self.folder / "ringonce.toml") as ringonce:
                found: dict[int, Life] = {}
                after = None
                while rows := await ringonce.search(limit=200, after=after):
                    for row in rows:
                        found[int(row.event_id.removeprefix("n-"))] = await ringonce.get(row.id)
                    after = rows[-1].id
                return found

        lives = asyncio.run(read())
        assert sorted(lives) == list(range(count)), "an accepted notification is gone"
        return lives

    def leased(self) -> int:
        """How many rows a worker holds."""

        async def read() -> int:
            async with Ringonce(self.folder / "ringonce.toml") as ringonce:
                return sum(item.leased for item in await ringonce.backlog())

        return asyncio.run(read())

    def begun(self) -> int:
        """How many calls are under way."""

        async def read() -> int:
            async with Ringonce(self.folder / "ringonce.toml") as ringonce:
                leases = [row.lease for row in await ringonce.search(limit=500)]
                return sum(lease is not None and lease.started_at is not None for lease in leases)

        return asyncio.run(read())

    def judged(self, count: int) -> "Verdict":
        """As ``verdict``, before everything is drained."""
        return self.verdict(count, drained=False)

    def verdict(self, count: int, *, drained: bool = True) -> "Verdict":
        """Judge the run by the promise. ``count``: how many were accepted."""
        lives, calls = self.lives(count), self.calls()
        # A late answer takes the place of a doubt.
        doubted = {n for n, life in lives.items() if any(a.late for a in life.attempts)}
        doubted |= {n for n, life in lives.items() if any(a.outcome == "unknown" for a in life.attempts)}
        lost = [
            n
            for n, life in lives.items()
            if not calls[n]
            and n not in doubted
            and not (life.row.state.final and life.row.state.last_error is not None)
            and (drained or life.row.state.final)
        ]
        repeats = {n for n, times in calls.items() if times > 1}
        assert not lost, f"lost outside the doubt: {lost}"
        waiting = [n for n, life in lives.items() if not life.row.state.final and n not in doubted]
        assert not (drained and waiting), f"drained, and yet open: {waiting}"
        wrong = {n for n in repeats if self.way(n).in_doubt != "resend" or n not in doubted}
        assert not wrong, f"told twice: {[(n, self.way(n).name, n in doubted) for n in sorted(wrong)]}"
        for way in self.ways:
            mine = [n for n in doubted if self.way(n) is way]
            limit = self.kills * self.concurrency
            assert len(mine) <= limit, f"{len(mine)} doubts on {way.name} after {self.kills} kills"
        return Verdict(lives, doubted, repeats)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came out, for further looks: lives by number, numbers in doubt, numbers told more than once."""

    lives: dict[int, Life]
    doubted: set[int]
    repeats: set[int]


EVERY_WAY = ("telegram-assume_sent", "webhook-resend", "smtp-resend", "telegram-hold")
PUSH_WAYS = ("fcm-resend", "webpush-assume_sent")


@contextmanager
def site(
    folder: Path, url: str, *faults: str, ways: Sequence[str] = EVERY_WAY, seed: int = 1, **settings: Any
) -> Iterator[Site]:
    """Lend a configured site whose stand-ins fail as told; every worker still alive is killed at the end."""
    ledger = Ledger()
    with ExitStack() as stack:
        made = Site(folder, url, [], ledger, **settings)
        for way in ways:
            provider, _, in_doubt = way.partition("-")
            vendor = stand_in(provider, plan(faults, seed), ledger)
            made.ways.append(Way(provider, in_doubt, stack.enter_context(vendor)))
        try:
            yield made.configure()
        finally:
            for process in made.processes:
                if process.popen.poll() is None:
                    process.popen.send_signal(signal.SIGCONT)
                    process.kill()
                process.ended()
                for pipe in (process.popen.stdout, process.popen.stderr):
                    if pipe is not None:
                        pipe.close()


def stand_in(provider: str, script: Plan, ledger: Ledger) -> Vendor:
    """The vendor behind a provider."""
    if provider == "telegram":
        return TelegramApi("1:x", plan=script, ledger=ledger)
    if provider == "webhook":
        return WebhookReceiver([SECRET], plan=script, ledger=ledger)
    if provider == "fcm":
        return FcmApi(plan=script, ledger=ledger)
    if provider == "webpush":
        return PushService(plan=script, ledger=ledger)
    return MailServer(plan=script, ledger=ledger)


def dice(seed: int) -> random.Random:
    """The chance of a run, printed so that it can be had again."""
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    return random.Random(seed)


def eventually(condition: Callable[[], bool], what: str, within: float = PATIENCE) -> None:
    """Look until it holds: for states that only a database tells."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)
