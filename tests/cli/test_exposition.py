"""What a worker without the API answers over HTTP, and which event loop it runs on."""

import asyncio
import contextlib
import http.client
import sys

import pytest
import uvloop

from ringonce.cli.exposition import telling
from ringonce.cli.loops import fast_loop
from ringonce.cli.session import run_async
from ringonce.config import from_mapping
from ringonce.errors import ConfigError
from ringonce.telemetry import Telemetry
from tests.servers.ports import free_port


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    """Status and body."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


async def test_it_tells_metrics_and_health() -> None:
    """/metrics is the process's own, /healthz that it lives, /readyz whether it can work; nothing else is answered."""
    telemetry, able = Telemetry(), [True, False]
    telemetry.gauge("ringonce_listening", 1)

    async def ready() -> bool:
        return able.pop(0)

    port = free_port()
    async with telling(("127.0.0.1", port), telemetry, ready):
        asked = [
            await asyncio.to_thread(ask, port, path, method)
            for path, method in (
                ("/metrics", "GET"),
                ("/healthz", "GET"),
                ("/readyz", "GET"),
                ("/readyz", "GET"),
                ("/v1/notifications", "GET"),
                ("/metrics", "POST"),
            )
        ]
    assert [status for status, _ in asked] == [200, 200, 200, 503, 404, 405]
    assert asked[0][1] == telemetry.exposition()


async def test_who_speaks_no_http_is_left_alone() -> None:
    """Anything but a request, and whoever hangs up, is dropped without a word in the log."""
    port = free_port()
    async with telling(("127.0.0.1", port), Telemetry(), lambda: asyncio.sleep(0, result=True)):
        for words in (b"\r\n\r\n", b"", b"x" * 20_000):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(words)
            writer.write_eof()
            try:
                assert await reader.read() == b""
            except ConnectionError:
                assert words
            writer.close()


async def test_a_taken_port_is_an_error_of_the_configuration() -> None:
    """Two processes on one port: the second one says so, with the key."""
    where = ("127.0.0.1", free_port())
    ready = lambda: asyncio.sleep(0, result=True)  # noqa: E731
    async with telling(where, Telemetry(), ready):
        with pytest.raises(ConfigError) as refused:
            async with telling(where, Telemetry(), ready):
                pass
    assert refused.value.field == "worker.metrics"


def test_uvloop_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` takes it, `false` does not; without it `auto` does without, and `true` is refused with the mend."""

    async def running() -> bool:
        return isinstance(asyncio.get_running_loop(), uvloop.Loop)

    configs = {
        name: from_mapping({"worker": {"uvloop": name}} if name is not None else {})
        for name in (None, True, False)
    }
    assert [run_async(running(), loop=fast_loop(configs[name])) for name in (None, True, False)] == [
        True,
        True,
        False,
    ]
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert fast_loop(configs[None]) is None
    with pytest.raises(ConfigError, match="ringonce\\[fast\\]"):
        fast_loop(configs[True])


@pytest.mark.parametrize("bad", ["9464", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:70000", "localhost:x", 9464])
def test_where_to_tell_is_host_and_port(bad: object) -> None:
    """Both are needed; an IPv6 address stands in brackets."""
    assert from_mapping({"worker": {"metrics": "[::1]:9464"}}).worker.metrics == ("::1", 9464)
    with pytest.raises(ConfigError) as refused:
        from_mapping({"worker": {"metrics": bad}})
    assert refused.value.field == "worker.metrics"


@pytest.mark.parametrize("bad", ["maybe", 1, []])
def test_a_switch_is_auto_or_a_flag(bad: object) -> None:
    """`auto`, true and false; anything else is refused with the mend."""
    for given, kept in (("auto", "auto"), (True, "true"), (False, "false")):
        assert from_mapping({"store": {"listen": given}}).store.listen == kept
    with pytest.raises(ConfigError, match="auto") as refused:
        from_mapping({"store": {"listen": bad}})
    assert refused.value.field == "store.listen"
