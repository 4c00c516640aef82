"""A stand-in for Firebase Cloud Messaging: the token endpoint of a service account, and ``messages:send`` (HTTP v1).

Facts: RFC 7523 (the grant), firebase.google.com/docs/reference/fcm/rest/v1 and the recorded answers in
bloomberg/pushiko ``docs/fcm_responses.md`` (bodies). Access tokens are checked, so are the assertion's signature,
audience, scope and time. In a plan, the stage ``token`` is the token endpoint.

As a program: ``python -m ringonce.vendors.fcm --credentials account.json --dead TOKEN --fault 503:first=20`` writes
the service account to that file before it prints its port.
"""

from __future__ import annotations

import json
import secrets
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from ringonce.core.base64url import from_base64url
from ringonce.vendors.http import Call, HttpStandIn, Reply
from ringonce.vendors.standin import arguments, common

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ringonce.vendors.script import Fault

MAX_PAYLOAD = 4096
"""Bytes of notification and data."""
TOKEN_PATH = "/token"  # noqa: S105 - a path
_JSON = ("Content-Type", "application/json; charset=UTF-8")
_SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
_BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
_UNAUTHENTICATED = (
    "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other "
    "valid authentication credential."
)
_WORDS: dict[int, tuple[str, str, str | None]] = {
    400: ("INVALID_ARGUMENT", "Request contains an invalid argument.", "INVALID_ARGUMENT"),
    401: ("UNAUTHENTICATED", _UNAUTHENTICATED, None),
    403: ("PERMISSION_DENIED", "The caller does not have permission", None),
    404: ("NOT_FOUND", "Requested entity was not found.", "UNREGISTERED"),
    429: ("RESOURCE_EXHAUSTED", "Quota exceeded for quota metric.", "QUOTA_EXCEEDED"),
    500: ("INTERNAL", "Internal error encountered.", "INTERNAL"),
    503: ("UNAVAILABLE", "The service is currently unavailable.", "UNAVAILABLE"),
}


class FcmApi(HttpStandIn):
    """Knows one project and one service account, whose key it makes itself (see ``credentials``).

    Args:
        project: the project's id.
        dead: registration tokens of apps that are gone (404 UNREGISTERED).
        mismatched: tokens of another project (403 SENDER_ID_MISMATCH).
        lifetime: seconds that an access token is good for.
        clock: seconds UTC.
        credentials_file: where to write ``credentials`` once the port is known.
        more: see StandIn.
    """

    def __init__(
        self,
        project: str = "demo-project",
        *,
        dead: Collection[str] = (),
        mismatched: Collection[str] = (),
        lifetime: int = 3600,
        clock: Callable[[], float] = time.time,
        credentials_file: str | Path | None = None,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.project = project
        self.dead = set(dead)
        self.refuse_grants = False
        """The service account's key was revoked: every grant is answered ``invalid_grant``."""
        self.messages: list[dict[str, Any]] = []
        """What was accepted, in order."""
        self._mismatched = frozenset(mismatched)
        self._lifetime = lifetime
        self._clock = clock
        self._file = credentials_file
        self._tokens: dict[str, float] = {}

    # What the sender needs.

    @cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def credentials(self) -> dict[str, str]:
        """The service account as its JSON file would hold it; complete once the server listens."""
        pem = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return {
            "type": "service_account",
            "project_id": self.project,
            "private_key_id": "1",
            "private_key": pem.decode(),
            "client_email": f"push@{self.project}.iam.gserviceaccount.com",
            "token_uri": self.url + TOKEN_PATH,
        }

    def revoke(self) -> None:
        """Let every access token that was given out be refused from now on."""
        self._tokens.clear()

    async def _serve(self, ready: Callable[[], None]) -> None:
        def listening() -> None:
            if self._file is not None:
                Path(self._file).write_text(json.dumps(self.credentials), "utf-8")
            ready()

        await super()._serve(listening)

    # The server.

    def stage(self, call: Call) -> str:
        """``token`` for the token endpoint."""
        return "token" if call.path == TOKEN_PATH else ""

    def identify(self, call: Call) -> tuple[str, str]:
        """The tag that a repeat is replaced by, and the registration token."""
        if self.stage(call):
            return "", TOKEN_PATH
        message = _message(call)
        headers = _inside(message, "apns", "headers")
        return str(headers.get("apns-collapse-id", "")), _recipient(message)

    def respond(self, call: Call) -> Reply:
        """What the vendor says."""
        if self.stage(call):
            return self._grant(call)
        if not call.path.endswith("/messages:send"):
            page = b"<!DOCTYPE html><title>Error 404 (Not Found)!!1</title>"
            return Reply(404, page, (("Content-Type", "text/html; charset=UTF-8"),))
        bearer = call.headers.get("authorization", "").removeprefix("Bearer ")
        if self._tokens.get(bearer, 0.0) <= self._clock():
            return _error(401)
        if call.path != f"/v1/projects/{self.project}/messages:send":
            return _error(403)
        return self._send(_message(call))

    def refusal(self, fault: Fault) -> Reply:
        """An error as the vendor words it."""
        if fault.body is not None:
            return Reply(fault.status, fault.body, fault.headers)
        reply = _error(fault.status)
        return Reply(fault.status, reply.body, (*reply.headers, *fault.headers))

    def _send(self, message: dict[str, Any]) -> Reply:
        token = _recipient(message)
        if not token:
            field = {"field": "message", "description": "Recipient of the message is not set."}
            return _error(400, "Recipient of the message is not set.", "INVALID_ARGUMENT", field)
        data = message.get("data", {})
        for index, value in enumerate(data.values()):
            if not isinstance(value, str):
                words = f"Invalid value at 'message.data[{index}].value' (TYPE_STRING), {json.dumps(value)}"
                field = {"field": f"message.data[{index}].value", "description": words}
                return _error(400, words, None, field)
        said = {"notification": message.get("notification", {}), "data": data}
        if sum(len(f"{k}{v}".encode()) for part in said.values() for k, v in part.items()) > MAX_PAYLOAD:
            return _error(400, _WORDS[400][1], None)
        if " " in token:
            field = {"field": "message.token", "description": "Invalid registration token"}
            return _error(400, _WORDS[400][1], "INVALID_ARGUMENT", field)
        if token in self.dead:
            return _error(404)
        if token in self._mismatched:
            return _error(403, "SenderId mismatch", "SENDER_ID_MISMATCH")
        self.messages.append(message)
        name = {"name": f"projects/{self.project}/messages/0:{len(self.messages)}"}
        return Reply(200, json.dumps(name).encode(), (_JSON,), accepted=True)

    def _grant(self, call: Call) -> Reply:
        """RFC 6749 section 5."""
        form = {name: values[-1] for name, values in parse_qs(call.body.decode("utf-8", "replace")).items()}
        if form.get("grant_type") != _GRANT:
            return _refused("unsupported_grant_type", "Invalid grant_type")
        if self.refuse_grants or not self._valid(form.get("assertion", "")):
            return _refused("invalid_grant", "Invalid JWT Signature.")
        token = f"ya29.{secrets.token_urlsafe(24)}"
        self._tokens[token] = self._clock() + self._lifetime
        body = {"access_token": token, "expires_in": self._lifetime, "token_type": "Bearer"}
        return Reply(200, json.dumps(body).encode(), (_JSON,), verdict="granted")

    def _valid(self, assertion: str) -> bool:
        signed, _, signature = assertion.rpartition(".")
        try:
            claims = json.loads(from_base64url(signed.partition(".")[2]))
            self._key.public_key().verify(
                from_base64url(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256()
            )
        except (InvalidSignature, ValueError):
            return False
        now = self._clock()
        told = {name: claims.get(name) for name in ("iss", "aud", "scope")}
        ours = {"iss": self.credentials["client_email"], "aud": self.url + TOKEN_PATH, "scope": _SCOPE}
        since, until = int(claims.get("iat", 0)), int(claims.get("exp", 0))
        return told == ours and since <= now + 60 and now < until <= since + 3600


def _message(call: Call) -> dict[str, Any]:
    try:
        body = json.loads(call.body)
    except ValueError:
        return {}
    return _inside(body if isinstance(body, dict) else {}, "message")


def _inside(value: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        found = value.get(name)
        value = found if isinstance(found, dict) else {}
    return value


def _recipient(message: dict[str, Any]) -> str:
    return str(message.get("token") or message.get("fid") or "")


def _error(
    status: int, message: str = "", code: str | None = "", violation: dict[str, str] | None = None
) -> Reply:
    """The error of a status, or one with its own words, ``FcmError`` code and field."""
    name, words, usual = _WORDS.get(status, ("UNKNOWN", "Unknown error.", None))
    code = usual if code == "" else code
    error: dict[str, Any] = {"code": status, "message": message or words, "status": name}
    details: list[dict[str, Any]] = []
    if code is not None:
        details.append({"@type": _FCM_ERROR, "errorCode": code})
    if violation is not None:
        details.append({"@type": _BAD_REQUEST, "fieldViolations": [violation]})
    if details:
        error["details"] = details
    return Reply(status, json.dumps({"error": error}).encode(), (_JSON,))


def _refused(error: str, words: str) -> Reply:
    body = {"error": error, "error_description": words}
    return Reply(400, json.dumps(body).encode(), (_JSON,), verdict=error)


def main() -> None:
    """Run as a program."""
    parser = arguments("A stand-in for Firebase Cloud Messaging that fails as it is told.")
    parser.add_argument("--project", default="demo-project")
    parser.add_argument(
        "--credentials", required=True, metavar="FILE", help="where to write the service account"
    )
    parser.add_argument("--dead", action="append", default=[], metavar="TOKEN")
    options = parser.parse_args()
    FcmApi(
        options.project, dead=options.dead, credentials_file=options.credentials, **common(options)
    ).run_until_stopped()


if __name__ == "__main__":
    main()
