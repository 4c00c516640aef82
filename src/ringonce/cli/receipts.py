"""``receipts``: what providers report, where no URL of ours is called: mails that came back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from ringonce.cli.session import OK, UsageError, note, say, show_json, with_ringonce
from ringonce.errors import StoreError

if TYPE_CHECKING:
    from ringonce.app import Ringonce
    from ringonce.engine.receipts import Reply

LARGEST = 3 * 1024 * 1024
"""Bytes that are read; what is behind them is not looked at."""
TRY_AGAIN = 75
"""What a mail server's pipe takes for "not now" (EX_TEMPFAIL of sysexits.h): it keeps the mail and comes again."""


def register(app: App) -> None:
    """Add the group."""
    group = App(name="receipts", help="What providers report about messages.")
    group.command(take)
    app.command(group)


def take(
    channel: str,
    file: Annotated[str, Parameter(allow_leading_hyphen=True)] = "-",
    /,
    *,
    json: bool = False,
) -> int:
    """Take one report, as a provider would post it: a mail that came back, from a mail server's pipe.

    Exits with 75 when the database can not be used at the moment, so that the mail server keeps the mail.

    Args:
        channel: The channel by which it was sent.
        file: Where the report is; - is standard input.
        json: Print JSON.
    """
    from ringonce.model.receipt import Callback

    body = _read(file)
    callback = Callback("POST", f"/v1/receipts/{channel}", {"content-type": "message/rfc822"}, body)

    async def work(ringonce: Ringonce) -> Reply:
        return await ringonce.receive(channel, callback)

    try:
        reply = with_ringonce(work)
    except StoreError as error:
        note(f"ringonce: [{error.code}] {error}")
        return TRY_AGAIN
    if json:
        show_json({"reports": dict(reply.reports)})
    else:
        for fate, count in reply.reports.items():
            say(f"{count} {fate}")
        if not reply.reports:
            say("nothing that is reported")
    return OK


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read(LARGEST)
    try:
        with Path(file).open("rb") as stream:
            return stream.read(LARGEST)
    except OSError as error:
        raise UsageError(
            f"can not be read: {error.strerror}", field="file", mend="name a file, or -"
        ) from None
