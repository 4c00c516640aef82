"""``failures``: what failed for good and waits for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import App

from ringonce.cli.read import show_rows
from ringonce.cli.session import FAILED, OK, UsageError, moment, note, say, show_json, uuid, with_ringonce
from ringonce.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from ringonce.app import Ringonce
    from ringonce.ports import Row

PAGE = 500


def register(app: App) -> None:
    """Add the commands."""
    group = App(name="failures", help="Notifications that failed for good: look, send again.")
    group.command(list_, name="list")
    group.command(retry)
    app.command(group)


def list_(
    *,
    channel: str | None = None,
    tenant: str | None = None,
    code: str | None = None,
    since: str | None = None,
    limit: int = 50,
    json: bool = False,
) -> int:
    """List terminal failures, newest first.

    Args:
        channel: Only of this channel.
        tenant: Only of this tenant.
        code: Only with this code of the last error.
        since: Not older than 24h, or than 2026-12-01T09:00:00Z.
        limit: How many at most.
        json: Print JSON.
    """
    from ringonce.engine.views import row_view

    terms = {
        "channel": channel,
        "tenant": tenant,
        "code": code,
        "since": moment(since, "SINCE"),
        "limit": limit,
    }
    rows = with_ringonce(lambda ringonce: ringonce.search(terminal_failures=True, **terms))
    views = [row_view(row) for row in rows]
    if json:
        show_json(views)
    else:
        show_rows(views, empty="no terminal failures")
    return OK


def retry(
    *ids: str,
    channel: str | None = None,
    tenant: str | None = None,
    code: str | None = None,
    since: str | None = None,
    by: str = "cli",
    force: bool = False,
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Send terminal failures again: the named ones, or all that the options select.

    Args:
        ids: Ids of notifications.
        channel: All of this channel.
        tenant: All of this tenant.
        code: All with this code of the last error.
        since: All not older than 24h, or than 2026-12-01T09:00:00Z.
        by: Who decided it; kept in the timeline.
        force: Also where an attempt has no verdict and may have arrived.
        dry_run: Only show which.
        json: Print JSON.
    """
    terms = {"channel": channel, "tenant": tenant, "code": code, "since": moment(since, "SINCE")}
    wanted = [uuid(item) for item in ids]
    if not wanted and not any(value is not None for value in terms.values()):
        raise UsageError("say which", field="IDS", mend="name ids, or --channel, --code, --tenant, --since")

    async def work(ringonce: Ringonce) -> list[dict[str, object]]:
        chosen = wanted or [row.id for row in await _all(ringonce, terms)]
        if dry_run:
            return [{"id": str(id_), "result": "would be sent again"} for id_ in chosen]
        return [await _one(ringonce, id_) for id_ in chosen]

    async def _one(ringonce: Ringonce, id_: UUID) -> dict[str, object]:
        try:
            await ringonce.retry(id_, by=by, force=force, tenant=tenant)
        except (ConflictError, NotFoundError) as error:
            return {"id": str(id_), "result": "refused", "code": error.code, "error": str(error)}
        return {"id": str(id_), "result": "will be sent again"}

    results = with_ringonce(work)
    refused = [item for item in results if item["result"] == "refused"]
    if json:
        show_json(results)
    else:
        for item in results:
            (note if item in refused else say)(
                f"{item['id']}  {item['result']}  {item.get('error', '')}".rstrip()
            )
        say(
            f"{len(results) - len(refused)} {'would be' if dry_run else 'will be'} sent again, {len(refused)} refused"
        )
    return FAILED if refused else OK


async def _all(ringonce: Ringonce, terms: Mapping[str, object]) -> list[Row]:
    found: list[Row] = []
    after: UUID | None = None
    while page := await ringonce.search(terminal_failures=True, limit=PAGE, after=after, **terms):
        found += page
        after = page[-1].id
    return found
