"""The keys that say how much goes out: rates, circuits, breakers, and the shares of tenants."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any

from ringonce.config import kinds
from ringonce.config.reader import Key, Problems, Table
from ringonce.model.policy import DAY, SECOND, Circuit, MassInvalidation, Rate, Share

_MEND = 'write "50/s", "3000/m" or "0.5/s"'
FASTEST = 1_000_000
"""Calls per second: one each microsecond, which is as fine as times are."""
_AT_ONCE = Fraction(1, 10)
"""Without ``burst``, a tenth of a second's worth may go at once."""


def rate() -> kinds.Kind:
    """Calls per time, ``"50/s"``; the burst of a tenth of a second is part of it."""

    def convert(value: object) -> object:
        if not isinstance(value, str):
            raise kinds.Bad(f"expected a rate, found {kinds.shown(value)}", _MEND)
        per_second = kinds.per_second(value)
        if per_second > FASTEST:
            raise kinds.Bad(f"must be at most {FASTEST}/s", _MEND)
        if per_second * DAY < SECOND:
            raise kinds.Bad("must be at least one a day", _MEND)
        exact = Fraction(per_second).limit_denominator(100_000_000)
        return Rate(exact.numerator, exact.denominator * SECOND, max(1, ceil(exact * _AT_ONCE)))

    return kinds.Kind("rate", convert)


CIRCUIT_KEYS = (
    Key("calls", kinds.integer(least=1, most=10_000), "It takes at least this many answers to open it."),
    Key("window", kinds.duration(least=SECOND, most=DAY), "Only the answers of this time count."),
    Key("share", kinds.decimal(least=0.01, most=1), "It opens when this share of them failed."),
    Key(
        "open", kinds.duration(least=SECOND // 10, most=DAY), "How long it stays open; then one call probes."
    ),
    Key(
        "cap", kinds.duration(least=SECOND // 10, most=DAY), "Each failed probe doubles the time, up to this."
    ),
)

SHARE_KEYS = (
    Key("weight", kinds.integer(least=1, most=1_000), "Its weight; that of all other tenants together is 1."),
    Key("rate", rate(), "Its calls over time, over all workers; the channel's own rate holds besides."),
    Key("burst", kinds.integer(least=1, most=1_000_000), "Its calls at once after a pause."),
    Key("concurrency", kinds.integer(least=1, most=10_000), "Its calls at the same time, per worker."),
)


def circuit() -> kinds.Kind:
    """``"off"``, or a table of thresholds."""

    def convert(value: object) -> object:
        plain = kinds.inline(value) if isinstance(value, kinds.EnvText) else value
        if isinstance(plain, str) and plain.strip().lower() in {"off", "on"}:
            return None if plain.strip().lower() == "off" else Circuit()
        if not isinstance(plain, dict):
            raise kinds.Bad(
                f"expected a table, found {kinds.shown(value)}", 'write circuit = "off" or { calls = 20 }'
            )
        read: dict[str, Any] = _table(plain, CIRCUIT_KEYS)
        made = Circuit(**read)
        if made.cap < made.open:
            raise kinds.Bad("needs a cap that is not shorter than open")
        return made

    return kinds.Kind('table or "off"', convert)


MASS_INVALIDATION_KEYS = (
    Key(
        "proposals", kinds.integer(least=2, most=1_000), "It looks at this many verdicts; fewer are believed."
    ),
    Key("within", kinds.duration(least=SECOND, most=DAY), "Only the verdicts of this time count."),
    Key(
        "share",
        kinds.decimal(least=0.01, most=1),
        "It trips when more than this share of the answers would drop addresses that worked before.",
    ),
)


def mass_invalidation() -> kinds.Kind:
    """``"off"``, or a table of thresholds."""

    def convert(value: object) -> object:
        plain = kinds.inline(value) if isinstance(value, kinds.EnvText) else value
        if isinstance(plain, str) and plain.strip().lower() in {"off", "on"}:
            return None if plain.strip().lower() == "off" else MassInvalidation()
        if not isinstance(plain, dict):
            raise kinds.Bad(
                f"expected a table, found {kinds.shown(value)}",
                'write mass_invalidation = "off" or { share = 0.5 }',
            )
        read: dict[str, Any] = _table(plain, MASS_INVALIDATION_KEYS)
        return MassInvalidation(**read)

    return kinds.Kind('table or "off"', convert)


def shares() -> kinds.Kind:
    """Tenants with a lane of their own: ``{ acme = 3 }`` or ``{ acme = { weight = 3, rate = "10/s" } }``."""

    def convert(value: object) -> object:
        plain = kinds.inline(value) if isinstance(value, kinds.EnvText) else value
        if not isinstance(plain, dict):
            raise kinds.Bad(f"expected a table, found {kinds.shown(value)}", "write { acme = 3 }")
        made: dict[str, Share] = {}
        for tenant, given in plain.items():
            if not tenant:
                raise kinds.Bad("needs a tenant", "who is not named shares one lane of weight 1")
            read: dict[str, Any] = _table(
                given if isinstance(given, dict) else {"weight": given}, SHARE_KEYS, f"{tenant}."
            )
            made[str(tenant)] = Share(
                weight=read.get("weight", 1),
                rate=with_burst(read.get("rate"), read.get("burst")),
                concurrency=read.get("concurrency"),
            )
        return made

    return kinds.Kind("table", convert)


def with_burst(limit: Rate | None, burst: int | None) -> Rate | None:
    """The rate with another burst. Raises Bad for a burst of no rate."""
    if burst is None:
        return limit
    if limit is None:
        raise kinds.Bad("has no effect without rate: burst", "remove it, or set rate")
    return Rate(limit.count, limit.period, burst)


def _table(raw: dict[str, object], keys: tuple[Key, ...], prefix: str = "") -> dict[str, object]:
    """The values of a small table. Raises Bad for the first that is wrong."""
    problems = Problems("")
    table = Table(raw, "", problems)
    table.reject([key.name for key in keys], {})
    values = table.read(keys)
    for problem in problems.found:
        raise kinds.Bad(f"{prefix}{problem.field}: {problem.message}", problem.mend)
    return values
