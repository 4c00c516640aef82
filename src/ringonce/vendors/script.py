"""When a stand-in misbehaves, and how: a plan of faults, repeatable through its seed.

In words, for the command line and tests::

    503:first=20                    the first 20 requests
    429:share=0.05,retry_after=2    one in twenty, by chance
    accept_then_hang:every=50       each fiftieth is accepted and never answered
    reset:each=1,address=*@b.org    the first request of each such address
    hang:after=5,until=10           all of five seconds, counted from the start
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ringonce.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

VERBS = frozenset(
    {
        "status",
        "delay",
        "hang",
        "garbage",
        "reset",
        "close_before_reply",
        "accept_then_hang",
        "accept_then_reset",
        "accept_then_close",
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong.

    ``status``: answer with ``status`` (and ``headers``, ``body``) instead of doing it. ``delay``: do it after
    ``seconds``. ``hang``, ``garbage``, ``reset``, ``close_before_reply``: the request was read, nothing was
    done. ``accept_then_…``: it was done, and the answer is lost.
    """

    verb: str
    status: int = 0
    seconds: float = 0.0
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None

    @property
    def accepts(self) -> bool:
        """The recipient is told in spite of it."""
        return self.verb.startswith("accept_then_")

    @property
    def label(self) -> str:
        """Its name in the ledger."""
        return str(self.status) if self.verb == "status" else self.verb


@dataclass(frozen=True, slots=True)
class Rule:
    """When ``fault`` happens: all conditions that are set must hold.

    ``first``, ``every``, ``numbers`` count the requests of ``stage`` from 1; ``each`` counts per address.
    ``after`` and ``until`` are seconds since the plan's start. ``times``: so often at most.
    ``stage`` names where a protocol of several steps fails, as the stand-in defines it.
    """

    fault: Fault
    first: int | None = None
    each: int | None = None
    every: int | None = None
    numbers: frozenset[int] | None = None
    address: str = "*"
    share: float = 1.0
    after: float = 0.0
    until: float | None = None
    times: int | None = None
    stage: str = ""


@dataclass(slots=True)
class Plan:
    """Decides for each request; the first rule that fits wins. Not for use from several threads."""

    rules: tuple[Rule, ...] = ()
    seed: int = 0
    clock: Callable[[], float] = time.monotonic
    _started: float = field(init=False)
    _random: random.Random = field(init=False)
    _numbers: Counter[str] = field(init=False, default_factory=Counter)
    _addresses: Counter[tuple[str, str]] = field(init=False, default_factory=Counter)
    _happened: Counter[int] = field(init=False, default_factory=Counter)

    def __post_init__(self) -> None:
        """Start the plan's time."""
        self._started = self.clock()
        self._random = random.Random(self.seed)

    def next(self, address: str, stage: str = "") -> Fault | None:
        """What goes wrong with the request that has just come; None: nothing."""
        if not self.rules:
            return None
        self._numbers[stage] += 1
        self._addresses[stage, address] += 1
        for index, rule in enumerate(self.rules):
            if rule.stage == stage and self._fits(index, rule, address):
                self._happened[index] += 1
                return rule.fault
        return None

    def _fits(self, index: int, rule: Rule, address: str) -> bool:
        number, now = self._numbers[rule.stage], self.clock() - self._started
        return (
            (rule.first is None or number <= rule.first)
            and (rule.every is None or number % rule.every == 0)
            and (rule.numbers is None or number in rule.numbers)
            and (rule.each is None or self._addresses[rule.stage, address] <= rule.each)
            and fnmatchcase(address, rule.address)
            and rule.after <= now
            and (rule.until is None or now < rule.until)
            and (rule.times is None or self._happened[index] < rule.times)
            and (rule.share >= 1.0 or self._random.random() < rule.share)
        )


_CONDITIONS: dict[str, Callable[[str], object]] = {
    "first": int,
    "each": int,
    "every": int,
    "numbers": lambda text: frozenset(int(part) for part in text.split("+")),
    "address": str,
    "share": float,
    "after": float,
    "until": float,
    "times": int,
    "stage": str,
}


def rule(text: str) -> Rule:
    """Read one rule in words (see the module).

    Raises:
        InputError: the verb, a condition or a value is not one.
    """
    verb, _, rest = text.partition(":")
    status, seconds, headers = 0, 0.0, []
    if verb.isdigit():
        verb, status = "status", int(verb)
    if verb not in VERBS or (verb == "status" and not status):
        raise InputError(
            f"{verb!r} is no fault",
            field="fault",
            mend=f"one of {', '.join(sorted(VERBS))}, or a status code",
        )
    conditions: dict[str, object] = {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        try:
            if key == "retry_after":
                headers.append(("Retry-After", value))
            elif key == "seconds":
                seconds = float(value)
            else:
                conditions[key] = _CONDITIONS[key](value)
        except (KeyError, ValueError):
            known = ", ".join(sorted({*_CONDITIONS, "retry_after", "seconds"}))
            raise InputError(
                f"{pair!r} is no condition", field="fault", mend=f"KEY=VALUE of {known}"
            ) from None
    return Rule(Fault(verb, status, seconds, tuple(headers)), **conditions)  # type: ignore[arg-type]


def plan(texts: Iterable[str], seed: int = 0) -> Plan:
    """A plan from rules in words. Raises InputError."""
    return Plan(tuple(rule(text) for text in texts), seed)
