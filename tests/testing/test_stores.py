"""The published kit for stores: ours passes it, and each broken promise is found."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ringonce.store import SqlStore, StoreOptions, migrate, open_store
from ringonce.testing import check_store

KINDS = frozenset({"notification.dispatched"})


async def memory(decode: Any) -> SqlStore:
    """A database in memory."""
    return open_store("sqlite://", decode=decode, outbox_kinds=KINDS, create=True)


async def test_ours_in_memory() -> None:
    """The store passes on a database in memory."""
    await check_store(memory)


async def test_ours_in_a_file(tmp_path: Path) -> None:
    """The store passes on a file, with a new one for each rule."""
    made = 0
    await migrate(f"sqlite:///{tmp_path}/template.db", StoreOptions(journal="delete"))

    async def fresh(decode: Any) -> SqlStore:
        nonlocal made
        made += 1
        shutil.copy(tmp_path / "template.db", tmp_path / f"{made}.db")
        return open_store(f"sqlite:///{tmp_path}/{made}.db", decode=decode, outbox_kinds=KINDS)

    await check_store(fresh)
    assert made > 15


class Greedy(SqlStore):
    """Lets anybody begin anything."""

    async def mark(self, owner: str, rows: Any, *, now: int | None = None) -> Any:
        """Begin as whoever holds it."""
        marked = await super().mark(owner, rows, now=now)
        if not marked.begun:
            return replace(marked, begun={id_: 1 for id_, _, _ in rows})
        return marked


class Forgetful(SqlStore):
    """Rescues nobody."""

    async def rescue(self, decide: Any, *, limit: int = 100, now: int | None = None) -> Any:
        """Nothing to do."""
        return []


@pytest.mark.parametrize(
    ("cls", "finding"),
    [
        (Greedy, "rows begun by a stranger"),
        (Forgetful, "rescued begun is a doubt"),
    ],
)
async def test_a_broken_store_is_found(cls: type[SqlStore], finding: str) -> None:
    """Each rule that does not hold is named with what was found instead."""

    async def broken(decode: Any) -> SqlStore:
        store = await memory(decode)
        store.__class__ = cls
        return store

    with pytest.raises(AssertionError, match=finding):
        await check_store(broken)
