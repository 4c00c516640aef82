"""SQLite: one thread with one connection; waiting calls share a commit, and no failure is another's."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import queue
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.errors import RingonceError, SqliteBuildError, StoreError, StoreUnavailable
from ringonce.store.backend import PATIENCE, AgainError, T, Work, revisions, translate, wait
from ringonce.store.cursors import change
from ringonce.store.dialect import SQLITE
from ringonce.store.fresh import create
from ringonce.store.libraries import SOUND, header, one_library, refuse_wal
from ringonce.store.schema import ticks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OLDEST = (3, 35, 0)
MAGIC = b"SQLite format 3\x00"
BUSY_SECONDS = 5.0
"""SQLite itself waits so long for another program's lock; then the whole transaction is tried again."""
CACHE = 32 * 1024
"""KiB of pages that SQLite keeps; its 2 MiB would make it read again what it has just written."""
CHECKPOINT = 4_000
"""Pages in the log after which it is brought into the file, 16 MB: a page that changes often is then copied once."""
TOGETHER = 64
"""Calls that share one commit at most."""

_TICK = sa.update(ticks).values(at=sa.func.max(ticks.c.at, sa.bindparam("latest", type_=sa.BigInteger)))


@dataclass(frozen=True, slots=True)
class SqliteOptions:
    """How a file is opened.

    ``journal``: ``auto``, ``wal`` or ``delete``. ``synchronous``: ``full`` or ``normal`` (a power cut may then
    take the last commits along). ``module``: ``auto``, ``stdlib`` or ``pysqlite3``.
    """

    path: str
    create: bool = False
    journal: str = "auto"
    synchronous: str = "full"
    module: str = "auto"

    @property
    def memory(self) -> bool:
        """Nothing on disk."""
        return self.path in {"", ":memory:"}


def load_module(name: str) -> Any:
    """The SQLite library to use. Raises StoreError, SqliteBuildError."""
    if name in {"auto", "pysqlite3"}:
        try:
            return importlib.import_module("pysqlite3.dbapi2")
        except ImportError as error:
            if name == "pysqlite3":
                raise StoreError("pysqlite3 is not installed", mend="pip install ringonce[sqlite]") from error
    module = importlib.import_module("sqlite3")
    if module.sqlite_version_info < OLDEST:
        raise SqliteBuildError(
            f"SQLite {module.sqlite_version} is older than 3.35", mend="install ringonce[sqlite]"
        )
    return module


def choose_journal(options: SqliteOptions, version: tuple[int, ...], *, new: bool, wal: bool) -> str | None:
    """The journal mode to set; None: keep what the file has.

    Raises:
        SqliteBuildError: An affected build would write to a WAL file.
    """
    affected = version < SOUND
    wanted = ("delete" if affected else "wal") if options.journal == "auto" and new else options.journal
    if affected and (wal or wanted == "wal"):
        raise refuse_wal(options.path, version, "is" if wal else "would be put")
    return None if wanted == "auto" else wanted


def look(options: SqliteOptions) -> tuple[bool, bool]:
    """Is the file new, is it in WAL mode? Looks at the header alone: opening a WAL file would already write.

    Raises:
        StoreUnavailable: There is no such folder or file, or it is no database.
    """
    path = Path(options.path)
    if not path.parent.is_dir():
        raise StoreUnavailable(
            f"the folder {path.parent} does not exist", mend="create it, or change store.url"
        )
    try:
        start = header(options.path)
    except FileNotFoundError:
        if not options.create:
            raise StoreUnavailable(f"{path} does not exist", mend="run `ringonce migrate`") from None
        return True, False
    except OSError as error:
        raise StoreUnavailable(
            f"{path} can not be read: {error.strerror}", mend="check its permissions"
        ) from error
    if start and not start.startswith(MAGIC):
        raise StoreUnavailable(f"{path} is not an SQLite database", mend="store.url names the wrong file")
    # Bytes 18 and 19: the file format's write and read version, 2 is WAL (https://sqlite.org/fileformat2.html).
    return not start, start[18:20] == b"\x02\x02"


@dataclass(slots=True)
class Call:
    """Work that waits for the thread."""

    work: Work[Any]
    write: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    outcome: tuple[bool, Any] = field(default=(False, None))

    def settle(self) -> None:
        """Hand the outcome over; on the event loop."""
        if self.future.cancelled():
            return
        good, value = self.outcome
        if good:
            self.future.set_result(value)
        else:
            self.future.set_exception(value)


def _settle(calls: list[Call]) -> None:
    for call in calls:
        call.settle()


class SqliteBackend:
    """One file, or ``:memory:``."""

    def __init__(self, options: SqliteOptions, wall: Callable[[], int]) -> None:
        self.dialect = SQLITE
        self.options = options
        self.where = "the SQLite database in memory" if options.memory else f"the SQLite file {options.path}"
        self.version: tuple[int, ...] = ()
        self._wall = wall
        self._latest = 0
        self._looked = time.monotonic_ns() // 1000
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: sa.Connection | None = None
        self._engine: sa.Engine | None = None
        self._raw: Any = None
        self._held = contextlib.ExitStack()
        self._ended: Callable[[], object] = bool

    def clock(self, now: int | None) -> int | None:
        """The time given, or the wall clock, which here never goes backwards.

        When it was set back, time goes on at half its speed until the wall clock is level again: if it stood
        still, no lease would end and no retry would be due.
        """
        passed = time.monotonic_ns() // 1000 - self._looked
        self._looked += passed
        time_ = max(self._wall(), self._latest + passed // 2) if now is None else now
        self._latest = max(self._latest, time_)
        return time_

    async def open(self, prepare: Work[T]) -> T:
        """Start the thread, open the file, check the build."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name="ringonce-sqlite", daemon=True)
            self._thread.start()
        try:
            result: T = await self._submit(lambda _: self._connect(prepare), write=False)
        except BaseException:
            await self.close()
            raise
        return result

    async def close(self) -> None:
        """Finish what was asked for, then close the file."""
        thread, self._thread = self._thread, None
        if thread is not None:
            loop, ended = asyncio.get_running_loop(), asyncio.Event()
            self._ended = lambda: loop.call_soon_threadsafe(ended.set)
            self._calls.put(None)
            # Not by waiting in a thread of an executor: at the interpreter's exit there is none to be had.
            await ended.wait()
            thread.join()

    async def run(
        self,
        work: Work[T],
        *,
        write: bool = True,
        repeat: bool = True,  # noqa: ARG002
        single: bool = False,  # noqa: ARG002
    ) -> T:
        """Run ``work`` in the thread. A reply can not be lost here, so ``repeat`` is without effect."""
        result: T = await self._submit(work, write=write)
        return result

    async def _submit(self, work: Any, *, write: bool) -> Any:
        if self._thread is None:
            raise StoreUnavailable(f"{self.where} is not open")
        loop = asyncio.get_running_loop()
        call = Call(work, write, loop, loop.create_future())
        self._calls.put(call)
        return await call.future

    # --- in the thread -----------------------------------------------------------------------------------------

    def _main(self) -> None:
        try:
            self._work()
            self._disconnect()
        finally:
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits any more
                self._ended()

    def _work(self) -> None:
        waiting: Call | None = None
        while True:
            call = waiting or self._calls.get()
            waiting = None
            if call is None:
                break
            batch = [call]
            while call.write and len(batch) < TOGETHER:
                try:
                    more = self._calls.get_nowait()
                except queue.Empty:
                    break
                if more is None or not more.write:
                    waiting = more
                    if more is None:
                        self._calls.put(None)
                    break
                batch.append(more)
            self._serve(batch)

    def _serve(self, batch: list[Call]) -> None:
        try:
            self._transact(batch)
        except BaseException as error:  # noqa: BLE001 - the thread must live; the callers are told
            for call in batch:
                call.outcome = (False, error)
        for loop in {call.loop for call in batch}:
            mine = [call for call in batch if call.loop is loop]
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, mine)

    def _transact(self, batch: list[Call]) -> None:
        if self._connection is None:
            call = batch[0]
            call.outcome = (True, call.work(None))  # type: ignore[arg-type] # opening needs no connection
            return
        connection, raw = self._connection, self._raw
        begin = "BEGIN IMMEDIATE" if batch[0].write else "BEGIN"
        deadline = time.monotonic() + PATIENCE
        attempt, careful = 0, False
        while True:
            try:
                with self._transaction(connection, begin):
                    before = raw.total_changes
                    for call in batch:
                        if careful:
                            self._one(connection, call)
                        else:
                            call.outcome = (True, call.work(connection))
                    if raw.total_changes != before:
                        # What was stored at a time that the wall clock may be set back behind, is never "later".
                        change(connection, _TICK, {"latest": self._latest})
            except Exception as error:
                told = translate(error, self.dialect, self.where)
                if not isinstance(told, AgainError):
                    if careful or len(batch) == 1:
                        raise told from error
                    careful = True  # one of them is to blame: again, each in a savepoint of its own
                    continue
                if time.monotonic() > deadline:
                    raise StoreUnavailable(
                        f"{self.where} is locked by another program",
                        mend="end the program that holds it; one worker process per file",
                    ) from error
                attempt += 1
                time.sleep(wait(attempt))
            else:
                return

    @contextlib.contextmanager
    def _transaction(self, connection: sa.Connection, begin: str) -> Iterator[None]:
        """Begun and ended by the library itself: SQLAlchemy's own words about it take longer than SQLite's work."""
        try:
            self._raw.execute(begin)
            yield
            self._raw.execute("COMMIT")
        except self._raw.Error as error:
            raise sa.exc.DBAPIError.instance(begin, None, error, self._raw.Error) from error
        finally:
            self._raw.rollback()
            if connection.in_transaction():
                connection.rollback()

    def _one(self, connection: sa.Connection, call: Call) -> None:
        """One call among others; its failure rolls back its own work alone."""
        self._raw.execute("SAVEPOINT call")
        try:
            call.outcome = (True, call.work(connection))
        except Exception as error:
            told = translate(error, self.dialect, self.where)
            if isinstance(told, AgainError) or not self._raw.in_transaction:
                raise
            self._raw.execute("ROLLBACK TO call")
            call.outcome = (False, told)
        self._raw.execute("RELEASE call")

    def _connect(self, prepare: Work[T]) -> T:
        options = self.options
        module = load_module(options.module)
        self.version = module.sqlite_version_info
        journal, new = None, False
        if not options.memory:
            new, wal = look(options)
            journal = choose_journal(options, self.version, new=new, wal=wal)
            # Before it is opened: closing it again would take away the other library's locks.
            if not new:
                self._held.enter_context(one_library(options.path, module.__name__.split(".")[0]))
        engine = sa.create_engine(
            sa.URL.create("sqlite", database=options.path or ":memory:"),
            module=module,
            poolclass=sa.pool.StaticPool,
            hide_parameters=True,  # addresses are among them
            connect_args={"isolation_level": None, "timeout": BUSY_SECONDS, "check_same_thread": False},
        )
        self._engine = engine
        try:
            connection = engine.connect()
            self._raw = connection.connection.driver_connection
            cursor = self._raw.cursor()
            if journal is not None:
                cursor.execute(f"PRAGMA journal_mode={'WAL' if journal == 'wal' else 'DELETE'}")
            cursor.execute(f"PRAGMA synchronous={'NORMAL' if options.synchronous == 'normal' else 'FULL'}")
            cursor.execute(f"PRAGMA cache_size=-{CACHE}")
            cursor.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT}")
            cursor.close()
            if not options.memory and new:
                self._held.enter_context(one_library(options.path, module.__name__.split(".")[0]))
            result = self._prepare(connection, prepare)
        except RingonceError:
            self._disconnect()
            raise
        except Exception as error:
            self._disconnect()
            if isinstance(error, module.Error):
                error = sa.exc.OperationalError("", None, error)
            told = translate(error, self.dialect, self.where)
            if isinstance(told, AgainError):
                told = StoreUnavailable(f"{self.where} is locked by another program", mend="end that program")
            raise told from error
        self._connection = connection
        return result

    def _prepare(self, connection: sa.Connection, prepare: Work[T]) -> T:
        with self._transaction(connection, "BEGIN IMMEDIATE"):
            if self.options.memory:
                create(connection, revisions()[-1])
            result = prepare(connection)
            # Also proves that the file can be written.
            touched = sa.update(ticks).values(at=ticks.c.at).returning(ticks.c.at)
            self._latest = max(self._latest, connection.execute(touched).scalar_one())
        return result

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
        self._held.close()
