"""``ringonce worker --processes N``: a parent and its children, on PostgreSQL."""

import contextlib
import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.harness import Process
from tests.servers.ports import free_port
from tests.servers.postgres import Database

pytestmark = pytest.mark.timeout(600)

PATIENCE = 120.0
CONFIG = """
[store]
url = "{url}"
[retry]
cycle = "50ms"
[worker]
processes = 2
metrics = "127.0.0.1:{port}"
grace = "5s"
[channels.ok]
provider = "sandbox"
"""


@pytest.fixture
def folder(tmp_path: Path, pg_database: Database) -> Path:
    """A configuration of two processes and a migrated database."""
    (tmp_path / "ringonce.toml").write_text(CONFIG.format(url=pg_database.url("asyncpg"), port=free_port()))
    assert ring(tmp_path, "migrate").returncode == 0
    return tmp_path


def ring(folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "ringonce", *arguments]
    # Beside a parent whose ports are taken.
    environ = os.environ | {"RINGONCE_WORKER_METRICS": f"127.0.0.1:{free_port()}"}
    return subprocess.run(
        command, cwd=folder, input=stdin, capture_output=True, text=True, check=False, env=environ
    )


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Process]]:
    """Starts a parent; ends it, and with it its children, however the test ends."""
    started: list[Process] = []

    def make(*arguments: str) -> Process:
        popen = subprocess.Popen(
            [sys.executable, "-m", "ringonce", "worker", *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        started.append(Process(popen).read())
        return started[-1]

    yield make
    for process in started:
        if process.popen.poll() is None:
            process.kill()
        process.ended()
        for pipe in (process.popen.stdout, process.popen.stderr):
            assert pipe is not None
            pipe.close()


def children(process: Process) -> list[int]:
    """The process ids below a parent."""
    path = Path(f"/proc/{process.popen.pid}/task/{process.popen.pid}/children")
    return [int(pid) for pid in path.read_text().split()]


def metrics(folder: Path, number: int) -> str:
    """What the process of that number tells; the parent's is 0."""
    found = re.search(r"127\.0\.0\.1:(\d+)\"", (folder / "ringonce.toml").read_text())
    assert found is not None
    with contextlib.closing(
        http.client.HTTPConnection("127.0.0.1", int(found[1]) + number, timeout=PATIENCE)
    ) as connection:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()


def said_twice(process: Process, part: str) -> None:
    """Wait until two lines hold ``part``."""
    with process._said:
        twice = process._said.wait_for(lambda: sum(part in line for line in process.lines) == 2, PATIENCE)
    assert twice, process.lines


@contextlib.contextmanager
def ending(*pids: int) -> Iterator[None]:
    """At the end of the block these processes have ended, or do so now."""
    handles = [os.pidfd_open(pid) for pid in pids]
    try:
        yield
        for handle in handles:
            assert select.select([handle], [], [], PATIENCE)[0], "a child lives on"
    finally:
        for handle in handles:
            os.close(handle)


def events(count: int) -> str:
    """Lines for ``send --file -``."""
    return "".join(
        json.dumps({"event_id": f"e{n}", "to": {"ok": f"a{n}"}, "content": {"text": "x"}}) + "\n"
        for n in range(count)
    )


def sent(folder: Path) -> tuple[int, int]:
    """What the once report says: sent, pending."""
    report = json.loads(ring(folder, "report", "--json").stdout)
    return report["sent"], report["pending"]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_dead_child_is_started_again(folder: Path, start: Callable[..., Process]) -> None:
    """Kill -9 of one: it is told, another one takes its place, all is sent, and SIGTERM ends them all with 0."""
    parent = start()
    parent.said("worker 1: ready")
    parent.said("worker 2: ready")
    first, second = children(parent)
    os.kill(first, signal.SIGKILL)
    parent.said('"alert": "worker_died"')
    parent.said("SIGKILL")
    said_twice(parent, "worker 1: ready")
    assert "ringonce_worker_restarts_total 1\n" in metrics(folder, 0)
    assert "ringonce_worker_restarts_total" not in metrics(folder, 1) + metrics(folder, 2)
    assert ring(folder, "send", "--file", "-", stdin=events(30)).returncode == 0
    assert ring(folder, "worker", "--processes", "1", "--drain").returncode == 0
    assert sent(folder) == (30, 0)
    below = children(parent)
    assert second in below
    assert len(below) == 2
    with ending(*below):
        parent.signal(signal.SIGTERM)
        assert parent.ended() == 0, parent.lines


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_children_end_with_their_parent(start: Callable[..., Process]) -> None:
    """Kill -9 of the parent: the children notice, finish what has begun, and end."""
    parent = start()
    parent.said("worker 1: ready")
    parent.said("worker 2: ready")
    with ending(*children(parent)):
        parent.kill()
        parent.ended()  # the children hold its standard error, so this hears them out
        assert sum("the parent has gone" in line for line in parent.lines) == 2


def test_drained_when_all_have_drained(folder: Path) -> None:
    """With --drain the parent ends when each child has nothing left to do, and what is left is told once."""
    assert ring(folder, "send", "--file", "-", stdin=events(30)).returncode == 0
    done = ring(folder, "worker", "--processes", "3", "--drain", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"left": []}
    assert sent(folder) == (30, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_options_are_passed_on(start: Callable[..., Process]) -> None:
    """--only is the children's, and none of them becomes a parent itself."""
    parent = start("--only", "sweep,rescue")
    parent.said("worker 1: ready")
    parent.said("worker 2: ready")
    for pid in children(parent):
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        assert words[words.index("--only") + 1] == "sweep,rescue"
        assert words[words.index("--processes") + 1] == "1"
        assert not Path(f"/proc/{pid}/task/{pid}/children").read_text()
    parent.signal(signal.SIGTERM)
    assert parent.ended() == 0, parent.lines


def test_what_concerns_all_is_told_before_they_start(folder: Path, pg_database: Database) -> None:
    """A database without its tables is one line and exit 1, as with one process, and not a restart after the other."""
    with pg_database.connect() as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    done = ring(folder, "worker")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "ringonce migrate" in done.stderr


def test_a_second_signal_ends_at_once(start: Callable[..., Process]) -> None:
    """The first signal lets them finish, the second one does not wait for it, and whenever it comes, quietly."""
    parent = start()
    parent.said("worker 1: ready")
    parent.said("worker 2: ready")
    parent.signal(signal.SIGINT)
    parent.said("the workers finish what has begun")
    parent.signal(signal.SIGINT)
    assert parent.ended() in {0, 1}, parent.lines
    assert not any("Traceback" in line for line in parent.lines), parent.lines
