"""A pooler in transaction mode (PgBouncer): each transaction may run on another connection to the server.

So what belongs to a session can not be relied on: prepared statements, settings, LISTEN. Behind one, ringonce uses no
setting and no lock of a session; the two drivers are told to leave nothing prepared behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Mapping


def unprepared(driver: str) -> Mapping[str, Any]:
    """Options of a connection by which no statement outlives its transaction.

    asyncpg can not do without preparing (asyncpg's FAQ, "Why am I getting prepared statement errors?"), but the empty
    name is that of the protocol's unnamed statement, which the next one replaces: it collides with nobody's and leaves
    nothing behind on a connection that others use next. psycopg: ``prepare_threshold`` None never prepares (psycopg's
    documentation, "Prepared statements").
    """
    if driver == "asyncpg":
        return {
            "statement_cache_size": 0,
            "prepared_statement_cache_size": 0,
            "prepared_statement_name_func": str,
        }
    return {"prepare_threshold": None}


def behind_pooler(connection: sa.Connection) -> bool:
    """Is the server's process another one than the connection was told?

    A pooler makes up the key for cancelling that it hands out when a client connects, and with it the process's number
    (PostgreSQL's protocol, "BackendKeyData").
    """
    raw: Any = connection.connection.driver_connection
    told = raw.get_server_pid() if hasattr(raw, "get_server_pid") else raw.info.backend_pid
    return bool(connection.execute(sa.select(sa.func.pg_backend_pid())).scalar_one() != told)
