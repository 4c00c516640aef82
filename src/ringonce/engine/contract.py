"""The one structure that every way in accepts: decoded, checked, with errors that name the field and the mend.

HTTP bodies, lines of ``send --file``, calls of the library and events of a bus are all this structure.
"""

from __future__ import annotations

import difflib
import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from ringonce.engine.wording import check_template
from ringonce.errors import InputError, PayloadTooLarge
from ringonce.model.event import Event, Recipient
from ringonce.model.notification import Content
from ringonce.model.policy import DAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ringonce.engine.channels import Channels
    from ringonce.ports import Templates

MAX_DEPTH = 32
MAX_RECIPIENTS = 100_000
TYPE_BYTES = 64
LIMITS = {"event_id": 256, "tenant": 128, "subject": 256, "thread": 256, "collapse": 256, "template": 128}
PRIORITIES = ("low", "normal", "high")


class ContentIn(msgspec.Struct, forbid_unknown_fields=True):
    """``content`` of the structure."""

    title: str | None = None
    text: str | None = None
    html: str | None = None
    data: dict[str, Any] = {}


class RecipientIn(msgspec.Struct, forbid_unknown_fields=True):
    """One of ``recipients``, when it is more than an id."""

    id: str
    locale: str | None = None
    timezone: str | None = None
    addresses: dict[str, Any] = {}


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """The structure. Everything but a target and a text is optional."""

    event_id: str | None = None
    type: str = ""
    tenant: str | None = None
    recipients: list[str | RecipientIn] = []
    to: dict[str, Any] = {}
    channels: list[str] | None = None
    content: ContentIn | None = None
    template: str | None = None
    data: dict[str, Any] = {}
    subject: str | None = None
    thread: str | None = None
    mentions: list[str] = []
    priority: str = "normal"
    collapse: str | None = None
    occurred_at: datetime | None = None
    send_at: datetime | None = None
    expires_at: datetime | None = None
    stop_when_read: bool | None = None


def load(raw: bytes, max_bytes: int) -> dict[str, Any]:
    """Bytes to a JSON object. Raises InputError (not UTF-8, not JSON, too deep) or PayloadTooLarge."""
    if len(raw) > max_bytes:
        raise PayloadTooLarge(f"{len(raw)} bytes; at most {max_bytes}", mend="send less data with the event")
    try:
        value = msgspec.json.decode(raw)
    except RecursionError:
        raise InputError(f"nested deeper than {MAX_DEPTH} levels", mend="flatten the data") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        with suppress(ValueError, RecursionError):
            # An escaped half of a surrogate pair is the one mistake of which the field can be named.
            check_texts(json.loads(raw))
        raise InputError(
            f"not valid JSON: {error}", mend="send one JSON object in UTF-8", code="invalid_json"
        ) from None
    if not isinstance(value, dict):
        raise InputError("a JSON object is needed", mend='e.g. {"to": {"email": "a@example.com"}, …}')
    return value


def decode(
    value: Mapping[str, Any],
    event_id: str,
    tenant: str | None,
    channels: Channels,
    templates: Templates | None = None,
) -> Event:
    """Check the structure and make an Event of it; addresses become canonical.

    ``event_id`` is used where the structure has none; ``tenant`` (of the caller's key) must not be
    contradicted by the structure. Raises InputError.
    """
    check_texts(value)
    body = _convert(value)
    _check_limits(body)
    return make(body, event_id, tenant, channels, templates)


def make(
    body: Body, event_id: str | None, tenant: str | None, channels: Channels, templates: Templates | None
) -> Event:
    """The event of a structure whose types and lengths are right: what depends on the channels is checked here.

    ``event_id`` None: the structure has one. Raises InputError.
    """
    if tenant is not None and body.tenant is not None and body.tenant != tenant:
        raise InputError("this key belongs to another tenant", field="tenant", mend="leave tenant out")
    _check_target(body, channels)
    content = _content(body)
    named = sorted({*body.to, *(body.channels or ())})
    _check_content(content, named, channels, all_of_them=body.channels is None and bool(body.recipients))
    event = Event(
        event_id=body.event_id or event_id or "",
        type=body.type,
        tenant=body.tenant or tenant or "",
        recipients=tuple(_recipients(body, channels)),
        to={name: _address(value, name, f"to.{name}", channels) for name, value in body.to.items()},
        channels=None if body.channels is None else tuple(dict.fromkeys(body.channels)),
        content=content,
        template=body.template,
        data=body.data,
        subject=body.subject,
        thread=body.thread,
        mentions=tuple(body.mentions),
        priority=body.priority,
        collapse=body.collapse,
        occurred_at=_micros(body.occurred_at, "occurred_at"),
        send_at=_micros(body.send_at, "send_at"),
        expires_at=_micros(body.expires_at, "expires_at"),
        stop_when_read=body.stop_when_read,
    )
    if event.template is not None:
        if templates is None:
            raise InputError("there are no templates here", field="template", mend="send content")
        check_template(event, templates, channels)
    return event


def refuse_old(event: Event, journal: int | None, now: int) -> None:
    """Refuse what happened so long ago that nobody remembers any more whether it was told already.

    ``journal``: how long the events that were accepted are remembered, None: always. Raises InputError.
    """
    when = event.occurred_at
    if journal is not None and when is not None and when <= now - journal:
        raise InputError(
            f"older than the journal ({journal // DAY} days): it may have been told, and nobody remembers",
            field="occurred_at",
            mend="raise retention.journal, or leave occurred_at out if it was surely never sent",
            code="event_too_old",
        )


def encode_event(event: Event) -> bytes:
    """The stored form of an accepted event."""
    return _STORE.encode(event)


def decode_event(body: bytes) -> Event:
    """The event back from its stored form."""
    return _STORED.decode(body)


_STORE = msgspec.json.Encoder()
_STORED = msgspec.json.Decoder(Event)
_UNKNOWN = re.compile(r"unknown field `([^`]+)`")


def _convert(value: Mapping[str, Any]) -> Body:
    try:
        return msgspec.convert(value, Body)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        path = place.rstrip("`").lstrip(".")
        unknown = _UNKNOWN.search(message)
        if unknown is None:
            raise InputError(message, field=path or None, mend="see the structure in the reference") from None
        name = unknown.group(1)
        known = (ContentIn if path == "content" else RecipientIn if path else Body).__struct_fields__
        near = difflib.get_close_matches(name, known, n=1)
        mend = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        raise InputError("unknown field", field=f"{path}.{name}" if path else name, mend=mend) from None


def check_texts(value: object, path: str = "", depth: int = 0) -> None:
    """U+0000 and lone surrogates can not be stored everywhere (PostgreSQL refuses them): refuse them here."""
    if depth > MAX_DEPTH:
        raise InputError(
            f"nested deeper than {MAX_DEPTH} levels", field=path or None, mend="flatten the data"
        )
    if isinstance(value, str):
        if "\x00" in value:
            raise InputError("U+0000 can not be stored or sent", field=path or None, mend="remove it")
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise InputError(
                "a lone surrogate is not a character", field=path or None, mend="send valid Unicode"
            )
    elif isinstance(value, dict):
        for key, item in value.items():
            check_texts(key, path, depth + 1)
            check_texts(item, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            check_texts(item, f"{path}[{index}]", depth + 1)


def _check_limits(body: Body) -> None:
    for name, limit in LIMITS.items():
        text = getattr(body, name)
        if text is not None and not 0 < len(text) <= limit and not (name == "tenant" and text == ""):
            raise InputError(
                f"1 to {limit} characters", field=name, mend="use a shorter one, or leave it out"
            )
    if len(body.type.encode()) > TYPE_BYTES:
        raise InputError(f"at most {TYPE_BYTES} bytes", field="type", mend="use a shorter event type")
    if body.priority not in PRIORITIES:
        raise InputError(f"one of {', '.join(PRIORITIES)}", field="priority")


def _check_target(body: Body, channels: Channels) -> None:
    if not body.recipients and not body.to:
        raise InputError(
            "nobody to tell", field="recipients", mend='give recipients or to, e.g. {"email": "a@b.org"}'
        )
    if len(body.recipients) > MAX_RECIPIENTS:
        raise InputError(
            f"at most {MAX_RECIPIENTS} recipients", field="recipients", mend="send several events"
        )
    if body.channels is not None and not body.channels:
        raise InputError(
            "an empty list reaches nobody", field="channels", mend="name a channel or leave it out"
        )
    for path, names in (("channels", body.channels or ()), ("to", body.to)):
        for name in names:
            _known(name, path, channels)


def _known(name: str, path: str, channels: Channels) -> None:
    if channels.get(name) is None:
        known = list(channels.all())
        near = difflib.get_close_matches(name, known, n=1)
        mend = f"did you mean {near[0]}?" if near else f"configured: {', '.join(known) or 'none'}"
        raise InputError(f"unknown channel {name!r}", field=path, mend=mend, code="unknown_channel")


def _content(body: Body) -> Content | None:
    if body.template is not None:
        if body.content is not None:
            raise InputError("give content or a template, not both", field="template", mend="leave one out")
        return None
    if body.content is None:
        raise InputError(
            "nothing to say", field="content", mend='give content, e.g. {"text": "…"}, or a template'
        )
    given = body.content
    if not (given.title or given.text or given.html or given.data):
        raise InputError(
            "nothing to say", field="content", mend="give at least one of title, text, html, data"
        )
    return Content(given.title, given.text, given.html, given.data)


def _check_content(
    content: Content | None, named: list[str], channels: Channels, *, all_of_them: bool
) -> None:
    """Refuse at acceptance what a channel can not carry: a named one always, else only if no channel can."""
    if content is None:
        return
    for name in named:
        entry = channels.get(name)
        if entry is not None:
            for one in (entry, *entry.ways):
                _carries(one.provider.check, content, name)
    if not all_of_them:
        return
    first: InputError | None = None
    for name, entry in channels.all().items():
        try:
            for one in (entry, *entry.ways):
                _carries(one.provider.check, content, name)
        except InputError as error:
            first = first or error
        else:
            return
    if first is not None:
        raise first


def _carries(check: Any, content: Content, channel: str) -> None:
    try:
        check(content)
    except InputError as error:
        raise type(error)(
            f"channel {channel}: {error.message}",
            field=error.field or "content",
            mend=error.mend,
            code=error.code,
        ) from None


def _recipients(body: Body, channels: Channels) -> Iterator[Recipient]:
    for index, given in enumerate(body.recipients):
        item = RecipientIn(given) if isinstance(given, str) else given
        path = f"recipients[{index}]"
        if not 0 < len(item.id) <= LIMITS["event_id"]:
            raise InputError(f"1 to {LIMITS['event_id']} characters", field=f"{path}.id")
        addresses = {}
        for name, values in item.addresses.items():
            _known(name, f"{path}.addresses", channels)
            _addressed(name, f"{path}.addresses.{name}", channels)
            many = values if isinstance(values, list) else [values]
            addresses[name] = tuple(_address(v, name, f"{path}.addresses.{name}", channels) for v in many)
        yield Recipient(item.id, item.locale, item.timezone, addresses)


def _addressed(name: str, path: str, channels: Channels) -> None:
    entry = channels.get(name)
    if entry is not None and entry.provider.stored:
        raise InputError(
            "needs no address: the recipient is it", field=path, mend=f"leave it out; name {name} in channels"
        )


def _address(value: object, channel: str, path: str, channels: Channels) -> str:
    entry = channels.get(channel)
    if entry is None:  # pragma: no cover - checked before
        raise InputError(f"unknown channel {channel!r}", field=path)
    try:
        return entry.provider.address(value)
    except InputError as error:
        raise InputError(error.message, field=path, mend=error.mend, code="invalid_address") from None


def _micros(when: datetime | None, field: str) -> int | None:
    if when is None:
        return None
    if when.tzinfo is None:
        raise InputError("a time needs its offset", field=field, mend="e.g. 2026-12-01T09:00:00Z")
    delta = when.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
