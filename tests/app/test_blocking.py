"""The library for code that blocks."""

import inspect
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ringonce import app
from ringonce.blocking import Ringonce
from ringonce.errors import ConflictError, InputError, RingonceError, StoreUnavailable

TO = {"to": {"ok": "4815162342"}, "content": {"text": "hello"}}
CHANNELS = {"ok": {"provider": "sandbox"}}


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """A file of its own and one channel."""
    return {"store": {"url": f"sqlite:///{tmp_path}/ringonce.db"}, "channels": CHANNELS}


def test_every_public_coroutine_is_there() -> None:
    """Whatever the asynchronous class can do, the blocking one can; add a line to it where this fails."""
    coroutines = {
        name
        for name, member in inspect.getmembers(app.Ringonce, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    missing = {name for name in coroutines - {"enqueue_async"} if not hasattr(Ringonce, name)}
    assert missing == set()
    assert not any(inspect.iscoroutinefunction(getattr(Ringonce, name)) for name in dir(Ringonce))


def test_opens_itself_and_delivers(config: dict[str, Any]) -> None:
    """The first call opens it; results and errors are those of the asynchronous library."""
    ringonce = Ringonce(config)
    accepted = ringonce.notify(event_id="e-1", **TO)
    assert ringonce.notify(event_id="e-1", **TO).duplicate
    with pytest.raises(ConflictError):
        ringonce.notify(event_id="e-1", to=TO["to"], content={"text": "other"})
    with pytest.raises(InputError):
        ringonce.notify(to={"nowhere": "1"}, content={"text": "x"})
    ringonce.run_worker(drain=True)
    assert ringonce.get(accepted.notifications[0].id).row.state.status == "sent"
    ringonce.close()


def test_closed_is_closed(config: dict[str, Any]) -> None:
    """After the with block nothing opens it by accident; ``open`` does."""
    with Ringonce(config) as ringonce:
        ringonce.notify(**TO)
    with pytest.raises(StoreUnavailable):
        ringonce.search()
    ringonce.open()
    assert len(ringonce.search()) == 1
    ringonce.close()


def test_threads_share_one(config: dict[str, Any]) -> None:
    """Many threads call at once, the first call included: one event loop thread, nothing lost."""
    ringonce = Ringonce(config)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: ringonce.notify(event_id=f"e-{number}", **TO), range(40)))
        assert [thread.name for thread in threading.enumerate()].count("ringonce-blocking") == 1
    assert len(ringonce.search(limit=100)) == 40
    ringonce.close()


def test_closing_ends_a_worker_in_another_thread(config: dict[str, Any]) -> None:
    """``close`` stops a running worker, which returns, and waits for it."""
    ringonce = Ringonce(config)
    asked = threading.Event()

    @ringonce.guard("order")
    def still_wanted(_: object) -> bool:
        asked.set()
        return True

    with ThreadPoolExecutor(1) as pool:
        ringonce.notify(subject="order:1", **TO)
        worker = pool.submit(ringonce.run_worker)
        assert asked.wait(60)
        ringonce.close()
        assert worker.result(60) is None


def test_failing_to_open_leaves_no_thread(tmp_path: Path) -> None:
    """A database that can not be opened is told with each call, and no thread stays behind."""
    ringonce = Ringonce(store={"url": f"sqlite:///{tmp_path}/no/such/folder.db"})
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="does not exist"):
            ringonce.search()
    assert "ringonce-blocking" not in [thread.name for thread in threading.enumerate()]


def test_a_blocking_call_in_its_own_event_loop_is_refused(config: dict[str, Any]) -> None:
    """A coroutine of ours that calls the blocking library would wait for itself: an error instead."""
    ringonce = Ringonce(config)

    async def inside(_: app.Ringonce) -> None:
        ringonce.search()

    with pytest.raises(RingonceError, match="wait for itself"):
        ringonce.run(inside)
    ringonce.close()


def python(code: str, config: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run a program with all warnings as errors."""
    head = f"from ringonce.blocking import Ringonce\nringonce = Ringonce({config!r})\n"
    command = [sys.executable, "-W", "error", "-c", head + code]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def test_exit_without_closing_is_silent(config: dict[str, Any]) -> None:
    """A program that ends with it open, after a worker with guards in threads, prints nothing and ends well."""
    code = f"""
@ringonce.guard("order")
def still_wanted(row):
    return True

ringonce.notify(subject="order:1", **{TO!r})
ringonce.run_worker(drain=True)
print(ringonce.search()[0].state.status)
"""
    done = python(code, config)
    assert (done.returncode, done.stdout, done.stderr) == (0, "sent\n", "")


def test_after_a_fork_the_open_one_is_refused(config: dict[str, Any]) -> None:
    """A child is told so at once instead of hanging, and leaves its parent's alone; unopened, it survives."""
    code = f"""
import os, sys, warnings
from ringonce.errors import StoreUnavailable
# Since Python 3.12 a process with threads is warned when it forks; servers do so all the same.
warnings.filterwarnings("ignore", "This process", DeprecationWarning)
fresh = Ringonce({config!r})
ringonce.notify(**{TO!r})
child = os.fork()
if child == 0:
    try:
        ringonce.search()
    except StoreUnavailable as error:
        print(error.mend, flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
print(len(ringonce.search()), flush=True)
ringonce.close()
child = os.fork()
if child == 0:
    print(len(fresh.search()), flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    done = python(code, config)
    assert (done.returncode, done.stderr) == (0, "")
    told, *counts = done.stdout.splitlines()
    assert "after the fork" in told
    assert counts == ["1", "1"]


@pytest.mark.parametrize("stopped", [False, True])
def test_interrupt_ends_a_worker_well(config: dict[str, Any], stopped: bool) -> None:
    """Ctrl-C in ``run_worker`` lets the worker stop, then arrives, whichever thread the system gives it to."""
    code = f"""
import signal
# A run of the tests in the background begins with Ctrl-C ignored, and its children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
ringonce.notify(**{TO!r})

@ringonce.guard("order")
def still_wanted(row):
    print("asked", flush=True)
    return True

ringonce.notify(subject="order:1", **{TO!r})
try:
    ringonce.run_worker()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    head = f"from ringonce.blocking import Ringonce\nringonce = Ringonce({config!r})\n"
    command = [sys.executable, "-W", "error", "-c", head + code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        if stopped:  # so that it may come to any thread afterwards
            os.kill(process.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGCONT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (0, "interrupted\n", "")
