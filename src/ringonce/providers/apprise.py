"""Whatever Apprise reaches by URL: breadth, with coarse answers.

The library calls the service by itself. It tells whether that worked, and neither a status nor how long to wait. What
it logs tells a connection that broke off, after which the service may have taken it, from a refusal and from one that
was never made, which are tried again. It follows redirects and connects to whatever
the URL leads to; the guard against private networks can not look into that. So only schemas that are listed are taken,
those whose URL names a host only together with the host, and those that reach into this machine never.

Schemas: caronc/apprise, the ``templates`` of each plugin as its ``details()`` tell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

import ringonce.provider as api
from ringonce.provider import OutcomeClass as To

_LOCAL = frozenset(("blink1", "dbus", "gio", "glib", "gnome", "kde", "macosx", "qt", "syslog", "windows"))
# Their URL names a host; with an s at the end most of them are the same over TLS.
_HOSTED = frozenset(
    re.findall(
        "[a-z0-9]+",
        "amqp apprise bark betterstack deltachat emby enigma2 evolution flowtriq fluxer form goalert gorush gotify "
        "growl hassio humhub infobip irc jellyfin json kodi lametric mailgun mailto mastodon matrix misskey mmost mqtt "
        "ncloud nctalk notica notifico ntfy onebot opsimate parsep pinglet pjet pushdeer rocket rsyslog sendpulse "
        "session signal smpp smseagle smtp2go sogs sparkpost synology toot trigv wechat workflow xbmc xmatters xml "
        "xmpp",
    )
)
_ENTRY = re.compile(r"([a-z0-9]{1,32})(?:://([a-z0-9.-]+(?::[0-9]{1,5})?))?")
_URL = re.compile(r"([a-z0-9]{1,32})://([\x21-\x7e]{1,2000})")
_LOGGED = "caronc/apprise plugins/*.py: except requests.RequestException"
_UNSENT = (
    "NewConnectionError|ConnectTimeout|NameResolution|Failed to (resolve|establish)|CERTIFICATE_VERIFY_FAILED"
    "|Exception: [(][0-9]{3}, b"
)
_BROKEN = "(?i)socket exception|connection error|timed out|connection aborted|disconnected"
_POLICY = "policy: the library tells whether it worked, and not why"

RULES: tuple[api.Rule, ...] = (
    api.Rule("apprise.accepted", To.ACCEPTED, "caronc/apprise NotifyBase.notify()", step="done"),
    api.Rule(
        "apprise.no_service",
        To.INVALID_RECIPIENT,
        "caronc/apprise Apprise.instantiate(): the URL leads to no service that it knows",
        step="not made",
    ),
    # Most of its plugins log "Socket Exception: " and what requests or smtplib raised.
    api.Rule("apprise.not_connected", To.TRANSIENT, _LOGGED, step="not done", text=_UNSENT),
    api.Rule("apprise.broke_off", To.TRANSIENT, _LOGGED, step="not done", text=_BROKEN, ambiguous=True),
    api.Rule("apprise.failed", To.TRANSIENT, _POLICY, step="not done"),
    api.Rule("apprise.nothing", To.TRANSIENT, _POLICY, step="nothing to do"),
)


@dataclass(frozen=True)
class AppriseOptions:
    """``schemas``: the address is a whole URL of one of these, without a query.

    A schema whose URL names a host is listed with it: ``"json://hooks.example.com"``. Or ``url``: a URL of yours in
    which ``{address}`` stands where the address goes, written so that it is one value.
    """

    schemas: tuple[str, ...] = ()
    url: str = field(default="", repr=False)


class Apprise(api.Provider):
    """Any of a hundred services and more."""

    name = "apprise"
    title = "Other services by Apprise"
    transport = "library"
    needs = "apprise"
    rules = RULES
    Options = AppriseOptions

    def __init__(self, options: AppriseOptions) -> None:
        """Check what can be checked. Raises ConfigError; its message never repeats the URL."""
        super().__init__(options)
        if bool(options.schemas) is bool(options.url):
            mend = 'schemas = ["ntfys://ntfy.sh"], or a url with {address} in it'
            raise api.ConfigError("set either schemas or url", field="schemas", mend=mend)
        self._hosts: dict[str, set[str]] = {}
        for entry in options.schemas:
            found = _ENTRY.fullmatch(entry)
            if found is None:
                raise api.ConfigError(
                    f"{entry!r} is no schema",
                    field="schemas",
                    mend='like "tgram" or "json://hooks.example.com"',
                )
            schema, host = found.groups()
            _refuse_local(schema, "schemas")
            if _hosted(schema) and host is None:
                trouble = f"a URL of {schema} may name any host, private ones too"
                raise api.ConfigError(
                    trouble, field="schemas", mend=f'name the host: "{schema}://hooks.example.com"'
                )
            self._hosts.setdefault(schema, set()).update([host] if host else [])
        if options.url:
            found = _URL.fullmatch(options.url)
            if found is None or options.url.count("{address}") != 1:
                mend = "write {address} once, where the address goes"
                raise api.ConfigError("this is no URL for addresses", field="url", mend=mend)
            _refuse_local(found[1], "url")

    @property
    def account(self) -> str:
        """The URL of ours; where addresses are URLs each brings its own credentials."""
        return f"apprise:{api.digest(self.options.url)}" if self.options.url else "apprise"

    def address(self, value: object) -> str:
        """A URL of a schema that is listed; with ``url``, what goes into it. Raises InputError, without the value."""
        text = super().address(value)
        if self.options.url:
            if not text.isprintable() or len(text) > 500:
                raise api.InputError(
                    "this can not stand in a URL", field="address", mend="up to 500 characters"
                )
            return text
        found = _URL.fullmatch(text)
        if found is None:
            raise api.InputError("this is no URL", field="address", mend="write schema://…")
        schema = found[1]
        if schema not in self._hosts:
            mend = f"one of {', '.join(sorted(self._hosts))}"
            raise api.InputError(
                f"the schema {schema} is not listed in this channel", field="address", mend=mend
            )
        if "?" in text or "\\" in text:
            # It may name another host, a file of ours, or have a repeat made: the library has parameters for each.
            trouble = "a query can change where and how often it goes"
            raise api.InputError(trouble, field="address", mend="leave it out, or give the channel a url")
        hosts = self._hosts[schema]
        if hosts and _host(text) not in hosts:
            raise api.InputError(
                f"{schema} may only go to a host that is listed",
                field="address",
                mend=f"one of {', '.join(hosts)}",
            )
        return text

    def request(self, message: api.Message, address: api.Address, context: api.Context) -> api.LibraryRequest:
        """The call of the library, for one service and without repeats."""
        content = message.content
        url = self.options.url.replace("{address}", quote(address.value, safe="")) or address.value
        said = (
            ("body", content.text or content.title),
            ("title", (content.title or "") if content.text else ""),
        )
        return api.LibraryRequest(
            # Not ``Apprise().notify``: that one repeats where a URL asks for it, and takes several URLs for one.
            api.LibraryCall("apprise:Apprise.instantiate", (url,)),
            api.LibraryCall("notify", (), (*said, ("body_format", "text"))),
            context.timeout,
            ("apprise", "urllib3.connectionpool"),
        )


def _hosted(schema: str) -> bool:
    return schema in _HOSTED or schema.removesuffix("s") in _HOSTED


def _refuse_local(schema: str, field_: str) -> None:
    if schema in _LOCAL:
        raise api.ConfigError(f"{schema} reaches into this machine", field=field_, mend="leave it out")


def _host(url: str) -> str:
    """Host and port; nothing where two readers might understand two hosts."""
    try:
        netloc = urlsplit(url).netloc.lower()
    except ValueError:
        return ""
    return "" if re.search(r"[@%\[\]]", netloc) else netloc
