"""One configuration with real providers, and every way in."""

import asyncio
import io
import json
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ringonce.api.app import create_app
from ringonce.app import Ringonce
from ringonce.cli.root import run
from tests.api.asgi import Caller

LIMIT = 4_096
CONFIG = f"""
[limits]
max_payload = "{LIMIT}B"
[channels.ok]
provider = "sandbox"
[channels.email]
provider = "smtp"
url = "smtp://127.0.0.1:1"
from = "shop@example.com"
[channels.hook]
provider = "webhook"
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
[channels.chat]
provider = "telegram"
token = "1:x"
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


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with all tables, to be copied."""
    file = tmp_path_factory.mktemp("migrated") / "ringonce.db"
    asyncio.run(Ringonce({"store": {"url": f"sqlite:///{file}"}}).migrate())
    return file


@pytest.fixture
def folder(tmp_path: Path, migrated: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with ringonce.toml and ringonce.db."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ringonce.toml").write_text(CONFIG, encoding="utf-8")
    shutil.copyfile(migrated, tmp_path / "ringonce.db")
    return tmp_path


@pytest.fixture
def ring(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ring:
    """``ring("send", stdin=b"…")`` runs one command in this process."""

    def call(*arguments: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run(arguments)
        return Done(code, out.getvalue(), err.getvalue())

    return call


@pytest.fixture
async def ringonce(folder: Path) -> AsyncIterator[Ringonce]:
    """The library on the same file."""
    async with Ringonce(folder / "ringonce.toml") as ringonce:
        yield ringonce


@pytest.fixture
def api(ringonce: Ringonce) -> Caller:
    """The API around it."""
    return Caller(create_app(ringonce, max_payload=LIMIT))
