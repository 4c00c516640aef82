"""A result that can not be written: the write is tried again until it is, and nothing is sent again."""

import resource
import signal
from pathlib import Path

import pytest

from ringonce.store.sqlite import load_module
from tests.crash.conftest import Url
from tests.crash.harness import Process, Site, site
from tests.servers.postgres import PostgresServer, private_server

# Each starts a dozen programs; on a busy machine that takes its time.
pytestmark = pytest.mark.timeout(600)

COUNT = 24
STAGGERED = ("delay:seconds=1.2,every=3", "delay:seconds=0.3")
WAYS = ("telegram-assume_sent", "smtp-resend")


def _ends_well(place: Site, worker: Process) -> None:
    """Everything is told exactly once, and nothing was ever in doubt."""
    assert place.ledger.wait_for(lambda entries: len(entries) >= COUNT, 60), "it never went on"
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.lines
    place.drain()
    verdict = place.verdict(COUNT)
    assert not verdict.doubted
    assert set(place.calls().values()) == {1}
    assert {life.row.state.status.value for life in verdict.lives.values()} == {"sent"}


def _away(server: PostgresServer, how: str) -> None:
    if how == "killed":
        server.kill()
    else:
        server.stop(immediate=True)


@pytest.mark.parametrize("how", ["killed", pytest.param("stopped", marks=pytest.mark.slow)])
def test_postgresql_goes_away_before_the_result(tmp_path: Path, how: str) -> None:
    """The server dies between the provider's yes and the commit, and comes back: the result is written then."""
    with (
        private_server() as server,
        site(tmp_path, server.database.url("asyncpg"), *STAGGERED, ways=WAYS, lease="60s") as place,
    ):
        place.send(COUNT)
        with place.standing():
            worker = place.worker()
            place.received(2)  # and others are under way
            _away(server, how)
        place.received(1)  # accepted, and there is no database to write it to
        worker.said("store_unavailable")
        server.start()
        _ends_well(place, worker)


def test_sqlite_locked_by_another_program(tmp_path: Path, url: Url) -> None:
    """Another program holds the file's lock for longer than the busy timeout: the results are written afterwards."""
    with site(tmp_path, url("sqlite"), "delay:seconds=0.3", ways=WAYS, lease="60s") as place:
        place.send(COUNT)
        other = load_module("auto").connect(tmp_path / "ringonce.db", isolation_level=None)
        try:
            other.execute("PRAGMA busy_timeout = 30000")
            with place.standing():
                worker = place.worker()
                place.received(1)
                other.execute("BEGIN IMMEDIATE")
            place.moment(6.0)
            other.execute("ROLLBACK")
        finally:
            other.close()
        _ends_well(place, worker)


def test_sqlite_on_a_full_disk(tmp_path: Path, url: Url) -> None:
    """The file can not grow, as on a full disk: people are told, and the results are written when there is space."""
    with site(tmp_path, url("sqlite"), "delay:seconds=0.3", ways=WAYS, lease="60s") as place:
        place.send(COUNT)
        worker = place.worker()
        place.received(1)
        # A limit of the process, so that no root is needed: writes behind it fail, whatever the file system.
        _, hard = resource.prlimit(worker.popen.pid, resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
        worker.said("store_unavailable")
        resource.prlimit(worker.popen.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
        _ends_well(place, worker)
