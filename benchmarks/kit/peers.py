"""The peers: how each is filled and run. What each is set to stands in its own file, with the page it comes from."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.kit import push
from benchmarks.kit.context import environment
from benchmarks.kit.drain import Program, drain
from benchmarks.kit.servers import BENCH_VENV, ROOT, settle
from tests.servers.postgres import fresh_database

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.kit.context import Context
    from tests.servers.postgres import Database

FOLDER = ROOT / "benchmarks" / "peers"
NODE, PYTHON = FOLDER / "node", FOLDER / "python"
CORES = len(os.sched_getaffinity(0))
MODULES = NODE / "node_modules"
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR")
CELERY = ("celery", "-A", "celery_peer", "worker", *QUIET)


class PeerError(RuntimeError):
    """A peer could not be filled; the message ends with its own words."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A program that does the same.

    Attributes:
        title: its name for people.
        package: what its version is told of.
        file: its program, in ``benchmarks/peers/node`` or ``…/python``.
        count: how many jobs a round takes, so that one takes seconds.
        valkey: its queue is on Valkey instead of PostgreSQL.
        command: the command that works, when it is not the program itself.
        processes: how many processes work.
        settings: in words, for the table.
        more: more of its environment.
        usual: it is how applications use it; otherwise it does not count as the best peer.
    """

    title: str
    package: str
    file: str
    count: int
    valkey: bool = False
    command: tuple[str, ...] = ()
    processes: int = 1
    settings: str = ""
    more: tuple[tuple[str, str], ...] = ()
    usual: bool = True

    @property
    def node(self) -> bool:
        """It runs on Node."""
        return self.file.endswith(".mjs")

    @property
    def folder(self) -> Path:
        """Where it lies and runs."""
        return NODE if self.node else PYTHON

    def missing(self) -> str:
        """Why it can not run here; nothing when it can."""
        if self.node and not (shutil.which("node") and (MODULES / self.package).exists()):
            return "node or its modules are missing (Node 20 and npm, then make bench)"
        if not self.node and not (BENCH_VENV / "bin" / "python").exists():
            return "its environment is missing (make bench)"
        return ""

    def version(self) -> str:
        """Which version is installed."""
        if self.node:
            told: str = json.loads((MODULES / self.package / "package.json").read_text())["version"]
            return told
        folders = [str(folder) for folder in BENCH_VENV.glob("lib/python*/site-packages")]
        found = next(iter(importlib.metadata.distributions(name=self.package, path=folders)), None)
        return found.version if found else ""


PEERS: dict[str, Peer] = {
    "graphile-worker": Peer(
        "graphile-worker",
        "graphile-worker",
        "graphile.mjs",
        20_000,
        settings="100 jobs at once, local queue of 500, completion in batches (250 ms), undici",
    ),
    "graphile-dispatch": Peer(
        "graphile-worker, low-level client",
        "graphile-worker",
        "graphile.mjs",
        20_000,
        settings="the same with undici's dispatch, which is meant for libraries; not counted as the best peer",
        more=(("BENCH_CLIENT", "dispatch"),),
        usual=False,
    ),
    "pg-boss": Peer(
        "pg-boss",
        "pg-boss",
        "pgboss.mjs",
        10_000,
        settings="4 workers, batches of 100, woken after each, undici",
    ),
    "bullmq": Peer("BullMQ", "bullmq", "bullmq.mjs", 20_000, valkey=True, settings="concurrency 100, undici"),
    "pgqueuer": Peer(
        "PgQueuer",
        "pgqueuer",
        "pgqueuer_peer.py",
        6_000,
        settings="100 jobs at once, batches of 50, asyncpg, uvloop, aiohttp",
    ),
    "procrastinate": Peer(
        "Procrastinate",
        "procrastinate",
        "procrastinate_peer.py",
        800,
        settings="concurrency 100, jobs deleted, uvloop, aiohttp",
    ),
    "saq": Peer(
        "SAQ", "saq", "saq_peer.py", 4_000, valkey=True, settings="concurrency 100, hiredis, uvloop, aiohttp"
    ),
    "celery-prefork": Peer(
        "Celery (prefork)",
        "celery",
        "celery_peer.py",
        2_000,
        valkey=True,
        command=(*CELERY, "-P", "prefork", "-c", str(CORES)),
        processes=CORES,
        settings="one process per core, prefetch 128, no results, urllib3",
    ),
    "celery-gevent": Peer(
        "Celery (gevent)",
        "celery",
        "celery_peer.py",
        2_000,
        valkey=True,
        command=(*CELERY, "-P", "gevent", "-c", "100"),
        settings="100 greenlets, prefetch 128, no results, urllib3",
    ),
    "dramatiq": Peer(
        "Dramatiq",
        "dramatiq",
        "dramatiq_peer.py",
        3_000,
        valkey=True,
        command=("dramatiq", "dramatiq_peer", "--processes", str(CORES), "--threads", "8", "--skip-logging"),
        processes=CORES,
        settings="one process per core, 8 threads each, prefetch 128, urllib3",
        more=(("dramatiq_queue_prefetch", "128"),),
    ),
}


def measure(context: Context, name: str) -> dict[str, float]:
    """Fill a peer's queue on a fresh database, then let it empty it."""
    peer = PEERS[name]
    count = context.size(peer.count)
    if peer.valkey:
        port, pid = context.valkey
        flush(port)
        return _measure(context, peer, count, {"valkey": pid}, None, BENCH_VALKEY=str(port))
    server = context.postgres
    with fresh_database(server.database) as database:
        return _measure(
            context, peer, count, {"postgres": server.pid}, database, BENCH_DATABASE=database.url()
        )


def _measure(
    context: Context, peer: Peer, count: int, servers: dict[str, int], database: Database | None, **where: str
) -> dict[str, float]:
    settings = environment(
        BENCH_URL=context.stub.send_url,
        BENCH_HEADERS=json.dumps(push.HEADERS),
        BENCH_TEMPLATE=push.template(),
        **where,
        **dict(peer.more),
    )
    runner = "node" if peer.node else str(BENCH_VENV / "bin" / "python")
    filled = subprocess.run(
        [runner, peer.file, "enqueue", str(count)],
        cwd=peer.folder,
        env=settings,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if filled.returncode:
        raise PeerError(f"its queue could not be filled: {(filled.stdout + filled.stderr)[-2000:]}")
    if database is not None:
        settle(database)
    command = [runner, peer.file, "work"]
    if peer.command:
        command = [str(BENCH_VENV / "bin" / peer.command[0]), *peer.command[1:]]
    program = Program(command, settings, peer.folder, context.folder / f"{peer.package}.log")
    return drain(program, context.stub, count, servers, patience=30.0)


def flush(port: int) -> None:
    """Empty Valkey, by its own protocol (valkey.io/topics/protocol)."""
    import socket

    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(b"*1\r\n$8\r\nFLUSHALL\r\n")
        if not connection.recv(64).startswith(b"+OK"):
            raise PeerError("Valkey did not empty itself")
