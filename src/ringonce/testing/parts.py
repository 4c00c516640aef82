"""What a provider's parts, and a store's memory of what is paused and shared, have to keep: of the published kits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ringonce.core.scope import APART
from ringonce.model.keeping import Sealed
from ringonce.model.policy import SECOND
from ringonce.ports import LanePause
from ringonce.testing import samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ringonce.model.notification import Content
    from ringonce.provider import Provider

SCOPE = "email//template%3Aa"


def check_parts(provider: Provider, value: str, content: Content) -> Iterator[str]:
    """Everything that is wrong with ``scope_key``. ``value``: a good address."""
    named = {rule.scope for rule in type(provider).rules if rule.scope in APART}
    to = samples.address(value)
    for kind in sorted(APART):
        keys = []
        for _ in range(2):
            try:
                keys.append(provider.scope_key(kind, content, to))
            except Exception as error:
                yield f"scope_key: raises {type(error).__name__} for {kind}"
                return
        if any(key is not None and not isinstance(key, str) for key in keys):
            yield f"scope_key: the key of a {kind} is a text or None"
        elif keys[0] != keys[1]:
            yield f"scope_key: a message has two keys of the same {kind}"
        elif keys[0] and keys[0] == value:
            yield f"scope_key: the key of a {kind} is the address, and people are shown it"
    if "endpoint" in named and provider.scope_key("endpoint", content, to) is None:
        yield "rules: one names an endpoint, and no message has one: set endpoints = True, or write scope_key"


async def scopes_move_the_stamp(bench: Any) -> None:
    """A claim's stamp is another one after a scope was paused or resumed; rows given back into its lane wait there."""
    store = bench.store
    id_ = await bench.one()
    batch = await store.claim("email", "w-1", 1, SECOND, now=bench.now)
    (claimed,) = batch.rows
    await store.release("w-1", [(id_, claimed.row.lease.fence)], lane=SCOPE, now=bench.now)
    stamps = [batch.stamp]
    await store.pause([LanePause(SCOPE, "auth", bench.now + SECOND)], now=bench.now)
    for _ in range(2):
        batch = await store.claim("email", "w-1", 1, SECOND, now=bench.now)
        if batch.rows:
            raise AssertionError("a row that was given back into a scope's lane came from the channel's own")
        stamps.append(batch.stamp)
        await store.resume(SCOPE, below=False, now=bench.now)
    if len(set(stamps)) != len(stamps):
        raise AssertionError(f"the stamp did not move with each pause and resume: {stamps!r}")


async def the_newest_credential_stays(bench: Any) -> None:
    """What is kept is given back as it is; an older one takes no newer one's place, a refused one has ended."""
    store = bench.store
    await store.keep_credential("a", Sealed("new", 20, 90))
    await store.keep_credential("a", Sealed("old", 10, 90))
    found = [await store.credential("a"), await store.credential("b")]
    if found != [Sealed("new", 20, 90), None]:
        raise AssertionError(f"kept are {found!r}")
    await store.refuse_credential("a", 10, ["email"], now=bench.now)
    await store.refuse_credential("a", 20, ["email"], now=bench.now)
    if (await store.credential("a")).expires_at != 0:
        raise AssertionError("a credential that was refused has not ended")
