"""The example that answers a marketplace's customers, run as its README says; and a worker killed in the middle."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ringonce.app import Ringonce
from ringonce.vendors.script import plan
from ringonce.vendors.wildberries import WildberriesApi
from tests.docs.pages import Session, blocks
from tests.requirements.conftest import System

EXAMPLE = Path(__file__).parents[2] / "examples" / "reply_publisher"
PATIENCE = 120.0


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


class Shop:
    """A copy of the example whose marketplace runs in this process."""

    def __init__(self, folder: Path, server: WildberriesApi) -> None:
        """Short leases, so that a worker that was killed is soon missed."""
        self.folder = folder
        shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
        file = folder / "ringonce.toml"
        text = file.read_text().replace("http://127.0.0.1:8025", server.url)
        file.write_text(text + 'lease = "1s"\nconcurrency = 1\n')

    def start(self, *command: str) -> subprocess.Popen[str]:
        """A program of the example's reader."""
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=self.folder,
            env={**os.environ, "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str) -> str:
        """Run one to its end; what it printed."""
        program = self.start(*command)
        out, err = program.communicate(timeout=PATIENCE)
        assert program.returncode == 0, err
        return out

    def draft(self, key: str) -> dict[str, Any]:
        """A draft as `ringonce drafts show` tells it."""
        shown: dict[str, Any] = json.loads(self.run("-m", "ringonce", "drafts", "show", key, "--json"))
        return shown

    async def pass_time(self, seconds: float) -> None:
        """What is due in future comes nearer, while no worker runs."""
        async with Ringonce(self.folder / "ringonce.toml") as ring:
            await System(self.folder, {}, ring).pass_time(seconds)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A copy of the folder, with a port of its own."""
    folder = tmp_path / "reply_publisher"
    shutil.copytree(EXAMPLE, folder)
    session = Session(folder)
    file = folder / "ringonce.toml"
    file.write_text(file.read_text().replace("8025", session.port("8025")))
    yield session
    session.close()


@pytest.mark.timeout(600)
def test_the_readme(session: Session) -> None:
    """From top to bottom the example does what its page says."""
    for block in blocks(EXAMPLE / "README.md"):
        session.run(block)
    told = [json.loads(line) for line in (session.folder / "published.jsonl").read_text().splitlines()]
    assert len(told) == 4


@pytest.mark.timeout(600)
@pytest.mark.parametrize("key", ["feedback:f-101", "question:q-7"])
async def test_killed_between_publication_and_commit(
    tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C06: published, then SIGKILL: the next worker is in doubt, reads back, finds it, and publishes nothing again."""
    kind, _, id_ = key.partition(":")
    faults = plan(["accept_then_hang:first=1"])
    with WildberriesApi("token", feedbacks=["f-101"], questions=["q-7"], plan=faults) as server:
        shop = Shop(tmp_path / "shop", server)
        monkeypatch.chdir(shop.folder)
        line = next(line for line in (EXAMPLE / "customers.jsonl").read_text().splitlines() if id_ in line)
        (shop.folder / "one.jsonl").write_text(line + "\n")
        shop.run("app.py", "one.jsonl")
        if kind == "question":
            shop.run("-m", "ringonce", "drafts", "send", key)
        first = shop.start("-m", "ringonce", "worker")
        until(lambda: server.published[kind, id_] == 1)
        first.kill()
        first.communicate()
        second = shop.start("-m", "ringonce", "worker")
        until(lambda: shop.draft(key)["status"] == "in_doubt")
        assert shop.draft(key)["state"] == "pending"
        second.send_signal(signal.SIGTERM)
        second.communicate(timeout=PATIENCE)
        await shop.pass_time(61)
        shop.run("-m", "ringonce", "worker", "--drain")
        seen = shop.draft(key)
        assert (seen["state"], seen["send_attempts"], seen["assumed"]) == ("sent", 1, False)
        attempts = [entry["outcome"] for entry in seen["history"] if entry["what"] == "attempt"]
        assert attempts == ["accepted"]
        again = shop.run("app.py", "one.jsonl")
        assert again == f"{key}: sent{', left alone' if kind == 'feedback' else ''}\n"
        shop.run("-m", "ringonce", "worker", "--drain")
        assert server.published == {(kind, id_): 1}
        reads = [entry for entry in server.ledger.entries if not entry.reference]
        assert len(reads) == 1
