"""One rule of classification: what must hold of an answer, and what it then means. Data, not code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringonce.core.answer_facts import Facts, find, pattern

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from ringonce.model.exchange import Fault
    from ringonce.model.outcome import Code, OutcomeClass


@dataclass(frozen=True, slots=True)
class Rule:
    """If all that is stated under *when* holds, the answer means what is stated under *then*.

    *When.* ``status``: an HTTP status or SMTP code, or a container of them. ``stage``: SMTP stages.
    ``enhanced``: enhanced SMTP codes (RFC 3463) or beginnings of them; ``5.1`` covers 5.1.1, but 5.1.1 not
    5.1.10. ``json``: path to value, or to a tuple of values of which one must be there. ``text``: pattern found
    in the body or reply, or in the JSON field ``at``. ``header``: lower-case name to pattern. ``form``: forms of
    the body (see ``Facts.form``). ``step``: word of a sandbox script. ``fault`` and ``sent``: for exchanges that
    broke; only rules that state ``fault`` or ``sent`` are asked about those, and they are asked about nothing else.

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

    def holds(self, facts: Facts) -> bool:
        """Does everything that is stated under *when* hold?"""
        about_faults = bool(self.fault) or self.sent is not None
        if about_faults is not (facts.kind == "none"):
            return False
        return (
            (self.status is None or _within(facts.status, self.status))
            and (not self.stage or facts.stage in self.stage)
            and (not self.step or facts.step == self.step)
            and (not self.fault or facts.fault in self.fault)
            and (self.sent is None or facts.sent is self.sent)
            and (not self.enhanced or any(f"{facts.enhanced}.".startswith(f"{e}.") for e in self.enhanced))
            and (not self.form or facts.form in self.form)
            and all(_equals(facts.json, path, wanted) for path, wanted in self.json.items())
            and all(
                pattern(wanted).search(facts.headers.get(name, "")) for name, wanted in self.header.items()
            )
            and (not self.text or bool(pattern(self.text).search(self._words(facts))))
            and (not self.re_address or facts.pick(self.re_address) is not None)
        )

    def _words(self, facts: Facts) -> str:
        return facts.text if not self.at else facts.pick(f"json:{self.at}") or ""


def _within(status: int | None, wanted: int | Container[int]) -> bool:
    if status is None:
        return False
    return status == wanted if isinstance(wanted, int) else status in wanted


def _equals(document: object, path: str, wanted: object) -> bool:
    """Same value *and* same type: JSON's true is not 1, which it would be for Python."""
    choices = wanted if isinstance(wanted, tuple) else (wanted,)
    return any(
        type(found) is type(choice) and found == choice
        for found in find(document, path)
        for choice in choices
    )
