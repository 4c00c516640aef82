"""What a mail that came back says: reports of delivery (RFC 3464) inside a multipart/report (RFC 6522).

Anybody may send anything to a return path. So nothing here trusts its input: it is cut at a size, whatever can not be
read counts as not said, and no text of it is used but to find out which mail it is about and why it came back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from email import message_from_bytes
from email.message import Message
from email.policy import compat32
from typing import TYPE_CHECKING, Final

from ringonce.model.exchange import MailAnswer
from ringonce.model.outcome import Code, OutcomeClass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.model.outcome import Outcome

LARGEST: Final = 262_144
"""Octets that are looked at. The report proper comes before the mail that it returns."""
_PARTS: Final = 64
_ENVELOPE: Final = (
    "delivered-to",
    "x-original-to",
    "envelope-to",
    "x-envelope-to",
    "original-recipient",
    "to",
)
"""Where mail servers write whom a mail was delivered to: the return path of the one that came back."""
_RETURNED: Final = ("return-path", "x-envelope-from")
_REPORTS: Final = {"message/delivery-status", "message/global-delivery-status"}  # RFC 3464, RFC 6533
_WHOLE: Final = {"message/rfc822", "message/global"}
_HEADERS: Final = {"text/rfc822-headers", "message/rfc822-headers", "message/global-headers"}
_ABOUT_US: Final = {OutcomeClass.AUTH, OutcomeClass.DISABLED, OutcomeClass.NOT_IMPLEMENTED}
_GAP = re.compile(r"\r?\n[ \t]*\r?\n")
_STATUS = re.compile(r"\b([245])\.(\d{1,3})\.(\d{1,3})\b")  # RFC 3463 section 2
_REPLY = re.compile(r"\b([245]\d\d)(?:[ -]|$)")
_ACTIONS: Final = ("failed", "delayed", "delivered", "relayed", "expanded")  # RFC 3464 section 2.3.3


@dataclass(frozen=True, slots=True)
class Returned:
    """A mail that came to a return path. ``places``: texts that may name the mail that it is about.

    They are whom it came to, the envelope's id, and the headers of the returned mail, the surest first. ``action`` is
    one of RFC 3464's, empty when it is no report (a person's answer, an automatic one). ``answer``: what the server
    that decided had said, as a reply of SMTP.
    """

    places: tuple[str, ...]
    action: str = ""
    answer: MailAnswer | None = None


def returned(raw: bytes) -> Returned:
    """Read a mail that came back. Never raises, whatever it is given."""
    try:
        return _read(message_from_bytes(raw[:LARGEST], policy=compat32))
    except (RecursionError, ValueError, LookupError, TypeError, AttributeError):
        # The library's parser gives up on some of what strangers write; so does this.
        return Returned(())


def softened(outcome: Outcome) -> Outcome:
    """What a refusal means that was given to somebody else, who has handed the mail on.

    It is about this mail, whatever the same words would say about us if they had been said to us: no bounce may
    pause a channel.
    """
    if outcome.cls in _ABOUT_US:
        cls = OutcomeClass.BLOCKED
        return replace(outcome, cls=cls, code=Code.BLOCKED, scope=None, refresh=False)
    return outcome if outcome.scope in {None, "address"} else replace(outcome, scope="address")


def _read(mail: Message) -> Returned:
    envelope = _fields(mail)
    places = [envelope.get(name, "") for name in _ENVELOPE]
    if mail.get_content_type() != "multipart/report":
        return Returned(tuple(filter(None, places)))
    per_message: dict[str, str] = {}
    fates: list[dict[str, str]] = []
    headers: dict[str, str] = {}
    for part in _inside(mail):
        kind = part.get_content_type()
        if kind in _REPORTS and not fates:
            blocks = _blocks(part)
            per_message = blocks[0] if blocks else {}
            fates = [block for block in blocks if block.get("action", "").lower() in _ACTIONS]
        elif kind in _WHOLE and not headers:
            headers = next(map(_fields, _inside(part)), {})
        elif kind in _HEADERS and not headers:
            headers = next(iter(_blocks(part)), {})
    places.append(per_message.get("original-envelope-id", ""))
    places += [headers.get(name, "") for name in _RETURNED]
    found = tuple(filter(None, places))
    if not fates:
        return Returned(found)
    chosen = _chosen(fates)
    return Returned(found, chosen["action"].lower(), _answer(chosen))


def _chosen(fates: Sequence[dict[str, str]]) -> dict[str, str]:
    """An address may stand for several: it has failed only if the mail reached none of them."""
    by_action = {block["action"].lower(): block for block in reversed(fates)}
    order = ("delivered", "relayed", "expanded", "failed", "delayed")
    return next(by_action[action] for action in order if action in by_action)


def _answer(block: dict[str, str]) -> MailAnswer:
    """What the refusing server replied, or what its status says where it is not told."""
    kind, _, text = block.get("diagnostic-code", "").partition(";")
    text = text.strip() if kind.strip().lower() in {"smtp", "lmtp"} else ""
    status = _STATUS.search(block.get("status", ""))
    said = _STATUS.search(text)
    if said is not None and (status is None or status[0].endswith(".0.0")):
        status = said
    reply = _REPLY.search(text)
    family = status[1] if status else reply[1][0] if reply else "5"
    code = int(reply[1]) if reply and reply[1][0] == family else {"2": 250, "4": 450}.get(family, 550)
    # With one recipient per envelope it is a verdict on that recipient, whenever it was given.
    return MailAnswer(code, text[:1000], status[0] if status else None, "DATA_END" if code < 400 else "RCPT")


def _inside(part: Message) -> list[Message]:
    """The parts of a part; what is inside of a returned mail belongs to it, and is not looked at."""
    payload = part.get_payload()
    return [one for one in payload[:_PARTS] if isinstance(one, Message)] if isinstance(payload, list) else []


def _blocks(part: Message) -> list[dict[str, str]]:
    """Groups of fields with an empty line between (RFC 3464 section 2.1), however the library has cut them up."""
    raw = part.get_payload(decode=True)
    texts = [raw.decode("utf-8", "replace")] if isinstance(raw, bytes) else []
    blocks: list[dict[str, str]] = []
    for inner in _inside(part):
        blocks.append(_fields(inner))
        texts.append(str(inner.get_payload()))
    blocks += [_fields_of(block) for text in texts for block in _GAP.split(text)[:_PARTS]]
    return [block for block in blocks if block]


def _fields_of(text: str) -> dict[str, str]:
    return _fields(message_from_bytes(text.strip("\r\n").encode("utf-8", "replace"), policy=compat32))


def _fields(message: Message) -> dict[str, str]:
    """The fields of one block by their lower-case names, unfolded; all values of a repeated one together."""
    found: dict[str, str] = {}
    for name, value in message.items():
        text = " ".join(str(value).split())[:2000]
        key = name.lower()
        found[key] = f"{found[key]} {text}"[:4000] if key in found else text
    return found
