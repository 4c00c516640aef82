"""URLs that an operator writes into the configuration."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from ringonce.errors import ConfigError

_RAW = re.compile(r"[\x21-\x7e]+")


def http_url(value: str, name: str, *, query: bool = False, usual: str = "https://…") -> str:
    """An absolute http or https URL without a slash at its end.

    Args:
        value: what was written.
        name: of the option, for the error. The error does not repeat the value.
        query: whether it may have one.
        usual: the vendor's own, for the mend.

    Raises:
        ConfigError: it is none.
    """
    url = value.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "#" in url or ("?" in url and not query) or not _RAW.fullmatch(url):
        raise ConfigError("this is not an http or https URL", field=name, mend=f"write {usual}")
    return url
