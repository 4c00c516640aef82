"""A report that was answered 200 is never lost, whoever dies."""

import asyncio
import os
import re
import signal
from collections.abc import Callable

import pytest

from ringonce.errors import StoreUnavailable
from ringonce.store.receipts import Receipts
from ringonce.vendors.viber import ViberApi
from tests.requirements.conftest import Start, System
from tests.requirements.reporting import callable_at, report
from tests.requirements.test_receipts import ADA, HOURS, kinds, stand_in, way


async def listening(process: asyncio.subprocess.Process) -> str:
    """Where the process says that it listens."""
    assert process.stderr is not None
    async with asyncio.timeout(120):
        while line := (await process.stderr.readline()).decode():
            if found := re.search(r"listening on (http://\S+)", line):
                return found[1]
    raise AssertionError("it never listened")


class Killing(list[tuple[str, int]]):
    """Answers to callbacks; with the first, somebody dies."""

    def __init__(self, kept: list[tuple[str, int]], kill: Callable[[], None]) -> None:
        super().__init__()
        self._kept, self._kill = kept, kill

    def append(self, one: tuple[str, int]) -> None:
        """Kill, then keep it."""
        self._kill()
        self._kept.append(one)


async def test_a_report_outlives_the_process_that_took_it(start: Start) -> None:
    """The API is killed at the 200 to a report whose message no commit knows yet; it is carried out all the same."""
    with ViberApi("vb-token", reports=["early:failed"]) as server:
        bot = {"provider": "viber", "token": "vb-token", "sender": "Shop", "base_url": server.url}
        system = await start(bot={**bot, "backoff": HOURS})
        system.config["api"] = {"port": 0}
        api = await system.process("api")
        try:
            server.reports_to = f"{await listening(api)}/v1/receipts/bot"
            answers = server.answers

            def killed() -> None:
                os.kill(api.pid, signal.SIGKILL)

            # In the stand-in's thread, before the call that the report is about is answered.
            server.answers = Killing(answers, killed)
            id_ = await system.accept("bot", "01234567890A=")

            async def reopened() -> bool:
                return (await system.view(id_))["revision"] == 2

            async with system.working(system.ring):
                await system.until(reopened)
        finally:
            if api.returncode is None:
                api.kill()
            await api.communicate()
        assert answers == [("failed", 200)]
        assert kinds(await system.view(id_)) == ["failed"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_report_whose_carrying_out_broke_off_is_carried_out_once(
    start: Start,
    when: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The database goes away between the two transactions, or after the second: 503, and later exactly one effect."""
    look = Receipts.look
    faults = [when]

    def looking(self: Receipts, *arguments: object) -> object:
        fault = faults.pop() if faults else ""
        if fault == "before":
            raise StoreUnavailable("gone before")
        found = look(self, *arguments)  # type: ignore[arg-type]
        if fault == "after":
            raise StoreUnavailable("gone after")
        return found

    with stand_in() as server:
        system = await start(way=way(server, backoff=HOURS))
        async with callable_at(system.ring) as url:
            server.reports_to = f"{url}/v1/receipts/way"
            id_ = await system.accept("way", ADA)
            await system.work()
            monkeypatch.setattr(Receipts, "look", looking)
            assert await report(server, server.told[0], "failed=131000", at=1_800_000_000.0) == 503
            assert not faults
            assert (await system.view(id_))["status"] == "sent"

            async def reopened() -> bool:
                return (await system.view(id_))["revision"] == 2

            # The vendor calls again, or does not: a worker finds it.
            async with system.working(system.ring):
                await system.until(reopened)
            assert await report(server, server.told[0], "failed=131000", at=1_800_000_000.0) == 200
        view = await system.view(id_)
    assert (view["status"], view["revision"], kinds(view)) == ("failed", 2, ["failed"])


async def test_the_settle_and_a_report_race(start: Start) -> None:
    """Reports that come while their calls are being answered: whoever commits first, each is carried out once."""
    many = 30
    with stand_in(reports=["early:sent", "delivered"]) as server:
        system: System = await start(way=way(server, concurrency=10))
        async with callable_at(system.ring) as url:
            server.reports_to = f"{url}/v1/receipts/way"
            ids = [await system.accept("way", f"+1555{n:07}") for n in range(many)]

            async def told() -> bool:
                return len(server.answers) == 2 * many

            async with system.working(system.ring):
                await system.until(told)
        views = [await system.view(id_) for id_ in ids]
    assert {status for _, status in server.answers} == {200}
    assert {(view["status"], view["attempts"], view["revision"]) for view in views} == {("sent", 1, 1)}
    assert {tuple(kinds(view)) for view in views} == {("delivered",)}
