"""``ringonce classify``: what would ringonce do with this answer? Cases in, rows out; nothing is sent or stored.

A case tells a provider's answer as JSON. ``provider`` names it; ``http_status`` or ``smtp_code``, ``headers`` and
``body`` (an object, a text or null) hold a complete answer; ``event`` names what broke instead (see ``Fault``);
``stage`` and ``enhanced`` belong to SMTP; ``now`` (ISO 8601 or Unix time) is the clock that Retry-After dates are
measured by; ``token_registered_at_ms`` is when the address was registered; ``truncated``: the body was cut. Of SMPP the
body is ``{"command": …, "command_status": N}``, or the text of a report; of a library it is what it returned.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ringonce import registry
from ringonce.clock import SystemClock
from ringonce.errors import ConfigError, InputError
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
from ringonce.model.outcome import OutcomeClass
from ringonce.provider import Context, Outcome, Provider

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# The rest may have reached the provider. REFUSED_STREAM and GOAWAY promise that nothing was processed (RFC 9113
# section 8.7).
_NOT_SENT = frozenset(
    {
        Fault.DNS_NXDOMAIN,
        Fault.DNS_TIMEOUT,
        Fault.CONNECT_REFUSED,
        Fault.CONNECT_TIMEOUT,
        Fault.TLS_CERT_INVALID,
        Fault.REFUSED_STREAM,
        Fault.GOAWAY,
        Fault.ADDRESS_REFUSED,
        Fault.NOT_STARTED,
    }
)
_REPLY = re.compile(r"\s*(\d{3})[ -]?(.*)", re.DOTALL)
_STATUS = range(1000)
_COMMAND_STATUS = range(2**32)  # SMPP 3.4 section 3.2
_SECONDS_DIGITS = 11  # a Unix time with more is in milliseconds


def classify_cases(cases: Iterable[object]) -> list[dict[str, Any]]:
    """A row for each case, in order."""
    return [classify_case(case) for case in cases]


def classify_case(case: object) -> dict[str, Any]:
    """One row: id, class, code, drop_address, retry_after_s, ambiguous and why.

    Never raises: what can not be classified is a row with ``class`` null and the reason in ``error``.
    """
    if not isinstance(case, dict):
        return _failed(None, "a case is a JSON object")
    name = case.get("provider")
    try:
        cls = registry.answering(name) if isinstance(name, str) else None
        if cls is None:
            return _failed(case, "unknown provider")
        answers = _answers(case, cls)
        outcomes = [cls.outcome(answer, _context(case)) for answer in answers]
    except (InputError, ConfigError) as error:
        return _failed(case, str(error))
    return _row(case, _joint(outcomes))


def case_from_options(
    provider: str,
    *,
    status: int | None = None,
    headers: Sequence[str] = (),
    body: str | None = None,
    event: str | None = None,
    stage: str | None = None,
    now: str | None = None,
    registered_at: str | None = None,
) -> dict[str, Any]:
    """The case that the command's options tell. ``headers`` are ``Name: value``; times are ISO 8601 or Unix times.

    Raises InputError naming the option.
    """
    case: dict[str, Any] = {"provider": provider, "http_status": status, "headers": {}, "body": body}
    for header in headers:
        key, colon, value = header.partition(":")
        if not colon or not key.strip():
            raise InputError(
                "a header is Name: value", field="header", mend='write --header "Retry-After: 30"'
            )
        case["headers"][key.strip()] = value.strip()
    if event is not None:
        case["event"] = event
    if stage is not None:
        case["stage"] = stage
    if now is not None:
        case["now"] = now
    if registered_at is not None:
        case["token_registered_at_ms"] = _microseconds(registered_at, "registered_at") // 1000
    return case


def _row(case: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
    return {
        "id": case.get("id"),
        "class": outcome.cls.value,
        "code": outcome.code.value if outcome.code else None,
        "drop_address": outcome.drop_address,
        "retry_after_s": outcome.retry_after_s,
        "ambiguous": outcome.ambiguous,
        "provider_code": outcome.provider_code,
        "message_id": outcome.message_id,
        "re_address": outcome.re_address,
        "scope": outcome.scope,
        "floor": outcome.floor,
        "rule": outcome.rule,
        "source": outcome.source,
    }


def _failed(case: Mapping[str, Any] | None, error: str) -> dict[str, Any]:
    empty = ("class", "code", "drop_address", "retry_after_s", "ambiguous")
    return {"id": None if case is None else case.get("id"), **dict.fromkeys(empty), "error": error}


def _joint(outcomes: Sequence[Outcome]) -> Outcome:
    """One verdict for an envelope of several: what can still succeed keeps the whole alive."""
    for alive in (OutcomeClass.ACCEPTED, OutcomeClass.TRANSIENT, OutcomeClass.RATE_LIMITED):
        for outcome in outcomes:
            if outcome.cls is alive:
                return outcome
    return outcomes[0]


def _context(case: Mapping[str, Any]) -> Context:
    registered = _number(case, "token_registered_at_ms", range(10**15))
    now = case.get("now")
    return Context(
        now=SystemClock().now() if now is None else _microseconds(now, "now"),
        registered_at=None if registered is None else registered * 1000,
    )


def _answers(case: Mapping[str, Any], cls: type[Provider]) -> list[Answer]:
    """The answer that the case tells; several for an envelope with several recipients."""
    body = case.get("body")
    limit = _COMMAND_STATUS if cls.transport == "smpp" else _STATUS
    status = _number(case, "smtp_code")
    status = _number(case, "http_status", limit) if status is None else status
    stage = case.get("stage")
    if not (stage is None or isinstance(stage, str)):
        raise InputError("it is a text", field="stage", mend="for example RCPT or DATA_END")
    event = case.get("event")
    replied = status is not None or (cls.transport == "smpp" and isinstance(body, dict))
    if event is not None and not (event == Fault.RESET_AFTER_REPLY and replied):
        return [_fault(event, stage, mail=cls.transport == "smtp")]
    if cls.transport == "script":
        return [ScriptedAnswer(_text(body), "")]
    if cls.transport == "smtp":
        return _mail(case, status, stage, body)
    if cls.transport == "smpp":
        return [_short(status, stage, body)]
    if cls.transport == "library":
        return [_returned(body)]
    if status is None and case.get("provider") in cls.answers_as and isinstance(body, dict):
        status = 0  # told by another program, in its own words
    if status is None:
        raise InputError("a case tells a status or an event", field="http_status", mend="give one of them")
    headers = case.get("headers") or {}
    if not isinstance(headers, dict):
        raise InputError("headers are an object", field="headers", mend='write {"retry-after": "30"}')
    lower = {str(name).lower(): str(value) for name, value in headers.items()}
    return [HttpAnswer(status, lower, _text(body).encode("utf-8", "replace"), bool(case.get("truncated")))]


def _fault(event: object, stage: str | None, *, mail: bool) -> NoAnswer:
    if not isinstance(event, str) or event not in set(Fault):
        raise InputError("unknown event", field="event", mend=f"one of {', '.join(Fault)}")
    fault = Fault(event)
    # A mail is handed over by its final dot (RFC 5321 section 4.1.1.4): before that nothing is accepted.
    early = mail and stage not in {None, "DATA_END", "QUIT"}
    return NoAnswer(fault, sent=fault not in _NOT_SENT and not early, stage=stage)


def _mail(case: Mapping[str, Any], status: int | None, stage: str | None, body: object) -> list[Answer]:
    if isinstance(body, dict) and "refused" in body:
        return _envelope(body)
    reply = _REPLY.fullmatch(_text(body))
    code = status if status is not None else int(reply.group(1)) if reply else None
    if code is None:
        raise InputError("a case tells a status or an event", field="smtp_code", mend="give one of them")
    text = reply.group(2) if reply and int(reply.group(1)) == code else _text(body)
    enhanced = case.get("enhanced")
    return [MailAnswer(code, text, enhanced if isinstance(enhanced, str) else None, stage or "DATA_END")]


def _envelope(body: Mapping[str, Any]) -> list[Answer]:
    """One envelope with several recipients, as clients of other programs report it."""
    if body.get("accepted"):
        return [MailAnswer(250)]
    refused = body["refused"]
    try:
        answers: list[Answer] = [
            MailAnswer(int(code), str(text), None, "RCPT") for code, text in refused.values()
        ]
    except (AttributeError, TypeError, ValueError):
        answers = []
    if not answers:
        raise InputError(
            "it maps recipients to [code, text]", field="body.refused", mend="see the case smtp-038"
        )
    return answers


def _short(status: int | None, stage: str | None, body: object) -> SmsAnswer:
    if isinstance(body, dict):
        status = _number(body, "command_status", _COMMAND_STATUS)
        command = body.get("command", "submit_sm_resp")
        id_ = body.get("message_id", "")
        if status is None or not isinstance(command, str) or not isinstance(id_, str):
            raise InputError("a case tells a command_status", field="body", mend='{"command_status": 88}')
        return SmsAnswer(status, command, id_, int(not status))
    if status is None and not body:
        raise InputError("a case tells a status or an event", field="http_status", mend="give one of them")
    if status is None:
        return SmsAnswer(0, "deliver_sm", text=_text(body))
    return SmsAnswer(status, stage or "submit_sm_resp", accepted=int(not status))


def _returned(body: object) -> LibraryAnswer:
    told = {"true": True, "false": False, "null": None}
    word = _text(body).strip().lower() or "null"
    if word == "not made":
        return LibraryAnswer(made=False)
    if word not in told:
        raise InputError(
            "it is what the library returned", field="body", mend="true, false, null or not made"
        )
    return LibraryAnswer(made=True, value=told[word])


def _text(body: object) -> str:
    if body is None:
        return ""
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)


def _number(case: Mapping[str, Any], key: str, limit: range = _STATUS) -> int | None:
    value = case.get(key)
    if value is None:
        return None
    if type(value) is not int or value not in limit:
        raise InputError("it is a whole number", field=key, mend="give a number, or null")
    return value


def _microseconds(value: object, field: str) -> int:
    """ISO 8601, or a Unix time in seconds or milliseconds. Raises InputError."""
    text = str(value) if type(value) is int else value
    if isinstance(text, str) and re.fullmatch(r"[0-9]{1,13}", text):
        return int(text) * (1_000 if len(text) > _SECONDS_DIGITS else 1_000_000)
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        at = None
    if at is None:
        raise InputError("it is a moment in ISO 8601", field=field, mend="write 2026-12-01T09:00:00Z")
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()) * 1_000_000
