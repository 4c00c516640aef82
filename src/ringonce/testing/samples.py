"""Messages, hostile texts and answers that the provider kit tries; all of it is the same in each run."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING
from uuid import UUID

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
from ringonce.model.notification import Address, Content, Message
from ringonce.provider import Context

if TYPE_CHECKING:
    from collections.abc import Iterator

ID = UUID("018f2f6e-1111-7222-8333-444455556666")
CREATED = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z, in microseconds."""
NOW = CREATED + 90_000_000
CREDENTIAL = "granted-credential-of-the-kit"
MARK = "X-Injected"
HOSTILE = (
    f"a\r\n{MARK}: 1",
    f"a\n{MARK}: 1",
    f"a\r{MARK}: 1",
    f"a\r\n\r\n.\r\n{MARK}: 1",
    f"a\x85{MARK}: 1",
    f"a\u2028{MARK}: 1",
    '"}, {"x": "',
    "</script><b>&amp;",
    "%0d%0a{{ 7 * 7 }} ${x} %s {0}",
    "=?utf-8?q?a=0D=0AX-Injected:_1?=",
    "🙂" * 40,
    "\u202eright to left\u202c",
    "á\u0301\u200d\ufeff",
    "." * 3,
)
PAGE = b"<!DOCTYPE html><html><body><h1>Please sign in</h1></body></html>"
STAGES = ("CONNECT", "EHLO", "AUTH", "MAIL", "RCPT", "DATA_BODY", "DATA_END", "QUIT")
NOT_SENT = (
    Fault.DNS_NXDOMAIN,
    Fault.DNS_TIMEOUT,
    Fault.CONNECT_REFUSED,
    Fault.CONNECT_TIMEOUT,
    Fault.TLS_CERT_INVALID,
    Fault.REFUSED_STREAM,
    Fault.GOAWAY,
    Fault.ADDRESS_REFUSED,
    Fault.NOT_STARTED,
)
PERHAPS_SENT = (
    Fault.WRITE_RESET,
    Fault.READ_TIMEOUT,
    Fault.RESET_BEFORE_STATUS,
    Fault.TRUNCATED_BODY_AFTER_2XX,
)


def address(value: str) -> Address:
    """A registered address."""
    return Address(
        id=1, tenant="tenant-1", recipient="user-1", channel="kit", value=value, registered_at=CREATED
    )


def message(content: Content, **fields: object) -> Message:
    """The first attempt of a notification."""
    base: dict[str, object] = {
        "id": ID,
        "reference": str(ID),
        "revision": 1,
        "attempt": 1,
        "event_id": "order-42",
        "event_type": "order.shipped",
        "tenant": "tenant-1",
        "recipient": "user-1",
        "created_at": CREATED,
    }
    return Message(content=content, **(base | fields))  # type: ignore[arg-type]


def context(now: int = NOW, timeout: float = 15.0) -> Context:
    """The moment of an attempt. Its entropy gives the same bytes each time, so that requests can be compared."""
    return Context(
        now=now,
        timeout=timeout,
        registered_at=CREATED,
        credential=CREDENTIAL,
        entropy=lambda count: bytes(index * 7 % 251 + 1 for index in range(count)),
    )


def bodies() -> Iterator[bytes]:
    """Bodies that nobody promised: empty, a page, broken, deep, of the wrong type, with odd values."""
    yield from (b"", b"  ", b"ok", PAGE, b"\xff\xfe\x00", b"null", b"true", b"0", b"[]", b"{}", b'"text"')
    yield b'{"error":'
    yield b"[" * 10_000
    yield b'{"ok":null,"error":[],"message":{},"code":"x","status":1e999,"retry_after":-1}'
    yield b"9" * 6_000


def http_answers() -> Iterator[HttpAnswer]:
    """Each status with each odd body, and without the rest of it."""
    for status in (*range(100, 600), 0, 600, 999):
        yield HttpAnswer(status)
        yield HttpAnswer(status, {"content-type": "application/json"}, b'{"kit":"unknown"}')
    for status in (100, 200, 202, 204, 302, 400, 401, 403, 404, 410, 418, 429, 500, 502, 503, 504, 599):
        yield HttpAnswer(status, {"content-type": "text/html"}, PAGE)
        yield HttpAnswer(status, {}, b'{"ok":tr', truncated=True)
        for body in bodies():
            yield HttpAnswer(status, {}, body)


def mail_answers() -> Iterator[MailAnswer]:
    """Each code at each stage, without a text that says more."""
    for stage in STAGES:
        for code in (*range(200, 300, 10), *range(400, 600), 0, 354, 999):
            yield MailAnswer(code, "", stage=stage)


def sms_answers() -> Iterator[SmsAnswer]:
    """Each status from each command, to the first part and to a later one; reports that say nothing known."""
    for status in (*range(0x500), 2**32 - 1):
        yield SmsAnswer(status, accepted=int(not status))
        if status:
            yield SmsAnswer(status, accepted=1)
            yield SmsAnswer(status, "bind_transceiver_resp")
        yield SmsAnswer(status, "generic_nack")
    for text in ("", "id:1", "stat:", "stat:NEW err:1", "text:stat:DELIVRD", "\0\ud800", "id:" * 1_000):
        yield SmsAnswer(0, "deliver_sm", text=text)


def fuzz(transport: str, seed: int, count: int) -> Iterator[Answer]:
    """``count`` arbitrary answers; the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        kind = chance.random()
        if kind < 0.1:
            yield NoAnswer(
                chance.choice(list(Fault)),
                sent=chance.random() < 0.5,
                detail=_text(chance),
                stage=chance.choice((None, *STAGES)),
            )
        elif transport == "smtp":
            yield MailAnswer(
                chance.randrange(1000),
                _text(chance),
                chance.choice((None, "5.1.1", "4.2.0", _text(chance))),
                chance.choice(STAGES),
            )
        elif transport == "script":
            yield ScriptedAnswer(_text(chance), str(ID))
        elif transport == "smpp":
            command = chance.choice(("submit_sm_resp", "deliver_sm", "generic_nack", "bind_transceiver_resp"))
            status, taken = chance.randrange(0x500), chance.randrange(3)
            yield SmsAnswer(status, command, _text(chance), taken, _text(chance))
        elif transport == "library":
            yield LibraryAnswer(made=_flip(chance), value=chance.choice((True, False, None)))
        else:
            yield HttpAnswer(chance.randrange(100, 600), _headers(chance), _body(chance), _flip(chance))


_WORDS = (
    *(
        "error",
        "code",
        "status",
        "message",
        "reason",
        "description",
        "ok",
        "result",
        "id",
        "retry_after",
        "token",
    ),
    *(
        "unregistered",
        "invalid",
        "blocked",
        "user",
        "limit",
        "quota",
        "not",
        "found",
        "Retry-After",
        "true",
        "null",
    ),
    *("0", "-1", "1e9", "\0", "\ud800", "🙂", "\r\n", "'", '"', "{", "}", "[", "]", "<", ">", "&", "%"),
    *("+7 900 123-45-67", "a@example.com"),
)


def _flip(chance: random.Random) -> bool:
    return chance.random() < 0.5


def _text(chance: random.Random) -> str:
    words = " ".join(chance.choices(_WORDS, k=chance.randrange(12)))
    return words + "".join(chr(chance.randrange(0x250)) for _ in range(chance.randrange(6)))


def _headers(chance: random.Random) -> dict[str, str]:
    names = ("retry-after", "date", "content-type", "x-request-id", "location", "server")
    dates = ("30", "0", "-5", "1e9", "Thu, 01 Jan 2026 00:05:00 GMT", "99999999999999999999", "soon")
    return {name: chance.choice((*dates, _text(chance))) for name in names if _flip(chance)}


def _body(chance: random.Random) -> bytes:
    if _flip(chance):
        return json.dumps(_value(chance, 4)).encode()
    return (
        _text(chance).encode("utf-8", "replace") if _flip(chance) else chance.randbytes(chance.randrange(80))
    )


def _value(chance: random.Random, depth: int) -> object:
    kind = chance.randrange(7 if depth else 5)
    if kind == 0:
        return _text(chance)
    if kind == 1:
        return chance.choice((None, True, False))
    if kind == 2:
        return chance.randrange(-10, 10**9)
    if kind == 3:
        return chance.choice((0.5, float("inf"), float("nan"), -1e308))
    if kind == 4:
        return chance.choice(_WORDS)
    parts = [_value(chance, depth - 1) for _ in range(chance.randrange(5))]
    return parts if kind == 5 else {chance.choice(_WORDS): part for part in parts}
