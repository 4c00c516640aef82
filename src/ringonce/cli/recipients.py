"""``recipients``: who they are, where they are reached, and forgetting them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import App

from ringonce.cli import quarantine
from ringonce.cli.session import OK, confirm, say, show_json, show_table, with_ringonce
from ringonce.errors import NotFoundError

if TYPE_CHECKING:
    from ringonce.app import Ringonce
    from ringonce.model.notification import Address


def register(app: App) -> None:
    """Add the commands."""
    addresses = App(name="address", help="Addresses of a recipient: add, list, remove.")
    addresses.command(add)
    addresses.command(list_, name="list")
    addresses.command(remove)
    group = App(name="recipients", help="Recipients and their addresses.")
    group.command(show)
    group.command(set_, name="set")
    group.command(erase)
    group.command(addresses)
    group.command(quarantine.group())
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
        columns += ["quarantined_at"] if any(row["quarantined_at"] for row in rows) else []
        show_table(columns, rows, empty=f"{recipient} has no address")
    return OK


def remove(
    recipient: str, channel: str, address: str, /, *, tenant: str = "", reason: str = "removed"
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


def show(recipient: str, /, *, tenant: str = "", json: bool = False) -> int:
    """Show what is known of a recipient.

    Args:
        recipient: The recipient's id.
        tenant: The recipient's tenant.
        json: Print JSON.
    """
    view = with_ringonce(lambda ringonce: _view(ringonce, recipient, tenant))
    if json:
        show_json(view)
        return OK
    say(f"{recipient}: locale {view['locale'] or 'not known'}, time zone {view['timezone'] or 'not known'}")
    rows = view["addresses"]
    assert isinstance(rows, list)
    show_table(["channel", "address", "registered_at"], rows, empty="no address")
    return OK


def set_(
    recipient: str,
    /,
    *,
    locale: str | None = None,
    timezone: str | None = None,
    tenant: str = "",
    json: bool = False,
) -> int:
    """Make a recipient known, or change what is named.

    Args:
        recipient: The recipient's id.
        locale: The language, e.g. pt-BR.
        timezone: The time zone, e.g. Europe/Berlin.
        tenant: The recipient's tenant.
        json: Print JSON.
    """
    named = {"locale": locale, "timezone": timezone}
    changes = {name: value for name, value in named.items() if value is not None}

    async def work(ringonce: Ringonce) -> dict[str, object]:
        await ringonce.set_recipient(recipient, changes, tenant=tenant)
        return await _view(ringonce, recipient, tenant)

    view = with_ringonce(work)
    if json:
        show_json(view)
    else:
        say(
            f"{recipient}: locale {view['locale'] or 'not known'}, time zone {view['timezone'] or 'not known'}"
        )
    return OK


def erase(recipient: str, /, *, tenant: str = "", yes: bool = False, json: bool = False) -> int:
    """Forget a person: record, addresses, in-app copies, what their notifications say. Anonymous counts stay.

    Args:
        recipient: The recipient's id.
        tenant: The recipient's tenant.
        yes: Do not ask.
        json: Print JSON.
    """
    if not yes:
        confirm(f"Erase everything that is known of {recipient}? It can not be undone.")

    async def work(ringonce: Ringonce) -> int:
        return await ringonce.erase(recipient, tenant=tenant, by="cli")

    count = with_ringonce(work)
    if json:
        show_json({"erased": count})
    else:
        say(f"erased; {count} notifications stay without name and text")
    return OK


async def _view(ringonce: Ringonce, recipient: str, tenant: str) -> dict[str, object]:
    from ringonce.engine.views import person_view

    live = await ringonce.addresses(recipient, tenant=tenant)
    try:
        known = await ringonce.recipient(recipient, tenant=tenant)
    except NotFoundError:
        if not live:
            raise
        known = None
    return person_view(tenant, recipient, known, live)
