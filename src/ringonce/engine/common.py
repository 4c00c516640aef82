"""What the lanes of one worker have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringonce.engine.scopes import Scopes

if TYPE_CHECKING:
    from ringonce.engine.channels import Channels
    from ringonce.engine.credentials import Credentials
    from ringonce.engine.guards import Guards
    from ringonce.engine.settle import Settler
    from ringonce.engine.traffic import Traffic
    from ringonce.engine.witness import Witness
    from ringonce.ports import Clock, Entropy, Store, Wire


@dataclass(slots=True)
class Shared:
    """The ports, and what is known of channels, credentials and pauses."""

    owner: str
    store: Store
    wire: Wire
    settler: Settler
    channels: Channels
    guards: Guards
    credentials: Credentials
    witness: Witness
    traffic: Traffic
    clock: Clock
    entropy: Entropy
    stamp: int | None = None
    scopes: Scopes = field(default_factory=Scopes)

    async def refresh(self, stamp: int | None = None) -> None:
        """Read anew what may have changed, unless a claim says by its ``stamp`` that all is as we know it.

        That is: overrides of channels, paused scopes, credentials that were refused elsewhere.
        """
        if stamp is None or stamp != self.stamp:
            self.channels.apply(await self.store.overrides())
            self.scopes.told(await self.store.lanes())
            await self.credentials.check()
            self.stamp = stamp
