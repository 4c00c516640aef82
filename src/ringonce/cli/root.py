"""All commands together, the option ``--config``, and what becomes of an error."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003 - cyclopts reads the annotations
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, CycloptsError, Parameter

from ringonce import __version__
from ringonce.cli import (
    channels,
    classify_command,
    database,
    demo,
    drafts,
    failures,
    inbox,
    policy,
    read,
    receipts,
    recipients,
    send,
    work,
)
from ringonce.cli.session import FAILED, NOT_FOUND, OK, USAGE, UsageError, config_file
from ringonce.errors import ConfigError, NotFoundError, RingonceError

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130
"""What shells show for a program that Ctrl-C ended: 128 + SIGINT."""


def make() -> App:
    """The program with all its commands."""
    app = App(
        name="ringonce",
        help="Notifications that reach the person once, or show exactly why they did not.",
        version=__version__,
        default_parameter=Parameter(negative=()),
    )
    for group in (
        demo,
        work,
        send,
        read,
        failures,
        channels,
        recipients,
        drafts,
        inbox,
        receipts,
        classify_command,
        policy,
        database,
    ):
        group.register(app)

    @app.meta.default
    def launch(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        config: Annotated[Path | None, Parameter(help="The configuration file.", env_var=())] = None,
    ) -> object:
        config_file.set(config)
        return app(tokens, exit_on_error=False, print_error=False, result_action="return_value")

    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit code."""
    # Pipes are read by programs that expect UTF-8, whatever the locale says.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    app = make()
    try:
        result = app.meta(
            list(arguments), exit_on_error=False, print_error=False, result_action="return_value"
        )
    except CycloptsError as error:
        return fail(str(error) + " See ringonce --help.", USAGE)
    except RingonceError as error:
        return fail(f"[{error.code}] {error}", code_of(error))
    except BrokenPipeError:
        # The reader of our output has seen enough (`ringonce list | head`).
        sys.stderr.close()
        return OK
    except KeyboardInterrupt:
        return INTERRUPTED
    return result if isinstance(result, int) else OK


def code_of(error: RingonceError) -> int:
    """The exit code of an error."""
    if isinstance(error, NotFoundError):
        return NOT_FOUND
    if isinstance(error, (ConfigError, UsageError)):
        return USAGE
    return FAILED


def fail(text: str, code: int) -> int:
    """One clear line."""
    print(f"ringonce: {text}", file=sys.stderr)
    return code
