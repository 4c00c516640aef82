"""Who is served when many wait and few can go: by weight, and never so strictly that somebody starves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def divide(
    limit: int, waiting: Mapping[str, int], weights: Mapping[str, int], credit: dict[str, float]
) -> dict[str, int]:
    """Share ``limit`` places out among who waits: each gets his share by weight, what he can not use goes to others.

    Args:
        limit: Places to give away.
        waiting: How many wait, by name; who is not named or has 0 gets nothing.
        weights: Weight by name, at least 1.
        credit: Fractions of places that are still owed, changed in place: over many small rounds the shares are
            right too. Who does not wait keeps no credit, so nobody saves up for a flood.
    """
    given = dict.fromkeys(waiting, 0)
    for name in [name for name in credit if not waiting.get(name)]:
        del credit[name]
    hungry = {name: count for name, count in waiting.items() if count > 0}
    left = limit
    # Who wants less than his share takes it and leaves; that enlarges the shares of the rest.
    while hungry and left > 0:
        total = sum(weights[name] for name in hungry)
        modest = [name for name, count in hungry.items() if count * total <= left * weights[name]]
        if not modest:
            break
        for name in modest:
            given[name] = hungry.pop(name)
            left -= given[name]
            credit.pop(name, None)
    if not hungry or left <= 0:
        return given
    total = sum(weights[name] for name in hungry)
    for name in hungry:
        share = left * weights[name] / total
        given[name] = int(share)
        credit[name] = credit.get(name, 0.0) + share - int(share)
    rest = left - sum(given[name] for name in hungry)
    for _ in range(rest):
        # One place each round of this loop; who is full can not take what he is owed.
        name = max((n for n in hungry if given[n] < hungry[n]), key=credit.__getitem__)
        given[name] += 1
        credit[name] -= 1.0
    return given
