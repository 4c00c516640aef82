"""Verdicts against addresses: what is to be dropped, by whose word, and what a person has decided about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringonce.model.policy import MassInvalidation

MASS_INVALIDATION = "mass_invalidation"
"""Why a channel is paused, and what the alert is called."""
MOVED = "moved"
"""The reason of an address that the provider replaced by another one."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the breaker weighs a verdict against an address by.

    ``process`` is who tells, ``accepted`` how many calls it has had accepted by this credential since it began.
    """

    limits: MassInvalidation
    process: str
    accepted: int


@dataclass(frozen=True, slots=True)
class Invalidation:
    """Drop an address if it was registered before ``proof_at`` (None: now).

    ``by``: the credential whose call got the verdict, named like what its pause stops; None: a person drops it.
    ``proposal`` None: it is done in any case. ``doubted``: the address is set apart until a person decides.
    """

    address_id: int
    value: str
    reason: str
    proof_at: int | None = None
    replace_with: str | None = None
    by: str | None = None
    proposal: Proposal | None = None
    doubted: bool = False


@dataclass(frozen=True, slots=True)
class BreakerState:
    """A credential whose verdicts were watched. ``tripped_at`` None: they are believed.

    ``quarantined``: addresses that a person has to decide about.
    """

    name: str
    tripped_at: int | None
    why: str
    quarantined: int


@dataclass(frozen=True, slots=True)
class Lifted:
    """A person has decided: whether something had tripped, and how many addresses were released or dropped."""

    tripped: bool
    addresses: int
