"""One ``[channels.NAME]`` table → ``model.policy.Channel``, and changes made to it at run time."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ringonce.config.keys import POLICY_KEYS, TABLES_OF_A_CHANNEL
from ringonce.config.kinds import Bad, EnvText, inline
from ringonce.config.model import Settings
from ringonce.config.providers import KEY as PROVIDERS
from ringonce.config.providers import read_providers
from ringonce.config.reader import Problems, Table
from ringonce.config.traffic import with_burst
from ringonce.model.policy import Backoff, BackoffKind, Budgets, Channel, InDoubt, Policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.model.policy import Share

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
CHANNEL_KEYS = ("provider", *(key.name for key in POLICY_KEYS), *TABLES_OF_A_CHANNEL)
"""Every key of a channel that is not its provider's own."""

OF_THE_CHANNEL = (
    *("enabled", "timeout", "lease", "concurrency", "mark", "account"),
    *("rate", "circuit", "shares", "mass_invalidation"),
)
CHANGEABLE = (*(key.name for key in POLICY_KEYS if key.name != "account"), *TABLES_OF_A_CHANNEL)
"""What can be changed without a restart."""


HELD_BY = frozenset({InDoubt.HOLD, InDoubt.LOOKUP})
"""Under these a doubt may come to wait for a person."""
NO_HOLD = 'has no effect without in_doubt = "hold" or "lookup"'


def read_channel(
    name: str, raw: object, problems: Problems, shares: Mapping[str, Share] | None = None
) -> tuple[Channel, frozenset[str]]:
    """The channel, and the keys that were given (``budgets.unknown`` for a key of a table).

    ``shares``: those of ``[lanes]``, which hold on every channel that does not say otherwise.
    """
    table = Table(raw, f"channels.{name}", problems)
    if not NAME.fullmatch(name):
        problems.add(
            table.path,
            "is no name for a channel",
            "letters, digits, _ and -, beginning with a letter, at most 64",
        )
    several: tuple[Channel, ...] = ()
    provider = table.raw.get("provider")
    if PROVIDERS in table.raw:
        several = read_providers(table, {*CHANNEL_KEYS, PROVIDERS})
        if provider is not None:
            problems.add(table.at("provider"), f"stands in {PROVIDERS} here", "write one or the other")
        provider = several[0].provider if several else "?"
    if not isinstance(provider, str) or not provider.strip():
        problems.add(table.at("provider"), "is missing", 'name one, e.g. provider = "smtp"')
        provider = ""
    channel, given = _apply(Channel(name=name, provider=str(provider).strip(), shares=shares or {}), table)
    known = {*CHANNEL_KEYS, PROVIDERS}
    settings = {
        key: inline(value) if isinstance(value, EnvText) else value
        for key, value in table.raw.items()
        if key not in known
    }
    if not several:
        return replace(channel, settings=Settings(settings)), given
    for key in settings:
        problems.add(table.at(key), "is no key of a channel", f"an option stands in its table of {PROVIDERS}")
    if "account" in given:
        problems.add(table.at("account"), f"has no effect beside {PROVIDERS}: each has its own", "remove it")
    first, *others = several
    channel = replace(channel, settings=first.settings, ways=tuple(others))
    return channel, given


def change(channel: Channel, changes: Mapping[str, object]) -> Channel:
    """The channel with changes as they are written in the file (``{"max_attempts": 5, "backoff": {…}}``).

    Raises ConfigError naming the key when a change is none or wrong.
    """
    problems = Problems("")
    table = Table(dict(changes), f"channels.{channel.name}", problems)
    table.reject(CHANGEABLE, {})
    changed, _ = _apply(channel, table)
    _check_mark(changed.mark, changed.policy.in_doubt, table.at("mark"), problems)
    problems.stop()
    return changed


def _apply(channel: Channel, table: Table) -> tuple[Channel, frozenset[str]]:
    values: dict[str, Any] = _traffic(channel, table.read(POLICY_KEYS), table)
    given = {key.name for key in POLICY_KEYS if key.name in table.raw}
    policy_values = {key: value for key, value in values.items() if key not in OF_THE_CHANNEL}
    policy = channel.policy
    for name, keys in TABLES_OF_A_CHANNEL.items():
        if name not in table.raw:
            continue
        below = Table(table.raw[name], table.at(name), table.problems)
        below.reject([key.name for key in keys], {})
        inner: dict[str, Any] = below.read(keys)
        given.add(name)
        given.update(f"{name}.{key}" for key in inner)
        if name == "backoff":
            policy_values[name] = _backoff(policy.backoff, inner, below)
        elif name == "budgets":
            policy_values[name] = replace(policy.budgets, **inner)
        else:
            policy_values[name] = {**policy.floors, **inner}
    policy = replace(policy, **policy_values)
    in_doubt = policy.in_doubt if "in_doubt" in given else None
    if "hold_for" in values and in_doubt not in HELD_BY | {None}:
        table.problems.add(table.at("hold_for"), NO_HOLD, "remove it")
    of_the_channel = {key: value for key, value in values.items() if key in OF_THE_CHANNEL}
    return replace(channel, policy=policy, **of_the_channel), frozenset(given)


def _traffic(channel: Channel, values: dict[str, Any], table: Table) -> dict[str, Any]:
    """Values with the burst in its rate, and the lanes under those of all channels."""
    if "lanes" in values:
        values["shares"] = {**channel.shares, **values.pop("lanes")}
    try:
        rate = with_burst(values.get("rate", channel.rate), values.pop("burst", None))
    except Bad:
        table.problems.add(table.at("burst"), "has no effect without rate", "remove it, or set rate")
    else:
        values |= {} if rate is None else {"rate": rate}
    return values


def _check_mark(mark: bool, in_doubt: InDoubt, key: str, problems: Problems) -> None:  # noqa: FBT001 - as configured
    if not mark and in_doubt is not InDoubt.RESEND:
        problems.add(
            key,
            f'can not be off with in_doubt = "{in_doubt}": a crash would leave calls in doubt that never began',
            'remove it, or set in_doubt = "resend" where the receiver ignores or replaces a repeat',
        )


def _backoff(before: Backoff, values: dict[str, Any], table: Table) -> Backoff:
    kind = values.get("kind", before.kind)
    if kind is not before.kind:
        before = Backoff(kind=kind)
    if "jitter" in values:
        values["jitter"], values["jitter_ratio"] = values["jitter"]
    misplaced = {
        BackoffKind.SCHEDULE: ("base", "factor"),
        BackoffKind.FIXED: ("factor", "delays"),
        BackoffKind.EXPONENTIAL: ("delays",),
    }[kind]
    for name in misplaced:
        if name in values:
            table.problems.add(table.at(name), f'has no effect with kind = "{kind}"', "remove it")
    if kind is BackoffKind.SCHEDULE and not values.get("delays", before.delays):
        table.problems.add(table.at("delays"), "is missing", 'write delays = ["5s", "30s", "5m"]')
    return replace(before, **values)


def with_provider_defaults(
    channel: Channel,
    given: frozenset[str],
    *,
    in_doubt: InDoubt,
    unknown_budget: int | None,
    hold_for: int | None = None,
    looks_up: bool = False,
) -> Channel:
    """Fill what the file left open with the provider's defaults; ``hold_for`` in microseconds.

    Raises ConfigError when a key that was given contradicts them.
    """
    policy: Policy = channel.policy
    if "in_doubt" not in given:
        held = policy.hold_for if "hold_for" in given else hold_for
        policy = replace(policy, in_doubt=in_doubt, hold_for=held)
    if "budgets.unknown" not in given and unknown_budget is not None:
        budgets: Budgets = replace(policy.budgets, unknown=unknown_budget)
        policy = replace(policy, budgets=budgets)
    problems = Problems("")
    if policy.hold_for is not None and policy.in_doubt not in HELD_BY:
        problems.add(f"channels.{channel.name}.hold_for", NO_HOLD, "remove it, or set in_doubt")
    _check_mark(channel.mark, policy.in_doubt, f"channels.{channel.name}.mark", problems)
    problems.stop()
    changed = replace(channel, policy=policy)
    refuse_lookup(changed, looks_up=looks_up)
    return changed


def refuse_lookup(channel: Channel, *, looks_up: bool) -> None:
    """Raises ConfigError when doubts are to be looked up at a provider that can not be asked."""
    problems = Problems("")
    if channel.policy.in_doubt is InDoubt.LOOKUP and not looks_up:
        problems.add(
            f"channels.{channel.name}.in_doubt",
            f'can not be "lookup": {channel.provider} can not be asked what became of a call',
            "one of resend, assume_sent, hold",
        )
    problems.stop()
