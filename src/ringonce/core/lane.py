"""How a lane and what stops it are spelled: the only place that knows.

A lane is a queue of its own: channel, tenant group and scope. Its name is that of the channel where nothing else
is set apart (``email``), then ``email/acme`` for a tenant that has its own share, and ``push//platform`` or
``push/acme/platform`` for what waits for a part of the provider.

What stops lanes is named by the same scheme, and one row stops all lanes below it: ``@account`` those of every
channel that shares the account, ``email`` those of the channel, ``email/acme`` those of the tenant, ``email/``
those of everybody without a share of his own, ``push//platform`` one scope.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote

SEPARATOR = "/"
WAY = "~"
"""In the name of another provider of a channel, ``sms~other``, which goes before all else like that of a channel."""
ACCOUNT = "@"


class Lane(NamedTuple):
    """``group`` is a tenant with a share of its own, ``''`` everybody else; ``scope`` ``''``: the whole of it."""

    channel: str
    group: str = ""
    scope: str = ""


def spell(lane: Lane) -> str:
    """The lane's name, as ``dispatch.lane`` has it."""
    if lane.scope:
        return SEPARATOR.join((lane.channel, _quoted(lane.group), _quoted(lane.scope)))
    return f"{lane.channel}{SEPARATOR}{_quoted(lane.group)}" if lane.group else lane.channel


def parse(text: str) -> Lane:
    """The lane of a name. Any text is one: what is missing is empty."""
    channel, _, rest = text.partition(SEPARATOR)
    group, _, scope = rest.partition(SEPARATOR)
    return Lane(channel, unquote(group), unquote(scope))


def of_account(account: str) -> str:
    """What stops all lanes of an account."""
    return ACCOUNT + account


def of_group(channel: str, group: str) -> str:
    """What stops the lanes of one tenant group on a channel, ``''``: those of everybody without a share."""
    return f"{channel}{SEPARATOR}{_quoted(group)}"


def stops(lane: Lane, account: str = "") -> tuple[str, ...]:
    """Everything whose pause stops the lane, the widest first. ``account`` ``''``: it is shared with nobody."""
    names = [of_account(account)] if account else []
    names += [lane.channel, of_group(lane.channel, lane.group)]
    if lane.scope:
        names += dict.fromkeys((spell(Lane(lane.channel, "", lane.scope)), spell(lane)))
    return tuple(names)


def belongs(name: str, channel: str, account: str = "") -> bool:
    """Whether a name (of a lane or of what stops lanes) concerns a channel."""
    return (
        name == channel or name.startswith(channel + SEPARATOR) or bool(account and name == ACCOUNT + account)
    )


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")
