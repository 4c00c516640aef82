"""Measuring a program by the calls that it makes, with a counter in a file instead of a server."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.kit.drain import Program, StalledError, drain

# Calls once, waits until that was seen, then calls as often as it is told, and waits for its end.
CALLER = """
import pathlib, signal, sys
calls, seen, more, over = pathlib.Path("calls"), pathlib.Path("seen"), int(sys.argv[1]), sys.argv[2]
with calls.open("ab", buffering=0) as file:
    file.write(b"x")
    while not seen.exists():
        pass
    file.write(b"x" * more)
print("last words", flush=True)
if over == "stays":
    signal.pause()
"""


@dataclass
class Counter:
    """Counts the bytes of a file, and says when it saw the first."""

    folder: Path
    pid: int = os.getpid()

    def calls(self) -> int:
        """How many calls came."""
        file = self.folder / "calls"
        count = file.stat().st_size if file.exists() else 0
        if count and not (self.folder / "seen").exists():
            (self.folder / "seen").touch()
        return count


def measure(folder: Path, more: int, over: str, count: int) -> dict[str, float]:
    """Run the caller and expect ``count`` calls."""
    command = [sys.executable, "-c", CALLER, str(more), over]
    program = Program(command, dict(os.environ), folder, folder / "log", ends=over == "ends")
    return drain(program, Counter(folder), count, {"database": os.getpid()}, patience=30)  # type: ignore[arg-type]


@pytest.mark.parametrize("over", ["ends", "stays"])
def test_rate_is_of_the_calls_after_the_first_look(tmp_path: Path, over: str) -> None:
    """The rate leaves out what the first look saw; a program that stays is ended, and none is lost."""
    told = measure(tmp_path, 10, over, 11)
    assert told["rate"] == pytest.approx(10 / told["seconds"], rel=0.1)
    assert (told["lost"], told["extra"]) == (0, 0)
    assert told.keys() >= {"cpu", "cpu_database", "cpu_stub"}
    assert told["cpu"] >= 0


def test_calls_beyond_the_queue_are_told(tmp_path: Path) -> None:
    """What is sent twice shows as extra calls."""
    told = measure(tmp_path, 12, "ends", 11)
    assert (told["lost"], told["extra"]) == (0, 2)


def test_program_that_ends_early_gives_no_figure(tmp_path: Path) -> None:
    """A program that ends before all calls came is an error with its last words, never a rate."""
    with pytest.raises(StalledError, match=r"5 of 11 calls came, then it ended with 0: last words"):
        measure(tmp_path, 4, "ends", 11)


def test_all_at_once_gives_no_figure(tmp_path: Path) -> None:
    """When the first look sees everything there is no time to divide by."""
    with pytest.raises(StalledError, match="take more"):
        measure(tmp_path, 0, "ends", 1)
