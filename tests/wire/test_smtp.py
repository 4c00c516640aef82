"""SMTP at the level of sockets: what the server received, and what the wire said of it."""

import asyncio
import base64
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from ringonce.model.exchange import Fault, MailAnswer, MailRequest, MailServer, NoAnswer
from ringonce.wire.smtp import MailWire
from tests.servers.ports import closed_port
from tests.servers.sockets import Peer, RawServer, black_hole, serving
from tests.wire.conftest import ask, ask_briefly

MESSAGE = b"Subject: hello\r\n\r\nText\r\n.dot\r\n"


@pytest.fixture
async def mail() -> AsyncIterator[MailWire]:
    """The mail wire with its defaults."""
    wire = MailWire(helo="client.example")
    await wire.start()
    yield wire
    await wire.close(0)


def letter(server: RawServer | int, message: bytes = MESSAGE, **more: object) -> MailRequest:
    """A mail to the server."""
    port = server if isinstance(server, int) else server.port
    access = {key: more.pop(key) for key in ("tls", "user", "password") if key in more}
    fields: dict[str, object] = {"timeout": 30.0, "connect_timeout": 30.0, "final_timeout": 30.0, **more}
    return MailRequest(
        MailServer("127.0.0.1", port, **{"tls": "none", **access}),  # type: ignore[arg-type]
        "from@example.com",
        fields.pop("recipient", "to@example.com"),  # type: ignore[arg-type]
        message,
        **fields,  # type: ignore[arg-type]
    )


def talk(peer: Peer, replies: dict[str, bytes | Callable[[Peer], None]] | None = None) -> None:
    """An SMTP server that says 250; ``replies`` changes what it says to a command, or does something else.

    Every command line and every message is recorded.
    """
    replies = replies or {}

    def say(key: str, default: bytes) -> None:
        reply = replies.get(key, default)
        if callable(reply):
            reply(peer)
        else:
            peer.send(reply + b"\r\n")

    say("CONNECT", b"220 mx.example ESMTP")
    while line := peer.line():
        peer.server.record(line)
        verb = line.split(b" ")[0].decode().upper()
        if verb == "DATA":
            say("DATA", b"354 go on")
            message = peer.until(b"\r\n.\r\n")
            peer.server.record(message + b"\r\n")
            say("END", b"250 2.0.0 queued as 1")
        elif verb == "QUIT":
            say("QUIT", b"221 bye")
            return
        else:
            say(verb, b"250 ok")


def hang(peer: Peer) -> None:
    """Say nothing until the client goes."""
    peer.until_closed()


def gone(peer: Peer) -> None:
    """Reset the connection."""
    peer.reset()
    raise OSError


async def test_a_mail_arrives_as_it_was_given(mail: MailWire) -> None:
    """One envelope, the message with its dots doubled on the way; the final reply is the answer."""
    with serving(talk) as server:
        [answer] = await ask(mail, letter(server))
        assert answer == MailAnswer(250, "2.0.0 queued as 1", "2.0.0", "DATA_END")
        assert server.received == [
            b"EHLO client.example",
            b"MAIL FROM:<from@example.com>",
            b"RCPT TO:<to@example.com>",
            b"DATA",
            b"Subject: hello\r\n\r\nText\r\n..dot\r\n",
        ]


async def test_a_server_that_reports_is_told_what_to_report(mail: MailWire) -> None:
    """RFC 3461 section 4: with an envelope id, and only where the server offers it, the report is asked for."""
    wanted = {"envelope_id": "id=1", "recipient": "to+x@example.com"}
    with serving(lambda peer: talk(peer, {"EHLO": b"250-mx.example\r\n250 DSN"})) as server:
        await ask(mail, letter(server, **wanted))
        await ask(mail, letter(server))
        asked = [line for line in server.received if line[:4] in {b"MAIL", b"RCPT"}]
        assert asked == [
            b"MAIL FROM:<from@example.com> RET=HDRS ENVID=id+3D1",
            b"RCPT TO:<to+x@example.com> NOTIFY=FAILURE,DELAY ORCPT=rfc822;to+2Bx@example.com",
            b"MAIL FROM:<from@example.com>",
            b"RCPT TO:<to@example.com>",
        ]
    with serving(talk) as server:
        await ask(mail, letter(server, **wanted))
        assert b"RCPT TO:<to+x@example.com>" in server.received


@pytest.mark.parametrize(
    ("key", "reply", "stage"),
    [
        ("CONNECT", b"421 4.3.2 shutting down", "CONNECT"),
        ("CONNECT", b"554 5.7.1 go away", "CONNECT"),
        ("EHLO", b"421 4.7.0 later", "EHLO"),
        ("MAIL", b"451 4.3.0 later", "MAIL"),
        ("RCPT", b"450 4.2.0 Greylisted, try again in 300 seconds", "RCPT"),
        ("RCPT", b"550 5.1.1 User unknown", "RCPT"),
        ("DATA", b"452 4.3.1 disk full", "DATA_BODY"),
        ("END", b"554 5.6.0 spam", "DATA_END"),
        ("END", b"451 4.3.0 later", "DATA_END"),
    ],
)
async def test_the_reply_that_decides_names_its_stage(
    mail: MailWire, key: str, reply: bytes, stage: str
) -> None:
    """A refusal at any stage is the answer, with code, text, enhanced code and stage."""
    with serving(lambda peer: talk(peer, {key: reply})) as server:
        [answer] = await ask(mail, letter(server))
        code, _, text = reply.decode().partition(" ")
        assert answer == MailAnswer(int(code), text, text.split(" ")[0], stage)


async def test_a_long_reply_is_read_to_its_end(mail: MailWire) -> None:
    """A reply of several lines is one answer; what can not be stored is replaced."""
    lines = b"550-5.7.1 first\r\n550-second \xff\x00\r\n550 last"
    with serving(lambda peer: talk(peer, {"RCPT": lines})) as server:
        [answer] = await ask(mail, letter(server))
        assert answer == MailAnswer(550, "5.7.1 first\nsecond \ufffd\ufffd\nlast", "5.7.1", "RCPT")


async def test_an_old_server_is_greeted_with_helo(mail: MailWire) -> None:
    """RFC 5321 section 3.2: EHLO not known, HELO is."""
    with serving(lambda peer: talk(peer, {"EHLO": b"502 what?"})) as server:
        [answer] = await ask(mail, letter(server))
        assert isinstance(answer, MailAnswer)
        assert server.received[1] == b"HELO client.example"


@pytest.mark.parametrize("key", ["CONNECT", "EHLO", "MAIL", "RCPT", "DATA"])
@pytest.mark.parametrize(
    "event", [hang, gone, lambda peer: peer.send(b"nonsense\r\n"), lambda peer: peer.send(b"299 x\r\n")]
)
async def test_a_break_before_the_message_is_not_sent(
    mail: MailWire, key: str, event: Callable[[Peer], None]
) -> None:
    """Silence, a reset, nonsense or a reply that means nothing there: the server has no mail."""
    if key in {"EHLO", "MAIL", "RCPT"}:
        # There 299 is a yes: RFC 5321 section 4.3.2 tells us to go by the first digit.
        event = gone if event not in {hang, gone} and event(_Silent()) == b"299 x\r\n" else event  # type: ignore[arg-type, func-returns-value]
    with serving(lambda peer: talk(peer, {key: event})) as server:

        def arrived() -> bool:
            return key == "CONNECT" or any(line.startswith(key.encode()) for line in server.received)

        if event is hang:
            answer = await ask_briefly(
                mail,
                lambda seconds: letter(
                    server, timeout=seconds, connect_timeout=0.3 if key == "CONNECT" else 30.0
                ),
                arrived,
            )
        else:
            [answer] = await ask(mail, letter(server))
        assert isinstance(answer, NoAnswer)
        assert not answer.sent
        assert answer.stage == {"DATA": "DATA_BODY"}.get(key, key)
        assert b"Subject" not in b"".join(server.received)


class _Silent:
    """Tells what an event would send."""

    def send(self, data: bytes) -> bytes:
        """Give it back."""
        return data


async def test_a_reset_before_the_dot_is_not_sent(mail: MailWire) -> None:
    """RFC 5321 section 4.1.1.4: without the end of the message the server must not deliver it."""

    def part(peer: Peer) -> None:
        peer.send(b"354 go on\r\n")
        peer.sock.recv(1000)
        gone(peer)

    with serving(lambda peer: talk(peer, {"DATA": part})) as server:
        [answer] = await ask(mail, letter(server, b"x" * 70 + b"\r\n" + b"y" * 20_000_000))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent, answer.stage) == (Fault.WRITE_RESET, False, "DATA_BODY")


async def test_a_server_that_stops_reading_is_not_sent(mail: MailWire) -> None:
    """Time that runs out while the message is written: the dot was not."""

    def stop(peer: Peer) -> None:
        peer.send(b"354 go on\r\n")
        peer.server.stopped.wait(30)  # type: ignore[attr-defined]
        raise OSError

    with serving(lambda peer: talk(peer, {"DATA": stop})) as server:
        server.stopped = threading.Event()  # type: ignore[attr-defined]
        answer = await ask_briefly(
            mail,
            lambda seconds: letter(server, b"y" * 20_000_000, timeout=seconds),
            lambda: b"DATA" in server.received,
        )
        server.stopped.set()  # type: ignore[attr-defined]
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent, answer.stage) == (Fault.READ_TIMEOUT, False, "DATA_BODY")


async def test_a_refusal_in_the_middle_of_the_message_decides(mail: MailWire) -> None:
    """A server that has heard enough says so without waiting for the end."""

    def enough(peer: Peer) -> None:
        peer.send(b"354 go on\r\n")
        peer.sock.recv(1000)
        peer.send(b"552 5.3.4 too big\r\n")
        peer.server.stopped.wait(30)  # type: ignore[attr-defined]
        raise OSError

    with serving(lambda peer: talk(peer, {"DATA": enough})) as server:
        server.stopped = threading.Event()  # type: ignore[attr-defined]
        [answer] = await ask(mail, letter(server, b"y" * 20_000_000))
        server.stopped.set()  # type: ignore[attr-defined]
        assert answer == MailAnswer(552, "5.3.4 too big", "5.3.4", "DATA_BODY")


@pytest.mark.parametrize(
    ("event", "fault"),
    [
        (hang, Fault.READ_TIMEOUT),
        (gone, Fault.RESET_BEFORE_STATUS),
        (lambda peer: peer.sock.close(), Fault.RESET_BEFORE_STATUS),
        (lambda peer: peer.send(b"what?\r\n"), Fault.RESET_BEFORE_STATUS),
        (lambda peer: peer.send(b"354 again\r\n"), Fault.RESET_BEFORE_STATUS),
        (lambda peer: peer.send(b"250-half a reply\r\n"), Fault.READ_TIMEOUT),
    ],
    ids=["silence", "reset", "closed", "nonsense", "wrong reply", "half a reply"],
)
async def test_a_break_after_the_dot_is_unknown_and_ends_the_connection(
    mail: MailWire, event: Callable[[Peer], None], fault: Fault
) -> None:
    """Once the dot was written the mail may be on its way; the next mail goes over a fresh connection."""

    def serve(peer: Peer) -> None:
        talk(peer, {"END": event} if peer.number == 1 else {})

    with serving(serve) as server:
        [answer] = await ask(mail, letter(server, final_timeout=0.3 if fault is Fault.READ_TIMEOUT else 30.0))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent, answer.stage) == (fault, True, "DATA_END")
        [answer] = await ask(mail, letter(server))
        assert isinstance(answer, MailAnswer)
        assert server.connections == 2
        assert server.received.count(b"DATA") == 2


async def test_the_final_reply_has_a_timeout_of_its_own(mail: MailWire) -> None:
    """A server that thinks longer than ``timeout`` before its final reply is still listened to."""

    def slow(peer: Peer) -> None:
        peer.server.go.wait(30)  # type: ignore[attr-defined]
        peer.send(b"250 ok\r\n")

    with serving(lambda peer: talk(peer, {"END": slow})) as server:
        for timeout in (0.3, 20.0):
            server.go = threading.Event()  # type: ignore[attr-defined]
            asking = asyncio.ensure_future(ask(mail, letter(server, timeout=timeout)))
            asyncio.get_running_loop().call_later(timeout + 0.2, server.go.set)  # type: ignore[attr-defined]
            [answer] = await asking
            if any(MESSAGE[:7] in line for line in server.received):
                break  # else a stall: the time was over before the whole message was written
        assert isinstance(answer, MailAnswer)


async def test_a_connection_is_used_again_after_rset(mail: MailWire) -> None:
    """Mails one after the other share a connection, also after a refused recipient."""

    def serve(peer: Peer) -> None:
        talk(peer, {"RCPT": _second_is_unknown})

    counted: list[int] = []

    def _second_is_unknown(peer: Peer) -> None:
        counted.append(1)
        peer.send(b"550 5.1.1 unknown\r\n" if len(counted) == 2 else b"250 ok\r\n")

    with serving(serve) as server:
        codes = []
        for _ in range(3):
            [answer] = await ask(mail, letter(server))
            assert isinstance(answer, MailAnswer)
            codes.append(answer.code)
        assert codes == [250, 550, 250]
        assert server.connections == 1
        assert [line for line in server.received if line in {b"RSET", b"DATA"}] == [
            b"DATA", b"RSET", b"RSET", b"DATA",
        ]  # fmt: skip


async def test_what_the_last_mail_wrote_does_not_count(mail: MailWire) -> None:
    """A break before the dot of a connection's second mail is not sent, although its first mail was."""

    def serve(peer: Peer) -> None:
        talk(peer, {"RCPT": _second_is_reset})

    counted: list[int] = []

    def _second_is_reset(peer: Peer) -> None:
        counted.append(1)
        if len(counted) == 2:
            gone(peer)
        peer.send(b"250 ok\r\n")

    with serving(serve) as server:
        await ask(mail, letter(server))
        [answer] = await ask(mail, letter(server))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent, answer.stage) == (Fault.RESET_BEFORE_STATUS, False, "RCPT")
        assert server.connections == 1


async def test_a_connection_that_falls_silent_between_two_mails_sent_nothing(mail: MailWire) -> None:
    """When RSET gets no reply the next mail was not sent, although the one before it was."""
    over = threading.Event()

    def silent(_: Peer) -> None:
        over.wait(60)

    with serving(lambda peer: talk(peer, {"RSET": silent})) as server:
        await ask(mail, letter(server))
        [answer] = await ask(mail, replace(letter(server), timeout=0.3))
        if b"RSET" not in server.received:  # a stall: the time was over before the server was asked
            await ask(mail, letter(server))
            [answer] = await ask(mail, replace(letter(server), timeout=20.0))
        over.set()
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.READ_TIMEOUT, False)


@pytest.mark.parametrize("how", ["closed", "421 to RSET"])
async def test_an_idle_connection_that_the_server_ended_costs_nothing(mail: MailWire, how: str) -> None:
    """The next mail goes over a new connection and arrives once."""
    closed = threading.Event()

    def serve(peer: Peer) -> None:
        def then(peer: Peer) -> None:
            peer.send(b"250 ok\r\n")
            if how == "closed" and peer.number == 1:
                peer.sock.close()
                closed.set()

        talk(peer, {"END": then, "RSET": b"421 4.4.2 idle too long"})

    with serving(serve) as server:
        [first] = await ask(mail, letter(server))
        if how == "closed":
            await asyncio.to_thread(closed.wait, 30)
        [second] = await ask(mail, letter(server))
        assert isinstance(first, MailAnswer)
        assert isinstance(second, MailAnswer)
        assert (first.code, second.code) == (250, 250)
        assert server.received.count(b"DATA") == 2
        assert server.connections == 2


async def test_a_bounded_number_of_connections(mail: MailWire) -> None:
    """No more connections than allowed are open at a time; every mail gets its turn."""
    wire = MailWire(helo="client.example", max_connections=3)
    await wire.start()
    with serving(talk) as server:
        answers = await ask(wire, *(letter(server) for _ in range(60)))
        assert all(isinstance(answer, MailAnswer) for answer in answers)
        assert server.received.count(b"DATA") == 60
        assert server.connections == 3
    await wire.close(1)


async def test_waiting_for_a_connection_does_not_count_as_sent() -> None:
    """A mail that finds no free connection within its timeout was not sent."""
    wire = MailWire(helo="client.example", max_connections=1)
    await wire.start()
    with serving(lambda peer: talk(peer, {"END": hang})) as server:
        asking = asyncio.ensure_future(ask(wire, letter(server)))
        await asyncio.to_thread(server.wait_for, lambda server: len(server.received) == 5)
        [answer] = await ask(wire, letter(server, timeout=0.2))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.NOT_STARTED, False)
        await wire.close(0)
        await asking


async def test_a_refused_connection_is_not_sent(mail: MailWire) -> None:
    """Nobody listens."""
    [answer] = await ask(mail, letter(closed_port()))
    assert isinstance(answer, NoAnswer)
    assert (answer.fault, answer.sent, answer.stage) == (Fault.CONNECT_REFUSED, False, "CONNECT")


async def test_a_connection_that_is_never_accepted_times_out(mail: MailWire) -> None:
    """The connect timeout covers connecting."""
    with black_hole() as port:
        [answer] = await ask(mail, letter(port, connect_timeout=0.3))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent, answer.stage) == (Fault.CONNECT_TIMEOUT, False, "CONNECT")


async def test_a_slow_greeting_times_out(mail: MailWire) -> None:
    """The connect timeout covers the greeting."""
    with serving(hang) as server:
        [answer] = await ask(mail, letter(server, connect_timeout=0.3))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent, answer.stage) == (Fault.CONNECT_TIMEOUT, False, "CONNECT")


async def test_a_name_that_does_not_exist_is_not_sent(mail: MailWire) -> None:
    """RFC 6761 section 6.4: names under .invalid never resolve."""
    [answer] = await ask(mail, MailRequest(MailServer("nobody.invalid"), "a@b", "c@d", b"x"))
    assert isinstance(answer, NoAnswer)
    assert answer.fault in {Fault.DNS_NXDOMAIN, Fault.DNS_TIMEOUT}
    assert not answer.sent


@pytest.mark.parametrize("recipient", ["a@b>\r\nRCPT TO:<evil@x", "a@b> NOTIFY=NEVER", "a@b\0"])
async def test_an_address_can_not_inject(mail: MailWire, recipient: str) -> None:
    """An address that would end its place in the command is not sent."""
    with serving(talk) as server:
        [answer] = await ask(mail, letter(server, recipient=recipient))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.NOT_STARTED, False)
        assert not any(b"evil" in line or b"NOTIFY" in line for line in server.received)


async def test_extensions_are_used_where_they_are_offered(mail: MailWire) -> None:
    """SIZE, 8BITMIME and SMTPUTF8 are announced as the message and the addresses need them."""
    offer = b"250-mx\r\n250-SIZE 1000\r\n250-8BITMIME\r\n250 SMTPUTF8"
    with serving(lambda peer: talk(peer, {"EHLO": offer})) as server:
        await ask(mail, letter(server, "Grüße\r\n".encode(), recipient="jörg@example.com"))
        assert server.received[1] == b"MAIL FROM:<from@example.com> SIZE=9 BODY=8BITMIME SMTPUTF8"
        assert server.received[2] == "RCPT TO:<jörg@example.com>".encode()
        assert server.received[4] == "Grüße\r\n".encode()


async def test_login(mail: MailWire) -> None:
    """The user's name and password go through the method that the server offers, once per connection."""
    replies: dict[str, bytes | Callable[[Peer], None]] = {
        "EHLO": b"250-mx\r\n250 AUTH PLAIN",
        "AUTH": b"235 2.7.0 welcome",
    }
    with serving(lambda peer: talk(peer, replies)) as server:
        for _ in range(2):
            [answer] = await ask(mail, letter(server, user="me", password="secret"))
            assert isinstance(answer, MailAnswer)
        logins = [line for line in server.received if line.startswith(b"AUTH")]
        assert logins == [b"AUTH PLAIN " + base64.b64encode(b"\0me\0secret")]


async def test_a_refused_login_names_its_stage(mail: MailWire) -> None:
    """A wrong password is an answer of stage AUTH; nothing was sent, no secret is told."""
    replies: dict[str, bytes | Callable[[Peer], None]] = {
        "EHLO": b"250-mx\r\n250 AUTH PLAIN",
        "AUTH": b"535 5.7.8 no",
    }
    with serving(lambda peer: talk(peer, replies)) as server:
        [answer] = await ask(mail, letter(server, user="me", password="secret"))
        assert answer == MailAnswer(535, "5.7.8 no", "5.7.8", "AUTH")


async def test_a_server_that_offers_no_login_says_so_itself(mail: MailWire) -> None:
    """Where AUTH is not offered, no password is sent before the server asks for it."""
    with serving(lambda peer: talk(peer, {"AUTH": b"503 5.5.1 not here"})) as server:
        [answer] = await ask(mail, letter(server, user="me", password="secret"))
        assert answer == MailAnswer(503, "5.5.1 not here", "5.5.1", "AUTH")
        assert server.received[1] == b"AUTH PLAIN"


async def test_close_waits_for_the_final_reply() -> None:
    """A mail that ends within the grace period is answered with its real answer, then the server is told."""
    wire = MailWire(helo="client.example")
    await wire.start()
    go = threading.Event()

    def slow(peer: Peer) -> None:
        go.wait(30)
        peer.send(b"250 ok\r\n")

    with serving(lambda peer: talk(peer, {"END": slow})) as server:
        asking = asyncio.ensure_future(ask(wire, letter(server)))
        await asyncio.to_thread(server.wait_for, lambda server: len(server.received) == 5)
        closing = asyncio.ensure_future(wire.close(30))
        await asyncio.sleep(0)
        go.set()
        await closing
        [answer] = await asking
        assert isinstance(answer, MailAnswer)


async def test_close_gives_up_what_is_left_and_says_what_was_sent() -> None:
    """After the grace period: the dot was written is unknown, before it is not sent."""
    wire = MailWire(helo="client.example")
    await wire.start()
    with serving(lambda peer: talk(peer, {"END": hang})) as after, serving(hang) as before:
        asking = asyncio.ensure_future(ask(wire, letter(after), letter(before)))
        await asyncio.to_thread(after.wait_for, lambda server: len(server.received) == 5)
        await asyncio.to_thread(before.wait_for, lambda server: server.connections == 1)
        await wire.close(0)
        written, greeted = await asking
        assert isinstance(written, NoAnswer)
        assert (written.fault, written.sent) == (Fault.READ_TIMEOUT, True)
        assert isinstance(greeted, NoAnswer)
        assert (greeted.fault, greeted.sent) == (Fault.NOT_STARTED, False)
        [answer] = await ask(wire, letter(after))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.NOT_STARTED, False)


async def test_idle_connections_are_told_good_bye() -> None:
    """Closing the wire sends QUIT on the connections that it kept."""
    wire = MailWire(helo="client.example")
    await wire.start()
    with serving(talk) as server:
        await ask(wire, letter(server))
        await wire.close(1)
        assert server.received[-1] == b"QUIT"


# TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """A certificate authority of our own."""
    return trustme.CA()


def secure(authority: trustme.CA) -> ssl.SSLContext:
    """A server's side for 127.0.0.1."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(made)
    return made


@pytest.fixture
async def trusting(authority: trustme.CA, tmp_path: Path) -> AsyncIterator[MailWire]:
    """A wire that trusts our authority."""
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(file)
    wire = MailWire(ca_file=str(file), helo="client.example")
    await wire.start()
    yield wire
    await wire.close(0)


def upgrading(authority: trustme.CA) -> Callable[[Peer], None]:
    """A server that offers STARTTLS."""

    def serve(peer: Peer) -> None:
        def upgrade(peer: Peer) -> None:
            peer.send(b"220 go ahead\r\n")
            peer.encrypt(secure(authority))
            peer.server.record(b"(encrypted)")

        try:
            talk(peer, {"EHLO": b"250-mx\r\n250 STARTTLS", "STARTTLS": upgrade})
        finally:
            peer.sock.close()

    return serve


@pytest.mark.parametrize("mode", ["starttls", "auto"])
async def test_starttls(authority: trustme.CA, trusting: MailWire, mode: str) -> None:
    """The connection is encrypted before the envelope is told, and the server greeted anew (RFC 3207)."""
    with serving(upgrading(authority)) as server:
        for _ in range(2):
            [answer] = await ask(trusting, letter(server, tls=mode))
            assert isinstance(answer, MailAnswer)
        assert server.received[:4] == [
            b"EHLO client.example", b"STARTTLS", b"(encrypted)", b"EHLO client.example",
        ]  # fmt: skip
        assert server.connections == 1


@pytest.mark.parametrize("mode", ["starttls", "auto"])
async def test_starttls_with_a_wrong_certificate_sends_nothing(
    authority: trustme.CA, mail: MailWire, mode: str
) -> None:
    """A server that can not prove its name gets neither password nor mail."""
    with serving(upgrading(authority)) as server:
        [answer] = await ask(mail, letter(server, tls=mode, user="me", password="secret"))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.TLS_CERT_INVALID, False)
        assert not any(line.startswith((b"AUTH", b"MAIL")) for line in server.received)


async def test_required_starttls_that_is_not_offered_sends_nothing(mail: MailWire) -> None:
    """``starttls`` means never without."""
    with serving(talk) as server:
        [answer] = await ask(mail, letter(server, tls="starttls"))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.TLS_CERT_INVALID, False)
        assert server.received[-1:] == [b"EHLO client.example"]


async def test_auto_goes_on_without_tls_where_it_is_not_offered(mail: MailWire) -> None:
    """``auto`` takes what there is."""
    with serving(talk) as server:
        [answer] = await ask(mail, letter(server, tls="auto"))
        assert isinstance(answer, MailAnswer)


@pytest.mark.parametrize("trusted", [True, False])
async def test_implicit_tls(authority: trustme.CA, mail: MailWire, trusting: MailWire, trusted: bool) -> None:
    """TLS from the first byte, with a certificate that is checked."""
    with serving(talk, secure(authority)) as server:
        [answer] = await ask(trusting if trusted else mail, letter(server, tls="implicit"))
        if trusted:
            assert isinstance(answer, MailAnswer)
        else:
            assert isinstance(answer, NoAnswer)
            assert (answer.fault, answer.sent) == (Fault.TLS_CERT_INVALID, False)
