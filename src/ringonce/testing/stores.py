"""``check_store``: what every store has to keep. Each rule gets an empty store and a clock that moves when told.

The rules are those that the promise rests on: nothing is accepted twice, nothing is begun by two, nothing is
overwritten by somebody who lost its lease, nothing that began is forgotten.
"""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ringonce.clock import SystemClock, SystemEntropy
from ringonce.core.lane import Lane, of_group, spell, stops
from ringonce.engine.channels import Channels, Entry
from ringonce.engine.contract import decode_event
from ringonce.engine.engine import Engine
from ringonce.model.notification import Status
from ringonce.model.outcome import CODE_OF, Outcome, OutcomeClass
from ringonce.model.policy import SECOND, Backoff, BackoffKind, Channel, InDoubt, Policy, Rate, Share
from ringonce.model.transition import Answered, Cancel, LateAnswer
from ringonce.ports import RETRY_LEASE, AttemptRow, Change, LanePause, Lot, Terms
from ringonce.registry import build
from ringonce.telemetry import Telemetry
from ringonce.wire.script import ScriptedWire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from uuid import UUID

    from ringonce.model.event import Event
    from ringonce.ports import Accepted, Claimed, Life, Settled, Store, Wire

    Decode = Callable[[bytes], Event]
    MakeStore = Callable[[Decode], Store | Awaitable[Store]]

LEASE = 15 * SECOND
WAIT = 10 * SECOND
ACCEPTED = Outcome(OutcomeClass.ACCEPTED, message_id="m-1")
BUSY = Outcome(OutcomeClass.TRANSIENT, CODE_OF[OutcomeClass.TRANSIENT], text="503")
NOBODY = Outcome(OutcomeClass.INVALID_RECIPIENT, CODE_OF[OutcomeClass.INVALID_RECIPIENT], drop_address=True)
GROUP = "tenant-with-a-lane"
POLICY = Policy(backoff=Backoff(BackoffKind.FIXED, base=WAIT, jitter=0), in_doubt=InDoubt.RESEND)


async def check_store(make_store: MakeStore) -> None:
    """Check a store against the rules that ringonce relies on.

    Args:
        make_store: makes an empty store, not yet opened, which keeps ``notification.dispatched`` in its outbox; it is
            given the function that turns a stored body into its event. Called for each rule; may be a coroutine.

    Raises:
        AssertionError: it lists every rule that is broken, and how.
    """
    broken = []
    for name, rule in _RULES.items():
        made = make_store(decode_event)
        store = await made if inspect.isawaitable(made) else made
        await store.open()
        try:
            await rule(_Bench(store, await store.now()))
        except Exception as error:
            said = str(error) or f"{type(error).__name__} at line {_line(error)} of the kit"
            broken.append(f"{name}: {inspect.getdoc(rule)}\n      {said}")
        finally:
            await store.close()
    if broken:
        lines = "".join(f"\n  - {text}" for text in broken)
        raise AssertionError(f"{len(broken)} of {len(_RULES)} rules are broken{lines}")


def _line(error: BaseException) -> int:
    trace = error.__traceback__
    while (
        trace is not None
        and trace.tb_next is not None
        and trace.tb_next.tb_frame.f_code.co_filename == __file__
    ):
        trace = trace.tb_next
    return 0 if trace is None else trace.tb_lineno


@dataclass
class _Bench:
    """A store, the real table and rules over it, and short words for long calls."""

    store: Store
    now: int
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        provider = build("sandbox", {})
        entries = {
            name: Entry(Channel(name, "sandbox", policy=POLICY, shares={GROUP: Share()}), provider)
            for name in ("email", "push")
        }
        self.engine = Engine(
            store=self.store,
            wire=cast("Wire", ScriptedWire()),
            clock=SystemClock(),
            entropy=SystemEntropy(),
            telemetry=Telemetry(),
            channels=Channels(entries, lambda channel, _changes: channel),
        )

    async def accept(self, *bodies: Mapping[str, Any]) -> list[Accepted]:
        events = [self.engine.prepare(body) for body in bodies]
        return await self.store.accept(events, self.engine.plan, self.engine.decide, now=self.now)

    async def one(self, event_id: str = "e-1", **fields: Any) -> UUID:
        body = {"event_id": event_id, "to": {"email": f"{event_id}@example.com"}, "content": {"text": "x"}}
        (accepted,) = await self.accept({**body, **fields})
        _same(len(accepted.notifications), 1, "notifications of one event to one address")
        return accepted.notifications[0].id

    async def claim(self, owner: str = "w-1", limit: int = 10) -> tuple[Claimed, ...]:
        return tuple((await self.store.claim("email", owner, limit, LEASE, now=self.now)).rows)

    async def claim_lanes(self, limit: int, rate: Rate | None = None) -> Counter[str]:
        lanes = (Lane("email"), Lane("email", GROUP))
        terms = Terms(tuple(Lot(spell(lane), stops(lane)) for lane in lanes), LEASE, rate, "email")
        batch = await self.store.claim("email", "w-1", limit, LEASE, terms=terms, now=self.now)
        return Counter(claimed.lane for claimed in batch.rows)

    async def mark(self, *claimed: Claimed, owner: str = "w-1") -> dict[UUID, int]:
        rows = [(c.row.id, _fence(c), c.row.state.version) for c in claimed]
        return dict((await self.store.mark(owner, rows, now=self.now)).begun)

    async def begin(self, owner: str = "w-1") -> Claimed:
        rows = await self.claim(owner, 1)
        _same(len(rows), 1, "rows that could be claimed")
        _same(list(await self.mark(*rows, owner=owner)), [rows[0].row.id], "rows that could be begun")
        return rows[0]

    async def settle(self, *changes: Change) -> list[Settled]:
        return await self.store.settle(changes, self.engine.decide, now=self.now)

    def answer(self, claimed: Claimed, outcome: Outcome, number: int = 1, owner: str = "w-1") -> Change:
        attempt = AttemptRow(
            number=number,
            revision=claimed.row.state.revision,
            fence=_fence(claimed),
            account="",
            started_at=self.now,
            ended_at=self.now,
            outcome=outcome.cls.value,
            code=outcome.code,
        )
        return Change(claimed.row.id, Answered(number, outcome), (owner, _fence(claimed)), attempt)

    async def life(self, id_: UUID) -> Life:
        life = await self.store.get(id_)
        if life is None:
            raise AssertionError("a notification that was accepted is not there")
        return life

    async def status(self, id_: UUID) -> Status:
        return (await self.life(id_)).row.state.status

    async def rescue(self) -> list[Settled]:
        return await self.store.rescue(self.engine.decide, now=self.now)

    async def arm(self, owner: str = "w-1") -> int:
        term = await self.store.take_lease(RETRY_LEASE, owner, 60 * SECOND, now=self.now)
        return 0 if term is None else await self.store.arm(term, owner, now=self.now)


def _fence(claimed: Claimed) -> int:
    if claimed.row.lease is None:
        raise AssertionError("a claimed row has no lease")
    return claimed.row.lease.fence


def _same(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, not {wanted!r}")


def _holds(found: bool, what: str) -> None:  # noqa: FBT001 - the condition is the argument
    if not found:
        raise AssertionError(f"{what}: it is not so")


# --- the rules ---


async def _accepted_once(bench: _Bench) -> None:
    """The same event twice is one event, its id with another body a conflict; neither adds a notification."""
    id_ = await bench.one()
    body = {"event_id": "e-1", "to": {"email": "e-1@example.com"}, "content": {"text": "x"}}
    (again,) = await bench.accept(body)
    _same((again.duplicate, again.conflict), (True, False), "(duplicate, conflict) of a repeat")
    _same([brief.id for brief in again.notifications], [id_], "notifications of a repeat")
    (other,) = await bench.accept({**body, "content": {"text": "y"}})
    _holds(other.conflict, "conflict of another body")
    _same(len(await bench.claim()), 1, "rows that are due")


async def _repeated_in_one_batch(bench: _Bench) -> None:
    """A repeat within one batch is a repeat too."""
    body = {"event_id": "e-1", "to": {"email": "a@example.com"}, "content": {"text": "x"}}
    first, second = await bench.accept(body, body)
    _same((first.duplicate, second.duplicate), (False, True), "duplicate, in order")
    _same(len(await bench.claim()), 1, "rows that are due")


async def _claimed_by_one(bench: _Bench) -> None:
    """While a lease lives nobody else gets the row; fences never repeat."""
    fences = []
    for number in range(3):
        await bench.one(f"e-{number}")
        (claimed,) = await bench.claim()
        fences.append(_fence(claimed))
        _same(await bench.claim("w-2"), (), "rows that a second worker gets")
    _same(fences, sorted(set(fences)), "fences in order")


async def _mark_needs_the_lease(bench: _Bench) -> None:
    """Only the holder of the present lease begins an attempt, and only once."""
    id_ = await bench.one()
    (claimed,) = await bench.claim()
    _same(await bench.mark(claimed, owner="w-2"), {}, "rows begun by a stranger")
    _same(await bench.mark(claimed), {id_: 1}, "rows begun by the holder")
    _same(await bench.mark(claimed), {}, "rows begun a second time")


async def _undone_number_is_burnt(bench: _Bench) -> None:
    """A mark that led to no call is taken back; its number is never used again."""
    id_ = await bench.one()
    claimed = await bench.begin()
    _same(await bench.store.undo("w-2", [(id_, _fence(claimed))], now=bench.now), 0, "undone by a stranger")
    _same(await bench.store.undo("w-1", [(id_, _fence(claimed))], now=bench.now), 1, "undone by the holder")
    _holds(not (await bench.life(id_)).row.state.open, "closed by undo")
    _same(await bench.mark(claimed), {id_: 2}, "number of the next attempt")


async def _settled_together(bench: _Bench) -> None:
    """An answer writes state, attempt and outbox in one: sent is told once, and nothing is due any more."""
    id_ = await bench.one()
    claimed = await bench.begin()
    (settled,) = await bench.settle(bench.answer(claimed, ACCEPTED))
    _holds(settled.lease_held, "lease held at settle")
    life = await bench.life(id_)
    _same((life.row.state.status, life.row.state.message_id), (Status.SENT, "m-1"), "(status, message id)")
    _same([attempt.outcome for attempt in life.attempts], ["accepted"], "attempts")
    _same(life.row.lease, None, "lease after the end")
    _same([row.event_id for _, row in await bench.store.outbox()], [f"{id_}.r1"], "events of ours")
    await bench.settle(bench.answer(claimed, ACCEPTED))
    _same(len(await bench.store.outbox()), 1, "events of ours after settling twice")
    _same((await bench.life(id_)).row.state.version, life.row.state.version, "version after settling twice")


async def _late_worker_changes_nothing_newer(bench: _Bench) -> None:
    """Who lost its lease is told so, and its failure decides nothing about the attempt that runs by now."""
    id_ = await bench.one()
    slow = await bench.begin()
    bench.now += LEASE
    await bench.rescue()
    bench.now += WAIT
    await bench.arm()
    fast = await bench.begin("w-2")
    (settled,) = await bench.settle(bench.answer(slow, BUSY))
    _holds(not settled.lease_held, "lease lost by the late worker")
    lease = (await bench.life(id_)).row.lease
    _same(lease and lease.owner, "w-2", "owner after the late answer")
    (settled,) = await bench.settle(bench.answer(fast, ACCEPTED, 2, "w-2"))
    _holds(settled.lease_held, "lease held by the present worker")
    _same(await bench.status(id_), Status.SENT, "status")


async def _late_acceptance_stops_the_next(bench: _Bench) -> None:
    """If the first call did arrive, a second worker that has not begun can not begin any more."""
    id_ = await bench.one()
    slow = await bench.begin()
    bench.now += LEASE
    await bench.rescue()
    bench.now += WAIT
    await bench.arm()
    (second,) = await bench.claim("w-2")
    await bench.settle(bench.answer(slow, ACCEPTED))
    _same(await bench.mark(second, owner="w-2"), {}, "rows that the second worker could begin")
    _same(await bench.status(id_), Status.SENT, "status")


async def _changed_facts_stop_the_mark(bench: _Bench) -> None:
    """What was claimed with older facts is not begun."""
    id_ = await bench.one()
    await bench.begin()
    bench.now += LEASE
    await bench.rescue()
    bench.now += WAIT
    await bench.arm()
    (claimed,) = await bench.claim()
    await bench.settle(Change(id_, LateAnswer(1, BUSY)))
    _same(await bench.mark(claimed), {}, "rows begun with older facts")


async def _rescued_not_begun(bench: _Bench) -> None:
    """A dead worker's row that was not begun is simply due again, and costs no attempt."""
    id_ = await bench.one()
    await bench.claim()
    bench.now += LEASE - 1
    _same(await bench.rescue(), [], "rescued before the lease ends")
    bench.now += 1
    await bench.rescue()
    _same((await bench.life(id_)).row.state.attempts, 0, "attempts")
    _same(len(await bench.claim("w-2")), 1, "rows that are due again")


async def _rescued_begun_is_a_doubt(bench: _Bench) -> None:
    """A dead worker's row that was begun is an unknown attempt, never a row that was not sent."""
    id_ = await bench.one()
    await bench.begin()
    bench.now += LEASE
    _same(len(await bench.rescue()), 1, "rescued")
    life = await bench.life(id_)
    _same(life.row.state.unknown, (1,), "attempts without a verdict")
    _same([attempt.outcome for attempt in life.attempts], ["unknown"], "attempts")
    _same(await bench.rescue(), [], "rescued a second time")


async def _extended_lives_on(bench: _Bench) -> None:
    """An extended lease outlives its first end; nobody extends another's."""
    id_ = await bench.one()
    await bench.claim()
    _same(await bench.store.extend("w-2", LEASE, now=bench.now), set(), "extended by a stranger")
    bench.now += LEASE - 1
    _same(await bench.store.extend("w-1", LEASE, now=bench.now), {id_}, "extended by the holder")
    bench.now += LEASE - 1
    _same(await bench.rescue(), [], "rescued although extended")


async def _cancel_and_mark_meet(bench: _Bench) -> None:
    """Cancelling beats a claim and loses to a mark; both sides are told."""
    first, second = await bench.one("e-1"), await bench.one("e-2")
    claimed = {row.row.id: row for row in await bench.claim()}
    await bench.mark(claimed[second])
    stopped, late = await bench.settle(Change(first, Cancel("ann")), Change(second, Cancel("ann")))
    _same(await bench.status(first), Status.CANCELLED, "status of the claimed one")
    _same(stopped.write is not None and stopped.write.refused, None, "refusal of the claimed one")
    refused = late.write and late.write.refused
    _same(refused and refused.code, "too_late", "refusal of the begun one")
    _same(await bench.mark(claimed[first]), {}, "rows begun after cancelling")


async def _withdrawn_subject_stays_withdrawn(bench: _Bench) -> None:
    """Withdrawing a subject cancels what waits, and what is accepted for it later."""
    id_ = await bench.one("e-1", subject="order:1")
    other = await bench.one("e-2", subject="order:2")
    await bench.store.cancel_subject("", "order:1", bench.engine.decide, now=bench.now)
    later = await bench.one("e-3", subject="order:1")
    _same(await bench.status(id_), Status.CANCELLED, "status of what waited")
    _same(await bench.status(later), Status.CANCELLED, "status of what came later")
    _same([row.row.id for row in await bench.claim()], [other], "rows that are due")


async def _failed_waits_for_the_retry_lease(bench: _Bench) -> None:
    """A failed row becomes claimable when its time has come *and* the holder of the retry lease releases it."""
    id_ = await bench.one()
    await bench.settle(bench.answer(await bench.begin(), BUSY))
    _same(await bench.status(id_), Status.FAILED, "status")
    _same(await bench.arm(), 0, "released before the time")
    bench.now += WAIT
    _same(await bench.claim(), (), "claimable before it is released")
    term = await bench.store.take_lease(RETRY_LEASE, "w-1", SECOND, now=bench.now)
    _same(
        await bench.store.take_lease(RETRY_LEASE, "w-2", SECOND, now=bench.now),
        None,
        "lease of a second holder",
    )
    _same(await bench.store.arm((term or 0) + 1, "w-1", now=bench.now), 0, "released under another term")
    _same(await bench.store.arm(term or 0, "w-1", now=bench.now), 1, "released by the holder")
    _same(len(await bench.claim()), 1, "claimable afterwards")


async def _expired_is_never_begun(bench: _Bench) -> None:
    """What is past its time is not claimed, and the sweep ends it."""
    from datetime import UTC, datetime

    end = bench.now + 3_600 * SECOND
    id_ = await bench.one(expires_at=datetime.fromtimestamp(end / SECOND, UTC).isoformat())
    bench.now = end + SECOND
    _same(await bench.claim(), (), "claimable after its time")
    await bench.store.sweep(bench.engine.decide, max_age={"email": None}, now=bench.now)
    _same(await bench.status(id_), Status.EXPIRED, "status")


async def _proof_drops_older_addresses_only(bench: _Bench) -> None:
    """A dead address is dropped; one value has one owner; registered again it lives again."""
    await bench.store.register("", "ada", "email", "a@example.com", now=bench.now)
    accepted = await bench.accept(
        {"event_id": "e-1", "recipients": ["ada"], "channels": ["email"], "content": {"text": "x"}}
    )
    _same(len(accepted[0].notifications), 1, "notifications")
    bench.now += SECOND
    await bench.settle(bench.answer(await bench.begin(), NOBODY))
    _same(await bench.store.addresses("", "ada"), [], "live addresses after the proof")
    bench.now += SECOND
    await bench.store.register("", "bob", "email", "a@example.com", now=bench.now)
    _same([item.recipient for item in await bench.store.addresses("", "bob")], ["bob"], "owner")
    _same(await bench.store.addresses("", "ada"), [], "live addresses of the former owner")


async def _tenants_apart(bench: _Bench) -> None:
    """One tenant's event id, subject and notifications are nothing to another."""
    mine = await bench.one("e-1", tenant="a", subject="s:1")
    theirs = await bench.one("e-1", tenant="b", subject="s:1")
    await bench.store.cancel_subject("a", "s:1", bench.engine.decide, now=bench.now)
    _same(await bench.status(mine), Status.CANCELLED, "status of the tenant that cancelled")
    _same(await bench.status(theirs), Status.PENDING, "status of the other tenant")
    _same(await bench.store.get(mine, tenant="b"), None, "what another tenant reads")


async def _lanes_share_a_claim(bench: _Bench) -> None:
    """One claim serves the lanes of a channel by weight, and what stops a lane stops no other."""
    for number in range(6):
        await bench.one(f"e-{number}")
        await bench.one(f"t-{number}", tenant=GROUP)
    mine = spell(Lane("email", GROUP))
    _same(sorted(await bench.store.waiting_lanes()), ["email", mine], "lanes in which rows wait")
    _same(await bench.claim_lanes(4), {"email": 2, mine: 2}, "rows of each lane")
    paused = await bench.store.pause([LanePause(mine, "circuit", None, 1)], now=bench.now)
    _same(paused, [mine], "names that were paused")
    _same(await bench.claim_lanes(2), {"email": 2}, "rows of each lane while one is stopped")
    await bench.store.pause([LanePause("email", "auth")], now=bench.now)
    _same(await bench.claim_lanes(2), {}, "rows of each lane while the channel is stopped")
    if not await bench.store.resume("email", now=bench.now):
        raise AssertionError("a channel that was paused could not be resumed")
    _same(
        await bench.claim_lanes(4), {"email": 2, mine: 2}, "rows of each lane after the channel was resumed"
    )


async def _one_row_probes(bench: _Bench) -> None:
    """When the pause of a circuit is over, one row goes out at a time until somebody says that it works."""
    for number in range(4):
        await bench.one(f"e-{number}")
    name = of_group("email", "")
    await bench.store.pause([LanePause(name, "circuit", bench.now + WAIT, 1)], now=bench.now)
    _same(len(await bench.claim()), 0, "rows while the circuit is open")
    bench.now += WAIT
    (probe,) = await bench.claim("w-1")
    _same([(one.name, one.opened) for one in probe.probe], [(name, 1)], "what the row probes")
    _same(len(await bench.claim("w-2")), 0, "rows while one probes")
    again = await bench.store.pause([LanePause(name, "circuit", bench.now + SECOND, 1)], now=bench.now)
    _same(again, [], "names that were paused by somebody who did not probe")
    if not await bench.store.resume(name, below=False, now=bench.now):
        raise AssertionError("a circuit that was open could not be closed")
    _same(len(await bench.claim("w-2")), 3, "rows after the probe")


async def _tokens_are_shared(bench: _Bench) -> None:
    """A rate holds over claims: no more rows come than tokens are there, and tokens come back with time."""
    for number in range(9):
        await bench.one(f"e-{number}")
    rate = Rate(2, SECOND, 4)
    _same(await bench.claim_lanes(3, rate), {"email": 3}, "rows while there are tokens")
    _same(await bench.claim_lanes(3, rate), {"email": 1}, "rows for the last token")
    bench.now += SECOND
    _same(await bench.claim_lanes(9, rate), {"email": 2}, "rows a second later")


_RULES: dict[str, Callable[[_Bench], Awaitable[None]]] = {
    name.strip("_").replace("_", " "): rule
    for name, rule in list(globals().items())
    if inspect.iscoroutinefunction(rule) and name.startswith("_")
}
