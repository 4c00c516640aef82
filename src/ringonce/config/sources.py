"""Where values come from: the TOML file, ``RINGONCE_*`` variables, and references to secrets.

Variables: ``RINGONCE_STORE__URL`` sets ``store.url``; a double underscore separates the levels. Where a
section has no tables of its own, a single one after the section will do: ``RINGONCE_STORE_URL``,
``RINGONCE_API_KEY``. A channel needs the double form: ``RINGONCE_CHANNELS__EMAIL__MAX_ATTEMPTS``.
``RINGONCE_CONFIG`` names the file, ``RINGONCE_TEST_*`` belongs to the tests; any other name that fits no key
is an error, like a key in the file.

References: ``${env:NAME}`` and ``${file:/path}`` inside a text. A relative path counts from the folder of the
configuration file, and the line end at the end of the file is left out. Between ``://`` and ``@`` of a URL
the value is percent-encoded, so that a password may contain any character.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING
from urllib.parse import quote

from ringonce.config.kinds import EnvText
from ringonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ringonce.config.reader import Problems

PREFIX = "RINGONCE_"
OTHER_USES = ("RINGONCE_CONFIG", "RINGONCE_TEST_")

# Kubernetes puts these into every container when a service is called "ringonce" or "ringonce-api"
# (kubernetes.io, "Service": discovering services, environment variables).
_KUBERNETES = re.compile(r"RINGONCE(_\w+?)?_(SERVICE_(HOST|PORT)(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")
_KUBERNETES_PORT = re.compile(r"(tcp|udp|sctp)://")

_REFERENCE = re.compile(r"\$\{(\w+):([^}]*)\}")


def read_file(path: Path) -> dict[str, object]:
    """The TOML file's content. Raises ConfigError when it can not be read or parsed."""
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            "there is no such file", field=str(path), mend="name another one with --config or RINGONCE_CONFIG"
        ) from None
    except OSError as error:
        raise ConfigError(f"can not be read: {error.strerror}", field=str(path)) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"is not UTF-8 (byte {error.start})", field=str(path), mend="save it as UTF-8"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"is no TOML: {error}", field=str(path)) from None


def variables(environ: Mapping[str, str], sections: Mapping[str, bool]) -> dict[str, tuple[str, ...]]:
    """Variable -> key path, for all that belong to the configuration.

    ``sections`` maps the name of a section to whether it holds tables of its own.
    """
    paths: dict[str, tuple[str, ...]] = {}
    for name, value in environ.items():
        if not name.startswith(PREFIX) or name.startswith(OTHER_USES) or _KUBERNETES.fullmatch(name):
            continue
        if name.endswith("_PORT") and _KUBERNETES_PORT.match(value):
            continue
        rest = name.removeprefix(PREFIX).lower()
        path = tuple(rest.split("__"))
        if len(path) == 1:
            section, _, key = rest.partition("_")
            if sections.get(section) is False and key:
                path = (section, key)
        paths[name] = path
    return paths


def overlay(
    raw: dict[str, object], environ: Mapping[str, str], paths: Mapping[str, tuple[str, ...]]
) -> dict[str, str]:
    """Put the variables' values into ``raw``; key path -> variable, for the error messages."""
    origins: dict[str, str] = {}
    for variable, path in sorted(paths.items()):
        table = raw
        actual: list[str] = []
        for part in path[:-1]:
            name = _same(part, table)
            actual.append(name)
            below = table.get(name)
            if not isinstance(below, dict):
                below = {}
                table[name] = below
            table = below
        name = _same(path[-1], table)
        table[name] = EnvText(environ[variable])
        origins[".".join([*actual, name])] = variable
    return origins


def _same(part: str, table: Mapping[str, object]) -> str:
    """The key of ``table`` that a variable's lower-case part means: ``web_push`` finds ``Web-Push``."""
    for key in table:
        if key.lower().replace("-", "_") == part:
            return key
    return part


def resolve(value: object, path: str, environ: Mapping[str, str], folder: Path, problems: Problems) -> object:
    """``value`` with every reference replaced, in tables and lists too."""
    if isinstance(value, dict):
        return {
            key: resolve(item, f"{path}.{key}" if path else str(key), environ, folder, problems)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [resolve(item, path, environ, folder, problems) for item in value]
    if not isinstance(value, str) or "${" not in value:
        return value

    def secret(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        found = ""
        if kind == "env":
            if name in environ:
                found = environ[name]
            else:
                problems.add(path, f"the environment variable {name} is not set", f"export {name}")
        elif kind == "file":
            try:
                found = (folder / name).read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
                problems.add(path, f"the file {name} can not be read: {reason}")
        else:
            problems.add(path, f"unknown reference ${{{kind}:…}}", "there are ${env:NAME} and ${file:/path}")
        before, after = value[: match.start()], value[match.end() :]
        authority = before.rpartition("://")[2] if "://" in before else "/"
        in_userinfo = "/" not in authority and "@" in after
        return quote(found, safe="") if in_userinfo else found

    return type(value)(_REFERENCE.sub(secret, value))
