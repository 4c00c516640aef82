"""PgBouncer in transaction mode before a real PostgreSQL, started by the test itself; Debian's package brings it."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from tests.servers.ports import free_port
from tests.servers.postgres import LAUNCHER, Database, account

START_SECONDS = 30.0
SERVER_CONNECTIONS = 2
CONFIG = """
[databases]
* = host={host} port={port} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = plain
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 500
server_lifetime = 3600
"""


class PgBouncerError(RuntimeError):
    """It is not installed, or did not start; the message has its own words."""


@contextlib.contextmanager
def pgbouncer(database: Database, *, connections: int = SERVER_CONNECTIONS) -> Iterator[Database]:
    """The database as it is reached through a PgBouncer of its own. Every transaction may get another connection."""
    binary = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    if not Path(binary).exists():
        raise PgBouncerError("pgbouncer is not installed: apt-get install pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="ringonce-pgbouncer-"))
    uid, gid = account()
    front = replace(database, port=free_port())
    (folder / "users").write_text(f'"{database.user}" "{database.password}"\n')
    (folder / "ini").write_text(
        CONFIG.format(
            host=database.host,
            port=database.port,
            user=database.user,
            password=database.password,
            listen=front.port,
            folder=folder,
            connections=connections,
        )
    )
    for path in (folder, *folder.iterdir()):
        os.chown(path, uid, gid)
    log = folder / "log"
    with log.open("wb") as words:
        command = [sys.executable, "-c", LAUNCHER, str(uid), str(gid), "bound", binary, str(folder / "ini")]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, cwd=folder, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _accepts(front.port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise PgBouncerError(f"pgbouncer did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)
        yield front
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def planned(connection: sa.Connection) -> str:
    """How the server plans what stays prepared: ``auto`` unless somebody said otherwise."""
    return str(connection.execute(sa.select(sa.func.current_setting("plan_cache_mode"))).scalar_one())


def prepared(connection: sa.Connection) -> int:
    """How many statements stay prepared on a connection of the server that has been used for a while."""
    for _ in range(8):
        connection.execute(sa.select(sa.literal(1)))
    query = sa.text("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''")
    return int(connection.execute(query).scalar_one())
