"""Retention, as one worker at a time carries it out: small batches, with pauses in proportion to what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.ports import PRUNE_LEASE

if TYPE_CHECKING:
    from ringonce.engine.engine import Engine
    from ringonce.model.retention import Walk

BATCH = 500
TTL = 30_000_000
"""Microseconds that a dead holder keeps the duty from others."""
TAKE_AGAIN = 10.0
SHARE = 4.0
"""The pause after a batch, in times of what it took: at most a fifth of one connection is spent on pruning."""
SHORTEST, LONGEST = 0.02, 10.0
REST = 60.0
"""Seconds between the end of a walk and the look at what has become old enough meanwhile."""
ANEW = 86_400.0
"""Seconds after which a walk begins at the very beginning: what was kept then may be old enough now."""


class Pruner:
    """Each turn is one batch."""

    def __init__(self, engine: Engine, owner: str) -> None:
        """Nothing happens before the first turn."""
        self._engine = engine
        self._owner = owner
        self._term: int | None = None
        self._taken = 0.0
        self._walk: Walk | None = None
        self._began: float | None = None

    @property
    def holding(self) -> bool:
        """Do we hold the lease, as far as we know?"""
        return self._term is not None

    async def turn(self) -> float:
        """Remove one batch, if the duty is ours; the seconds until the next turn."""
        engine, began = self._engine, self._engine.clock.monotonic()
        if self._term is None or began - self._taken >= TAKE_AGAIN:
            self._term = await engine.store.take_lease(PRUNE_LEASE, self._owner, TTL)
            self._taken = began
        if self._term is None:
            self._walk = None
            return TAKE_AGAIN
        if self._began is None or began - self._began >= ANEW:
            self._walk, self._began = None, began
        step = await engine.store.prune(
            self._term, self._owner, engine.settings.keep, walk=self._walk, limit=BATCH
        )
        if not step.held:
            self._term = None
            return SHORTEST
        self._walk = step.walk
        for table, count in step.counts.items():
            engine.telemetry.count("ringonce_pruned_total", count, table=table)
        if step.done:
            for table, count in (await engine.store.prune_receipts()).items():
                if count:
                    engine.telemetry.count("ringonce_pruned_total", count, table=table)
            return REST
        return min(LONGEST, max(SHORTEST, SHARE * (engine.clock.monotonic() - began)))

    async def give_up(self) -> None:
        """Let another worker have the duty at once."""
        if self._term is not None:
            self._term = None
            await self._engine.store.drop_lease(PRUNE_LEASE, self._owner)
