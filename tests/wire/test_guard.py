"""Endpoints that users named: no private address is ever connected to, however it is spelled."""

import pytest

from ringonce.errors import ConfigError
from ringonce.model.exchange import Fault, HttpAnswer, HttpRequest, NoAnswer
from ringonce.wire.guard import Guard
from ringonce.wire.http import HttpWire
from tests.servers.sockets import Peer, serving
from tests.wire.conftest import ask

PRIVATE = [
    "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1",
    "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.7",
    "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1",
    "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "3fff::1", "5f00::1",
    "fc00::1", "fd12::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "not an address", "",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1", "223.255.255.255",
    "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1", "2606:4700:4700::1111", "2a00:1450:4001::1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_refused(address: str) -> None:
    """Private, loopback, link-local, multicast, reserved, and IPv6 spellings that lead there are refused."""
    assert not Guard().permits(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_permitted(address: str) -> None:
    """What IANA has handed out as unicast is permitted."""
    assert Guard().permits(address)


def test_allowed_networks_are_permitted_and_nothing_beside_them() -> None:
    """``allow_private_networks`` opens exactly those networks, in the IPv4-mapped spelling too."""
    guard = Guard(["10.0.0.0/8", "::1/128"])
    assert [guard.permits(ip) for ip in ("10.9.9.9", "::ffff:10.9.9.9", "::1", "127.0.0.1", "11.0.0.1")] == [
        True, True, True, False, True,
    ]  # fmt: skip


def test_a_network_that_is_none_is_an_error_of_the_configuration() -> None:
    """The error names the field and the mend."""
    with pytest.raises(ConfigError, match="allow_private_networks") as error:
        Guard(["10.0.0.1/8"])
    assert error.value.mend


def polite(peer: Peer) -> None:
    """Answer everything with 200."""
    while peer.request():
        peer.ok()


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "0x7f000001", "2130706433", "017700000001", "0", "0.0.0.0", "localhost", "LOCALHOST.",
        "hooks.localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "[64:ff9b::7f00:1]",
        "user:password@127.0.0.1",
    ],
)  # fmt: skip
async def test_no_spelling_of_loopback_gets_through(http: HttpWire, host: str) -> None:
    """A guarded request to any spelling of loopback is refused before a connection is made."""
    with serving(polite) as server:
        [answer] = await ask(
            http, HttpRequest("POST", f"http://{host}:{server.port}/", body=b"x", guarded=True)
        )
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.ADDRESS_REFUSED, False)
        assert server.connections == 0


async def test_unguarded_requests_may_go_anywhere(http: HttpWire) -> None:
    """The guard is for endpoints that users name; the operator's own may be private."""
    with serving(polite) as server:
        [answer] = await ask(http, HttpRequest("POST", server.url, body=b"x"))
        assert isinstance(answer, HttpAnswer)


async def test_a_pooled_connection_is_no_way_around_the_guard(http: HttpWire) -> None:
    """A connection that an unguarded request opened is not used for a guarded one to the same host."""
    with serving(polite) as server:
        [first] = await ask(http, HttpRequest("POST", server.url, body=b"open"))
        [second] = await ask(http, HttpRequest("POST", server.url, body=b"guarded", guarded=True))
        [third] = await ask(http, HttpRequest("POST", server.url, body=b"open"))
        assert isinstance(first, HttpAnswer)
        assert isinstance(second, NoAnswer)
        assert (second.fault, second.sent) == (Fault.ADDRESS_REFUSED, False)
        assert isinstance(third, HttpAnswer)
        assert not any(request.endswith(b"guarded") for request in server.received)


async def test_allowed_networks_open_the_wire() -> None:
    """A guarded request reaches an allowed network, on a new connection and on a pooled one."""
    wire = HttpWire(allow_private_networks=["127.0.0.0/8"])
    await wire.start()
    with serving(polite) as server:
        for _ in range(2):
            [answer] = await ask(wire, HttpRequest("POST", server.url, body=b"x", guarded=True))
            assert isinstance(answer, HttpAnswer)
        assert server.connections == 1
    await wire.close(0)


async def test_a_redirect_to_a_private_address_goes_nowhere() -> None:
    """An allowed endpoint can not send us to a forbidden one."""
    wire = HttpWire(allow_private_networks=["127.0.0.1/32"])
    await wire.start()
    with serving(polite) as inside:

        def serve(peer: Peer) -> None:
            peer.request()
            where = b"http://127.0.0.2:%d/" % inside.port
            peer.send(b"HTTP/1.1 302 Go\r\nLocation: " + where + b"\r\nContent-Length: 0\r\n\r\n")

        with serving(serve) as server:
            [answer] = await ask(wire, HttpRequest("POST", server.url, body=b"x", guarded=True))
            assert isinstance(answer, HttpAnswer)
            assert answer.status == 302
        assert inside.connections == 0
    await wire.close(0)
