"""How far a rate limit reaches when the provider does not say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ringonce.model.outcome import OutcomeClass
from ringonce.model.policy import MINUTE, SECOND

if TYPE_CHECKING:
    from ringonce.model.outcome import Outcome

ADDRESSES = 3
"""So many addresses that are limited at the same time, and it is the channel that is."""
WITHOUT_HINT = MINUTE
"""How long an address counts as limited when no Retry-After says so."""


class Limits:
    """The addresses that a provider has limited, for each channel."""

    def __init__(self) -> None:
        """None is, at first."""
        self._until: dict[str, dict[int, int]] = {}

    def judge(self, channel: str, address: int, outcome: Outcome, now: int) -> Outcome:
        """The outcome with its scope filled in: its address, until three different ones are limited at a time."""
        if outcome.cls is not OutcomeClass.RATE_LIMITED or outcome.scope is not None:
            return outcome
        hint = WITHOUT_HINT if outcome.retry_after_s is None else outcome.retry_after_s * SECOND
        limited = self._until.setdefault(channel, {})
        limited[address] = now + hint
        for one in [one for one, until in limited.items() if until <= now]:
            del limited[one]
        if len(limited) < ADDRESSES:
            return outcome
        limited.clear()
        return replace(outcome, scope="channel", rule=f"{outcome.rule}; {ADDRESSES} addresses at a time")
