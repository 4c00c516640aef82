"""One rule of classification: what must hold of an answer, and what it then means. Data, not code."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ringonce.core.answer_facts import Facts, find, pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Container, Iterator, Mapping

    from ringonce.model.exchange import Fault
    from ringonce.model.outcome import Code, OutcomeClass


@dataclass(frozen=True, slots=True)
class Rule:
    """If all that is stated under *when* holds, the answer means what is stated under *then*.

    *When.* ``status``: an HTTP status, SMTP code or SMPP command_status, or a container of them. ``stage``: SMTP
    stages, or the SMPP commands that answered. ``enhanced``: enhanced SMTP codes (RFC 3463) or beginnings of them;
    ``5.1`` covers 5.1.1, but 5.1.1 not 5.1.10. ``json``: path to value, or to a tuple of values of which one must be
    there. ``text``: pattern found in the body or reply, or in the JSON field ``at``. ``header``: lower-case name to
    pattern. ``form``: forms of the body (see ``Facts.form``). ``step``: word of a sandbox script, or what a library
    returned. ``fault`` and ``sent``: for exchanges that broke; only rules that state ``fault`` or ``sent`` are asked
    about those, and they are asked about nothing else.

    *Then.* ``cls`` and what goes with it. ``provider_code``, ``message_id``, ``retry_after`` and ``re_address``
    say where to find the value (see ``Facts.pick``); a rule with ``re_address`` holds only where that value is.
    ``source`` is where the fact was learned: an RFC's section, a vendor's page, or ``policy`` for a choice of ours.
    """

    name: str
    cls: OutcomeClass
    source: str
    # when
    status: int | Container[int] | None = None
    stage: tuple[str, ...] = ()
    enhanced: tuple[str, ...] = ()
    json: Mapping[str, object] = field(default_factory=dict)
    text: str = ""
    at: str = ""
    header: Mapping[str, str] = field(default_factory=dict)
    form: tuple[str, ...] = ()
    step: str = ""
    fault: tuple[Fault, ...] = ()
    sent: bool | None = None
    # then
    code: Code | None = None
    provider_code: str = ""
    message_id: str = ""
    retry_after: tuple[str, ...] = ()
    re_address: str = ""
    drop_address: bool = False
    ambiguous: bool = False
    scope: str | None = None
    floor: str | None = None
    refresh: bool = False

    def concerns(self, kind: str, status: int | None) -> bool:
        """May it hold of an answer of this kind with this status? Needs nothing else of the answer."""
        about_faults = bool(self.fault) or self.sent is not None
        if about_faults is not (kind == "none"):
            return False
        return self.status is None or (status is not None and _within(status, self.status))

    def conditions(self) -> tuple[Callable[[Facts], bool], ...]:
        """What must hold besides, the cheap things first."""
        return tuple(self._conditions())

    def _conditions(self) -> Iterator[Callable[[Facts], bool]]:
        if self.stage:
            yield lambda facts: facts.stage in self.stage
        if self.step:
            yield lambda facts: facts.step == self.step
        if self.fault:
            yield lambda facts: facts.fault in self.fault
        if self.sent is not None:
            yield lambda facts: facts.sent is self.sent
        if self.enhanced:
            yield lambda facts: any(f"{facts.enhanced}.".startswith(f"{e}.") for e in self.enhanced)
        if self.form:
            yield lambda facts: facts.form in self.form
        if self.json:
            yield lambda facts: all(_equals(facts.json, path, wanted) for path, wanted in self.json.items())
        for name, wanted in self.header.items():
            yield partial(_header_says, name, pattern(wanted))
        if self.text:
            yield partial(_words_say, f"json:{self.at}" if self.at else "", pattern(self.text))
        if self.re_address:
            yield lambda facts: facts.pick(self.re_address) is not None


def _header_says(name: str, wanted: re.Pattern[str], facts: Facts) -> bool:
    return wanted.search(facts.headers.get(name, "")) is not None


def _words_say(where: str, wanted: re.Pattern[str], facts: Facts) -> bool:
    words = (facts.pick(where) or "") if where else facts.text
    return wanted.search(words) is not None


def _within(status: int, wanted: int | Container[int]) -> bool:
    return status == wanted if isinstance(wanted, int) else status in wanted


def _equals(document: object, path: str, wanted: object) -> bool:
    """Same value *and* same type: JSON's true is not 1, which it would be for Python."""
    choices = wanted if isinstance(wanted, tuple) else (wanted,)
    return any(
        type(found) is type(choice) and found == choice
        for found in find(document, path)
        for choice in choices
    )
