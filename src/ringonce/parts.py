"""The parts that the composition root plugs together, made from the configuration."""

from __future__ import annotations

import asyncio
import inspect
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ringonce import registry
from ringonce.clock import SystemClock
from ringonce.config import CHANNEL_KEYS, Config, from_mapping, load, with_provider_defaults
from ringonce.config.providers import place_of
from ringonce.engine.alarms import Receiver
from ringonce.engine.channels import Entry
from ringonce.errors import ConfigError, InputError
from ringonce.model.records import Reader
from ringonce.store import StoreOptions
from ringonce.templates import Library
from ringonce.wire import NetworkOptions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from ringonce.model.policy import Channel
    from ringonce.ports import Guard, Row
    from ringonce.provider import Provider

    Source = Config | str | Path | Mapping[str, object] | None


def entries(config: Config) -> dict[str, Entry]:
    """Every channel with its provider. Raises ConfigError that names all that are wrong."""
    built: dict[str, Entry] = {}
    wrong: list[ConfigError] = []
    for name, configured in config.channels.items():
        try:
            provider = _provider(configured, config.file, 0 if configured.ways else None)
            ways = _ways(configured, provider, config.file, given="in_doubt" in config.given[name])
            channel = with_provider_defaults(
                configured,
                config.given[name],
                in_doubt=provider.in_doubt,
                hold_for=provider.hold_for,
                unknown_budget=provider.unknown_budget,
                looks_up=provider.looks_up and not ways,
            )
        except ConfigError as error:
            wrong.append(error)
        else:
            built[name] = Entry(channel, provider, ways)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        lines = "".join(f"\n  - {error}" for error in wrong)
        raise ConfigError(f"{len(wrong)} channels can not be used:{lines}", field=wrong[0].field)
    return built


def receiver(config: Config, built: Mapping[str, Entry], known: Collection[str]) -> Receiver | None:
    """Where alerts go; None: nowhere. ``known``: the kinds that there are. Raises ConfigError."""
    alerts = config.alerts

    def wrong(field: str, message: str, mend: str) -> ConfigError:
        place = f"{config.file}: alerts.{field}" if config.file else f"alerts.{field}"
        return ConfigError(message, field=place, mend=mend)

    if unknown := sorted(set(alerts.kinds) - set(known)):
        raise wrong("kinds", f"there is no alert {unknown[0]}", f"one of {', '.join(sorted(known))}")
    if alerts.channel is None:
        return None
    if alerts.channel not in built:
        raise wrong("channel", f"no channel {alerts.channel!r}", f"configured: {', '.join(built) or 'none'}")
    provider = built[alerts.channel].provider
    if alerts.to is None:
        raise wrong("to", "is missing", "the address that alerts go to")
    try:
        if not provider.stored:
            provider.address(alerts.to)
    except InputError as error:
        raise wrong("to", error.message, error.mend or "an address of the channel") from None
    return Receiver(alerts.channel, alerts.to, frozenset(alerts.kinds), alerts.window)


def templates(config: Config, alert: Callable[[str, str], None]) -> Library:
    """The folder of templates; nothing is read from it before a template is asked for."""
    folder = config.file.parent if config.file is not None else Path()
    return Library(
        folder / config.templates.path,
        Reader(locale=config.templates.locale, timezone=config.templates.timezone),
        config.channels,
        monotonic=SystemClock().monotonic,
        alert=alert,
    )


def store_options(config: Config) -> StoreOptions:
    """How the store is opened by this configuration."""
    return StoreOptions(
        journal=config.store.journal.value,
        synchronous=config.store.synchronous.value,
        sqlite_module=config.store.sqlite_module.value,
        pool_size=config.store.pool_size,
        pgbouncer=config.store.pgbouncer.value,
        listen=config.store.listen.value,
        timeout=config.store.timeout / 1_000_000,
        outbox_kinds=frozenset(kind.value for kind in config.outbox.events),
    )


def network(config: Config) -> NetworkOptions:
    """How the wire is opened by this configuration."""
    return NetworkOptions(
        allow_private_networks=config.security.allow_private_networks,
        # A call that waits for a free connection would spend its timeout there.
        mail_connections=max((channel.concurrency for channel in config.channels.values()), default=20),
    )


def _ways(channel: Channel, first: Provider, file: Path | None, *, given: bool) -> tuple[Entry, ...]:
    """The other providers. Raises ConfigError unless they can stand in for the first one."""
    ways = []
    for number, way in enumerate(channel.ways, 1):
        provider = _provider(way, file, number)
        place = f"channels.{channel.name}.providers[{number}].provider"
        if provider.stored or first.stored or provider.form != first.form:
            raise ConfigError(
                f"{way.provider} takes other addresses than {channel.provider}",
                mend="all providers of a channel must take the same; make a channel of its own",
                field=place,
            )
        if provider.in_doubt is not first.in_doubt and not given:
            raise ConfigError(
                f"in doubt {way.provider} does {provider.in_doubt}, and {channel.provider} {first.in_doubt}",
                mend="set in_doubt beside providers",
                field=place,
            )
        ways.append(Entry(way, provider))
    return tuple(ways)


def _provider(channel: Channel, file: Path | None, number: int | None) -> Provider:
    """The channel's provider; an error of its options names the key's whole path."""
    try:
        return registry.build(channel.provider, channel.settings, None if file is None else file.parent)
    except ConfigError as error:
        key, mend = error.field or "provider", error.mend
        if key in channel.settings and (near := get_close_matches(key, CHANNEL_KEYS, n=1, cutoff=0.75)):
            mend = f"did you mean {near[0]}?"
        place = place_of(channel, key, number=number)
        raise ConfigError(error.message, mend=mend, field=f"{file}: {place}" if file else place) from None


def configuration(source: Source, overrides: Mapping[str, object]) -> Config:
    """The configuration from whatever stands for it. Raises ConfigError."""
    if isinstance(source, Config):
        if overrides:
            raise ConfigError(
                "a Config is taken as it is", mend="give a file or a mapping to override parts of it"
            )
        return source
    if source is None or isinstance(source, (str, Path)):
        return load(source, overrides=overrides)
    return from_mapping(source, overrides=overrides)


def awaitable(function: Callable[[Row], bool | Awaitable[bool]]) -> Guard:
    """A guard of the application as the engine asks it; one that blocks is asked in a thread."""
    if inspect.iscoroutinefunction(function):
        return cast("Guard", function)

    async def ask(row: Row) -> bool:
        answer = await asyncio.to_thread(function, row)
        return bool(await answer if inspect.isawaitable(answer) else answer)

    return ask
