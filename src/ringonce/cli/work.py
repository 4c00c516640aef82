"""``up`` and ``worker``: deliver."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ringonce import __version__
from ringonce.cli.garbage import rarely
from ringonce.cli.session import (
    OK,
    UsageError,
    config_file,
    configuration,
    note,
    opened,
    run_async,
    say,
    show_json,
)
from ringonce.cli.signals import SIGNALS, hand_over, stopping

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable, Mapping, Sequence

    from cyclopts import App
    from fastapi import FastAPI

    from ringonce.app import Ringonce
    from ringonce.config import Config
    from ringonce.engine.worker import Drained
    from ringonce.model.draft import Draft

MOST_DRAFTS = 500
"""So many that wait for approval are counted when a worker has drained."""
MOST_PROCESSES = 256


def register(app: App) -> None:
    """Add the commands."""
    app.command(up)
    app.command(api_alone, name="api")
    app.command(worker)


def up(*, host: str | None = None, port: int | None = None) -> int:
    """Run everything on this machine: a worker and the HTTP API, until SIGTERM or Ctrl-C.

    An SQLite database is created or brought up to date first.

    Args:
        host: Where the API listens; default: api.host.
        port: The API's port; default: api.port, 8070. 0: any free one.
    """
    return _serving(host, port, work=True)


def api_alone(*, host: str | None = None, port: int | None = None) -> int:
    """Run the HTTP API without a worker, until SIGTERM or Ctrl-C; `ringonce worker` elsewhere does the sending.

    Args:
        host: Where it listens; default: api.host.
        port: Its port; default: api.port, 8070. 0: any free one.
    """
    return _serving(host, port, work=False)


def _serving(host: str | None, port: int | None, *, work: bool) -> int:
    _log_to_stderr()
    config = configuration()
    from ringonce.cli.loops import fast_loop

    serving = _up(host or config.api.host, config.api.port if port is None else port, work=work)
    run_async(serving, loop=fast_loop(config))
    return OK


async def _up(host: str, port: int, *, work: bool) -> None:
    import asyncio

    make, listen = api()
    config = configuration()
    with listen(host, port, key=config.api.key, locked=config.api.locked) as listening:
        async with opened(config, migrate=True) as ringonce:
            stop = asyncio.Event()
            with stopping(stop), rarely():
                _greet(ringonce)
                where = f"[{host}]" if ":" in host else host
                note(f"listening on http://{where}:{listening.getsockname()[1]}")
                await serve(ringonce, make(ringonce), listening, stop, work=work)
    note("stopped")


def api() -> tuple[Callable[[Ringonce], FastAPI], Callable[..., socket.socket]]:
    """What makes the application, and what listens. Raises ConfigError: the API is not installed."""
    from ringonce.errors import ConfigError

    try:
        from ringonce.api.app import create_app
        from ringonce.api.server import listen
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the API needs the package {error.name}, which is not installed",
            mend='pip install "ringonce[api]", or run `ringonce worker`',
        ) from None

    def make(ringonce: Ringonce) -> FastAPI:
        config = ringonce.config
        return create_app(
            ringonce,
            key=config.api.key,
            keys=config.api.keys,
            max_payload=config.limits.max_payload,
            public_url=config.api.public_url,
            version=__version__,
        )

    return make, listen


async def serve(
    ringonce: Ringonce, app: FastAPI, listening: socket.socket, stop: asyncio.Event, *, work: bool = True
) -> None:
    """The API, with a worker unless it is to do without, until ``stop`` is set or one of them ends."""
    import asyncio

    from ringonce.api.server import serve as answer

    running: list[asyncio.Task[object]] = [asyncio.create_task(answer(app, listening, stop))]
    if work:
        running.append(asyncio.create_task(ringonce.run_worker(stop)))
    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    await asyncio.gather(*running)


def worker(
    *,
    only: Annotated[str | None, Parameter()] = None,
    drain: bool = False,
    json: bool = False,
    processes: int | None = None,
    number: Annotated[int | None, Parameter(show=False)] = None,
) -> int:
    """Run a worker until SIGTERM or Ctrl-C; or, with --drain, until nothing is left that it could move on.

    Args:
        only: Duties, separated by commas: dispatch, retry, rescue, expand, sweep, prune.
        drain: End when only rows are left that wait for a person, a switch or a later time; they are printed.
        json: With --drain: print what is left as JSON.
        processes: How many processes, on PostgreSQL; one that dies is started again. Default: worker.processes, 1.
        number: This is a child of that number; it ends when its standard input does.
    """
    from ringonce.engine.worker import DUTIES

    _log_to_stderr(number)
    duties = [part.strip() for part in (only or "").split(",") if part.strip()]
    for duty in duties:
        if duty not in DUTIES:
            raise UsageError(f"unknown duty {duty}", field="only", mend=f"there are {', '.join(DUTIES)}")

    config = configuration()
    count = 1 if number is not None else config.worker.processes if processes is None else processes
    if count != 1:
        return _several(config, count, duties, drain=drain, json=json)

    import asyncio

    from ringonce.cli.exposition import telling
    from ringonce.cli.loops import fast_loop
    from ringonce.cli.supervise import until_parent_dies

    async def run() -> tuple[Drained | None, list[dict[str, object]], list[Draft]]:
        async with opened(config) as ringonce:
            stop = asyncio.Event()
            telling_ = telling(_at(config, number or 0), ringonce.telemetry, partial(_answers, ringonce))
            with stopping(stop), rarely():
                async with telling_:
                    if number is None:
                        _greet(ringonce)
                    else:
                        until_parent_dies(stop)
                        logging.getLogger("ringonce.worker").info("ready, process %d", os.getpid())
                    drained = await ringonce.run_worker(stop, drain=drain, only=duties)
                    if drained is None:
                        return None, [], []
                    waiting = await ringonce.drafts(states=("draft",), limit=MOST_DRAFTS)
                    return drained, await ringonce.channels(), waiting

    drained, channels, waiting = run_async(run(), loop=fast_loop(config))
    if drained is not None:
        enabled = {str(view["name"]): view["enabled"] is True for view in channels}
        _show_left(drained, enabled, Counter(draft.row.channel for draft in waiting), json=json)
    return OK


def _several(config: Config, count: int, duties: Sequence[str], *, drain: bool, json: bool) -> int:
    """The parent of several workers. What would end them all at once is told before the first one starts."""
    import asyncio

    from ringonce.cli.exposition import telling
    from ringonce.cli.supervise import Supervisor

    if not 1 <= count <= MOST_PROCESSES:
        raise UsageError(f"must be 1 to {MOST_PROCESSES}", field="processes")
    if config.store.sqlite:
        raise UsageError(
            f"SQLite has one worker process, not {count}",
            field="processes",
            mend="set store.url to a PostgreSQL database, or raise a channel's concurrency",
        )
    file = config_file.get()
    arguments = [] if file is None else ["--config", str(file)]
    arguments += ["worker", "--processes", "1"]
    arguments += ["--only", ",".join(duties)] if duties else []
    arguments += [flag for flag, given in (("--drain", drain), ("--json", json)) if given]

    async def run() -> int:
        async with opened(config) as ringonce:
            _greet(ringonce)
            telemetry = ringonce.telemetry
        grace = config.worker.grace / 1_000_000
        supervisor = Supervisor(arguments, count, telemetry, grace=grace, drain=drain)
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, supervisor.pass_on, number)
        async with telling(_at(config, 0), telemetry, supervisor.complete):
            code = await supervisor.run()
            hand_over(loop, signal.SIG_IGN)  # all have ended, and so does this one
            return code

    return run_async(run())


def _at(config: Config, number: int) -> tuple[str, int] | None:
    """Where the process of that number tells of itself."""
    where = config.worker.metrics
    return None if where is None else (where[0], where[1] + number)


async def _answers(ringonce: Ringonce) -> bool:
    """The database answers."""
    from ringonce.errors import StoreError

    try:
        await ringonce.store.now()
    except StoreError:
        return False
    return True


def _greet(ringonce: Ringonce) -> None:
    names = list(ringonce.engine.channels.all())
    note(f"database {ringonce.config.store.shown}; channels: {', '.join(names) or 'none'}")
    if not names:
        note(
            "Nothing can be sent before a channel is configured. For a first try, write to ringonce.toml:\n"
            '  [channels.test]\n  provider = "sandbox"'
        )


def _show_left(drained: Drained, enabled: dict[str, bool], drafts: Mapping[str, int], *, json: bool) -> None:
    from ringonce.engine.views import backlog_view

    views = [{**backlog_view(item), "disabled": not enabled.get(item.channel, True)} for item in drained.left]
    if json:
        show_json({"left": views, "drafts": dict(drafts)} if drafts else {"left": views})
        return
    why = {None: "channel not configured", False: "channel disabled", True: "channel paused"}
    lines = []
    for item in drained.left:
        reasons = [
            (item.paused, why[enabled.get(item.channel)]),
            (item.future, "not due yet"),
            (item.held, "in doubt: a person or a receipt decides"),
        ]
        lines += [f"  {item.channel}: {count} {reason}" for count, reason in reasons if count]
    lines += [f"  {channel}: {count} drafts wait for approval" for channel, count in drafts.items()]
    say("drained; left:" if lines else "drained; nothing is left")
    for line in lines:
        say(line)


def _log_to_stderr(number: int | None = None) -> None:
    who = "" if number is None else f"worker {number}: "
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format=f"%(asctime)s %(levelname)s %(name)s {who}%(message)s"
    )
    logging.getLogger("alembic").setLevel(logging.WARNING)
