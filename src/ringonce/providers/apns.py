"""Apple Push Notification service: one HTTP/2 call per device, signed with a token of the team.

Facts: developer.apple.com, Sending notification requests to APNs, Handling notification responses from APNs,
Establishing a token-based connection to APNs; the reasons also in sideshow/apns2 ``response.go``.

A team may change its token once in 20 minutes and must once in 60. Workers that do not know of each other keep to it by
making the same one: its time is the begin of a window of 40 minutes, and the signature draws no lots (RFC 6979).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from uuid import uuid5

import ringonce.provider as api
from ringonce.provider import OutcomeClass as To

_DOC = "developer.apple.com, Handling notification responses from APNs"
_HOSTS = {"production": "https://api.push.apple.com", "development": "https://api.sandbox.push.apple.com"}
_LARGEST = 4_096
_MONTH = 2_592_000  # seconds; nothing is kept for longer
_WINDOW, _LAG = 2_400, 600  # seconds; tokens are 10 to 50 minutes old when used: clocks may be 10 minutes off
_TOKEN = re.compile(r"(?:[0-9a-f]{2}){32,100}")  # 32 bytes today, of no promised length
_FORMS = {"team_id": "[A-Z0-9]{10}", "key_id": "[A-Z0-9]{10}", "topic": "[A-Za-z0-9.-]{1,155}"}
_KEYS = "BadCertificateEnvironment BadEnvironmentKeyInToken BadEnvironmentKeyIdInToken UnrelatedKeyIdInToken"
_OURS = "BadCollapseId BadExpirationDate BadMessageId BadPath BadPriority DuplicateHeaders InvalidPushType PayloadEmpty"


def _told(name: str, cls: To, reasons: str, source: str = _DOC, **more: object) -> api.Rule:
    """An answer with one of these reasons."""
    return api.Rule(f"apns.{name}", cls, source, json={"reason": tuple(reasons.split())}, **more)  # type: ignore[arg-type]


RULES: tuple[api.Rule, ...] = (
    api.Rule("apns.accepted", To.ACCEPTED, _DOC, status=200, text=r"^\s*$", message_id="header:apns-id"),
    *api.JSON_API,
    # It proves nothing about a device that registered anew: see ``outcome``.
    _told("unregistered", To.INVALID_RECIPIENT, "Unregistered ExpiredToken", status=410, drop_address=True),
    # About one device; about all where environment or topic is set wrong, which the engine's breaker is for.
    _told("bad_token", To.INVALID_RECIPIENT, "BadDeviceToken", status=400, drop_address=True),
    _told("other_topic", To.INVALID_RECIPIENT, "DeviceTokenNotForTopic", status=400, drop_address=True),
    _told("topic", To.AUTH, "BadTopic MissingTopic TopicDisallowed", scope="sender"),
    _told("expired", To.AUTH, "ExpiredProviderToken", f"{_DOC}; a clock may be wrong", refresh=True),
    _told("too_many_tokens", To.AUTH, "TooManyProviderTokenUpdates"),
    _told("refused", To.AUTH, f"BadCertificate Forbidden InvalidProviderToken MissingProviderToken {_KEYS}"),
    _told("busy_device", To.RATE_LIMITED, "TooManyRequests", scope="address"),
    _told("failed", To.TRANSIENT, "IdleTimeout InternalServerError ServiceUnavailable Shutdown"),
    _told("our_mistake", To.INVALID_PAYLOAD, f"MethodNotAllowed MissingDeviceToken PayloadTooLarge {_OURS}"),
)


@dataclass(frozen=True)
class ApnsOptions:
    """``key``: the .p8 file's path, or its text. ``topic``: the bundle id. ``environment``: production or development.

    ``sound``: what an alert plays; empty: nothing. ``base_url``: of a server that stands in.
    """

    key: str = field(repr=False, metadata={"file": True})
    key_id: str
    team_id: str
    topic: str
    environment: str = "production"
    sound: str = "default"
    base_url: str = ""


class Apns(api.Provider):
    """Messages to apps on Apple's devices."""

    name = "apns"
    title = "Apple Push Notification service"
    features = api.Features(data=True, max_bytes=_LARGEST)
    in_doubt = api.InDoubt.RESEND
    second_send = "replaced, may alert again; data only: delivered again"
    push = True
    rules = tuple(replace(rule, provider_code="json:reason") for rule in RULES)
    Options = ApnsOptions

    def __init__(self, options: ApnsOptions) -> None:
        """Read the key. Raises ConfigError; its message never repeats the key."""
        super().__init__(options)
        for name, form in {**_FORMS, "environment": "|".join(_HOSTS)}.items():
            if not re.fullmatch(form, getattr(options, name)):
                raise api.ConfigError("this is none", field=name, mend=f"it has the form {form}")
        self._url = api.http_url(options.base_url or _HOSTS[options.environment], "base_url")
        key = api.es256_key(options.key, "key", "give the .p8 file as it was downloaded")
        head, team = {"kid": options.key_id}, options.team_id
        self._team = f"apns:{team}:{options.key_id}"  # one for each connection: jchambers/pushy#437
        self._token = lru_cache(maxsize=2)(lambda at: api.es256(key, head, {"iss": team, "iat": at}))

    @cached_property
    def account(self) -> str:
        """Team, key, app and environment: what a refusal is about."""
        return ":".join(("apns", *(getattr(self.options, name) for name in (*_FORMS, "environment"))))

    def address(self, value: object) -> str:
        """The device's token in hexadecimal digits. Raises InputError."""
        text = value.strip(" ").lower() if isinstance(value, str) else ""
        if not _TOKEN.fullmatch(text):
            raise api.InputError("this is no device token", field="address", mend="give its hex digits")
        return text

    def check(self, content: api.Content) -> None:
        """Refuse HTML alone, a key ``aps`` among the data, and more than 4,096 bytes."""
        super().check(content)
        self._payload(content)

    def request(self, message: api.Message, address: api.Address, context: api.Context) -> api.HttpRequest:
        """The call. Its ids come from the reference, so that they stay the same over all attempts."""
        now, said = context.now // 1_000_000, message.content
        shown = bool(said.title or said.text)
        until = now + _MONTH if message.expires_at is None else max(0, message.expires_at // 1_000_000)
        headers = (
            ("content-type", "application/json"),
            ("user-agent", "ringonce"),
            ("authorization", f"bearer {self._token((now - _LAG) // _WINDOW * _WINDOW)}"),
            ("apns-topic", self.options.topic),
            ("apns-push-type", "alert" if shown else "background"),
            ("apns-priority", "10" if shown and message.priority != "low" else "5"),
            ("apns-expiration", str(until)),
            ("apns-id", str(message.id if message.revision == 1 else uuid5(message.id, message.reference))),
            ("apns-collapse-id", message.reference),
        )
        url, body = f"{self._url}/3/device/{address.value}", self._payload(said)
        return api.HttpRequest("POST", url, headers, body, context.timeout, http2=True, connection=self._team)

    @classmethod
    def outcome(cls, answer: api.Answer, context: api.Context) -> api.Outcome:
        """A token that was registered after it was seen dead (``timestamp``, in milliseconds) is alive again."""
        outcome = super().outcome(answer, context)
        if outcome.rule != "apns.unregistered" or not isinstance(answer, api.HttpAnswer):
            return outcome
        at = json.loads(answer.body).get("timestamp")
        if type(at) is not int or not 0 < at < 10**15:
            return outcome
        proof = min(at * 1_000, context.now)
        alive = context.registered_at is not None and context.registered_at > proof
        return replace(outcome, proof_at=proof, drop_address=not alive)

    def _payload(self, content: api.Content) -> bytes:
        """Raises InputError, PayloadTooLarge."""
        alert = {key: text for key, text in (("title", content.title), ("body", content.text)) if text}
        sound = {"sound": self.options.sound} if self.options.sound else {}
        aps = {"alert": alert, **sound} if alert else {"content-available": 1}
        if "aps" in content.data:
            raise api.InputError("this name is taken", field="content.data.aps", mend="use another name")
        return api.json_bytes({"aps": aps, **content.data}, most=_LARGEST)
