"""What a stand-in really received: the witness that a promise is checked against."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

REPEAT = "repeat"
"""The verdict of a receiver that knows the reference already and tells nobody again."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One request. ``at``: microseconds UTC. ``verdict``: what the stand-in did, e.g. ``200``, ``hang``.

    ``accepted``: the recipient was told, whether or not the sender got to know. ``reference``: the sender's
    own (Message-ID, webhook-id, text), empty where the protocol had not come that far.
    """

    reference: str
    address: str
    at: int
    verdict: str
    accepted: bool

    @property
    def arrived(self) -> bool:
        """The message came in whole and was taken, even if the receiver then ignored it as a repeat."""
        return self.accepted or self.verdict == REPEAT


class Ledger:
    """Entries in order of arrival, in memory and, with ``path``, as JSON lines.

    A line is written before the request is answered. ``fsync``: it is on disk by then, too (slow).
    May be read from any thread.
    """

    def __init__(self, path: str | Path | None = None, *, fsync: bool = False) -> None:
        self._entries: list[Entry] = []
        self._changed = threading.Condition()
        self._listeners: list[Callable[[Entry], None]] = []
        self._fsync = fsync
        self._file = Path(path).open("ab", buffering=0) if path is not None else None  # noqa: SIM115

    def record(self, reference: str, address: str, verdict: str, *, accepted: bool) -> None:
        """Add an entry."""
        entry = Entry(reference, address, time.time_ns() // 1000, verdict, accepted)
        if self._file is not None:
            self._file.write(json.dumps(asdict(entry), ensure_ascii=False).encode() + b"\n")
            if self._fsync:
                os.fsync(self._file.fileno())
        with self._changed:
            self._entries.append(entry)
            self._changed.notify_all()
        for tell in self._listeners:
            tell(entry)

    def listen(self, tell: Callable[[Entry], None]) -> None:
        """``tell`` is called with each new entry before the request is answered, in the thread of the server."""
        self._listeners.append(tell)

    @property
    def entries(self) -> list[Entry]:
        """A copy of all entries."""
        return list(self._entries)

    def accepted(self) -> Counter[tuple[str, str]]:
        """How often each (reference, address) was accepted."""
        return Counter((entry.reference, entry.address) for entry in self.entries if entry.accepted)

    def repeats(self) -> dict[tuple[str, str], int]:
        """What was accepted more than once: (reference, address) -> how often."""
        return {key: count for key, count in self.accepted().items() if count > 1}

    def wait_for(self, condition: Callable[[list[Entry]], bool], timeout: float = 30.0) -> bool:
        """Block until ``condition(entries)``; False: not within ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self.entries), timeout)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_ledger(path: str | Path) -> list[Entry]:
    """The entries of a file that another process writes; a last line that is not complete yet is left out."""
    complete, _, _ = Path(path).read_bytes().rpartition(b"\n")
    return [Entry(**json.loads(line)) for line in complete.splitlines() if line]
