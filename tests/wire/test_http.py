"""HTTP at the level of sockets: what the server received, and what the wire said of it."""

import asyncio
import threading
import time

import pytest

from ringonce.model.exchange import Fault, HttpAnswer, HttpRequest, NoAnswer
from ringonce.wire import http as http_module
from ringonce.wire.http import HttpWire, _Pump
from tests.servers.ports import closed_port
from tests.servers.sockets import Peer, black_hole, serving
from tests.wire.conftest import ask, ask_briefly


def post(url: str, body: bytes = b'{"n":1}', **more: object) -> HttpRequest:
    """A small JSON call."""
    fields: dict[str, object] = {
        "headers": (("Content-Type", "application/json"),),
        "timeout": 30.0,
        "connect_timeout": 30.0,
        **more,
    }
    return HttpRequest("POST", url, body=body, **fields)  # type: ignore[arg-type]


def polite(peer: Peer) -> None:
    """Answer everything with 200."""
    while peer.request():
        peer.ok()


async def test_a_request_arrives_as_it_was_given(http: HttpWire) -> None:
    """Method, path, headers and body reach the server byte for byte, and nothing is announced in their place."""
    with serving(polite) as server:
        request = post(server.url + "/a?b=c", b"\x00\xff body", headers=(("X-One", "1"), ("X-Empty", "")))
        [answer] = await ask(http, request)
        assert answer == HttpAnswer(200, {"content-length": "2"}, b"ok")
        head, _, body = server.received[0].partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        assert head.startswith(b"POST /a?b=c HTTP/1.1\r\n")
        assert body == b"\x00\xff body"
        assert {b"x-one: 1", b"x-empty:", b"content-length: 7"} <= set(lines)
        assert not any(
            line.startswith((b"expect:", b"content-type:", b"transfer-encoding:")) for line in lines
        )


async def test_a_large_body_is_not_announced(http: HttpWire) -> None:
    """No ``Expect: 100-continue``: many servers do not know it, and it costs a round trip."""
    with serving(polite) as server:
        await ask(http, post(server.url, b"x" * 3_000_000))
        assert b"\r\nexpect:" not in server.received[0][:1000].lower()


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "POST"])
@pytest.mark.parametrize("body", [b"", b"x"])
async def test_every_method_with_and_without_a_body(http: HttpWire, method: str, body: bytes) -> None:
    """The method that was asked for is the one that is sent, also on a handle that carried another before."""
    if method == "HEAD" and body:
        return

    def serve(peer: Peer) -> None:
        while request := peer.request():
            peer.ok(b"" if request.startswith(b"HEAD") else b"ok")

    with serving(serve) as server:
        await ask(http, post(server.url, b"before"))
        [answer] = await ask(http, HttpRequest(method, server.url, body=body))
        assert isinstance(answer, HttpAnswer)
        assert server.received[1].startswith(method.encode() + b" / HTTP/1.1\r\n")
        assert server.received[1].endswith(b"\r\n\r\n" + body)
        await ask(http, post(server.url, b"after"))
        assert server.received[2].startswith(b"POST / HTTP/1.1\r\n")
        assert server.received[2].endswith(b"\r\n\r\nafter")


async def test_a_connection_is_used_again(http: HttpWire) -> None:
    """Two requests one after the other share a connection."""
    with serving(polite) as server:
        await ask(http, post(server.url))
        await ask(http, post(server.url))
        assert server.connections == 1


@pytest.mark.parametrize("body", [b"x", b""])
@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("reset", [False, True])
async def test_a_request_read_on_a_reused_connection_is_never_repeated(
    http: HttpWire, method: str, body: bytes, reset: bool
) -> None:
    """When the server reads a request on a reused connection and hangs up, it got it once, and we do not know."""

    def serve(peer: Peer) -> None:
        if peer.request():
            peer.ok()
            if peer.request() and reset:
                peer.reset()

    with serving(serve) as server:
        await ask(http, post(server.url, b"first"))
        [answer] = await ask(http, HttpRequest(method, server.url + "/second", body=body))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.RESET_BEFORE_STATUS, True)
        # A further request shows that nothing is still under way.
        await ask(http, post(server.url, b"third"))
        seconds = [request for request in server.received if b"/second" in request]
        assert len(seconds) == 1
        assert server.connections > 1


async def test_a_connection_that_the_server_closed_while_idle_costs_nothing(http: HttpWire) -> None:
    """After the server closed an idle connection the next request goes over a new one and arrives once."""
    closed = threading.Event()

    def serve(peer: Peer) -> None:
        assert peer.request()
        peer.ok()
        if peer.number > 1:
            peer.until_closed()
        peer.sock.close()
        closed.set()

    with serving(serve) as server:
        await ask(http, post(server.url, b"first"))
        await asyncio.to_thread(closed.wait, 30)
        [answer] = await ask(http, post(server.url, b"second"))
        assert isinstance(answer, HttpAnswer)
        assert [request.rpartition(b"\r\n\r\n")[2] for request in server.received] == [b"first", b"second"]


@pytest.mark.parametrize("reset", [False, True])
async def test_many_connections_closed_while_idle_cost_nothing(http: HttpWire, reset: bool) -> None:
    """The look at a connection before its use finds the right one among many."""
    gone = threading.Semaphore(0)

    def serve(peer: Peer) -> None:
        while request := peer.request():
            peer.ok()
            if request.endswith(b"first") and peer.number % 2:
                peer.reset() if reset else peer.sock.close()
                gone.release()

    with serving(serve) as server:
        await ask(http, *(post(server.url, b"first") for _ in range(20)))
        for _ in range((server.connections + 1) // 2):
            assert await asyncio.to_thread(gone.acquire, timeout=30)
        answers = await ask(http, *(post(server.url, b"%d" % number) for number in range(40)))
        assert all(isinstance(answer, HttpAnswer) for answer in answers)
        bodies = [request.rpartition(b"\r\n\r\n")[2] for request in server.received]
        assert sorted(body for body in bodies if body != b"first") == sorted(b"%d" % n for n in range(40))


async def test_a_reset_in_the_middle_of_the_body_is_unknown(http: HttpWire) -> None:
    """A request of which a part was written counts as maybe received."""

    def serve(peer: Peer) -> None:
        peer.sock.recv(10)
        peer.reset()

    with serving(serve) as server:
        [answer] = await ask(http, post(server.url, b"x" * 20_000_000))
        assert isinstance(answer, NoAnswer)
        assert answer.fault in {Fault.WRITE_RESET, Fault.RESET_BEFORE_STATUS}
        assert answer.sent


async def test_closed_before_status_is_unknown(http: HttpWire) -> None:
    """A server that takes the request and hangs up may have done the work."""

    def serve(peer: Peer) -> None:
        peer.request()

    with serving(serve) as server:
        [answer] = await ask(http, post(server.url))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.RESET_BEFORE_STATUS, True)


@pytest.mark.parametrize(
    "answered", [b"", b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 100 Continue\r\n\r\n"]
)
async def test_no_final_status_in_time_is_unknown(http: HttpWire, answered: bytes) -> None:
    """When the total time is over before the head of a final answer is complete, we do not know."""

    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(answered)
        peer.until_closed()

    with serving(serve) as server:
        answer = await ask_briefly(
            http, lambda seconds: post(server.url, timeout=seconds), lambda: bool(server.received)
        )
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.READ_TIMEOUT, True)


@pytest.mark.parametrize("silent", [False, True])
async def test_a_success_whose_body_breaks_off_is_unknown(http: HttpWire, silent: bool) -> None:
    """2xx with half a body is no success: what the body had to say is missing."""

    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nhalf")
        if silent:
            peer.until_closed()

    with serving(serve) as server:
        [answer] = await ask(http, post(server.url, timeout=6.0 if silent else 30.0))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.TRUNCATED_BODY_AFTER_2XX, True)


async def test_a_refusal_whose_body_breaks_off_is_a_refusal(http: HttpWire) -> None:
    """A status outside 2xx decides even when its body is not complete."""

    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 503 No\r\nContent-Length: 100\r\nRetry-After: 7\r\n\r\nhalf")

    with serving(serve) as server:
        [answer] = await ask(http, post(server.url))
        assert answer == HttpAnswer(
            503, {"content-length": "100", "retry-after": "7"}, b"half", truncated=True
        )


async def test_a_refusal_before_the_body_is_read_is_an_answer(http: HttpWire) -> None:
    """A server may say no without reading everything; its status is the answer."""

    def serve(peer: Peer) -> None:
        peer.until(b"\r\n\r\n")
        peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        peer.until_closed()

    with serving(serve) as server:
        [answer] = await ask(http, post(server.url, b"x" * 20_000_000))
        assert isinstance(answer, HttpAnswer)
        assert answer.status == 413


async def test_an_informational_answer_is_never_the_last(http: HttpWire) -> None:
    """103 and 102 with headers of their own are skipped; the final answer's status and headers count."""

    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n")
        peer.send(b"HTTP/1.1 202 Accepted\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n")

    with serving(serve) as server:
        [answer] = await ask(http, post(server.url))
        assert answer == HttpAnswer(202, {"x-a": "1, 2", "content-length": "0"}, b"")


async def test_only_informational_answers_are_no_answer(http: HttpWire) -> None:
    """A connection that ends after 103 has not answered."""

    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")

    with serving(serve) as server:
        [answer] = await ask(http, post(server.url))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.RESET_BEFORE_STATUS, True)


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01garbage\r\n\r\n", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 abc\r\n\r\n"]
)
async def test_what_is_not_http_is_unknown(http: HttpWire, garbage: bytes) -> None:
    """The request was written, and nothing that came back says what became of it."""

    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(garbage)

    with serving(serve) as server:
        [answer] = await ask(http, post(server.url))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.RESET_BEFORE_STATUS, True)


async def test_a_huge_answer_is_cut(http: HttpWire) -> None:
    """No more than ``max_answer`` bytes of a body are kept or read on; the answer says that it was cut."""
    written = 0

    def serve(peer: Peer) -> None:
        nonlocal written
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(1000):
            peer.send(b"10000\r\n" + b"y" * 65536 + b"\r\n")
            written += 65536

    with serving(serve) as server:
        [answer] = await ask(http, post(server.url, max_answer=1000))
        assert answer == HttpAnswer(200, {"transfer-encoding": "chunked"}, b"y" * 1000, truncated=True)
    assert written < 1000 * 65536


async def test_an_answer_of_exactly_the_limit_is_whole(http: HttpWire) -> None:
    """``max_answer`` bytes are still allowed."""

    def serve(peer: Peer) -> None:
        peer.request()
        peer.ok(b"z" * 1000)

    with serving(serve) as server:
        [answer] = await ask(http, post(server.url, max_answer=1000))
        assert answer == HttpAnswer(200, {"content-length": "1000"}, b"z" * 1000)


async def test_a_redirect_is_not_followed(http: HttpWire) -> None:
    """A redirect is an answer like any other: the place it names is never called."""

    def serve(peer: Peer) -> None:
        while request := peer.request():
            where = request.split(b" ")[1]
            assert where == b"/from"
            peer.send(b"HTTP/1.1 307 Go\r\nLocation: /to\r\nContent-Length: 0\r\n\r\n")

    with serving(serve) as server:
        [answer] = await ask(http, post(server.url + "/from"))
        assert answer == HttpAnswer(307, {"location": "/to", "content-length": "0"})
        assert len(server.received) == 1


async def test_a_refused_connection_is_not_sent(http: HttpWire) -> None:
    """Nobody listens: certainly nothing was sent."""
    [answer] = await ask(http, post(f"http://127.0.0.1:{closed_port()}/"))
    assert isinstance(answer, NoAnswer)
    assert (answer.fault, answer.sent) == (Fault.CONNECT_REFUSED, False)


async def test_the_counters_of_an_earlier_exchange_do_not_count(http: HttpWire) -> None:
    """A handle that has sent something before still says "not sent" of a request that could not be sent."""
    with serving(polite) as server:
        await ask(http, post(server.url))
        [answer] = await ask(http, post(f"http://127.0.0.1:{closed_port()}/"))
        assert isinstance(answer, NoAnswer)
        assert not answer.sent


async def test_a_connection_that_is_never_accepted_times_out(http: HttpWire) -> None:
    """The connect timeout is its own, shorter than the whole; nothing was sent."""
    with black_hole() as port:
        [answer] = await ask(http, post(f"http://127.0.0.1:{port}/", timeout=600.0, connect_timeout=0.3))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.CONNECT_TIMEOUT, False)


async def test_a_name_that_does_not_exist_is_not_sent(http: HttpWire) -> None:
    """RFC 6761 section 6.4: names under .invalid never resolve."""
    [answer] = await ask(http, post("http://nobody.invalid/"))
    assert isinstance(answer, NoAnswer)
    assert answer.fault in {Fault.DNS_NXDOMAIN, Fault.DNS_TIMEOUT}
    assert not answer.sent


@pytest.mark.parametrize(
    "request_",
    [
        HttpRequest("POST", "ftp://127.0.0.1/x", body=b"x"),
        HttpRequest("GET", "file:///etc/passwd"),
        HttpRequest("GET", "http://a b/"),
        HttpRequest("GET", ""),
        HttpRequest("GET", "http://127.0.0.1/", headers=(("X-A", "1\r\nX-Evil: 1"),)),
        HttpRequest("GET", "http://127.0.0.1/", headers=(("X-A\nX", "1"),)),
        HttpRequest("GET /evil HTTP/1.1\r\nX", "http://127.0.0.1/"),
        HttpRequest("GET", "http://127.0.0.1/\0"),
    ],
    ids=["ftp", "file", "space", "empty", "header value", "header name", "method", "null"],
)
async def test_what_can_not_be_carried_is_not_started(http: HttpWire, request_: HttpRequest) -> None:
    """A malformed request is answered, not sent, and its neighbours are not touched."""
    with serving(polite) as server:
        bad, good = await ask(http, request_, post(server.url))
        assert isinstance(bad, NoAnswer)
        assert (bad.fault, bad.sent) == (Fault.NOT_STARTED, False)
        assert isinstance(good, HttpAnswer)


async def test_details_hold_no_secret(http: HttpWire) -> None:
    """A URL may hold a token: it never shows up in what is told about a fault."""
    [answer] = await ask(http, post(f"http://user:s3cret@127.0.0.1:{closed_port()}/bot12:s3cret/send"))
    assert isinstance(answer, NoAnswer)
    assert "s3cret" not in answer.detail


async def test_environment_proxies_are_ignored(http: HttpWire, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the environment sees no message and can not get around the guard."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    with serving(polite) as server:
        [answer] = await ask(http, post(server.url))
        assert isinstance(answer, HttpAnswer)


async def test_a_thousand_requests_at_once(http: HttpWire) -> None:
    """Each of 1,000 requests in one batch is received once and answered once, with its own answer, by no task."""

    def serve(peer: Peer) -> None:
        while request := peer.request():
            peer.ok(request.rpartition(b"\r\n\r\n")[2])

    with serving(serve) as server:
        before = asyncio.all_tasks()
        answers = await ask(http, *(post(server.url, b"%d" % number, timeout=60.0) for number in range(1000)))
        assert [answer.body for answer in answers if isinstance(answer, HttpAnswer)] == [
            b"%d" % number for number in range(1000)
        ]
        assert len(server.received) == len(set(server.received)) == 1000
        assert asyncio.all_tasks() == before


async def test_answers_come_in_batches_on_the_loop(http: HttpWire) -> None:
    """``deliver`` is called in the thread of the event loop."""
    threads: set[threading.Thread] = set()
    done = asyncio.Event()

    def deliver(pairs: object) -> None:
        threads.add(threading.current_thread())
        done.set()

    http.submit([("t", post(f"http://127.0.0.1:{closed_port()}/"))], deliver)
    await asyncio.wait_for(done.wait(), 30)
    assert threads == {threading.current_thread()}


async def test_a_receiver_that_fails_does_not_swallow_the_answers_of_another(http: HttpWire) -> None:
    """An exception in one ``deliver`` is reported to the loop, and the next one still gets its answers."""
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))

    def broken(pairs: object) -> None:
        raise ZeroDivisionError

    url = f"http://127.0.0.1:{closed_port()}/"
    http.submit([("bad", post(url))], broken)
    await ask(http, post(url))
    await ask(http, post(url))
    assert [type(error) for error in reported] == [ZeroDivisionError]


async def test_an_answer_may_lead_to_further_requests(http: HttpWire) -> None:
    """``deliver`` may submit; the answers of that come in a later call, never from inside of ``submit``."""
    answered: list[object] = []
    inside = False
    done = asyncio.Event()

    with serving(polite) as server:

        def deliver(pairs: object) -> None:
            nonlocal inside
            assert not inside
            for token, answer in pairs:  # type: ignore[attr-defined]
                answered.append(token)
                assert isinstance(answer, HttpAnswer) is (token != "bad")
                inside = True
                if token == "first":
                    http.submit([("bad", post("ftp://x/")), ("second", post(server.url))], deliver)
                inside = False
            if len(answered) == 3:
                done.set()

        http.submit([("first", post(server.url))], deliver)
        await asyncio.wait_for(done.wait(), 30)
    assert sorted(map(str, answered)) == ["bad", "first", "second"]


async def test_a_handle_carries_nothing_of_the_last_request(http: HttpWire) -> None:
    """URL, method, headers and body are those of the request, whatever the one before it on the handle was."""
    with serving(polite) as server:
        requests = [
            post(server.url + "/a", b"one", headers=(("X-A", "1"), ("Content-Type", "text/plain"))),
            post(server.url + "/a", b"two", headers=(("X-A", "1"), ("Content-Type", "text/plain"))),
            post(server.url + "/b", b"", headers=()),
            post(server.url + "/b", b"three", headers=(("X-B", "2"),)),
            HttpRequest("PUT", server.url + "/b", body=b"three!"),
            HttpRequest("DELETE", server.url + "/b"),
            HttpRequest("GET", server.url + "/b", headers=(("X-A", "3"),)),
            post(server.url + "/b", b"three", headers=(("X-B", "2"),)),
        ]
        for request in requests:
            [answer] = await ask(http, request)
            assert isinstance(answer, HttpAnswer)
        assert server.connections == 1
        for request, got in zip(requests, server.received, strict=True):
            head, _, body = got.partition(b"\r\n\r\n")
            first, *lines = head.lower().split(b"\r\n")
            path = request.url.removeprefix(server.url)
            assert first == f"{request.method} {path} HTTP/1.1".lower().encode()
            assert body == request.body
            ours = {line for line in lines if line.startswith((b"x-", b"content-type:"))}
            assert ours == {f"{name}: {value}".lower().encode() for name, value in request.headers}


async def test_a_turn_that_takes_long_goes_on_in_the_next(
    http: HttpWire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little is done at a time, all of it is done, and the loop gets its turns in between."""
    monkeypatch.setattr(http_module, "_LONGEST_TURN", 0.0)
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1
        asyncio.get_running_loop().call_soon(tick)

    with serving(polite) as server:
        tick()
        answers = await ask(http, *(post(server.url) for _ in range(100)))
        assert all(isinstance(answer, HttpAnswer) for answer in answers)
        assert ticks > 100


async def test_an_answer_in_time_counts_although_the_loop_was_blocked(http: HttpWire) -> None:
    """The loop stands still for longer than the timeout: what was answered is, what was not is unknown."""
    received = threading.Semaphore(0)
    answered = threading.Semaphore(0)
    go = threading.Event()

    def serve(peer: Peer) -> None:
        while request := peer.request():
            received.release()
            go.wait(30)
            if request.endswith(b"never"):
                peer.until_closed()
                return
            peer.ok()
            answered.release()

    with serving(serve) as server:
        bodies = (b"one", b"two", b"never")
        asking = asyncio.ensure_future(ask(http, *(post(server.url, body, timeout=6.0) for body in bodies)))
        for _ in bodies:
            assert await asyncio.to_thread(received.acquire, timeout=30)
        go.set()
        assert answered.acquire(timeout=30)
        assert answered.acquire(timeout=30)
        time.sleep(6.1)  # noqa: ASYNC251 - this is what the test is about
        one, two, never = await asking
        assert (one, two) == (HttpAnswer(200, {"content-length": "2"}, b"ok"),) * 2
        assert isinstance(never, NoAnswer)
        assert (never.fault, never.sent) == (Fault.READ_TIMEOUT, True)
        [next_] = await ask(http, post(server.url, b"next", timeout=6.0))
        assert isinstance(next_, HttpAnswer), "a handle has its timeout and its connection back"


async def test_close_waits_for_what_runs() -> None:
    """An exchange that ends within the grace period is answered with its real answer."""
    began, go = threading.Event(), threading.Event()

    def serve(peer: Peer) -> None:
        peer.request()
        began.set()
        go.wait(30)
        peer.ok()

    with serving(serve) as server:
        wire = HttpWire()
        await wire.start()
        asking = asyncio.ensure_future(ask(wire, post(server.url)))
        await asyncio.to_thread(began.wait, 30)
        closing = asyncio.ensure_future(wire.close(30))
        await asyncio.sleep(0)
        go.set()
        await closing
        [answer] = await asking
        assert isinstance(answer, HttpAnswer)


async def test_close_gives_up_what_is_left_and_says_what_was_sent() -> None:
    """After the grace period: written is unknown, not connected is not sent."""
    began = threading.Event()

    def serve(peer: Peer) -> None:
        peer.request()
        began.set()
        peer.until_closed()

    with serving(serve) as server, black_hole() as port:
        wire = HttpWire()
        await wire.start()
        asking = asyncio.ensure_future(ask(wire, post(server.url), post(f"http://127.0.0.1:{port}/")))
        await asyncio.to_thread(began.wait, 30)
        await wire.close(0)
        written, waiting = await asking
        assert isinstance(written, NoAnswer)
        assert (written.fault, written.sent) == (Fault.READ_TIMEOUT, True)
        assert isinstance(waiting, NoAnswer)
        assert (waiting.fault, waiting.sent) == (Fault.NOT_STARTED, False)


async def test_after_close_nothing_starts() -> None:
    """A request submitted to a closed wire is answered at once: not started."""
    with serving(polite) as server:
        wire = HttpWire()
        await wire.start()
        await wire.close(1)
        [answer] = await ask(wire, post(server.url))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (Fault.NOT_STARTED, False)
        assert server.connections == 0
        await wire.close(1)


async def test_submitted_in_the_same_tick_as_close_is_answered() -> None:
    """A batch handed over right before ``close(0)`` gets its answers, each saying what was sent."""
    with serving(polite) as server:
        wire = HttpWire()
        await wire.start()
        answers, _ = await asyncio.gather(ask(wire, *(post(server.url) for _ in range(20))), wire.close(0))
        unsent = sum(isinstance(answer, NoAnswer) and not answer.sent for answer in answers)
        assert unsent + len(server.received) >= len(answers)


async def test_a_failure_of_the_pump_answers_what_runs_and_goes_on(
    http: HttpWire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug costs the exchanges under way, each of them answered; it is reported, and the next ones work."""
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    began = threading.Event()

    def serve(peer: Peer) -> None:
        while request := peer.request():
            if request.endswith(b"first"):
                began.set()
                peer.until_closed()
                return
            peer.ok()

    def broken(pump: _Pump) -> bool:
        monkeypatch.undo()
        raise ZeroDivisionError

    with serving(serve) as server:
        asking = asyncio.ensure_future(ask(http, post(server.url, b"first")))
        await asyncio.to_thread(began.wait, 30)
        monkeypatch.setattr(_Pump, "harvest", broken)
        [second] = await ask(http, post(server.url, b"second"))
        [first] = await asking
        assert isinstance(first, NoAnswer)
        assert (first.fault, first.sent) == (Fault.READ_TIMEOUT, True)
        assert isinstance(second, NoAnswer)
        [third] = await ask(http, post(server.url, b"third"))
        assert isinstance(third, HttpAnswer)
    assert [type(error) for error in reported] == [ZeroDivisionError]
