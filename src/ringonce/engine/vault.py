"""Credentials that all workers share: one of them fetches, under a lease, and leaves it sealed in the database.

It is sealed with the secret options of the account, which each worker has in its configuration and the database not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING

from ringonce.core.seal import seal, unseal
from ringonce.model.exchange import Credential
from ringonce.model.keeping import Sealed
from ringonce.model.policy import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.ports import Clock, Store

PURPOSE = "credential"
LOOK_AGAIN = 0.2
"""Seconds between two looks whether another worker has fetched it."""
SPARE = 5 * SECOND
"""How much longer than a call the turn to fetch lasts; a worker that dies with it holds up the others so long."""
LONGEST = 65_536


@dataclass(frozen=True, slots=True)
class Found:
    """A credential that another worker (or this one, before it was started anew) has fetched."""

    credential: Credential
    made_at: int


class Vault:
    """What one worker has in common with the others."""

    def __init__(self, store: Store, owner: str, clock: Clock) -> None:
        """``owner`` is told apart from other workers by it."""
        self._store = store
        self._owner = owner
        self._clock = clock

    async def turn(
        self, account: str, secret: str, longest: int, wanted: Callable[[Found], bool]
    ) -> Found | None:
        """A credential that is ``wanted``, as soon as anybody has left one; None: it is our turn to fetch it.

        Then ``keep`` or ``give_up`` follows within ``longest`` microseconds. Raises StoreError.
        """
        ours = False
        while True:
            found = self._read(account, secret, await self._store.credential(account))
            if found is not None and wanted(found):
                if ours:
                    await self.give_up(account)
                return found
            if ours:
                return None
            term = await self._store.take_lease(_lease(account), self._owner, longest + SPARE)
            ours = term is not None
            if not ours:
                await self._clock.sleep(LOOK_AGAIN)

    async def keep(self, account: str, secret: str, credential: Credential, made_at: int) -> None:
        """Leave it to the others, and the turn as well. Raises StoreError."""
        text = seal(secret, _purpose(account), credential.value)
        await self._store.keep_credential(account, Sealed(text, made_at, credential.expires_at))
        await self.give_up(account)

    async def sealed(self, account: str) -> Sealed | None:
        """What is kept, as it is. Raises StoreError."""
        return await self._store.credential(account)

    async def give_up(self, account: str) -> None:
        """Leave the turn to the others. Raises StoreError."""
        await self._store.drop_lease(_lease(account), self._owner)

    @staticmethod
    def _read(account: str, secret: str, sealed: Sealed | None) -> Found | None:
        """What was sealed with another secret is none."""
        if sealed is None:
            return None
        parts = unseal(secret, _purpose(account), sealed.text, longest=LONGEST)
        return None if parts is None else Found(Credential(parts[0], sealed.expires_at), sealed.made_at)


def secret_of(options: object) -> str:
    """What only the account's workers know: its options that never show; ``''``: it has none, or they are empty."""
    known = fields(options) if is_dataclass(options) else ()
    secrets = {field.name: getattr(options, field.name) for field in known if not field.repr}
    if not any(secrets.values()):
        return ""
    return json.dumps(secrets, sort_keys=True, default=str)


def _lease(account: str) -> str:
    return f"credential:{account}"


def _purpose(account: str) -> str:
    return f"{PURPOSE}:{account}"
