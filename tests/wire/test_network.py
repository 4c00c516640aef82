"""The network: each kind of request is carried by its part; the sandbox answers without leaving the process."""

import asyncio

import pytest

from ringonce.errors import ConfigError
from ringonce.model.exchange import (
    Answer,
    Fault,
    HttpRequest,
    MailRequest,
    MailServer,
    NoAnswer,
    ScriptedAnswer,
    ScriptedRequest,
)
from ringonce.wire import Network, NetworkOptions
from tests.servers.ports import closed_port
from tests.wire.conftest import ask


async def test_a_mixed_batch_is_answered_by_its_parts() -> None:
    """HTTP, mail and scripted requests of one batch each get their kind of answer."""
    network = Network()
    await network.start()
    port = closed_port()
    http, mail, script = await ask(
        network,
        HttpRequest("POST", f"http://127.0.0.1:{port}/", body=b"x"),
        MailRequest(MailServer("127.0.0.1", port), "a@b", "c@d", b"x"),
        ScriptedRequest("r1", "ok"),
    )
    assert isinstance(http, NoAnswer)
    assert (http.fault, http.stage) == (Fault.CONNECT_REFUSED, None)
    assert isinstance(mail, NoAnswer)
    assert (mail.fault, mail.stage) == (Fault.CONNECT_REFUSED, "CONNECT")
    assert script == ScriptedAnswer("ok", "r1")
    await network.close(1)


def test_options_are_checked() -> None:
    """A wrong network is an error at once."""
    with pytest.raises(ConfigError):
        Network(NetworkOptions(allow_private_networks=("everything",)))


async def test_scripted_answers_come_after_their_delay() -> None:
    """The shorter delay first, those of one delay together."""
    network = Network()
    await network.start()
    calls: list[list[object]] = []
    done = asyncio.Event()

    def deliver(pairs: object) -> None:
        calls.append([token for token, _ in pairs])  # type: ignore[attr-defined]
        if len(calls) == 2:
            done.set()

    network.submit(
        [
            (1, ScriptedRequest("a", "ok", 0.05)),
            (2, ScriptedRequest("b", "ok")),
            (3, ScriptedRequest("c", "ok")),
        ],
        deliver,
    )
    await asyncio.wait_for(done.wait(), 30)
    assert calls == [[2, 3], [1]]
    await network.close(1)


@pytest.mark.parametrize("grace", [0.0, 10.0])
async def test_closing_with_scripted_requests_under_way(grace: float) -> None:
    """Within the grace period they are answered; after it they may have rung; later ones have not started."""
    network = Network()
    await network.start()
    asking = asyncio.ensure_future(ask(network, ScriptedRequest("a", "ok", 0.1 if grace else 60.0)))
    await asyncio.sleep(0)
    await network.close(grace)
    [answer] = await asking
    expected: Answer = (
        ScriptedAnswer("ok", "a")
        if grace
        else NoAnswer(Fault.READ_TIMEOUT, sent=True, detail="given up at shutdown")
    )
    assert answer == expected
    [late] = await ask(network, ScriptedRequest("b", "ok"))
    assert isinstance(late, NoAnswer)
    assert (late.fault, late.sent) == (Fault.NOT_STARTED, False)
