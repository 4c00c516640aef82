"""What PostgreSQL says of its statements: pages touched, time, calls, from its extension pg_stat_statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.kit import servers

if TYPE_CHECKING:
    import contextlib

    import psycopg

    from tests.servers.postgres import Database, PostgresServer

CLAIM = r"UPDATE ringonce_dispatch.*SKIP LOCKED.*RETURNING"
"""The statement that leases due rows. A poll that finds nothing does not come so far."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Since the server's start. ``pages``: found in shared buffers or read; ``milliseconds``: of execution."""

    calls: int = 0
    rows: int = 0
    pages: int = 0
    milliseconds: float = 0.0

    def __sub__(self, before: Totals) -> Totals:
        """What came in between."""
        return Totals(
            self.calls - before.calls,
            self.rows - before.rows,
            self.pages - before.pages,
            self.milliseconds - before.milliseconds,
        )


def server() -> contextlib.AbstractContextManager[PostgresServer]:
    """A PostgreSQL that counts its statements."""
    return servers.postgres({"shared_preload_libraries": "'pg_stat_statements'"})


class Watch:
    """Looks from a database of its own, so that its own statements are not among those of the one watched."""

    def __init__(self, admin: Database) -> None:
        self._connection: psycopg.Connection = admin.connect()
        self._connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")

    def totals(self, database: str, like: str = "") -> Totals:
        """Of one database's statements whose text matches the regular expression."""
        found = self._connection.execute(
            "SELECT sum(s.calls)::bigint, sum(s.rows)::bigint, sum(s.shared_blks_hit + "
            "s.shared_blks_read)::bigint, sum(s.total_exec_time) FROM pg_stat_statements AS s JOIN "
            "pg_database AS d ON d.oid = s.dbid WHERE d.datname = %s AND s.query ~ %s",
            (database, like),
        ).fetchone()
        return Totals(*(value or 0 for value in found or ()))

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()
