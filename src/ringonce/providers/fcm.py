"""Firebase Cloud Messaging by its HTTP v1 API: one call per device, with a token of its own grant.

Facts: https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages and …/v1/ErrorCode; recorded answers in
bloomberg/pushiko docs/fcm_responses.md; the Admin SDK's names in firebase/firebase-admin-node src/messaging/error.ts.
The grant is RFC 7523 section 2.1 with a service account (https://developers.google.com/identity/protocols/oauth2/service-account).

No status decides alone: 400, 403 and 404 may each be about the token, the payload or the project, so that only a detail
of type ``FcmError`` proves a token dead. A repeat under the same tag replaces what is shown, and may alert again; a
message of data only is simply delivered again.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlencode

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from ringonce.provider import (
    JSON_API,
    Address,
    Answer,
    ConfigError,
    Content,
    Context,
    Credential,
    Features,
    HttpAnswer,
    HttpRequest,
    InDoubt,
    InputError,
    Message,
    Outcome,
    OutcomeClass,
    PayloadTooLarge,
    Provider,
    Rule,
    base64url,
    classify,
    http_url,
)

_REF = "firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode"
_RECORDED = "bloomberg/pushiko docs/fcm_responses.md"
_ADMIN = "firebase/firebase-admin-node src/messaging/error.ts"
_QUOTA = "firebase.google.com/docs/cloud-messaging/throttling-and-quotas"
_OAUTH = "RFC 6749 section 5.2, RFC 7523 section 3.1"

_ERROR_CODE = "error.details.*.errorCode"
_FIELD = "error.details.*.fieldViolations.*.field"
_WAIT = ("json:error.details.*.retryDelay",)
_FLOOR = 60  # seconds; what a 429 without Retry-After means
_LARGEST = 4_096
_LONGEST_TTL = 2_419_200
_JSON = "application/json"

_IR = OutcomeClass.INVALID_RECIPIENT
_IP = OutcomeClass.INVALID_PAYLOAD
_A = OutcomeClass.AUTH
_T = OutcomeClass.TRANSIENT
_R = OutcomeClass.RATE_LIMITED


def _admin(name: str, cls: OutcomeClass, words: str, **then: Any) -> Rule:
    """What other programs report: the SDK's name for the error, without an HTTP status."""
    return Rule(
        f"fcm.admin_{name}",
        cls,
        _ADMIN,
        status=0,
        text=rf"^messaging/(?:{words})$",
        at="code",
        provider_code="json:code",
        **then,
    )


def _coded(name: str, cls: OutcomeClass, code: str | tuple[str, ...], source: str, **then: Any) -> Rule:
    """An answer whose details hold an ``FcmError`` with this code."""
    return Rule(
        f"fcm.{name}", cls, source, json={_ERROR_CODE: code}, provider_code=f"json:{_ERROR_CODE}", **then
    )


def _plain(name: str, cls: OutcomeClass, status: Any, source: str, **more: Any) -> Rule:
    """An answer known by its status and the canonical error's name."""
    return Rule(f"fcm.{name}", cls, source, status=status, provider_code="json:error.status", **more)


RULES: tuple[Rule, ...] = (
    Rule(
        "fcm.accepted",
        OutcomeClass.ACCEPTED,
        "firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send",
        status=range(200, 300),
        text=r".",
        at="name",
        message_id="json:name",
    ),
    *JSON_API,
    _admin(
        "token",
        _IR,
        "registration-token-not-registered|installation-id-not-registered|invalid-registration-token",
        drop_address=True,
    ),
    _admin(
        "payload",
        _IP,
        "invalid-argument|invalid-recipient|invalid-payload|invalid-data-payload-key|invalid-options"
        "|invalid-package-name|payload-size-limit-exceeded|too-many-topics",
    ),
    # The SDK folds the token's mismatch and our own missing permission into one name: no proof, so no drop.
    _admin("auth", _A, "mismatched-credential|authentication-error|invalid-apns-credentials"),
    _admin("platform", _A, "third-party-auth-error", scope="platform"),
    _admin("limited", _R, r"[a-z-]*rate-exceeded|quota-exceeded"),
    _admin("failed", _T, r"[a-z-]*"),
    _coded("unregistered", _IR, "UNREGISTERED", _REF, drop_address=True),
    _coded(
        "sender_mismatch",
        _IR,
        "SENDER_ID_MISMATCH",
        "github.com/beste/firebase-php/issues/1123",
        drop_address=True,
    ),
    _coded(
        "platform_key",
        _A,
        ("THIRD_PARTY_AUTH_ERROR", "APNS_AUTH_ERROR"),
        "github.com/firebase/firebase-admin-node/issues/3215: a key inside the project, of one platform",
        scope="platform",
    ),
    _coded("quota", _R, "QUOTA_EXCEEDED", _QUOTA, retry_after=_WAIT),
    Rule(
        "fcm.bad_token",
        _IR,
        _RECORDED,
        status=400,
        json={_ERROR_CODE: "INVALID_ARGUMENT", _FIELD: ("message.token", "message.fid")},
        provider_code=f"json:{_ERROR_CODE}",
        drop_address=True,
    ),
    Rule(
        "fcm.no_token",
        _IR,
        "firebase.google.com/docs/cloud-messaging/error-codes",
        status=400,
        json={_ERROR_CODE: "INVALID_ARGUMENT"},
        text=r"not a valid FCM registration token",
        at="error.message",
        provider_code=f"json:{_ERROR_CODE}",
        drop_address=True,
    ),
    _plain("invalid_argument", _IP, 400, _RECORDED),
    _plain(
        "unauthenticated",
        _A,
        401,
        "policy: the access token expired before its time, or was revoked",
        refresh=True,
    ),
    _plain("permission_denied", _A, 403, "github.com/firebase/firebase-admin-go/issues/238"),
    _plain(
        "not_found",
        _IR,
        404,
        "github.com/firebase/firebase-admin-dotnet/issues/73: no FcmError, so no proof",
        form=("json",),
    ),
    _plain("limited", _R, 429, _QUOTA, retry_after=_WAIT),
    _plain("deadline", _T, 504, "policy: the message may have been taken", retry_after=_WAIT, ambiguous=True),
    _plain("failed", _T, (500, 502, 503), _RECORDED, retry_after=_WAIT),
)

GRANT_RULES: tuple[Rule, ...] = (
    Rule(
        "fcm.grant_without_token",
        _T,
        "RFC 6749 section 5.1: no usable access_token",
        status=range(200, 300),
    ),
    Rule("fcm.grant_throttled", _R, "RFC 6585 section 4", status=429),
    Rule("fcm.grant_timeout", _T, "RFC 9110 section 15.5.9", status=408),
    Rule("fcm.grant_refused", _A, _OAUTH, status=range(400, 500), provider_code="json:error"),
)

_SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
_GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LIFE = 3_600  # seconds; the longest that the assertion may be good for
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
_FID = re.compile(r"[A-Za-z0-9_-]{22}")  # Firebase installation id: 17 bytes in base64url
_PROJECT = re.compile(r"[a-z0-9.:-]{1,100}")
_RESERVED = re.compile(r"from$|message_type$|gcm|google")


@dataclass(frozen=True)
class FcmOptions:
    """``credentials``: the service account's JSON, or the path of the file that holds it (from the configuration's).

    ``project_id``: the credentials' own, unless another one is named. ``base_url``: of a server that stands in.
    """

    credentials: str | dict[str, Any] = field(repr=False, metadata={"file": True})
    project_id: str = ""
    base_url: str = "https://fcm.googleapis.com"


class Fcm(Provider):
    """Messages to apps on Android, iOS and the web."""

    name = "fcm"
    title = "Firebase Cloud Messaging (HTTP v1)"
    answers_as = ("fcm_admin",)
    features = Features(data=True, max_bytes=_LARGEST)
    in_doubt = InDoubt.RESEND
    second_send = "replaced, may alert again; data only: delivered again"
    push = True
    rules = RULES
    Options = FcmOptions

    def __init__(self, options: FcmOptions) -> None:
        """Read the service account. Raises ConfigError; its message never repeats what the credentials hold."""
        super().__init__(options)
        account = _service_account(options.credentials)
        self._email, self._token_uri, self._key_id = account.email, account.token_uri, account.key_id
        self._key = account.key
        project = options.project_id or account.project_id
        if not _PROJECT.fullmatch(project):
            raise ConfigError("there is no project id", field="project_id", mend="write the project's id")
        self._project = project
        self._url = (
            f"{http_url(options.base_url, 'base_url')}/v1/projects/{quote(project, safe='')}/messages:send"
        )
        self._headers: tuple[str | None, tuple[tuple[str, str], ...]] = (None, ())

    @cached_property
    def account(self) -> str:
        """The project, and a digest of the service account with its key."""
        told = f"{self._email} {self._key_id} {self._token_uri}".encode()
        return f"fcm:{self._project}:{hashlib.sha256(told).hexdigest()[:8]}"

    def address(self, value: object) -> str:
        """A registration token, as text or ``{"token": …}``; an installation id as ``{"fid": …}`` or ``fid:…``."""
        kind, text = "token", value
        if isinstance(value, dict) and len(value) == 1:
            kind, text = next(iter(value.items()))
        if isinstance(text, str) and kind == "token":
            text = text.strip()
            if text.startswith("fid:"):
                kind, text = "fid", text.removeprefix("fid:")
            elif _TOKEN.fullmatch(text):
                return text
        if kind == "fid" and isinstance(text, str) and _FID.fullmatch(text):
            return f"fid:{text}"
        raise InputError(
            "this is neither a registration token nor an installation id",
            field="address",
            mend='give the text that the app got from getToken(), or {"fid": "…"}',
        )

    def check(self, content: Content) -> None:
        """Refuse HTML alone, data that are no texts, reserved names, and more than 4,096 bytes."""
        super().check(content)
        _said(content)

    def grant(self, context: Context) -> HttpRequest:
        """The exchange of a signed assertion for an access token."""
        now = context.now // 1_000_000
        header = {"alg": "RS256", "typ": "JWT", "kid": self._key_id}
        claims = {
            "iss": self._email,
            "scope": _SCOPE,
            "aud": self._token_uri,
            "iat": now,
            "exp": now + _LIFE,
        }
        signed = f"{base64url(_compact(header))}.{base64url(_compact(claims))}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        form = {"grant_type": _GRANT_TYPE, "assertion": f"{signed}.{base64url(signature)}"}
        return HttpRequest(
            method="POST",
            url=self._token_uri,
            headers=(("content-type", "application/x-www-form-urlencoded"), ("user-agent", "ringonce")),
            body=urlencode(form).encode(),
            timeout=context.timeout,
        )

    def granted(self, answer: Answer, context: Context) -> Credential | Outcome:
        """The access token and its end (RFC 6749 section 5.1)."""
        if isinstance(answer, HttpAnswer) and answer.status == 200 and not answer.truncated:
            try:
                told = json.loads(answer.body)
            except (ValueError, RecursionError):
                told = None
            token = told.get("access_token") if isinstance(told, dict) else None
            if isinstance(told, dict) and isinstance(token, str) and _TOKEN.fullmatch(token):
                life = told.get("expires_in")
                if type(life) is not int or not 0 < life < 10**9:
                    return Credential(token)
                return Credential(token, context.now + life * 1_000_000)
            # What came may hold a token all the same: it is not quoted.
            answer = replace(answer, body=b"")
        return classify(answer, GRANT_RULES, push=False, now=context.now)

    def request(self, message: Message, address: Address, context: Context) -> HttpRequest:
        """The call. The reference is the tag that a repeat replaces the first one by, on each platform."""
        if context.credential is None:
            raise TypeError("an access token is needed")
        body = _body(message, address.value, context.now)
        return HttpRequest("POST", self._url, self._authorised(context.credential), body, context.timeout)

    def _authorised(self, token: str) -> tuple[tuple[str, str], ...]:
        """The headers: the same object for as long as the token is the same, which the wire is quicker with."""
        if self._headers[0] != token:
            headers = (
                ("content-type", _JSON),
                ("user-agent", "ringonce"),
                ("authorization", f"Bearer {token}"),
                # Without it an error may come in a form that does not say whose fault it was.
                ("x-goog-api-format-version", "2"),
            )
            self._headers = (token, headers)
        return self._headers[1]

    @classmethod
    def outcome(cls, answer: Answer, context: Context) -> Outcome:
        """A limit that names no wait means a minute (matrix-org/sygnal sygnal/gcmpushkin.py)."""
        outcome = super().outcome(answer, context)
        if outcome.cls is _R and outcome.retry_after_s is None:
            return replace(outcome, retry_after_s=_FLOOR)
        return outcome


# What stands for the address and the reference in a form: no text that UTF-8 can hold has either in it.
_TO: Final = "\udc01"
_TAG: Final = "\udc02"
_About: TypeAlias = tuple[str, str, str | None, int | None, int | None]
"""Kind of address, priority, collapse key, seconds to live, end of life."""


def _body(message: Message, value: str, now: int) -> bytes:
    """The request's body. What many messages of an event have in common is put together once."""
    content = message.content
    ttl = until = None
    if message.expires_at is not None:
        ttl = min(max(0, (message.expires_at - now) // 1_000_000), _LONGEST_TTL)
        until = now // 1_000_000 + ttl
    kind = "token"
    if value.startswith("fid:"):
        kind, value = "fid", value[4:]
    about = (kind, message.priority, message.collapse, ttl, until)
    if all(type(value) is str for value in content.data.values()):
        before, *after = _same(content.title, content.text, tuple(content.data.items()), about)
    else:
        before, *after = _form(content, about)
    return f"{before}{encode_basestring(value)}{encode_basestring(message.reference).join(after)}".encode()


@lru_cache(maxsize=256)
def _same(
    title: str | None, text: str | None, data: tuple[tuple[str, object], ...], about: _About
) -> tuple[str, ...]:
    return _form(Content(title, text, data=dict(data)), about)


def _form(content: Content, about: _About) -> tuple[str, ...]:
    """The ``Message`` resource in pieces: before the address, then between and behind the references.

    Raises:
        UnicodeEncodeError: The content holds half of a surrogate pair, which the stand-ins are made of.
    """
    kind, priority, collapse, ttl, until = about
    said = _said(content)
    (collapse or "").encode()
    android: dict[str, object] = {}
    headers: dict[str, str] = {"apns-collapse-id": _TAG}
    web: dict[str, str] = {}
    if collapse is not None:  # at most four keys wait for a device, so ours must not use them up
        android["collapse_key"] = collapse
    if priority != "normal":
        android["priority"] = "HIGH" if priority == "high" else "NORMAL"
        headers["apns-priority"] = "10" if priority == "high" else "5"
        web["Urgency"] = priority
    if ttl is not None:
        android["ttl"] = f"{ttl}s"
        headers["apns-expiration"] = str(until)
        web["TTL"] = str(ttl)
    apns: dict[str, object] = {"headers": headers}
    webpush: dict[str, object] = {"headers": web} if web else {}
    if "notification" in said:
        android["notification"] = {"tag": _TAG}
        webpush["notification"] = {"tag": _TAG}
    else:
        # Data only wake the app in the background, which iOS allows at this priority alone.
        headers |= {"apns-priority": "5", "apns-push-type": "background"}
        apns["payload"] = {"aps": {"content-available": 1}}
    platforms = {"android": android, "apns": apns, "webpush": webpush}
    told = {kind: _TO, **said, **{name: given for name, given in platforms.items() if given}}
    before, _, after = _json({"message": told}).partition(f'"{_TO}"')
    return before, *after.split(f'"{_TAG}"')


def _said(content: Content) -> dict[str, object]:
    """Title, text and data as the resource holds them. Raises InputError, PayloadTooLarge."""
    shown = {key: text for key, text in (("title", content.title), ("body", content.text)) if text}
    said: dict[str, object] = {"notification": shown} if shown else {}
    for key, value in content.data.items():
        if not isinstance(value, str):
            raise InputError(
                "a push carries texts only", field=f"content.data.{key}", mend="write the value as a text"
            )
        if not key or _RESERVED.match(key):
            raise InputError(
                "this name is reserved: from, message_type, gcm…, google…",
                field=f"content.data.{key}",
                mend="use another name",
            )
    if content.data:
        said["data"] = dict(content.data)
    # A byte becomes six at most, and no more stands between two texts: few contents have to be counted.
    texts = " ".join([*shown.values(), *content.data, *map(str, content.data.values())]).encode()
    if 6 * len(texts) + 64 > _LARGEST and (size := len(_compact(said))) > _LARGEST:
        raise PayloadTooLarge(
            f"{size} bytes of title, text and data, and a push carries {_LARGEST}",
            field="content",
            mend="send less, and let the app fetch the rest",
        )
    return said


@dataclass(frozen=True)
class _Account:
    """What is needed of a service account."""

    email: str
    project_id: str
    token_uri: str
    key_id: str
    key: rsa.RSAPrivateKey


def _service_account(given: str | dict[str, Any]) -> _Account:
    """Raises ConfigError."""
    mend = "download a key for the service account in the project's settings, as JSON"
    try:
        told = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise ConfigError("this is no JSON object", field="credentials", mend=mend)
    texts: dict[str, str] = {}
    for name in ("client_email", "private_key", "token_uri"):
        value = told.get(name)
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(f"there is no {name} in it", field="credentials", mend=mend)
        texts[name] = value.strip()
    try:
        key = serialization.load_pem_private_key(texts["private_key"].encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ConfigError("its private_key is no RSA key in PEM", field="credentials", mend=mend)
    return _Account(
        email=texts["client_email"],
        project_id=str(told.get("project_id") or ""),
        token_uri=http_url(texts["token_uri"], "credentials"),
        key_id=str(told.get("private_key_id") or ""),
        key=key,
    )


_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _compact(value: object) -> bytes:
    return _json(value).encode()
