"""Watches for a snapshot that is held in the database: nothing that died since can be removed, claims read past it.

While one is held too long, claims pass by the part of their index that is all dead (``Store.shorten``), and a
person is told who holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ringonce.engine.engine import Engine
    from ringonce.model.retention import Snapshot

LOOK_EVERY = 5.0
MICROSECONDS = 1_000_000


class Horizon:
    """One per worker: each has claims to shorten. Only the holder of the duty of pruning alerts."""

    def __init__(self, engine: Engine, responsible: Callable[[], bool]) -> None:
        """Nothing is asked before the first look. ``responsible``: is it on us to alert?"""
        self._engine = engine
        self._responsible = responsible
        self._seen: dict[str, float] = {}
        self._told = False

    async def look(self) -> float:
        """Measure, shorten or lengthen the claims, tell a person once when it begins and once when it is over."""
        engine, limit = self._engine, self._engine.settings.oldest_snapshot
        if limit is None:
            return LOOK_EVERY
        age, who = self._oldest(await engine.store.snapshots(), engine.clock.monotonic())
        engine.telemetry.gauge("ringonce_oldest_snapshot_seconds", age)
        late = age > limit
        engine.store.shorten(on=late)
        if late and not self._told and self._responsible():
            engine.telemetry.alert(
                "old_snapshot",
                f"{who} has held a snapshot for {age:.0f} s: what dies in the database is not removed, and every "
                "claim reads past it. End its transaction, or the session (pg_terminate_backend); drop a slot "
                "that nobody reads",
            )
            self._told = True
        elif not late and self._told:
            engine.telemetry.alert("old_snapshot_over", f"the oldest snapshot is {age:.0f} s old again")
            self._told = False
        return LOOK_EVERY

    def _oldest(self, snapshots: Iterable[Snapshot], now: float) -> tuple[float, str]:
        """Seconds and holder. Where the database does not say since when, our own first look at it counts."""
        seen = {}
        oldest = (0.0, "nobody")
        for one in snapshots:
            first = seen[one.mark] = self._seen.get(one.mark, now)
            age = max(now - first, (one.age or 0) / MICROSECONDS)
            oldest = max(oldest, (age, one.who))
        self._seen = seen
        return oldest
