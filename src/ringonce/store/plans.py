"""Plans of prepared statements on PostgreSQL: one for all parameters, for a few seconds.

Left to itself the server compares costs, and where it likes a plan for the parameters at hand better, it makes one for
each execution (PostgreSQL manual, PREPARE). On large tables that took as long as the claim that was planned, and
gained nothing: ringonce's statements are such that one plan is right for all parameters. But a plan that was made while
a table was empty reads it from end to end, and is kept until the table's statistics are made anew. So plans do not
grow old.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

AGE = 3.0
"""Seconds for which a connection keeps its plans: a small table has not grown large meanwhile."""
_PLANNED = "ringonce_planned"


def plan_once(raw: Any, record: Any) -> None:
    """A new connection: plan for any parameters. For the pool's ``connect``."""
    _say(raw, "SET plan_cache_mode = force_generic_plan")
    record.info[_PLANNED] = time.monotonic()


def plan_anew(raw: Any, record: Any, _proxy: Any = None) -> None:
    """Forget plans that are old. For the pool's ``checkout``."""
    now = time.monotonic()
    if now - record.info.get(_PLANNED, now) > AGE:
        _say(raw, "DISCARD PLANS")
        record.info[_PLANNED] = now


async def renewed(connection: AsyncConnection) -> None:
    """The same for a connection that is not given back to the pool."""
    pooled = connection.sync_connection and connection.sync_connection.connection
    if pooled and time.monotonic() - pooled.info.get(_PLANNED, time.monotonic()) > AGE:
        await connection.run_sync(lambda _: plan_anew(pooled.dbapi_connection, pooled))


def _say(raw: Any, statement: str) -> None:
    cursor = raw.cursor()
    cursor.execute(statement)
    cursor.close()
    raw.commit()
