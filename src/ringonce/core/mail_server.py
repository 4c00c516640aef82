"""A mail server as one URL."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

from ringonce.errors import ConfigError
from ringonce.model.exchange import MailServer

_TLS = ("none", "auto", "starttls")


def mail_server(url: str) -> MailServer:
    """Host, port, encryption and credentials of ``smtp://…`` or ``smtps://…``.

    Raises ConfigError for ``url``; its message never repeats the URL, which holds a password.
    """
    mend = "write smtp://user:password@mail.example.com:587, special characters percent-encoded"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigError("this is not a URL", field="url", mend=mend) from None
    if parts.scheme not in {"smtp", "smtps"} or not host or parts.path not in {"", "/"} or parts.fragment:
        raise ConfigError("this is not an smtp:// or smtps:// URL of a server", field="url", mend=mend)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    tls = query.pop("tls", "")
    if query or (tls and (tls not in _TLS or parts.scheme == "smtps")):
        raise ConfigError(
            "the only setting behind ? is tls, for smtp:// alone", field="url", mend=f"tls={'|'.join(_TLS)}"
        )
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password else None
    if (user is None) is not (password is None):
        raise ConfigError("user and password belong together", field="url", mend=mend)
    if parts.scheme == "smtps":
        tls = "implicit"
    elif not tls:
        tls = "auto" if password is None or host in {"localhost", "127.0.0.1", "::1"} else "starttls"
    return MailServer(host, port or (465 if tls == "implicit" else 587), tls, user, password)
