"""The real clock and the real randomness; nothing else in the package reads them."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import time
from uuid import UUID


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
        millis = time.time_ns() // 1_000_000
        random_bits = int.from_bytes(os.urandom(10), "big")
        value = (millis & ((1 << 48) - 1)) << 80 | random_bits
        value = value & ~(0xF << 76) | 7 << 76
        value = value & ~(0x3 << 62) | 2 << 62
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
