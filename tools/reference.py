"""Writes the reference pages from the code: command line, configuration, HTTP API, errors."""

import dataclasses
import inspect
import json
from collections.abc import Iterator, Sequence
from typing import Any

from cyclopts import App

from ringonce import errors
from ringonce.cli.root import make
from ringonce.config import keys, kinds, traffic
from ringonce.config.model import ApiConfig
from ringonce.config.reader import Key
from ringonce.model.outcome import CODE_OF, Code
from ringonce.model.policy import Backoff, Budgets, Channel, Circuit, Policy, Share

DURATION = kinds.duration().title


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


# --- configuration ---


def _shown(value: object, key: Key) -> str:
    if value is None:
        return "none" if "none" in key.kind.title else ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int) and "duration" in key.kind.title:
        return f'`"{kinds.span(value)}"`'
    if isinstance(value, tuple):
        return f"`{json.dumps(list(value))}`"
    if isinstance(value, (int, float)):
        return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
    return f'`"{value}"`'


def _keys(defaults: object, rows: Sequence[Key], skip: Sequence[str] = ()) -> str:
    def cells() -> Iterator[Sequence[str]]:
        for key in rows:
            default = "" if key.name in skip else _shown(getattr(defaults, key.name, None), key)
            yield f"`{key.name}`", key.kind.title, default, key.doc

    return _table(("key", "kind", "default", "meaning"), cells())


@dataclasses.dataclass(frozen=True)
class _Floors:
    greylist: int
    rate_limited: int


def configuration() -> str:
    """Every key of ringonce.toml."""
    parts = []
    for name, (made, rows) in keys.SECTIONS.items():
        parts.append(f"## `[{name}]`\n\n{made.__doc__}\n\n{_keys(made(), rows)}")
    for name, (made, rows) in keys.NAMED_SECTIONS.items():
        parts.append(f"## `[{name}.NAME]`\n\n{made.__doc__}\n\n{_keys(made(), rows)}")
    parts.append(
        "## `[lanes]`\n\nTenants that have a lane of their own on every channel, by name, each with a weight or with "
        "the keys of `lanes.TENANT` below.\n"
    )
    channel, policy = Channel("", ""), Policy()
    merged = {field.name: getattr(policy, field.name) for field in dataclasses.fields(policy)}
    merged |= {
        field.name: getattr(channel, field.name)
        for field in dataclasses.fields(channel)
        if field.name != "policy"
    }
    defaults = type("Defaults", (), merged)
    parts.append(
        "## `[channels.NAME]`\n\nA configured way out. Every key that is not listed here belongs to the provider.\n\n"
        + _table(
            ("key", "kind", "default", "meaning"),
            iter(
                [
                    ("`provider`", "text", "", "The provider's name. Needed, or `providers`."),
                    (
                        "`providers`",
                        "list of tables",
                        "",
                        "Several, each with `provider` and its own options: after a refusal the next is asked.",
                    ),
                ]
            ),
        ).rstrip()
        + "\n"
        + _keys(defaults, keys.POLICY_KEYS, skip=("in_doubt", "account", "circuit")).split("\n", 2)[2]
    )
    jitter = dataclasses.replace(Backoff(), jitter=kinds.span(Backoff().jitter))  # type: ignore[arg-type]
    floors = _Floors(**Policy().floors)
    for name, rows, below in (
        ("backoff", keys.BACKOFF_KEYS, jitter),
        ("budgets", keys.BUDGET_KEYS, Budgets()),
        ("floors", keys.FLOOR_KEYS, floors),
        ("circuit", traffic.CIRCUIT_KEYS, Circuit()),
        ("lanes.TENANT", traffic.SHARE_KEYS, Share()),
    ):
        parts.append(f"### `{name}`\n\n{_keys(below, rows)}")
    later = list(keys.LATER_SECTIONS)
    parts.append(
        "## Not available yet\n\nThese are known and refused with an error: "
        + ", ".join(f"`{name}`" for name in later)
        + ", `outbox.kind` other than `table`."
    )
    return "\n".join(parts)


# --- errors ---


def _errors(kind: type[errors.RingonceError]) -> Iterator[type[errors.RingonceError]]:
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield below
            yield from _errors(below)


REFUSED = {
    "conflict": "It is not in a state that can be decided so.",
    "already_final": "It has ended already.",
    "too_late": "A call has begun.",
    "in_doubt": "A call without a verdict may have arrived.",
    "expired": "The time in which it could be sent is over.",
    "already_sent": "A reply that is published is not published again, or can not be changed (any more).",
    "stale_version": "The draft's text is not the one that was seen.",
}


def error_codes() -> str:
    """The codes of our exceptions, which the API and the command line show, and those of failed notifications."""
    from ringonce.api.problems import STATUS_OF
    from ringonce.cli.root import code_of

    def ours() -> Iterator[Sequence[str]]:
        for kind in _errors(errors.RingonceError):
            status = next((status for above, status in STATUS_OF if issubclass(kind, above)), 500)
            yield (
                f"`{kind.code}`",
                f"`{kind.__name__}`",
                str(status),
                str(code_of(kind(""))),
                inspect.getdoc(kind) or "",
            )

    def codes() -> Iterator[Sequence[str]]:
        for code in Code:
            classes = [cls.value for cls, found in CODE_OF.items() if found is code]
            yield f"`{code.value}`", ", ".join(classes)

    return (
        "## Of requests and commands\n\n"
        + _table(("code", "exception", "HTTP", "exit code", "meaning"), ours())
        + "\nFurther codes name a cause: `invalid_json` (HTTP 400), `unknown_channel`, `invalid_address`, "
        "`event_too_old`, and those of a refused decision.\n\n"
        "## Of refused decisions\n\nHTTP 409, `ConflictError`: the state of the notification forbids it; "
        "nothing changed.\n\n"
        + _table(("code", "meaning"), ((f"`{code}`", why) for code, why in REFUSED.items()))
        + "\n"
        "## Of notifications\n\n`last_error.code`; beside it `provider_code` has the provider's own word.\n\n"
        + _table(("code", "class of the answer"), codes())
    )


# --- command line ---


def _commands(app: App, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], App]]:
    for name in app:
        if name.startswith("-"):
            continue
        below = app[name]
        yield (*path, name), below
        yield from _commands(below, (*path, name))


def command_line() -> str:
    """Every command with its options."""
    parts = []
    for path, command in _commands(make(), ("ringonce",)):
        if command.default_command is None:
            continue
        collection = command.assemble_argument_collection(parse_docstring=True)
        document = inspect.getdoc(command.default_command) or ""
        text = document.split("\nArgs:\n")[0].strip()

        def cells(collection: Any = collection) -> Iterator[Sequence[str]]:
            for argument in collection:
                if not argument.show:
                    continue
                names = " ".join(
                    f"`{name}`" for name in argument.names if not name.startswith(("--no-", "--empty-"))
                )
                positional = argument.field_info.kind in {
                    inspect.Parameter.POSITIONAL_ONLY,
                    inspect.Parameter.VAR_POSITIONAL,
                }
                name = f"`{argument.field_info.name.upper()}`" if positional else names
                yield name, argument.parameter.help or ""

        rows = list(cells())
        parts.append(f"## `{' '.join(path)}`\n\n{text}\n")
        if rows:
            parts.append(_table(("option", "meaning"), iter(rows)))
    return "\n".join(parts)


# --- HTTP ---


class _Nobody:
    """No call is made while the description is written."""


def http() -> str:
    """Every route, from the OpenAPI description."""
    from ringonce.api.app import create_app

    description = create_app(_Nobody(), version="0").openapi()  # type: ignore[arg-type]

    def routes() -> Iterator[Sequence[str]]:
        for path, methods in description["paths"].items():
            for method, operation in methods.items():
                parameters = [
                    f"`{item['name']}`" for item in operation.get("parameters", ()) if item["in"] == "query"
                ]
                text = operation.get("description", "").replace("\n", " ")
                yield f"`{method.upper()} {path.replace('id_', 'id')}`", text, ", ".join(parameters)

    def fields() -> Iterator[Sequence[str]]:
        for name in ("Body", "RecipientIn", "ContentIn"):
            for field, schema in description["components"]["schemas"][name]["properties"].items():
                where = {"Body": "", "RecipientIn": "recipients[].", "ContentIn": "content."}[name]
                yield f"`{where}{field}`", _json_type(schema)

    api = ApiConfig()
    return (
        f"The API listens on `http://{api.host}:{api.port}`. Without `api.key` it serves programs of the same machine "
        "only.\n\n"
        + _table(("route", "what", "query"), routes())
        + "\n## The structure of an event\n\nThe body of `POST /v1/notifications`, one line of `ringonce send --file`, "
        "and what `Ringonce.notify` takes.\n\n" + _table(("field", "kind"), fields())
    )


def _json_type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_json_type(item) for item in schema["anyOf"] if item.get("type") != "null")
    if "$ref" in schema:
        return "object"
    if schema.get("type") == "array":
        return f"list of {_json_type(schema['items'])}"
    if schema.get("format") == "date-time":
        return "time (RFC 3339, with offset)"
    return str(schema.get("type", "any"))
