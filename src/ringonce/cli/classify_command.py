"""``classify``: the command around ``ringonce.cli.classify``."""

from __future__ import annotations

import json as jsons
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ringonce.cli.session import FAILED, NOT_FOUND, OK, UsageError, note, say, show_json

if TYPE_CHECKING:
    from cyclopts import App


def register(app: App) -> None:
    """Add the commands."""
    app.command(classify)


def classify(
    provider: str | None = None,
    /,
    *,
    status: int | None = None,
    header: list[str] | None = None,
    body: str | None = None,
    event: str | None = None,
    stage: str | None = None,
    now: str | None = None,
    registered_at: str | None = None,
    cases: str | None = None,
    json: bool = False,
) -> int:
    """Say what ringonce would do with a provider's answer. Nothing is sent or stored.

    Args:
        provider: Whose answer it is, e.g. smtp or webhook.
        status: The HTTP status, or the SMTP reply code.
        header: A header of the answer, as Name: value. May be repeated.
        body: The body, or @FILE.
        event: What broke instead of an answer, e.g. read_timeout.
        stage: The stage of the SMTP dialogue, e.g. RCPT.
        now: The time to measure a Retry-After date by.
        registered_at: When the address was registered.
        cases: A file with a JSON list of cases, - for standard input; prints a row for each.
        json: Print JSON; with --cases always.
    """
    from ringonce.cli.classify import case_from_options, classify_case, classify_cases

    if cases is not None:
        rows = classify_cases(_cases(cases))
        show_json(rows)
        failed = sum(1 for row in rows if row.get("error"))
        if failed:
            note(f"{failed} of {len(rows)} cases could not be classified; their rows say why")
        return OK
    if provider is None:
        raise UsageError("name a provider, or --cases FILE", field="PROVIDER")
    case = case_from_options(
        provider,
        status=status,
        headers=header or (),
        body=_text(body),
        event=event,
        stage=stage,
        now=now,
        registered_at=registered_at,
    )
    row = classify_case(case)
    if json:
        show_json(row)
    else:
        for name, value in row.items():
            if value is not None and value is not False:
                say(f"{name.replace('_', ' '):<16} {value}")
    if row.get("error"):
        return NOT_FOUND if row["error"] == "unknown provider" else FAILED
    return OK


def _text(body: str | None) -> str | None:
    if body is None or not body.startswith("@"):
        return body
    return _read(body[1:]).decode("utf-8", "replace")


def _cases(name: str) -> list[Any]:

    try:
        value = jsons.loads(_read(name))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error}", field="CASES") from None
    if not isinstance(value, list):
        raise UsageError(f"{name} holds no list", field="CASES", mend="write a JSON list of cases")
    return value


def _read(name: str) -> bytes:

    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"{name} can not be read: {error.strerror}", field="FILE") from None
