"""Millions of rows in minutes: a row that ringonce wrote itself, multiplied by the database.

One notification is accepted through the library; its rows in every table are the pattern. Copies get keys, ids, times
and addresses of their own, all other columns are taken over as they are, so that a new column needs no change here.

- ``waiting``: due now; ``future``: due in a year; both have a row in ``dispatch``.
- ``finished``: sent, nothing is left to do. They have no journal rows: ten million random keys take longer than all
  else, and nothing that is measured reads them.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

YEAR = 365 * 86_400_000_000
CHUNK = 500_000
"""Rows per transaction: one progress line each."""
TOKEN = "dHIoDxE7Hdg:APA91bH1Zj0kNa"  # noqa: S105 - what a registration token begins with
TABLES = ("events", "event_recipients", "contents", "addresses", "notifications", "dispatch")


@dataclass(slots=True)
class Fill:
    """Multiplies the rows of one notification.

    Args:
        connection: blocking, in autocommit mode, to the database that has ringonce's tables.
        pattern: the notification's id.
        say: takes a line of progress.
        shared: notifications per event, content and address (a fan-out); 1: each has its own.
    """

    connection: psycopg.Connection[Any]
    pattern: str
    say: Callable[[str], None]
    shared: int = 1
    seed: str = field(default_factory=lambda: secrets.token_hex(4))
    _made: int = 0
    _columns: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look at the tables as they are, and keep the pattern's rows apart: the original may be sent meanwhile."""
        for table in TABLES:
            found = self.connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
                " AND table_schema = current_schema() ORDER BY ordinal_position",
                (f"ringonce_{table}",),
            )
            self._columns[table] = [row[0] for row in found]
        of = {
            "events": "key = (SELECT event_key FROM ringonce_notifications WHERE id = %(id)s)",
            "event_recipients": "event_key = (SELECT event_key FROM ringonce_notifications WHERE id = %(id)s)",
            "contents": "id = (SELECT content_id FROM ringonce_notifications WHERE id = %(id)s)",
            "addresses": "id = (SELECT address_id FROM ringonce_notifications WHERE id = %(id)s)",
            "notifications": "id = %(id)s",
            "dispatch": "id = %(id)s",
        }
        for table, where in of.items():
            self.connection.execute(
                f"CREATE TEMPORARY TABLE pattern_{table}_{self.seed} AS"
                f" SELECT * FROM ringonce_{table} WHERE {where}",
                {"id": self.pattern},
            )
            copied = self.connection.execute(f"SELECT count(*) FROM pattern_{table}_{self.seed}").fetchone()
            if copied != (1,):
                raise RuntimeError(f"the pattern has {copied} rows in {table}")

    def waiting(self, count: int) -> None:
        """Add notifications that are due now."""
        self._rows("waiting", count, "waiting", "b_now")

    def future(self, count: int) -> None:
        """Add notifications that are due in a year."""
        self._rows("future", count, "waiting", f"b_now + {YEAR}")

    def scheduled(self, count: int, start: int, step: int) -> dict[str, int]:
        """Add notifications that come due one after the other: microseconds UTC by the token of each address."""
        first = self._made
        self._rows("scheduled", count, "waiting", f"({start} + (i - {first}) * {step})::bigint")
        return {
            f"{TOKEN}{f'{self.seed}{number}':0>110}": start + (number - first) * step
            for number in range(first, first + count)
        }

    def finished(self, count: int) -> None:
        """Add notifications that were sent."""
        self._rows("finished", count, "finished", "NULL::bigint")

    def settled(self) -> None:
        """Tell the planner what is there now, and leave the busy table as a vacuum leaves it."""
        for table in TABLES:
            self.connection.execute(f"ANALYZE ringonce_{table}")
        self.connection.execute("VACUUM ringonce_dispatch")

    @contextlib.contextmanager
    def bulk(self) -> Iterator[None]:
        """Take the secondary indexes away while much is added, and build them anew.

        Autovacuum would look through what was added in the middle of a measurement; so it leaves these tables alone
        from now on, but for ``dispatch``, which nothing is spared.
        """
        for table in TABLES:
            if table != "dispatch":
                self.connection.execute(f"ALTER TABLE ringonce_{table} SET (autovacuum_enabled = false)")
        found = self.connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()"
            " AND tablename = ANY(%s) AND indexname NOT IN (SELECT conname FROM pg_constraint)",
            ([f"ringonce_{table}" for table in TABLES],),
        ).fetchall()
        for name, _ in found:
            self.connection.execute(f"DROP INDEX {name}")
        try:
            yield
        finally:
            self.connection.execute("SET maintenance_work_mem = '256MB'")
            began = time.monotonic()
            for _, definition in found:
                self.connection.execute(definition)
            self.say(f"{len(found)} indexes built in {time.monotonic() - began:.0f} s")

    def _rows(self, name: str, count: int, state: str, due: str) -> None:
        began, done = time.monotonic(), 0
        while done < count:
            some = min(CHUNK, count - done)
            with self.connection.transaction():
                found = self.connection.execute(
                    "SELECT set_config('synchronous_commit', 'off', true),"
                    " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
                ).fetchone()
                assert found is not None
                values = {"now": found[1], "first": self._made, "last": self._made + some - 1}
                for statement in self._statements(state, due):
                    self.connection.execute(statement, values)
            done += some
            self._made += some
            if count >= CHUNK:
                rate = done / (time.monotonic() - began)
                self.say(f"{name}: {done:,} of {count:,} rows, {rate:,.0f} rows/s")

    def _statements(self, state: str, due: str) -> Iterator[str]:
        shared = f"(i / {self.shared})"
        event, at = _key("e", shared, self.seed), f"(b_now + {shared})"
        content = f"decode(lpad(to_hex({at} / 1000), 12, '0') || substr(md5('c{self.seed}' || {shared}), 1, 20), 'hex')"
        # Ids in order of time, as UUIDv7 are.
        id_ = (
            "(lpad(to_hex(b_now / 1000 - 1000000 + i / 4096), 12, '0') || '7' || lpad(to_hex(mod(i, "
            f"4096)), 3, '0') || '8' || substr(md5('{self.seed}' || i), 1, 15))::uuid"
        )
        # Beyond what the sequence has given out, or will while this runs.
        address = f"(1000000000 + {int(self.seed, 16) % 100_000} * 20000000::bigint + {shared})"
        who = f"('bulk-{self.seed}-' || {shared})"
        one_of = f"mod(i, {self.shared}) = 0"
        yield self._copy(
            "events", {"key": event, "event_id": who, "created_at": at, "expanded": "true"}, one_of
        )
        yield self._copy("contents", {"id": content, "created_at": "b_now"}, one_of)
        yield self._copy(
            "addresses",
            {
                "id": address,
                "key": _key("a", shared, self.seed),
                "recipient": who,
                # Of the usual length, as in kit/push.py.
                "value": f"('{TOKEN}' || lpad('{self.seed}' || {shared}, 110, '0'))",
                "registered_at": "b_now",
                "invalidated_at": "NULL::bigint",
            },
            one_of,
        )
        facts = {"id": id_, "event_key": event, "event_at": at, "content_id": content, "address_id": address}
        facts |= {"recipient": who, "created_at": "b_now", "changed_at": "b_now", "next_attempt_at": due}
        if state == "finished":
            facts |= {"status": "'sent'", "attempts": "1", "version": "2", "last_attempt": "1"}
            facts |= {"message_id": "'projects/bench/messages/' || i"}
        else:
            entry = {"key": _key("r", "i", self.seed), "event_key": event, "recipient": who}
            yield self._copy("event_recipients", entry | {"created_at": "b_now"})
            yield self._copy("dispatch", {"id": id_, "due_at": due, "created_at": "b_now"})
        yield self._copy("notifications", facts)

    def _copy(self, table: str, own: dict[str, str], where: str = "true") -> str:
        columns = self._columns[table]
        if missing := own.keys() - set(columns):
            raise RuntimeError(f"{table} has no {', '.join(sorted(missing))}")
        values = ", ".join(own.get(name, f"t.{name}") for name in columns)
        return (
            f"INSERT INTO ringonce_{table} ({', '.join(columns)}) SELECT {values} FROM "
            f"generate_series(%(first)s::bigint, %(last)s::bigint) AS i, pattern_{table}_{self.seed} AS t, "
            f"(SELECT %(now)s::bigint AS b_now) AS clock WHERE {where}"
        )


def _key(kind: str, number: str, seed: str) -> str:
    """Sixteen bytes, as the keys of the tables are."""
    return f"decode(md5('{kind}{seed}' || {number}), 'hex')"
