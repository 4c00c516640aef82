"""B05: before every attempt the application says whether the subject still stands."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from ringonce.ports import Row
from tests.requirements.conftest import Start, System, outcomes

BACKOFF = {"kind": "fixed", "base": "1h", "jitter": "0s"}


class Clinic:
    """An application with its own database of appointments."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "clinic.db"
        with closing(sqlite3.connect(self.file)) as db, db:
            db.execute("CREATE TABLE appointments (id INTEGER PRIMARY KEY, status TEXT)")
            db.execute("INSERT INTO appointments VALUES (42, 'booked')")
        self.asked: list[str] = []

    def cancel(self, id_: int) -> None:
        """The patient does not come."""
        with closing(sqlite3.connect(self.file)) as db, db:
            db.execute("UPDATE appointments SET status = 'cancelled' WHERE id = ?", (id_,))

    def wanted(self, row: Row) -> bool:
        """The guard: a plain function that blocks."""
        self.asked.append(row.subject or "")
        id_ = int((row.subject or "").partition(":")[2])
        with closing(sqlite3.connect(self.file)) as db:
            (status,) = db.execute("SELECT status FROM appointments WHERE id = ?", (id_,)).fetchone()
        return bool(status == "booked")


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    """One appointment, booked."""
    return Clinic(tmp_path)


async def test_B05_a_cancelled_appointment_is_not_reminded_of(start: Start, clinic: Clinic) -> None:
    """Cancelled in the application's database before the first attempt: nothing is sent, and it says why."""
    system = await start(sms={"provider": "sandbox"})
    system.ring.guard("appointment")(clinic.wanted)
    clinic.cancel(42)
    id_ = await system.accept("sms", subject="appointment:42")
    await system.work()
    view = await system.view(id_)
    assert (view["status"], view["attempts"], view["attempt_list"]) == ("cancelled", 0, [])
    assert clinic.asked == ["appointment:42"]
    assert [n["detail"]["by"] for n in view["timeline"] if n["kind"] == "cancelled"] == ["guard"]


async def test_B05_the_guard_is_asked_before_a_retry_too(start: Start, clinic: Clinic) -> None:
    """Cancelled between a failed attempt and its retry: the retry is aborted."""
    system = await start(sms={"provider": "sandbox", "script": ["transient"], "backoff": BACKOFF})
    system.ring.guard("appointment")(clinic.wanted)
    id_ = await system.accept("sms", subject="appointment:42")
    await system.work()
    assert outcomes(await system.view(id_)) == ["transient"]
    clinic.cancel(42)
    await system.pass_time(3700)
    async with system.working(system.ring):
        await system.ended(id_)
    view = await system.view(id_)
    assert (view["status"], outcomes(view)) == ("cancelled", ["transient"])
    assert clinic.asked == ["appointment:42"] * 2


async def test_B05_an_appointment_that_stands_is_reminded_of(start: Start, clinic: Clinic) -> None:
    """What still stands is sent; subjects of another kind are nobody's to ask about."""
    system = await start(sms={"provider": "sandbox"})
    system.ring.guard("appointment")(clinic.wanted)
    booked = await system.accept("sms", subject="appointment:42")
    other = await system.accept("sms", subject="invoice:7")
    await system.work()
    assert {(await system.view(id_))["status"] for id_ in (booked, other)} == {"sent"}
    assert clinic.asked == ["appointment:42"]


class Shop:
    """An application that answers over HTTP; ``answer`` is (status, body)."""

    def __init__(self) -> None:
        self.answer: tuple[int, bytes] = (200, b'{"wanted": true}')
        self.asked: list[dict[str, list[str]]] = []
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                shop.asked.append(parse_qs(urlsplit(self.path).query, keep_blank_values=True))
                status, body = shop.answer
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/wanted?from=ringonce"


@pytest.fixture
def shop() -> Iterator[Shop]:
    """It listens."""
    shop = Shop()
    thread = threading.Thread(target=shop.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield shop
    shop.server.shutdown()
    thread.join()
    shop.server.server_close()


async def guarded(start: Start, shop: Shop) -> System:
    """A system whose orders the shop is asked about."""
    system = await start(sms={"provider": "sandbox"})
    system.config["guards"] = {"order": {"url": shop.url, "timeout": "10s"}}
    await system.reconfigure()
    return system


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ((200, b'{"wanted": true}'), "sent"),
        ((200, b'{"wanted": false}'), "cancelled"),
        ((404, b"no such order"), "cancelled"),
    ],
)
async def test_B05_the_application_answers_over_http(
    start: Start, shop: Shop, answer: tuple[int, bytes], status: str
) -> None:
    """Wanted is sent; not wanted, or gone, is cancelled before any attempt."""
    system = await guarded(start, shop)
    shop.answer = answer
    id_ = await system.accept("sms", subject="order:1", tenant="acme", event_id="e-1")
    async with system.working(system.ring):
        await system.ended(id_)
    view = await system.view(id_)
    assert (view["status"], len(view["attempt_list"])) == (status, int(status == "sent"))
    assert shop.asked == [
        {"from": ["ringonce"], "subject": ["order:1"], "tenant": ["acme"], "event_id": ["e-1"]}
    ]


@pytest.mark.parametrize("answer", [(500, b""), (200, b"yes"), (200, json.dumps({"wanted": "no"}).encode())])
async def test_B05_no_answer_is_no_decision(start: Start, shop: Shop, answer: tuple[int, bytes]) -> None:
    """While the application can not say, the notification waits and burns no attempt; then it decides."""
    system = await guarded(start, shop)
    shop.answer = answer
    id_ = await system.accept("sms", subject="order:1")

    async def noted() -> bool:
        return any(n["kind"] == "guard_failed" for n in (await system.view(id_))["timeline"])

    async with system.working(system.ring):
        await system.until(noted)
    view = await system.view(id_)
    assert (view["status"], view["attempts"]) == ("pending", 0)
    shop.answer = (200, b'{"wanted": false}')
    await system.pass_time(60)
    async with system.working(system.ring):
        await system.ended(id_)
    assert (await system.view(id_))["status"] == "cancelled"
