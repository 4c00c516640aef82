"""Processor time of a program with all that it has started, from /proc (Linux).

A process's ``utime`` and ``stime`` are its own threads', ``cutime`` and ``cstime`` those of children that ended and
were waited for (proc_pid_stat(5)). Summed over the living tree this counts each second once: PostgreSQL's backends
that come and go, and the workers of a pool, are all in it. The kernel tells it in ticks of 10 ms.
"""

from __future__ import annotations

import os
from pathlib import Path

TICK = 1 / os.sysconf("SC_CLK_TCK")


def parse_stat(text: str) -> tuple[int, float]:
    """Parent and seconds used, from one line of ``/proc/PID/stat``; the name in it may hold anything."""
    fields = text.rpartition(")")[2].split()
    return int(fields[1]), sum(map(int, fields[11:15])) * TICK


def tree(root: int) -> dict[int, float]:
    """Seconds used by ``root`` and each of its living descendants; empty when it has ended."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text(errors="replace")
            except OSError:
                continue  # it has just ended
            pid = int(folder.name)
            parents[pid], used[pid] = parse_stat(text)
    members = {root} & set(used)
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in members} - members
        members |= more
        grown = bool(more)
    return {pid: used[pid] for pid in members}


def seconds(root: int) -> float:
    """Processor seconds of ``root`` and all its descendants up to now, those that have ended included."""
    return sum(tree(root).values())


def resident(root: int) -> int:
    """Bytes of memory that ``root`` and its descendants hold, shared pages counted by share (PSS)."""
    total = 0
    for pid in tree(root):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total
