"""``list``, ``explain``, ``report``, ``outbox``: what there is and what became of it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

from cyclopts import App

from ringonce.cli.session import OK, UsageError, moment, say, show_json, show_table, uuid, with_ringonce
from ringonce.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.app import Ringonce
    from ringonce.ports import Life, OutboxRow

GROUPS = ("day", "channel", "tenant")
MOST_TOLD = 20
"""Of an event with more notifications the newest are explained."""


def register(app: App) -> None:
    """Add the commands."""
    app.command(list_, name="list")
    app.command(explain)
    app.command(report)
    outbox = App(name="outbox", help="Events of ours.")
    outbox.command(outbox_list, name="list")
    app.command(outbox)


def list_(
    *,
    status: list[str] | None = None,
    channel: str | None = None,
    recipient: str | None = None,
    tenant: str | None = None,
    event_id: str | None = None,
    type: str | None = None,  # noqa: A002 - the name of the option
    subject: str | None = None,
    code: str | None = None,
    since: str | None = None,
    limit: int = 50,
    after: str | None = None,
    json: bool = False,
) -> int:
    """Search notifications, newest first.

    Args:
        status: Only with this status. May be repeated.
        channel: Only of this channel.
        recipient: Only of this recipient.
        tenant: Only of this tenant.
        event_id: Only of this event.
        type: Only of events of this type.
        subject: Only about this subject.
        code: Only with this code of the last error.
        since: Not older than 24h, or than 2026-12-01T09:00:00Z.
        limit: How many at most.
        after: Go on behind this id.
        json: Print JSON.
    """
    from ringonce.engine.views import row_view
    from ringonce.model.notification import Status

    for item in status or ():
        if item not in set(Status):
            raise UsageError(f"unknown status {item}", field="STATUS", mend=f"one of {', '.join(Status)}")
    terms = {
        "status": tuple(status or ()),
        "channel": channel,
        "recipient": recipient,
        "tenant": tenant,
        "event_id": event_id,
        "event_type": type,
        "subject": subject,
        "code": code,
        "since": moment(since, "SINCE"),
        "limit": limit,
        "after": uuid(after) if after is not None else None,
    }
    rows = [row_view(row) for row in with_ringonce(lambda ringonce: ringonce.search(**terms))]
    if json:
        show_json(rows)
    else:
        show_rows(rows, empty="no notification found")
    return OK


def show_rows(rows: list[dict[str, object]], *, empty: str) -> None:
    """Notifications as a table."""
    shown = [
        {
            **row,
            "last_error": error["code"] if isinstance(error := row["last_error"], dict) else None,
            "status": f"{row['status']}{' (assumed)' if row['assumed'] else ''}",
            "next_attempt_at": brief(row["next_attempt_at"]),
            "created_at": brief(row["created_at"]),
        }
        for row in rows
    ]
    columns = (
        "id",
        "channel",
        "recipient",
        "address",
        "status",
        "attempts",
        "next_attempt_at",
        "last_error",
        "created_at",
    )
    show_table(columns, shown, empty=empty)


def brief(time: object) -> str | None:
    """An RFC 3339 time without the fraction."""
    return f"{time[:19]}Z" if isinstance(time, str) else None


def explain(id: str, /, *, tenant: str | None = None, json: bool = False) -> int:  # noqa: A002 - shown in the help
    """Tell a notification's life in words: every decision, attempt and receipt, and what happens next.

    Args:
        id: The notification's id, or an event's id: then all notifications of that event are told.
        tenant: Only if it belongs to this tenant.
        json: Print facts, attempts and timeline as JSON, with the words; for an event a list of them.
    """
    from ringonce.engine.views import life_view

    async def tell(ringonce: Ringonce, one: UUID) -> tuple[Life, list[str]]:
        return await ringonce.get(one, tenant=tenant), await ringonce.explain(one, tenant=tenant)

    async def work(ringonce: Ringonce) -> tuple[bool, list[tuple[Life, list[str]]]]:
        with suppress(ValueError, NotFoundError):
            return True, [await tell(ringonce, UUID(id))]
        # No notification's id: an event's, which may look like one.
        rows = await ringonce.search(event_id=id, tenant=tenant, limit=MOST_TOLD)
        if not rows:
            raise NotFoundError(f"no notification and no event {id!r}", mend="`ringonce list` shows both ids")
        return False, [await tell(ringonce, row.id) for row in rows]

    alone, told = with_ringonce(work)
    if json:
        views = [{**life_view(life), "words": words} for life, words in told]
        show_json(views[0] if alone else views)
        return OK
    for index, (life, words) in enumerate(told):
        if not alone:
            say(("\n" if index else "") + f"{life.row.id} by {life.row.channel}")
        for line in words:
            say(line)
    return OK


def report(
    *,
    by: str | None = None,
    channel: str | None = None,
    tenant: str | None = None,
    since: str | None = None,
    until: str | None = None,
    json: bool = False,
) -> int:
    """Print the once report: what was accepted, and what became of all of it.

    Args:
        by: Groups, separated by commas: day, channel, tenant.
        channel: Only of this channel.
        tenant: Only of this tenant.
        since: Accepted not longer ago than 24h, or not before 2026-12-01T09:00:00Z.
        until: Accepted before.
        json: Print JSON: the totals, or with --by a list of them.
    """
    groups = [part.strip() for part in (by or "").split(",") if part.strip()]
    for group in groups:
        if group not in GROUPS:
            raise UsageError(f"unknown group {group}", field="BY", mend=f"one or more of {', '.join(GROUPS)}")

    async def work(ringonce: Ringonce) -> list[Mapping[str, object]]:
        return await ringonce.report(
            tenant=tenant,
            channel=channel,
            since=moment(since, "SINCE"),
            until=moment(until, "UNTIL"),
            by=groups,
        )

    rows = [dict(row) for row in with_ringonce(work)]
    if json:
        show_json(rows if groups else rows[0])
    elif groups:
        flat = [_flat(row) for row in rows]
        shown = [
            name for row in flat for name, value in row.items() if value or name in {*groups, "accepted"}
        ]
        show_table(list(dict.fromkeys(shown)), flat, empty="nothing was accepted yet")
    else:
        for name, value in _flat(rows[0]).items():
            kind, colon, code = name.partition(":")
            say(f"{kind.replace('_', ' ') + colon + code:<40} {value}")
    return OK


def _flat(row: Mapping[str, object]) -> dict[str, object]:
    """Totals by code under names of their own."""
    flat: dict[str, object] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat[name] = sum(value.values())
            flat.update({f"{name}: {key}": count for key, count in value.items()})
        else:
            flat[name] = value
    return flat


def _data(row: Mapping[str, object]) -> object:
    payload = row["payload"]
    return payload.get("data", {}) if isinstance(payload, dict) else {}


def outbox_list(*, kind: str | None = None, after: int = 0, limit: int = 100, json: bool = False) -> int:
    """List events of ours in order.

    Args:
        kind: Only this kind, e.g. notification.dispatched.
        after: Go on behind this position.
        limit: How many at most.
        json: Print JSON.
    """
    from ringonce.engine.views import outbox_view

    async def work(ringonce: Ringonce) -> list[tuple[int, OutboxRow]]:
        return await ringonce.outbox(kind=kind, after=after, limit=limit)

    rows = [outbox_view(number, row) for number, row in with_ringonce(work)]
    if json:
        show_json(rows)
    else:
        shown = [{**row, **data} for row in rows if isinstance(data := _data(row), dict)]
        show_table(
            ("position", "kind", "key", "channel", "status", "code"), shown, empty="the outbox is empty"
        )
    return OK
