"""Plans of prepared statements: one for all parameters, and not for long."""

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa

from ringonce.store import migrate, open_store, plans
from tests.servers.pgbouncer import planned
from tests.servers.postgres import Database
from tests.store.kit import LEASE, decode

SAID = sa.text("SELECT 1")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What connections were told about their plans."""
    told: list[str] = []
    say = plans._say

    def watched(raw: Any, statement: str) -> None:
        told.append(statement)
        say(raw, statement)

    monkeypatch.setattr(plans, "_say", watched)
    return told


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_plans_do_not_grow_old(
    driver: str, pg_database: Database, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection plans for any parameters, and forgets its plans when it is used again after a while."""
    await migrate(pg_database.url(driver))
    store = open_store(pg_database.url(driver), decode=decode, pgbouncer="false")
    await store.open()
    assert await store.backend.run(planned) == "force_generic_plan"
    await asyncio.gather(*(store.claim("email", "w-1", 1, LEASE) for _ in range(3)))
    assert "DISCARD PLANS" not in said
    monkeypatch.setattr(plans, "AGE", 0.0)
    for single in (False, True):
        said.clear()
        await store.backend.run(lambda connection: connection.execute(SAID).all(), single=single)
        assert said == ["DISCARD PLANS"]
        assert await store.backend.run(planned, single=single) == "force_generic_plan"
    await store.close()
