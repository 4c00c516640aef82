"""What answers may mean: the part of ``check_provider`` that reads outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringonce.model.exchange import (
    Answer,
    Fault,
    HttpAnswer,
    LibraryAnswer,
    MailAnswer,
    NoAnswer,
    ScriptedAnswer,
    SmsAnswer,
)
from ringonce.model.outcome import CODE_OF, Code, Outcome, OutcomeClass
from ringonce.testing import samples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ringonce.provider import Provider

DAY = 86_400
LONGEST = 500
SEED = 20_260_101
TRIES = 500

_ACCEPTED = OutcomeClass.ACCEPTED
_WAITING = frozenset({OutcomeClass.TRANSIENT, OutcomeClass.RATE_LIMITED})
_AT_5XX = _WAITING | {OutcomeClass.NOT_IMPLEMENTED, OutcomeClass.AUTH}
_DROPS = frozenset({OutcomeClass.INVALID_RECIPIENT, OutcomeClass.BLOCKED})


@dataclass(frozen=True, slots=True)
class Case:
    """One answer of the vendor and what it means: a row of a provider's own tests.

    ``cls``: the class as a word, e.g. ``"invalid_recipient"``. The rest is compared too, so what is not stated must
    not be there; ``retry_after_s``, ``scope``, ``message_id`` and ``provider_code`` are compared when they are stated.
    """

    name: str
    answer: Answer
    cls: str
    drop_address: bool = False
    ambiguous: bool = False
    retry_after_s: int | None = None
    scope: str | None = None
    message_id: str | None = None
    provider_code: str | None = None
    re_address: str | None = None


def check_answers(cls: type[Provider], cases: Sequence[Case], *, echo: str) -> list[str]:
    """Everything that is wrong with how ``cls`` reads answers. ``echo``: an address that an answer may repeat."""
    findings: dict[str, None] = {}
    decided = set()
    for case in cases:
        outcome = _read(cls, case.answer, findings)
        if outcome is None:
            continue
        decided.add(outcome.rule)
        if outcome != _read(cls, case.answer, findings):
            findings[f"case {case.name}: the same answer meant two things"] = None
        findings |= dict.fromkeys(_sane(cls, case.answer, outcome))
        findings |= dict.fromkeys(_differs(case, outcome))
    if cases:
        idle = [rule.name for rule in cls.rules if rule.name not in decided]
        findings |= {
            f"rule {name}: no case is decided by it; add one or remove the rule": None for name in idle
        }
    for answer in _all(cls.transport):
        outcome = _read(cls, answer, findings)
        if outcome is not None:
            findings |= dict.fromkeys(_sane(cls, answer, outcome))
            findings |= dict.fromkeys(_careful(cls, answer, outcome))
    if cls.transport == "http":
        findings |= dict.fromkeys(_about_2xx(cls, cases, findings))
        findings |= dict.fromkeys(_about_waiting(cls, findings))
    for answer in samples.fuzz(cls.transport, SEED, TRIES):
        outcome = _read(cls, answer, findings)
        if outcome is not None:
            findings |= dict.fromkeys(_sane(cls, answer, outcome))
    findings |= dict.fromkeys(_quotes(cls, echo, findings))
    return list(findings)


def _all(transport: str) -> Iterator[Answer]:
    if transport == "http":
        yield from samples.http_answers()
    elif transport == "smtp":
        yield from samples.mail_answers()
    elif transport == "smpp":
        yield from samples.sms_answers()
    elif transport == "library":
        yield from (LibraryAnswer(made=True, value=value) for value in (False, None))
        yield LibraryAnswer(made=False)
    else:
        yield from (ScriptedAnswer(step, str(samples.ID)) for step in ("", "no such step", ":", "\0"))
    for fault in Fault:
        for sent in (False, True):
            yield NoAnswer(fault, sent=sent)
            if transport == "smtp":
                yield from (NoAnswer(fault, sent=sent, stage=stage) for stage in samples.STAGES)


def _read(cls: type[Provider], answer: Answer, findings: dict[str, None]) -> Outcome | None:
    context = samples.context()
    try:
        outcome: object = cls.outcome(answer, context)
    except Exception as error:
        findings[f"outcome: raises {type(error).__name__} ({error}) for {_kind(answer)}"] = None
        return None
    if not isinstance(outcome, Outcome):
        findings[f"outcome: returns {type(outcome).__name__}, not an Outcome, for {_kind(answer)}"] = None
        return None
    return outcome


def _kind(answer: Answer) -> str:
    """An answer in a few words; the same for answers that would be one finding."""
    if isinstance(answer, HttpAnswer):
        form = "cut off" if answer.truncated else "a page" if answer.body == samples.PAGE else "an odd body"
        return f"HTTP {answer.status // 100}xx with {form if answer.body else 'no body'}"
    if isinstance(answer, MailAnswer):
        return f"SMTP {answer.code // 100}yz at {answer.stage}"
    if isinstance(answer, SmsAnswer):
        return f"SMPP {answer.command}" + (" in part" if answer.status and answer.accepted else "")
    if isinstance(answer, LibraryAnswer):
        return f"a library's {answer.value}" if answer.made else "a library that made nothing"
    if isinstance(answer, ScriptedAnswer):
        return "an unknown step"
    return f"{answer.fault.value}, sent={answer.sent}" + (f", at {answer.stage}" if answer.stage else "")


def _sane(cls: type[Provider], answer: Answer, outcome: Outcome) -> Iterator[str]:
    """What holds for every outcome."""
    where = _kind(answer)
    codes: set[Code | None] = {CODE_OF[outcome.cls]}
    if outcome.cls is OutcomeClass.INVALID_RECIPIENT and cls.push:
        codes = {Code.PUSH_TOKEN_INVALID}
    if outcome.code not in codes:
        yield f"{where}: class {outcome.cls.value} with code {outcome.code}"
    wait = outcome.retry_after_s
    if wait is not None and not (type(wait) is int and 0 <= wait <= DAY):
        yield f"{where}: retry_after_s must be whole seconds from 0 to {DAY}"
    if outcome.drop_address and outcome.cls not in _DROPS:
        yield f"{where}: drops the address of a {outcome.cls.value} answer"
    if outcome.ambiguous and outcome.cls is not OutcomeClass.TRANSIENT:
        yield f"{where}: ambiguous belongs to transient, not to {outcome.cls.value}"
    for name in ("text", "provider_code", "message_id", "re_address"):
        text = getattr(outcome, name) or ""
        if len(text) > LONGEST or not _clean(text):
            yield f"{where}: {name} holds control characters or is longer than {LONGEST}"
    if not outcome.rule or not outcome.source:
        yield f"{where}: rule and source must say why"


def _clean(text: str) -> bool:
    return not any(ord(letter) < 32 or 0xD800 <= ord(letter) < 0xE000 for letter in text)


def _careful(cls: type[Provider], answer: Answer, outcome: Outcome) -> Iterator[str]:
    """What holds for an answer that says nothing of its own: a strange body, a bare code, a broken exchange."""
    where = _kind(answer)
    if outcome.drop_address and not _proves(cls, answer, outcome):
        yield f"{where}: drops the address without a proof"
    if isinstance(answer, NoAnswer):
        yield from _about_fault(answer, outcome)
    elif isinstance(answer, HttpAnswer):
        if outcome.cls is _ACCEPTED and answer.status // 100 != 2:
            yield f"{where}: is taken for accepted"
        if answer.status // 100 == 5 and outcome.cls not in _AT_5XX:
            yield f"{where}: {outcome.cls.value}, but a server's failure is not the message's fault"
        if answer.status == 429 and outcome.cls not in _WAITING:
            yield f"{where} (429): {outcome.cls.value}, but a limit passes"
    elif isinstance(answer, MailAnswer):
        if outcome.cls is _ACCEPTED and answer.stage not in {"DATA_END", "QUIT"}:
            yield f"{where}: is taken for accepted before the message was handed over"
        if outcome.cls is _ACCEPTED and answer.stage == "DATA_END" and answer.code // 100 != 2:
            yield f"{where}: is taken for accepted"
        final = outcome.cls in {
            OutcomeClass.INVALID_RECIPIENT,
            OutcomeClass.INVALID_PAYLOAD,
            OutcomeClass.BLOCKED,
        }
        if answer.code // 100 == 4 and final:
            yield f"{where}: {outcome.cls.value}, but 4yz is to be tried again"
    elif isinstance(answer, SmsAnswer):
        if outcome.cls is _ACCEPTED and (answer.status, answer.command) != (0, "submit_sm_resp"):
            yield f"{where}: is taken for accepted"
        if answer.status and answer.accepted and not outcome.ambiguous:
            yield f"{where}: some parts were taken, so it must be ambiguous"
    elif outcome.cls is _ACCEPTED:
        yield f"{where}: is taken for accepted"


def _proves(cls: type[Provider], answer: Answer, outcome: Outcome) -> bool:
    """Is the code alone a proof? Only if a rule with a source says so, and the code is one that can."""
    stated = any(rule.name == outcome.rule and rule.drop_address for rule in cls.rules)
    if isinstance(answer, HttpAnswer):
        return stated and answer.status in {404, 410}
    if isinstance(answer, MailAnswer):
        return stated and answer.code // 100 == 5 and answer.stage in {"RCPT", "DATA_BODY", "DATA_END"}
    if isinstance(answer, SmsAnswer):
        return stated and answer.command == "submit_sm_resp"
    return False


def _about_fault(answer: NoAnswer, outcome: Outcome) -> Iterator[str]:
    where = _kind(answer)
    mail_is_over = answer.stage in {"QUIT", "DATA_END"}
    # Before the final dot a mail server has accepted nothing, whatever was written.
    nothing_yet = answer.stage is not None and answer.stage not in {"DATA_BODY", "DATA_END", "QUIT"}
    allowed = {OutcomeClass.TRANSIENT, OutcomeClass.RATE_LIMITED}
    if answer.fault is Fault.TLS_CERT_INVALID:
        allowed.add(OutcomeClass.AUTH)
    if answer.fault is Fault.ADDRESS_REFUSED:
        allowed.add(OutcomeClass.INVALID_RECIPIENT)
    if mail_is_over:
        allowed.add(_ACCEPTED)
    if outcome.cls not in allowed:
        yield f"{where}: a broken exchange is {outcome.cls.value}"
    if not answer.sent and answer.fault in samples.NOT_SENT and outcome.ambiguous:
        yield f"{where}: nothing was sent, so nothing is ambiguous"
    doubt = answer.sent and answer.fault in samples.PERHAPS_SENT and not nothing_yet
    if doubt and outcome.cls is not _ACCEPTED and not outcome.ambiguous:
        yield f"{where}: it may have been accepted, so it must be ambiguous"


def _about_2xx(cls: type[Provider], cases: Sequence[Case], findings: dict[str, None]) -> Iterator[str]:
    """Where success is a JSON body, anything else on 2xx is none."""
    good = [c.answer for c in cases if c.cls == _ACCEPTED.value and isinstance(c.answer, HttpAnswer)]
    if not good or not all(answer.body.lstrip().startswith((b"{", b"[")) for answer in good):
        return
    for status in {answer.status for answer in good}:
        for body, truncated in ((samples.PAGE, False), (b"", False), (b'{"id":', True)):
            outcome = _read(cls, HttpAnswer(status, {}, body, truncated), findings)
            if outcome is None:
                continue
            what = "a page" if body == samples.PAGE else "a body that was cut off" if truncated else "no body"
            if outcome.cls is _ACCEPTED:
                yield f"HTTP {status} with {what}: accepted, although success is a JSON body (see JSON_API)"
            elif body != samples.PAGE and not outcome.ambiguous:
                yield f"HTTP {status} with {what}: it may have been accepted, so it must be ambiguous"


def _about_waiting(cls: type[Provider], findings: dict[str, None]) -> Iterator[str]:
    for status in (429, 503):
        outcome = _read(cls, HttpAnswer(status, {"retry-after": "120"}), findings)
        if outcome is not None and outcome.cls in _WAITING and (outcome.retry_after_s or 0) < 120:
            yield f"HTTP {status}: Retry-After is not honoured"


def _quotes(cls: type[Provider], echo: str, findings: dict[str, None]) -> Iterator[str]:
    """What is stored of an answer never repeats credentials or a mail address."""
    said = f"rejected: authorization: Bearer {samples.CREDENTIAL}-0123456789 for someone@example.com ({echo})"
    answers: list[Answer] = [NoAnswer(Fault.WRITE_RESET, sent=True, detail=said)]
    if cls.transport == "http":
        answers += [HttpAnswer(status, {}, said.encode()) for status in (400, 403, 500)]
    if cls.transport == "smtp":
        answers += [MailAnswer(code, said, stage="RCPT") for code in (450, 550)]
    for answer in answers:
        outcome = _read(cls, answer, findings)
        if outcome is not None and any(
            word in outcome.text for word in (samples.CREDENTIAL, "someone@example.com")
        ):
            yield f"{_kind(answer)}: text repeats a credential or an address; pass it through classify"


def _differs(case: Case, outcome: Outcome) -> Iterator[str]:
    for name in ("drop_address", "ambiguous", "re_address"):
        wanted, got = getattr(case, name), getattr(outcome, name)
        if wanted != got:
            yield f"case {case.name}: {name} is {got!r}, not {wanted!r} (rule {outcome.rule})"
    if outcome.cls.value != case.cls:
        yield f"case {case.name}: is {outcome.cls.value}, not {case.cls} (rule {outcome.rule})"
    for name in ("retry_after_s", "scope", "message_id", "provider_code"):
        wanted, got = getattr(case, name), getattr(outcome, name)
        if wanted is not None and wanted != got:
            yield f"case {case.name}: {name} is {got!r}, not {wanted!r} (rule {outcome.rule})"
