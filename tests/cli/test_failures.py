"""Decisions about many terminal failures: what a look tells, batches, and going on where it was broken off."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ringonce.cli import failures
from ringonce.engine.failing import Failing
from ringonce.errors import StoreUnavailable
from tests.cli.conftest import Ring

CHANNELS = """
[channels.lost]
provider = "sandbox"
script = ["timeout"]
in_doubt = "resend"
budgets = { unknown = 0 }
"""


@pytest.fixture
def several(ring: Ring, folder: Path, accepted: Callable[..., str]) -> dict[str, list[str]]:
    """Five dead ones of two types, and two that may have arrived; ids by channel."""
    with (folder / "ringonce.toml").open("a") as file:
        file.write(CHANNELS)
    ids = {"dead": [accepted("dead", "--type", "alarm" if n else "news") for n in range(5)]}
    ids["lost"] = [accepted("lost") for _ in range(2)]
    ring("worker", "--drain")
    return ids


def test_a_dry_run_counts_by_channel_and_code(ring: Ring, several: dict[str, list[str]]) -> None:
    """How many of each channel and code, and what would be refused and why; nothing changes."""
    done = ring("failures", "retry", "--since", "1h", "--dry-run", "--json")
    assert done.code == 0
    assert [(one["channel"], one["code"], one["count"], one["refused"]) for one in done.json["counts"]] == [
        ("dead", "NTF_PROVIDER_INVALID_RECIPIENT", 5, None),
        ("lost", "NTF_PROVIDER_TRANSIENT", 2, "in_doubt"),
    ]
    assert (done.json["done"], done.json["refused"], done.json["results"]) == (5, 2, [])
    forced = ring("failures", "retry", "--since", "1h", "--force", "--dry-run").out
    assert "7 would be sent again, 0 refused" in forced
    words = ring("failures", "retry", "--since", "1h", "--dry-run").out
    assert "may have arrived; force sends it again all the same" in words
    assert len(ring("failures", "list", "--json").json) == 7


def test_what_has_expired_would_be_refused(ring: Ring, folder: Path) -> None:
    """A dry run knows what can not be sent again because its time is over."""
    lines = {"to": {"dead": "4815162342"}, "content": {"text": "x"}, "expires_at": "2999-01-01T00:00:00Z"}
    (folder / "one.jsonl").write_text(json.dumps(lines))
    assert ring("send", "--file", "one.jsonl").code == 0
    ring("worker", "--drain")
    with closing(sqlite3.connect(folder / "ringonce.db")) as database, database:
        database.execute("UPDATE ringonce_notifications SET expires_at = 1")
    (count,) = ring("failures", "retry", "--channel", "dead", "--dry-run", "--json").json["counts"]
    assert (count["refused"], count["count"]) == ("expired", 1)
    refused = ring("failures", "retry", "--channel", "dead")
    assert (refused.code, "its expires_at has passed" in refused.err) == (1, True)


def test_filters_narrow_it(ring: Ring, several: dict[str, list[str]]) -> None:
    """By type, code and time, for the list and for a decision."""
    assert len(ring("failures", "list", "--type", "alarm", "--json").json) == 4
    assert ring("failures", "list", "--until", "1h", "--json").json == []
    assert ring("failures", "retry", "--type", "news", "--dry-run", "--json").json["done"] == 1
    assert ring("failures", "retry", "--until", "1h", "--dry-run", "--json").json["done"] == 0


def test_many_go_in_batches(
    ring: Ring, several: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that the options select is decided, a batch in each transaction, each once; the refused are named."""
    monkeypatch.setattr(failures, "BATCH", 2)
    done = ring("failures", "retry", "--since", "1h", "--by", "ann", "--json")
    assert (done.code, done.json["done"], done.json["refused"]) == (1, 5, 2)
    assert sorted(one["id"] for one in done.json["results"]) == sorted(several["dead"] + several["lost"])
    assert {one["id"] for one in ring("failures", "list", "--json").json} == set(several["lost"])


def test_a_run_that_is_broken_off_goes_on(
    ring: Ring, several: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how far it came and how to go on; going on, nothing is decided twice."""
    monkeypatch.setattr(failures, "BATCH", 2)
    real, calls = Failing.retry_failures, []

    async def failing(self, **how):  # noqa: ANN001, ANN003, ANN202
        calls.append(how)
        if len(calls) == 3:
            raise StoreUnavailable("gone for a while")
        return await real(self, **how)

    monkeypatch.setattr(Failing, "retry_failures", failing)
    broken = ring("failures", "retry", "--channel", "dead")
    assert broken.code == 1
    said = broken.err.split("go on with ")[1].split()
    assert "broken off: 4 are decided" in broken.err
    ring("worker", "--drain")  # the four fail again meanwhile
    rest = ring("failures", "retry", "--channel", "dead", *said[:2], "--json").json
    assert rest["done"] == 1
    revisions = [ring("explain", id_, "--json").json["revision"] for id_ in several["dead"]]
    assert revisions == [2] * 5


def test_discarding_ends_them_for_good(ring: Ring, several: dict[str, list[str]]) -> None:
    """Discarded by somebody, they are cancelled, say by whom and why, and are offered no more."""
    assert "5 would be discarded" in ring("failures", "discard", "--channel", "dead", "--dry-run").out
    done = ring("failures", "discard", "--channel", "dead", "--by", "ann", "--reason", "old phones")
    assert (done.code, done.out.strip()) == (0, "5 are discarded, 0 refused")
    words = ring("explain", several["dead"][0])
    assert "looked at and let be by ann: old phones" in words.out
    assert {one["channel"] for one in ring("failures", "list", "--json").json} == {"lost"}
    assert ring("failures", "retry", several["dead"][0], "--force").code == 1
