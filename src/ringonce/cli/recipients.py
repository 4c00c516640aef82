"""``recipients``: the addresses at which people are reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import App

from ringonce.cli.session import OK, say, show_json, show_table, with_ringonce

if TYPE_CHECKING:
    from ringonce.app import Ringonce
    from ringonce.model.notification import Address


def register(app: App) -> None:
    """Add the commands."""
    addresses = App(name="address", help="Addresses of a recipient: add, list, invalidate.")
    addresses.command(add)
    addresses.command(list_, name="list")
    addresses.command(invalidate)
    group = App(name="recipients", help="Recipients and their addresses.")
    group.command(addresses)
    app.command(group)


def add(recipient: str, channel: str, address: str, /, *, tenant: str = "", json: bool = False) -> int:
    """Register an address; a known one of somebody else moves to this recipient, a dropped one lives again.

    Args:
        recipient: The recipient's id.
        channel: The channel's name.
        address: The address.
        tenant: The recipient's tenant.
        json: Print JSON.
    """
    from ringonce.engine.views import address_view

    async def work(ringonce: Ringonce) -> Address:
        return await ringonce.register(recipient, channel, address, tenant=tenant)

    registered = address_view(with_ringonce(work))
    if json:
        show_json(registered)
    else:
        say(f"{recipient} is reached on {channel} at {registered['address']}")
    return OK


def list_(
    recipient: str,
    /,
    *,
    channel: str | None = None,
    tenant: str = "",
    all: bool = False,  # noqa: A002 - the name of the option
    json: bool = False,
) -> int:
    """List the addresses of a recipient.

    Args:
        recipient: The recipient's id.
        channel: Only of this channel.
        tenant: The recipient's tenant.
        all: Dropped ones too.
        json: Print JSON.
    """
    from ringonce.engine.views import address_view

    async def work(ringonce: Ringonce) -> list[Address]:
        return await ringonce.addresses(recipient, channel, tenant=tenant, invalidated=all)

    rows = [address_view(item) for item in with_ringonce(work)]
    if json:
        show_json(rows)
    else:
        columns = ["channel", "address", "registered_at", *(("invalidated_at", "reason") if all else ())]
        show_table(columns, rows, empty=f"{recipient} has no address")
    return OK


def invalidate(
    recipient: str, channel: str, address: str, /, *, tenant: str = "", reason: str = "by a person"
) -> int:
    """Drop an address: nothing is sent to it any more.

    Args:
        recipient: The recipient's id.
        channel: The channel's name.
        address: The address.
        tenant: The recipient's tenant.
        reason: Why; kept with the address.
    """

    async def work(ringonce: Ringonce) -> int:
        return await ringonce.invalidate(recipient, channel, address, tenant=tenant, reason=reason)

    with_ringonce(work)
    say("dropped")
    return OK
