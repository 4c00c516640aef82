"""``failures``: what failed for good and waits for a person."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cyclopts import App

from ringonce.cli.read import brief, show_rows
from ringonce.cli.session import (
    FAILED,
    OK,
    UsageError,
    moment,
    note,
    say,
    show_json,
    show_table,
    uuid,
    with_ringonce,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from uuid import UUID

    from ringonce.app import Ringonce
    from ringonce.engine.failing import Decided, Outlook, Verdicts

BATCH = 200
LISTED = 20
"""So many that were refused are named; more are counted."""


def register(app: App) -> None:
    """Add the commands."""
    group = App(
        name="failures", help="Notifications that failed for good: look, send again, let be; the audit."
    )
    group.command(list_, name="list")
    group.command(retry)
    group.command(discard)
    group.command(audit)
    app.command(group)


def list_(
    *,
    channel: str | None = None,
    tenant: str | None = None,
    code: str | None = None,
    type: str | None = None,  # noqa: A002 - the name of the option
    since: str | None = None,
    until: str | None = None,
    limit: int = 50,
    after: str | None = None,
    json: bool = False,
) -> int:
    """List terminal failures, newest first.

    Args:
        channel: Only of this channel.
        tenant: Only of this tenant.
        code: Only with this code of the last error.
        type: Only of events of this type.
        since: Not older than 24h, or than 2026-12-01T09:00:00Z.
        until: Older than 1h, or than 2026-12-01T09:00:00Z.
        limit: How many at most.
        after: Go on behind this id.
        json: Print JSON.
    """
    from ringonce.engine.views import row_view

    terms = {
        **_terms(channel, tenant, code, type, since, until),
        "limit": limit,
        "after": uuid(after) if after is not None else None,
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
    type: str | None = None,  # noqa: A002 - the name of the option
    since: str | None = None,
    until: str | None = None,
    after: str | None = None,
    by: str = "cli",
    force: bool = False,
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Send terminal failures again: the named ones, or all that the options select, newest first.

    Args:
        ids: Ids of notifications.
        channel: All of this channel.
        tenant: All of this tenant.
        code: All with this code of the last error.
        type: All of events of this type.
        since: All not older than 24h, or than 2026-12-01T09:00:00Z.
        until: All older than 1h, or than 2026-12-01T09:00:00Z.
        after: Go on behind this id, where a run was broken off.
        by: Who decided it; kept in the timeline.
        force: Also where an attempt has no verdict and may have arrived.
        dry_run: Only show how many of each kind, and what would be refused.
        json: Print JSON.
    """
    walk = Walk("sent again", "will be", dry_run=dry_run)
    terms = _terms(channel, tenant, code, type, since, until)

    async def batch(ringonce: Ringonce, **which: Any) -> Verdicts:
        return await ringonce.retry_failures(by=by, force=force, dry_run=dry_run, **which)

    async def outlook(ringonce: Ringonce) -> list[Outlook]:
        return await ringonce.failure_outlook(force=force, **terms)

    return _decide(walk, ids, terms, after, batch, outlook, json=json)


def discard(
    *ids: str,
    channel: str | None = None,
    tenant: str | None = None,
    code: str | None = None,
    type: str | None = None,  # noqa: A002 - the name of the option
    since: str | None = None,
    until: str | None = None,
    after: str | None = None,
    by: str = "cli",
    reason: str = "",
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Let terminal failures be: they become cancelled, are listed here no more, and can not be sent again.

    Args:
        ids: Ids of notifications.
        channel: All of this channel.
        tenant: All of this tenant.
        code: All with this code of the last error.
        type: All of events of this type.
        since: All not older than 24h, or than 2026-12-01T09:00:00Z.
        until: All older than 1h, or than 2026-12-01T09:00:00Z.
        after: Go on behind this id, where a run was broken off.
        by: Who decided it; kept in the timeline.
        reason: Why; kept in the timeline.
        dry_run: Only show how many of each kind.
        json: Print JSON.
    """
    walk = Walk("discarded", "are", dry_run=dry_run)
    terms = _terms(channel, tenant, code, type, since, until)

    async def batch(ringonce: Ringonce, **which: Any) -> Verdicts:
        return await ringonce.discard_failures(by=by, reason=reason, dry_run=dry_run, **which)

    async def outlook(ringonce: Ringonce) -> list[Outlook]:
        return await ringonce.failure_outlook(discard=True, **terms)

    return _decide(walk, ids, terms, after, batch, outlook, json=json)


def audit(
    *,
    recipient: str | None = None,
    channel: str | None = None,
    tenant: str | None = None,
    code: str | None = None,
    type: str | None = None,  # noqa: A002 - the name of the option
    since: str | None = None,
    until: str | None = None,
    limit: int = 50,
    after: str | None = None,
    json: bool = False,
) -> int:
    """Show the failure audit, newest first: definitive failures of the types that `[audit]` names.

    Args:
        recipient: Only of this recipient.
        channel: Only of this channel.
        tenant: Only of this tenant.
        code: Only with this code (NTF_…).
        type: Only of this type.
        since: Failed not longer ago than 24h, or not before 2026-12-01T09:00:00Z.
        until: Failed longer ago than 1h, or before 2026-12-01T09:00:00Z.
        limit: How many at most.
        after: Go on behind this id of the audit.
        json: Print JSON, with what was said.
    """
    from ringonce.engine.views import audit_view

    terms = {
        **_terms(channel, tenant, code, type, since, until),
        "recipient": recipient,
        "limit": limit,
        "after": uuid(after) if after is not None else None,
    }
    views = [audit_view(row) for row in with_ringonce(lambda ringonce: ringonce.failure_audit(**terms))]
    if json:
        show_json(views)
    else:
        shown = [{**view, "failed_at": brief(view["failed_at"])} for view in views]
        columns = ("failed_at", "push_type", "driver_id", "channel", "error_code", "retry_count")
        show_table((*columns, "notification_id"), shown, empty="the failure audit is empty")
    return OK


# --- a decision about many ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Walk:
    """How far a decision about many has come."""

    done: str
    verb: str
    dry_run: bool
    results: list[Decided] = field(default_factory=list)
    counts: list[Outlook] = field(default_factory=list)
    after: UUID | None = None

    @property
    def refused(self) -> list[Decided]:
        """Those of which nothing came."""
        return [one for one in self.results if one.refused is not None]

    @property
    def words(self) -> str:
        """What was, or would be, done."""
        return f"{'would be' if self.dry_run else self.verb} {self.done}"

    def sums(self) -> tuple[int, int]:
        """(as asked, refused): of all that the options select, or of the named ones."""
        if not self.counts:
            return len(self.results) - len(self.refused), len(self.refused)
        refused = sum(one.count for one in self.counts if one.refused is not None)
        return sum(one.count for one in self.counts) - refused, refused


def _decide(
    walk: Walk,
    ids: Sequence[str],
    terms: dict[str, Any],
    after: str | None,
    batch: Callable[..., Any],
    outlook: Callable[..., Any],
    *,
    json: bool,
) -> int:
    wanted = [uuid(item) for item in ids]
    if not wanted and not any(value is not None for value in terms.values()):
        raise UsageError(
            "say which",
            field="IDS",
            mend="name ids, or --channel, --code, --type, --tenant, --since, --until",
        )
    walk.after = uuid(after) if after is not None else None

    async def work(ringonce: Ringonce) -> None:
        if wanted:
            for start in range(0, len(wanted), BATCH):
                some = wanted[start : start + BATCH]
                walk.results += (await batch(ringonce, ids=some, tenant=terms["tenant"])).results
            return
        expected = await outlook(ringonce)
        if walk.dry_run:
            walk.counts = expected
            return
        with _progress(sum(one.count for one in expected)) as advance:
            while True:
                verdicts = await batch(ringonce, limit=BATCH, after=walk.after, **terms)
                walk.results += verdicts.results
                advance(len(verdicts.results))
                if verdicts.next is None:
                    return
                walk.after = verdicts.next

    try:
        with_ringonce(work)
    except BaseException:
        if walk.results and walk.after is not None:
            note(f"broken off: {len(walk.results)} are decided; go on with --after {walk.after}")
        raise
    _show(walk, json=json)
    return FAILED if walk.refused else OK


def _show(walk: Walk, *, json: bool) -> None:
    from ringonce.engine.views import decided_view, outlook_view

    done, refused = walk.sums()
    if json:
        show_json(
            {
                "dry_run": walk.dry_run,
                "done": done,
                "refused": refused,
                "counts": [outlook_view(one) for one in walk.counts],
                "results": [decided_view(one, walk.words) for one in walk.results],
            }
        )
        return
    if walk.counts:
        rows = [
            {
                "channel": one.channel,
                "code": one.code,
                "count": one.count,
                walk.words.replace(" ", "_"): "yes" if one.refused is None else f"no: {one.refused.text}",
            }
            for one in walk.counts
        ]
        show_table(tuple(rows[0]), rows, empty="")
    for one in walk.refused[:LISTED]:
        assert one.refused is not None
        note(f"{one.id}  refused  {one.refused.text}")
    if len(walk.refused) > LISTED:
        note(f"… and {len(walk.refused) - LISTED} more that were refused")
    say(f"{done} {walk.words}, {refused} refused")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error while somebody looks at it and there is more than one batch."""
    import sys

    if not sys.stderr.isatty() or total <= BATCH:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("deciding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("deciding", total=total)
        yield lambda count: progress.advance(task, count)


def _terms(
    channel: str | None,
    tenant: str | None,
    code: str | None,
    event_type: str | None,
    since: str | None,
    until: str | None,
) -> dict[str, Any]:
    return {
        "channel": channel,
        "tenant": tenant,
        "code": code,
        "event_type": event_type,
        "since": moment(since, "SINCE"),
        "until": moment(until, "UNTIL"),
    }
