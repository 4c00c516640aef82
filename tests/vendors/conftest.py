"""The real clients that the stand-ins are tried with."""

import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import pytest

from ringonce.model.exchange import Answer, HttpAnswer, HttpRequest, MailRequest, MailServer
from ringonce.wire import Network
from tests.wire.conftest import ask

Ask: TypeAlias = Callable[..., Awaitable[list[Answer]]]
Send: TypeAlias = Callable[..., Awaitable[Answer]]


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    """The wire with its defaults."""
    made = Network()
    await made.start()
    yield made
    await made.close(0)


@pytest.fixture
def call(network: Network) -> Ask:
    """Send requests and wait for their answers."""

    async def send(*requests: HttpRequest | MailRequest) -> list[Answer]:
        return await ask(network, *requests)

    return send


@contextmanager
def program(name: str, *arguments: str) -> Iterator[int]:
    """A stand-in as a process of its own: its port. It ends well at SIGTERM."""
    command = [sys.executable, "-m", f"ringonce.vendors.{name}", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()
        assert process.wait(60) == 0


def letter(
    port: int, reference: str = "r1", recipient: str = "to@example.com", final_timeout: float = 30.0
) -> MailRequest:
    """A small mail with a Message-ID."""
    message = f"Message-ID: <{reference}>\r\nSubject: hello\r\n\r\n.text\r\n".encode()
    server = MailServer("127.0.0.1", port, tls="none")
    return MailRequest(
        server,
        "from@example.com",
        recipient,
        message,
        timeout=30.0,
        connect_timeout=30.0,
        final_timeout=final_timeout,
    )


def status(answer: Answer) -> int:
    """The status of an HTTP answer."""
    assert isinstance(answer, HttpAnswer), answer
    return answer.status
