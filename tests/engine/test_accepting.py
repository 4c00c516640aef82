"""Group commit of what comes in: together where it waits, alone where it is wrong."""

import asyncio
from collections.abc import Sequence

import pytest

from ringonce.engine.accepting import AT_THE_SAME_TIME, LARGEST, Accepting
from ringonce.errors import StoreError, StoreUnavailable
from ringonce.model.event import Event
from ringonce.ports import Accepted, NewEvent


def events(*names: str) -> list[NewEvent]:
    """Events with these ids."""
    return [NewEvent(Event(name), name.encode(), b"", b"") for name in names]


class Database:
    """Remembers what is written together; a write returns when it is told to."""

    def __init__(self) -> None:
        self.written: list[list[str]] = []
        self.refused: dict[str, Exception] = {}
        self.turns: list[asyncio.Future[None]] = []

    async def write(self, batch: Sequence[NewEvent]) -> list[Accepted]:
        """Wait for the turn."""
        names = [item.event.event_id for item in batch]
        self.written.append(names)
        turn = asyncio.get_running_loop().create_future()
        self.turns.append(turn)
        await turn
        for name in names:
            if name in self.refused:
                raise self.refused[name]
        return [Accepted(name) for name in names]

    async def let_go(self) -> None:
        """Everything that is being written returns, and what follows from it, until nothing waits."""
        while any(not turn.done() for turn in self.turns):
            for turn in self.turns:
                if not turn.done():
                    turn.set_result(None)
            for _ in range(5):
                await asyncio.sleep(0)


@pytest.fixture
def database() -> Database:
    """Nothing is written yet."""
    return Database()


async def started(accepting: Accepting, *callers: list[NewEvent]) -> list["asyncio.Task[list[Accepted]]"]:
    """Callers that have come, in this order."""
    tasks = [asyncio.create_task(accepting.put(caller)) for caller in callers]
    await asyncio.sleep(0)
    return tasks


async def busy(accepting: Accepting) -> list["asyncio.Task[list[Accepted]]"]:
    """As many as may be under way at the same time."""
    return await started(accepting, *(events(f"first-{i}") for i in range(AT_THE_SAME_TIME)))


async def test_who_is_alone_is_served_at_once(database: Database) -> None:
    """Without others a caller's events are one write, and its answers are those of the write."""
    (task,) = await started(Accepting(database.write), events("a", "b"))
    assert database.written == [["a", "b"]]
    await database.let_go()
    assert [one.event_id for one in task.result()] == ["a", "b"]


async def test_those_who_wait_go_together(database: Database) -> None:
    """Who comes while the database is busy waits, goes with the others in one write, and gets its own answers."""
    accepting = Accepting(database.write)
    await busy(accepting)
    tasks = await started(accepting, events("a"), events("b", "c"), events("d"))
    assert len(database.written) == AT_THE_SAME_TIME
    await database.let_go()
    assert database.written[AT_THE_SAME_TIME:] == [["a", "b", "c", "d"]]
    assert [[one.event_id for one in task.result()] for task in tasks] == [["a"], ["b", "c"], ["d"]]


async def test_a_bad_one_falls_back_alone(database: Database) -> None:
    """What the database refuses is told to the caller it belongs to; the others are stored."""
    accepting = Accepting(database.write)
    database.refused["bad"] = StoreError("refused")
    await busy(accepting)
    one, bad, other = await started(accepting, events("a"), events("bad"), events("b"))
    await database.let_go()
    assert (one.result()[0].event_id, other.result()[0].event_id) == ("a", "b")
    assert bad.exception() is database.refused["bad"]


async def test_a_database_that_is_away_is_asked_once(database: Database) -> None:
    """All who went together are told that it is away, and it is not asked again for each."""
    accepting = Accepting(database.write)
    database.refused["a"] = StoreUnavailable("away")
    await busy(accepting)
    tasks = await started(accepting, events("a"), events("b"))
    await database.let_go()
    assert all(isinstance(task.exception(), StoreUnavailable) for task in tasks)
    assert len(database.written) == AT_THE_SAME_TIME + 1


async def test_who_has_gone_is_left_out(database: Database) -> None:
    """A caller that gave up before its turn has stored nothing."""
    accepting = Accepting(database.write)
    await busy(accepting)
    gone, stays = await started(accepting, events("gone"), events("stays"))
    gone.cancel()
    await database.let_go()
    assert database.written[AT_THE_SAME_TIME:] == [["stays"]]
    assert stays.result()[0].event_id == "stays"


async def test_a_write_has_a_size(database: Database) -> None:
    """Beyond the largest write callers wait for the next one; no caller's events are parted."""
    accepting = Accepting(database.write)
    await busy(accepting)
    half = [f"x{i}" for i in range(LARGEST // 2 + 1)]
    await started(accepting, events(*half), events(*half), events("last"))
    await database.let_go()
    assert sorted(len(names) for names in database.written[AT_THE_SAME_TIME:]) == [len(half), len(half) + 1]


async def test_a_failure_frees_the_way(database: Database) -> None:
    """After a write that failed the next caller is served as before."""
    accepting = Accepting(database.write)
    database.refused["bad"] = StoreError("refused")
    for _ in range(AT_THE_SAME_TIME + 1):
        (bad,) = await started(accepting, events("bad"))
        await database.let_go()
        assert isinstance(bad.exception(), StoreError)
    (good,) = await started(accepting, events("good"))
    await database.let_go()
    assert good.result()[0].event_id == "good"
