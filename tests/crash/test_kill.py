"""SIGKILL at random moments, through the command line alone: nothing is lost, nothing told twice outside the doubt.

Each run has channels of all kinds at once: assume_sent and hold (telegram), resend (webhook, smtp).
"""

from pathlib import Path

import pytest

from tests.crash.conftest import Url
from tests.crash.harness import PUSH_WAYS, Site, Verdict, dice, site

# Each starts a dozen programs; on a busy machine that takes its time.
pytestmark = pytest.mark.timeout(600)

MANY = 30


def _run(place: Site, seed: int, kills: int, *, workers: int = 1) -> Verdict:
    """Kill a worker again and again, some calls after the last time, then drain."""
    random = dice(seed)
    count = 15 * kills + 40
    end = place.kill if workers == 1 else place.bury
    place.send(count)
    running = [place.worker() for _ in range(workers)]
    for left in reversed(range(kills)):
        place.received(random.randint(1, 10))
        place.moment(random.choice((0.0, random.uniform(0.0, 0.03))))
        victim = random.randrange(len(running))
        end(running.pop(victim))
        if left:
            running.append(place.worker())
    for process in running:
        end(process)
    place.drain()
    verdict = place.verdict(count)
    report = place.ring("report", "--json")
    held = [n for n in verdict.doubted if place.way(n).in_doubt == "hold"]
    assert (report["accepted"], report["in_doubt"], report["pending"]) == (count, len(held), 0)
    listed = place.ring("list", "--limit", "1000", "--json")
    assert len({item["event_id"] for item in listed}) == count
    return verdict


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_killed_a_few_times(tmp_path: Path, url: Url, store: str) -> None:
    """A worker killed at random moments loses nothing; doubts are named, repeats are doubts under `resend` only."""
    with site(tmp_path, url(store), "delay:seconds=0.02") as place:
        _run(place, seed=7, kills=3)


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_killed_while_pushing(tmp_path: Path, url: Url, store: str) -> None:
    """The same with push: FCM, which needs a grant before its first call, under resend, Web Push under assume_sent."""
    with site(tmp_path, url(store), "delay:seconds=0.02", ways=PUSH_WAYS) as place:
        verdict = _run(place, seed=19, kills=3)
        assert {life.row.state.status.value for life in verdict.lives.values()} == {"sent"}


def test_several_workers_killed(tmp_path: Path, url: Url) -> None:
    """Several workers on one PostgreSQL, each killed at random: the same promise."""
    with site(tmp_path, url("postgresql"), "delay:seconds=0.02", lease="30s") as place:
        _run(place, seed=13, kills=3, workers=2)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
@pytest.mark.parametrize("seed", [11, 12])
def test_killed_many_times(tmp_path: Path, url: Url, store: str, seed: int) -> None:
    """The same, again and again."""
    with site(tmp_path, url(store), "delay:share=0.5,seconds=0.03") as place:
        verdict = _run(place, seed=seed, kills=MANY)
        assert verdict.doubted, "no kill met a running call: the test proves nothing"


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_several_workers_killed_many_times(tmp_path: Path, url: Url) -> None:
    """The same with three workers, again and again."""
    with site(tmp_path, url("postgresql"), "delay:seconds=0.02", lease="30s") as place:
        verdict = _run(place, seed=17, kills=MANY, workers=3)
        assert verdict.doubted, "no kill met a running call: the test proves nothing"
