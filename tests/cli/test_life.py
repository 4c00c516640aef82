"""From send to report, through the command line alone."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from tests.cli.conftest import Ring

TOTALS = (
    "accepted",
    "sent",
    "assumed",
    "in_doubt",
    "pending",
    "failed",
    "suppressed",
    "merged",
    "cancelled",
    "expired",
    "duplicates_refused",
    "repeats",
    "late_answers",
)


def test_send_drain_report_explain(ring: Ring, accepted: Callable[..., str]) -> None:
    """What was sent is drained, and the report adds up to what was accepted."""
    ids = {channel: accepted(channel) for channel in ("ok", "flaky", "dead", "doubt")}
    drained = ring("worker", "--drain")
    assert drained.code == 0
    assert "doubt: 1 in doubt" in drained.out
    report = ring("report", "--json").json
    assert set(report) == set(TOTALS)
    assert (report["accepted"], report["sent"], report["in_doubt"], report["pending"]) == (4, 2, 1, 0)
    assert report["failed"] == {"NTF_PROVIDER_INVALID_RECIPIENT": 1}
    by_channel = {row["channel"]: row for row in ring("report", "--by", "channel", "--json").json}
    assert {name: row["accepted"] for name, row in by_channel.items()} == dict.fromkeys(ids, 1)
    flaky = ring("explain", ids["flaky"], "--json").json
    assert (flaky["status"], flaky["attempts"]) == ("sent", 2)
    words = ring("explain", ids["flaky"]).out
    assert len(words.splitlines()) >= 3


def test_explain_masks_an_address_that_stands_for_the_recipient(
    ring: Ring, accepted: Callable[..., str]
) -> None:
    """Words and JSON of `explain` tell enough of an address to recognise it, not enough to use it."""
    done = ring("send", "--to", "ok=ada@example.com", "--text", "hello", "--json")
    id_ = done.json["notifications"][0]["id"]
    for told in (ring("explain", id_).out, ring("explain", id_, "--json").out):
        assert "a***@example.com" in told
        assert "ada@" not in told


def test_drain_says_what_is_left_and_why(ring: Ring, accepted: Callable[..., str]) -> None:
    """--drain ends although a channel is off and something is not due yet, and names both."""
    ring("channels", "disable", "ok")
    accepted("ok")
    accepted("flaky", "--send-at", "2099-01-01T00:00:00Z")
    done = ring("worker", "--drain")
    assert done.code == 0
    assert "ok: 1 channel disabled" in done.out
    assert "flaky: 1 not due yet" in done.out
    left = {item["channel"]: item for item in ring("worker", "--drain", "--json").json["left"]}
    assert (left["ok"]["disabled"], left["flaky"]["future"]) == (True, 1)


def test_drain_names_a_channel_that_is_gone(ring: Ring, folder: Path, accepted: Callable[..., str]) -> None:
    """What waits for a channel that is no longer configured is left and named."""
    accepted("flaky")
    (folder / "ringonce.toml").write_text("[channels.ok]\nprovider='sandbox'\n")
    done = ring("worker", "--drain")
    assert (done.code, done.out) == (0, "drained; left:\n  flaky: 1 channel not configured\n")


def test_a_channel_switched_on_again_goes_on(ring: Ring, accepted: Callable[..., str]) -> None:
    """What waited for a disabled channel is sent after `channels enable`."""
    ring("channels", "disable", "ok")
    id_ = accepted("ok")
    ring("worker", "--drain")
    ring("channels", "enable", "ok")
    ring("worker", "--drain")
    assert ring("explain", id_, "--json").json["status"] == "sent"


def test_failures_are_listed_and_sent_again(ring: Ring, folder: Path, accepted: Callable[..., str]) -> None:
    """Terminal failures are listed; a dry run changes nothing; a retry sends them again with a new revision."""
    id_ = accepted("dead")
    accepted("ok")
    ring("worker", "--drain")
    assert [item["id"] for item in ring("failures", "list", "--json").json] == [id_]
    dry = ring("failures", "retry", "--channel", "dead", "--dry-run", "--json")
    assert (dry.code, dry.json["done"], dry.json["refused"]) == (0, 1, 0)
    assert [(one["channel"], one["count"]) for one in dry.json["counts"]] == [("dead", 1)]
    assert [item["id"] for item in ring("failures", "list", "--json").json] == [id_]
    config = (folder / "ringonce.toml").read_text().replace('["invalid_recipient"]', '["ok"]')
    (folder / "ringonce.toml").write_text(config)
    assert ring("failures", "retry", id_, "--by", "ada").code == 0
    ring("worker", "--drain")
    view = ring("explain", id_, "--json").json
    assert (view["status"], view["revision"]) == ("sent", 2)
    assert ring("failures", "list", "--json").json == []


def test_a_refused_retry_is_1(ring: Ring, accepted: Callable[..., str]) -> None:
    """Retrying what was sent is refused, said so, and ends with 1."""
    id_ = accepted("ok")
    ring("worker", "--drain")
    done = ring("failures", "retry", id_, "--json")
    assert (done.code, done.json["results"][0]["result"]) == (1, "refused")


def test_outbox_lists_what_was_published(ring: Ring, accepted: Callable[..., str]) -> None:
    """The end of a notification is one event in the outbox, readable in order and by position."""
    id_ = accepted("ok")
    ring("worker", "--drain")
    (event,) = ring("outbox", "list", "--json").json
    assert event["kind"] == "notification.dispatched"
    assert event["payload"]["data"]["notificationId"] == id_
    assert ring("outbox", "list", "--after", str(event["position"]), "--json").json == []


def test_addresses(ring: Ring) -> None:
    """Addresses are added, listed and dropped; a dropped one is shown with --all only."""
    assert ring("recipients", "address", "add", "ada", "ok", "ada-1").code == 0
    assert [item["address"] for item in ring("recipients", "address", "list", "ada", "--json").json] == [
        "ada-1"
    ]
    assert ring("recipients", "address", "remove", "ada", "ok", "ada-1", "--reason", "left").code == 0
    assert ring("recipients", "address", "list", "ada", "--json").json == []
    (dropped,) = ring("recipients", "address", "list", "ada", "--all", "--json").json
    assert dropped["reason"] == "left"
    assert dropped["invalidated_at"]


@pytest.mark.parametrize(
    ("channel", "code", "cls"), [("ok", 0, "accepted"), ("dead", 1, "invalid_recipient")]
)
def test_channels_test(ring: Ring, channel: str, code: int, cls: str) -> None:
    """A test send tells the class of the answer, stores nothing, and ends with 1 unless it was accepted."""
    done = ring("channels", "test", channel, "someone", "--json")
    assert (done.code, done.json["class"]) == (code, cls)
    assert ring("list", "--json").json == []


def test_channels_list(ring: Ring, accepted: Callable[..., str]) -> None:
    """The list shows what is off and what waits."""
    ring("channels", "disable", "ok")
    accepted("ok")
    views = {view["name"]: view for view in ring("channels", "list", "--json").json}
    assert (views["ok"]["enabled"], views["flaky"]["enabled"]) == (False, True)
    assert "script" not in json.dumps(views)


def test_policy_show_in_times(ring: Ring) -> None:
    """The schedule is shown call by call."""
    (view,) = ring("policy", "show", "flaky", "--json").json
    assert [row["wait"] for row in view["transient"]] == ["10ms", "10ms", "10ms"]
    assert [row["wait"] for row in view["rate_limited"]] == ["40ms"] * 5
    assert "after transient answers" in ring("policy", "show", "flaky").out


def test_classify(ring: Ring, folder: Path) -> None:
    """One answer by options, many by a file of cases, a row for each."""
    done = ring("classify", "telegram", "--status", "429", "--header", "Retry-After: 30", "--json")
    assert (done.code, done.json["class"], done.json["retry_after_s"]) == (0, "rate_limited", 30)
    cases = [
        {"id": "a", "provider": "smtp", "smtp_code": 550, "stage": "RCPT", "body": "5.1.1 no such user"},
        {"id": "b", "provider": "pigeon", "http_status": 200},
    ]
    (folder / "cases.json").write_text(json.dumps(cases))
    rows = ring("classify", "--cases", "cases.json").json
    assert [row["id"] for row in rows] == ["a", "b"]
    assert rows[0]["class"] == "invalid_recipient"
    assert (rows[1]["class"], rows[1]["error"]) == (None, "unknown provider")


def test_check(ring: Ring, folder: Path) -> None:
    """All is well: 0. No channel, a broken provider, an unreadable database: 1, each with its mend."""
    ring("migrate")
    good = ring("check", "--json")
    assert (good.code, good.json["ok"]) == (0, True)
    assert {"configuration", "database", "sqlite", "clock", "api"} <= {
        item["what"] for item in good.json["checks"]
    }
    (folder / "ringonce.toml").write_text(
        "[store]\nurl='sqlite:////not/there/x.db'\n[channels.a]\nprovider='x'\n"
    )
    bad = ring("check", "--json")
    assert bad.code == 1
    assert {item["what"] for item in bad.json["checks"] if not item["ok"]} == {"channels", "database"}


def test_migrate(ring: Ring) -> None:
    """A new database is created, a second time nothing happens, --sql only prints."""
    assert "CREATE TABLE" in ring("migrate", "--sql").out
    assert ring("migrate", "--json").json["before"] is None
    assert "nothing to do" in ring("migrate").out


@asynccontextmanager
async def program(folder: Path, command: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """`up` or `api` in a process of its own, and its URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ringonce", command, "--port", "0",
        cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stderr is not None
    try:
        url = ""
        while not url:
            text = (await process.stderr.readline()).decode()
            assert text, "it ended before it listened"
            if text.startswith("listening on "):
                url = text.split()[-1]
        yield process, url
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def posted(url: str) -> object:
    """The id of a notification that the API has accepted."""
    body = json.dumps({"event_id": "e1", "to": {"ok": "ada"}, "content": {"text": "x"}}).encode()
    request = urllib.request.Request(  # noqa: S310 - our own URL
        f"{url}/v1/notifications", body, {"Content-Type": "application/json"}
    )
    answer: Any = await asyncio.to_thread(_read, request)
    return answer["notifications"][0]["id"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_up_delivers_and_stops_on_a_signal(folder: Path, number: signal.Signals) -> None:
    """`up` creates the database, prints its URL, delivers what is posted, and ends with 0 on a signal."""
    async with program(folder, "up") as (process, url):
        id_ = await posted(url)
        view = await asyncio.to_thread(_read, f"{url}/v1/notifications/{id_}")
        while not view["final"]:
            view = await asyncio.to_thread(_read, f"{url}/v1/notifications/{id_}")
        assert view["status"] == "sent"
        process.send_signal(number)
        _, rest = await process.communicate()
        assert process.returncode == 0, rest
        assert b"stopped" in rest
        assert b"Traceback" not in rest


async def test_an_open_inbox_does_not_hold_up_a_stop(folder: Path) -> None:
    """A page that has its inbox open is told that the server stops, and `up` ends with 0; nothing of it is logged."""
    async with program(folder, "up") as (process, url):
        where = url.replace("http", "ws", 1) + "/v1/inbox/ada-lovelace/ws"
        async with connect(where, open_timeout=60, close_timeout=60) as page:
            assert json.loads(await page.recv())["type"] == "hello"
            process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(page.wait_closed(), 60)
            assert page.close_code in {1001, 1012}
        _, rest = await process.communicate()
        assert process.returncode == 0, rest
        assert b"Traceback" not in rest
        assert b"lovelace" not in rest


async def test_api_accepts_and_leaves_the_sending_to_a_worker(folder: Path) -> None:
    """`api` accepts and tells; nothing is sent before a worker runs elsewhere; it ends with 0 on a signal."""
    async with program(folder, "api") as (process, url):
        id_ = await posted(url)
        view = await asyncio.to_thread(_read, f"{url}/v1/notifications/{id_}")
        assert (view["status"], view["attempts"]) == ("pending", 0)
        command = [sys.executable, "-m", "ringonce", "worker", "--drain"]
        assert (await asyncio.to_thread(subprocess.run, command, cwd=folder, check=False)).returncode == 0
        view = await asyncio.to_thread(_read, f"{url}/v1/notifications/{id_}")
        assert view["status"] == "sent"
        process.send_signal(signal.SIGTERM)
        _, rest = await process.communicate()
        assert process.returncode == 0, rest
        assert b"Traceback" not in rest


def _read(request: urllib.request.Request | str) -> dict[str, object]:
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own URL
        value: dict[str, object] = json.load(answer)
        return value


def test_explain_takes_an_event(ring: Ring, accepted: Callable[..., str]) -> None:
    """With an event's id `explain` tells all its notifications; an id that nobody knows exits with 3."""
    id_ = accepted("ok", "--event-id", "order-7")
    told = ring("explain", "order-7", "--json").json
    assert [one["id"] for one in told] == [id_]
    assert id_ in ring("explain", "order-7").out
    assert ring("explain", "order-8").code == 3
