"""A line of code knows its room: each rule over the whole package, and each rule against a broken sample."""

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.arch import rules

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "ringonce"
MODULES = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
LONGEST = 500
MEDIAN = 150

Rule = Callable[[str, str], Iterator[str]]


def _findings(rule: Rule) -> list[str]:
    return [f"{path}:{found}" for path, source in MODULES.items() for found in rule(path, source)]


def test_question_1_async() -> None:
    """No coroutine in model, core, provider and the providers."""
    assert _findings(rules.awaits) == []


def test_question_2_outside_world() -> None:
    """No clock, randomness, environment, file, socket or thread in the pure rooms and in the engine."""
    assert _findings(rules.reaches_out) == []


def test_question_3_sql() -> None:
    """SQL in the store only."""
    assert _findings(rules.speaks_sql) == []


def test_question_4_vendors() -> None:
    """A vendor's name in its provider's file and among the stand-ins only."""
    assert _findings(rules.names_vendor) == []


def test_question_5_status() -> None:
    """A status is chosen by the transition table only."""
    assert _findings(rules.assigns_status) == []


def test_nothing_is_unfinished() -> None:
    """No marker for later, no stub."""
    assert _findings(rules.unfinished) == []


def test_nobody_imports_the_public_names() -> None:
    """Inside the package, modules import each other, never the package's front."""
    assert _findings(rules.imports_root) == []


def test_nouns_need_the_standard_library_only() -> None:
    """Model and errors import no other package."""
    assert _findings(rules.beyond_standard_library) == []


def test_modules_are_small() -> None:
    """A module has 500 lines at most, half of them 150 at most."""
    sizes = {path: source.count("\n") for path, source in MODULES.items() if source.strip()}
    assert {path: size for path, size in sizes.items() if size > LONGEST} == {}
    assert statistics.median(sizes.values()) <= MEDIAN


def test_imports_point_down() -> None:
    """The layers of pyproject.toml hold."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


BROKEN = [
    (rules.awaits, "core/x.py", "async def f(): pass"),
    (rules.awaits, "providers/x.py", "def f():\n    return [x async for x in y]"),
    (rules.reaches_out, "core/x.py", "import time"),
    (rules.reaches_out, "core/x.py", "import os.path"),
    (rules.reaches_out, "core/x.py", "import asyncio"),
    (rules.reaches_out, "model/x.py", "from datetime import datetime\nx = datetime.now()"),
    (rules.reaches_out, "model/x.py", "import datetime\nx = datetime.datetime.now(datetime.UTC)"),
    (rules.reaches_out, "provider.py", "from uuid import uuid4"),
    (rules.reaches_out, "providers/x.py", "import email.utils\nx = email.utils.formatdate()"),
    (rules.reaches_out, "providers/x.py", "def f():\n    return open('x')"),
    (rules.reaches_out, "engine/x.py", "import asyncio\nasync def f():\n    await asyncio.sleep(1)"),
    (rules.reaches_out, "engine/x.py", "from asyncio import wait_for"),
    (rules.reaches_out, "engine/x.py", "from http.client import HTTPConnection"),
    (rules.reaches_out, "engine/x.py", "def f(loop):\n    loop.call_later(1, f)"),
    (rules.speaks_sql, "engine/x.py", "from sqlalchemy import text"),
    (rules.speaks_sql, "cli/x.py", "q = 'SELECT 1\\nFROM x'"),
    (rules.speaks_sql, "app.py", "q = f'DELETE FROM {x}'"),
    (rules.speaks_sql, "api/x.py", "q = 'insert into x (a) values (1)'"),
    (rules.names_vendor, "core/x.py", "class TelegramError: pass"),
    (rules.names_vendor, "engine/x.py", "x = 1  # as Slack does"),
    (rules.names_vendor, "providers/apns.py", "x = 'fcm'"),
    (rules.names_vendor, "cli/x.py", "x = 'FCM_TOKEN'"),
    (rules.assigns_status, "engine/x.py", "row.status = Status.SENT"),
    (rules.assigns_status, "engine/x.py", "row['status'] = 'sent'"),
    (rules.assigns_status, "store/x.py", "update.values(status='cancelled')"),
    (rules.assigns_status, "store/x.py", "q = \"UPDATE n SET a = 1, status = 'sent' WHERE id = 1\""),
    (rules.assigns_status, "core/x.py", "x = replace(state, status=model.Status.SENT)"),
    (rules.assigns_status, "core/x.py", "x = State(Status.SENT, 1)"),
    (rules.assigns_status, "model/x.py", "class A:\n    status: Status = Status.PENDING"),
    (rules.unfinished, "core/x.py", "x = 1  # TODO: more"),
    (rules.unfinished, "core/x.py", "def f():\n    raise NotImplementedError"),
    (rules.unfinished, "core/x.py", "def f():\n    '''Do.'''\n    ..."),
    (rules.imports_root, "engine/x.py", "from ringonce import Ringonce"),
    (rules.imports_root, "engine/x.py", "import ringonce"),
    (rules.beyond_standard_library, "model/x.py", "import msgspec"),
    (rules.beyond_standard_library, "model/quick.py", "import pycurl"),
]


@pytest.mark.parametrize(("rule", "path", "source"), BROKEN)
def test_broken_sample_is_found(rule: Rule, path: str, source: str) -> None:
    """Each rule finds what it forbids."""
    assert list(rule(path, source))


SOUND = [
    (rules.awaits, "engine/x.py", "async def f(): pass"),
    (rules.reaches_out, "wire/x.py", "import socket"),
    (rules.reaches_out, "engine/x.py", "import asyncio\nx = asyncio.Event()"),
    (
        rules.reaches_out,
        "core/x.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pathlib",
    ),
    (
        rules.reaches_out,
        "core/x.py",
        "from datetime import UTC, datetime\nx = datetime.fromtimestamp(1, UTC)",
    ),
    (
        rules.reaches_out,
        "providers/x.py",
        "from urllib.parse import quote\nfrom email.utils import formatdate",
    ),
    (rules.speaks_sql, "store/x.py", "q = 'SELECT 1 FROM x'"),
    (rules.speaks_sql, "core/x.py", "'''Select rows FROM the table.'''\nx = 'select one from the list'"),
    (rules.names_vendor, "providers/fcm.py", "x = 'Firebase'  # fcm, apns-priority"),
    (rules.names_vendor, "core/x.py", "x = max(teams)  # slackening, webpush"),
    (rules.assigns_status, "core/machine.py", "x = State(status=Status.SENT)"),
    (rules.assigns_status, "store/x.py", "x = State(status=Status(row.status))"),
    (rules.assigns_status, "cli/x.py", "x = store.search(status='failed')\ny = row.status == Status.SENT"),
    (rules.assigns_status, "store/x.py", "q = \"UPDATE n SET a = 1 WHERE status = 'sent'\""),
    (rules.assigns_status, "vendors/x.py", "x = Reply(status='sent')"),
    (rules.unfinished, "ports.py", "class P(Protocol):\n    def f(self): ..."),
    (rules.imports_root, "engine/x.py", "from ringonce import errors\nfrom ringonce.model import event"),
    (rules.beyond_standard_library, "model/x.py", "import dataclasses\nimport ringonce.model.event"),
    (rules.beyond_standard_library, "model/quick.py", "import msgspec"),
]


@pytest.mark.parametrize(("rule", "path", "source"), SOUND)
def test_sound_sample_passes(rule: Rule, path: str, source: str) -> None:
    """No rule finds what it allows."""
    assert list(rule(path, source)) == []
