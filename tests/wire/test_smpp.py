"""SMPP at the level of bytes: what the center took, what the wire said of it, and what it never does again."""

import asyncio
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import trustme

from ringonce.model.exchange import Fault, NoAnswer, SmsAnswer, SmsDelivered, SmsRequest
from ringonce.model.exchange import SmsCenter as Center
from ringonce.vendors.script import plan
from ringonce.vendors.smpp import SmsCenter, delivery
from ringonce.wire import Network, smpp_line, smpp_session
from ringonce.wire.smpp import SmsWire
from tests.servers.ports import closed_port
from tests.servers.sockets import Peer, serving
from tests.wire.conftest import DEADLINE, ask, ask_briefly

ME, YOU = (5, 0, "Acme"), (1, 1, "447700900123")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost session comes back at once."""
    monkeypatch.setattr(smpp_line, "BASE", 0.01)
    monkeypatch.setattr(smpp_line, "CAP", 0.02)
    monkeypatch.setattr(smpp_line, "CONNECT", 60.0)
    monkeypatch.setattr(smpp_line, "AGAIN", 0.01)
    monkeypatch.setattr(smpp_session, "ANSWER", 600.0)


@pytest.fixture
async def wire() -> AsyncIterator[SmsWire]:
    """The wire."""
    made = SmsWire()
    yield made
    await made.close(0)


@contextmanager
def center(*faults: str, **more: Any) -> Iterator[SmsCenter]:
    """A center that fails as it is told."""
    with SmsCenter("acme", "secret", plan=plan(faults), **more) as server:
        yield server


def at(server: SmsCenter | int, **more: Any) -> Center:
    """Where it is, and as whom."""
    port = server if isinstance(server, int) else server.port
    fields: dict[str, Any] = {"system_id": "acme", "password": "secret", "enquire_link": 600.0, **more}
    return Center("127.0.0.1", port, **fields)


def sms(where: Center, *parts: bytes, **more: Any) -> SmsRequest:
    """A short message."""
    return SmsRequest(where, ME, YOU, parts or (b"hello",), **{"timeout": DEADLINE, **more})


async def blocking(call: Callable[[], object]) -> None:
    """Wait in a thread for what must become true."""
    assert await asyncio.to_thread(call)


async def test_a_message_arrives_as_it_was_given(wire: SmsWire) -> None:
    """Every field of the request is in the packet that the center takes apart, and its id is in the answer."""
    with center() as server:
        request = sms(
            at(server, system_type="VMA"),
            b"\x00\x1be",
            data_coding=8,
            esm_class=0,
            report=True,
            service_type="CMT",
            validity="000000000130000R",
            reference=0xBEEF,
        )
        [answer] = await ask(wire, request)
        assert answer == SmsAnswer(0, "submit_sm_resp", "A0", 1)
        [taken] = server.taken
        assert (taken.source, taken.destination, taken.octets) == (ME, YOU, b"\x00\x1be")
        assert (taken.data_coding, taken.esm_class, taken.registered) == (8, 0, 1)
        assert (taken.service_type, taken.validity) == ("CMT", "000000000130000R")
        assert taken.options == {0x0204: b"\xbe\xef"}


async def test_optional_parameters_only_where_they_are_read(wire: SmsWire) -> None:
    """A center that does not tell its version gets no reference of ours (section 3.4.2)."""
    with center(bare=True) as server:
        await ask(wire, sms(at(server), reference=7))
        assert server.taken[0].options == {}


async def test_a_payload_travels_as_an_optional_parameter(wire: SmsWire) -> None:
    """A long text in one piece is a message_payload, and no short_message beside it."""
    with center(bare=True) as server:
        await ask(wire, sms(at(server), b"a" * 400, payload=True))
        assert server.taken[0].options == {0x0424: b"a" * 400}


async def test_parts_go_in_order_and_one_report_is_asked_for(wire: SmsWire) -> None:
    """Each part is handed in once; the answer has the id of the last, of which the report is asked for."""
    with center() as server:
        [answer] = await ask(wire, sms(at(server), b"1", b"2", b"3", report=True))
        assert answer == SmsAnswer(0, "submit_sm_resp", "A2", 3)
        assert [(part.octets, part.registered) for part in server.taken] == [(b"1", 0), (b"2", 0), (b"3", 1)]


async def test_a_refused_part_ends_the_message(wire: SmsWire) -> None:
    """What follows a refused part is not sent; the answer tells how many were taken before."""
    with center("88:numbers=2") as server:
        [answer] = await ask(wire, sms(at(server), b"1", b"2", b"3"))
        assert answer == SmsAnswer(88, "submit_sm_resp", accepted=1)
        assert [part.octets for part in server.taken] == [b"1"]


@pytest.mark.parametrize("status", [88, 20, 11, 1040, 0xFFFF_FFFF])
async def test_a_status_is_the_answer(wire: SmsWire, status: int) -> None:
    """Any status of the response is told as it is, a vendor's own too; the session goes on."""
    with center(f"{status}:first=1") as server:
        assert await ask(wire, sms(at(server))) == [SmsAnswer(status, "submit_sm_resp")]
        assert await ask(wire, sms(at(server))) == [SmsAnswer(0, "submit_sm_resp", "A0", 1)]
        assert server.binds == 1


@pytest.mark.parametrize(
    "verb",
    [
        "reset",
        "close_before_reply",
        "garbage",
        "accept_then_reset",
        "accept_then_close",
    ],
)
async def test_a_lost_response_is_a_doubt_and_nothing_is_sent_again(wire: SmsWire, verb: str) -> None:
    """Whether it was taken or not: the packet was written, so it may have been; the center got it once."""
    with center(f"{verb}:first=1") as server:
        [answer] = await ask(wire, sms(at(server)))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.RESET_BEFORE_STATUS, True)
        # The session comes back, and what was in doubt does not.
        assert await ask(wire, sms(at(server), b"next")) == [
            SmsAnswer(0, "submit_sm_resp", server.taken[-1].id, 1)
        ]
        assert [entry.reference for entry in server.ledger.entries] == ["hello", "next"]


async def test_silence_is_a_doubt(wire: SmsWire) -> None:
    """A message without a response within its time may have been taken."""
    with center("hang") as server:
        answer = await ask_briefly(
            wire,
            lambda seconds: sms(at(server), timeout=seconds),
            lambda: bool(server.ledger.entries),
        )
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.READ_TIMEOUT, True)


async def test_a_part_that_follows_a_taken_one_is_no_clean_failure(wire: SmsWire) -> None:
    """When the connection breaks between two parts, something was sent."""
    with center("accept_then_close:first=1") as server:
        [answer] = await ask(wire, sms(at(server), b"1", b"2"))
        assert isinstance(answer, NoAnswer)
        assert answer.sent
        assert [part.octets for part in server.taken] == [b"1"]


async def test_nobody_there(wire: SmsWire) -> None:
    """Where nothing listens nothing was sent, and whoever waits learns it without waiting for its time to end."""
    [one, two] = await ask(wire, *[sms(at(closed_port()))] * 2)
    assert one == two == NoAnswer(Fault.CONNECT_REFUSED, sent=False, detail="no connection")


async def test_an_unknown_host(wire: SmsWire) -> None:
    """A name that does not resolve is told as such."""
    [answer] = await ask(wire, sms(replace(at(1), host="host.invalid")))
    assert isinstance(answer, NoAnswer)
    assert answer.fault in {Fault.DNS_NXDOMAIN, Fault.DNS_TIMEOUT}
    assert not answer.sent


@pytest.mark.parametrize(("known", "status"), [({"password": "wrong"}, 0x0E), ({"system_id": "who"}, 0x0F)])
async def test_a_refused_bind_is_told_and_not_repeated(
    wire: SmsWire, known: dict[str, str], status: int
) -> None:
    """All who wait learn the status; who asks right afterwards learns it too, and the center is left in peace."""
    with center() as server:
        refused = SmsAnswer(status, "bind_transceiver_resp")
        requests = [sms(at(server, **known))] * 3
        assert await ask(wire, *requests) == [refused] * 3
        assert await ask(wire, *requests) == [refused] * 3
        assert server.binds == 0
        assert server.ledger.entries == []


async def test_a_refused_bind_is_tried_again_when_somebody_asks(
    wire: SmsWire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a pause the next message tries the bind once more, so a mended account needs no restart."""
    monkeypatch.setattr(smpp_line, "REFUSED", 0.0)
    with center("14:first=1,stage=BIND") as server:
        assert await ask(wire, sms(at(server))) == [SmsAnswer(14, "bind_transceiver_resp")]
        assert await ask(wire, sms(at(server))) == [SmsAnswer(0, "submit_sm_resp", "A0", 1)]


async def test_a_bind_without_an_answer(wire: SmsWire) -> None:
    """While the bind is not answered nothing is sent, and the end of the wire closes that connection, too."""

    def talk(peer: Peer) -> None:
        packet(peer)
        peer.server.record(b"bind")
        peer.until_closed()
        peer.server.record(b"closed")

    with serving(talk) as server:
        [answer] = await ask(wire, sms(at(server.port), timeout=0.2))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.NOT_STARTED, False)
        await asyncio.to_thread(server.wait_for, lambda one: b"bind" in one.received)
        await wire.close(0)
        await asyncio.to_thread(server.wait_for, lambda one: b"closed" in one.received)


async def test_a_bug_in_opening_does_not_end_the_sessions(
    wire: SmsWire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever opening raises is told to whoever waits, and the next one finds the session that came after it."""
    real, failing = smpp_session.bind, [ValueError("bug")]

    def bind(center: Center, sequence: int) -> bytes:
        if failing:
            raise failing.pop()
        return real(center, sequence)

    monkeypatch.setattr(smpp_session, "bind", bind)
    with center() as server:
        [answer] = await ask(wire, sms(at(server)))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.NOT_STARTED, False)
        assert isinstance((await ask(wire, sms(at(server))))[0], SmsAnswer)


async def test_the_window_bounds_what_is_without_an_answer(wire: SmsWire) -> None:
    """So many messages are written as the window has room for; the others follow as answers come."""
    gate = threading.Event()

    def talk(peer: Peer) -> None:
        bound(peer)
        numbers = [packet(peer)[3] for _ in range(2)]
        peer.server.record(b"two")
        gate.wait(DEADLINE)
        peer.sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            peer.sock.recv(1)
        peer.sock.settimeout(None)
        for number in numbers:
            say(peer, 0x8000_0004, number, body=b"id\0")
        say(peer, 0x8000_0004, packet(peer)[3], body=b"id\0")
        peer.until_closed()

    with serving(talk) as server:
        asking = asyncio.ensure_future(ask(wire, *[sms(at(server.port, window=2))] * 3))
        await asyncio.to_thread(server.wait_for, lambda one: b"two" in one.received)
        gate.set()
        assert await asking == [SmsAnswer(0, "submit_sm_resp", "id", 1)] * 3


async def test_no_room_in_time_is_not_sent(wire: SmsWire) -> None:
    """A message that found no room in the window until its time was over has certainly not been sent."""

    def talk(peer: Peer) -> None:
        bound(peer)
        packet(peer)
        peer.server.record(b"one")
        peer.until_closed()

    with serving(talk) as server:
        where = at(server.port, window=1)
        first = asyncio.ensure_future(ask(wire, sms(where)))
        await asyncio.to_thread(server.wait_for, lambda one: b"one" in one.received)
        [second] = await ask(wire, sms(where, timeout=0.2))
        assert isinstance(second, NoAnswer)
        assert (second.fault, second.sent) == (Fault.NOT_STARTED, False)
        await wire.close(0)
        [given_up] = await first
        assert isinstance(given_up, NoAnswer)
        assert (given_up.fault, given_up.sent) == (Fault.READ_TIMEOUT, True)


async def test_several_sessions_share_the_messages(wire: SmsWire) -> None:
    """As many sessions are bound as the center has, and equal centers share them."""
    with center() as server:
        answers = await ask(wire, *(sms(at(server, sessions=3), b"%d" % number) for number in range(20)))
        assert {type(answer) for answer in answers} == {SmsAnswer}
        await blocking(lambda: server.wait_for(lambda one: one.binds == 3))
        assert sorted(part.text for part in server.taken) == sorted(str(number) for number in range(20))


async def test_unbind_by_the_center(wire: SmsWire) -> None:
    """When the center asks to end it is answered, and the next message goes over a new session."""
    with center() as server:
        await ask(wire, sms(at(server)))
        server.unbind()
        wire.listen(at(server), _deaf)
        await blocking(lambda: server.wait_for(lambda one: one.binds == 2))
        assert await ask(wire, sms(at(server))) == [SmsAnswer(0, "submit_sm_resp", "A1", 1)]


async def test_a_connection_that_hung_up_is_not_written_to(wire: SmsWire) -> None:
    """What is asked right after the center has closed is not sent into the dead connection: no doubt comes of it."""
    go, closed = threading.Event(), threading.Event()

    def talk(peer: Peer) -> None:
        bound(peer)
        say(peer, 0x8000_0004, packet(peer)[3], body=b"id\0")
        if peer.number == 1:
            go.wait(DEADLINE)
            peer.sock.shutdown(2)
            closed.set()
        peer.until_closed()

    with serving(talk) as server:
        [first] = await ask(wire, sms(at(server.port)))
        assert isinstance(first, SmsAnswer)
        go.set()
        closed.wait(DEADLINE)  # in the loop's thread: it can not have heard of it
        [second] = await ask(wire, sms(at(server.port)))
        assert isinstance(second, NoAnswer)
        assert not second.sent
        assert isinstance((await ask(wire, sms(at(server.port))))[0], SmsAnswer)


async def test_a_silent_center_is_asked_and_then_given_up(
    wire: SmsWire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After silence enquire_link is sent; where that is not answered either, whoever waits is in doubt."""
    monkeypatch.setattr(smpp_session, "ANSWER", 1.0)

    def talk(peer: Peer) -> None:
        bound(peer)
        while True:
            peer.server.record(b"%x" % packet(peer)[1])

    with serving(talk) as server:
        [answer] = await ask(wire, sms(at(server.port, enquire_link=1.0)))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.RESET_BEFORE_STATUS, True)
        assert sorted(server.received) == [b"15", b"4"]


async def test_a_quiet_session_stays(wire: SmsWire) -> None:
    """A center that answers enquire_link keeps its session, however little there is to say."""
    with center() as server:
        await ask(wire, sms(at(server, enquire_link=0.05)))
        await blocking(lambda: server.wait_for(lambda one: one.enquired >= 3))
        assert server.binds == 1


async def test_the_center_may_ask_too(wire: SmsWire) -> None:
    """enquire_link is answered, a command that nobody expects gets a generic_nack, an alert gets nothing."""

    def talk(peer: Peer) -> None:
        bound(peer)
        number = packet(peer)[3]
        for command in (0x102, 0x15, 0x7777):
            say(peer, command, command)
        for _ in range(2):
            _, command, status, sequence = packet(peer)
            peer.server.record(b"%x %d %x" % (command, status, sequence))
        say(peer, 0x8000_0000, number, status=3)
        peer.until_closed()

    with serving(talk) as server:
        assert await ask(wire, sms(at(server.port))) == [SmsAnswer(3, "generic_nack")]
        assert server.received == [b"80000015 0 15", b"80000000 3 7777"]


@pytest.mark.parametrize(("command", "status"), [(0x8000_0005, 0), (0x8000_0000, 0), (0x8000_0009, 5)])
async def test_a_response_that_answers_something_else_is_no_verdict(
    wire: SmsWire, command: int, status: int
) -> None:
    """Our number under another command's response says nothing about the message."""

    def talk(peer: Peer) -> None:
        bound(peer)
        say(peer, command, packet(peer)[3], status=status)
        peer.until_closed()

    with serving(talk) as server:
        [answer] = await ask(wire, sms(at(server.port)))
        assert isinstance(answer, NoAnswer)
        assert answer.sent


async def test_packets_in_any_pieces(wire: SmsWire) -> None:
    """A response byte by byte, without an id, and with octets behind it, is one all the same."""

    def talk(peer: Peer) -> None:
        bound(peer)
        number = packet(peer)[3]
        for octet in struct.pack(">LLLL", 16, 0x8000_0004, 0, number):
            peer.send(bytes((octet,)))
        say(peer, 0x8000_0004, packet(peer)[3], body=b"id\0\x00\x1d")
        peer.until_closed()

    with serving(talk) as server:
        assert await ask(wire, sms(at(server.port))) == [SmsAnswer(0, "submit_sm_resp", "", 1)]
        assert await ask(wire, sms(at(server.port))) == [SmsAnswer(0, "submit_sm_resp", "id", 1)]


async def test_tls(tmp_path: Any) -> None:
    """Over TLS the certificate is checked: a foreign one is refused, and nothing was sent."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")

    def talk(peer: Peer) -> None:
        bound(peer)
        say(peer, 0x8000_0004, packet(peer)[3], body=b"id\0")
        peer.until_closed()

    with serving(talk, context) as server:
        trusting, doubting = SmsWire(ca_file=str(tmp_path / "ca.pem")), SmsWire()
        try:
            where = at(server.port, tls=True)
            assert await ask(trusting, sms(where)) == [SmsAnswer(0, "submit_sm_resp", "id", 1)]
            [refused] = await ask(doubting, sms(where))
            assert isinstance(refused, NoAnswer)
            assert (refused.fault, refused.sent) == (Fault.TLS_CERT_INVALID, False)
        finally:
            await trusting.close(0)
            await doubting.close(0)


async def test_the_end(wire: SmsWire) -> None:
    """A closed wire takes nothing any more, and has said good-bye to the center."""
    parted = threading.Event()

    def talk(peer: Peer) -> None:
        bound(peer)
        say(peer, 0x8000_0004, packet(peer)[3], body=b"id\0")
        _, command, _, sequence = packet(peer)
        if command == 0x06:
            parted.set()
        say(peer, 0x8000_0006, sequence)
        peer.until_closed()

    with serving(talk) as server:
        await ask(wire, sms(at(server.port)))
        await wire.close(1)
        assert await asyncio.to_thread(parted.wait, DEADLINE)
        [answer] = await ask(wire, sms(at(server.port)))
        assert answer == NoAnswer(Fault.NOT_STARTED, sent=False, detail="the wire is closed")


# What the center delivers.


class Ear:
    """Keeps what it hears; ``fails`` times it is deaf first."""

    def __init__(self, fails: int = 0) -> None:
        self.fails = fails
        self.told: list[SmsDelivered] = []
        self.changed = asyncio.Event()

    async def __call__(self, delivered: Any) -> None:
        """Hear."""
        if self.fails:
            self.fails -= 1
            raise OSError("the database is away")
        self.told += delivered
        self.changed.set()

    async def heard(self, count: int) -> list[SmsDelivered]:
        """Wait for so many."""
        async with asyncio.timeout(DEADLINE):
            while len(self.told) < count:
                self.changed.clear()
                await self.changed.wait()
        return self.told


async def _deaf(_: Any) -> None:
    """Take anything."""


async def test_reports_come_without_anything_to_send(wire: SmsWire) -> None:
    """Who listens has a session at once; what is delivered is acknowledged when it was taken."""
    ear = Ear()
    with center() as server:
        wire.listen(at(server), ear)
        server.deliver(delivery(YOU, ME, b"id:1 stat:DELIVRD", 0x04))
        assert await ear.heard(1) == [SmsDelivered("id:1 stat:DELIVRD", 0x04)]
        await blocking(lambda: server.wait_for(lambda one: one.acknowledged == [0]))


async def test_a_report_with_optional_parameters(wire: SmsWire) -> None:
    """The id and the state that stand beside the text are told as well."""
    ear = Ear()
    with center(report="UNDELIV") as server:
        wire.listen(at(server), ear)
        [answer] = await ask(wire, sms(at(server), report=True))
        assert isinstance(answer, SmsAnswer)
        [told] = await ear.heard(1)
        assert told.text.startswith(f"id:{answer.message_id} ")
        assert (told.receipted_id, told.state) == (answer.message_id, 5)


async def test_what_could_not_be_taken_is_delivered_again(wire: SmsWire) -> None:
    """While taking fails the center is asked to come again later, and it does."""
    ear = Ear(fails=2)
    with center() as server:
        wire.listen(at(server), ear)
        server.deliver(delivery(YOU, ME, b"id:1 stat:DELIVRD", 0x04))
        await ear.heard(1)
        await blocking(lambda: server.wait_for(lambda one: one.acknowledged == [0x64, 0x64, 0]))


async def test_without_anybody_who_listens_nothing_is_acknowledged(wire: SmsWire) -> None:
    """A session that only sends leaves reports to the center until somebody listens."""
    with center(report="DELIVRD") as server:
        await ask(wire, sms(at(server), report=True))
        await blocking(lambda: server.wait_for(lambda one: 0x64 in one.acknowledged))
        ear = Ear()
        wire.listen(at(server), ear)
        await ear.heard(1)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            delivery(YOU, ME, "жду".encode("utf-16-be"))[:-9] + b"\x08\x00\x06" + "жду".encode("utf-16-be"),
            "жду",
        ),
        (delivery(YOU, ME, b"") + struct.pack(">HH", 0x0424, 5) + b"a pay", "a pay"),
        (delivery(YOU, ME, b"x") + struct.pack(">HH", 0x7777, 3) + b"odd", "x"),
        (delivery(YOU, ME, b"x") + struct.pack(">HH", 0x0427, 9) + b"\x02", "x"),
        (delivery(YOU, ME, b"x") + struct.pack(">HH", 0x0427, 0), "x"),
        (b"\0\x01", ""),
    ],
)
async def test_odd_deliveries(wire: SmsWire, body: bytes, told: str) -> None:
    """UCS-2, a payload, odd parameters, a packet that is cut off: each is told as far as it can be read."""
    ear = Ear()
    with center() as server:
        wire.listen(at(server), ear)
        server.deliver(body)
        [heard] = await ear.heard(1)
        assert (heard.text, heard.state) == (told, None)
        await blocking(lambda: server.wait_for(lambda one: one.acknowledged == [0]))


async def test_the_network_carries_and_hears_them() -> None:
    """The one wire of a process hands short messages in and listens, too."""
    network, ear = Network(), Ear()
    await network.start()
    with center(report="DELIVRD") as server:
        network.listen(at(server), ear)
        assert await ask(network, sms(at(server), report=True)) == [SmsAnswer(0, "submit_sm_resp", "A0", 1)]
        await ear.heard(1)
        await network.close(1)


# A center by hand.


def packet(peer: Peer) -> tuple[int, int, int, int]:
    """The header of the next packet. Raises OSError: there is none."""
    while len(peer.buffer) < 16 or len(peer.buffer) < struct.unpack_from(">L", peer.buffer)[0]:
        data = peer.sock.recv(65536)
        if not data:
            raise OSError
        peer.buffer += data
    head: tuple[int, int, int, int] = struct.unpack_from(">LLLL", peer.buffer)
    peer.buffer = peer.buffer[head[0] :]
    return head


def say(peer: Peer, command: int, sequence: int, *, status: int = 0, body: bytes = b"") -> None:
    """Send a packet."""
    peer.send(struct.pack(">LLLL", 16 + len(body), command, status, sequence) + body)


def bound(peer: Peer) -> None:
    """Take the bind."""
    _, command, _, sequence = packet(peer)
    assert command == 0x09
    say(peer, 0x8000_0009, sequence, body=b"by hand\0")
