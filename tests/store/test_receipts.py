"""Reports of providers: kept once, matched whenever their message is committed, carried out like everything else."""

import asyncio
from uuid import UUID

import pytest
import sqlalchemy as sa

from ringonce.core.journal import client_reference, receipt_key
from ringonce.model.notification import Status
from ringonce.model.outcome import Code, Outcome, OutcomeClass
from ringonce.model.policy import DAY, SECOND
from ringonce.model.receipt import AddressReport, Arrival, Fate, Report, ReportKind
from ringonce.ports import Invalidation
from ringonce.store.receipts import KEEP
from ringonce.store.schema import receipts
from tests.store.kit import ACCEPTED, NOBODY, World

ACCOUNTS = {"email": "", "push": "other", "telegram": ""}
FAILED = Outcome(OutcomeClass.TRANSIENT, Code.TRANSIENT, "131026", text="undeliverable")


def arrival(report: Report, account: str = "", channel: str = "email") -> Arrival:
    """A report that has come in."""
    code = report.outcome and report.outcome.provider_code
    at = None if report.at is None else str(report.at)
    key = receipt_key(account, report.kind, report.reference, report.message_id, at, code)
    return Arrival(key, channel, account, report)


async def fates(world: World, *reports: Report, **where: str) -> list[str]:
    """Take reports; what became of them."""
    arrivals = [arrival(report, **where) for report in reports]
    return [
        one.fate.value for one in await world.store.receive(arrivals, world.decide, ACCOUNTS, now=world.now)
    ]


async def again(world: World, seconds: float = 60) -> list[str]:
    """Let time pass, and look again."""
    world.now += int(seconds * SECOND)
    return [one.fate.value for one in await world.store.look_again(world.decide, ACCOUNTS, now=world.now)]


def of(id_: UUID, kind: str, **more: object) -> Report:
    """A report that carries our reference."""
    return Report(ReportKind(kind), client_reference(id_, 1), **more)


async def test_a_report_by_the_providers_id_finds_its_message(world: World) -> None:
    """The id that the answer brought leads to the notification, for reports that name nothing else."""
    world.named = True
    id_ = await world.one()
    await world.send()
    assert await fates(world, Report(ReportKind.FAILED, message_id="m-1", outcome=FAILED)) == ["taken"]
    state = (await world.life(id_)).row.state
    assert (state.status, state.revision, state.last_error.provider_code) == (Status.FAILED, 2, "131026")


@pytest.mark.parametrize("named", [False, True], ids=["our reference", "its id"])
async def test_a_report_before_our_commit_waits_for_it(world: World, named: bool) -> None:
    """HOOK-01: what fails before our answer is stored is carried out right after."""
    world.named = named
    id_ = await world.one()
    claimed = await world.begin()
    report = Report(ReportKind.FAILED, message_id="m-1", outcome=FAILED)
    if not named:
        report = of(id_, "failed", message_id="m-1", outcome=FAILED)
    assert await fates(world, report) == ["unknown" if named else "early"]
    assert await again(world, 5) == (["unknown"] if named else ["early"])
    await world.settle(world.answer(claimed))
    assert (await world.life(id_)).row.state.status is Status.SENT
    # Of the provider's own id the settle knows that somebody waits for it; the other is looked at again by time.
    assert await again(world, 0 if named else 6) == ["taken"]
    assert (await world.life(id_)).row.state.status is Status.FAILED
    assert await again(world) == []


@pytest.mark.parametrize("account", ["", "firm", "stranger"], ids=["the first", "another", "nobody's"])
async def test_each_provider_of_a_channel_reports(world: World, account: str) -> None:
    """With our reference any provider of the channel may report what it was asked to send, and nobody else."""
    id_ = await world.one()
    await world.send()
    told = arrival(of(id_, "failed", outcome=FAILED), account, "email~other" if account else "email")
    accounts = {**ACCOUNTS, "email~other": "firm", "emails": "stranger"}
    (one,) = await world.store.receive([told], world.decide, accounts, now=world.now)
    assert one.fate is (Fate.UNKNOWN if account == "stranger" else Fate.TAKEN)


async def test_what_is_taken_once_is_taken_once(world: World) -> None:
    """A report that comes twice, at once or later, changes and tells nothing the second time."""
    id_ = await world.one()
    await world.send()
    report = of(id_, "delivered", at=world.now)
    got = await asyncio.gather(fates(world, report), fates(world, report))
    assert sorted([*got[0], *got[1]]) == ["duplicate", "taken"]
    world.now += DAY
    assert await fates(world, report, report) == ["duplicate"]
    assert [note.kind for note in (await world.life(id_)).notes] == ["receipt"]


async def test_of_what_is_over_only_the_key_stays(world: World) -> None:
    """A provider's words, and its id of the message, may name a person: they go when the report is carried out."""
    id_ = await world.one()
    await world.send()
    await fates(world, of(id_, "failed", message_id="<ada@secret.example>", outcome=FAILED))

    def rows(connection: sa.Connection) -> str:
        return repr(connection.execute(sa.select(receipts)).all())

    left = await world.store.backend.run(rows)
    assert "failed" in left
    assert "secret" not in left
    assert "undeliverable" not in left


async def test_an_arrival_while_the_call_is_under_way_counts_at_once(world: World) -> None:
    """An early arrival ends the notification, and leaves an attempt even when its worker dies."""
    id_ = await world.one()
    await world.begin()
    assert await fates(world, of(id_, "delivered", message_id="m-9")) == ["taken"]
    life = await world.life(id_)
    assert (life.row.state.status, life.row.state.message_id, life.due) == (Status.SENT, "m-9", None)
    assert [(a.number, a.outcome, a.message_id) for a in life.attempts] == [(1, "accepted", "m-9")]
    world.now += DAY
    assert await world.rescue() == []


async def test_a_report_ends_the_doubt_of_a_lost_worker(world: World) -> None:
    """A08: the worker dies after its call began; the report that it was taken settles the doubt, attempt and all."""
    id_ = await world.one()
    await world.begin()
    assert await fates(world, of(id_, "sent", message_id="m-9")) == ["early"]
    world.now += 60 * SECOND
    await world.rescue()
    assert (await world.life(id_)).row.state.unknown == (1,)
    assert await again(world) == ["taken"]
    life = await world.life(id_)
    assert (life.row.state.status, life.row.state.unknown, life.due) == (Status.SENT, (), None)
    assert [(a.outcome, a.rule) for a in life.attempts] == [("accepted", "receipt")]


@pytest.mark.parametrize("kinds", ["delivered failed", "failed delivered", "failed read", "read failed"])
@pytest.mark.parametrize("together", [False, True], ids=["one by one", "together"])
async def test_the_end_does_not_depend_on_the_order(world: World, kinds: str, together: bool) -> None:
    """HOOK-02: whatever comes first, what arrived is sent."""
    id_ = await world.one()
    await world.send()
    reports = [of(id_, kind, outcome=FAILED if kind == "failed" else None) for kind in kinds.split()]
    for batch in [reports] if together else [[one] for one in reports]:
        assert set(await fates(world, *batch)) == {"taken"}
    life = await world.life(id_)
    assert (life.row.state.status, life.due, len(life.notes) >= 2) == (Status.SENT, None, True)
    assert life.row.state.message_id == "m-1"


async def test_nobody_reports_about_what_others_sent(world: World) -> None:
    """A report that another account signed is unknown, though it carries our reference."""
    id_ = await world.one()
    await world.send()
    report = of(id_, "failed", outcome=FAILED)
    assert await fates(world, report, account="other", channel="push") == ["unknown"]
    assert (await world.life(id_)).row.state.status is Status.SENT
    assert await fates(world, report, channel="telegram") == ["taken"]


async def test_what_stays_unknown_is_told_and_kept_for_a_month(world: World) -> None:
    """An id that nobody knows is looked for during a day, then given up; after 30 days the row goes."""
    report = Report(ReportKind.DELIVERED, message_id="nobody's")
    assert await fates(world, report) == ["unknown"]
    looked = 0
    for _ in range(40):
        found = await again(world, 3 * 3600)
        looked += len(found)
        if found == [Fate.UNMATCHED]:
            break
    assert found == ["unmatched"]
    assert looked < 12
    assert await again(world, 3600) == []
    assert await fates(world, report) == ["duplicate"]
    assert await world.store.prune_receipts(now=world.now) == {"receipts": 0, "provider_refs": 0}
    world.now += KEEP
    assert await world.store.prune_receipts(now=world.now) == {"receipts": 1, "provider_refs": 0}


async def test_a_bounce_is_charged_to_the_address_that_was_used(world: World) -> None:
    """HOOK-05: the old address is dropped, the new one is not, nor the same one registered again after the call."""
    id_ = await world.one(recipient="ada", address="old@example.com")
    world.now += SECOND
    await world.send(ACCEPTED)
    world.now += SECOND
    await world.store.register("", "ada", "email", "new@example.com", now=world.now)
    assert await fates(world, of(id_, "failed", outcome=NOBODY)) == ["taken"]
    live = await world.store.addresses("", "ada")
    assert [one.value for one in live] == ["new@example.com"]
    await world.store.register("", "ada", "email", "old@example.com", now=world.now + SECOND)
    world.now += 2 * SECOND
    assert await fates(world, of(id_, "failed", outcome=NOBODY, at=world.now)) == ["taken"]
    assert len(await world.store.addresses("", "ada")) == 2


async def test_blocks_are_carried_out_by_their_own_time(world: World) -> None:
    """Whoever blocked us is dropped, whoever came back lives; news that come late lose, and so do other reasons."""
    store, start = world.store, world.now
    for tenant in ("", "acme", "zoo"):
        await store.register(tenant, "ada", "telegram", "42", now=start)

    async def told(blocked: bool, seconds: int) -> int:
        report = AddressReport("42", blocked, start + seconds * SECOND)
        return await store.block(["telegram", "push"], [report], now=start + 100 * SECOND)

    async def alive() -> int:
        return sum([len(await store.addresses(tenant, "ada")) for tenant in ("", "acme", "zoo")])

    assert (await told(True, 20), await alive()) == (3, 0)
    assert (await told(False, 10), await alive()) == (0, 0)
    assert (await told(False, 30), await alive()) == (3, 3)
    assert (await told(True, 25), await alive()) == (0, 3)
    assert await store.block(["email"], [AddressReport("42", blocked=True)], now=world.now) == 0
    (address,) = await store.addresses("acme", "ada")
    await store.invalidate([Invalidation(address.id, "42", "removed")], now=start + 40 * SECOND)
    assert (await told(False, 50), await alive()) == (0, 2)
