"""The short message center's stand-in, asked by a client that is not ours: smpplib."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from smpplib.client import Client
from smpplib.exceptions import PDUError

from ringonce.vendors.script import plan
from ringonce.vendors.smpp import SmsCenter


@contextmanager
def bound(server: SmsCenter, password: str = "secret") -> Iterator[Client]:
    """A client that is bound."""
    client = Client("127.0.0.1", server.port, timeout=30, allow_unknown_opt_params=True)
    client.connect()
    try:
        client.bind_transceiver(system_id="acme", password=password)
        yield client
    finally:
        client.state = 0
        client.disconnect()


def submit(client: Client, text: bytes = b"hello", **more: Any) -> Any:
    """Hand a message in, and read one packet."""
    fields: dict[str, Any] = {"source_addr": "Acme", "destination_addr": "447700900123", **more}
    client.send_message(source_addr_ton=5, dest_addr_ton=1, dest_addr_npi=1, short_message=text, **fields)
    return client.read_pdu()


def test_a_message_is_taken_and_reported() -> None:
    """It answers with an id in hexadecimal, and reports in the words of appendix B with the id in decimal."""
    with SmsCenter("acme", "secret", report="DELIVRD", decimal=True) as server, bound(server) as client:
        response = submit(client, registered_delivery=1)
        assert (response.command, response.status, response.message_id) == ("submit_sm_resp", 0, b"A0")
        report = client.read_pdu()
        assert (report.command, report.esm_class, report.message_state) == ("deliver_sm", 4, 2)
        assert report.short_message.startswith(b"id:0000000160 sub:001 dlvrd:001 submit date:")
        assert b" stat:DELIVRD err:000 text:hello" in report.short_message
        assert (report.source_addr, report.destination_addr) == (b"447700900123", b"Acme")
        [taken] = server.taken
        assert (taken.text, taken.registered) == ("hello", 1)


def test_an_early_report() -> None:
    """A report may come before the response."""
    with SmsCenter("acme", "secret", report="UNDELIV", early=True) as server, bound(server) as client:
        assert submit(client, registered_delivery=1).command == "deliver_sm"
        assert client.read_pdu().command == "submit_sm_resp"


def test_reports_out_of_order() -> None:
    """Reports are told when and in the order in which a test wants them."""
    with SmsCenter("acme", "secret", bare=True) as server, bound(server) as client:
        submit(client, b"one")
        submit(client, b"two")
        for taken in reversed(server.taken):
            server.tell(taken, "EXPIRED", "042")
        texts = [client.read_pdu().short_message for _ in range(2)]
        assert [text[:5] for text in texts] == [b"id:A1", b"id:A0"]
        assert all(b"stat:EXPIRED err:042" in text for text in texts)


@pytest.mark.parametrize(("password", "plans"), [("wrong", ()), ("secret", ("14:stage=BIND",))])
def test_a_bind_is_refused(password: str, plans: tuple[str, ...]) -> None:
    """A wrong password, or what the plan says, is refused, and the connection ends."""
    with (
        SmsCenter("acme", "secret", plan=plan(plans)) as server,
        pytest.raises(PDUError),
        bound(server, password),
    ):
        pass
    assert server.binds == 0


def test_statuses() -> None:
    """A planned status, and a number that does not exist; neither tells anybody."""
    with (
        SmsCenter("acme", "secret", plan=plan(["88:first=1"]), unknown=["1"]) as server,
        bound(server) as client,
    ):
        assert submit(client).status == 88
        assert submit(client, destination_addr="1").status == 0x0B
        assert submit(client).status == 0
        assert [entry.verdict for entry in server.ledger.entries] == ["88", "11", "0"]
        assert [entry.accepted for entry in server.ledger.entries] == [False, False, True]


def test_unbind() -> None:
    """It asks all sessions to end, and ends one that asks."""
    with SmsCenter("acme", "secret") as server, bound(server) as client:
        server.unbind()
        assert client.read_pdu().command == "unbind"
        client.unbind()
