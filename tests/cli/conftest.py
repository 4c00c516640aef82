"""Runs commands in this process, in a folder of their own with a configuration of scripted channels."""

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ringonce.cli.root import run

CONFIG = """
[retry]
cycle = "10ms"
[limits]
max_payload = "4KiB"
[channels.ok]
provider = "sandbox"
[channels.dead]
provider = "sandbox"
script = ["invalid_recipient"]
[channels.flaky]
provider = "sandbox"
script = ["transient", "ok"]
backoff = { kind = "fixed", base = "10ms", jitter = 0 }
[channels.doubt]
provider = "sandbox"
script = ["timeout"]
in_doubt = "hold"
"""


@dataclass(frozen=True, slots=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, decoded."""
        return json.loads(self.out)


Ring = Callable[..., Done]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with ringonce.toml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ringonce.toml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


@pytest.fixture
def ring(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ring:
    """``ring("send", "--text", "x", stdin=b"…")`` runs one command."""

    def call(*arguments: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = run(arguments)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return call


@pytest.fixture
def accepted(ring: Ring) -> Callable[..., str]:
    """``accepted("ok")`` accepts a notification on this channel and returns its id."""

    def accept(channel: str, *more: str) -> str:
        done = ring("send", "--to", f"{channel}=4815162342", "--text", "hello", "--json", *more)
        assert done.code == 0, done.err
        return str(done.json["notifications"][0]["id"])

    return accept
