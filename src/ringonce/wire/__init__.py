"""The wire: carries requests and tells what came of them. Nothing here knows a vendor or decides anything."""

from ringonce.wire.network import Network, NetworkOptions

__all__ = ["Network", "NetworkOptions"]
