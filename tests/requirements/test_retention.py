"""What is over is removed after its time, by whichever worker has the duty; what was told once is never told again."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import sqlalchemy as sa

from ringonce.model.policy import DAY
from ringonce.store.schema import contents, dispatch, events, inbox, journal, notifications, outbox, timeline
from tests.requirements.conftest import Start, System

BODY = {"event_id": "order-1", "to": {"box": "ada"}, "content": {"text": "Your order has left."}}
AGES = (
    (notifications, "created_at", "changed_at", "event_at"),
    (events, "created_at"),
    (journal, "created_at"),
    (contents, "created_at"),
    (timeline, "at"),
    (outbox, "created_at", "published_at"),
)


async def grow_old(system: System, days: int) -> None:
    """Bring everything that is written down so much further into the past."""

    def move(connection: sa.Connection) -> None:
        for table, *names in AGES:
            connection.execute(sa.update(table).values({name: table.c[name] - days * DAY for name in names}))

    await system.sql(move)


@asynccontextmanager
async def pruning(system: System) -> AsyncIterator[None]:
    """A worker with that duty alone."""
    stop = asyncio.Event()
    working = asyncio.create_task(system.ring.run_worker(stop, only=["prune"]))
    try:
        yield
    finally:
        stop.set()
        await working


async def test_a_repeat_after_pruning_rings_nobody(start: Start) -> None:
    """Sent, grown old, removed, told again: library and command line say so, nothing is sent, the report counts it."""
    system = await start(box={"provider": "sandbox"})
    (brief,) = (await system.ring.notify(BODY)).notifications
    await system.work()
    await grow_old(system, 40)

    async def gone() -> bool:
        return await system.ring.store.get(brief.id) is None

    async with pruning(system):
        await system.until(gone)
    assert system.metric("ringonce_pruned_total", table="notifications") == 1
    assert (await system.count(notifications), await system.count(contents)) == (0, 0)
    assert (await system.count(events), await system.count(journal), await system.count(outbox)) == (1, 1, 1)
    again = await system.ring.notify(BODY)
    assert (again.duplicate, again.pruned, again.notifications) == (True, True, ())
    (system.folder / "again.jsonl").write_text(json.dumps(BODY))
    said = await system.command("send", "--file", str(system.folder / "again.jsonl"), "--json")
    assert json.loads(said)["duplicates"] == 1
    await system.work()
    assert await system.count(notifications) == 0
    (report,) = await system.ring.report()
    assert (report["accepted"], report["sent"], report["duplicates_refused"]) == (1, 1, 2)


async def test_what_waits_for_a_person_stays(start: Start) -> None:
    """A doubt that is held and a disabled channel's row grow old beside what is removed, and go on afterwards."""
    system = await start(
        box={"provider": "sandbox"},
        held={"provider": "sandbox", "script": "timeout", "in_doubt": "hold", "max_age": "none"},
        off={"provider": "sandbox", "enabled": False, "max_age": "none"},
    )
    sent = await system.accept("box")
    held, off = await system.accept("held"), await system.accept("off")
    await system.work()
    await grow_old(system, 400)

    async def gone() -> bool:
        return await system.ring.store.get(sent) is None

    async with pruning(system):
        await system.until(gone)
    assert (await system.view(held))["status"] == "in_doubt"
    assert (await system.view(off))["status"] == "pending"
    assert await system.count(dispatch) == 2
    await system.ring.resolve(held, "sent", by="ann")
    await system.ring.enable("off")
    await system.work()
    assert {(await system.view(id_))["status"] for id_ in (held, off)} == {"sent"}


async def test_an_inbox_keeps_what_nobody_has_read(start: Start) -> None:
    """In-app copies that are unread stay in the inbox long after others of their age are gone."""
    system = await start(bell={"provider": "inapp"})
    for event_id in ("read", "unread"):
        await system.ring.notify(
            {"event_id": event_id, "recipients": ["ada"], "channels": ["bell"], "content": {"text": "x"}}
        )
    await system.work()
    (copy,) = [one for one in await system.ring.store.copies("", "ada") if one.event_id == "read"]
    await system.ring.mark_read("ada", [copy.id])
    await grow_old(system, 120)

    async def one_left() -> bool:
        return await system.count(inbox) == 1

    async with pruning(system):
        await system.until(one_left)
    assert [one.event_id for one in await system.ring.store.copies("", "ada")] == ["unread"]
    assert await system.ring.store.unread("", "ada") == 1


async def test_the_check_shows_how_long_things_are_kept(start: Start) -> None:
    """`ringonce check` names every age, and those that are kept for good."""
    system = await start(box={"provider": "sandbox"})
    system.config["retention"] = {"sent": "14d", "inbox_unread": "none"}
    checks = {
        one["what"]: one["text"] for one in json.loads(await system.command("check", "--json"))["checks"]
    }
    assert "sent 14d, failed 90d" in checks["retention"]
    assert "inbox_unread kept" in checks["retention"]
