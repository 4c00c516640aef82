"""``policy show``: the retry schedule in times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import App

from ringonce.cli.session import OK, configuration, say, show_json, show_table

if TYPE_CHECKING:
    from ringonce.model.policy import Channel

MOST_ROWS = 30


def register(app: App) -> None:
    """Add the commands."""
    group = App(name="policy", help="How channels retry.")
    group.command(show)
    app.command(group)


def show(channel: str | None = None, /, *, json: bool = False) -> int:
    """Show when a channel calls again, for failures of one class in a row, and when it gives up.

    Args:
        channel: The channel's name; default: all.
        json: Print JSON.
    """
    from ringonce.errors import NotFoundError
    from ringonce.parts import entries

    channels = {name: entry.channel for name, entry in entries(configuration()).items()}
    if channel is not None:
        if channel not in channels:
            raise NotFoundError(
                f"no channel {channel!r}",
                field="CHANNEL",
                mend=f"configured: {', '.join(channels) or 'none'}",
            )
        channels = {channel: channels[channel]}
    views = [_view(item) for item in channels.values()]
    if json:
        show_json(views)
        return OK
    for view in views:
        say(
            f"{view['channel']}: at most {view['max_attempts']} calls; in doubt: {view['in_doubt']}; "
            f"expires after {view['max_age'] or 'never'}"
        )
        for name in ("transient", "rate_limited", "unknown"):
            rows = view[name]
            assert isinstance(rows, list)
            say(f"\nafter {name.replace('_', ' ')} answers:")
            show_table(("call", "wait", "with_jitter", "since_first"), rows, empty="  no retry")
        say()
    if not views:
        say("no channel is configured")
    return OK


def _view(channel: Channel) -> dict[str, object]:
    from ringonce.config.kinds import span

    policy = channel.policy
    budgets = policy.budgets
    unknown = budgets.transient if budgets.unknown is None else budgets.unknown
    return {
        "channel": channel.name,
        "max_attempts": policy.max_attempts,
        "in_doubt": policy.in_doubt.value,
        "max_age": None if policy.max_age is None else span(policy.max_age),
        "transient": _schedule(channel, budgets.transient),
        "rate_limited": _schedule(channel, budgets.rate_limited, extended=True),
        "unknown": _schedule(channel, unknown) if policy.in_doubt.value == "resend" else [],
    }


def _schedule(channel: Channel, budget: int, *, extended: bool = False) -> list[dict[str, object]]:
    from ringonce.config.kinds import span
    from ringonce.core.backoff import delay

    policy = channel.policy
    rows: list[dict[str, object]] = []
    since = 0
    for retry in range(1, min(budget, policy.max_attempts - 1, MOST_ROWS) + 1):
        least = delay(policy, retry, 0.0, extended=extended)
        most = delay(policy, retry, 1.0, extended=extended)
        since += least
        rows.append(
            {
                "call": retry + 1,
                "wait": span(least),
                "with_jitter": span(most),
                "since_first": span(since),
                "wait_s": least / 1_000_000,
            }
        )
    return rows
