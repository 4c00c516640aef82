"""Counters, gauges and alerts: kept in the process, shown at ``/metrics``, alerts also as one log line each.

The text format is Prometheus's exposition format 0.0.4 (prometheus.io, "Exposition formats").
"""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringonce.core.redact import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ringonce.ports import OutboxRow

    Alarmed = Callable[[str, str, Mapping[str, str], int], None]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
HELP = {
    "ringonce_events_total": "Events that came in: new, duplicate, or in conflict with the first of their id.",
    "ringonce_status_changes_total": "Changes of a notification, by the status that it has now.",
    "ringonce_retry_sent_total": "Retries that the provider accepted.",
    "ringonce_failed_backlog": "Failed notifications that wait for their next attempt.",
    "ringonce_channel_disabled_total": "Notifications that met a channel which does not send, at each look.",
    "ringonce_pruned_total": "Rows that retention has removed.",
    "ringonce_receipts_total": "Reports of providers by what became of them: `taken`, `duplicate`, `early`, `unknown`, "
    "`unmatched` (unknown for a day), `forged` (refused, their kind is not read).",
    "ringonce_oldest_snapshot_seconds": "How long the oldest snapshot of the database has been held.",
    "ringonce_circuit_opened_total": "Circuits that opened, probes that failed included.",
    "ringonce_circuit_open": "Circuits of a channel that are open or being probed, tenants counted apart.",
    "ringonce_address_verdicts_total": "Answers that speak against an address: dropped, moved, or quarantined.",
    "ringonce_quarantined_addresses": "Addresses whose verdicts are doubted: a person must decide.",
    "ringonce_late_answers_total": "Answers that came after the lease was lost.",
    "ringonce_looking": "Calls without a verdict whose provider is still to be asked what became of them.",
    "ringonce_oldest_pending_seconds": "How long the oldest notification that is due has waited.",
    "ringonce_listening": "1 while hints of other processes arrive; 0: this worker polls.",
    "ringonce_hints_total": "Hints between processes that there may be new work, sent or heard.",
    "ringonce_worker_processes": "Worker processes that run, as their parent counts them.",
    "ringonce_worker_restarts_total": "Worker processes that died and were started again.",
    "ringonce_alerts_total": "Alerts for a person.",
}
"""Every metric; the reference page is made from it."""

ALERTS = {
    "alert_failed": "An alert could not be delivered over the alerts' own channel. It is not sent there.",
    "auth": "A provider refuses the credential. What it concerns is paused and waits.",
    "bad_override": "A setting that was changed at run time contradicts the file and is ignored.",
    "bug": "Something that must not happen; the log has the trace.",
    "channel_gone": "Notifications wait for a channel that is not configured any more, until they are too old.",
    "circuit_open": "Most calls of a channel (or of a tenant on it) fail: it is left alone, and probed by one call.",
    "credential_failing": "No credential could be fetched for five minutes; the channel waits.",
    "exhausted": "Notifications used all their attempts: terminal failures, told together by channel and code.",
    "guard_failing": "A subject guard has failed for five minutes; its notifications wait.",
    "mass_invalidation": "Too many answers would drop an address: none is, the channel is paused. Mostly a wrong key.",
    "mass_invalidation_over": "All clear: a person has decided about the addresses in quarantine.",
    "in_doubt": "The provider can not tell what became of a call: a person must resolve the doubt.",
    "lookup_failing": "The provider could not be asked for five minutes what became of a call; it is asked again.",
    "not_listening": "`listen = true`, and no hints of other processes arrive: this worker polls.",
    "old_snapshot": "A session, prepared transaction or replication slot has long held a snapshot: claims get slower.",
    "old_snapshot_over": "No snapshot of the database is held for long any more.",
    "priority_failed": "A notification of a type in `[audit]` used all its attempts: each one is told.",
    "scope_paused": "A provider does not serve a part of it any more, such as one template: that part waits.",
    "resumed": "All clear: a probe succeeded, and what its circuit or a credential had stopped goes on.",
    "store_unavailable": "The database can not be reached or written. Results wait; nothing is sent again for it.",
    "stuck_backlog": "Something has been due for long (`alerts.backlog`), and its channel is neither off nor paused.",
    "template": "The file of a template was changed and can not be used; the text names file and line.",
    "worker_died": "A process of `ringonce worker --processes` died and is started again.",
    "worker_crash": "A worker died in the middle of a call, and no attempt is left.",
}
"""Every kind of alert; the reference page is made from it."""

MOST_SERIES = 1_000
"""Series per name; more (a label that grows with the users) are summed up in one without labels."""

ALERT_EVERY = 60.0
"""Seconds within which alerts of one kind, channel and code become one line."""

log = logging.getLogger("ringonce")
_logger = logging.getLogger("ringonce.alerts")

Series = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Group:
    text: str
    labels: dict[str, str]
    since: float
    unsaid: int = 0


class Telemetry:
    """Implements ``ports.Telemetry``. Safe to call from any thread."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """``monotonic`` gives seconds; it decides when an alert is repeated."""
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._counters: dict[str, dict[Series, int]] = {}
        self._gauges: dict[str, dict[Series, float]] = {}
        self._groups: dict[tuple[str, str, str, str], _Group] = {}
        self._alarmed: list[Alarmed] = []
        self._listeners: list[Callable[[OutboxRow], object]] = []

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            series = self._counters.setdefault(name, {})
            key = _key(series, labels)
            series[key] = series.get(key, 0) + value

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        """Set a gauge."""
        with self._lock:
            series = self._gauges.setdefault(name, {})
            series[_key(series, labels)] = value

    def alert(self, kind: str, text: str, count: int = 1, /, **labels: str) -> None:
        """One WARNING line of the logger ``ringonce.alerts``, and the counter ``ringonce_alerts_total``.

        The same kind, channel and code within a minute are counted, and said with the next line or ``flush``; those
        with a ``notification`` are each said. ``count``: it stands for so many that are alike.
        """
        channel, code, id_ = (labels.get(name, "") for name in ("channel", "code", "notification"))
        self.count("ringonce_alerts_total", kind=kind, channel=channel)
        for listener in self._alarmed:
            listener(kind, text, labels, count)
        now = self._monotonic()
        with self._lock:
            self._forget(now)
            group = self._groups.get((kind, channel, code, id_))
            if group is not None and now - group.since < ALERT_EVERY:
                group.unsaid += count
                group.text = text
                return
            count += group.unsaid if group is not None else 0
            self._groups[kind, channel, code, id_] = _Group(text, labels, now)
        _say(kind, text, labels, count)

    def on_alert(self, listener: Alarmed) -> None:
        """Call ``listener(kind, text, labels, count)`` with every alert from now on, in the thread that raises it."""
        self._alarmed.append(listener)

    def subscribe(self, listener: Callable[[OutboxRow], object]) -> None:
        """Call ``listener`` with every event of ours from now on."""
        self._listeners.append(listener)

    @property
    def heard(self) -> bool:
        """There are listeners."""
        return bool(self._listeners)

    def tell(self, event: OutboxRow, /) -> None:
        """Hand an event of ours to the program's listeners. One that fails is logged and hurts nobody else."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed on %s", event.kind)

    def flush(self) -> None:
        """Say what was grouped and not said yet; for the end of the process."""
        with self._lock:
            groups, self._groups = self._groups, {}
        for (kind, *_), group in groups.items():
            if group.unsaid:
                _say(kind, group.text, group.labels, group.unsaid)

    def value(self, name: str, /, **labels: str) -> float:
        """A counter's or gauge's current value, summed up over the labels that are not named."""
        wanted = set(labels.items())
        with self._lock:
            series = {**self._counters.get(name, {}), **self._gauges.get(name, {})}
        return sum(value for key, value in series.items() if wanted <= set(key))

    def exposition(self) -> str:
        """All of it in Prometheus's text format."""
        with self._lock:
            kinds: tuple[tuple[str, Mapping[str, Mapping[Series, float]]], ...] = (
                ("counter", self._counters),
                ("gauge", self._gauges),
            )
            lines: list[str] = []
            for kind, families in kinds:
                for name in sorted(families):
                    lines.append(f"# HELP {name} {HELP.get(name, name.replace('_', ' '))}")
                    lines.append(f"# TYPE {name} {kind}")
                    lines.extend(
                        f"{name}{_labels(key)} {value}" for key, value in sorted(families[name].items())
                    )
        return "\n".join(lines) + "\n" if lines else ""

    def _forget(self, now: float) -> None:
        for key in [key for key, group in self._groups.items() if now - group.since >= 2 * ALERT_EVERY]:
            if not self._groups[key].unsaid:
                del self._groups[key]


def _key(series: Mapping[Series, float], labels: dict[str, str]) -> Series:
    key = tuple(sorted(labels.items()))
    return key if key in series or len(series) < MOST_SERIES else ()


def _labels(key: Series) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in key) + "}" if key else ""


def _say(kind: str, text: str, labels: dict[str, str], count: int) -> None:
    line = {"alert": kind, **labels, "text": redact(text), "count": count}
    _logger.warning("%s", json.dumps(line, ensure_ascii=False))
