"""One lane's way: claim -> guard -> mark -> send -> settle, in waves."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringonce.core.lane import parse
from ringonce.engine.credentials import Missing
from ringonce.engine.exchange import attempt_row, build, judge, unread
from ringonce.engine.holding import Holding, fence_of, has_begun, no_call, number_of, recall
from ringonce.model.outcome import Outcome, OutcomeClass
from ringonce.model.policy import OnAuth
from ringonce.model.quick import quick
from ringonce.model.transition import Answered, Cancel, Expire, Note
from ringonce.ports import Change

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from ringonce.engine.channels import Entry
    from ringonce.engine.circuits import Ruling
    from ringonce.engine.common import Shared
    from ringonce.model.exchange import Answer, Request
    from ringonce.model.notification import Content
    from ringonce.ports import Claimed, Invalidation, Probe, Row, Settled, Terms

log = logging.getLogger("ringonce")

POLL_BUSY = 0.02
POLL_IDLE = 1.0
WAVE = 4
"""While more waits than was taken, a claim is for a quarter of the slots: smaller ones cost more transactions, and
with larger ones claim, calls and settle take turns instead of running beside each other."""
SMALL = 50
"""A claim of so many rows is not made smaller for that."""
LOST_FOR = 1.0
"""Seconds for which a claim whose reply was lost may still come to be: what it leased is looked for as long."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A claim that is to be made: of so many rows, on what terms, and whether their attempts begin with it."""

    wanted: int
    terms: Terms | None
    begin: bool


@quick
@dataclass(frozen=True, slots=True)
class Flight:
    """A call on its way: everything that its answer needs."""

    entry: Entry
    row: Row
    content: Content
    number: int
    started_at: int
    started: float
    credential: str | None = field(default=None, repr=False)
    probes: tuple[Probe, ...] = ()


class Lane:
    """Sends what is due on one channel. ``turn`` is called by a Loop; answers come back between turns."""

    def __init__(self, name: str, shared: Shared) -> None:
        """Nothing is claimed before the first turn."""
        self.name = name
        self._shared = shared
        self._ready: deque[Claimed] = deque()
        self._gone: set[Invalidation] = set()
        self._flying: set[tuple[UUID, int]] = set()
        self._undone: dict[UUID, int] = {}
        self._pending: dict[UUID, int] = {}
        self._held: dict[UUID, Holding] = {}
        self._poll = POLL_BUSY
        self._clock_pair = (0, 0.0)
        self._paused = False
        self._full = False
        self._lost: float | None = None
        self._probes: dict[UUID, tuple[Probe, ...]] = {}
        self._wait = POLL_IDLE
        self._coming: asyncio.Task[None] | None = None
        self.wake = _nothing

    @property
    def busy(self) -> bool:
        """Something is under way or held."""
        return bool(self._held)

    @property
    def lost(self) -> bool:
        """A claim may have been done whose reply never came: what it leased is still to be given back."""
        return self._lost is not None

    def leases(self) -> list[tuple[UUID, int]]:
        """(id, fence) of every lease that is to be prolonged: what we forgot, or never heard of, may be rescued."""
        return [(id_, holding.fence) for id_, holding in self._held.items()]

    def extended(self, ids: Collection[UUID], until: float) -> None:
        """These leases have been prolonged."""
        for id_, holding in self._held.items():
            if id_ in ids:
                holding.until = max(holding.until, until)

    async def turn(self) -> float:
        """One wave at most. Returns the seconds to wait before the next."""
        await self._come()
        if self._paused:
            self._paused = False
            self._return_ready()
        if self._undone or self._lost is not None:
            await self._undo()
        entry = self._entry()
        if entry is None:
            await self._shared.refresh()
            entry = self._entry()
        if entry is None:
            await self.give_back()
            return POLL_IDLE
        if not self._ready and (blocked := self._shared.credentials.blocked(entry)):
            return min(POLL_IDLE, blocked / 1_000_000)  # nothing is claimed that could not be sent
        free = entry.channel.concurrency - len(self._flying)
        if free <= 0 or (self._full and self._flying and free * WAVE < entry.channel.concurrency):
            return POLL_IDLE  # an answer wakes the loop before
        if not self._ready:
            await self._claim(entry, self._ask(entry, free))
        entry = self._entry()
        if entry is None or self._paused:
            return 0.0  # what was claimed before this was known goes back
        held = self._shared.credentials.get(entry, self._woken) if self._ready else None
        if isinstance(held, Missing):
            if held.outcome is not None:
                await self._without(entry, held, held.outcome)
            return POLL_IDLE  # the credential's coming wakes the loop before
        wave = [self._ready.popleft() for _ in range(min(free, len(self._ready)))]
        if not wave or held is None:
            self._poll = min(POLL_IDLE, self._poll * 2)
            return min(self._wait, self._poll * (0.5 + self._shared.entropy.jitter()))
        self._poll = POLL_BUSY
        await self._ask_ahead(entry, free - len(wave))
        await self._wave(entry, wave, held.credential)
        return 0.0 if self._ready or self._full else POLL_BUSY * self._shared.entropy.jitter()

    def _entry(self) -> Entry | None:
        """The channel as it is now, if it sends at all."""
        entry = self._shared.channels.way(self.name)
        return entry if entry is not None and entry.channel.enabled else None

    async def _ask_ahead(self, entry: Entry, free: int) -> None:
        """Have the database work on the next claim while this wave is built and sent, if there is room for it."""
        if self._full:
            ask = self._ask(entry, free)
            if ask.wanted * WAVE >= entry.channel.concurrency:
                self._coming = asyncio.get_running_loop().create_task(self._claim(entry, ask))
                await self._shared.clock.sleep(0)  # so that it is on its way

    async def _come(self) -> None:
        """Wait for the claim that is on its way, if one is. Raises what it raised."""
        coming, self._coming = self._coming, None
        if coming is not None:
            await coming

    async def give_back(self) -> None:
        """Give everything back that led to no call: rows claimed and not begun, marks that were not used."""
        await self._come()
        self._return_ready()
        if self._undone or self._lost is not None:
            await self._undo()
        while self._lost is not None:
            await self._shared.clock.sleep(LOST_FOR / 4)
            await self._undo()

    def _return_ready(self) -> None:
        self._undone.update((claimed.row.id, fence_of(claimed.row)) for claimed in self._ready)
        self._ready.clear()

    def _ask(self, entry: Entry, free: int) -> Ask:
        """What the next claim is to be."""
        shared, channel = self._shared, entry.channel
        looks = shared.guards.watching or entry.provider.stored or shared.scopes.of(self.name)
        begin = not looks and shared.credentials.ready(entry)
        terms = shared.traffic.terms(entry, (holding.lane for holding in self._held.values()))
        # A small prefetch keeps the slots full while the next claim is on its way; what has begun is sent at once,
        # unless the channel takes the doubts about a prefetch upon itself.
        # And a token that was taken is for a call that is made now.
        ahead = not (begin and channel.mark) and not (terms is not None and terms.limited)
        most = free + (channel.concurrency if ahead and channel.concurrency > 1 else 0) - len(self._ready)
        wanted = min(most, max(SMALL, channel.concurrency // WAVE)) if self._full else most
        return Ask(wanted, terms, begin=begin)

    async def _claim(self, entry: Entry, ask: Ask) -> None:
        """Top the ready rows up, and begin their attempts in the same breath where nothing stands between."""
        shared, channel, wanted, begin = self._shared, entry.channel, ask.wanted, ask.begin
        before = shared.clock.monotonic()
        try:
            batch = await shared.store.claim(
                self.name,
                shared.owner,
                wanted,
                channel.lease,
                begin=begin,
                terms=ask.terms,
                hold=channel.timeout + channel.lease,
            )
        except BaseException:  # also one that was broken off at its end may have been done
            self._lost = before
            raise
        after = shared.clock.monotonic()
        self._clock_pair = (batch.now, after)
        self._full = len(batch.rows) >= wanted
        self._wait = POLL_IDLE if batch.wait is None else min(POLL_IDLE, batch.wait / 1_000_000)
        shared.traffic.learn(batch)
        until = before + channel.lease / 1_000_000
        for claimed in batch.rows:
            self._held[claimed.row.id] = Holding(fence_of(claimed.row), until, claimed.lane)
            if claimed.probe:
                self._probes[claimed.row.id] = claimed.probe
        if begin and after - before > channel.lease / 2_000_000:
            self._undone.update((claimed.row.id, fence_of(claimed.row)) for claimed in batch.rows)
        else:
            self._ready.extend(batch.rows)
        self._gone -= recall(self._ready, self._undone, self._gone)
        await shared.refresh(batch.stamp)

    def _woken(self) -> None:
        self.wake()

    async def _without(self, entry: Entry, missing: Missing, outcome: Outcome) -> None:
        """Nothing can be sent for want of a credential: no attempt begins, and the rows wait.

        A failure that may pass delays them. A refusal is told to the first one, which pauses the lane and alerts;
        under ``on_auth = fail`` it ends each.
        """
        rows = list(self._ready)
        self._ready.clear()
        told = 0
        if missing.refused:
            told = len(rows) if entry.channel.policy.on_auth is OnAuth.FAIL else 1
            for claimed in rows[:told]:
                self._settle_unbegun(claimed.row, Answered(number_of(claimed.row), outcome, begun=False))
        leases = {claimed.row.id: fence_of(claimed.row) for claimed in rows[told:]}
        self._undone.update(leases)  # should the release fail, they are given back all the same
        passed = missing.until - self._shared.credentials.now()
        await self._shared.store.release(
            self._shared.owner,
            list(leases.items()),
            due_at=None if missing.refused else self._now() + max(0, passed),
            note=Note("credential_failed", {"code": outcome.code, "text": outcome.text}),
        )
        for id_, fence in leases.items():
            del self._undone[id_]
            self._forget(id_, fence)

    async def _wave(self, entry: Entry, wave: list[Claimed], credential: str | None) -> None:
        """Send a wave. Whatever goes wrong on the way, each of its rows ends in the air, settled or given back."""
        self._pending = {claimed.row.id: fence_of(claimed.row) for claimed in wave}
        try:
            await self._carry(entry, wave, credential)
        finally:
            self._undone.update(self._pending)
            self._pending = {}

    async def _carry(self, entry: Entry, wave: list[Claimed], credential: str | None) -> None:
        shared, now = self._shared, self._now()
        if shared.scopes.of(self.name):
            for id_, fence in await shared.scopes.set_aside(shared.store, shared.owner, entry, wave):
                self._forget(id_, fence)
        if shared.guards.watching:
            await self._guard(wave, now)
        begun: list[tuple[Claimed, Request]] = []
        others: dict[UUID, tuple[Claimed, Request]] = {}
        ended: list[tuple[Row, Answered | Cancel | Expire]] = []
        for claimed in wave:
            row = claimed.row
            event = no_call(entry, claimed, now)
            if event is not None:
                ended.append((row, event))
                continue
            built = build(entry, claimed, now, self._shared.entropy, credential)
            if isinstance(built, Outcome):
                ended.append((row, Answered(number_of(row), built, begun=False)))
            elif has_begun(row):
                begun.append((claimed, built))
            else:
                others[row.id] = (claimed, built)
        if begun:
            self._send(entry, begun, credential)
        if others:
            await self._mark_and_send(entry, others, credential)
        if marks := [(row.id, fence_of(row)) for row, _ in ended if has_begun(row)]:
            await self._shared.store.undo(self._shared.owner, marks)
        for row, event in ended:
            self._settle_unbegun(row, event)

    def _now(self) -> int:
        """The store's time: that of the last claim and what has passed since."""
        then, monotonic = self._clock_pair
        return then + int((self._shared.clock.monotonic() - monotonic) * 1_000_000)

    async def _guard(self, wave: list[Claimed], now: int) -> None:
        """Take out of the wave what is not wanted or could not be asked about."""
        answer = await self._shared.guards.ask(wave, now)
        wave[:] = answer.wanted
        for claimed in answer.withdrawn:
            self._settle_unbegun(claimed.row, Cancel(by="guard", reason=claimed.row.subject or ""))
        for claimed, wait in answer.unasked:
            await self._shared.store.release(
                self._shared.owner,
                [(claimed.row.id, fence_of(claimed.row))],
                due_at=now + wait,
                note=Note("guard_failed", {"subject": claimed.row.subject}),
            )
            self._forget(claimed.row.id, fence_of(claimed.row))

    async def _mark_and_send(
        self, entry: Entry, requests: Mapping[UUID, tuple[Claimed, Request]], credential: str | None
    ) -> None:
        """Begin the attempts durably, then hand the requests over in the same tick."""
        shared = self._shared
        rows = [(c.row.id, fence_of(c.row), c.row.state.version) for c, _ in requests.values()]
        before = shared.clock.monotonic()
        # When this fails, the mark may have been written and only its reply lost: the wave's end takes it back.
        marked = await shared.store.mark(shared.owner, rows)
        self._clock_pair = (marked.now, shared.clock.monotonic())
        if self._clock_pair[1] - before <= entry.channel.lease / 2_000_000:
            begun = [requests[id_] for id_ in marked.begun]
            self._send(entry, begun, credential, marked.begun)
        for id_, subject in marked.cancelled.items():
            self._settle_unbegun(requests[id_][0].row, Cancel(by="subject", reason=subject))

    def _send(
        self,
        entry: Entry,
        begun: Sequence[tuple[Claimed, Request]],
        credential: str | None,
        numbers: Mapping[UUID, int] | None = None,
    ) -> None:
        """Hand over what has durably begun and is certainly still ours; the wave's end takes back the rest."""
        shared = self._shared
        started, started_at = shared.clock.monotonic(), self._now()
        batch: list[tuple[object, Request]] = []
        sent: list[tuple[UUID, int]] = []
        for claimed, request in begun:
            row = claimed.row
            holding = self._held.get(row.id)
            if holding is None or started >= holding.until or self._paused:
                continue
            number = number_of(row) if numbers is None else numbers[row.id]
            probes = self._probes.get(row.id, ())
            flight = Flight(entry, row, claimed.content, number, started_at, started, credential, probes)
            batch.append((flight, request))
            sent.append((row.id, fence_of(row)))
        if batch:
            # A wire that raises has taken none of them: the wave's end takes their marks back.
            shared.wire.submit(batch, self.deliver)
        self._flying.update(sent)
        for id_, _ in sent:
            del self._pending[id_]

    def deliver(self, answers: Sequence[tuple[object, Answer]]) -> None:
        """Answers from the wire: classify each and hand it to the group commit. The slot frees with its commit."""
        shared = self._shared
        now = shared.clock.monotonic()
        for token, answer in answers:
            if not isinstance(token, Flight):  # pragma: no cover - the wire returns what it was given
                continue
            ended_at = token.started_at + int((now - token.started) * 1_000_000)
            try:
                ruling, change = self._judged(token, self._verdict(token, answer, ended_at), ended_at)
            except Exception:
                # One bad answer must not lose the verdicts of those that came with it.
                log.exception("bug: the answer to notification %s could not be judged", token.row.id)
                ruling, change = self._judged(token, unread(token.entry), ended_at)
            self._probes.pop(token.row.id, None)
            shared.settler.put(change, self._landed)
            if ruling.pauses or ruling.resumes:
                self._paused = self._paused or bool(ruling.pauses)
                shared.settler.rule(ruling)

    def _verdict(self, flight: Flight, answer: Answer, ended_at: int) -> Outcome:
        """What the answer means, counted where it is accepted, and with a refused credential put away."""
        entry, row, shared = flight.entry, flight.row, self._shared
        outcome = judge(entry, row, answer, ended_at)
        if outcome.cls is OutcomeClass.ACCEPTED:
            shared.witness.accepted(entry.channel)
        stale = flight.credential if outcome.refresh else None
        if stale is not None and (known := shared.credentials.refused(entry, stale)) is not None:
            shared.settler.refuse(known, shared.channels.sharing(entry))
        outcome = shared.scopes.located(entry, flight.content, row.address, outcome)
        address = 0 if row.address is None else row.address.id
        return shared.traffic.limits.judge(self.name, address, outcome, ended_at)

    def _judged(self, flight: Flight, outcome: Outcome, ended_at: int) -> tuple[Ruling, Change]:
        """What it means for the lanes, and for the notification."""
        row, entry = flight.row, flight.entry
        attempt = attempt_row(
            row,
            flight.number,
            outcome,
            started_at=flight.started_at,
            ended_at=ended_at,
            account=entry.account if entry.ways or entry.channel.way_of else row.account,
        )
        ruling = self._shared.traffic.judge(
            entry, row.tenant, outcome, flight.started_at, ended_at, flight.probes
        )
        event = Answered(flight.number, outcome, excused=ruling.excused)
        guard = (self._shared.owner, fence_of(row))
        return ruling, Change(row.id, event, guard=guard, attempt=attempt, row=row, way=self.name)

    def _landed(self, settled: Settled) -> None:
        change, write = settled.change, settled.write
        if write is not None and write.invalidate:
            gone = recall(self._ready, self._undone, write.invalidate)
            self._gone |= gone if self._coming else set()  # a claim on its way may have read them before
        self._shared.scopes.began(settled.began)
        if write is not None and any(not parse(pause.lane).scope for pause in write.pauses):
            self._paused = True  # what is ready was claimed before, and waits like the rest
        fence = change.guard[1] if change.guard else 0
        self._flying.discard((change.id, fence))
        self._forget(change.id, fence)
        self.wake()

    def _settle_unbegun(self, row: Row, event: Answered | Cancel | Expire) -> None:
        self._pending.pop(row.id, None)
        if isinstance(event, Answered):
            self._probes.pop(row.id, None)  # an answer of a kind: the table has said what follows
        change = Change(row.id, event, guard=(self._shared.owner, fence_of(row)), way=self.name)
        self._shared.settler.put(change, self._landed)

    def _forget(self, id_: UUID, fence: int) -> None:
        if self._pending.get(id_) == fence:
            del self._pending[id_]
        holding = self._held.get(id_)
        if holding is not None and holding.fence == fence:
            del self._held[id_]
            if probes := self._probes.pop(id_, ()):
                self._shared.settler.probe_again(probe.name for probe in probes)

    async def _undo(self) -> None:
        """Take marks back that led to no call, and give the rows back. Tried again until it is done."""
        shared = self._shared
        if self._lost is not None:
            at = shared.clock.monotonic()
            await shared.store.give_up(shared.owner, self.name, list(self._held))
            if at - self._lost >= LOST_FOR:
                self._lost = None
        rows = list(self._undone.items())
        if not rows:
            return
        await shared.store.undo(shared.owner, rows)
        if await shared.store.release(shared.owner, rows) < len(rows):
            # A mark whose reply was lost may have been written between the two; a lease may also be gone.
            await shared.store.undo(shared.owner, rows)
            await shared.store.release(shared.owner, rows)
        for id_, fence in rows:
            if self._undone.get(id_) == fence:
                del self._undone[id_]
            self._forget(id_, fence)


def _nothing() -> None:
    """Nobody waits for this lane yet."""
