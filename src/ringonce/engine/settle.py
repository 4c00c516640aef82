"""Steps lowered to writes, and the group commit that carries them to the store.

This is the only place where effects are interpreted, and the only way in which a notification changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, assert_never

from ringonce.core.failures import failure_of
from ringonce.core.lane import Lane, of_account, spell
from ringonce.core.looking import decided, told
from ringonce.core.machine import NEW, step
from ringonce.core.outbox import outbox_row
from ringonce.core.scope import apart
from ringonce.engine import ways
from ringonce.engine.stops import Stops
from ringonce.engine.traffic import lane_of
from ringonce.engine.witness import Witness, credential_of
from ringonce.errors import StoreError
from ringonce.model.notification import Status
from ringonce.model.policy import Policy
from ringonce.model.proposals import MASS_INVALIDATION
from ringonce.model.transition import (
    Alert,
    Answered,
    Audit,
    Emit,
    Enqueued,
    Invalidate,
    LateAnswer,
    LookedUp,
    Lookup,
    Pause,
    Read,
    Receipt,
    Refusal,
    Send,
    Step,
    TransitionEvent,
    Verdict,
    WakeAt,
)
from ringonce.ports import Change, Due, Invalidation, LanePause, OutboxRow, Row, Settled, Write

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence

    from ringonce.engine.channels import Channels, Entry
    from ringonce.engine.circuits import Ruling
    from ringonce.model.audit import Failure, FailureCount
    from ringonce.model.transition import Discard, Retry
    from ringonce.ports import AttemptRow, Clock, Entropy, Store, Telemetry

    Landed = Callable[[Settled], None]

log = logging.getLogger("ringonce")

T = TypeVar("T")

LARGEST_BATCH = 500
FALLBACK_POLICY = Policy()
OF_THE_ACCOUNT = frozenset({"auth", "rate_limited", MASS_INVALIDATION})
"""Why every channel that shares the credentials is paused, and not only the one that heard it."""
ALERT = "ringonce.alert"
"""The type of the notifications that alerts become."""
END_KINDS = frozenset({"exhausted", "worker_crash"})
"""Alerts about the end of one notification; those of an audited type are each told by themselves."""
OF_A_PAUSE = frozenset({"auth", "scope_paused"})
"""Alerts that tell of a pause: given when it begins, however many calls were under way and met it."""
NOT_OURS = Refusal("lease_lost", "another worker asks the provider by now")
RETRY_FIRST = 0.05
RETRY_LAST = 2.0


class Decider:
    """``ports.Decide``: what a change means for a row, by the policy its channel has right now."""

    def __init__(
        self,
        channels: Channels,
        entropy: Entropy,
        wanted: Callable[[str], bool],
        audited: Collection[str] = frozenset(),
        witness: Witness | None = None,
    ) -> None:
        """Channels may change at any time; each decision reads them anew.

        ``wanted``: which kinds of our own events. ``audited``: event types whose definitive failures leave a row.
        ``witness``: what this process has seen accepted.
        """
        self._channels = channels
        self._entropy = entropy
        self._wanted = wanted
        self._witness = witness or Witness("")
        self._audited = audited

    def __call__(self, row: Row, change: Change, lease_held: bool, now: int) -> Write:  # noqa: FBT001 - ports.Decide
        """Step the row through the table and lower the effects."""
        event = change.event
        if isinstance(event, Read) and row.read_at is not None:
            return Write(row.state, changed=False)  # the first time counts
        if isinstance(event, Answered) and change.guard is not None and not lease_held:
            if not event.begun:
                return Write(row.state, changed=False)
            event = LateAnswer(event.attempt, event.outcome)
        elif isinstance(event, LookedUp) and not lease_held:
            if decided(event) is not Verdict.SENT:
                return Write(row.state, changed=False, refused=NOT_OURS)
            event = LateAnswer(event.attempt, told(event))
        if self._channels.several:
            event = ways.seen(event, self._channels.get(row.channel), row, change)
        return self.lower(row, change, event, self.step(row, event, now))

    def step(self, row: Row, event: TransitionEvent, now: int) -> Step:
        """One step by the channel's policy; a channel that is no longer configured has the defaults."""
        entry = self._channels.get(row.channel)
        policy = FALLBACK_POLICY if entry is None else entry.channel.policy
        return step(row.state, event, now, self._entropy.jitter(), policy)

    def foresee(self, failures: FailureCount, event: Retry | Discard, now: int) -> Refusal | None:
        """Why a person's decision about such failures would be refused; None: it would not."""
        failed = step(NEW, Enqueued(now, invalid=failures.code), now, 0.0, FALLBACK_POLICY).state
        unknown = (1,) if failures.doubtful else ()
        state = replace(failed, unknown=unknown, expires_at=now if failures.expired else None)
        return step(state, event, now, 0.0, FALLBACK_POLICY).refused

    def lower(self, row: Row, change: Change, event: TransitionEvent, result: Step) -> Write:
        """Turn the effects into what the store persists."""
        entry = self._channels.way(change.way or row.channel)
        due: Due | None = None
        outbox: list[OutboxRow] = []
        invalidate: list[Invalidation] = []
        pauses: list[LanePause] = []
        alerts: list[tuple[str, str]] = []
        failure: Failure | None = None
        for effect in result.effects:
            match effect:
                case Send(due_at, armed):
                    due = Due("send", due_at, armed, self._lane(row, change, event, result))
                case Lookup(due_at):
                    due = Due("lookup", due_at)
                case WakeAt(hold_until):
                    due = Due("hold", hold_until)
                case Emit(kind):
                    if self._wanted(kind):
                        outbox.append(outbox_row(row.id, row.tenant, row.channel, effect, result.state))
                case Invalidate():
                    invalidate.extend(self._against(row, change, effect))
                case Pause(scope, reason, until):
                    pauses.append(
                        LanePause(self._stop(change.way or row.channel, scope, reason), reason, until)
                    )
                case Alert(kind, text):
                    alerts.append((kind, text))
                case Audit():
                    if row.event_type in self._audited:
                        failure = failure_of(row.id, row.event_type, result.state)
                case _:
                    assert_never(effect)
        return Write(
            state=result.state,
            changed=result.state.version != row.state.version,
            due=due,
            attempt=self._asked(row, change),
            notes=result.notes,
            outbox=tuple(outbox),
            invalidate=tuple(invalidate),
            pauses=tuple(pauses),
            refused=result.refused,
            alerts=tuple(alerts),
            counters=("late_answers",) if isinstance(event, LateAnswer) else (),
            stored=_is_stored(entry, row, result),
            read=isinstance(event, Read) or (isinstance(event, Receipt) and event.kind == "read"),
            # Most name our reference, and then nothing is looked for.
            named=_named(entry, change, event) if entry is not None and entry.provider.receipts_by else None,
            failure=failure,
        )

    def _against(self, row: Row, change: Change, effect: Invalidate) -> Iterator[Invalidation]:
        """The verdict is about the address that was called, wherever the notification goes by now."""
        address = row.address if change.row is None else change.row.address
        if address is None:
            return
        entry = self._channels.way(change.way or row.channel)
        by = None if entry is None else credential_of(entry.channel)
        weighed = None
        if entry is not None and effect.replace_with is None and not effect.doubted:
            weighed = self._witness.proposal(entry.channel)
        proof = _proof(change, effect.proof_at)
        told = (effect.reason, proof, effect.replace_with)
        yield Invalidation(address.id, address.value, *told, by, weighed, effect.doubted)

    def _asked(self, row: Row, change: Change) -> AttemptRow | None:
        """The call that it tells of, with who was asked where several could be."""
        entry = self._channels.get(row.channel) if self._channels.several else None
        return (
            change.attempt
            if entry is None or not entry.ways
            else ways.asked(self._channels, entry, change.attempt)
        )

    def _lane(self, row: Row, change: Change, event: TransitionEvent, result: Step) -> str | None:
        """Where it waits: in the lane of its tenant group, or in that of the part of the provider that refused it."""
        scopes = [effect.scope for effect in result.effects if isinstance(effect, Pause)]
        own = next((scope for scope in scopes if apart(scope)), "")
        entry = self._channels.get(row.channel)
        if entry is not None and entry.ways:
            doubt = bool(result.state.unknown)
            return ways.lane_after(self._channels, entry, row, change, event, doubt=doubt)
        return lane_of(entry, row.channel, row.tenant, own)

    def _stop(self, channel: str, scope: str, reason: str) -> str:
        """What a pause stops: a part of the provider, or the channel with all that share its credentials."""
        entry = self._channels.way(channel)
        if apart(scope):
            return spell(Lane(channel, "", scope))
        if scope == "sender":  # who speaks is a setting of the channel, whatever it shares
            return channel
        shared = entry is not None and entry.channel.account
        return of_account(shared) if shared and reason in OF_THE_ACCOUNT else channel


def _is_stored(entry: Entry | None, row: Row, result: Step) -> bool:
    """It has just become a copy in the recipient's inbox."""
    stored = entry is not None and entry.provider.stored
    return stored and result.state.status is Status.SENT and row.state.status is not Status.SENT


def _named(entry: Entry, change: Change, event: TransitionEvent) -> tuple[str, str, int] | None:
    """Under which id the provider will report on it, where it will not name our reference."""
    attempt = change.attempt
    if entry.provider.receipts_by != "message_id" or attempt is None or attempt.message_id is None:
        return None
    account = entry.channel.account or entry.provider.account
    return (account, attempt.message_id, attempt.number) if isinstance(event, Answered | LateAnswer) else None


def _proof(change: Change | None, told: int | None) -> int | None:
    """What an answer proves was so when the call began: who registered since then may be alive."""
    if told is None and change is not None and change.attempt is not None:
        return change.attempt.started_at
    return told


class Settler:
    """Group commit: what is there when the last flush returns, at most 500 changes a transaction.

    While the database can not be written the *write* is tried again, for as long as it takes; nothing is ever
    sent again because a result could not be stored.
    """

    def __init__(
        self, store: Store, decide: Decider, *, clock: Clock, entropy: Entropy, telemetry: Telemetry
    ) -> None:
        """Nothing runs before ``start``."""
        self._store = store
        self._decide = decide
        self._clock = clock
        self._entropy = entropy
        self._telemetry = telemetry
        self._waiting: deque[tuple[Change, Landed]] = deque()
        self._stops = Stops()
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; must be called inside the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="ringonce-settle")

    async def stop(self) -> None:
        """Write everything that is waiting, then end."""
        try:
            await self._idle.wait()
        finally:
            if self._task is not None:
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)
                self._task = None

    @property
    def idle(self) -> bool:
        """Everything handed over is committed."""
        return self._idle.is_set()

    def put(self, change: Change, landed: Landed) -> None:
        """Hand a change over; ``landed`` is called when it is committed."""
        self._waiting.append((change, landed))
        self._idle.clear()
        self._more.set()

    def rule(self, ruling: Ruling) -> None:
        """Pause and resume lanes just before the next flush."""
        self._stops.add(ruling)
        self._more.set()

    def refuse(self, credential: tuple[str, int], channels: Iterable[str]) -> None:
        """Tell all workers that a credential is refused, before the rows that met it are due again."""
        self._stops.refused[credential] = tuple(channels)
        self._more.set()

    def probe_again(self, names: Iterable[str]) -> None:
        """Probes led to no call."""
        self._stops.again.extend(names)
        self._more.set()

    async def _run(self) -> None:
        while True:
            await self._more.wait()
            # One turn of the loop lets everything that arrived together go together.
            await self._clock.sleep(0)
            batch = [self._waiting.popleft() for _ in range(min(LARGEST_BATCH, len(self._waiting)))]
            if not self._waiting:
                self._more.clear()
            if self._stops:  # before the results: with their commit slots become free
                stops, self._stops = self._stops, Stops()
                try:
                    await self._until_written(partial(stops.carry_out, self._store, self._telemetry))
                except Exception:
                    log.exception("bug: lanes can not be paused")
                    self._telemetry.alert("bug", "lanes can not be paused, see the log")
            if batch:
                await self._flush(batch)
            if not self._waiting:
                self._idle.set()

    async def _flush(self, batch: Sequence[tuple[Change, Landed]]) -> None:
        changes = [change for change, _ in batch]
        try:
            settled = await self._until_written(lambda: self._store.settle(changes, self._decide))
        except Exception:
            # A bug must not stop the results of others from being written: each goes by itself, and what can
            # not be written at all is rescued when its lease has run out.
            if len(batch) > 1:
                for one in batch:
                    await self._flush([one])
                return
            log.exception("bug: the result of notification %s can not be written", changes[0].id)
            self._telemetry.alert(
                "bug", f"notification {changes[0].id}: its result can not be written, see the log"
            )
            settled = [Settled(changes[0], None, None)]
        report(self._telemetry, *settled)
        for (_, landed), result in zip(batch, settled, strict=True):
            landed(result)

    async def _until_written(self, write: Callable[[], Awaitable[T]]) -> T:
        wait = RETRY_FIRST
        failing = False
        while True:
            try:
                result = await write()
            except StoreError as error:
                if not failing:
                    failing = True
                    self._telemetry.alert("store_unavailable", f"results wait to be written: {error}")
                await self._clock.sleep(wait * (0.5 + self._entropy.jitter()))
                wait = min(RETRY_LAST, wait * 2)
            else:
                if failing:
                    log.info("results are written again")
                return result


def report(telemetry: Telemetry, *settled: Settled) -> None:
    """Tell metrics and people what committed changes led to; like facts are counted together."""
    ends: Counter[tuple[str, str, Status]] = Counter()
    retried: Counter[tuple[str, str]] = Counter()
    alerts: dict[tuple[str, str, str, str], list[str]] = {}
    for one in settled:
        row, write = one.row, one.write
        if row is None or write is None:
            continue
        channel, tenant = row.channel, row.tenant
        for event in write.outbox:
            telemetry.tell(event)
        if write.alerts or (row.event_type == ALERT and write.changed):
            _alert(telemetry, row, one, write, alerts)
        if write.changed:
            status = write.state.status
            ends[channel, tenant, status] += 1
            if row.state.attempts and status is Status.SENT and row.state.status is Status.FAILED:
                retried[channel, tenant] += 1
        for name in write.counters:
            telemetry.count(f"ringonce_{name}_total", channel=channel, tenant=tenant)
        for verdict in write.invalidate:
            what = "quarantined" if verdict.doubted else "moved" if verdict.replace_with else "dropped"
            telemetry.count("ringonce_address_verdicts_total", channel=channel, verdict=what)
    for (kind, channel, tenant, code), texts in alerts.items():
        telemetry.alert(kind, texts[-1], len(texts), channel=channel, tenant=tenant, code=code)
    for (channel, tenant, status), count in ends.items():
        telemetry.count(
            "ringonce_status_changes_total", count, status=status.value, channel=channel, tenant=tenant
        )
    for (channel, tenant), count in retried.items():
        telemetry.count("ringonce_retry_sent_total", count, channel=channel, tenant=tenant)


def _alert(
    telemetry: Telemetry,
    row: Row,
    settled: Settled,
    write: Write,
    alike: dict[tuple[str, str, str, str], list[str]],
) -> None:
    """Raise what tells of one notification, and collect what is told of many together.

    The end of an alert's own notification is never an alert of its kind, or it would lead to the next one.
    """
    state, channel, tenant = write.state, row.channel, row.tenant
    code = state.last_error.code if state.last_error is not None else ""
    if row.event_type == ALERT and write.changed and state.status is Status.FAILED and state.final:
        telemetry.alert("alert_failed", f"an alert was not delivered: {code}", channel=channel, code=code)
    for kind, text in write.alerts:
        if kind in OF_A_PAUSE and write.pauses and not settled.began:
            continue
        if kind not in END_KINDS:
            alike.setdefault((kind, channel, tenant, code), []).append(text)
        elif row.event_type == ALERT:
            continue
        elif write.failure is not None:
            telemetry.alert(
                "priority_failed",
                f"{row.event_type}: {text}",
                channel=channel,
                tenant=tenant,
                code=code,
                notification=str(row.id),
            )
        else:
            alike.setdefault((kind, channel, tenant, code), []).append(text)
