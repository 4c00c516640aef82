"""``drafts``: replies that wait for approval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal
from uuid import UUID  # noqa: TC003 - cyclopts reads the annotations

from cyclopts import App

from ringonce.cli.session import OK, say, show_json, show_table, with_ringonce

if TYPE_CHECKING:
    from ringonce.app import Ringonce
    from ringonce.model.draft import Draft, Saved

State = Literal["draft", "pending", "sent", "error", "rejected"]
COLUMNS = ["key", "channel", "state", "version", "scenario", "mode", "send_attempts", "sent_at", "text"]


def register(app: App) -> None:
    """Add the commands."""
    group = App(name="drafts", help="Replies that wait for approval: list, show, put, send, reject.")
    group.command(list_, name="list")
    group.command(show)
    group.command(put)
    group.command(send)
    group.command(reject)
    app.command(group)


def list_(
    *,
    state: list[State] | None = None,
    channel: str | None = None,
    scenario: str | None = None,
    tenant: str | None = None,
    limit: int = 50,
    after: UUID | None = None,
    json: bool = False,
) -> int:
    """List drafts, newest first.

    Args:
        state: Only these; may be given several times.
        channel: Only of this channel.
        scenario: Only of this scenario.
        tenant: Only of this tenant.
        limit: How many at most.
        after: The id of the last one of the page before.
        json: Print JSON.
    """
    from ringonce.engine.draft_views import draft_view

    async def work(ringonce: Ringonce) -> list[Draft]:
        return await ringonce.drafts(
            states=state or (), channel=channel, scenario=scenario, tenant=tenant, limit=limit, after=after
        )

    rows = [draft_view(draft) for draft in with_ringonce(work)]
    if json:
        show_json(rows)
    else:
        show_table(COLUMNS, rows, empty="no drafts")
    return OK


def show(key: str, /, *, channel: str | None = None, tenant: str = "", json: bool = False) -> int:
    """Show a draft and everything that happened to it: who wrote and approved it, and each attempt.

    Args:
        key: What is answered, e.g. feedback:123.
        channel: Which draft, where several channels have one of this key.
        tenant: Whose it is.
        json: Print JSON.
    """

    async def work(ringonce: Ringonce) -> Draft:
        return await ringonce.draft(key, channel=channel, tenant=tenant)

    return _told(with_ringonce(work), json=json)


def put(
    key: str,
    text: str,
    /,
    *,
    channel: str | None = None,
    to: str | None = None,
    scenario: str | None = None,
    mode: Literal["auto", "manual"] | None = None,
    version: int | None = None,
    by: str = "cli",
    tenant: str = "",
    json: bool = False,
) -> int:
    """Save a text under a key: a new draft, or another text of the one that there is.

    Args:
        key: What is answered, e.g. feedback:123.
        text: What is said.
        channel: The channel. Default: the draft's own, else drafts.channel.
        to: The address. Default: the draft's own, else the key.
        scenario: Chooses the mode by drafts.scenarios.
        mode: Who approves, over the scenario's mode.
        version: That of the text that is replaced; refused if it is another by now.
        by: Who wrote it.
        tenant: Whose it is.
        json: Print JSON.
    """
    from ringonce.engine.draft_views import saved_view

    async def work(ringonce: Ringonce) -> Saved:
        return await ringonce.put_draft(
            key,
            text,
            channel=channel,
            to=to,
            scenario=scenario,
            mode=mode,
            version=version,
            by=by,
            tenant=tenant,
        )

    saved = with_ringonce(work)
    if json:
        show_json(saved_view(saved))
        return OK
    if saved.skipped:
        say("skipped: it is sent already, and the mode auto changes nothing that is published")
    return _told(saved.draft, json=False)


def send(
    key: str,
    /,
    *,
    channel: str | None = None,
    version: int | None = None,
    by: str = "cli",
    tenant: str = "",
    json: bool = False,
) -> int:
    """Approve a draft, or queue one anew whose last attempt failed. Pending already: nothing changes.

    Args:
        key: What is answered, e.g. feedback:123.
        channel: Which draft, where several channels have one of this key.
        version: That of the text that you have seen; refused if it is another by now.
        by: Who approves.
        tenant: Whose it is.
        json: Print JSON.
    """

    async def work(ringonce: Ringonce) -> Draft:
        return await ringonce.send_draft(key, channel=channel, version=version, by=by, tenant=tenant)

    return _told(with_ringonce(work), json=json)


def reject(
    key: str,
    /,
    *,
    channel: str | None = None,
    reason: str = "",
    version: int | None = None,
    by: str = "cli",
    tenant: str = "",
    json: bool = False,
) -> int:
    """Put a draft aside.

    Args:
        key: What is answered, e.g. feedback:123.
        channel: Which draft, where several channels have one of this key.
        reason: Why; kept in its history.
        version: That of the text that you have seen; refused if it is another by now.
        by: Who rejects.
        tenant: Whose it is.
        json: Print JSON.
    """

    async def work(ringonce: Ringonce) -> Draft:
        return await ringonce.reject_draft(
            key, channel=channel, reason=reason, version=version, by=by, tenant=tenant
        )

    return _told(with_ringonce(work), json=json)


def _told(draft: Draft, *, json: bool) -> int:
    """How it stands, and its history, a line for each entry."""
    from ringonce.engine.draft_views import draft_view, history_lines

    view = draft_view(draft, history=True)
    if json:
        show_json(view)
        return OK
    say(f"{view['key']} ({view['channel']}, version {view['version']}): {view['state']}")
    say(f"  {view['text'] or ''}")
    for line in history_lines(view):
        say(f"  {line}")
    return OK
