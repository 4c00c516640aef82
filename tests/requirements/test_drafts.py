"""System C: a reply is drafted, approved by a person or its mode, published once, and its reader sees how it stands."""

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from ringonce.core.drafts import state_of
from ringonce.engine.draft_views import draft_view
from ringonce.engine.exchange import attempt_row
from ringonce.errors import ConflictError
from ringonce.model.outcome import Outcome, OutcomeClass
from ringonce.model.transition import Answered
from ringonce.ports import Change
from ringonce.store.schema import dispatch, drafts, notifications
from ringonce.vendors.script import plan
from ringonce.vendors.wildberries import WildberriesApi
from tests.requirements.conftest import Facts, Start, System

KEY = "feedback:f1"
QUESTION = "question:q1"
BACKOFF = {"kind": "exponential", "base": "1h", "factor": 2, "cap": "9h", "jitter": "0s"}


@pytest.fixture
def shop() -> Iterator[WildberriesApi]:
    """A marketplace with one feedback and one question."""
    with WildberriesApi("token", feedbacks=["f1"], questions=["q1"]) as server:
        yield server


async def seller(start: Start, shop: WildberriesApi, **more: object) -> System:
    """A seller of it. Praise is answered by itself."""
    channel = {"provider": "wildberries", "token": "token", "base_url": shop.url, "in_doubt": "hold", **more}
    system = await start(reply=channel)
    system.config["drafts"] = {"channel": "reply", "scenarios": {"praise": "auto", "complaint": "manual"}}
    await system.reconfigure()
    return system


async def look(system: System, key: str = KEY) -> Facts:
    """What its reader sees."""
    return draft_view(await system.ring.draft(key), history=True)


async def jobs(system: System) -> int:
    """How many rows wait for a worker."""
    return await system.count(dispatch)


async def redeliver(system: System, id_: UUID) -> None:
    """The queue delivers a job again that was done: a row for the worker, as the row of before was."""
    version = sa.select(notifications.c.version).where(notifications.c.id == id_).scalar_subquery()
    row = sa.insert(dispatch).values(
        id=id_, lane="reply", priority=1, due_at=0, purpose="send", armed=True, leased=False, fence=0,
        attempt=9, version=version, rescued=0, created_at=0,
    )  # fmt: skip
    await system.sql(lambda c: c.execute(row))


async def test_what_answers_an_erased_person_is_not_written_anew(start: Start) -> None:
    """The key of a draft whose person was erased is refused, and nothing that is said under it is kept or sent."""
    system = await start(mail={"provider": "sandbox"})
    system.config["drafts"] = {"channel": "mail"}
    await system.reconfigure()
    draft = (await system.ring.put_draft("ada@example.com", "Dear Ada")).draft
    await system.ring.erase("mail:ada@example.com")
    with pytest.raises(ConflictError, match="was erased"):
        await system.ring.put_draft("ada@example.com", "Dear Ada, once more", mode="auto")
    life = await system.ring.get(draft.row.id)
    assert (life.row.state.status, life.content.text) == ("cancelled", None)


async def published(system: System, key: str = KEY, text: str = "Thank you!") -> UUID:
    """A draft that was sent."""
    await system.ring.put_draft(key, text)
    draft = await system.ring.send_draft(key)
    await system.work()
    return draft.row.id


# --- C01, C02: the life on the draft -------------------------------------------------------------------------------


async def test_C01_draft_pending_sent(start: Start, shop: WildberriesApi) -> None:
    """C01: draft, pending, sent: its state, sent_at, send_error and send_attempts are read from the draft itself."""
    system = await seller(start, shop)
    await system.ring.put_draft(KEY, "Thank you!", scenario="complaint", by="ann")
    first = await look(system)
    assert (first["state"], first["text"], first["scenario"], first["mode"]) == (
        *("draft", "Thank you!"),
        *("complaint", "manual"),
    )
    assert (first["sent_at"], first["send_error"], first["send_attempts"]) == (None, None, 0)
    assert await jobs(system) == 0
    await system.ring.send_draft(KEY, by="bob")
    assert (await look(system))["state"] == "pending"
    await system.work()
    sent = await look(system)
    assert (sent["state"], sent["send_error"], sent["send_attempts"]) == ("sent", None, 1)
    assert sent["sent_at"] is not None
    assert shop.answers == {("feedback", "f1"): "Thank you!"}


async def test_C01_one_draft_for_each(start: Start, shop: WildberriesApi) -> None:
    """C01: one current draft for each feedback or question, however often a text is put; keys of tenants are apart."""
    system = await seller(start, shop)
    for text in ("one", "two", "three"):
        await system.ring.put_draft(KEY, text)
    await system.ring.put_draft(QUESTION, "four")
    await system.ring.put_draft(KEY, "five", tenant="acme")
    assert await system.count(drafts) == 3
    assert [draft.content.text for draft in await system.ring.drafts(tenant="")] == ["four", "three"]
    assert (await system.ring.draft(KEY, tenant="acme")).content.text == "five"


async def test_C01_error(start: Start, shop: WildberriesApi) -> None:
    """C01: what is refused for good is an error, with the provider's words."""
    system = await seller(start, shop)
    await system.ring.put_draft("question:none", "Yes")
    await system.ring.send_draft("question:none")
    await system.work()
    seen = await look(system, "question:none")
    assert (seen["state"], seen["send_attempts"], seen["sent_at"]) == ("error", 1, None)
    error = seen["send_error"]
    assert isinstance(error, dict)
    assert error["code"] == "NTF_PROVIDER_INVALID_RECIPIENT"


async def test_C01_what_is_let_be_is_rejected(start: Start, shop: WildberriesApi) -> None:
    """C01: discarding a failed reply rejects it, and whoever follows drafts is told its key; no other failure."""
    system = await seller(start, shop)
    system.config["channels"]["bad"] = {"provider": "sandbox", "script": "payload"}
    system.config["outbox"] = {"events": ["draft.rejected"]}
    await system.reconfigure()
    await system.ring.put_draft("question:none", "Yes")
    await system.ring.send_draft("question:none")
    for kind in ("draft", "order.shipped"):  # an application may name its events so
        await system.accept("bad", type=kind)
    await system.work()
    done = await system.ring.discard_failures(by="ann", reason="gone")
    assert [one.refused for one in done.results] == [None] * 3
    (row,) = [row for _, row in await system.ring.outbox()]
    data = dict(row.payload)["data"]
    assert (row.kind, data["key"], data["by"], data["reason"]) == (
        *("draft.rejected", "question:none"),
        *("ann", "gone"),
    )
    seen = await look(system, "question:none")
    assert (seen["state"], seen["history"][-1]["what"]) == ("rejected", "rejected")


async def test_C02_regenerating_goes_back_to_draft(start: Start, shop: WildberriesApi) -> None:
    """C02: another text after an error is a draft again; sent_at, send_error and send_attempts are cleared."""
    system = await seller(start, shop)
    shop.plan = plan(["400:first=1"])
    await published(system)
    assert (await look(system))["state"] == "error"
    await system.ring.put_draft(KEY, "Thank you very much!", by="ann")
    seen = await look(system)
    assert (seen["state"], seen["text"]) == ("draft", "Thank you very much!")
    assert (seen["sent_at"], seen["send_error"], seen["send_attempts"]) == (None, None, 0)
    await system.ring.send_draft(KEY)
    await system.work()
    seen = await look(system)
    assert (seen["state"], seen["send_attempts"]) == ("sent", 1)
    assert shop.answers == {("feedback", "f1"): "Thank you very much!"}


async def test_C02_regenerating_beats_a_claim(start: Start, shop: WildberriesApi) -> None:
    """C02: a text that is replaced before the mark is never published, though a worker holds it already."""
    system = await seller(start, shop)
    await system.ring.put_draft(KEY, "old")
    await system.ring.send_draft(KEY)
    store = system.ring.store
    (held,) = (await store.claim("reply", "w1", 10, 15_000_000)).rows
    assert held.content.text == "old"
    await system.ring.put_draft(KEY, "new")
    assert (await look(system))["state"] == "draft"
    assert held.row.lease is not None
    marked = await store.mark("w1", [(held.row.id, held.row.lease.fence, held.row.state.version)])
    assert (dict(marked.begun), await jobs(system)) == ({}, 0)


async def test_C02_regenerating_loses_to_a_mark(start: Start, shop: WildberriesApi) -> None:
    """C02: while a call is under way, and while nobody knows what came of it, the text stays: 409."""
    system = await seller(start, shop)
    await system.ring.put_draft(KEY, "old")
    await system.ring.send_draft(KEY)
    store = system.ring.store
    batch = await store.claim("reply", "w1", 10, 15_000_000, begin=True)
    with pytest.raises(ConflictError, match="has started") as begun:
        await system.ring.put_draft(KEY, "new")
    assert begun.value.code == "too_late"
    await system.sql(lambda c: c.execute(sa.update(dispatch).values(due_at=batch.now - 1)))
    await store.rescue(system.ring.engine.decide)
    assert ((await look(system))["status"], (await look(system))["state"]) == ("in_doubt", "pending")
    with pytest.raises(ConflictError, match="may have been published") as unknown:
        await system.ring.put_draft(KEY, "new")
    assert unknown.value.code == "in_doubt"
    assert (await look(system))["text"] == "old"


async def test_C02_a_published_answer_is_changed_once(start: Start, shop: WildberriesApi) -> None:
    """C02: where the provider can edit, another text of a sent one is a draft again, and then replaces it, once."""
    system = await seller(start, shop)
    for key, place in ((KEY, ("feedback", "f1")), (QUESTION, ("question", "q1"))):
        await published(system, key, "first")
        await system.ring.put_draft(key, "second")
        seen = await look(system, key)
        assert (seen["state"], seen["revision"], seen["sent_at"], seen["send_attempts"]) == (
            "draft",
            2,
            None,
            0,
        )
        await system.ring.send_draft(key)
        await system.work()
        assert (await look(system, key))["state"] == "sent"
        assert (shop.answers[place], shop.published[place], place in shop.changed) == ("second", 2, True)
        with pytest.raises(ConflictError, match="changed as often as its provider allows") as refused:
            await system.ring.put_draft(key, "third")
        assert refused.value.code == "already_sent"
        assert (await look(system, key))["text"] == "second"


# --- C03: retries --------------------------------------------------------------------------------------------------


async def test_C03_error_only_after_the_last_attempt(start: Start, shop: WildberriesApi) -> None:
    """C03: three attempts, exponentially apart; the reader sees pending between them, and error after the last."""
    system = await seller(start, shop, max_attempts=3, backoff=BACKOFF, in_doubt="resend")
    shop.plan = plan(["503"])
    id_ = await published(system)
    waits = []
    for count in (1, 2):
        seen = await look(system)
        assert (seen["state"], seen["status"], seen["send_attempts"]) == ("pending", "failed", count)
        waits.append(round(await system.wait(id_)))
        await system.pass_time(4 * 3600)
        await system.work()
    assert waits == [3600, 7200]
    seen = await look(system)
    assert (seen["state"], seen["send_attempts"], len(shop.ledger.entries)) == ("error", 3, 3)


# --- C04, C08: guards, with the job delivered again ----------------------------------------------------------------


async def test_C04_sent_is_409_by_hand(start: Start, shop: WildberriesApi) -> None:
    """C04, C08: a sent draft is not queued by hand; who approved it and when it went is told."""
    system = await seller(start, shop)
    await system.ring.put_draft(KEY, "Thank you!")
    await system.ring.send_draft(KEY, by="ann")
    await system.work()
    with pytest.raises(ConflictError, match=r"state sent; approved by ann at .*; sent at") as refused:
        await system.ring.send_draft(KEY, by="eve")
    assert (refused.value.code, await jobs(system), shop.published["feedback", "f1"]) == (
        "already_sent",
        0,
        1,
    )


async def test_C04_sent_is_skipped_in_auto_mode(start: Start, shop: WildberriesApi) -> None:
    """C04, C08: the mode auto leaves a sent draft alone, text and all, and says so."""
    system = await seller(start, shop)
    assert not (await system.ring.put_draft(KEY, "Thank you!", scenario="praise")).skipped
    await system.work()
    for text in ("Thank you so much!", "Thank you!"):
        saved = await system.ring.put_draft(KEY, text, scenario="praise")
        assert (saved.skipped, state_of(saved.draft.row.state).value) == (True, "sent")
        assert saved.draft.content.text == "Thank you!"
    await system.work()
    assert (await jobs(system), shop.published["feedback", "f1"]) == (0, 1)


async def test_C04_pending_gets_no_second_job(start: Start, shop: WildberriesApi) -> None:
    """C04, C08: what waits already is answered with the same id, and waits once."""
    system = await seller(start, shop)
    await system.ring.put_draft(KEY, "Thank you!", mode="auto")
    first = await system.ring.send_draft(KEY, by="ann")
    again = await system.ring.send_draft(KEY, by="bob", version=1)
    saved = await system.ring.put_draft(KEY, "Thank you!", mode="auto")
    assert first.row == again.row == saved.draft.row
    assert await jobs(system) == 1
    await system.work()
    assert len(shop.ledger.entries) == 1


@pytest.mark.parametrize("marks", [True, False])
async def test_C04_the_worker_leaves_a_sent_draft_at_once(
    start: Start, shop: WildberriesApi, marks: bool
) -> None:
    """C04, C08: the job of a sent draft, delivered again, calls nobody and is gone."""
    more = {} if marks else {"in_doubt": "resend", "mark": False}
    system = await seller(start, shop, **more)
    id_ = await published(system)
    before = await look(system)
    await redeliver(system, id_)
    await system.work()
    assert await jobs(system) == 0
    assert len(shop.ledger.entries) == 1
    after = await look(system)
    assert (after["state"], after["send_attempts"], after["version"]) == ("sent", 1, before["version"])


async def test_C04_the_worker_leaves_what_went_back_to_draft(start: Start, shop: WildberriesApi) -> None:
    """C08: a job of a text that was taken back meanwhile publishes nothing."""
    system = await seller(start, shop)
    saved = await system.ring.put_draft(KEY, "Thank you!")
    await redeliver(system, saved.draft.row.id)
    await system.work()
    assert (await jobs(system), len(shop.ledger.entries), (await look(system))["state"]) == (0, 0, "draft")


async def test_C04_a_late_verdict_stops_the_job(start: Start, shop: WildberriesApi) -> None:
    """C08: a worker that marks after the draft was sent by another's late answer is not let through."""
    system = await seller(start, shop, in_doubt="resend")
    await system.ring.put_draft(KEY, "Thank you!", mode="auto")
    store, decide = system.ring.store, system.ring.engine.decide
    (lost,) = (await store.claim("reply", "w1", 1, 1, begin=True)).rows
    await system.sql(lambda c: c.execute(sa.update(dispatch).values(due_at=0)))
    await store.rescue(decide)
    await system.pass_time()
    await system.sql(lambda c: c.execute(sa.update(dispatch).values(armed=True)))
    (held,) = (await store.claim("reply", "w2", 1, 15_000_000)).rows
    await answer(system, lost, "w1")
    assert (await look(system))["state"] == "sent"
    assert held.row.lease is not None
    marked = await store.mark("w2", [(held.row.id, held.row.lease.fence, held.row.state.version)])
    assert (dict(marked.begun), await jobs(system)) == ({}, 0)


async def answer(system: System, claimed: Any, owner: str) -> None:
    """The worker's call was accepted."""
    outcome, row = Outcome(OutcomeClass.ACCEPTED), claimed.row
    told = attempt_row(row, row.lease.number, outcome, started_at=1, ended_at=2, account="")
    change = Change(row.id, Answered(row.lease.number, outcome), (owner, row.lease.fence), told)
    await system.ring.store.settle([change], system.ring.engine.decide)


async def test_C04_error_is_queued_anew(start: Start, shop: WildberriesApi) -> None:
    """C04: a draft in error is sent by hand with the same text; its attempts count from the beginning."""
    system = await seller(start, shop)
    shop.plan = plan(["400:first=1"])
    await published(system)
    assert (await look(system))["state"] == "error"
    await system.ring.send_draft(KEY, by="ann")
    assert (await look(system))["state"] == "pending"
    await system.work()
    seen = await look(system)
    assert (seen["state"], seen["send_attempts"], seen["revision"]) == ("sent", 1, 2)


# --- C05: modes ----------------------------------------------------------------------------------------------------


async def test_C05_mode_of_the_scenario(start: Start, shop: WildberriesApi) -> None:
    """C05: under auto a saved draft is queued; under manual, and without a scenario, it waits for a person."""
    system = await seller(start, shop)
    await system.ring.put_draft(KEY, "Thank you!", scenario="praise", by="generator")
    await system.ring.put_draft(QUESTION, "Sorry", scenario="complaint")
    await system.ring.put_draft("question:q2", "Hm")
    await system.work()
    states = [(await look(system, key))["state"] for key in (KEY, QUESTION, "question:q2")]
    assert states == ["sent", "draft", "draft"]
    history = (await look(system))["history"]
    assert isinstance(history, list)
    assert [(entry["what"], entry.get("auto")) for entry in history][1] == ("approved", True)


async def test_C05_the_mode_is_overridden(start: Start, shop: WildberriesApi) -> None:
    """C05: the mode that a PUT names wins over its scenario's, both ways."""
    system = await seller(start, shop)
    await system.ring.put_draft(KEY, "Thank you!", scenario="praise", mode="manual")
    await system.ring.put_draft(QUESTION, "Sorry", scenario="complaint", mode="auto")
    await system.work()
    assert [(await look(system, key))["state"] for key in (KEY, QUESTION)] == ["draft", "sent"]
    await system.ring.put_draft(KEY, "Thank you!", mode="auto")
    await system.work()
    assert (await look(system))["state"] == "sent"


# --- C07: audit ----------------------------------------------------------------------------------------------------


async def test_C07_an_entry_for_each_attempt(start: Start, shop: WildberriesApi) -> None:
    """C07: each ended attempt, failed or not, is one entry of the history, beside who wrote and approved it."""
    system = await seller(start, shop, backoff=BACKOFF, in_doubt="resend")
    shop.plan = plan(["503:first=2"])
    await system.ring.put_draft(KEY, "Thank you!", by="ann")
    await system.ring.send_draft(KEY, by="bob")
    for _ in range(3):
        await system.work()
        await system.pass_time(100_000)
    history = (await look(system))["history"]
    assert isinstance(history, list)
    told = [(entry["what"], entry.get("by") or entry.get("outcome")) for entry in history]
    assert told == [
        *(("created", "ann"), ("approved", "bob")),
        *(("attempt", "unknown"), ("attempt", "unknown"), ("attempt", "accepted")),
    ]
    assert [entry["code"] for entry in history[2:]] == ["NTF_PROVIDER_TRANSIENT"] * 2 + [None]
    assert all(entry["started_at"] and entry["ended_at"] for entry in history[2:])


async def test_C07_history_survives_another_text(start: Start, shop: WildberriesApi) -> None:
    """C07: what was tried with an earlier text stays in the history, though the reader's counters begin anew."""
    system = await seller(start, shop)
    shop.plan = plan(["400:first=1"])
    await published(system)
    await system.ring.put_draft(KEY, "Again", by="ann")
    await system.ring.reject_draft(KEY, by="eve", reason="rude")
    seen = await look(system)
    history = seen["history"]
    assert isinstance(history, list)
    told = [entry["what"] for entry in history if entry["what"] != "code_error"]
    assert told == ["created", "approved", "attempt", "regenerated", "rejected"]
    assert (seen["state"], seen["send_attempts"], history[-1]["reason"]) == ("rejected", 0, "rude")


# --- around them ---------------------------------------------------------------------------------------------------


async def test_C08_a_reply_is_never_sent_twice_by_force(start: Start, shop: WildberriesApi) -> None:
    """C08: not even a forced retry publishes a sent reply again."""
    system = await seller(start, shop)
    id_ = await published(system)
    with pytest.raises(ConflictError, match="not published twice"):
        await system.ring.retry(id_, force=True)
    for dry in (True, False):
        (said,) = (await system.ring.retry_failures([id_], force=True, dry_run=dry)).results
        assert said.refused is not None
        assert said.refused.code == "already_sent"
    assert await jobs(system) == 0


async def test_C08_many_approve_at_once(start: Start, shop: WildberriesApi) -> None:
    """C08: twenty people approve at once while a job runs: one call."""
    system = await seller(start, shop)
    await system.ring.put_draft(KEY, "Thank you!")

    async def approve(number: int) -> str:
        try:
            return str((await system.ring.send_draft(KEY, by=f"p{number}")).row.id)
        except ConflictError as error:
            return error.code

    async with system.working(system.ring):
        told = set(await asyncio.gather(*(approve(number) for number in range(20))))
    await system.work()
    assert len(shop.ledger.entries) == 1
    assert len(told - {"already_sent"}) == 1
