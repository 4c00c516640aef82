"""What does this answer mean? Rules as data, the first that holds decides, a default for every family behind them.

A provider states its rules in the order in which they are tried; after them come the defaults
(``answer_defaults``). A code that nobody knows follows its status family, never drops an address, and is
retried a bounded number of times.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

from ringonce.core.answer_defaults import DEFAULTS, JSON_API
from ringonce.core.answer_facts import Facts
from ringonce.core.answer_rule import Rule
from ringonce.core.redact import clean, redact
from ringonce.core.retry_after import retry_after
from ringonce.model.outcome import CODE_OF, Code, Outcome, OutcomeClass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ringonce.model.exchange import Answer

    _Candidates: TypeAlias = tuple[tuple[Rule, tuple[Callable[[Facts], bool], ...]], ...]

__all__ = ["JSON_API", "Rule", "classify", "retry_after"]

_WAITING = frozenset({OutcomeClass.TRANSIENT, OutcomeClass.RATE_LIMITED})
_HINTS = ("json:retry_after",)
_MOST: Final = 1024


def classify(answer: Answer, rules: Sequence[Rule], *, push: bool, now: int) -> Outcome:
    """The meaning of ``answer`` by the first of ``rules`` that holds, else by the defaults of its kind.

    ``push``: an invalid recipient is a dead push token. ``now``: microseconds UTC, for a Retry-After date.
    Never raises, whatever the answer holds.
    """
    facts = Facts(answer)
    rule = _first(_candidates(rules, facts.kind, facts.status), facts)
    cls = rule.cls
    code = rule.code or CODE_OF[cls]
    if push and code is Code.INVALID_RECIPIENT:
        code = Code.PUSH_TOKEN_INVALID
    wait = None
    if cls in _WAITING:
        hint = next(filter(None, map(facts.pick, rule.retry_after or _HINTS)), None)
        wait = retry_after(facts.headers, hint, now)
    accepted = cls is OutcomeClass.ACCEPTED
    return Outcome(
        cls,
        code,
        None if accepted else _provider_code(facts, rule),
        facts.pick(rule.message_id) if accepted and rule.message_id else None,
        wait,
        rule.drop_address,
        ambiguous=rule.ambiguous,
        scope=rule.scope or ("channel" if cls is OutcomeClass.AUTH else None),
        re_address=facts.pick(rule.re_address) if rule.re_address else None,
        floor=rule.floor or ("rate_limited" if cls is OutcomeClass.RATE_LIMITED else None),
        refresh=rule.refresh,
        text=_words(facts, accepted=accepted),
        rule=rule.name,
        source=rule.source,
    )


class _Table:
    """A provider's rules and the defaults behind them, sorted by what they can hold of."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules  # kept, so that nothing else can come to have their id
        self._conditions = {id(rule): rule.conditions() for rule in chain(rules, *DEFAULTS.values())}
        self._found: dict[tuple[str, int | None], _Candidates] = {}

    def candidates(self, kind: str, status: int | None) -> _Candidates:
        """The rules that may hold of such an answer, in their order, each with what must hold besides."""
        found = self._found.get((kind, status))
        if found is None:
            if len(self._found) >= _MOST:
                self._found.clear()
            found = self._found[kind, status] = tuple(
                (rule, self._conditions[id(rule)])
                for rule in chain(self.rules, DEFAULTS[kind])
                if rule.concerns(kind, status)
            )
        return found


_TABLES: Final[dict[int, _Table]] = {}


def _candidates(rules: Sequence[Rule], kind: str, status: int | None) -> _Candidates:
    table = _TABLES.get(id(rules))
    if table is None or table.rules is not rules:
        table = _Table(tuple(rules))
        if len(_TABLES) >= _MOST:
            _TABLES.clear()
        _TABLES[id(table.rules)] = table  # of a list there is a new one each time: it might change
    return table.candidates(kind, status)


def _first(candidates: _Candidates, facts: Facts) -> Rule:
    """The first rule that holds; the last of the defaults always does."""
    return next(rule for rule, conditions in candidates if not conditions or _all(conditions, facts))


def _all(conditions: tuple[Callable[[Facts], bool], ...], facts: Facts) -> bool:
    for holds in conditions:  # noqa: SIM110 - twice as fast as all() with a generator
        if not holds(facts):
            return False
    return True


def _provider_code(facts: Facts, rule: Rule) -> str:
    """The provider's own word: where the rule points, else the fault, the SMTP codes, the step, the status."""
    said = facts.pick(rule.provider_code) if rule.provider_code else None
    if said is not None:
        return clean(said, 100)
    if facts.fault is not None:
        return facts.fault.value
    return clean(f"{facts.status or facts.step} {facts.enhanced}", 100)


def _words(facts: Facts, *, accepted: bool) -> str:
    """The answer for people: short, clean, without secrets and addresses.

    The body of an accepted HTTP call is left out: it says nothing that matters and often repeats the message.
    """
    if facts.fault is not None:
        return redact(f"{facts.fault.value}: {facts.text}" if facts.text else facts.fault.value)
    if facts.kind == "http":
        return f"HTTP {facts.status}" if accepted else redact(f"HTTP {facts.status} {facts.text}")
    return redact(f"{facts.status or facts.step} {facts.text}")
