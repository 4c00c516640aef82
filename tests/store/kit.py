"""What store tests share: a planner and a decider over the real core, and a small world with a clock of its own."""

import asyncio
import itertools
import json
import logging
from dataclasses import dataclass, field
from uuid import UUID

import msgspec
import pytest

from ringonce.core.journal import body_hash, canonical, event_key
from ringonce.core.machine import step
from ringonce.core.outbox import outbox_row
from ringonce.core.plan import outline
from ringonce.model.event import Event, Recipient
from ringonce.model.notification import Content
from ringonce.model.outcome import CODE_OF, Outcome, OutcomeClass
from ringonce.model.policy import SECOND, Backoff, BackoffKind, Channel, InDoubt, Policy
from ringonce.model.transition import (
    Answered,
    Emit,
    Invalidate,
    LateAnswer,
    Lookup,
    Pause,
    Send,
    TransitionEvent,
    WakeAt,
)
from ringonce.ports import (
    Accepted,
    AttemptRow,
    Batch,
    Change,
    Claimed,
    Due,
    Invalidation,
    LanePause,
    Life,
    NewContent,
    NewEvent,
    NewNotification,
    Plan,
    Proposal,
    RecipientFacts,
    Row,
    Settled,
    Terms,
    Write,
)
from ringonce.store import SqlStore

START = 1_800_000_000 * SECOND
LEASE = 15 * SECOND
ACCEPTED = Outcome(OutcomeClass.ACCEPTED, message_id="m-1")
UNREACHABLE = Outcome(OutcomeClass.TRANSIENT, CODE_OF[OutcomeClass.TRANSIENT], text="503")
NOBODY = Outcome(OutcomeClass.INVALID_RECIPIENT, CODE_OF[OutcomeClass.INVALID_RECIPIENT], drop_address=True)
SILENCE = Outcome(OutcomeClass.TRANSIENT, CODE_OF[OutcomeClass.TRANSIENT], ambiguous=True)
KINDS = frozenset({"notification.dispatched"})


def decode(body: bytes) -> Event:
    """An event from its stored body."""
    raw = json.loads(body)
    people = (
        r | {"addresses": {c: tuple(v) for c, v in r["addresses"].items()}} for r in raw.pop("recipients")
    )
    channels = raw.pop("channels")
    return Event(
        **raw,
        recipients=tuple(Recipient(**person) for person in people),
        channels=None if channels is None else tuple(channels),
    )


def new_event(event: Event) -> NewEvent:
    """An event ready to be stored."""
    body = canonical(msgspec.to_builtins(event))
    return NewEvent(event, event_key(event.tenant, event.event_id), body_hash(body), body)


def channels(policy: Policy) -> dict[str, Channel]:
    """Three channels under one policy."""
    return {name: Channel(name, "sandbox", policy=policy) for name in ("email", "push", "telegram")}


@dataclass
class World:
    """A store and a clock that moves only when it is told to."""

    store: SqlStore
    now: int = START
    policy: Policy = field(
        default_factory=lambda: Policy(
            backoff=Backoff(BackoffKind.FIXED, base=10 * SECOND, jitter=0), in_doubt=InDoubt.RESEND
        )
    )
    lane: str | None = None
    """The lane into which whatever becomes due goes."""
    named: bool = False
    """The provider's reports name only its own id of a message."""
    known: bool = True
    """Changes carry the facts that were claimed, as a worker's do."""
    credential: str | None = None
    proposal: Proposal | None = None
    """What verdicts against addresses are weighed by; None: they are believed."""
    ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    # --- what the engine supplies ---

    def plan(self, event: Event, facts: "list[RecipientFacts]", cancelled: bool, now: int) -> Plan:
        """Every live address gets a notification."""
        made = outline(event, facts, channels(self.policy), now, cancelled=cancelled)
        content = event.content or Content(text="hello")
        contents = {planned.content_key: NewContent(planned.content_key, content) for planned in made.planned}
        notifications = []
        for planned in made.planned:
            write = self.lower(None, None, step_new(planned.enqueued, now, self.policy))
            notifications.append(
                NewNotification(
                    UUID(int=(next(self.ids) << 64) | 7 << 76 | 2 << 62),
                    planned.recipient,
                    planned.channel,
                    planned.account,
                    planned.address,
                    planned.content_key,
                    write,
                )
            )
        return Plan(tuple(contents.values()), tuple(notifications))

    def decide(self, row: Row, change: Change, held: bool, now: int) -> Write:
        """The real table."""
        event = change.event
        if isinstance(event, Answered) and change.guard is not None and not held:
            event = LateAnswer(event.attempt, event.outcome)
        return self.lower(row, change, step(row.state, event, now, 0.0, self.policy))

    def lower(self, row: Row | None, change: Change | None, result) -> Write:  # noqa: ANN001
        """A step as a Write."""
        due, outbox, invalid, pauses = None, [], [], []
        for effect in result.effects:
            match effect:
                case Send(at, armed):
                    due = Due("send", at, armed, self.lane)
                case Lookup(at):
                    due = Due("lookup", at)
                case WakeAt(at):
                    due = Due("hold", at)
                case Emit() if row is not None:
                    outbox.append(outbox_row(row.id, row.tenant, row.channel, effect, result.state))
                case Invalidate(reason, proof, new, doubted) if row is not None and row.address is not None:
                    address = row.address if change is None or change.row is None else change.row.address
                    by = None if new else self.credential
                    told = (reason, proof, new, by, None if doubted or new else self.proposal, doubted)
                    invalid.append(Invalidation(address.id, address.value, *told))
                case Pause(_, reason, until) if row is not None:
                    pauses.append(LanePause(row.channel, reason, until))
                case _:
                    pass
        return Write(
            state=result.state,
            changed=row is None or result.state.version != row.state.version,
            due=due,
            attempt=change.attempt if change else None,
            notes=result.notes,
            outbox=tuple(outbox),
            invalidate=tuple(invalid),
            pauses=tuple(pauses),
            refused=result.refused,
            named=self._named(change),
        )

    def _named(self, change: Change | None) -> tuple[str, str, int] | None:
        attempt = change.attempt if change is not None and self.named else None
        if attempt is None or attempt.message_id is None:
            return None
        return attempt.account, attempt.message_id, attempt.number

    # --- short words for long calls ---

    async def accept(self, *events: Event) -> list[Accepted]:
        """Accept events now."""
        return await self.store.accept([new_event(e) for e in events], self.plan, self.decide, now=self.now)

    async def one(self, event_id: str = "e-1", channel: str = "email", **fields) -> UUID:  # noqa: ANN003
        """Accept one event for one recipient with one inline address; the notification's id."""
        name = fields.pop("recipient", f"r-{event_id}")
        who = Recipient(name, addresses={channel: (fields.pop("address", f"{event_id}@example.com"),)})
        event = Event(event_id, **({"recipients": (who,), "channels": (channel,)} | fields))
        accepted = (await self.accept(event))[0]
        assert len(accepted.notifications) == 1
        return accepted.notifications[0].id

    async def claim(
        self, limit: int = 10, owner: str = "w-1", lane: str = "email", terms: Terms | None = None
    ) -> Batch:
        """Claim now."""
        return await self.store.claim(lane, owner, limit, LEASE, terms=terms, now=self.now)

    async def begin(self, owner: str = "w-1", lane: str = "email") -> Claimed:
        """Claim one and mark it; the row as it was claimed."""
        (claimed,) = (await self.claim(1, owner, lane)).rows
        marked = await self.mark(claimed, owner=owner)
        assert claimed.row.id in marked.begun
        return claimed

    async def mark(self, *claimed: Claimed, owner: str = "w-1"):  # noqa: ANN201
        """Mark what was claimed."""
        rows = [(c.row.id, c.row.lease.fence, c.row.state.version) for c in claimed]
        return await self.store.mark(owner, rows, now=self.now)

    def answer(
        self,
        claimed: Claimed,
        outcome: Outcome = ACCEPTED,
        number: int = 1,
        owner: str = "w-1",
        **fields,  # noqa: ANN003
    ) -> Change:
        """The change that an answer makes."""
        unknown = outcome.ambiguous
        attempt = AttemptRow(
            number=number,
            revision=claimed.row.state.revision,
            fence=claimed.row.lease.fence,
            account="",
            started_at=self.now,
            ended_at=self.now,
            outcome="unknown" if unknown else outcome.cls.value,
            code=outcome.code,
            **({"message_id": outcome.message_id} | fields),
        )
        event: TransitionEvent = Answered(number, outcome)
        row = claimed.row if self.known else None
        return Change(claimed.row.id, event, (owner, claimed.row.lease.fence), attempt, row)

    async def settle(self, *changes: Change) -> list[Settled]:
        """Settle now."""
        return await self.store.settle(changes, self.decide, now=self.now)

    async def send(self, outcome: Outcome = ACCEPTED, number: int = 1, lane: str = "email") -> Settled:
        """Claim, mark and settle one."""
        claimed = await self.begin(lane=lane)
        return (await self.settle(self.answer(claimed, outcome, number)))[0]

    async def life(self, id_: UUID) -> Life:
        """Everything about one."""
        life = await self.store.get(id_)
        assert life is not None
        return life

    async def rescue(self) -> list[Settled]:
        """Rescue now."""
        return await self.store.rescue(self.decide, now=self.now)

    async def arm(self) -> int:
        """Take the retry lease and release what is due."""
        term = await self.store.take_lease("notifications:retry-worker", "w-1", 60 * SECOND, now=self.now)
        assert term is not None
        return await self.store.arm(term, "w-1", now=self.now)


def told(caplog: pytest.LogCaptureFixture, part: str) -> asyncio.Event:
    """Set when a line of the log holds ``part``."""
    event = asyncio.Event()

    def look(record: logging.LogRecord) -> bool:
        if part in record.getMessage():
            event.set()
        return True

    caplog.handler.addFilter(look)
    return event


def step_new(enqueued, now: int, policy: Policy):  # noqa: ANN001, ANN201
    """The first step of a life."""
    from ringonce.model.notification import State, Status

    return step(State(Status.PENDING), enqueued, now, 0.0, policy)
