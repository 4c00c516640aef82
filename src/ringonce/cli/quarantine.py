"""``recipients quarantine``: addresses that were called dead when too many others were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import App

from ringonce.cli.session import OK, confirm, say, show_json, show_table, with_ringonce

if TYPE_CHECKING:
    from ringonce.app import Ringonce
    from ringonce.model.notification import Address


def group() -> App:
    """The commands."""
    commands = App(name="quarantine", help="Addresses whose verdicts are doubted: list, release, drop.")
    commands.command(list_, name="list")
    commands.command(release)
    commands.command(drop)
    return commands


def list_(*, channel: str | None = None, after: int = 0, limit: int = 100, json: bool = False) -> int:
    """List the addresses about which a person has to decide.

    Args:
        channel: Only of this channel.
        after: Only with a larger id: the last of the page before.
        limit: At most so many.
        json: Print JSON.
    """
    from ringonce.engine.views import address_view, masked

    async def work(ringonce: Ringonce) -> list[Address]:
        return await ringonce.quarantined(channel, after=after, limit=limit)

    found = with_ringonce(work)
    rows = [{**address_view(one), "address": masked(one.value)} for one in found]
    if json:
        show_json(rows)
    else:
        columns = ["id", "channel", "tenant", "recipient", "address", "quarantined_at", "reason"]
        show_table(columns, rows, empty="no address is in quarantine")
    return OK


def release(channel: str, /, *, json: bool = False) -> int:
    """Keep the addresses of a channel: the key was wrong, and is right now. The channel goes on.

    Args:
        channel: The channel's name.
        json: Print JSON.
    """

    async def work(ringonce: Ringonce) -> int:
        return await ringonce.release_quarantined(channel)

    return _told(with_ringonce(work), "released", json=json)


def drop(channel: str, /, *, yes: bool = False, json: bool = False) -> int:
    """Drop the addresses of a channel: the verdicts were right. The channel goes on.

    Args:
        channel: The channel's name.
        yes: Do not ask.
        json: Print JSON.
    """
    if not yes:
        confirm(f"Drop every address of {channel} that is in quarantine? Only registering brings one back.")

    async def work(ringonce: Ringonce) -> int:
        return await ringonce.drop_quarantined(channel)

    return _told(with_ringonce(work), "dropped", json=json)


def _told(count: int, what: str, *, json: bool) -> int:
    if json:
        show_json({what: count})
    else:
        say(f"{count} addresses {what}")
    return OK
