"""What the figures were measured on: without it no figure may be quoted."""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from benchmarks.kit.servers import nginx_binary, valkey_binary
from tests.servers.postgres import PostgresError, find_binaries

PACKAGES = ("ringonce", "asyncpg", "psycopg", "pycurl", "sqlalchemy", "uvloop", "msgspec")


def facts() -> dict[str, object]:
    """Cores, memory, kernel, versions, and the load before anything of ours runs."""
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "load_before": [round(value, 2) for value in os.getloadavg()],
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": _versions(),
        "commit": _told("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"),
    }


def load() -> float:
    """The load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    with contextlib.suppress(PostgresError, IndexError):
        found["postgresql"] = _told(str(find_binaries() / "postgres"), "--version").split()[2]
    if nginx := nginx_binary():
        found["nginx"] = _told(nginx, "-v").rpartition("/")[2]
    if valkey := valkey_binary():
        found["valkey"] = _told(valkey, "--version").partition("v=")[2].partition(" ")[0]
    if node := _told("node", "--version"):
        found["node"] = node.removeprefix("v")
    return found


def _told(*command: str) -> str:
    """What a program says in one line; nothing when it is not there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip().partition("\n")[0]
