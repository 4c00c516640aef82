"""``migrate`` and ``check``: is everything there that this program needs?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.cli.session import FAILED, OK, configuration, run_async, say, show_json
from ringonce.errors import RingonceError

if TYPE_CHECKING:
    from cyclopts import App

    from ringonce.config import Config
    from ringonce.model.retention import Retention

CLOCKS_APART = 5_000_000
"""Microseconds between this machine's clock and the database's that are worth a word: retries are timed by the
database, signatures by this machine."""


def register(app: App) -> None:
    """Add the commands."""
    app.command(migrate)
    app.command(check)


def migrate(*, sql: bool = False, json: bool = False) -> int:
    """Bring the database to the schema that this version needs; nothing happens when it has it.

    Args:
        sql: Only print the statements that an empty database needs, for somebody else to run.
        json: Print JSON.
    """
    from ringonce.parts import store_options
    from ringonce.store import migrate as bring_up
    from ringonce.store import migration_script

    config = configuration()
    if sql:
        say(migration_script("sqlite" if config.store.sqlite else "postgresql"))
        return OK
    before, now = run_async(bring_up(config.store.url, store_options(config)))
    if json:
        show_json({"before": before, "now": now})
    elif before == now:
        say(f"{config.store.shown} is at revision {now}: nothing to do")
    else:
        say(f"{config.store.shown}: revision {before or 'none'} → {now}")
    return OK


def check(*, json: bool = False) -> int:
    """Check configuration, channels, database, SQLite build and clock; the mend beside whatever is wrong.

    Args:
        json: Print JSON.
    """
    results = run_async(_results())
    if json:
        show_json({"ok": all(item["ok"] for item in results), "checks": results})
    else:
        for item in results:
            say(f"{'ok  ' if item['ok'] else 'BAD '} {item['what']}: {item['text']}")
    return OK if all(item["ok"] for item in results) else FAILED


async def _results() -> list[dict[str, object]]:
    results: list[dict[str, object]] = []

    def add(what: str, text: object, *, ok: bool = True) -> None:
        results.append({"what": what, "ok": ok, "text": str(text)})

    try:
        config = configuration()
    except RingonceError as error:
        add("configuration", error, ok=False)
        return results
    add("configuration", config.file or "the defaults: there is no ringonce.toml here")
    _channels(config, add)
    _templates(config, add)
    _api(config, add)
    add("retention", kept(config.retention))
    await _database(config, add)
    return results


def kept(retention: Retention) -> str:
    """How long each thing is kept, in one line."""
    from dataclasses import asdict

    from ringonce.config.kinds import span

    ages = ((name, "kept" if age is None else span(age)) for name, age in asdict(retention).items())
    return ", ".join(f"{name} {age}" for name, age in ages)


def _channels(config: Config, add: object) -> None:
    from ringonce.parts import entries, receiver
    from ringonce.telemetry import ALERTS

    assert callable(add)
    try:
        channels = entries(config)
    except RingonceError as error:
        add("channels", error, ok=False)
        return
    for entry in channels.values():
        state = "" if entry.channel.enabled else ", disabled"
        for one in (entry, *entry.ways):
            add(
                f"channel {one.channel.name}",
                f"{one.channel.provider}, account {one.provider.account}{state}",
            )
    try:
        alerts = receiver(config, channels, ALERTS)
        add("alerts", "to log and metrics" if alerts is None else f"also over channel {alerts.channel}")
    except RingonceError as error:
        add("alerts", error, ok=False)
    if not channels:
        add("channels", "none: nothing can be sent before [channels.NAME] is configured", ok=False)


def _templates(config: Config, add: object) -> None:
    from ringonce.parts import templates

    assert callable(add)
    library = templates(config, lambda _kind, _text: None)
    for name, found in library.loaded.items():
        for error in found.wrong:
            add(f"template {name}", f"{error.message} ({error.mend})", ok=False)
        if not found.wrong:
            said = ", ".join(sorted(found.template.texts)) if found.template is not None else ""
            add(f"template {name}", "; ".join([said, *found.notices]))


def _api(config: Config, add: object) -> None:
    from importlib.util import find_spec

    assert callable(add)
    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        add("api", f'{", ".join(missing)} not installed: no `ringonce up`; pip install "ringonce[api]"')
        return
    from ringonce.api.access import is_loopback

    safe = config.api.key is not None or is_loopback(config.api.host)
    mend = "" if safe else ": without api.key only loopback is possible; set RINGONCE_API_KEY"
    add("api", f"{config.api.host}:{config.api.port}{mend}", ok=safe)


async def _database(config: Config, add: object) -> None:
    import time

    from ringonce.engine.contract import decode_event
    from ringonce.parts import store_options
    from ringonce.store import make_store

    assert callable(add)
    if config.store.sqlite:
        _sqlite(config, add)
    if config.store.new_file:
        add("database", f"{config.store.shown} does not exist yet; it is created when it is first used")
        return
    try:
        store = make_store(config.store.url, store_options(config), decode_event)
        await store.open()
    except RingonceError as error:
        add("database", error, ok=False)
        return
    try:
        add("database", f"{config.store.shown} is there, writable, and has the right schema")
        apart = abs(await store.now() - time.time_ns() // 1_000)
        text = f"{apart / 1_000_000:.3f} s apart from the database's"
        add("clock", text, ok=apart < CLOCKS_APART)
    except RingonceError as error:
        add("database", error, ok=False)
    finally:
        await store.close()


def _sqlite(config: Config, add: object) -> None:
    from ringonce.store.libraries import SOUND
    from ringonce.store.sqlite import load_module

    assert callable(add)
    try:
        module = load_module(config.store.sqlite_module.value)
    except RingonceError as error:
        add("sqlite", error, ok=False)
        return
    sound = module.sqlite_version_info >= SOUND
    text = (
        "sound"
        if sound
        else "affected by the WAL-reset bug: the rollback journal is used, WAL files are refused"
    )
    add("sqlite", f"{module.__name__} with SQLite {module.sqlite_version}, {text}")
