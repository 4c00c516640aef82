"""Which addresses an endpoint that a user named may have: public ones, and those that are allowed.

Sources: the IANA special-purpose address registries for IPv4 and IPv6 (RFC 6890), RFC 6598 (shared address
space), RFC 6052 (NAT64), RFC 3056 (6to4), RFC 4380 (Teredo).
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

from ringonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

# Written out instead of ``is_private``: what that means changed between patch releases of Python.
_CLOSED_4 = tuple(
    IPv4Network(net)
    for net in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared with the carrier's translator
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local; cloud metadata services live here
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays, deprecated
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast included
    )
)
_GLOBAL_6 = IPv6Network("2000::/3")  # the only unicast range that IANA has handed out
_CLOSED_6 = tuple(
    IPv6Network(net)
    for net in (
        "2001::/23",  # protocol assignments, Teredo and ORCHID among them
        "2001:db8::/32",
        "3fff::/20",  # documentation
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_6TO4 = IPv6Network("2002::/16")


class Guard:
    """Says whether a resolved address may be connected to.

    Args:
        allowed: networks that are reachable although they are not public (``allow_private_networks``).

    Raises:
        ConfigError: one of them is not a network.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        nets: list[IPv4Network | IPv6Network] = []
        for net in allowed:
            try:
                nets.append(ip_network(net))
            except ValueError as error:
                raise ConfigError(
                    f"{net!r} is not a network: {error}",
                    field="security.allow_private_networks",
                    mend='write it like "10.0.0.0/8"',
                ) from None
        self._allowed = tuple(nets)
        self.permits = lru_cache(maxsize=4096)(self._permits)

    def _permits(self, address: str) -> bool:
        """True for a public or an allowed address. ``address`` is numeric, as the resolver gave it."""
        try:
            ip = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        inner = _embedded(ip)
        return self._named(ip) or (inner is not None and self._named(inner)) or _public(inner or ip)

    def _named(self, ip: IPv4Address | IPv6Address) -> bool:
        return any(ip in net for net in self._allowed)


def _embedded(ip: IPv4Address | IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to: mapped, NAT64, 6to4."""
    if isinstance(ip, IPv4Address):
        return None
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFF_FFFF)
    if ip in _6TO4:
        return ip.sixtofour
    return None


def _public(ip: IPv4Address | IPv6Address) -> bool:
    if isinstance(ip, IPv4Address):
        return not any(ip in net for net in _CLOSED_4)
    return ip in _GLOBAL_6 and not any(ip in net for net in _CLOSED_6)
