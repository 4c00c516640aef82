"""A draft as the API and ``--json`` show it: how it stands for its reader, and everything that happened to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.core.drafts import calls_of, send_error, sent_at, state_of
from ringonce.engine.views import attempt_view, error_view, stamp

if TYPE_CHECKING:
    from ringonce.engine.views import View
    from ringonce.model.draft import Draft, Saved

PREFIX = "draft_"


def draft_view(draft: Draft, *, history: bool = False) -> View:
    """A draft; with ``history`` all that happened to it, oldest first."""
    row, content = draft.row, draft.content
    state = row.state
    view: View = {
        "key": draft.key,
        "channel": row.channel,
        "tenant": row.tenant,
        "state": state_of(state).value,
        "text": content.text,
        "content": {
            "title": content.title,
            "text": content.text,
            "html": content.html,
            "data": dict(content.data),
        },
        "scenario": draft.scenario,
        "mode": draft.mode.value,
        "sent_at": stamp(sent_at(draft)),
        "send_error": error_view(send_error(draft)),
        "send_attempts": len(calls_of(draft)),
        "next_attempt_at": stamp(state.next_attempt_at),
        "id": str(row.id),
        "status": state.status.value,
        "assumed": state.assumed,
        "version": state.version,
        "revision": state.revision,
        "subject": row.subject,
        "expires_at": stamp(state.expires_at),
        "created_at": stamp(draft.created_at),
        "updated_at": stamp(draft.updated_at),
    }
    if history:
        view["history"] = _history(draft)
    return view


def saved_view(saved: Saved) -> View:
    """What a PUT led to."""
    return {**draft_view(saved.draft, history=True), "created": saved.created, "skipped": saved.skipped}


def _history(draft: Draft) -> list[View]:
    """Who wrote, approved and rejected it, what the provider reported, and one entry for each ended attempt."""
    entries: list[tuple[int, View]] = [
        (
            note.at,
            {"at": stamp(note.at), "what": note.kind.removeprefix(PREFIX), **dict(note.detail)},
        )
        for note in draft.notes
    ]
    for call in draft.attempts:
        at = call.started_at if call.ended_at is None else call.ended_at
        entries.append((at, {"at": stamp(at), "what": "attempt", **attempt_view(call)}))
    entries.sort(key=lambda entry: entry[0])
    return [view for _, view in entries]


def history_lines(view: View) -> list[str]:
    """The history in words, a line for each entry."""
    entries = view["history"]
    assert isinstance(entries, list)
    return [_line(entry) for entry in entries]


def _line(entry: View) -> str:
    """``2026-12-01T09:00:00.000000Z approved by ann``."""
    what = str(entry["what"])
    if what == "attempt":
        code = f" {entry['code']}" if entry["code"] else ""
        return f"{entry['at']} attempt {entry['number']} (revision {entry['revision']}): {entry['outcome']}{code}"
    who = " by its mode for" if entry.get("auto") else " by"
    by = f"{who} {entry['by']}" if entry.get("by") else ""
    reason = f": {entry['reason']}" if entry.get("reason") else ""
    return f"{entry['at']} {what}{by}{reason}"
