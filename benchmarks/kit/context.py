"""What a part is given: how much to measure, where to say so, and servers that start when they are asked for."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks.kit import machine, servers, stats

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.kit.servers import Stub
    from tests.servers.postgres import PostgresServer

Made = TypeVar("Made")


@dataclass
class Context:
    """One run of ``make bench``.

    Attributes:
        runs: rounds of each comparison.
        scale: every size is multiplied with it (``size``); 1 for figures, less to see that all runs.
        only: variants that were asked for; empty for all.
        folder: for files; removed at the end.
        stack: closes at the end whatever is put on it.
        kept: what ``once`` has made.
        failures: which variants gave no figure in which round, in words.
    """

    runs: int
    scale: float
    only: frozenset[str]
    folder: Path
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    kept: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @cached_property
    def postgres(self) -> PostgresServer:
        """One PostgreSQL for the whole run; ``tests.servers.postgres.fresh_database(context.postgres.database)``."""
        return self.stack.enter_context(servers.postgres())

    @cached_property
    def stub(self) -> Stub:
        """The vendor's stub."""
        return self.stack.enter_context(servers.stub())

    @cached_property
    def valkey(self) -> tuple[int, int]:
        """One Valkey: port and process id."""
        return self.stack.enter_context(servers.valkey())

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """What ``make`` gave when it was first asked for under this name."""
        if name not in self.kept:
            self.kept[name] = make()
        made: Made = self.kept[name]
        return made

    def size(self, full: int) -> int:
        """How many to take where ``full`` is right for figures."""
        return max(20, round(full * self.scale))

    def wants(self, variant: str) -> bool:
        """Whether a variant was asked for."""
        return not self.only or variant in self.only

    def say(self, text: str) -> None:
        """Print a line of progress."""
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    def alternate(
        self, variants: Mapping[str, Callable[[], dict[str, Any]]], shown: Sequence[str] = ("rate",)
    ) -> list[stats.Round]:
        """Run each variant once per round, in an order that turns; what fails is told and left out of its round.

        ``shown``: the measures that are printed meanwhile.
        """
        rounds: list[stats.Round] = []
        names = [name for name in variants if self.wants(name)]
        if not names:
            raise RuntimeError(f"nothing to measure; there are {', '.join(variants)}")
        for number in range(self.runs):
            one: stats.Round = {}
            for name in stats.order(names, number):
                began = time.monotonic()
                try:
                    one[name] = {**variants[name](), "load": machine.load()}
                except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                    self.say(f"  round {number + 1}: {name} failed: {error}")
                    reason = str(error).partition("\n")[0][:200]
                    self.failures.append(f"Round {number + 1} has no figure of {name}: {reason}")
                    continue
                told = ", ".join(f"{key} {one[name][key]:,.6g}" for key in shown if key in one[name])
                took = time.monotonic() - began
                self.say(f"  round {number + 1}: {name}: {told} (took {took:.0f} s)")
            rounds.append(one)
        return rounds


def environment(**more: str) -> dict[str, str]:
    """Ours without settings of ringonce that would mislead what is measured."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RINGONCE_", "PYTHON"))}
    return {**kept, **more}


def ringonce(*arguments: str) -> list[str]:
    """The command line of ringonce, by this interpreter."""
    return [sys.executable, "-m", "ringonce", *arguments]
