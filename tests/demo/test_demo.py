"""``ringonce demo`` itself, from outside, as a stranger starts it."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from ringonce import registry
from ringonce.cli.root import run

# Each is a minute's work for an idle machine at most, and many for a busy one.
pytestmark = pytest.mark.timeout(600)

TOTALS = {"accepted", "sent", "assumed", "in_doubt", "pending", "failed", "duplicates_refused", "repeats"}
FEW = 60


def start(*arguments: str, folder: Path, count: int = FEW) -> subprocess.Popen[str]:
    """The demo in a process, in another folder and with an environment that would mislead its worker."""
    return subprocess.Popen(
        [sys.executable, "-m", "ringonce", "demo", "--notifications", str(count), *arguments],
        cwd=folder,
        env={
            **os.environ,
            "RINGONCE_CHANNELS__EMAIL__ENABLED": "false",
            "RINGONCE_STORE__URL": "sqlite:///no/where",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ports(words: str) -> list[int]:
    """The servers' ports."""
    return [int(number) for number in re.findall(r"on port (\d+)", words)]


def get(url: str) -> bytes:
    """What curl would print."""
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - our own
        body: bytes = answer.read()
    return body


def listening(port: int) -> bool:
    """Does anybody stay there? By chance the system may have given the port to a server of another test meanwhile."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return False
        time.sleep(0.05)
    return True


def workers(folder: Path) -> list[str]:
    """Command lines of living processes that name ``folder``."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in words and "worker" in words:
                found.append(words)
    return found


def test_a_small_one_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Few notifications: every promise is kept, the JSON holds report and verdict, the folder stays explorable."""
    kept = tmp_path / "kept"
    process = start("--json", "--seed", "5", "--keep", str(kept), folder=tmp_path)
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, out + err
    told: dict[str, Any] = json.loads(out)
    assert set(told) >= TOTALS
    assert told["verdict"] == "kept"
    assert [check["name"] for check in told["checks"] if not check["ok"]] == []
    assert (told["pending"], told["in_doubt"], told["kills"]) == (0, 0, 1)
    # Owners of dead devices are told once more.
    assert told["accepted"] > FEW
    inapp = told["channels"]["inapp"]
    assert inapp["accepted"] == inapp["sent"] == inapp["received"]["sent"] == inapp["received"]["requests"]
    assert told["calls_under_way_at_the_kill"] > 0
    assert told["duplicates_refused"] > 0
    assert sum(channel["doubts_of_the_kill"] for channel in told["channels"].values()) > 0
    # Who blocked the bot may be in doubt instead: the kill or a reset can meet just that call.
    refused = {"NTF_PROVIDER_INVALID_RECIPIENT", "NTF_PUSH_TOKEN_INVALID"}
    assert refused <= told["failed"].keys() <= {*refused, "NTF_PROVIDER_BLOCKED"}
    assert told["suppressed"] > 0
    assert len(ports(err)) == 5
    assert not any(map(listening, ports(err)))
    assert workers(kept) == []
    for id_ in told["explore"].values():
        assert run(["--config", told["config"], "explain", id_]) == 0
        assert capsys.readouterr().out
    assert run(["--config", told["config"], "report", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == {name: told[name] for name in report}


def test_all_of_it_from_end_to_end(tmp_path: Path) -> None:
    """With --all every provider sends to its stand-in through faults and a kill, and every promise is kept."""
    process = start("--all", "--json", "--seed", "5", folder=tmp_path, count=150)
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, out + err
    told: dict[str, Any] = json.loads(out)
    assert [check["name"] for check in told["checks"] if not check["ok"]] == []
    assert (told["verdict"], told["pending"], told["in_doubt"]) == ("kept", 0, 0)
    assert (
        len(told["channels"]) + len(told["left_out"]) >= len(registry.names()) - 1
    )  # the sandbox sends nothing
    assert all(channel["sent"] > 0 for channel in told["channels"].values())
    assert not any(map(listening, ports(err)))


async def test_it_stays_and_serves(tmp_path: Path) -> None:
    """With --stay the API answers the printed calls after the report, until Ctrl-C, which ends it as a success."""
    process = start("--seed", "6", "--stay", folder=tmp_path)
    try:
        assert process.stdout is not None
        said: list[str] = []
        while not said or "/v1/inbox/" not in said[-1]:
            line = await asyncio.to_thread(process.stdout.readline)
            assert line, said
            said.append(line)
        urls = [line.split()[-1] for line in said[-3:]]
        answers = [json.loads(await asyncio.to_thread(get, url)) for url in urls]
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.to_thread(process.communicate)
    finally:
        process.kill()
    assert process.returncode == 0, err
    one, timeline, inbox = answers
    assert one["id"] == timeline["id"]
    assert timeline["entries"]
    assert len(inbox["notifications"]) >= 2
    assert "Every promise was kept" in "".join(said)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_stopped_in_the_middle(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C or SIGTERM while the worker runs: it ends with 130, and no process or port is left."""
    kept = tmp_path / "kept"
    process = start("--keep", str(kept), folder=tmp_path)
    try:
        assert process.stdout is not None
        said = ""
        while "started" not in said:
            line = await asyncio.to_thread(process.stdout.readline)
            assert line, said
            said += line
        process.send_signal(number)
        rest, err = await asyncio.to_thread(process.communicate)
    finally:
        process.kill()
    assert process.returncode == 130, rest + err
    assert err.splitlines() == [f"stopped; what there was until then is in {kept}"]
    assert len(ports(said)) == 5
    assert not any(map(listening, ports(said)))
    assert workers(kept) == []


@pytest.mark.parametrize(
    "arguments", [("--notifications", "19"), ("--keep", "."), ("--keep", "file"), ("--json", "--stay")]
)
def test_wrong_options(
    arguments: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Too few, a folder that is not empty, no folder, contradictions: usage errors that name the option."""
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    assert run(["demo", *arguments]) == 2
    assert arguments[0].strip("-").upper() in capsys.readouterr().err
