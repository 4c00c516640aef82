"""The real clock and the real randomness; nothing else in the package reads them."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import time
from collections import deque
from uuid import UUID

DRAWN_AT_ONCE = 200
_drawn: deque[bytes] = deque()
# What a child process inherits, its parent gives out too.
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_drawn.clear)

_48_BITS = (1 << 48) - 1
_RANDOM = (1 << 80) - 1 & ~(0xF << 76) & ~(0x3 << 62)
_VERSION_AND_VARIANT = 7 << 76 | 2 << 62


class SystemClock:
    """Wall clock in microseconds UTC, monotonic seconds."""

    def now(self) -> int:
        """Microseconds UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class SystemEntropy:
    """UUIDv7 (RFC 9562 section 5.7), jitter and owner tokens."""

    def uuid7(self) -> UUID:
        """48 bits of milliseconds, then 74 random bits around version and variant."""
        try:
            random_bits = _drawn.pop()
        except IndexError:
            # Drawn for many: a call of the system for each id would cost more than all the rest of it.
            whole = os.urandom(10 * DRAWN_AT_ONCE)
            _drawn.extend(whole[at : at + 10] for at in range(10, len(whole), 10))
            random_bits = whole[:10]
        millis = time.time_ns() // 1_000_000
        value = (
            (millis & _48_BITS) << 80 | int.from_bytes(random_bits, "big") & _RANDOM | _VERSION_AND_VARIANT
        )
        return UUID(int=value)

    def jitter(self) -> float:
        """Uniform in [0, 1)."""
        return random.random()  # noqa: S311 - jitter, not a secret

    def random_bytes(self, count: int) -> bytes:
        """From the operating system's generator for keys."""
        return os.urandom(count)

    def token(self) -> str:
        """Process id and 64 random bits: fresh for each start."""
        return f"{os.getpid()}-{secrets.token_hex(8)}"
