"""The channel that is measured: the provider ``fcm`` against the stub, and the message that everybody sends."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

if TYPE_CHECKING:
    from benchmarks.kit.servers import Stub

PROJECT = "bench"
CHANNEL = "push"
CONTENT = {"title": "Order 1042", "text": "Your order has left the warehouse.", "data": {"order": "1042"}}


@functools.cache
def _key() -> str:
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made.private_bytes(*form).decode()


def account(stub: Stub) -> dict[str, str]:
    """A service account whose tokens the stub grants."""
    return {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": "bench",
        "private_key": _key(),
        "client_email": f"push@{PROJECT}.example.com",
        "token_uri": stub.token_uri,
    }


def config(
    stub: Stub, url: str, /, *, channel: dict[str, Any] | None = None, **sections: Any
) -> dict[str, Any]:
    """The structure of ``ringonce.toml``: one channel on the stub, 100 calls at the same time.

    Args:
        stub: the vendor.
        url: the database, e.g. ``database.url("asyncpg")``.
        channel: more keys of the channel.
        **sections: more sections.
    """
    push = {
        "provider": "fcm",
        "credentials": json.dumps(account(stub)),
        "base_url": stub.base_url,
        "concurrency": 100,
        **(channel or {}),
    }
    return {"store": {"url": url}, "channels": {CHANNEL: push}, **sections}


def event(number: int) -> dict[str, Any]:
    """What an application hands to ringonce: event ``number`` with an address of its own."""
    return {"event_id": f"bench-{number}", "to": {CHANNEL: token(number)}, "content": CONTENT}


def token(number: int) -> str:
    """A registration token of the usual length."""
    return f"dHIoDxE7Hdg:APA91bH1Zj0kNa{number:0>116}"


def template() -> str:
    """The body that ringonce's provider makes, for programs without ringonce, so that all send as many bytes.

    ``@NUMBER@`` stands for twelve digits, once in the token and once in each reference.
    """
    reference = "00000000-0000-7000-8000-@NUMBER@"
    return json.dumps(
        {
            "message": {
                "token": f"dHIoDxE7Hdg:APA91bH1Zj0kNa{'0' * 104}@NUMBER@",
                "notification": {"title": CONTENT["title"], "body": CONTENT["text"]},
                "data": CONTENT["data"],
                "android": {"notification": {"tag": reference}},
                "apns": {"headers": {"apns-collapse-id": reference}},
                "webpush": {"notification": {"tag": reference}},
            }
        },
        separators=(",", ":"),
    )


HEADERS = {
    "content-type": "application/json",
    "authorization": "Bearer ya29.bench",
    "x-goog-api-format-version": "2",
}
