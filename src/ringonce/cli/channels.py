"""``channels``: look, switch, test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import App

from ringonce.cli.session import FAILED, OK, say, show_json, show_table, with_ringonce

if TYPE_CHECKING:
    from ringonce.app import Ringonce


def register(app: App) -> None:
    """Add the commands."""
    group = App(name="channels", help="Channels: list, switch, test.")
    group.command(list_, name="list")
    group.command(enable)
    group.command(disable)
    group.command(try_out, name="test")
    app.command(group)


def list_(*, json: bool = False) -> int:
    """List the channels as they are now, with what waits.

    Args:
        json: Print JSON.
    """
    views = with_ringonce(lambda ringonce: ringonce.channels())
    if json:
        show_json(views)
        return OK
    rows = []
    for view in views:
        backlog = view["backlog"] if isinstance(view["backlog"], dict) else {}
        paused = (
            f"until {view['paused_until'] or 'resumed'}: {view['paused_reason']}" if view["paused"] else ""
        )
        rows.append(
            {
                **{name: view[name] for name in ("name", "provider", "enabled", "in_doubt", "max_attempts")},
                "paused": paused,
                "scopes": ", ".join(_scope(one) for one in _list(view["scopes"])),
                "circuit": ", ".join(_circuit(one) for one in _list(view["circuits"])),
                "waiting": sum(backlog.get(name, 0) for name in ("movable", "future", "paused")),
                "retrying": backlog.get("retrying", 0),
            }
        )
    columns = (
        "name",
        "provider",
        "enabled",
        "paused",
        "scopes",
        "circuit",
        "in_doubt",
        "max_attempts",
        "waiting",
        "retrying",
    )
    show_table(columns, rows, empty="no channel is configured: add [channels.NAME] to ringonce.toml")
    return OK


def _list(value: object) -> list[dict[str, object]]:
    return value if isinstance(value, list) else []


def _scope(view: dict[str, object]) -> str:
    """A part that is paused, and why."""
    return f"{view['scope']} ({'is tried' if view['probing'] else view['reason']})"


def _circuit(view: dict[str, object]) -> str:
    """One circuit, with its tenant where it is that of one."""
    return f"{view['state']} ({view['tenant']})" if view["tenant"] else str(view["state"])


def enable(name: str, /, *, scope: str | None = None) -> int:
    """Let a channel send; what waited goes on. Also resumes it after a refused credential.

    Args:
        name: The channel's name.
        scope: Resume only this part of it, as the list names it: template:order_shipped.
    """
    with_ringonce(lambda ringonce: ringonce.enable(name, scope=scope))
    say(f"{name} is enabled" if scope is None else f"{scope} of {name} is resumed")
    return OK


def disable(name: str, /) -> int:
    """Let a channel's notifications wait; running workers notice within a cycle.

    Args:
        name: The channel's name.
    """
    with_ringonce(lambda ringonce: ringonce.disable(name))
    say(f"{name} is disabled; its notifications wait")
    return OK


def try_out(
    name: str, address: str, /, *, text: str = "This is a test of ringonce.", json: bool = False
) -> int:
    """Send one text through a channel, past the database, and say what the answer means.

    Args:
        name: The channel's name.
        address: Where to send it.
        text: What to send.
        json: Print JSON.
    """

    async def work(ringonce: Ringonce) -> dict[str, object]:
        probe = await ringonce.test(name, address, text)
        outcome = probe.outcome
        return {
            "channel": name,
            "class": outcome.cls.value,
            "code": outcome.code.value if outcome.code is not None else None,
            "provider_code": outcome.provider_code,
            "provider_message_id": outcome.message_id,
            "retry_after_s": outcome.retry_after_s,
            "ambiguous": outcome.ambiguous,
            "text": outcome.text,
            "rule": outcome.rule,
            "seconds": round(probe.seconds, 3),
        }

    result = with_ringonce(work)
    if json:
        show_json(result)
    else:
        for key, value in result.items():
            if value not in {None, "", False}:
                say(f"{key.replace('_', ' '):<20} {value}")
    return OK if result["class"] == "accepted" else FAILED
