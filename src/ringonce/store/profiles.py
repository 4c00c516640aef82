"""Who is told: records and addresses of an event's recipients, brought up to date and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.ports import RecipientFacts
from ringonce.store.compiled import fetch
from ringonce.store.schema import recipients
from ringonce.store.values import digest

if TYPE_CHECKING:
    from ringonce.store.addresses import Addresses
    from ringonce.store.arrivals import Target
    from ringonce.store.dialect import Dialect

Named = dict[str, list["Target"]]
"""A recipient's name -> all its mentions in one event."""
Words = tuple[str | None, str | None]
"""Locale and time zone."""


class Profiles:
    """Statements over recipients, built once."""

    def __init__(self, dialect: Dialect, addresses: Addresses) -> None:
        self._addresses = addresses
        columns = ("key", "tenant", "id", "locale", "timezone", "created_at", "updated_at")
        self._rows = dialect.inserted(recipients, columns)
        new = dialect.insert(recipients).from_select(
            list(columns), sa.select(*(getattr(self._rows.c, name) for name in columns)).where(sa.true())
        )
        r, x = recipients.c, new.excluded
        locale, zone = sa.func.coalesce(x.locale, r.locale), sa.func.coalesce(x.timezone, r.timezone)
        self._put = new.on_conflict_do_update(
            index_elements=["key"],
            set_={"locale": locale, "timezone": zone, "updated_at": x.updated_at},
            where=sa.or_(r.locale.is_distinct_from(locale), r.timezone.is_distinct_from(zone)),
        )
        self._keys = dialect.inserted(recipients, ["key"])
        # Whoever erases a person waits until what is accepted for it is there to be found.
        known = (r.key, r.locale, r.timezone)
        self._known = dialect.look_up(self._keys, known, r.key == self._keys.c.key, "key")

    def facts(
        self, connection: sa.Connection, wanted: list[tuple[str, Named]], time: int
    ) -> tuple[list[list[RecipientFacts]], dict[int, int]]:
        """What is known of the recipients of each (tenant, recipients), and the addresses' generations."""
        people: dict[bytes, tuple[Any, ...]] = {}
        inline: list[tuple[str, str, str, str]] = []
        direct: list[tuple[str, str, str, str]] = []
        keys: dict[tuple[str, str], bytes] = {}
        for tenant, named in wanted:
            for target in (target for same in named.values() for target in same):
                who = target.recipient
                if who is None:
                    direct.append((tenant, target.id, target.channel, target.value))
                    continue
                key = keys.get((tenant, who.id)) or keys.setdefault((tenant, who.id), digest(tenant, who.id))
                _, _, _, locale, zone, *_ = people.get(key, (None,) * 7)
                people[key] = (key, tenant, who.id, who.locale or locale, who.timezone or zone, time, time)
                if who.addresses:
                    inline.extend(
                        (tenant, who.id, channel, value)
                        for channel, values in who.addresses.items()
                        for value in values
                    )
        profile = self._profile(connection, people)
        self._addresses.register_many(connection, inline, time)
        places = self._addresses.name_many(connection, direct, time)
        live = self._addresses.live(connection, [(row[1], row[2]) for row in people.values()])
        generations = {a.id: generation for a, generation in places.values()}
        generations |= {a.id: generation for owned in live.values() for a, generation in owned}
        facts: list[list[RecipientFacts]] = []
        for tenant, named in wanted:
            known = []
            for name, same in named.items():
                target = same[0]
                if target.recipient is None:
                    address, _ = places[tenant, target.channel, target.value]
                    known.append(RecipientFacts(name, None, None, (address,), direct=True))
                else:
                    owned = tuple(a for a, _ in live.get((tenant, name), ()))
                    known.append(RecipientFacts(name, *profile[keys[tenant, name]], owned))
            facts.append(known)
        return facts, generations

    def _profile(self, connection: sa.Connection, people: dict[bytes, tuple[Any, ...]]) -> dict[bytes, Words]:
        """Most are known as they are: only new and changed records are written."""
        if not people:
            return {}
        known = self._read(connection, sorted(people))
        fresh = [
            key
            for key, (_, _, _, locale, zone, *_) in sorted(people.items())
            if key not in known or (locale or known[key][0], zone or known[key][1]) != known[key]
        ]
        if fresh:
            fetch(connection, self._put, self._rows.bind([people[key] for key in fresh]))
            known |= self._read(connection, fresh)
        return known

    def _read(self, connection: sa.Connection, keys: list[bytes]) -> dict[bytes, Words]:
        found = fetch(connection, self._known, self._keys.bind([(key,) for key in keys]))
        return {key: (locale, zone) for key, locale, zone in found}
