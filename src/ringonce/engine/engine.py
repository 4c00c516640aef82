"""The engine: everything that can be asked of it, by an application, an API, a command line or a worker."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringonce.core.journal import body_hash, canonical, event_key
from ringonce.engine.accepting import Accepting
from ringonce.engine.arrival import read
from ringonce.engine.contract import check_texts, decode, encode_event, load, make, refuse_old
from ringonce.engine.expand import Planning
from ringonce.engine.inbox import Inbox
from ringonce.engine.receipts import Receipts
from ringonce.engine.settle import Decider, report
from ringonce.engine.witness import Witness
from ringonce.errors import ConflictError, InputError, NotFoundError
from ringonce.model.draft import DraftModes, DraftQuery
from ringonce.model.policy import SECOND
from ringonce.model.retention import Retention
from ringonce.model.transition import Cancel, Resolve, Retry, Verdict
from ringonce.ports import Change, NewEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from uuid import UUID

    from ringonce.engine.channels import Channels
    from ringonce.model.event import Event
    from ringonce.model.notification import Address
    from ringonce.model.transition import TransitionEvent
    from ringonce.ports import (
        Accepted,
        Clock,
        Entropy,
        Guard,
        Settled,
        Store,
        Telemetry,
        Templates,
        Wakeup,
        Wire,
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """``cycle`` in microseconds, ``grace``, ``oldest_snapshot``, ``stuck`` in seconds, ``max_payload`` in bytes.

    ``outbox``: the kinds of our own events that are published; None: all. ``audited``: the event types whose
    definitive failures are written to the audit.
    """

    cycle: int = SECOND
    grace: float = 30.0
    max_payload: int = 262_144
    outbox: frozenset[str] | None = None
    keep: Retention = field(default_factory=Retention)
    drafts: DraftModes = field(default_factory=DraftModes)
    oldest_snapshot: float | None = 30.0
    share_credentials: bool = True
    audited: frozenset[str] = frozenset()
    stuck: float | None = 900.0


def _quiet() -> bool:
    return False


@dataclass(slots=True)
class Engine:
    """Ports in, ports out: composed by ``app``, driven by everything above."""

    store: Store
    wire: Wire
    clock: Clock
    entropy: Entropy
    telemetry: Telemetry
    channels: Channels
    guards: Mapping[str, Guard] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    templates: Templates | None = None
    wakeup: Wakeup | None = None
    alarming: Callable[[], bool] = _quiet
    """Alerts were raised that are to become notifications now."""
    _listeners: list[Callable[[Collection[str]], None]] = field(default_factory=list)
    _inbox: Inbox | None = None
    _accepting: Accepting | None = None
    _witness: Witness | None = None
    _receipts: Receipts | None = None

    @property
    def witness(self) -> Witness:
        """What this process has seen accepted."""
        if self._witness is None:
            self._witness = Witness(self.entropy.token())
        return self._witness

    @property
    def receipts(self) -> Receipts:
        """What providers report later."""
        if self._receipts is None:
            self._receipts = Receipts(self)
        return self._receipts

    @property
    def inbox(self) -> Inbox:
        """What people do with their in-app copies."""
        if self._inbox is None:
            self._inbox = Inbox(self)
        return self._inbox

    @property
    def decide(self) -> Decider:
        """Steps through the table by the channels' present policies."""
        return Decider(self.channels, self.entropy, self._wanted, self.settings.audited, self.witness)

    def _wanted(self, kind: str) -> bool:
        """Somebody reads such events of ours: a bus, or this program."""
        published = self.settings.outbox
        return published is None or kind in published or self.telemetry.heard

    @property
    def plan(self) -> Planning:
        """The rules of expansion by the channels' present switches."""
        self._refresh()
        return Planning(self.channels, self.entropy, self.decide, self.templates, self.telemetry)

    def _refresh(self) -> None:
        """Changed templates count from the next event on."""
        if self.templates is not None:
            self.templates.refresh()

    # --- accepting ---

    def prepare(self, body: bytes | Mapping[str, object], *, tenant: str | None = None) -> NewEvent:
        """Check one body. ``tenant``: the caller's own, which the body may not contradict.

        Raises InputError naming the field, PayloadTooLarge.
        """
        self._refresh()
        return self._prepared(body, tenant)

    def _prepared(self, body: bytes | Mapping[str, object], tenant: str | None) -> NewEvent:
        known = read(body, self.settings.max_payload)
        if known is None:
            return self._examined(body, tenant)
        right, whole = known
        id_ = None if right.event_id else str(self.entropy.uuid7())
        return self._kept(make(right, id_, tenant, self.channels, self.templates), whole)

    def _examined(self, body: bytes | Mapping[str, object], tenant: str | None) -> NewEvent:
        """The long way, which names what is wrong."""
        value = load(body, self.settings.max_payload) if isinstance(body, bytes) else body
        try:
            whole = canonical(value)
        except (TypeError, ValueError) as error:
            check_texts(value)
            raise InputError(f"not JSON: {error}", mend="use texts, numbers, lists and mappings") from None
        if len(whole) > self.settings.max_payload:
            return self._examined(whole, tenant)
        event = decode(value, str(self.entropy.uuid7()), tenant, self.channels, self.templates)
        return self._kept(event, whole)

    def _kept(self, event: Event, whole: bytes) -> NewEvent:
        refuse_old(event, self.settings.keep.journal, self.clock.now())
        return NewEvent(event, event_key(event.tenant, event.event_id), body_hash(whole), encode_event(event))

    async def accept(
        self, bodies: Sequence[bytes | Mapping[str, object]], *, tenant: str | None = None
    ) -> list[Accepted]:
        """Check all, then store all in one transaction. Raises InputError for the first bad one, with its index."""
        events = []
        self._refresh()
        for index, body in enumerate(bodies):
            try:
                events.append(self._prepared(body, tenant))
            except InputError as error:
                if len(bodies) > 1:
                    error.field = f"[{index}].{error.field}" if error.field else f"[{index}]"
                raise
        return await self.accept_prepared(events)

    async def accept_prepared(self, events: Sequence[NewEvent]) -> list[Accepted]:
        """Store what ``prepare`` has checked, in one transaction; then workers wake up."""
        if not events:
            return []
        await self.channels.refresh(self.store, self.clock)
        if self._accepting is None:
            self._accepting = Accepting(self._store_events)
        accepted = await self._accepting.put(events)
        verdicts = Counter(
            "conflict" if item.conflict else "duplicate" if item.duplicate else "new" for item in accepted
        )
        for verdict, count in verdicts.items():
            self.telemetry.count("ringonce_events_total", count, verdict=verdict)
        return accepted

    async def accept_own(self, event: NewEvent) -> Accepted:
        """Store an event of ours. That others had it before, with other words, is nobody's mistake, nor counted."""
        return (await self._store_events([event]))[0]

    async def _store_events(self, events: Sequence[NewEvent]) -> list[Accepted]:
        planning = self.plan
        accepted = await self.store.accept(events, planning, self.decide)
        planning.tell_new(self.telemetry, accepted)
        self._accepted(accepted)
        return accepted

    def _accepted(self, accepted: Sequence[Accepted]) -> None:
        """Wake the lanes that got something to send; all, and who expands, where an event is not at its end."""
        new = [item for item in accepted if not item.duplicate and not item.conflict]
        made = [one for item in new for one in item.notifications]
        if any(item.expanding for item in new):
            self.notify_workers()
        elif made:
            # In this process also those who show inboxes, whose copies nobody has to send.
            self.woken({one.channel for one in made})
            channels = {one.channel for one in made if not one.final}
            if channels and self.wakeup is not None:
                self.wakeup.hint(channels)

    # --- by a person ---

    async def cancel(self, id_: UUID, *, by: str, tenant: str | None = None) -> Settled:
        """Stop one notification. Raises NotFoundError; ConflictError: too late, or it has ended already."""
        return await self._by_person(id_, Cancel(by=by), tenant)

    async def retry(self, id_: UUID, *, by: str, force: bool = False, tenant: str | None = None) -> Settled:
        """Send a failed or doubtful one again; a reply that is sent never. Raises NotFoundError, ConflictError."""
        reply = force and bool(await self.store.drafts(DraftQuery(id=id_)))
        return await self._by_person(id_, Retry(by=by, force=force, reply=reply), tenant)

    async def resolve(self, id_: UUID, verdict: Verdict, *, by: str, tenant: str | None = None) -> Settled:
        """Decide a doubt. Raises NotFoundError, ConflictError."""
        return await self._by_person(id_, Resolve(verdict, by=by), tenant)

    async def cancel_subject(self, subject: str, *, tenant: str = "", by: str = "") -> list[Settled]:
        """Withdraw a subject: nothing of it will be begun any more; what was begun says so in its refusal."""
        settled = await self.store.cancel_subject(tenant, subject, self.decide, by=by)
        for item in settled:
            report(self.telemetry, item)
        return settled

    async def _by_person(self, id_: UUID, event: TransitionEvent, tenant: str | None) -> Settled:
        if tenant is not None and await self.store.get(id_, tenant=tenant) is None:
            raise NotFoundError(f"no notification {id_}")
        settled = (await self.store.settle([Change(id_, event)], self.decide))[0]
        if settled.row is None or settled.write is None:
            raise NotFoundError(f"no notification {id_}")
        report(self.telemetry, settled)
        refused = settled.write.refused
        if refused is not None:
            raise ConflictError(refused.text, code=refused.code)
        self.notify_workers({settled.row.channel})
        return settled

    # --- addresses ---

    async def register(self, recipient: str, channel: str, address: object, *, tenant: str = "") -> Address:
        """Register an address. Raises InputError for an unknown channel or a wrong form."""
        value = self.address(recipient, channel, address)
        return await self.store.register(tenant, recipient, channel, value)

    def address(self, recipient: str, channel: str, address: object) -> str:
        """An address of a recipient in its canonical form. Raises InputError."""
        entry = self.channels.get(channel)
        if entry is None:
            raise InputError(
                f"unknown channel {channel!r}",
                field="channel",
                mend=f"configured: {', '.join(self.channels.all()) or 'none'}",
                code="unknown_channel",
            )
        if entry.provider.stored:
            raise InputError(f"{channel} needs no address: the recipient is it", field="channel")
        if not recipient or len(recipient) > 256:  # noqa: PLR2004 - the limit of the structure's recipients
            raise InputError("1 to 256 characters", field="recipient")
        return entry.provider.address(address)

    # --- wake-ups ---

    def listen(self, wake: Callable[[Collection[str]], None]) -> None:
        """``wake`` is called with the channels (none: any) that may have something new: a hint, never the truth."""
        self._listeners.append(wake)

    def unlisten(self, wake: Callable[[Collection[str]], None]) -> None:
        """Stop telling."""
        self._listeners.remove(wake)

    def notify_workers(self, channels: Collection[str] = ()) -> None:
        """Tell the workers, of other processes too, that there may be something to do: on any channel, or on these."""
        self.woken(channels)
        if self.wakeup is not None:
            self.wakeup.hint(channels)

    def woken(self, channels: Collection[str]) -> None:
        """Tell the workers of this process."""
        for wake in self._listeners:
            wake(channels)
