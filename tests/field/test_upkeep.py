"""Field reports about what grows and is never looked at. The ids are those of docs/reference/field-reports.md."""

import pytest
import sqlalchemy as sa

from ringonce.app import Ringonce
from ringonce.errors import ConfigError
from ringonce.model.policy import DAY
from ringonce.model.retention import MARGIN, Pruned, Retention
from ringonce.ports import PRUNE_LEASE
from ringonce.store.schema import journal
from tests.requirements.conftest import Start

OLD, YOUNG = 1_200, 300
BATCH = 100


async def test_idem_04_the_journal_is_emptied_in_small_steps(start: Start) -> None:
    """IDEM-04: a journal of what was sent grew without bounds, or had no time to be emptied by.

    Source: cardstack/cardstack#2474. Here: each step looks at one batch along an index over time and removes what is
    older than the journal's age, while others accept; what a source may still tell again stays, and less than 90 days
    can not be set.
    """
    system = await start(box={"provider": "sandbox"})
    store, keep = system.ring.store, Retention()
    assert keep.journal is not None
    now = await store.now()
    old = now - keep.journal - MARGIN - DAY

    def fill(connection: sa.Connection) -> None:
        rows = [
            {"key": number.to_bytes(16), "event_key": bytes(16), "recipient": "ada", "created_at": at}
            for number, at in enumerate([old] * OLD + [now] * YOUNG)
        ]
        connection.execute(sa.insert(journal), rows)

    await system.sql(fill)
    term = await store.take_lease(PRUNE_LEASE, "w-1", 600_000_000)
    assert term is not None
    step = Pruned()
    removed: list[int] = []
    while not step.done:
        step = await store.prune(term, "w-1", keep, walk=step.walk, limit=BATCH)
        removed.append(step.counts.get("event_recipients", 0))
        await system.accept("box", f"place-{len(removed)}")
    assert sum(removed) == OLD
    assert max(removed) <= BATCH
    assert await system.count(journal) == YOUNG + len(removed)
    with pytest.raises(ConfigError, match="journal"):
        Ringonce({"retention": {"journal": "7d"}})
