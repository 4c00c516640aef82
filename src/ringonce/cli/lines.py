"""``send --file``: lines in, batches to the store, good lines accepted, bad ones listed."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ringonce.cli.session import UsageError, note, opened, run_async
from ringonce.errors import InputError, PayloadTooLarge, RingonceError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ringonce.app import Ringonce
    from ringonce.ports import NewEvent

BATCH = 200
MOST_LISTED = 1_000
"""Bad lines that are kept for ``--json``; more are only counted."""


@dataclass(slots=True)
class Summary:
    """What became of the lines."""

    accepted: int = 0
    duplicates: int = 0
    notifications: int = 0
    bad: int = 0
    problems: list[dict[str, object]] = field(default_factory=list)
    list_bad: bool = True

    def refuse(self, line: int, error: RingonceError) -> None:
        """One line was not accepted."""
        self.bad += 1
        if self.list_bad:
            note(f"line {line}: [{error.code}] {error}")
        if len(self.problems) < MOST_LISTED:
            self.problems.append(
                {"line": line, "code": error.code, "field": error.field, "error": str(error)}
            )

    def view(self) -> dict[str, object]:
        """As JSON."""
        return {
            "accepted": self.accepted,
            "duplicates": self.duplicates,
            "notifications": self.notifications,
            "bad": self.bad,
            "problems": self.problems,
        }

    def words(self) -> str:
        """In one line."""
        return (
            f"accepted {self.accepted} events ({self.notifications} notifications), "
            f"{self.duplicates} known already, {self.bad} bad"
        )


def send_lines(name: str, *, list_bad: bool) -> Summary:
    """Accept every good line of the file ``name`` (``-``: standard input).

    Raises UsageError for a file that can not be read; StoreError tells how far it came.
    """
    summary = Summary(list_bad=list_bad)
    if name == "-":
        run_async(_send(sys.stdin.buffer, None, summary))
        return summary
    path = Path(name)
    try:
        with path.open("rb") as source:
            run_async(_send(source, path.stat().st_size, summary))
    except OSError as error:
        raise UsageError(f"{name} can not be read: {error.strerror}", field="FILE") from None
    return summary


async def _send(source: BinaryIO, total: int | None, summary: Summary) -> None:
    async with opened() as ringonce:
        limit = ringonce.config.limits.max_payload
        batch: list[tuple[int, NewEvent]] = []
        with _progress(total) as advance:
            for number, line, length in _lines(source, limit):
                event = _prepared(ringonce, number, line, limit, summary)
                if event is not None:
                    batch.append((number, event))
                advance(length)
                if len(batch) >= BATCH:
                    await _store(ringonce, batch, summary)
                    batch = []
            await _store(ringonce, batch, summary)


def _lines(source: BinaryIO, limit: int) -> Iterator[tuple[int, bytes | None, int]]:
    """(number, line without its end or None when it is too long, bytes read); empty lines are left out."""
    number = 0
    while line := source.readline(limit + 2):
        number += 1
        length = len(line)
        whole = line.endswith(b"\n") or length < limit + 2
        while not whole:
            rest = source.readline(limit)
            length += len(rest)
            whole = not rest or rest.endswith(b"\n")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if length > len(line) + 3 or len(line.rstrip(b"\r\n")) > limit:
            yield number, None, length
        elif line.strip():
            yield number, line.rstrip(b"\r\n"), length


def _prepared(
    ringonce: Ringonce, number: int, line: bytes | None, limit: int, summary: Summary
) -> NewEvent | None:
    try:
        if line is None:
            raise PayloadTooLarge(f"longer than {limit} bytes", mend="send less data with the event")
        return ringonce.engine.prepare(line)
    except InputError as error:
        summary.refuse(number, error)
        return None


async def _store(ringonce: Ringonce, batch: list[tuple[int, NewEvent]], summary: Summary) -> None:
    try:
        results = await ringonce.engine.accept_prepared([event for _, event in batch])
    except StoreError as error:
        error.message = (
            f"{error.message}; {summary.words()}, nothing from line {batch[0][0]} on: "
            "lines with an event_id can be sent again without harm"
        )
        raise
    for (number, _), accepted in zip(batch, results, strict=True):
        if accepted.conflict:
            summary.refuse(
                number,
                InputError(
                    f"event {accepted.event_id} was accepted with another body",
                    field="event_id",
                    code="conflict",
                ),
            )
        elif accepted.duplicate:
            summary.duplicates += 1
        else:
            summary.accepted += 1
            summary.notifications += len(accepted.notifications)


@contextmanager
def _progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on standard error while somebody looks at it."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("accepting"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("accepting", total=total)
        yield lambda length: progress.advance(task, length)
