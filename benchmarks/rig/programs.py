"""The programs that are measured, each in a process of its own, and their configuration."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.kit.context import environment, ringonce
from benchmarks.kit.ringonce import toml
from benchmarks.kit.servers import ROOT, end
from benchmarks.rig.http import HOST
from ringonce import Ringonce

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PATIENCE = 60.0
HERE = Path(__file__).parent


@dataclass(slots=True)
class Clocked:
    """A stub that tells when each call arrived (see clocked.py), while it runs."""

    port: int
    pid: int

    @property
    def base_url(self) -> str:
        """The ``base_url`` of a channel."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def token_uri(self) -> str:
        """The ``token_uri`` of a service account."""
        return f"{self.base_url}/token"

    def arrivals(self) -> dict[str, int]:
        """Token -> when its first call arrived, nanoseconds of the monotonic clock; then forgotten by the stub."""
        first: dict[str, int] = {}
        for token, when in self._get("/arrivals"):
            first.setdefault(token, when)
        return first

    def count(self) -> int:
        """Calls accepted since the start."""
        return int(self._get("/count"))

    def _get(self, path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@contextlib.contextmanager
def clocked() -> Iterator[Clocked]:
    """Start the stub, end it."""
    process = subprocess.Popen([sys.executable, str(HERE / "clocked.py")], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield Clocked(int(process.stdout.readline()), process.pid)
    finally:
        end(process, signal.SIGTERM)


def write(file: Path, config: dict[str, Any]) -> Path:
    """A configuration as a file of this name."""
    file.write_text("\n".join(toml(config)) + "\n")
    return file


def migrated(config: Mapping[str, Any], *events: Mapping[str, Any]) -> list[str]:
    """Make the tables, accept these events, and name the notifications."""

    async def prepare() -> list[str]:
        ringonce_ = Ringonce(config)
        await ringonce_.migrate()
        async with ringonce_:
            accepted = await ringonce_.notify_many(events)
        return [str(one.id) for item in accepted for one in item.notifications]

    return asyncio.run(prepare())


@contextlib.contextmanager
def worker(config: Path, name: str = "worker", *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """``ringonce worker``, from when it has said what it works on. ``name``: of its log."""
    command = ringonce("--config", str(config), "worker", *arguments)
    with _running(command, config.with_suffix(f".{name}.log"), "channels:") as process:
        yield process


@contextlib.contextmanager
def api(config: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """``ringonce api``, the HTTP API without a worker, and its port."""
    log, word = config.with_suffix(".api.log"), f"listening on http://{HOST}:"
    command = ringonce("--config", str(config), "api", "--host", HOST, "--port", "0")
    with _running(command, log, word) as process:
        yield process, int(log.read_text().partition(word)[2].split()[0])


@contextlib.contextmanager
def _running(command: list[str], log: Path, word: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program, from when it has said ``word`` and a line's end."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out, env=environment())
    try:
        deadline = time.monotonic() + PATIENCE
        while not log.read_text(errors="replace").partition(word)[2].strip(" "):
            if process.poll() is not None or time.monotonic() > deadline:
                words = log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{' '.join(command)} did not start: {words}")
            time.sleep(0.02)
        yield process
    finally:
        end(process, signal.SIGTERM, PATIENCE)


def status(pid: int, key: str = "VmRSS") -> int:
    """Bytes of memory of one process: ``VmRSS`` now, ``VmHWM`` at its most (proc_pid_status(5))."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has no {key}: it has ended")


def ran(pid: int) -> int:
    """Nanoseconds that the first thread of a process has run: finer than ticks, for what takes milliseconds."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
