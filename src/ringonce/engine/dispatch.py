"""One lane's way: claim -> guard -> mark -> send -> settle, in waves."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringonce.core.machine import exhausted
from ringonce.engine.credentials import Missing
from ringonce.engine.exchange import NO_CALL_LEFT, STORED, attempt_row, build, judge, unread
from ringonce.model.outcome import Outcome
from ringonce.model.policy import OnAuth
from ringonce.model.transition import Answered, Cancel, Expire, Note
from ringonce.ports import Change

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from ringonce.engine.brake import DropBrake, LaneBrake
    from ringonce.engine.channels import Channels, Entry
    from ringonce.engine.credentials import Credentials
    from ringonce.engine.guards import Guards
    from ringonce.engine.settle import Settler
    from ringonce.model.exchange import Answer, Request
    from ringonce.ports import Claimed, Clock, Entropy, Row, Settled, Store, Wire

log = logging.getLogger("ringonce")

POLL_BUSY = 0.02
POLL_IDLE = 1.0
REFRESH = 0.05


@dataclass(slots=True)
class Shared:
    """What the lanes of one worker have in common."""

    owner: str
    store: Store
    wire: Wire
    settler: Settler
    channels: Channels
    guards: Guards
    credentials: Credentials
    drops: DropBrake
    failing: LaneBrake
    clock: Clock
    entropy: Entropy
    refreshed: float = field(default=-1.0)

    async def refresh(self) -> None:
        """Read the channels' overrides anew (lanes that turn within the same 50 ms share one look)."""
        now = self.clock.monotonic()
        if now - self.refreshed >= REFRESH:
            self.refreshed = now
            self.channels.apply(await self.store.overrides())


@dataclass(slots=True)
class Holding:
    """A lease that we know of. ``until``: monotonic time until which it is certainly ours."""

    fence: int
    until: float


@dataclass(frozen=True, slots=True)
class Flight:
    """A call on its way: everything that its answer needs."""

    entry: Entry
    row: Row
    number: int
    started_at: int
    started: float
    credential: str | None = field(default=None, repr=False)


class Lane:
    """Sends what is due on one channel. ``turn`` is called by a Loop; answers come back between turns."""

    def __init__(self, name: str, shared: Shared) -> None:
        """Nothing is claimed before the first turn."""
        self.name = name
        self._shared = shared
        self._ready: deque[Claimed] = deque()
        self._flying: set[tuple[UUID, int]] = set()
        self._undone: dict[UUID, int] = {}
        self._pending: dict[UUID, int] = {}
        self._held: dict[UUID, Holding] = {}
        self._poll = POLL_BUSY
        self._clock_pair = (0, 0.0)
        self._paused = False
        self.wake = _nothing

    @property
    def busy(self) -> bool:
        """Something is under way or held."""
        return bool(self._held)

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
        if self._paused:
            self._paused = False
            self._return_ready()
        if self._undone:
            await self._undo()
        await self._shared.refresh()
        entry = self._shared.channels.get(self.name)
        if entry is None or not entry.channel.enabled:
            await self.give_back()
            return POLL_IDLE
        if not self._ready and (blocked := self._shared.credentials.blocked(entry)):
            return min(POLL_IDLE, blocked / 1_000_000)  # nothing is claimed that could not be sent
        free = self._free(entry)
        if free <= 0:
            return POLL_IDLE  # an answer wakes the loop before
        full = await self._claim(entry, free)
        if self._paused:
            return 0.0  # what was claimed before the pause was known goes back
        held = self._shared.credentials.get(entry, self._woken) if self._ready else None
        if isinstance(held, Missing):
            if held.outcome is not None:
                await self._without(entry, held, held.outcome)
            return POLL_IDLE  # the credential's coming wakes the loop before
        wave = [self._ready.popleft() for _ in range(min(free, len(self._ready)))]
        if not wave or held is None:
            self._poll = min(POLL_IDLE, self._poll * 2)
            return self._poll * (0.5 + self._shared.entropy.jitter())
        self._poll = POLL_BUSY
        await self._wave(entry, wave, held.credential)
        return 0.0 if self._ready or full else POLL_BUSY * self._shared.entropy.jitter()

    async def give_back(self) -> None:
        """Give everything back that led to no call: rows claimed and not begun, marks that were not used."""
        self._return_ready()
        if self._undone:
            await self._undo()

    def _return_ready(self) -> None:
        self._undone.update((claimed.row.id, _fence(claimed.row)) for claimed in self._ready)
        self._ready.clear()

    def _free(self, entry: Entry) -> int:
        limit = 1 if self._shared.failing.probing(self.name) else entry.channel.concurrency
        return limit - len(self._flying)

    async def _claim(self, entry: Entry, free: int) -> bool:
        """Top the ready rows up; True when there may be more where these came from."""
        if len(self._ready) >= free:
            return True
        # A small prefetch keeps the slots full while the next claim is on its way; it is never marked.
        wanted = free + (entry.channel.concurrency if free > 1 else 0) - len(self._ready)
        before = self._shared.clock.monotonic()
        batch = await self._shared.store.claim(self.name, self._shared.owner, wanted, entry.channel.lease)
        self._clock_pair = (batch.now, self._shared.clock.monotonic())
        until = before + entry.channel.lease / 1_000_000
        self._held.update((claimed.row.id, Holding(_fence(claimed.row), until)) for claimed in batch.rows)
        self._ready.extend(batch.rows)
        return len(batch.rows) >= wanted

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
                self._settle_unbegun(claimed.row, Answered(_number(claimed.row), outcome, begun=False))
        leases = {claimed.row.id: _fence(claimed.row) for claimed in rows[told:]}
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
        self._pending = {claimed.row.id: _fence(claimed.row) for claimed in wave}
        try:
            await self._carry(entry, wave, credential)
        finally:
            self._undone.update(self._pending)
            self._pending = {}

    async def _carry(self, entry: Entry, wave: list[Claimed], credential: str | None) -> None:
        now = self._now()
        await self._guard(wave, now)
        requests: dict[UUID, tuple[Claimed, Request]] = {}
        for claimed in wave:
            state = claimed.row.state
            if state.expires_at is not None and state.expires_at <= now:
                self._settle_unbegun(claimed.row, Expire())
                continue
            if claimed.address_changed and claimed.row.address and claimed.row.address.invalidated_at is None:
                self._settle_unbegun(
                    claimed.row, Cancel(by="address", reason="the address has another owner now")
                )
                continue
            if exhausted(state, entry.channel.policy):
                # max_attempts was lowered while the row waited.
                self._settle_unbegun(claimed.row, Answered(_number(claimed.row), NO_CALL_LEFT, begun=False))
                continue
            if entry.provider.stored:
                # It was not due when it was accepted, or its channel was off: now it goes into the inbox.
                self._settle_unbegun(claimed.row, Answered(_number(claimed.row), STORED, begun=False))
                continue
            built = build(entry, claimed, now, self._shared.entropy, credential)
            if isinstance(built, Outcome):
                self._settle_unbegun(claimed.row, Answered(_number(claimed.row), built, begun=False))
            else:
                requests[claimed.row.id] = (claimed, built)
        if requests:
            await self._mark_and_send(entry, requests, credential)

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
                [(claimed.row.id, _fence(claimed.row))],
                due_at=now + wait,
                note=Note("guard_failed", {"subject": claimed.row.subject}),
            )
            self._forget(claimed.row.id, _fence(claimed.row))

    async def _mark_and_send(
        self, entry: Entry, requests: Mapping[UUID, tuple[Claimed, Request]], credential: str | None
    ) -> None:
        """Begin the attempts durably, then hand the requests over in the same tick."""
        shared = self._shared
        rows = [(c.row.id, _fence(c.row), c.row.state.version) for c, _ in requests.values()]
        before = shared.clock.monotonic()
        # When this fails, the mark may have been written and only its reply lost: the wave's end takes it back.
        marked = await shared.store.mark(shared.owner, rows)
        started = shared.clock.monotonic()
        slow = started - before > entry.channel.lease / 2_000_000
        batch: list[tuple[object, Request]] = []
        sent: list[tuple[UUID, int]] = []
        for id_, number in marked.begun.items():
            holding = self._held.get(id_)
            if slow or holding is None or started >= holding.until:
                continue  # not sure that the lease is still ours when the request goes out
            if self._paused:
                continue  # it became known since this turn began
            claimed, request = requests[id_]
            batch.append((Flight(entry, claimed.row, number, marked.now, started, credential), request))
            sent.append((id_, _fence(claimed.row)))
        for id_, subject in marked.cancelled.items():
            self._settle_unbegun(requests[id_][0].row, Cancel(by="subject", reason=subject))
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
                outcome, change = self._verdict(token, answer, ended_at)
            except Exception:
                # One bad answer must not lose the verdicts of those that came with it.
                log.exception("bug: the answer to notification %s could not be judged", token.row.id)
                outcome = unread(token.entry)
                change = self._change(token, outcome, ended_at)
            shared.settler.put(change).add_done_callback(self._landed)
            pause = shared.failing.judge(self.name, outcome, ended_at)
            if pause is not None:
                self._paused = True
                shared.settler.pause(pause)

    def _verdict(self, flight: Flight, answer: Answer, ended_at: int) -> tuple[Outcome, Change]:
        """What the answer means, after the brake and with a refused credential put away."""
        entry, shared = flight.entry, self._shared
        account = f"{entry.channel.name}:{entry.provider.account}"
        outcome = shared.drops.judge(account, judge(entry, flight.row, answer, ended_at))
        change = self._change(flight, outcome, ended_at)
        if outcome.refresh and flight.credential is not None:
            shared.credentials.refused(entry, flight.credential)
        return outcome, change

    def _change(self, flight: Flight, outcome: Outcome, ended_at: int) -> Change:
        row = flight.row
        attempt = attempt_row(
            row,
            flight.number,
            outcome,
            started_at=flight.started_at,
            ended_at=ended_at,
            account=row.account,
        )
        guard = (self._shared.owner, _fence(row))
        return Change(row.id, Answered(flight.number, outcome), guard=guard, attempt=attempt, row=row)

    def _landed(self, future: asyncio.Future[Settled]) -> None:
        if not future.cancelled():
            settled = future.result()
            change, write = settled.change, settled.write
            if write is not None and any(pause.lane == self.name for pause in write.pauses):
                self._paused = True  # what is ready was claimed before, and waits like the rest
            fence = change.guard[1] if change.guard else 0
            self._flying.discard((change.id, fence))
            self._forget(change.id, fence)
            self.wake()

    def _settle_unbegun(self, row: Row, event: Answered | Cancel | Expire) -> None:
        self._pending.pop(row.id, None)
        change = Change(row.id, event, guard=(self._shared.owner, _fence(row)))
        self._shared.settler.put(change).add_done_callback(self._landed)

    def _forget(self, id_: UUID, fence: int) -> None:
        if self._pending.get(id_) == fence:
            del self._pending[id_]
        holding = self._held.get(id_)
        if holding is not None and holding.fence == fence:
            del self._held[id_]

    async def _undo(self) -> None:
        """Take marks back that led to no call, and give the rows back. Tried again until it is done."""
        shared = self._shared
        rows = list(self._undone.items())
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


def _fence(row: Row) -> int:
    return row.lease.fence if row.lease else 0


def _number(row: Row) -> int:
    return (row.lease.attempt if row.lease else 0) + 1
