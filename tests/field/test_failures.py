"""Field reports about refusals, timeouts and retries. The ids are those of docs/reference/field-reports.md."""

import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ringonce.core.backoff import delay
from ringonce.core.retry_after import retry_after
from ringonce.model.exchange import HttpRequest, MailAnswer, MailServer, NoAnswer
from ringonce.model.policy import DAY, Backoff, BackoffKind, Policy
from ringonce.vendors.script import plan
from ringonce.vendors.smtp import MailServer as MailStandIn
from ringonce.vendors.telegram import TelegramApi
from ringonce.vendors.webhook import WebhookReceiver
from ringonce.wire.http import HttpWire
from ringonce.wire.smtp import MailWire
from tests.core.test_retry_after import NOW
from tests.field.test_mail import built
from tests.providers.samples import message
from tests.requirements.conftest import SECRET, Facts, Start, outcomes, webhook
from tests.servers.sockets import Peer, black_hole, serving
from tests.wire.conftest import ask

AT_ONCE = {"kind": "fixed", "base": "10ms", "jitter": 0}


def mail(server: MailStandIn, **more: object) -> Facts:
    """A channel for it."""
    url = f"smtp://127.0.0.1:{server.port}?tls=none"
    return {"provider": "smtp", "url": url, "from": "shop@example.com", "backoff": AT_ONCE, **more}


# --- backoff and Retry-After -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [-1, 0, 1, 46, 47, 63, 64, 1023, 1024, 1025, 10**6, 2**31 - 1])
def test_back_01_a_thousand_attempts_do_not_overflow(n: int) -> None:
    """BACK-01: base * 2**n overflowed before the cap was applied, and the retry loop died in a long outage.

    Sources: redis/redis-py#4320, twisted/twisted#9476, elastic/elastic-transport-python#111, hynek/stamina#137. Here:
    every number of an attempt has a finite delay within the cap, and a negative one counts as the first.
    """
    for kind in BackoffKind:
        policy = Policy(backoff=Backoff(kind, base=1_000_000, cap=3_600_000_000, factor=2.0, jitter=0))
        assert 0 <= delay(policy, n, 0.999) <= max(3_600_000_000, DAY)
    exponential = Policy(
        backoff=Backoff(BackoffKind.EXPONENTIAL, base=1_000_000, cap=3_600_000_000, jitter=0)
    )
    assert delay(exponential, n, 0.0) == (1_000_000 if n < 2 else 3_600_000_000)
    assert delay(exponential, -1, 0.0) == delay(exponential, 1, 0.0)


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("120", 120),
        ("0", 0),
        ("1.5", 2),
        (" 30 ", 30),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("99999999999999999999", 86_400),
        *((text, None) for text in ("-5", "", "soon", "rand(30),add(30)", "inf", "nan", "1e3", "1_0", "+5")),
        *((text, None) for text in ("٣", "Fri, 31 Dec 99999 23:59:59 GMT", "\xff", "30, 60")),
    ],
)
def test_rtry_01_retry_after_never_raises(value: str, wait: int | None) -> None:
    """RTRY-01: a date in Retry-After raised, and a 429 that could have been tried again became a crash.

    Sources: martymcenroe/AssemblyZero#3092, IBM/mcp-context-forge#5745, cowrie/cowrie#40491. Here: what is legible is
    honoured up to a day, the past is at once, and anything else leaves the policy's own delay.
    """
    assert retry_after({"retry-after": value}, None, NOW) == wait


@pytest.mark.parametrize("value", ["9" * 5000, "\xe9\xff" * 100])
async def test_rtry_02_garbage_in_retry_after_is_the_ordinary_backoff(start: Start, value: str) -> None:
    """RTRY-02: 5,000 digits, or a proxy's template text, broke the way to the retry.

    Sources: WebexCommunity/WebexPythonSDK#181, notatallshaw/nab#596. Here: it is ignored, and the next try succeeds.
    """
    server = WebhookReceiver([SECRET], plan=plan(["429:first=1"]))
    first, *others = server.plan.rules
    header = ("Retry-After", value)
    server.plan.rules = (replace(first, fault=replace(first.fault, headers=(header,))), *others)
    with server:
        system = await start(hook=webhook(backoff=AT_ONCE, floors={"rate_limited": "1s"}))
        id_ = await system.accept("hook", f"{server.url}/ada")
        await system.work()
        await system.pass_time(120)
        await system.work()
        assert outcomes(await system.view(id_)) == ["rate_limited", "accepted"]


@pytest.mark.parametrize("zone", ["America/Sao_Paulo", "Asia/Kathmandu"])
@pytest.mark.parametrize(
    "value",
    [
        "Wed, 21 Oct 2037 07:28:00 GMT",
        "Wed Oct 21 07:28:00 2037",
        "Wed, 21 Oct 2037 07:28:00 -0000",
        "Wednesday, 21-Oct-37 07:28:00 GMT",
    ],
)
def test_rtry_04_each_form_of_a_date_in_any_zone(
    monkeypatch: pytest.MonkeyPatch, value: str, zone: str
) -> None:
    """RTRY-04: only ISO dates were read, and the process's zone shifted the others.

    Source: hashgraph-online/hol-guard#1103. Here: all forms of RFC 9110 are a minute away at 07:27, in every zone.
    """
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        at = 2_139_722_820_000_000  # 2037-10-21T07:27:00Z
        assert retry_after({"retry-after": value}, None, at) == 60
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_lost_01_429_and_408_are_not_final(start: Start) -> None:
    """LOST-01: 429 was taken for a final refusal like other 4xx, and the push was dropped.

    Source: matrix-org/sygnal#222. Here: both wait, Retry-After is honoured, and the third call succeeds.
    """
    with WebhookReceiver([SECRET], plan=plan(["408:numbers=1", "429:numbers=2,retry_after=600"])) as server:
        system = await start(
            hook=webhook(backoff=AT_ONCE, floors={"rate_limited": "0s"}, rate_limited_factor=1)
        )
        id_ = await system.accept("hook", f"{server.url}/ada")
        async with system.working(system.ring):

            async def limited() -> bool:
                return (await system.view(id_))["attempts"] == 2

            await system.until(limited)
        view = await system.view(id_)
        life = await system.ring.get(id_)
        assert life.row.state.next_attempt_at is not None
        assert life.row.state.next_attempt_at - life.attempts[-1].ended_at >= 600_000_000
        await system.pass_time(660)
        await system.work()
        view = await system.view(id_)
        assert (view["status"], view["attempts"]) == ("sent", 3)


async def test_scal_03_a_whole_wave_does_not_come_back_at_once(start: Start) -> None:
    """SCAL-03: no jitter on Retry-After: everybody came back in the same second and hit the limit again.

    Sources: NousResearch/hermes-agent#109234, multica-ai/multica#7471, gojek/heimdall#21. Here: none comes back before
    the hint, and they spread after it.
    """
    with WebhookReceiver([SECRET], plan=plan(["429:retry_after=600"])) as server:
        system = await start(hook=webhook(concurrency=40))
        ids = [await system.accept("hook", f"{server.url}/{n}") for n in range(40)]
        await system.work()
        lives = [await system.ring.get(id_) for id_ in ids]
        waits = [
            life.row.state.next_attempt_at - life.attempts[0].ended_at for life in lives if life.attempts
        ]
        assert waits
        assert min(waits) >= 600_000_000
        assert max(Counter(wait // 1_000_000 for wait in waits).values()) <= len(waits) / 4 + 1


# --- what an answer means --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["450", "421"])
async def test_clas_01_greylisting_is_not_final(start: Start, fault: str) -> None:
    """CLAS-01: every answer to RCPT but 250 was taken for final, so greylisting destroyed mail.

    Source: Cockatrice/Cockatrice#7240. Here: 4yz is tried again, and the greylisted mail arrives.
    """
    with MailStandIn(plan=plan([f"{fault}:first=1,stage=RCPT"])) as server:
        system = await start(mail=mail(server))
        id_ = await system.accept("mail", "bob@example.com")
        await system.work()
        await system.pass_time(86_000)
        await system.work()
        view = await system.view(id_)
        assert (view["status"], view["attempts"]) == ("sent", 2)


async def test_clas_02_one_refused_recipient_is_alone(start: Start) -> None:
    """CLAS-02: one refused recipient ended the whole batch, and nobody after it got a mail.

    Source: bytedeck/bytedeck#2510. Here: one mail has one recipient: 7 fails, 20 and 33 are tried again, all others
    are told exactly once.
    """
    faults = ["451:each=1,address=u20@*", "reset:each=1,address=u33@*"]
    with MailStandIn(unknown=["u7@example.com"], plan=plan(faults)) as server:
        system = await start(mail=mail(server))
        ids = [await system.accept("mail", f"u{n}@example.com") for n in range(50)]
        async with system.working(system.ring):
            for n, id_ in enumerate(ids):
                if n not in {20, 33}:
                    await system.ended(id_)
        await system.pass_time()
        await system.work()
        views = [await system.view(id_) for id_ in ids]
        assert [n for n, view in enumerate(views) if view["status"] != "sent"] == [7]
        assert {n: view["attempts"] for n, view in enumerate(views) if view["attempts"] > 1} == {20: 2, 33: 2}
        assert Counter(address for _, address in server.ledger.accepted().elements()) == Counter(
            f"u{n}@example.com" for n in range(50) if n != 7
        )


def _silent(peer: Peer) -> None:
    peer.request()
    peer.until_closed()


def _half(peer: Peer) -> None:
    peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
    peer.until_closed()


async def test_clas_07_nothing_hangs_for_ever(http: HttpWire) -> None:
    """CLAS-07: calls without a timeout hung for ever and blocked the worker.

    Sources: sideshow/apns2#20, timehop/apns#64, cole/aiosmtplib#243. Here: while connecting ends as not sent, after
    the request was written as unknown, and both within their timeouts; a mail server without a banner as well.
    """
    with black_hole() as port, serving(_silent) as silent, serving(_half) as half:
        urls = [f"http://127.0.0.1:{port}/", silent.url, half.url]
        # ``ask`` waits a minute at most. After a stall the few seconds may be over before a server has heard anything.
        for seconds in (0.5, 20.0):
            answers = await ask(
                http, *(HttpRequest("GET", url, timeout=seconds, connect_timeout=0.3) for url in urls)
            )
            if silent.received and half.received:
                break
    assert all(isinstance(answer, NoAnswer) for answer in answers)
    assert [answer.sent for answer in answers if isinstance(answer, NoAnswer)] == [False, True, True]


async def test_conc_01_a_late_reply_is_not_taken_for_the_next_mails() -> None:
    """CONC-01: after a timeout the connection was used again, and the late reply was taken for the next mail's.

    Source: swiftmailer/swiftmailer#828. Here: a connection whose dialogue timed out is never used again.
    """

    def talk(peer: Peer) -> None:
        peer.send(b"220 mx\r\n")
        while line := peer.line():
            if line == b"DATA":
                peer.send(b"354 go on\r\n")
                peer.until(b"\r\n.\r\n")
                if peer.number == 1:
                    peer.until_closed()  # the 250 would come now, too late
                    return
                peer.send(b"550 5.7.1 not you\r\n")
            else:
                peer.send(b"221 bye\r\n" if line == b"QUIT" else b"250 ok\r\n")

    wire = MailWire(helo="client.example")
    await wire.start()
    with serving(talk) as server:
        there = MailServer("127.0.0.1", server.port, tls="none")
        request = replace(built(message().content), server=there, final_timeout=0.3)
        [first] = await ask(wire, request)
        [second] = await ask(wire, replace(request, final_timeout=30.0))
        assert server.connections == 2
        await wire.close(1)
    assert isinstance(first, NoAnswer)
    assert isinstance(second, MailAnswer)
    assert second.code == 550


async def test_scal_05_one_bad_item_stops_nobody(start: Start) -> None:
    """SCAL-05: one number whose answer took a minute stopped all following messages of the account.

    Sources: green-api/issues#822, green-api/docs#183. Here: a slow call takes one slot; the others go out meanwhile.
    """
    with TelegramApi("1:x", plan=plan(["hang:address=1"])) as server:
        chat = {
            "provider": "telegram",
            "token": "1:x",
            "base_url": server.url,
            "concurrency": 2,
            "lease": "30s",
        }
        system = await start(chat=chat)
        slow = await system.accept("chat", "1")
        ids = [await system.accept("chat", str(n)) for n in range(2, 40)]
        async with system.working(system.ring):
            for id_ in ids:
                await system.ended(id_)
            assert not (await system.view(slow))["final"]
            server.stop()


async def test_rtry_03_a_push_outage_delays_no_mail(start: Start) -> None:
    """RTRY-03: pushes were tried for days although nobody needed them any more, and blocked the queue.

    Source: mastodon/mastodon#11292. Here: each channel has a lane of its own, so that no other is delayed; a
    notification ends when its time is over, also behind a paused lane.
    """
    with WebhookReceiver([SECRET], plan=plan(["503:address=/dead*"])) as server:
        system = await start(
            dead=webhook(max_attempts=100, budgets={"transient": 99}),
            alive=webhook(),
        )
        end = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        urls = [f"{server.url}/dead{n}" for n in range(20)]
        dead = [await system.accept("dead", url, expires_at=end) for url in urls]
        alive = [await system.accept("alive", f"{server.url}/alive{n}") for n in range(10)]
        async with system.working(system.ring):
            for id_ in alive:
                await system.ended(id_)
        assert {(await system.view(id_))["final"] for id_ in dead} == {False}
        await system.pass_time(2 * 3600)
        async with system.working(system.ring):
            for id_ in dead:
                await system.ended(id_)
        assert {(await system.view(id_))["status"] for id_ in dead} == {"expired"}


async def test_hook_11_a_dead_endpoint_has_an_end(start: Start) -> None:
    """HOOK-11: the dead endpoint of a customer was tried for ever for each event, silently.

    Sources: liwala/ay-framework#105, superduck-ai/open-managed-agents#290. Here: each notification ends when its
    budget is spent, can be found with its code and sent again; 410 ends at once; one endpoint's faults stop no other.
    """
    with WebhookReceiver([SECRET], plan=plan(["503:address=/down", "410:address=/gone"])) as server:
        system = await start(hook=webhook(backoff=AT_ONCE))
        down, gone, good = [
            await system.accept("hook", f"{server.url}/{n}") for n in ("down", "gone", "good")
        ]
        async with system.working(system.ring):
            for id_ in (down, gone, good):
                await system.ended(id_)
        views = [await system.view(id_) for id_ in (down, gone, good)]
        assert [(v["status"], v["attempts"]) for v in views] == [("failed", 4), ("failed", 1), ("sent", 1)]
        assert {row.id for row in await system.ring.search(status=("failed",))} == {down, gone}
        server.plan.rules = ()
        await system.ring.retry(down)
        await system.work()
        assert (await system.view(down))["status"] == "sent"
