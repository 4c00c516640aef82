"""Workers side by side, stopped, frozen, and asked to end: through the command line."""

import signal
from pathlib import Path

import pytest

from tests.crash.conftest import Url
from tests.crash.harness import CONCURRENCY, Site, eventually, site

# Each starts a dozen programs; on a busy machine that takes its time.
pytestmark = pytest.mark.timeout(600)


def _settled(place: Site, count: int) -> bool:
    report = place.ring("report", "--json")
    return bool(report["pending"] == 0 and report["accepted"] == count)


def _owners(place: Site) -> set[int]:
    """Process ids of the workers that hold rows right now: an owner's token begins with it."""
    with place.connected() as connection:
        found = connection.execute(
            "SELECT DISTINCT split_part(owner, '-', 1) FROM ringonce_dispatch WHERE leased"
        )
        return {int(pid) for (pid,) in found}


def test_two_workers_share(tmp_path: Path, url: Url) -> None:
    """Two workers on one PostgreSQL: each notification exactly once, and both take part."""
    ways = ("telegram-assume_sent",)
    with site(tmp_path, url("postgresql"), "delay:seconds=0.1", ways=ways, lease="30s") as place:
        count = 160
        workers = [place.worker(), place.worker()]
        for worker in workers:
            worker.said("channels:")
        with place.standing():
            place.send(count)
            both = {worker.popen.pid for worker in workers}
            eventually(lambda: _owners(place) == both, "both at work")
        assert place.ledger.wait_for(lambda entries: len(entries) >= count, 60)
        for worker in workers:
            worker.signal(signal.SIGTERM)
        assert [worker.ended() for worker in workers] == [0, 0]
        verdict = place.verdict(count)
        assert not verdict.doubted
        assert set(place.calls().values()) == {1}


@pytest.mark.parametrize("in_doubt", ["assume_sent", pytest.param("resend", marks=pytest.mark.slow)])
def test_frozen_beyond_its_lease(tmp_path: Path, url: Url, in_doubt: str) -> None:
    """A worker frozen beyond its lease with calls in flight, then thawed: its late answers decide doubts alone."""
    hang = "delay:seconds=2.5"
    ways = (f"telegram-{in_doubt}",)
    # The calls are not given up however long it stays frozen.
    patient = {"lease": "6s", "timeout": "10m"}
    with site(tmp_path, url("postgresql"), f"{hang},first=4", ways=ways, **patient) as place:
        count = 12
        place.send(count)
        frozen = place.worker()
        # The stand-in writes a call into its ledger when it has done it: the first ones that come are beyond the four.
        frozen.said("channels:")
        with place.standing():
            eventually(lambda: place.begun() > 0, "calls in flight")
            frozen.signal(signal.SIGSTOP)
        place.kills = 1  # as good as dead
        other = place.worker()
        other.said("rescued")
        assert place.ledger.wait_for(lambda entries: len(entries) >= count, 120)
        frozen.signal(signal.SIGCONT)
        eventually(lambda: _settled(place, count), "all settled")
        for worker in (frozen, other):
            worker.signal(signal.SIGTERM)
        assert [frozen.ended(), other.ended()] == [0, 0]
        verdict = place.verdict(count)
        lives = verdict.lives.values()
        assert {life.row.state.status.value for life in lives} == {"sent"}
        late = [attempt for life in lives for attempt in life.attempts if attempt.late]
        assert late, "no answer came late: the test proves nothing"
        assert all(attempt.outcome == "accepted" for attempt in late)


@pytest.mark.parametrize(
    ("store", "number"),
    [
        ("sqlite", signal.SIGTERM),
        ("postgresql", signal.SIGINT),
        pytest.param("postgresql", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("sqlite", signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_asked_to_end(tmp_path: Path, url: Url, store: str, number: signal.Signals) -> None:
    """SIGTERM and SIGINT: running calls are finished and stored, the rest is given back; exit code 0."""
    with site(
        tmp_path, url(store), "delay:seconds=0.4", ways=("telegram-assume_sent", "smtp-resend")
    ) as place:
        count = 40
        place.send(count)
        with place.standing():
            worker = place.worker()
            place.received(1)
            worker.signal(number)
            worker.said(number.name)
        assert worker.ended() == 0, worker.lines
        assert place.leased() == 0, "leases were left behind"
        told = len(place.ledger.entries)
        verdict = place.judged(count)
        assert not verdict.doubted
        sent = [n for n, life in verdict.lives.items() if life.row.state.status.value == "sent"]
        assert len(sent) == told <= 4 * CONCURRENCY
        assert not any("Traceback" in line for line in worker.lines)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_twice(tmp_path: Path, url: Url, number: signal.Signals) -> None:
    """A second signal ends it at once, without words; at worst the calls under way are in doubt, and told so."""
    with site(tmp_path, url("sqlite")) as place:
        count = 24
        place.send(count)
        with place.standing():
            worker = place.worker()
            place.received(1)
            worker.signal(number)
            worker.said(number.name)
            worker.signal(number)
            assert worker.ended() == -number, worker.lines
        assert not any("Traceback" in line for line in worker.lines), worker.lines
        place.kills = 1
        place.drain()
        place.verdict(count)
