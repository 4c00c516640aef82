"""SMPP with a server that is not ours: smpp34, in a process of its own."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ringonce.model.exchange import SmsAnswer, SmsCenter, SmsDelivered, SmsRequest
from ringonce.wire.smpp import SmsWire
from tests.servers.ports import free_port
from tests.wire.conftest import DEADLINE, ask

SERVER = """
import asyncio, json, sys
import smpp34

def say(**what):
    print(json.dumps(what), flush=True)

async def main(port):
    server = smpp34.Server(host="127.0.0.1", port=port, system_id="foreign")
    await server.start()
    say(event="listening")
    sessions, count = {}, 0
    while True:
        event = await server.next()
        if isinstance(event, smpp34.Esme):
            sessions[event.session_id] = event
            say(event="bound", system_id=event.system_id)
        elif isinstance(event, smpp34.SubmitSmEvent):
            text = event.short_message
            say(event="submitted", source=event.source_addr, ton=event.source_addr_ton, to=event.destination_addr,
                text=text.hex(), coding=event.data_coding, esm_class=event.esm_class, asked=event.registered_delivery)
            if b"busy" in text:
                event.reject(smpp34.ESME_RTHROTTLED)
                continue
            count += 1
            event.accept(message_id=f"m{count}")
            if event.registered_delivery:
                told = await sessions[event.session_id].deliver_sm(
                    source_addr=event.destination_addr, destination_addr=event.source_addr, esm_class=4,
                    short_message=b"id:m%d sub:001 dlvrd:001 stat:DELIVRD err:000 text:" % count,
                    tlvs=[smpp34.Tlv(smpp34.TLV_RECEIPTED_MESSAGE_ID, b"m%d\\0" % count),
                          smpp34.Tlv(smpp34.TLV_MESSAGE_STATE, b"\\x02")],
                )
                say(event="told", status=told.command_status)
        elif isinstance(event, smpp34.Unbound):
            say(event="unbound")

asyncio.run(main(int(sys.argv[1])))
"""


class Foreign:
    """The server: its port, and what it says."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SERVER, str(self.port), stdout=asyncio.subprocess.PIPE
        )
        await self.says("listening")

    async def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
            self._process = None

    async def says(self, event: str) -> dict[str, Any]:
        """What it says of the next such event."""
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(DEADLINE):
            while True:
                line = await self._process.stdout.readline()
                assert line, "the server has ended"
                told: dict[str, Any] = json.loads(line)
                if told["event"] == event:
                    return told


@pytest.fixture
async def foreign() -> AsyncIterator[Foreign]:
    """A running server."""
    server = Foreign()
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


@pytest.fixture
async def wire() -> AsyncIterator[SmsWire]:
    """The wire."""
    made = SmsWire()
    yield made
    await made.close(0)


def sms(foreign: Foreign, *parts: bytes, **more: Any) -> SmsRequest:
    """A short message."""
    center = SmsCenter("127.0.0.1", foreign.port, system_id="acme", password="secret")
    return SmsRequest(center, (5, 0, "Acme"), (1, 1, "447700900123"), parts, **{"timeout": DEADLINE, **more})


async def test_bind_submit_report_unbind(foreign: Foreign, wire: SmsWire) -> None:
    """The whole life of a message is as both sides read the specification: handed in, taken, reported, parted."""
    told: asyncio.Queue[SmsDelivered] = asyncio.Queue()

    async def heard(delivered: Any) -> None:
        for one in delivered:
            told.put_nowait(one)

    request = sms(
        foreign, b"\x05\x00\x03\x07\x02\x01one", b"\x05\x00\x03\x07\x02\x02two", esm_class=0x40, report=True
    )
    wire.listen(request.center, heard)
    assert (await foreign.says("bound"))["system_id"] == "acme"
    assert await ask(wire, request) == [SmsAnswer(0, "submit_sm_resp", "m2", 2)]
    first, second = await foreign.says("submitted"), await foreign.says("submitted")
    assert bytes.fromhex(first["text"]) == b"\x05\x00\x03\x07\x02\x01one"
    assert (first["source"], first["ton"], first["to"]) == ("Acme", 5, "447700900123")
    assert (first["asked"], second["asked"], second["esm_class"]) == (0, 1, 0x40)
    async with asyncio.timeout(DEADLINE):
        report = await told.get()
    assert (report.receipted_id, report.state, report.esm_class) == ("m2", 2, 4)
    assert report.text.startswith("id:m2 ")
    assert (await foreign.says("told"))["status"] == 0
    await wire.close(1)
    await foreign.says("unbound")


async def test_throttled(foreign: Foreign, wire: SmsWire) -> None:
    """Its throttling is told as the status, and the message was handed in once."""
    assert await ask(wire, sms(foreign, b"busy")) == [SmsAnswer(0x58, "submit_sm_resp")]
    assert await ask(wire, sms(foreign, "ж".encode("utf-16-be"), data_coding=8)) == [
        SmsAnswer(0, "submit_sm_resp", "m1", 1)
    ]
    assert bytes.fromhex((await foreign.says("submitted"))["text"]) == b"busy"
    assert (await foreign.says("submitted"))["coding"] == 8


async def test_killed(foreign: Foreign, wire: SmsWire) -> None:
    """A server that is killed and comes back is bound again, and gets nothing twice."""
    assert await ask(wire, sms(foreign, b"one")) == [SmsAnswer(0, "submit_sm_resp", "m1", 1)]
    await foreign.stop()
    [answer] = await ask(wire, sms(foreign, b"two"))
    assert not isinstance(answer, SmsAnswer)
    await foreign.start()
    while not isinstance(answer, SmsAnswer):  # the next connection comes after a pause
        [answer] = await ask(wire, sms(foreign, b"three"))
    assert bytes.fromhex((await foreign.says("submitted"))["text"]) == b"three"
