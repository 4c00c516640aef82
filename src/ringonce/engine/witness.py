"""What this process has seen accepted: by that the breaker weighs what it proposes (core.breaker)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ringonce.core.lane import of_account
from ringonce.ports import Proposal

if TYPE_CHECKING:
    from ringonce.model.policy import Channel


class Witness:
    """Counts accepted calls by credential. It costs one addition each, and nothing is written for it."""

    def __init__(self, process: str) -> None:
        """``process``: a name that no other process has."""
        self._process = process
        self._accepted: Counter[str] = Counter()

    def accepted(self, channel: Channel) -> None:
        """A call of this channel was accepted."""
        self._accepted[credential_of(channel)] += 1

    def proposal(self, channel: Channel) -> Proposal | None:
        """What is to be weighed with a verdict against an address; None: it is believed in any case."""
        limits = channel.mass_invalidation
        if limits is None:
            return None
        return Proposal(limits, self._process, self._accepted[credential_of(channel)])


def credential_of(channel: Channel) -> str:
    """The credential's name: that of what its pause stops. Channels that share an account share its breaker."""
    return of_account(channel.account) if channel.account else channel.name
