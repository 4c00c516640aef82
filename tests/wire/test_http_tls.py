"""TLS and HTTP/2: certificates are checked, refused streams are told apart from broken ones."""

import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from ringonce.model.exchange import Fault, HttpAnswer, HttpRequest, NoAnswer
from ringonce.wire.http import HttpWire
from tests.servers.frames import (
    DATA,
    END_HEADERS,
    GOAWAY,
    HEADERS,
    REFUSED_STREAM,
    RST_STREAM,
    STATUS_200,
    Http2Peer,
)
from tests.servers.sockets import Peer, serving
from tests.wire.conftest import ask


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """A certificate authority of our own."""
    return trustme.CA()


def context(authority: trustme.CA, *names: str, http2: bool = False) -> ssl.SSLContext:
    """A server's side with a certificate for ``names``."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(made)
    made.set_alpn_protocols(["h2"] if http2 else ["http/1.1"])
    return made


@pytest.fixture
async def trusting(authority: trustme.CA, tmp_path: Path) -> AsyncIterator[HttpWire]:
    """A wire that trusts our authority."""
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(file)
    wire = HttpWire(ca_file=str(file))
    await wire.start()
    yield wire
    await wire.close(0)


def polite(peer: Peer) -> None:
    """Answer everything with 200."""
    while peer.request():
        peer.ok()


async def test_a_valid_certificate_is_accepted(authority: trustme.CA, trusting: HttpWire) -> None:
    """A certificate of the trusted authority for the right name carries requests, on one connection."""
    with serving(polite, context(authority, "127.0.0.1")) as server:
        for _ in range(2):
            [answer] = await ask(trusting, HttpRequest("POST", server.url, body=b"x"))
            assert isinstance(answer, HttpAnswer)
        assert server.connections == 1


async def test_a_certificate_of_nobody_is_not_sent_to(authority: trustme.CA, http: HttpWire) -> None:
    """An unknown authority: nothing is sent."""
    with serving(polite, context(authority, "127.0.0.1")) as server:
        [answer] = await ask(http, HttpRequest("POST", server.url, body=b"x"))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.TLS_CERT_INVALID, False)
        assert "certificate" in answer.detail
        assert server.received == []


async def test_a_certificate_for_another_name_is_not_sent_to(
    authority: trustme.CA, trusting: HttpWire
) -> None:
    """A trusted certificate for another host: nothing is sent."""
    with serving(polite, context(authority, "elsewhere.example")) as server:
        [answer] = await ask(trusting, HttpRequest("POST", server.url, body=b"x"))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.TLS_CERT_INVALID, False)
        assert server.received == []


async def test_a_file_of_certificates_that_is_not_there_is_not_sent(
    tmp_path: Path, authority: trustme.CA
) -> None:
    """Without certificates to trust nobody is trusted."""
    wire = HttpWire(ca_file=str(tmp_path / "nothing.pem"))
    await wire.start()
    with serving(polite, context(authority, "127.0.0.1")) as server:
        [answer] = await ask(wire, HttpRequest("POST", server.url, body=b"x"))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.TLS_CERT_INVALID, False)
    await wire.close(0)


@pytest.mark.parametrize("reset", [False, True])
async def test_a_server_that_does_not_speak_tls_is_not_sent_to(http: HttpWire, reset: bool) -> None:
    """A handshake that fails has carried nothing of the request."""

    def serve(peer: Peer) -> None:
        peer.sock.recv(10)
        if reset:
            peer.reset()
        else:
            peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with serving(serve) as server:
        [answer] = await ask(http, HttpRequest("POST", f"https://127.0.0.1:{server.port}/", body=b"x"))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.CONNECT_REFUSED, False)


async def test_a_handshake_that_never_ends_is_not_sent(http: HttpWire) -> None:
    """The connect timeout covers the handshake."""
    with serving(Peer.until_closed) as server:
        request = HttpRequest("POST", f"https://127.0.0.1:{server.port}/", body=b"x", connect_timeout=0.3)
        [answer] = await ask(http, request)
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.CONNECT_TIMEOUT, False)


async def test_a_tls_connection_closed_while_idle_costs_nothing(
    authority: trustme.CA, trusting: HttpWire
) -> None:
    """The look at a connection before its use works through TLS."""

    def serve(peer: Peer) -> None:
        if peer.request():
            peer.ok()
        peer.sock.shutdown(socket.SHUT_RDWR)
        peer.server.record(b"closed")

    with serving(serve, context(authority, "127.0.0.1")) as server:
        for number in range(1, 4):
            [answer] = await ask(trusting, HttpRequest("POST", server.url, body=b"%d" % number))
            assert isinstance(answer, HttpAnswer)
            server.wait_for(lambda server, n=number: server.received.count(b"closed") == n)  # type: ignore[misc]


async def test_http2_carries_many_on_one_connection(authority: trustme.CA, trusting: HttpWire) -> None:
    """Requests that ask for HTTP/2 share one connection, each answered with its own answer."""

    def serve(peer: Peer) -> None:
        talk = Http2Peer(peer)
        while (got := talk.request()) is not None:
            talk.ok(*got)

    with serving(serve, context(authority, "127.0.0.1", http2=True)) as server:
        requests = [HttpRequest("POST", server.url, body=b"%d" % n, http2=True) for n in range(50)]
        answers = await ask(trusting, *requests)
        answers += await ask(trusting, *requests)
        assert [answer.body for answer in answers if isinstance(answer, HttpAnswer)] == [
            b"%d" % n for n in range(50)
        ] * 2
        assert server.connections == 1


async def test_labels_never_share_a_connection(authority: trustme.CA, trusting: HttpWire) -> None:
    """Requests of one label share a connection, those of another have one of their own, also within a batch."""

    def serve(peer: Peer) -> None:
        talk = Http2Peer(peer)
        while (got := talk.request()) is not None:
            talk.ok(got[0], b"%d" % peer.sock.getpeername()[1])

    with serving(serve, context(authority, "127.0.0.1", http2=True)) as server:
        labels = ["a", "b", "", "a", "b", ""]
        requests = [
            HttpRequest("POST", server.url, body=b"x", http2=True, connection=label) for label in labels
        ]
        answers = await ask(trusting, *requests)
        answers += await ask(trusting, *requests)
        met = {(label, answer.body) for label, answer in zip(labels * 2, answers, strict=True)}  # type: ignore[union-attr]
        assert len(met) == len({port for _, port in met}) == server.connections == 3


async def test_http2_is_only_used_where_it_is_asked_for(authority: trustme.CA, trusting: HttpWire) -> None:
    """Without ``http2`` the wire speaks HTTP/1.1 to a server that offers both."""
    both = context(authority, "127.0.0.1")
    both.set_alpn_protocols(["h2", "http/1.1"])
    with serving(polite, both) as server:
        [answer] = await ask(trusting, HttpRequest("POST", server.url, body=b"x"))
        assert isinstance(answer, HttpAnswer)
        assert b"HTTP/1.1" in server.received[0]


@pytest.mark.parametrize("goaway", [False, True])
async def test_a_refused_stream_is_not_sent(authority: trustme.CA, trusting: HttpWire, goaway: bool) -> None:
    """RFC 9113 sections 6.8 and 8.7: what the server refused it has not processed, and we do not send it again."""

    def serve(peer: Peer) -> None:
        talk = Http2Peer(peer)
        first = talk.request()
        assert first is not None
        talk.ok(*first)
        second = talk.request()
        assert second is not None
        if goaway:
            talk.send(GOAWAY, 0, 0, first[0].to_bytes(4, "big") + bytes(4))
            peer.until_closed()
        else:
            talk.send(RST_STREAM, 0, second[0], REFUSED_STREAM.to_bytes(4, "big"))
            peer.until_closed()

    with serving(serve, context(authority, "127.0.0.1", http2=True)) as server:
        await ask(trusting, HttpRequest("POST", server.url, body=b"first", http2=True))
        [answer] = await ask(trusting, HttpRequest("POST", server.url, body=b"second", http2=True))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.GOAWAY if goaway else Fault.REFUSED_STREAM, False)
        assert server.received == [b"first", b"second"]


@pytest.mark.parametrize("how", ["internal error", "closed", "half an answer"])
async def test_a_broken_stream_is_unknown(authority: trustme.CA, trusting: HttpWire, how: str) -> None:
    """A stream that ends in any other way may have been processed; it is not sent again."""

    def serve(peer: Peer) -> None:
        talk = Http2Peer(peer)
        first = talk.request()
        if first is None:
            return
        talk.ok(*first)
        second = talk.request()
        if second is None:
            return
        if how == "internal error":
            talk.send(RST_STREAM, 0, second[0], (2).to_bytes(4, "big"))
            peer.until_closed()
        elif how == "half an answer":
            talk.send(HEADERS, END_HEADERS, second[0], STATUS_200)
            talk.send(DATA, 0, second[0], b"half")

    with serving(serve, context(authority, "127.0.0.1", http2=True)) as server:
        await ask(trusting, HttpRequest("POST", server.url, body=b"first", http2=True))
        [answer] = await ask(trusting, HttpRequest("POST", server.url, body=b"second", http2=True))
        assert isinstance(answer, NoAnswer)
        half = answer.fault == Fault.TRUNCATED_BODY_AFTER_2XX
        assert (
            half
            if how == "half an answer"
            else answer.fault in {Fault.RESET_BEFORE_STATUS, Fault.WRITE_RESET}
        )
        assert answer.sent
        assert server.received.count(b"second") == 1
