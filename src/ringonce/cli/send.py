"""``send``: accept one notification, or one for each line of a file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ringonce.cli.session import FAILED, OK, UsageError, note, say, show_json, with_ringonce

if TYPE_CHECKING:
    from cyclopts import App

    from ringonce.app import Ringonce
    from ringonce.ports import Accepted

Many = list[str] | None


def register(app: App) -> None:
    """Add the commands."""
    app.command(send)


def send(
    *,
    to: Many = None,
    recipient: Many = None,
    channel: Many = None,
    title: str | None = None,
    text: str | None = None,
    html: str | None = None,
    template: str | None = None,
    data: str | None = None,
    type: str | None = None,  # noqa: A002 - the name of the option
    event_id: str | None = None,
    tenant: str | None = None,
    subject: str | None = None,
    thread: str | None = None,
    collapse: str | None = None,
    priority: str | None = None,
    send_at: str | None = None,
    expires_at: str | None = None,
    file: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    json: bool = False,
) -> int:
    """Accept one notification (by options, or one JSON structure on standard input), or one per line of a file.

    It is stored when this ends; a worker delivers it (`ringonce up` or `ringonce worker`).

    Args:
        to: Whom to tell without a recipient record, as channel=address. May be repeated.
        recipient: The id of a recipient with registered addresses. May be repeated.
        channel: Only these channels. May be repeated.
        title: The title, or the subject line of a mail.
        text: The text.
        html: The text as HTML, for channels that carry it.
        template: The template that makes the text, instead of title, text and html.
        data: What the template shows, as a JSON object.
        type: The type of the event, at most 64 bytes.
        event_id: The idempotency key: sent again, nothing happens.
        tenant: On whose behalf.
        subject: The thing that it is about, e.g. order:42; withdrawing it cancels what is not sent.
        thread: The conversation that it belongs to.
        collapse: A newer notification with this key cancels older ones that are not yet sent.
        priority: low, normal or high.
        send_at: Not before, e.g. 2026-12-01T09:00:00Z.
        expires_at: Not after.
        file: One JSON structure per line; - is standard input. Good lines are accepted, bad ones are listed.
        json: Print the answer as JSON.
    """
    fields = {
        "title": title,
        "text": text,
        "html": html,
        "template": template,
        "data": data,
        "type": type,
        "event_id": event_id,
        "tenant": tenant,
        "subject": subject,
        "thread": thread,
        "collapse": collapse,
        "priority": priority,
        "send_at": send_at,
        "expires_at": expires_at,
    }
    given = {name: value for name, value in fields.items() if value is not None}
    if file is not None:
        return _send_file(file, given or to or recipient or channel, json=json)
    body = _body(given, to or [], recipient or [], channel or [])

    async def work(ringonce: Ringonce) -> Accepted:
        return await ringonce.notify(body)

    _show(with_ringonce(work), json=json)
    return OK


def _send_file(name: str, others: object, *, json: bool) -> int:
    from ringonce.cli.lines import send_lines

    if others:
        raise UsageError("goes with no other option", field="FILE", mend="put everything into the lines")
    summary = send_lines(name, list_bad=not json)
    if json:
        show_json(summary.view())
    else:
        say(summary.words())
    return FAILED if summary.bad else OK


def _body(
    given: dict[str, str], to: list[str], recipients: list[str], channels: list[str]
) -> bytes | dict[str, object]:

    if not (given or to or recipients or channels):
        if sys.stdin.isatty():
            note("Reading one JSON structure from standard input …")
        return sys.stdin.buffer.read()
    content = {name: given.pop(name) for name in ("title", "text", "html") if name in given}
    body: dict[str, object] = {} if "template" in given and not content else {"content": content}
    if "data" in given:
        body["data"] = _object(given.pop("data"))
    body.update(given)
    if to:
        addresses: dict[str, str] = {}
        for item in to:
            name, equals, address = item.partition("=")
            if not equals or not name or not address:
                raise UsageError(
                    f"{item!r} is not channel=address", field="TO", mend="e.g. email=ada@example.com"
                )
            if name in addresses:
                raise UsageError(f"two addresses for {name}", field="TO", mend="send two notifications")
            addresses[name] = address
        body["to"] = addresses
    if recipients:
        body["recipients"] = recipients
    if channels:
        body["channels"] = channels
    return body


def _object(text: str) -> dict[str, object]:
    from json import loads

    try:
        value = loads(text)
    except ValueError as error:
        raise UsageError(f"not JSON: {error}", field="DATA", mend="e.g. '{\"order\": 42}'") from None
    if not isinstance(value, dict):
        raise UsageError("a JSON object is needed", field="DATA", mend="e.g. '{\"order\": 42}'")
    return value


def _show(accepted: Accepted, *, json: bool) -> None:
    from ringonce.engine.views import accepted_view

    if json:
        show_json(accepted_view(accepted))
        return
    known = " (known already, nothing new)" if accepted.duplicate else ""
    say(f"accepted event {accepted.event_id}{known}")
    for brief in accepted.notifications:
        say(f"  {brief.id}  {brief.channel}  {brief.recipient}  {brief.status.value}")
    if accepted.expanding:
        say("  more recipients follow; a worker adds them")
    elif accepted.pruned:
        say("  its notifications are over and were removed (retention)")
    elif not accepted.notifications:
        say("  nobody is reached: no enabled channel has an address for the recipients")
