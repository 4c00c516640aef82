"""Acme's answers, and everything that ringonce relies on."""

from ringonce import testing
from ringonce.provider import HttpAnswer
from ringonce.testing import Case

CASES = [
    Case("taken", HttpAnswer(200, body=b'{"ok": true, "id": "p-7"}'), "accepted", message_id="p-7"),
    Case("a proxy's page", HttpAnswer(200, body=b"<html>"), "transient"),
    Case("no verdict", HttpAnswer(200), "transient", ambiguous=True),
    Case("too fast", HttpAnswer(400, body=b'{"ok": false, "error": "too_fast"}'), "rate_limited"),
    Case(
        "no such pager",
        HttpAnswer(400, body=b'{"ok": false, "error": "no_such_pager"}'),
        "invalid_recipient",
        drop_address=True,
    ),
    Case("an unknown error", HttpAnswer(400, body=b'{"ok": false, "error": "new"}'), "invalid_payload"),
    Case("wrong key", HttpAnswer(401, body=b'{"ok": false, "error": "key"}'), "auth", scope="channel"),
]


def test_acme() -> None:
    """The provider is found by its name and passes the kit."""
    testing.check_provider(
        "acme", {"key": "acme-key-1"}, address="4815162342", cases=CASES, bad_addresses=["12", "48-15"]
    )
