"""The reference pages of events and metrics, written from the code; what is not described is an error."""

import ast
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from ringonce import telemetry
from ringonce.config.model import Published
from ringonce.core import tally
from ringonce.core.outbox import invalidated_row, outbox_row
from ringonce.model.notification import State, Status
from ringonce.model.transition import Emit

SOURCE = Path(__file__).parents[1] / "src" / "ringonce"
SAYS = {"count": "counter", "gauge": "gauge", "alert": "alert"}
EXAMPLE = UUID("018f2f6e-1111-7222-8333-444455556666")
FIELDS = {
    "notificationId": "the notification's id, also the `subject` of the envelope: they stay in order",
    "contractVersion": "1; it grows only when a field changes its meaning",
    "tenant": "on whose behalf, or null",
    "channel": "the channel's name",
    "status": "`Sent` or `Failed`",
    "revision": "1, and one more each time a person sends it again; keep the highest",
    "code": "the [code](errors.md) of the last error, or null",
    "assumed": "true: sent by assumption, no verdict came",
    "attempts": "calls so far",
    "by": "who did it",
    "auto": "true: not a person approved it but its mode; else the field is not there",
    "reason": "why, if a reason was given",
    "version": "of the text: `send` with it sends no other",
    "key": "the draft's key",
    "addressId": "the address's id, as the API shows it, also in the `subject` of the envelope",
    "recipient": "whose it was; null for one that was named by `to`. What is told of one recipient stays in order",
    "moved": "true: the provider named another address, which takes its place with the same recipient",
    "at": "when it was dropped, as the API shows it as `invalidated_at`",
}
OTHERWISE = {
    (Published.ADDRESS_INVALIDATED, "reason"): (
        "why: a [code](errors.md), `moved`, `removed`, or what the person who dropped it gave as the reason"
    ),
}
WHEN = {
    Published.DISPATCHED: (
        "A notification has ended as sent, or as failed for good: once per revision. What was suppressed, merged, "
        "cancelled or expired publishes none."
    ),
    Published.STATUS_CHANGED: "Each failure, the intermediate ones too, and each success: for dashboards.",
    Published.ADDRESS_INVALIDATED: (
        "An address was dropped, and nothing is sent to it any more: by an answer or a report of the provider, because "
        "its person blocked you, because it has moved, or by a person, who also decides about quarantined ones. Once "
        "for each registration of it: one that is registered again and dropped again is told again.\n\n"
        "What it was is not said, for addresses are personal: ask for it by `addressId` in "
        "`GET /v1/recipients/RECIPIENT/addresses?all=true`, `Ringonce.addresses(recipient, invalidated=True)` or "
        "`ringonce recipients address list RECIPIENT --all`. Look there also before you give a person up: a drop that "
        "turns out to be [mass invalidation](../how-to/dead-addresses.md) is taken back. Erasing a person tells of no "
        "address, and removes what was told of theirs, as long as `[outbox] events` names this kind."
    ),
    Published.DRAFT_CREATED: (
        "A draft was saved under a new key. What becomes of it when it is sent is told by the events of its "
        "notification."
    ),
    Published.DRAFT_REGENERATED: "A draft got another text, and waits for approval (again).",
    Published.DRAFT_APPROVED: "A draft is to be sent: a person said so, or its mode.",
    Published.DRAFT_REJECTED: "A person put a draft aside.",
}


def events() -> str:
    """Each kind of event of ours with its fields."""
    state = State(Status.SENT, version=3, attempts=1)
    emits = {
        Published.DISPATCHED: tally.dispatched("Sent", state),
        Published.STATUS_CHANGED: tally.changed("Sent", state),
    }
    emits |= {kind: _drafted(kind, state) for kind in Published if kind.value.startswith("draft.")}
    parts = []
    for kind in Published:
        if kind in emits:
            row = outbox_row(EXAMPLE, "", "email", emits[kind], state)
        else:
            row = invalidated_row(
                17, "", "ada", "email", 1_800_000_000_000_000, 1_800_000_100_000_000, "moved"
            )
        parts.append(
            f"## `{kind.value}`\n\n{WHEN[kind]}\n\nIts id, the same at each delivery: `{row.event_id}`\n"
        )
        parts.append("| field of `data` | meaning |\n|---|---|")
        data = row.payload["data"]
        assert isinstance(data, dict)
        own = [*data, "key"] if "by" in data else list(data)
        parts += [f"| `{name}` | {OTHERWISE.get((kind, name)) or FIELDS[name]} |" for name in own]
        parts.append("")
    return "\n".join(parts)


def _drafted(kind: Published, state: State) -> Emit:
    """What is told of a draft, with all that may be."""
    what = kind.value.removeprefix("draft.")
    more = {"approved": {"auto": True}, "rejected": {"reason": "rude"}}.get(what, {})
    (emit,) = tally.drafted(state, what, "ann", **more).effects
    assert isinstance(emit, Emit)
    return emit


def metrics() -> str:
    """Each metric with its labels, each kind of alert. Raises ValueError for one that is not described."""
    said = _said()
    counters = {name: labels for (verb, name), labels in said.items() if verb != "alert"}
    alerts = {name for verb, name in said if verb == "alert"}
    _compare("metric", set(counters), set(telemetry.HELP))
    _compare("alert", alerts, set(telemetry.ALERTS))
    verbs = {name: verb for verb, name in said}
    lines = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for name, text in telemetry.HELP.items():
        labels = ", ".join(f"`{label}`" for label in sorted(counters[name]))
        lines.append(f"| `{name}` | {SAYS[verbs[name]]} | {labels} | {text} |")
    lines += ["", "## Alerts", "", "| kind | what it says |", "|---|---|"]
    lines += [f"| `{kind}` | {text} |" for kind, text in sorted(telemetry.ALERTS.items())]
    return "\n".join(lines)


def _compare(what: str, said: set[str], described: set[str]) -> None:
    if missing := sorted(said - described):
        raise ValueError(f"{what} {', '.join(missing)}: describe it in telemetry.py")
    if unused := sorted(described - said):
        raise ValueError(f"{what} {', '.join(unused)}: described in telemetry.py and never said")


def _said() -> dict[tuple[str, str], set[str]]:
    """(verb, name) -> labels, over all calls of ``count``, ``gauge``, ``alert`` and all ``Alert`` effects."""
    found: dict[tuple[str, str], set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for verb, name, labels in _calls(node):
                found.setdefault((verb, name), set()).update(labels)
    return found


def _calls(node: ast.AST) -> Iterator[tuple[str, str, set[str]]]:
    if isinstance(node, ast.keyword) and node.arg == "counters":
        for part in ast.walk(node.value):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield "count", f"ringonce_{part.value}_total", {"channel", "tenant"}
    if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
        return
    name = node.args[0].value
    verb = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "").lower()
    metric = verb in {"count", "gauge"} and isinstance(name, str) and name.startswith("ringonce_")
    if metric or (verb == "alert" and isinstance(name, str)):
        labels = {keyword.arg for keyword in node.keywords if keyword.arg}
        # `**labels` in the one place that settles: the notification's own.
        own = {"channel", "tenant"} if any(keyword.arg is None for keyword in node.keywords) else set()
        yield verb, name, labels | own
