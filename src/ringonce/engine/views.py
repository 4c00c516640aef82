"""What the API and ``--json`` show: plain dictionaries, times as RFC 3339 UTC, addresses masked in lists."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ringonce.core.lane import parse
from ringonce.core.stamp import spell_time
from ringonce.engine.stopped import circuits, scopes, stopped, tenant_of
from ringonce.model.receipt import ARRIVALS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ringonce.engine.channels import Entry
    from ringonce.engine.failing import Decided, Outlook
    from ringonce.model.audit import AuditRow
    from ringonce.model.notification import Address, LastError
    from ringonce.model.policy import Backoff, Rate
    from ringonce.ports import (
        Accepted,
        AttemptRow,
        Backlog,
        Copy,
        LaneState,
        Life,
        OutboxRow,
        Person,
        Row,
        Settled,
    )


View = dict[str, object]


def stamp(micros: int | None) -> str | None:
    """Microseconds UTC as RFC 3339 (section 5.6), e.g. ``2026-12-01T09:00:00.000000Z``."""
    if micros is None:
        return None
    return spell_time(micros)


def masked(address: str) -> str:
    """Enough of an address to recognise it, not enough to use it."""
    if match := re.fullmatch(r"(.)[^@]*@(.+)", address):
        return f"{match[1]}***@{match[2]}"
    if "://" in address:
        # A subscription is JSON with its endpoint inside; its host tells which push service it is.
        url = re.search(r"[a-z][a-z0-9+.-]*://[^\s\"]+", address)
        parts = urlsplit(url[0]) if url else None
        return f"{parts.scheme}://{parts.hostname}/***" if parts and parts.hostname else "***"
    return f"***{address[-4:]}" if len(address) > 8 else "***"  # noqa: PLR2004 - half of it stays hidden


def recipient_of(row: Row) -> str:
    """The recipient's id; where the address stands for the recipient, that is masked too."""
    value = row.address.value if row.address is not None else ""
    if value and row.recipient.endswith(value):
        return row.recipient.removesuffix(value) + masked(value)
    return row.recipient


def accepted_view(accepted: Accepted) -> View:
    """The answer to an accepted event."""
    view: View = {
        "event_id": accepted.event_id,
        "duplicate": accepted.duplicate,
        "notifications": [
            {
                "id": str(brief.id),
                "recipient": brief.recipient,
                "channel": brief.channel,
                "status": brief.status.value,
                "final": brief.final,
            }
            for brief in accepted.notifications
        ],
    }
    for name in ("conflict", "pruned", "expanding"):
        if getattr(accepted, name):
            view[name] = True
    return view


def error_view(error: LastError | None) -> View | None:
    """The last error: our code, the provider's own, and words."""
    if error is None:
        return None
    return {"code": error.code, "provider_code": error.provider_code, "text": error.text}


def row_view(row: Row) -> View:
    """A notification without its content, for lists and answers."""
    state = row.state
    return {
        "id": str(row.id),
        "event_id": row.event_id,
        "type": row.event_type,
        "tenant": row.tenant,
        "recipient": recipient_of(row),
        "channel": row.channel,
        "address": masked(row.address.value) if row.address is not None else None,
        "subject": row.subject,
        "thread": row.thread,
        "priority": row.priority,
        "collapse": row.collapse,
        "status": state.status.value,
        "final": state.final,
        "attempts": state.attempts,
        "next_attempt_at": stamp(state.next_attempt_at),
        "last_error": error_view(state.last_error),
        "provider_message_id": state.message_id,
        "version": state.version,
        "revision": state.revision,
        "assumed": state.assumed,
        "maybe_sent": state.maybe_sent,
        "read_at": stamp(row.read_at),
        "created_at": stamp(row.created_at),
        "expires_at": stamp(state.expires_at),
    }


def attempt_view(attempt: AttemptRow) -> View:
    """One call to the provider."""
    return {
        "number": attempt.number,
        "revision": attempt.revision,
        "started_at": stamp(attempt.started_at),
        "ended_at": stamp(attempt.ended_at),
        "outcome": attempt.outcome,
        "code": attempt.code,
        "provider_code": attempt.provider_code,
        "provider_message_id": attempt.message_id,
        "reference": attempt.reference,
        "account": attempt.account,
        "rule": attempt.rule,
        "answer": attempt.answer,
        "late": attempt.late,
    }


def life_view(life: Life) -> View:
    """One notification with its content, attempts and timeline."""
    content = life.content
    return {
        **row_view(life.row),
        "content": {
            "title": content.title,
            "text": content.text,
            "html": content.html,
            "data": dict(content.data),
        },
        "delivered_at": stamp(_delivered(life)),
        "attempt_list": [attempt_view(attempt) for attempt in life.attempts],
        "timeline": timeline_view(life)["entries"],
        "due": None
        if life.due is None
        else {"purpose": life.due.purpose, "at": stamp(life.due.at), "armed": life.due.armed},
    }


def _delivered(life: Life) -> int | None:
    """When the attempt that it rests on arrived, as its provider reports: by its clock, or when we were told."""
    rests_on = life.row.state.rests_on
    for note in life.notes:
        told = note.detail
        if note.kind == "receipt" and told.get("kind") in ARRIVALS and told.get("attempt") == rests_on:
            at = told.get("at")
            return at if isinstance(at, int) else note.at
    return None


def timeline_view(life: Life) -> View:
    """Attempts and notes in the order in which they happened."""
    entries: list[tuple[int, View]] = [
        (attempt.started_at, {"at": stamp(attempt.started_at), "kind": "attempt", **attempt_view(attempt)})
        for attempt in life.attempts
    ]
    entries += [
        (note.at, {"at": stamp(note.at), "kind": note.kind, "detail": dict(note.detail)})
        for note in life.notes
    ]
    entries.sort(key=lambda entry: entry[0])
    state = life.row.state
    return {
        "id": str(life.row.id),
        "status": state.status.value,
        "final": state.final,
        "entries": [view for _, view in entries],
    }


def settled_view(settled: Settled) -> View:
    """What became of a person's decision: the notification as it is now, or why it was refused."""
    if settled.row is None or settled.write is None:
        return {"id": str(settled.change.id), "status": None, "final": None}
    state = settled.write.state
    view: View = {"id": str(settled.row.id), "status": state.status.value, "final": state.final}
    refused = settled.write.refused
    if refused is not None:
        view["refused"] = {"code": refused.code, "text": refused.text}
    view["maybe_sent"] = state.maybe_sent
    view["next_attempt_at"] = stamp(state.next_attempt_at)
    return view


def address_view(address: Address) -> View:
    """A registered address in full, for who may see the recipient."""
    return {
        "id": address.id,
        "tenant": address.tenant,
        "recipient": address.recipient,
        "channel": address.channel,
        "address": address.value,
        "registered_at": stamp(address.registered_at),
        "invalidated_at": stamp(address.invalidated_at),
        "reason": address.reason,
        "quarantined_at": stamp(address.quarantined_at),
    }


def person_view(tenant: str, recipient: str, person: Person | None, addresses: Sequence[Address]) -> View:
    """A recipient in full. One who was never recorded, and has an address, is known by that."""
    return {
        "id": recipient,
        "tenant": tenant,
        "locale": None if person is None else person.locale,
        "timezone": None if person is None else person.timezone,
        "created_at": None if person is None else stamp(person.created_at),
        "updated_at": None if person is None else stamp(person.updated_at),
        "addresses": [address_view(address) for address in addresses],
    }


def copy_view(copy: Copy) -> View:
    """An in-app copy, for the person it is for."""
    content = copy.content
    return {
        "id": str(copy.id),
        "seq": copy.seq,
        "event_id": copy.event_id,
        "type": copy.event_type,
        "content": {
            "title": content.title,
            "text": content.text,
            "html": content.html,
            "data": dict(content.data),
        },
        "subject": copy.subject,
        "thread": copy.thread,
        "priority": copy.priority,
        "created_at": stamp(copy.created_at),
        "read_at": stamp(copy.read_at),
    }


def audit_view(row: AuditRow) -> View:
    """A row of the failure audit. Where an address stands for the recipient, it is masked."""
    who, stands = row.driver_id, f"{row.channel}:"
    return {
        "id": str(row.id),
        "driver_id": stands + masked(who.removeprefix(stands)) if who.startswith(stands) else who,
        "push_type": row.push_type,
        "payload": dict(row.payload),
        "error_code": row.error_code,
        "retry_count": row.retry_count,
        "failed_at": stamp(row.failed_at),
        "tenant": row.tenant,
        "channel": row.channel,
        "code": row.code,
        "notification_id": str(row.notification_id),
        "revision": row.revision,
    }


def decided_view(one: Decided, done: str) -> View:
    """What became of one of many that a person decided about."""
    if one.refused is None:
        return {"id": str(one.id), "result": done}
    return {"id": str(one.id), "result": "refused", "code": one.refused.code, "detail": one.refused.text}


def outlook_view(outlook: Outlook) -> View:
    """Failures that are alike, and why a decision about them would be refused."""
    return {
        "channel": outlook.channel,
        "code": outlook.code,
        "count": outlook.count,
        "refused": None if outlook.refused is None else outlook.refused.code,
        "detail": None if outlook.refused is None else outlook.refused.text,
    }


def outbox_view(number: int, row: OutboxRow) -> View:
    """An event of ours."""
    return {
        "position": number,
        "event_id": row.event_id,
        "kind": row.kind,
        "key": row.key,
        "payload": dict(row.payload),
    }


def backlog_view(backlog: Backlog) -> View:
    """What is left of one channel; channel ``''`` are events that are not expanded yet."""
    return {
        "channel": backlog.channel,
        "movable": backlog.movable,
        "future": backlog.future,
        "held": backlog.held,
        "paused": backlog.paused,
        "retrying": backlog.retrying,
        "leased": backlog.leased,
        "oldest_due": stamp(backlog.oldest_due),
        "next_due": stamp(backlog.next_due),
        "looking": backlog.looking,
    }


def backoff_view(backoff: Backoff) -> View:
    """A backoff as it is written in the configuration, durations in seconds."""
    view: View = {"kind": backoff.kind.value}
    if backoff.kind.value == "schedule":
        view["delays"] = [delay / 1_000_000 for delay in backoff.delays]
    else:
        view["base"] = backoff.base / 1_000_000
    if backoff.kind.value == "exponential":
        view["factor"] = backoff.factor
        view["cap"] = backoff.cap / 1_000_000
    view["jitter"] = f"{backoff.jitter_ratio:.0%}" if backoff.jitter_ratio else backoff.jitter / 1_000_000
    return view


def rate_view(rate: Rate | None) -> View | None:
    """A rate as calls per second, and how many may go at once."""
    return None if rate is None else {"per_second": rate.count * 1_000_000 / rate.period, "burst": rate.burst}


def channel_view(
    entry: Entry,
    *,
    lanes: Sequence[LaneState] = (),
    backlog: Backlog | None = None,
    changed: Mapping[str, object],
) -> View:
    """A channel as it is now, without its provider's settings. ``changed``: what was changed at run time."""
    channel, policy = entry.channel, entry.channel.policy
    lane = stopped(channel.name, entry, lanes)
    if any(stopped(one.channel.name, one, lanes) is None for one in entry.ways):
        lane = None  # another provider of it goes on
    return {
        "name": channel.name,
        "provider": channel.provider,
        "account": channel.account or entry.provider.account,
        "enabled": channel.enabled,
        "paused": lane is not None,
        "paused_until": None if lane is None else stamp(lane.until),
        "paused_reason": None if lane is None else lane.reason,
        "providers": [
            {
                "name": one.channel.name,
                "provider": one.channel.provider,
                "account": one.account,
                "paused": stopped(one.channel.name, one, lanes) is not None,
            }
            for one in (entry, *entry.ways)
        ],
        "scopes": [
            {
                "scope": parse(one.lane).scope,
                "reason": one.reason,
                "until": stamp(one.until) if one.paused else None,
                "probing": one.probing,
            }
            for one in scopes(channel.name, lanes)
        ],
        "circuits": [
            {
                "tenant": tenant_of(one),
                "state": "open" if one.paused else "half_open",
                "until": stamp(one.until) if one.paused else None,
                "opened": one.opened,
            }
            for one in circuits(channel.name, lanes)
        ],
        "max_attempts": policy.max_attempts,
        "in_doubt": policy.in_doubt.value,
        "second_send": entry.provider.second_send,
        "backoff": backoff_view(policy.backoff),
        "budgets": {
            "transient": policy.budgets.transient,
            "rate_limited": policy.budgets.rate_limited,
            "unknown": policy.budgets.transient if policy.budgets.unknown is None else policy.budgets.unknown,
        },
        "timeout": channel.timeout / 1_000_000,
        "lease": channel.lease / 1_000_000,
        "concurrency": channel.concurrency,
        "rate": rate_view(channel.rate),
        "lanes": {
            tenant: {
                "weight": share.weight,
                "rate": rate_view(share.rate),
                "concurrency": share.concurrency,
            }
            for tenant, share in channel.shares.items()
        },
        "max_age": None if policy.max_age is None else policy.max_age / 1_000_000,
        "changed": dict(changed),
        "backlog": None if backlog is None else backlog_view(backlog),
    }
