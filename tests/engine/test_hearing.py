"""Connections that reports come over: who is listened to, once for each, and what a provider's bug costs."""

from collections.abc import Sequence
from typing import Any

import pytest

from ringonce.app import Ringonce
from ringonce.engine.hearing import listen
from ringonce.model.exchange import SmsCenter, SmsDelivered
from ringonce.providers.smpp import Smpp
from ringonce.wire import Network

URL = "smpp://acme:secret@localhost:{}"


class Wire(Network):
    """Remembers who is listened to instead of calling them."""

    def __init__(self) -> None:
        super().__init__()
        self.ears: list[tuple[SmsCenter, Any]] = []

    def listen(self, center: SmsCenter, heard: Any) -> None:
        """Remember."""
        self.ears.append((center, heard))


def sms(port: int, **more: object) -> dict[str, object]:
    """A channel."""
    return {"provider": "smpp", "url": URL.format(port), "from": "Acme", **more}


def heard_by(channels: dict[str, Any]) -> tuple[Ringonce, Wire]:
    """A ringonce with these channels that listens."""
    wire = Wire()
    ring = Ringonce({"store": {"url": "sqlite://"}, "channels": channels}, wire=wire)
    listen(ring.engine)
    return ring, wire


def test_each_connection_is_kept_once() -> None:
    """Channels that share a center share its connections; who asks for no reports needs none."""
    _, wire = heard_by(
        {
            "one": sms(1),
            "two": sms(1, **{"from": "Other"}),
            "three": sms(2),
            "four": sms(3, reports=False),
            "box": {"provider": "sandbox"},
        }
    )
    assert [center.port for center, _ in wire.ears] == [1, 2]


async def test_another_provider_of_a_channel_is_heard() -> None:
    """Delivery reports of the provider that is only asked when the first refuses are taken like those of the first."""
    ring, wire = heard_by({"sms": {"providers": [sms(1), sms(2)]}})
    async with ring:
        [_, (center, ear)] = wire.ears
        assert center.port == 2
        await ear([SmsDelivered("id:1 stat:DELIVRD", 4)])
        assert ring.telemetry.value("ringonce_receipts_total", channel="sms~smpp2") == 1


async def test_what_a_provider_can_not_read_does_not_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in reading a report is logged and the report acknowledged: it would come again for ever."""

    def broken(*_: object) -> Sequence[object]:
        raise ValueError("bug")

    ring, wire = heard_by({"one": sms(1)})
    monkeypatch.setattr(Smpp, "heard", broken)
    async with ring:
        [(_, ear)] = wire.ears
        await ear([SmsDelivered("id:1 stat:DELIVRD", 4)])
