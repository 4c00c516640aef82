"""The library: what it composes, what it accepts, guards, and changes at run time."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import ringonce
from ringonce import ConfigError, ConflictError, InputError, NotFoundError, Ringonce, Row, Status
from ringonce.config import Config

CHANNELS = {
    "ok": {"provider": "sandbox"},
    "dead": {"provider": "sandbox", "script": ["invalid_recipient"]},
    "quiet": {"provider": "sandbox", "in_doubt": "assume_sent"},
}


@pytest.fixture
async def library(tmp_path: Path) -> AsyncIterator[Ringonce]:
    """An opened library on a new file."""
    config = {
        "store": {"url": f"sqlite:///{tmp_path}/ringonce.db"},
        "retry": {"cycle": "10ms"},
        "channels": CHANNELS,
    }
    async with Ringonce(config) as library:
        yield library


async def status(library: Ringonce, accepted: ringonce.Accepted) -> Status:
    """The status of the only notification."""
    return (await library.get(accepted.notifications[0].id)).row.state.status


async def test_a_database_in_memory_needs_nothing() -> None:
    """`sqlite://` is a whole store in memory: accept, deliver, report."""
    async with Ringonce({"store": {"url": "sqlite://"}, "channels": CHANNELS}) as library:
        accepted = await library.notify(to={"ok": "ada"}, content={"text": "x"})
        await library.run_worker(drain=True)
        assert await status(library, accepted) is Status.SENT
        assert (await library.report())[0]["sent"] == 1


async def test_keywords_a_mapping_and_bytes_are_the_same(library: Ringonce) -> None:
    """Notify takes the structure as keywords, as a mapping and as JSON; each again is a duplicate of the first."""
    first = await library.notify(event_id="e1", to={"ok": "ada"}, content={"text": "x"})
    second = await library.notify({"event_id": "e1", "to": {"ok": "ada"}, "content": {"text": "x"}})
    third = await library.notify(b'{"content":{"text":"x"},"to":{"ok":"ada"},"event_id":"e1"}')
    assert (first.duplicate, second.duplicate, third.duplicate) == (False, True, True)
    assert first.notifications == second.notifications == third.notifications


async def test_a_structure_and_keywords_are_refused(library: Ringonce) -> None:
    """Both at once is an error, because one of them would be ignored."""
    with pytest.raises(InputError):
        await library.notify({"to": {"ok": "a"}}, content={"text": "x"})


async def test_conflict(library: Ringonce) -> None:
    """One known id with another body raises; among many it is told on its item and the others are accepted."""
    await library.notify(event_id="e1", to={"ok": "ada"}, content={"text": "x"})
    other = {"event_id": "e1", "to": {"ok": "ada"}, "content": {"text": "y"}}
    with pytest.raises(ConflictError):
        await library.notify(other)
    items = await library.notify_many([other, {**other, "event_id": "e2"}])
    assert [item.conflict for item in items] == [True, False]


async def test_one_bad_of_many_and_nothing_is_stored(library: Ringonce) -> None:
    """A bad structure among many raises with its index, and none is stored."""
    good = {"to": {"ok": "ada"}, "content": {"text": "x"}}
    with pytest.raises(InputError, match=r"\[1\]"):
        await library.notify_many([good, {**good, "to": {"nope": "x"}}])
    assert await library.search() == []


async def test_a_tenants_caller_stays_in_its_tenant(library: Ringonce) -> None:
    """A caller of one tenant can neither accept nor read for another."""
    body = {"tenant": "acme", "to": {"ok": "ada"}, "content": {"text": "x"}}
    with pytest.raises(InputError, match="tenant"):
        await library.notify(body, caller="other")
    accepted = await library.notify(body)
    id_ = accepted.notifications[0].id
    for call in (
        library.get(id_, tenant="other"),
        library.cancel(id_, tenant="other"),
        library.retry(id_, tenant="other"),
        library.resolve(id_, "sent", tenant="other"),
        library.explain(id_, tenant="other"),
    ):
        with pytest.raises(NotFoundError):
            await call
    assert await library.search(tenant="other") == []


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_guard_is_asked_before_the_attempt(library: Ringonce, kind: str) -> None:
    """A guard that says no cancels, one that says yes lets through; a plain function does not block the loop."""
    wanted = {"order:1": True, "order:2": False}
    if kind == "async":

        @library.guard("order")
        async def ask(row: Row) -> bool:
            await asyncio.sleep(0)
            return wanted[row.subject or ""]
    else:

        @library.guard("order")
        def look(row: Row) -> bool:
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            return wanted[row.subject or ""]

    results = {}
    for subject in wanted:
        accepted = await library.notify(subject=subject, to={"ok": "ada"}, content={"text": "x"})
        results[subject] = accepted
    await library.run_worker(drain=True)
    assert await status(library, results["order:1"]) is Status.SENT
    assert await status(library, results["order:2"]) is Status.CANCELLED
    life = await library.get(results["order:2"].notifications[0].id)
    assert life.row.state.attempts == 0


async def test_the_providers_default_in_doubt_is_applied(library: Ringonce) -> None:
    """What the configuration leaves open comes from the provider; what it says stays."""
    views = {view["name"]: view for view in await library.channels()}
    assert (views["ok"]["in_doubt"], views["quiet"]["in_doubt"]) == ("resend", "assume_sent")


async def test_changes_at_run_time_reach_other_processes(library: Ringonce) -> None:
    """A change is kept in the database: another process sees it, and takes it back."""
    await library.change_channel("ok", {"max_attempts": 2, "backoff": {"kind": "fixed", "base": "3s"}})
    async with Ringonce(library.config) as other:
        (view,) = [view for view in await other.channels() if view["name"] == "ok"]
        assert (view["max_attempts"], view["backoff"]) == (2, {"kind": "fixed", "base": 3.0, "jitter": 1.0})
        await other.change_channel("ok", {"max_attempts": None})
    (view,) = [view for view in await library.channels() if view["name"] == "ok"]
    assert (view["max_attempts"], view["changed"]) == (10, {"backoff": {"kind": "fixed", "base": "3s"}})


async def test_a_change_that_is_wrong_changes_nothing(library: Ringonce) -> None:
    """A wrong change raises and nothing is kept."""
    for name, changes, error in (
        ("ok", {"max_attempts": 0}, ConfigError),
        ("ok", {"provider": "smtp"}, ConfigError),
        ("ok", {"nonsense": None}, ConfigError),
        ("nope", {"enabled": False}, NotFoundError),
    ):
        with pytest.raises(error):
            await library.change_channel(name, changes)
    assert await library.store.overrides() == {}


async def test_a_kept_change_that_no_longer_fits_is_told_and_ignored(library: Ringonce) -> None:
    """A change that a later version or file contradicts never stops the worker: it is alerted and left out."""
    await library.store.override("ok", {"max_attempts": 0})
    accepted = await library.notify(to={"ok": "ada"}, content={"text": "x"})
    await library.run_worker(drain=True)
    assert await status(library, accepted) is Status.SENT
    assert library.telemetry.value("ringonce_alerts_total", kind="bad_override") == 1


async def test_invalidated_addresses_are_not_used(library: Ringonce) -> None:
    """A dropped address is sent nothing any more, and dropping it twice is not found."""
    await library.register("ada", "ok", "ada-1")
    assert await library.invalidate("ada", "ok", "ada-1") == 1
    with pytest.raises(NotFoundError):
        await library.invalidate("ada", "ok", "ada-1")
    await library.notify(recipients=["ada"], content={"text": "x"})
    await library.run_worker(drain=True)
    assert (await library.report())[0]["sent"] == 0


async def test_an_older_schema_is_an_error_not_an_upgrade(tmp_path: Path) -> None:
    """Opening creates a new file, but never upgrades one that exists: that is said with its mend."""
    file = tmp_path / "other.db"
    connection = sqlite3.connect(file)
    connection.execute("create table x (y)")
    connection.close()
    with pytest.raises(ringonce.SchemaError, match="ringonce migrate"):
        await Ringonce({"store": {"url": f"sqlite:///{file}"}}).open()


def test_all_wrong_channels_are_named_at_once() -> None:
    """Several channels that can not be built are one error that lists them."""
    with pytest.raises(ConfigError) as wrong:
        Ringonce({"channels": {"a": {"provider": "nope"}, "b": {"provider": "smtp"}}})
    assert "channels.a.provider" in str(wrong.value)
    assert "channels.b." in str(wrong.value)


def test_overrides_of_a_ready_config_are_refused() -> None:
    """A Config is taken as it is; keywords beside it would be ignored, so they are an error."""
    with pytest.raises(ConfigError):
        Ringonce(Config(), store={"url": "sqlite://"})


def test_public_names() -> None:
    """Every public name can be imported, and `import ringonce` alone loads nothing heavy."""
    for name in ringonce.__all__:
        assert getattr(ringonce, name).__name__ == name
    code = "import ringonce, sys; sys.exit('sqlalchemy' in sys.modules or 'ringonce.app' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError):
        _ = ringonce.nonsense  # type: ignore[attr-defined]
