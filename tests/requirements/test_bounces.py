"""Mails that come back (A06, A10, AC7 for e-mail; issue 4, Receipts): charged to the address that was used."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from ringonce.api.app import create_app
from ringonce.api.server import serve
from ringonce.errors import ForgedError, NotFoundError
from ringonce.model.receipt import Callback
from ringonce.vendors.dsn import Taken, report
from ringonce.vendors.smtp import MailServer
from tests.requirements.conftest import Start, System

SECRET = "a secret of some length"
OLD = "old@example.com"


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    """Takes everything; what is for OLD comes back when a test says so."""
    with MailServer(bounce={OLD}) as server:
        yield server


def email(server: MailServer, **more: object) -> dict[str, Any]:
    """A channel whose mails come back to a mailbox of its own."""
    return {
        "provider": "smtp",
        "url": f"smtp://127.0.0.1:{server.port}?tls=none",
        "from": "shop@shop.example",
        "bounces": "bounces@shop.example",
        "bounces_secret": SECRET,
        "backoff": {"kind": "fixed", "base": "10ms", "jitter": 0},
        **more,
    }


async def sent(system: System, server: MailServer) -> tuple[UUID, Taken]:
    """A notification that the server has taken, and its mail."""
    await system.ring.register("user-1", "email", OLD)
    (brief,) = (await system.ring.notify(recipients=["user-1"], content={"text": "hello"})).notifications
    await system.work()
    assert (await system.view(brief.id))["status"] == "sent"
    return brief.id, server.taken[-1]


async def comes_back(system: System, mail: bytes) -> dict[str, int]:
    """Hand a mail in, as a mail server's pipe does."""
    callback = Callback("POST", "/v1/receipts/email", {"content-type": "message/rfc822"}, mail)
    return dict((await system.ring.receive("email", callback)).reports)


async def live(system: System) -> list[str]:
    """The recipient's addresses."""
    return [one.value for one in await system.ring.addresses("user-1", "email")]


async def test_A06_a_mail_that_comes_back_ends_it_and_drops_the_address(
    start: Start, server: MailServer
) -> None:
    """5.1.1 by a report fails the notification for good, with the codes of a direct refusal, and drops the address."""
    system = await start(email=email(server))
    id_, mail = await sent(system, server)
    assert await comes_back(system, report(mail)) == {"taken": 1}
    view = await system.view(id_)
    assert (view["status"], view["final"]) == ("failed", True)
    assert view["last_error"]["code"] == "NTF_PROVIDER_INVALID_RECIPIENT"
    assert view["last_error"]["provider_code"] == "550 5.1.1"
    assert await live(system) == []
    assert [one["status"] for one in await system.dispatched(id_)] == ["Sent", "Failed"]


async def test_a_report_older_than_the_address_drops_nothing(start: Start, server: MailServer) -> None:
    """An address that was registered again after the mail was sent is alive: only the notification fails."""
    system = await start(email=email(server))
    id_, mail = await sent(system, server)
    await system.ring.register("user-1", "email", OLD)
    await comes_back(system, report(mail))
    assert (await system.view(id_))["status"] == "failed"
    assert await live(system) == [OLD]


async def test_A10_what_may_pass_is_tried_again(start: Start, server: MailServer) -> None:
    """A mail that came back as full or too late for its queue is back in the loop, by the same classes as replies."""
    system = await start(email=email(server))
    id_, mail = await sent(system, server)
    await comes_back(system, report(mail, status="4.4.7", diagnostic=""))
    view = await system.view(id_)
    assert (view["status"], view["final"], view["revision"]) == ("failed", False, 2)
    await system.pass_time()
    await system.work()
    assert (await system.view(id_))["status"] == "sent"
    assert len(server.taken) == 2


async def test_a_delay_is_no_failure(start: Start, server: MailServer) -> None:
    """A report of a delay, or that the mail was handed on, changes nothing."""
    system = await start(email=email(server))
    id_, mail = await sent(system, server)
    for action in ("delayed", "relayed", "expanded"):
        await comes_back(system, report(mail, action=action, status="4.0.0", diagnostic=""))
    view = await system.view(id_)
    assert (view["status"], view["attempts"], await live(system)) == ("sent", 1, [OLD])


async def test_a_delivered_mail_is_confirmed(start: Start, server: MailServer) -> None:
    """A report of delivery is a fact on the notification; a failure reported after it changes nothing."""
    system = await start(email=email(server))
    id_, mail = await sent(system, server)
    await comes_back(system, report(mail, action="delivered", status="2.0.0", diagnostic=""))
    await comes_back(system, report(mail))
    assert (await system.view(id_))["status"] == "sent"
    assert await live(system) == [OLD]


async def test_a_forged_report_drops_nobody(start: Start, server: MailServer) -> None:
    """Without the proof in the return path, or with one of another mail, nothing happens, whatever else is right."""
    system = await start(email=email(server))
    id_, mail = await sent(system, server)
    forged = [
        Taken("bounces@shop.example", OLD, mail.message),
        Taken(
            mail.sender.replace(mail.sender[-25], "x" if mail.sender[-25] != "x" else "y"), OLD, mail.message
        ),
        Taken("", OLD, b"Message-ID: <%b@shop.example>\r\n\r\n" % str(id_).encode()),
    ]
    for one in forged:
        with pytest.raises(ForgedError):
            await comes_back(system, report(one))
    assert (await system.view(id_))["status"] == "sent"
    assert await live(system) == [OLD]


async def test_what_else_comes_to_the_return_path_is_nothing(start: Start, server: MailServer) -> None:
    """An automatic answer is taken and means nothing; a channel without ``bounces`` takes none."""
    plain = {"provider": "smtp", "url": "smtp://127.0.0.1:1", "from": "a@b.org"}
    system = await start(email=email(server), plain=plain)
    id_, mail = await sent(system, server)
    answer = f"To: <{mail.sender}>\r\nSubject: I am away\r\n\r\nUntil Monday.\r\n".encode()
    assert await comes_back(system, answer) == {}
    assert (await system.view(id_))["status"] == "sent"
    with pytest.raises(NotFoundError):
        await system.ring.receive("plain", Callback("POST", "/", {}, answer))


async def test_what_others_say_about_us_pauses_nothing(start: Start, server: MailServer) -> None:
    """A receiver's server that blocks our host fails this mail; the channel goes on for everybody else."""
    system = await start(email=email(server))
    id_, mail = await sent(system, server)
    await comes_back(
        system, report(mail, status="5.7.1", diagnostic="554 5.7.1 blocked using zen.spamhaus.org")
    )
    view = await system.view(id_)
    assert (view["status"], view["last_error"]["code"]) == ("failed", "NTF_PROVIDER_BLOCKED")
    (channel,) = await system.ring.channels()
    assert channel["paused"] is False
    assert await live(system) == [OLD]


async def test_the_whole_way_round(start: Start) -> None:
    """A server takes the mail, finds nobody, and posts its report to the API, keyless: the address is dropped."""
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/receipts/email"
    with MailServer(bounce={OLD}, bounces_to=url) as server:
        system = await start(email=email(server))
        stop = asyncio.Event()
        serving = asyncio.create_task(serve(create_app(system.ring, key="a-key"), listening, stop))
        await system.ring.register("user-1", "email", OLD)
        (brief,) = (await system.ring.notify(recipients=["user-1"], content={"text": "hello"})).notifications

        async def failed() -> bool:
            return (await system.view(brief.id))["status"] == "failed"

        async def answered() -> bool:
            return bool(server.answers)

        async with system.working(system.ring):
            await system.until(failed)
            await system.until(answered)
        stop.set()
        await serving
    assert server.answers == [200]
    assert await live(system) == []
