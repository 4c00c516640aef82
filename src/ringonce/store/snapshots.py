"""Who holds the oldest snapshot of a PostgreSQL database.

A row that died is kept as long as somebody may still see it, and every claim passes by it. What keeps it are
sessions with a snapshot or an open transaction id (``pg_stat_activity.backend_xmin``, ``backend_xid``), prepared
transactions, and replication slots (PostgreSQL manual, "Routine Vacuuming", "pg_replication_slots"). Ids and
application names are read, never a query: its text may name a person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from ringonce.model.retention import Snapshot

if TYPE_CHECKING:
    from sqlalchemy import Connection

# Others see their times only of a role that they belong to; without one the age is null, and the caller counts.
# A vacuum's own snapshot holds nothing back. Sessions of other databases hold back only tables that all share.
LOOK = sa.text(
    """
SELECT 'session ' || pid || coalesce(' (' || nullif(application_name, '') || ')', ''),
       pid || ':' || coalesce(backend_xmin::text, '') || ':' || coalesce(backend_xid::text, ''),
       (extract(epoch FROM clock_timestamp() - xact_start) * 1000000)::bigint
  FROM pg_stat_activity
 WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()
   AND (datname = current_database() OR datname IS NULL) AND backend_type <> 'autovacuum worker'
   AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = pg_stat_activity.pid)
UNION ALL
SELECT 'prepared transaction ' || transaction, 'prepared:' || transaction,
       (extract(epoch FROM clock_timestamp() - prepared) * 1000000)::bigint
  FROM pg_prepared_xacts WHERE database = current_database()
UNION ALL
SELECT 'replication slot ' || slot_name, 'slot:' || slot_name || ':' || xmin::text, NULL
  FROM pg_replication_slots WHERE xmin IS NOT NULL
"""
)


def look(connection: Connection) -> list[Snapshot]:
    """All that hold one now, but ourselves. Nobody does on SQLite: a reader there keeps no dead rows."""
    if connection.dialect.name != "postgresql":
        return []
    return [Snapshot(who, mark, age) for who, mark, age in connection.execute(LOOK)]
