"""``inbox``: a recipient's in-app copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.cli.session import OK, say, show_json, show_table, with_ringonce

if TYPE_CHECKING:
    from cyclopts import App

    from ringonce.app import Ringonce
    from ringonce.engine.inbox import InboxPage


def register(app: App) -> None:
    """Add the command."""
    app.command(inbox)


def inbox(
    recipient: str, /, *, unread: bool = False, tenant: str = "", limit: int = 50, json: bool = False
) -> int:
    """Show a recipient's in-app copies, newest first.

    Args:
        recipient: The recipient's id.
        unread: Only those that are not read.
        tenant: The recipient's tenant.
        limit: How many at most.
        json: Print JSON.
    """
    from ringonce.engine.views import copy_view

    async def work(ringonce: Ringonce) -> tuple[InboxPage, int]:
        page = await ringonce.inbox(recipient, tenant=tenant, unread=unread, limit=limit)
        return page, await ringonce.unread(recipient, tenant=tenant)

    page, count = with_ringonce(work)
    views = [copy_view(copy) for copy in page.copies]
    if json:
        show_json(views)
        return OK
    rows = [
        {
            "id": view["id"],
            "created_at": view["created_at"],
            "read_at": view["read_at"],
            "text": copy.content.title or copy.content.text or copy.content.html or "",
        }
        for view, copy in zip(views, page.copies, strict=True)
    ]
    show_table(["id", "created_at", "read_at", "text"], rows, empty=f"the inbox of {recipient} is empty")
    say(f"{count} unread")
    return OK
