"""How far a refusal reaches: which parts a provider has, how they are spelled, and what has to stop.

A scope is a word (``channel``, ``sender``, ``address``), or the kind of a part with its key: ``country:44``,
``template:order_shipped``, ``endpoint:hooks.example.com#1f0c…``. A kind without a key is all that was refused so far,
for which nobody knows beforehand what belongs to it (``platform``: only the answer tells that of a device).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from ringonce.model.outcome import OutcomeClass
from ringonce.model.policy import MINUTE
from ringonce.model.transition import Pause

if TYPE_CHECKING:
    from ringonce.model.outcome import Outcome

APART: Final = frozenset({"platform", "template", "country", "endpoint"})
"""Parts of a provider that have a lane of their own: what they refuse waits there, and all else goes on."""
OTHERS_GO_ON: Final = frozenset({"address", "endpoint"})
"""Without a key these concern the row alone, which is delayed."""
STOPPING: Final = frozenset({OutcomeClass.AUTH, OutcomeClass.DISABLED, OutcomeClass.NOT_IMPLEMENTED})
"""What is not the notification's fault: it waits, and uses no budget."""
PROBE_AFTER: Final = 5 * MINUTE
"""When one call tries whether what was paused works again."""
LONGEST_KEY: Final = 80
_KEY: Final = ":"


def part(kind: str, key: str) -> str:
    """The scope of one part. A key that is too long is cut, and told apart by a digest."""
    if len(key) > LONGEST_KEY:
        key = f"{key[: LONGEST_KEY - 17]}#{hashlib.sha256(key.encode(errors='replace')).hexdigest()[:16]}"
    return f"{kind}{_KEY}{key}"


def kind_of(scope: str) -> str:
    """What kind of scope it is, for example ``template``."""
    return scope.partition(_KEY)[0]


def apart(scope: str | None) -> bool:
    """It has a lane of its own."""
    return scope is not None and kind_of(scope) in APART


def in_words(scope: str) -> str:
    """For people: ``template order_shipped``."""
    return scope.replace(_KEY, " ", 1)


def pause_of(outcome: Outcome, now: int) -> Pause | None:
    """What has to stop after a refusal that is not the notification's fault; None: nothing but its own row."""
    scope = outcome.scope or "channel"
    if scope in OTHERS_GO_ON:
        return None
    if outcome.cls is OutcomeClass.AUTH or apart(scope):
        return Pause(scope, outcome.cls.value, now + PROBE_AFTER)
    return Pause("channel", outcome.cls.value)


def told(outcome: Outcome, code: str, instead: str) -> str:
    """What people are told of such a refusal. ``instead``: where the provider says nothing."""
    reach = f" ({in_words(outcome.scope)} alone waits)" if outcome.scope and apart(outcome.scope) else ""
    return f"{code}: {outcome.text or instead}{reach}"
