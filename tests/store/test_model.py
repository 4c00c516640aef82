"""The store against a dict: random lives, and after each step both say the same about every notification."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ringonce.model.event import Event, Recipient
from ringonce.model.notification import FINAL, State
from ringonce.model.policy import SECOND, InDoubt
from ringonce.model.retention import Retention
from ringonce.model.transition import Cancel, Expire, LeaseLost, Resolve, Retry, TransitionEvent, Verdict
from ringonce.ports import PRUNE_LEASE, AttemptRow, Change, LanePause, Lease, Query, Row, Write
from ringonce.store import SqlStore, open_store
from tests.servers.postgres import Database
from tests.store.conftest import wipe
from tests.store.kit import ACCEPTED, KINDS, LEASE, NOBODY, SILENCE, UNREACHABLE, World, decode

if TYPE_CHECKING:
    from collections.abc import Callable

OWNERS = ("w-1", "w-2")
SUBJECTS = ("order:1", "order:2")
OUTCOMES = (ACCEPTED, UNREACHABLE, SILENCE, NOBODY)
MAX_AGE = 3600 * SECOND
NOTHING = Retention(0, 0, 0, 0, 0, 0, journal=None, outbox=None)
"""Keep nothing of what is over."""


@dataclass
class Item:
    """One notification, as the dict knows it."""

    id: UUID
    subject: str | None
    created_at: int
    state: State
    due: tuple[str, int | None, bool] | None = None
    lease: Lease | None = None
    number: int = 0
    rescued: int = 0
    attempts: dict[int, tuple[int, str]] = field(default_factory=dict)
    version: int = 0

    @property
    def open(self) -> bool:
        """An attempt has begun under the lease."""
        return self.lease is not None and self.lease.started_at is not None

    def row(self) -> Row:
        """What ``decide`` is shown."""
        state = replace(self.state, open=self.open)
        return Row(
            self.id, "", "", "", "", "email", "", None, self.subject, None, "normal", None, self.created_at, state,
            self.lease, self.rescued,
        )  # fmt: skip


@dataclass
class Call:
    """A claim that a worker remembers, whatever became of the row."""

    id: UUID
    owner: str
    fence: int
    version: int
    number: int = 0
    told: Change | None = None


class Model:
    """The rules of the store in plain words."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.items: dict[UUID, Item] = {}
        self.buried: set[str] = set()
        self.paused = False
        self.published: set[str] = set()

    def due(self) -> list[Item]:
        """What a claim may take."""
        now = self.world.now
        return [
            item
            for item in self.items.values()
            if not self.paused
            and item.lease is None
            and item.due is not None
            and item.due[0] == "send"
            and item.due[2]
            and item.due[1] is not None
            and item.due[1] <= now
            and (item.state.expires_at is None or item.state.expires_at > now)
        ]

    def settle(self, change: Change) -> Write | None:
        """One change, as ``settle`` promises it."""
        item = self.items[change.id]
        lease, told = item.lease, change.attempt
        held = lease is not None and change.guard == (lease.owner, lease.fence)
        if not held and told is not None and item.attempts.get(told.number) == (told.fence, told.outcome):
            return None
        write = self.world.decide(item.row(), change, held, self.world.now)
        if told is not None and (
            told.outcome != "unknown" or item.attempts.get(told.number, (0, ""))[1] in {"", "unknown"}
        ):
            fence = item.attempts.get(told.number, (told.fence, ""))[0]
            item.attempts[told.number] = (fence, told.outcome)
        moving = write.changed and write.refused is None
        if moving:
            item.state = write.state
        if held and not isinstance(change.event, LeaseLost):
            item.rescued = 0
        if write.refused is None and write.due is not None and (moving or held):
            if item.due is None and item.lease is None:
                item.rescued = 0
            item.due, item.lease = (write.due.purpose, write.due.at, write.due.armed), None
        elif item.state.final and (moving or held):
            item.due, item.lease = None, None
        elif held:
            item.due, item.lease = ("hold", None, True), None
        self.published |= {row.event_id for row in write.outbox if row.kind in KINDS}
        return write


class StoreMachine(RuleBasedStateMachine):
    """Random calls, in any order, from workers that crash, answer late and repeat themselves."""

    runner: asyncio.Runner
    store: SqlStore

    def __init__(self) -> None:
        super().__init__()
        self.run(self.store.backend.run(wipe))
        self.world = World(self.store)
        self.model = Model(self.world)
        self.calls: list[Call] = []
        self.finals: dict[UUID, State] = {}
        self.events = 0

    def run(self, call: Any) -> Any:
        """Wait for the store."""
        return self.runner.run(call)

    # --- intake ---

    @initialize()
    def first(self) -> None:
        """There is something to do from the start."""
        self.accept(3, None, InDoubt.RESEND, None, 0)

    @rule(
        people=st.integers(1, 3),
        subject=st.sampled_from((None, *SUBJECTS)),
        policy=st.sampled_from([InDoubt.RESEND, InDoubt.ASSUME_SENT, InDoubt.HOLD]),
        lives=st.sampled_from((None, 20 * SECOND, 200 * SECOND)),
        later=st.sampled_from((0, 30 * SECOND)),
    )
    def accept(
        self, people: int, subject: str | None, policy: InDoubt, lives: int | None, later: int
    ) -> None:
        """A new event; the channel's policy may change with it."""
        self.world.policy = replace(self.world.policy, in_doubt=policy)
        self.events += 1
        name = f"e-{self.events}"
        to = tuple(Recipient(f"u-{i}", addresses={"email": (f"{name}-{i}",)}) for i in range(people))
        expires = None if lives is None else self.world.now + lives
        send_at = self.world.now + later if later else None
        event = Event(
            name, recipients=to, channels=("email",), subject=subject, expires_at=expires, send_at=send_at
        )
        first, again = self.run(self._twice(event))
        assert [b.id for b in again.notifications] == [b.id for b in first.notifications]
        assert again.duplicate
        for brief in first.notifications:
            row = self.run(self.store.get(brief.id)).row
            pending = brief.status == "pending"
            due = ("send", row.state.next_attempt_at, True) if pending else None
            self.model.items[brief.id] = Item(brief.id, subject, self.world.now, row.state, due)
            assert pending == (subject not in self.model.buried)

    async def _twice(self, event: Event) -> Any:
        accepted = await self.world.accept(event)
        return accepted + await self.world.accept(event)

    # --- workers ---

    @rule(owner=st.sampled_from(OWNERS), limit=st.integers(1, 4))
    def claim(self, owner: str, limit: int) -> None:
        """A claim takes as many due rows as there are, up to its limit."""
        due = {item.id for item in self.model.due()}
        batch = self.run(self.world.claim(limit, owner))
        ids = [c.row.id for c in batch.rows]
        assert len(ids) == min(limit, len(due))
        assert set(ids) <= due
        for claimed in batch.rows:
            item = self.model.items[claimed.row.id]
            item.lease = claimed.row.lease
            assert claimed.row.lease.until == self.world.now + LEASE
            self.calls.append(Call(item.id, owner, item.lease.fence, claimed.row.state.version))

    @precondition(lambda self: self.model.due())
    @rule(owner=st.sampled_from(OWNERS))
    def begin(self, owner: str) -> None:
        """The usual case: claimed and marked at once."""
        self.claim(owner, 1)
        self._mark(self.calls[-1])

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def mark(self, data: st.DataObject) -> None:
        """A mark begins exactly what is still held, unchanged, unbegun and wanted."""
        self._mark(data.draw(st.sampled_from(self.calls)))

    def _mark(self, call: Call) -> None:
        item = self.model.items[call.id]
        lease, now = item.lease, self.world.now
        good = (
            lease is not None
            and (lease.owner, lease.fence) == (call.owner, call.fence)
            and item.state.version == call.version
            and lease.started_at is None
            and lease.until > now
            and item.subject not in self.model.buried
        )
        marked = self.run(self.store.mark(call.owner, [(call.id, call.fence, call.version)], now=now))
        assert (call.id in marked.begun) == good
        if good:
            item.number += 1
            assert marked.begun[call.id] == item.number
            item.lease = replace(lease, attempt=item.number, started_at=now)
            call.number = item.number

    @precondition(lambda self: self.waiting())
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        """A mark is taken back while the lease stands; its number stays burnt."""
        call = data.draw(st.sampled_from(self.waiting()))
        item = self.model.items[call.id]
        mine = item.open and (item.lease.owner, item.lease.fence) == (call.owner, call.fence)
        count = self.run(self.store.undo(call.owner, [(call.id, call.fence)], now=self.world.now))
        assert count == int(mine)
        if mine:
            item.lease = replace(item.lease, started_at=None)
            call.number = 0

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), wait=st.sampled_from((None, 5 * SECOND)))
    def release(self, data: st.DataObject, wait: int | None) -> None:
        """An unbegun row is given back."""
        call = data.draw(st.sampled_from(self.calls))
        item = self.model.items[call.id]
        mine = item.lease is not None and (item.lease.owner, item.lease.fence) == (call.owner, call.fence)
        at = None if wait is None else self.world.now + wait
        count = self.run(
            self.store.release(call.owner, [(call.id, call.fence)], due_at=at, now=self.world.now)
        )
        assert count == int(mine and not item.open)
        if count:
            item.due, item.lease, item.rescued = ("send", at or self.world.now, True), None, 0

    @precondition(lambda self: self.model.due())
    @rule(owner=st.sampled_from(OWNERS), outcome=st.sampled_from(OUTCOMES))
    def send(self, owner: str, outcome: Any) -> None:
        """The usual case to its end: claimed, marked, answered."""
        self.begin(owner)
        if self.calls[-1].number:
            self._answer(self.calls[-1], outcome)

    @rule()
    def crash(self) -> None:
        """All workers hang beyond their leases; somebody else rescues."""
        self.wait(16)
        self.rescue()

    @rule()
    def retry(self) -> None:
        """Time passes until retries are due, and they are released."""
        self.wait(10)
        self.arm()

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES))
    def answer(self, data: st.DataObject, outcome: Any) -> None:
        """The provider answered, in time or long after the lease was lost."""
        self._answer(data.draw(st.sampled_from(self.waiting())), outcome)

    def _answer(self, call: Call, outcome: Any) -> None:
        claimed = self.run(self.store.get(call.id))
        row = replace(claimed.row, lease=Lease(call.owner, call.fence, 0))
        call.told = self.world.answer(_Claimed(row), outcome, call.number, call.owner)
        self._settle(call.told)

    @precondition(lambda self: any(call.told for call in self.calls))
    @rule(data=st.data())
    def answer_again(self, data: st.DataObject) -> None:
        """The reply to a settle was lost, so it is told once more: nothing happens."""
        call = data.draw(st.sampled_from([call for call in self.calls if call.told]))
        stored = self.model.items[call.id].attempts[call.number]
        if stored == (call.told.attempt.fence, call.told.attempt.outcome):
            before = self.run(self.store.get(call.id))
            self.run(self.world.settle(call.told))
            assert self.run(self.store.get(call.id)) == before

    def waiting(self) -> list[Call]:
        """Calls that began and were not answered."""
        return [call for call in self.calls if call.number and call.told is None]

    def _settle(self, change: Change) -> None:
        (settled,) = self.run(self.world.settle(change))
        write = self.model.settle(change)
        assert settled.write is not None
        if write is not None:
            assert settled.write.state == write.state
            assert settled.write.refused == write.refused

    @rule(owner=st.sampled_from(OWNERS))
    def extend(self, owner: str) -> None:
        """All leases of an owner are prolonged."""
        mine = {item.id for item in self.model.items.values() if item.lease and item.lease.owner == owner}
        assert self.run(self.store.extend(owner, LEASE, now=self.world.now)) == mine
        for id_ in mine:
            item = self.model.items[id_]
            item.lease = replace(item.lease, until=self.world.now + LEASE)

    # --- time and duties ---

    @rule(seconds=st.sampled_from((1, 10, 16, 60)))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.world.now += seconds * SECOND

    @rule()
    def rescue(self) -> None:
        """Lost leases: unbegun rows are due again, begun ones are in doubt."""
        now = self.world.now
        lost = [item for item in self.model.items.values() if item.lease and item.lease.until <= now]
        settled = self.run(self.world.rescue())
        assert {s.row.id for s in settled} == {item.id for item in lost if item.open}
        for item in lost:
            lease, too_often = item.lease, item.rescued >= 5
            item.rescued += 1
            if not item.open:
                item.due, item.lease = ("send", now, True), None
                continue
            attempt = AttemptRow(
                item.number, item.state.revision, lease.fence, "", lease.started_at, None, "unknown"
            )
            event = LeaseLost(item.number, crashed_too_often=too_often)
            self.model.settle(Change(item.id, event, (lease.owner, lease.fence), attempt))

    @rule()
    def sweep(self) -> None:
        """What is past its end, ends."""
        now = self.world.now
        expected: dict[UUID, TransitionEvent] = {}
        for item in self.model.items.values():
            if item.due is None or item.lease is not None:
                continue
            if item.state.expires_at is not None and item.state.expires_at <= now:
                expected[item.id] = Expire("expires_at")
            elif item.due[0] == "hold" and item.due[1] is not None and item.due[1] <= now:
                expected[item.id] = Resolve(Verdict.ASSUMED, by="hold_for")
            elif item.created_at <= now - MAX_AGE:
                expected[item.id] = Expire("max_age")
        swept = self.run(self.store.sweep(self.world.decide, max_age={"email": MAX_AGE}, limit=999, now=now))
        assert {s.row.id for s in swept} == set(expected)
        for id_, event in expected.items():
            self.model.settle(Change(id_, event))

    @rule()
    def arm(self) -> None:
        """The holder of the retry lease releases due retries."""
        ripe = [
            item
            for item in self.model.items.values()
            if item.lease is None and item.due and item.due[0] == "send" and not item.due[2]
            and item.due[1] <= self.world.now
        ]  # fmt: skip
        assert self.run(self.world.arm()) == len(ripe)
        for item in ripe:
            item.due = (item.due[0], item.due[1], True)

    @rule(stop=st.booleans())
    def lane(self, stop: bool) -> None:
        """The lane is paused or resumed."""
        if stop:
            self.run(self.store.pause([LanePause("email", "x")], now=self.world.now))
        else:
            self.run(self.store.resume("email", now=self.world.now))
        self.model.paused = stop

    @precondition(lambda self: any(item.state.final for item in self.model.items.values()))
    @rule()
    def prune(self) -> None:
        """All that is over is removed, and nothing else; who still answers for it is told that it is gone."""
        gone = {item.id for item in self.model.items.values() if item.state.final}
        now = self.world.now
        term = self.run(self.store.take_lease(PRUNE_LEASE, "w-1", SECOND, now=now))
        walk, done, count = None, False, 0
        while not done:
            step = self.run(self.store.prune(term, "w-1", NOTHING, walk=walk, limit=50, now=now))
            walk, done, count = step.walk, step.done, count + step.counts.get("notifications", 0)
        assert count == len(gone)
        for id_ in gone:
            del self.model.items[id_]
            self.finals.pop(id_, None)
            change = Change(id_, Cancel("ann"))
            (settled,) = self.run(self.store.settle([change], self.world.decide, now=now))
            assert (settled.row, settled.write) == (None, None)
        self.calls = [call for call in self.calls if call.id not in gone]

    # --- people ---

    @rule(subject=st.sampled_from(SUBJECTS))
    def withdraw(self, subject: str) -> None:
        """A subject is withdrawn."""
        self.model.buried.add(subject)
        alive = {i.id for i in self.model.items.values() if i.subject == subject and i.due is not None}
        settled = self.run(self.store.cancel_subject("", subject, self.world.decide, now=self.world.now))
        assert {s.row.id for s in settled} == alive
        for id_ in alive:
            self.model.settle(Change(id_, Cancel("subject", "subject withdrawn")))

    @precondition(lambda self: self.model.items)
    @rule(data=st.data(), force=st.booleans(), what=st.sampled_from(("cancel", "retry", "resolve")))
    def person(self, data: st.DataObject, force: bool, what: str) -> None:
        """Somebody cancels, retries or resolves one."""
        id_ = data.draw(st.sampled_from(sorted(self.model.items)))
        verdict = Verdict.SENT if force else Verdict.NOT_SENT
        event = {"cancel": Cancel("ann"), "retry": Retry("ann", force), "resolve": Resolve(verdict, "ann")}[
            what
        ]
        if what == "retry":
            self.finals.pop(id_, None)
        self._settle(Change(id_, event))

    # --- what always holds ---

    @invariant()
    def both_say_the_same(self) -> None:
        """State and lease of every notification."""
        rows = {row.id: row for row in self.run(self.store.search(Query(limit=10_000)))}
        assert set(rows) == set(self.model.items)
        for item in self.model.items.values():
            row = rows[item.id]
            assert row.state == replace(item.state, open=item.open)
            assert row.lease == item.lease
            assert row.rescued == (item.rescued if item.due or item.lease else 0)

    @rule()
    def look(self) -> None:
        """Due work and attempts of every notification, and what was published."""
        for item in self.model.items.values():
            life = self.run(self.store.get(item.id))
            due = None if life.due is None else (life.due.purpose, life.due.at, life.due.armed)
            if item.lease is None:
                assert due == item.due
            assert {a.number: (a.fence, a.outcome) for a in life.attempts} == item.attempts
        rows = self.run(self.store.outbox(limit=10_000))
        assert sorted(row.event_id for _, row in rows) == sorted(self.model.published)

    def teardown(self) -> None:
        """A last look."""
        self.look()

    @invariant()
    def everything_open_has_due_work(self) -> None:
        """Nothing that has not ended is forgotten, nothing that has ended is still due."""
        for item in self.model.items.values():
            assert (item.due is None) == item.state.final

    @invariant()
    def ends_stay(self) -> None:
        """Cancelled and expired stay so; sent is only left by proof, or by a person."""
        for item in self.model.items.values():
            before = self.finals.get(item.id)
            if before is not None and before.status in FINAL - {"sent"}:
                assert item.state.status is before.status
            if item.state.final:
                self.finals[item.id] = item.state


@dataclass
class _Claimed:
    row: Row


def prove(url: str, examples: int, steps: int) -> None:
    """Run the machine against a database."""
    with asyncio.Runner() as runner:
        store = open_store(url, decode=decode, outbox_kinds=KINDS)
        runner.run(store.open())
        machine: Callable[[], StoreMachine] = type(
            "Bound", (StoreMachine,), {"runner": runner, "store": store}
        )
        try:
            run_state_machine_as_test(
                machine,
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=steps,
                    deadline=None,
                    derandomize=False,
                    print_blob=True,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(store.close())


def test_random_lives_in_memory() -> None:
    """Whatever happens in whatever order, SQLite and the dict agree."""
    prove("sqlite://", examples=60, steps=40)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_random_lives_in_memory() -> None:
    """The same, longer."""
    prove("sqlite://", examples=400, steps=60)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_random_lives_on_postgresql(pg_empty: Database, driver: str) -> None:
    """Whatever happens in whatever order, PostgreSQL and the dict agree."""
    prove(pg_empty.url(driver), examples=30, steps=40)
