"""What every command shares: the configuration that was named, a running library, and how results are shown."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from ringonce.errors import RingonceError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from ringonce.app import Ringonce
    from ringonce.config import Config

T = TypeVar("T")


class UsageError(RingonceError):
    """The command line is wrong; nothing was done. ``field`` names the option."""

    code = "usage"


OK, FAILED, USAGE, NOT_FOUND = 0, 1, 2, 3

config_file: ContextVar[Path | None] = ContextVar("config_file", default=None)
"""``--config``; None: ``RINGONCE_CONFIG``, ``./ringonce.toml``, else the defaults."""


def configuration() -> Config:
    """The configuration of this call. Raises ConfigError."""
    from ringonce.config import load

    return load(config_file.get())


@asynccontextmanager
async def opened(config: Config | None = None, *, migrate: bool = False) -> AsyncIterator[Ringonce]:
    """The library on this configuration. ``migrate``: bring an SQLite database up to date first."""
    from ringonce.app import Ringonce

    ringonce = Ringonce(config or configuration())
    if migrate and ringonce.config.store.sqlite:
        await ringonce.migrate()
    async with ringonce:
        yield ringonce


def run_async(coroutine: Coroutine[Any, Any, T], *, loop: Callable[[], AbstractEventLoop] | None = None) -> T:
    """``asyncio.run``, which is not loaded before it is needed: ``--help`` and mistakes need none."""
    import asyncio

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(coroutine)


def with_ringonce(work: Callable[[Ringonce], Awaitable[T]]) -> T:
    """Run ``work`` with an opened library."""

    async def run() -> T:
        async with opened() as ringonce:
            return await work(ringonce)

    return run_async(run())


def say(text: str = "") -> None:
    """A line of the result."""
    print(text)


def confirm(question: str) -> None:
    """Ask a person. Raises UsageError where nobody can be asked, or the answer is not yes."""
    if not sys.stdin.isatty():
        raise UsageError("needs a yes", field="yes", mend="add --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise UsageError("nothing was done")


def note(text: str) -> None:
    """A line beside the result: on standard error."""
    print(text, file=sys.stderr)


def show_json(value: object) -> None:
    """The result as JSON on standard output."""
    print(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def show_table(columns: Sequence[str], rows: Sequence[Mapping[str, object]], *, empty: str) -> None:
    """The result as a table: as wide as its content when it is not read on a terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    if not rows:
        say(empty)
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        numeric = all(isinstance(row.get(column), (int, float)) for row in rows)
        table.add_column(column.replace("_", " "), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell(row.get(column)) for column in columns))
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = max(console.width, 10_000)
    console.print(table)


def cell(value: object) -> str:
    """A value as a table shows it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def uuid(text: str) -> UUID:
    """A notification's id. Raises UsageError."""
    from uuid import UUID

    try:
        return UUID(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is no id of a notification", field="ID", mend="take one from `ringonce list`"
        ) from None


def moment(text: str | None, field: str) -> int | None:
    """``24h`` (that long ago) or an RFC 3339 time, in microseconds UTC. Raises UsageError."""
    import time
    from datetime import UTC, datetime

    from ringonce.config.kinds import Bad, duration

    if text is None:
        return None
    try:
        back = duration().convert(text)
        assert isinstance(back, int)
        return time.time_ns() // 1_000 - back
    except Bad:
        pass
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError("is no time", field=field, mend="write 24h, or 2026-12-01T09:00:00Z") from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return round(when.timestamp() * 1_000_000)
