"""``providers = […]`` of a channel: several providers in order, each with its own options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.config.kinds import EnvText, inline
from ringonce.config.model import Settings
from ringonce.config.reader import Table
from ringonce.core.lane import WAY
from ringonce.model.policy import Channel

if TYPE_CHECKING:
    from collections.abc import Collection

KEY = "providers"


def read_providers(table: Table, known: Collection[str]) -> tuple[Channel, ...]:
    """The channels that the tables of ``providers`` stand for: the first provider's, then the ways beside it.

    ``known``: the keys of a channel, which belong beside ``providers`` and not into its tables.
    """
    given = table.raw[KEY]
    given = inline(given) if isinstance(given, EnvText) else given
    place = table.at(KEY)
    mend = 'e.g. providers = [{ provider = "sandbox" }, { provider = "sandbox", script = "ok" }]'
    if not isinstance(given, (list, tuple)) or not given:
        table.problems.add(place, "is a list with a table for each provider", mend)
        return ()
    found: list[Channel] = []
    for number, raw in enumerate(given):
        one = Table(raw, f"{place}[{number}]", table.problems)
        name = one.raw.get("provider")
        if not isinstance(name, str) or not name.strip():
            table.problems.add(one.at("provider"), "is missing", mend)
            continue
        for key in sorted(set(known) & one.raw.keys() - {"provider"}):
            table.problems.add(one.at(key), "belongs to the channel", f"write it beside {KEY}")
        name = name.strip()
        same = sum(1 for other in found if other.provider == name)
        found.append(
            Channel(
                name=f"{table.path.rpartition('.')[2]}{WAY}{name}{same + 1 if same else ''}",
                provider=name,
                settings=Settings({k: v for k, v in one.raw.items() if k not in known}),
                way_of=table.path.rpartition(".")[2],
            )
        )
    return tuple(found)


def place_of(channel: Channel, key: str, *, number: int | None) -> str:
    """Where a key of a provider stands in the file."""
    if number is None:
        return f"channels.{channel.name}.{key}"
    return f"channels.{channel.way_of or channel.name}.{KEY}[{number}].{key}"
