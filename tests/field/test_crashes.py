"""Field reports about crashes, doubles and shutdown. The ids are those of docs/reference/field-reports.md."""

import asyncio
from collections import Counter
from uuid import UUID

import pytest

from ringonce.app import Ringonce
from ringonce.engine.lifecycle import Loop
from ringonce.errors import StoreUnavailable
from ringonce.model.policy import SECOND
from ringonce.vendors.script import plan
from ringonce.vendors.smtp import MailServer
from ringonce.vendors.telegram import TelegramApi
from ringonce.vendors.webhook import WebhookReceiver
from tests.crash.conftest import Url
from tests.crash.inside import SLOTS, Death, application, bodies, channel, judge, lives, settings, unknown
from tests.crash.test_points import POINTS, _base, _real
from tests.field.test_failures import mail
from tests.field.test_mail import built
from tests.providers.samples import message
from tests.requirements.conftest import SECRET, Start, System, calls, outcomes, webhook

LEASE = 50 * SECOND


# --- crashes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["claimed", "marked", "sent, not settled", "settled, not acknowledged"])
async def test_crsh_01_nothing_stays_in_flight(url: Url, point: str) -> None:
    """CRSH-01: a worker was killed in the middle of a job, and the job stayed "doing" for ever.

    Source: procrastinate-org/procrastinate#307. Here: when the lease is over the rows are somebody else's; what had
    been begun is in doubt and told so, the rest is sent as if nothing had happened.
    """
    name, when = POINTS[point]
    async with _base(url, "memory", grace="0.1s") as (config, plain):
        await plain.notify_many(bodies(24))
        death = Death(name, when, turn=2)
        dying, _ = application(config, _real(plain), death, death.wire)
        work = asyncio.create_task(dying.run_worker())
        await death.died.wait()
        work.cancel()
        heir, wire = application(config, _real(plain))
        await heir.run_worker(drain=True)
        found = await lives(plain)
        judge(found, death.wire.rung + wire.rung, doubts=SLOTS)
        assert sum(item.leased for item in await plain.backlog()) == 0
        await asyncio.wait({work})


async def test_crsh_02_a_long_call_is_not_rescued_while_it_runs(url: Url) -> None:
    """CRSH-02: jobs were moved back by their age, so that long ones ran a second and third time beside the first.

    Source: hexpm/hexpm#1825. Here: a call of three leases is prolonged by its worker, and another worker, which
    rescues all the time, leaves it alone.
    """
    for _ in range(5):
        if await _prolonged_in_time():
            return
    pytest.fail("a lease was never prolonged in time")


async def _prolonged_in_time() -> bool:
    """Try it once. False: the machine stood still for longer than a lease, which is the case of CONC-02."""
    config = settings("sqlite://", call="delay:3", lease="1s")
    clock = asyncio.get_running_loop().time
    begun: list[float] = []
    in_time = True

    async def noted(name: str, when: str, _result: object) -> None:
        nonlocal in_time
        if name == "extend" and when == "before":
            begun.append(clock())
        elif name == "extend":
            # The term before this one began when it was asked for, at the earliest.
            in_time = in_time and clock() - begun[-2] < 1

    async with _shared(config) as plain:
        await plain.notify_many(
            [{"event_id": f"n-{n}", "to": {"resend": f"a-{n}"}, "content": {"text": "x"}} for n in range(3)]
        )
        first, wire = application(config, _real(plain), noted)
        second, other = application(config, _real(plain))
        stop = asyncio.Event()
        rescuer = asyncio.create_task(second.run_worker(stop, only=["rescue"]))
        begun.append(clock())
        await first.run_worker(drain=True)
        in_time = in_time and clock() - begun[-1] < 1
        stop.set()
        await rescuer
        found = await lives(plain)
        assert len(begun) > 3
        assert set((wire.rung + other.rung).values()) == {1} or not in_time
        assert not in_time or not any(unknown(life) for life in found)
    return in_time


class _shared:  # noqa: N801 - a context manager
    """An application without faults, whose store others share."""

    def __init__(self, config: dict[str, object]) -> None:
        self._plain, _ = application(config)

    async def __aenter__(self) -> Ringonce:
        return await self._plain.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        await self._plain.close()


async def test_crsh_03_a_worker_started_anew_is_somebody_else(
    start: Start, receiver: WebhookReceiver
) -> None:
    """CRSH-03: workers were known by the host's name, so a restarted one kept its dead predecessor's jobs alive.

    Source: oban-bg/oban#862. Here: each run has a name of its own; a row that another run of the same program on the
    same machine holds is taken over when its lease is over, and not before.
    """
    system = await start(hook=webhook(lease="1s"))
    id_ = await system.accept("hook", f"{receiver.url}/ada")
    batch = await system.ring.store.claim("hook", "the dead one", 10, LEASE)
    assert [claimed.row.id for claimed in batch.rows] == [id_]
    owners: list[str] = []
    store = system.ring.store
    claim = store.claim

    async def noted(lane: str, owner: str, *rest: object, **named: object) -> object:
        owners.append(owner)
        return await claim(lane, owner, *rest, **named)  # type: ignore[arg-type]

    store.claim = noted  # type: ignore[method-assign, assignment]
    for _ in range(2):
        async with system.working(system.ring):
            await system.until(lambda: _some(owners))
        owners.append("")
    runs = {owner for owner in owners if owner}
    assert len(runs) == 2
    assert not (await system.view(id_))["final"]
    await system.pass_time(60)
    async with system.working(system.ring):
        await system.ended(id_)
    assert calls(receiver) == {str(id_): 1}


async def _some(owners: list[str]) -> bool:
    return bool(owners) and bool(owners[-1])


async def test_crsh_06_a_commit_without_an_answer(url: Url) -> None:
    """CRSH-06: the connection broke during COMMIT, and the program could not know whether it was done.

    Sources: novuhq/novu#12373, rpush/rpush#52. Here: every step may be repeated: done or not, nobody is told twice and
    nothing is lost, when the first reply of each step is lost.
    """
    async with _base(url, "memory") as (config, plain):
        lost: set[str] = set()

        async def faults(name: str, when: str, _result: object) -> None:
            if when == "after" and name in {"accept", "claim", "mark", "settle", "arm", "release"} - lost:
                lost.add(name)
                raise StoreUnavailable("the reply is lost")

        worker, wire = application(config, _real(plain), faults)
        for _ in range(2):
            try:
                await worker.notify_many(bodies(20))
            except StoreUnavailable:
                assert lost == {"accept"}
        await worker.run_worker(drain=True)
        assert lost >= {"accept", "claim", "mark", "settle"}
        found = await lives(plain)
        assert len(found) == 20
        judge(found, wire.rung, doubts=0)
        assert set(wire.rung.values()) == {1}


# --- doubles ---------------------------------------------------------------------------------------------------------


async def test_dup_01_a_retry_tells_only_who_was_not_told(start: Start) -> None:
    """DUP-01: a batch that was tried again sent to everybody, also to those whom it had reached; and at once.

    Source: johnpooch/diplicity-react#1281. Here: calls are 1, 1, 2; a row that is sent can not be claimed; the retry
    waits.
    """
    with WebhookReceiver([SECRET], plan=plan(["503:each=1,address=/3"])) as server:
        system = await start(hook=webhook())
        people = [{"id": f"{n}", "addresses": {"hook": [f"{server.url}/{n}"]}} for n in (1, 2, 3)]
        accepted = await system.ring.notify(recipients=people, content={"text": "x"})
        ids = [brief.id for brief in accepted.notifications]
        await system.work()
        (waiting,) = [id_ for id_ in ids if (await system.view(id_))["status"] != "sent"]
        life = await system.ring.get(waiting)
        assert life.row.state.next_attempt_at is not None
        assert life.row.state.next_attempt_at > life.attempts[0].ended_at
        await system.pass_time()
        await system.work()
        assert Counter(entry.address for entry in server.ledger.entries) == {"/1": 1, "/2": 1, "/3": 2}
        assert (await system.ring.store.claim("hook", "somebody", 10, LEASE)).rows == ()


async def test_dup_02_a_result_that_can_not_be_stored_is_not_sent_again(url: Url) -> None:
    """DUP-02: saving "delivered" failed while the database was away, so the push was sent every few seconds.

    Source: rpush/rpush#52. Here: the write alone is tried again until it succeeds: one call each, no doubt.
    """
    async with _base(url, "memory", lease="60s") as (config, plain):
        await plain.notify_many(bodies(4))
        refused = 0

        async def faults(name: str, when: str, _result: object) -> None:
            nonlocal refused
            if name == "settle" and when == "before" and refused < 4:
                refused += 1
                raise StoreUnavailable("no connection is free")

        worker, wire = application(config, _real(plain), faults)
        await worker.run_worker(drain=True)
        assert refused == 4
        assert set(wire.rung.values()) == {1}
        assert not any(unknown(life) for life in await lives(plain))


async def test_dup_03_on_a_read_only_database_nothing_is_sent(url: Url) -> None:
    """DUP-03: reads worked and writes failed, so one message went out every two seconds.

    Source: ileitch/rapns#24. Here: claiming is a write, so nothing is sent while the database is read-only, failures
    come at a bounded rate, and afterwards each is sent once.
    """
    async with _base(url, "memory") as (config, plain):
        await plain.notify_many(bodies(8))
        tries: list[float] = []
        enough, writable = asyncio.Event(), asyncio.Event()

        async def faults(name: str, when: str, _result: object) -> None:
            if (
                when == "before"
                and not writable.is_set()
                and name not in {"now", "lanes", "overrides", "search"}
            ):
                tries.append(asyncio.get_running_loop().time())
                if len(tries) >= 20:
                    enough.set()
                raise StoreUnavailable("cannot execute UPDATE in a read-only transaction")

        worker, wire = application(config, _real(plain), faults)
        begun = asyncio.get_running_loop().time()
        work = asyncio.create_task(worker.run_worker(drain=True))
        await enough.wait()
        assert not wire.rung
        assert tries[-1] - begun > 0.05, "a hot loop"
        writable.set()
        await work
        assert set(wire.rung.values()) == {1}


@pytest.mark.parametrize("in_doubt", ["resend", "assume_sent", "hold"])
async def test_dup_04_the_reply_to_the_final_dot_is_lost(start: Start, in_doubt: str) -> None:
    """DUP-04: the server had taken the mail, the client did not hear it, and the customer got several copies.

    Source: freescout-help-desk/freescout#5457. Here: that is a doubt, which is not "not sent"; the channel's
    `in_doubt` decides, and a repeat has the same Message-ID.
    """
    with MailServer(plan=plan(["accept_then_reset:first=1"])) as server:
        system = await start(mail=mail(server, in_doubt=in_doubt))
        id_ = await system.accept("mail", "bob@example.com")
        await system.work()
        await system.pass_time(86_000)
        await system.work()
        view = await system.view(id_)
        copies = 2 if in_doubt == "resend" else 1
        assert outcomes(view) == ["unknown", "accepted"][:copies]
        assert (view["status"], view["assumed"]) == (
            "in_doubt" if in_doubt == "hold" else "sent",
            in_doubt == "assume_sent",
        )
        assert len(server.ledger.entries) == copies
        assert len({entry.reference for entry in server.ledger.entries}) == 1


async def test_dup_05_repeats_of_a_doubt_are_few(start: Start) -> None:
    """DUP-05: a mail that arrived each time counted as a soft failure each time: five copies.

    Source: postalserver/postal#3016. Here: the reply to the final dot has ten minutes (RFC 5321 section 4.5.3.2.6),
    more than the other replies; doubts have a budget of their own below that of failures; the Message-ID stays.
    """
    request = built(message().content)
    assert request.final_timeout >= 600 > request.timeout
    with MailServer(plan=plan(["accept_then_reset"])) as server:
        system = await start(mail=mail(server, in_doubt="resend", max_attempts=20))
        id_ = await system.accept("mail", "bob@example.com")
        for _ in range(6):
            await system.work()
            await system.pass_time(86_000)
        view = await system.view(id_)
        budgets = system.ring.engine.channels.all()["mail"].channel.policy.budgets
        assert budgets.unknown < budgets.transient
        assert (view["final"], view["attempts"]) == (True, 1 + budgets.unknown)
        assert len({entry.reference for entry in server.ledger.entries}) == 1


async def test_dup_08_a_redelivered_event_tells_nobody_again(start: Start) -> None:
    """DUP-08: scheduling a follow-up failed, so the whole message was handled again, under new ids.

    Source: Cap-go/capgo.app#2209. Here: the event delivered again finds its notifications with the same ids; the one
    that waits is retried, the nine others are not told again.
    """
    with WebhookReceiver([SECRET], plan=plan(["503:each=1,address=/4"])) as server:
        system = await start(hook=webhook())
        body = {
            "event_id": "order-7",
            "recipients": [{"id": f"{n}", "addresses": {"hook": [f"{server.url}/{n}"]}} for n in range(10)],
            "content": {"text": "x"},
        }
        first = await system.ring.notify(body)
        await system.work()
        again = await system.ring.notify(body)
        assert {b.id for b in again.notifications} == {b.id for b in first.notifications}
        await system.pass_time()
        await system.work()
        await system.ring.notify(body)
        await system.work()
        assert Counter(e.address for e in server.ledger.entries) == {
            f"/{n}": 2 if n == 4 else 1 for n in range(10)
        }
        assert len({e.reference for e in server.ledger.entries}) == 10


async def test_dup_10_what_is_resolved_is_not_told_as_firing(start: Start) -> None:
    """DUP-10: peers told "resolved" and "firing" in the wrong order.

    Sources: prometheus/alertmanager#3283, prometheus/alertmanager#3551. Here: a newer event of the same `collapse`
    cancels the older one that has not begun, by whichever worker; the newest is what is told last.
    """
    with WebhookReceiver([SECRET], plan=plan(["503:first=1"])) as server:
        system = await start(hook=webhook(backoff={"kind": "fixed", "base": "1h", "jitter": 0}))
        to = f"{server.url}/ada"
        firing = await system.accept("hook", to, collapse="alert:1", content={"text": "firing"})
        await system.work()
        resolved = await system.accept("hook", to, collapse="alert:1", content={"text": "resolved"})
        other = Ringonce(system.config)
        async with other, system.working(system.ring, other):
            await system.ended(resolved)
        await system.pass_time(2 * 3600)
        await system.work()
        assert (await system.view(firing))["status"] == "cancelled"
        last = [entry.reference for entry in server.ledger.entries if entry.accepted]
        assert last == [str(resolved)]


async def test_dup_11_an_old_copy_in_memory_is_not_sent(start: Start) -> None:
    """DUP-11: a replica with an older state sent the old message once more.

    Source: prometheus/alertmanager#4008. Here: a worker that paused with claimed rows can not begin them when anything
    has changed: cancelled meanwhile, or taken over.
    """
    system = await start(box={"provider": "sandbox"})
    cancelled, taken = await system.accept("box", "a"), await system.accept("box", "b")
    store = system.ring.store
    old = {claimed.row.id: claimed for claimed in (await store.claim("box", "old", 10, LEASE)).rows}
    assert set(old) == {cancelled, taken}
    await system.ring.cancel(cancelled)
    await system.pass_time(60)
    await store.rescue(system.ring.engine.decide)
    new = await store.claim("box", "new", 10, LEASE)
    assert [claimed.row.id for claimed in new.rows] == [taken]
    for id_, claimed in old.items():
        row = claimed.row
        marked = await store.mark("old", [(id_, row.lease.fence, row.state.version)])
        assert not marked.begun
    assert await _begin(system, new.rows[0].row.id, new.rows[0])


async def _begin(system: System, id_: UUID, claimed: object) -> bool:
    row = claimed.row  # type: ignore[attr-defined]
    marked = await system.ring.store.mark("new", [(id_, row.lease.fence, row.state.version)])
    return id_ in marked.begun


# --- shutdown --------------------------------------------------------------------------------------------------------


async def test_shut_01_running_calls_are_finished(start: Start) -> None:
    """SHUT-01: SIGTERM cancelled calls in the middle; jobs were repeated afterwards, or stuck.

    Sources: python-arq/arq#192, python-arq/arq#343, chrisguidry/docket#212. Here: running calls end and are stored,
    nothing new is begun, the rest is given back at once, and an idle worker ends at once. (Signals: tests/crash.)
    """
    with TelegramApi("1:x", plan=plan(["delay:seconds=0.4"])) as server:
        chat = {"provider": "telegram", "token": "1:x", "base_url": server.url, "concurrency": 3}
        system = await start(chat=chat)
        system.config["worker"]["grace"] = "1h"
        await system.reconfigure()
        ids = [await system.accept("chat", str(n)) for n in range(1, 21)]
        async with system.working(system.ring):
            await system.until(lambda: _told(server, 1))
        told = len(server.ledger.entries)
        views = [await system.view(id_) for id_ in ids]
        assert sum(view["status"] == "sent" for view in views) == told < 20
        assert {view["status"] for view in views} == {"sent", "pending"}
        assert sum(item.leased for item in await system.ring.backlog()) == 0
        # An idle worker that waited for its grace period would wait until the test's own time is over.
        await system.reconfigure(chat={"enabled": False})
        async with system.working(system.ring):
            await asyncio.sleep(0)


async def _told(server: TelegramApi, count: int) -> bool:
    return len(server.ledger.entries) >= count


async def test_shut_01_beyond_the_grace_period_it_is_a_doubt(start: Start) -> None:
    """SHUT-01: a call that does not end within the grace period. Here: it is in doubt and told so, not repeated."""
    with TelegramApi("1:x", plan=plan(["accept_then_hang:first=1"])) as server:
        chat = {
            "provider": "telegram",
            "token": "1:x",
            "base_url": server.url,
            "in_doubt": "hold",
            "lease": "1s",
        }
        system = await start(chat=chat)
        system.config["worker"]["grace"] = "100ms"
        await system.reconfigure()
        id_ = await system.accept("chat", "1")
        async with system.working(system.ring):
            await system.until(lambda: _told(server, 1))
        await system.work()
        assert (await system.view(id_))["status"] == "in_doubt"
        assert len(server.ledger.entries) == 1


async def test_shut_02_all_channels_stop_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """SHUT-02: queues were stopped one after the other, each with the whole grace period, and others began new jobs.

    Source: oban-bg/oban#856. Here: ten channels are told to end before the first has ended, and none claims after the
    signal.
    """
    config = {
        **settings("sqlite://", grace="1h"),
        "channels": {f"c{n}": channel("hold", "delay:0.8") for n in range(10)},
    }
    claims: list[str] = []
    stopped = asyncio.Event()
    order: list[str] = []
    stop = Loop.stop

    async def watched(self: Loop) -> None:
        order.append("told")
        await stop(self)
        order.append("ended")

    monkeypatch.setattr(Loop, "stop", watched)

    async def noted(name: str, when: str, _result: object) -> None:
        if stopped.is_set() and when == "before" and name in {"claim", "mark", "expand", "arm", "rescue"}:
            claims.append(name)

    worker, wire = application(config, plan=noted)
    async with worker:
        for n in range(10):
            for m in range(10):
                await worker.notify(to={f"c{n}": f"a{m}"}, content={"text": "x"})
        work = asyncio.create_task(worker.run_worker(stopped))
        while len(wire.rung) < 10 * SLOTS:  # noqa: ASYNC110 - counted by the wire
            await asyncio.sleep(0.01)
        stopped.set()
        claims.clear()
        await work
        assert order.index("ended") >= 10, "one after the other"
        assert claims == []
        assert len(await worker.search(status=("sent",), limit=100)) == len(wire.rung) >= 10 * SLOTS


# --- concurrency -----------------------------------------------------------------------------------------------------


async def test_conc_02_a_blocked_worker_finishes_late(start: Start) -> None:
    """CONC-02: a worker whose loop was blocked lost its lock; another took the job over, and both completed it.

    Sources: OptimalBits/bull#308, taskforcesh/bullmq#3183. Here: the fence of the lease: the first one's answer comes
    as a late one, which decides the doubt and counts no second send; nothing of the second one's is overwritten.
    """
    system = await start(box={"provider": "sandbox", "script": ["ok"], "in_doubt": "assume_sent"})
    id_ = await system.accept("box", "a")
    ring = system.ring
    going = asyncio.Event()
    settle = ring.store.settle

    async def late(*arguments: object, **named: object) -> object:
        if not going.is_set():
            going.set()
            # Blocked for longer than the lease: others rescue meanwhile.
            await system.pass_time(60)
            await ring.store.rescue(ring.engine.decide)
        return await settle(*arguments, **named)  # type: ignore[arg-type]

    ring.store.settle = late  # type: ignore[method-assign, assignment]
    async with system.working(ring):
        await asyncio.wait_for(going.wait(), 90)
        await system.ended(id_)

        async def decided() -> bool:
            return bool((await system.view(id_))["attempt_list"][0]["late"])

        await system.until(decided)
    view = await system.view(id_)
    assert (view["status"], outcomes(view), view["assumed"]) == ("sent", ["accepted"], False)
    assert (await system.dispatched(id_))[0]["assumed"] is True


async def test_conc_07_batches_lock_in_one_order(start: Start) -> None:
    """CONC-07: batches locked rows in different orders, and deadlocks ended them.

    Sources: getsentry/taskbroker#778, cockroachdb/cockroach#160794, riverqueue/river#785. Here: two programs deliver
    while both withdraw the same subjects in opposite orders and register the same addresses: nothing fails, and each
    notification has one end. (Batches in opposite orders: tests/store/test_races.py.)
    """
    system = await start(box={"provider": "sandbox"})
    subjects = [f"s:{n}" for n in range(6)]
    for n in range(60):
        await system.accept("box", f"a{n}", subject=subjects[n % 6])
    async with Ringonce(system.config) as other, system.working(system.ring, other):

        async def withdraw(ring: Ringonce, order: list[str]) -> None:
            for subject in order[:4]:
                await ring.register("ada", "box", subject)
                await ring.cancel_subject(subject)

        await asyncio.gather(withdraw(system.ring, subjects), withdraw(other, subjects[::-1]))
        await system.until(system.idle)
    rows = await system.ring.search(limit=100)
    assert len(rows) == 60
    assert {row.state.status.value for row in rows} <= {"sent", "cancelled"}
