"""Field reports about chats: answers that are 200 and no, texts that mention. The ids are those of the reference."""

import json

import pytest

from ringonce import registry
from ringonce.model.exchange import HttpAnswer, HttpRequest
from ringonce.model.notification import Content
from tests.providers.samples import address, context, message

CHATS: dict[str, tuple[dict[str, str], str]] = {
    "discord": ({}, "223704706495545344/3d89bb7572e0fb30d8128367b3b1b44f"),
    "max": ({"token": "t"}, "user:42"),
    "slack": ({}, "T0/B0/x"),
    "teams": ({}, "https://acme.webhook.office.com/webhookb2/1"),
    "telegram": ({"token": "1:x"}, "42"),
    "viber": ({"token": "t", "sender": "Acme"}, "01234567890A="),
    "whatsapp": ({"token": "t", "phone_number_id": "106540352242922"}, "+15550001234"),
}
HOSTILE = "@everyone <!here> <@123> [pay](https://evil.test) https://good.test/a_b"


@pytest.mark.parametrize("name", CHATS)
@pytest.mark.parametrize(
    ("body", "classes"),
    [
        (b"", {"transient"}),
        (b"<html>Please sign in</html>", {"transient"}),
        (b'{"status": 6, "status_message": "receiverNotSubscribed"}', {"transient", "blocked"}),
        (b'{"status": 12, "status_message": "tooManyRequests"}', {"transient", "rate_limited"}),
        (b'{"status": 3, "status_message": "badData"}', {"transient", "invalid_payload"}),
        (b"{}", {"transient"}),
        (b'{"ok": fal', {"transient"}),
        (b'{"ok": false, "error": "channel_not_found"}', {"transient"}),
        (b'{"success": false}', {"transient", "invalid_payload"}),
    ],
)
def test_clas_06_a_200_that_says_no_is_no_success(name: str, body: bytes, classes: set[str]) -> None:
    """CLAS-06: an error in the body of a 200 counted as sent, and a final refusal was tried for ever.

    Here: without the vendor's own word of success nothing is sent, whatever the status; each refusal has its class. A
    workflow behind Teams may answer 200 with words of its own, so there only what is known as a failure is one.
    """
    outcome = registry.provider(name).outcome(HttpAnswer(200, {}, body), context())
    if name == "teams" and not body.startswith(b"<"):
        assert outcome.cls == "accepted"
    else:
        assert outcome.cls in classes
        assert outcome.message_id is None


def test_clas_06_a_connectors_200_that_says_no() -> None:
    """CLAS-06 for Teams: a connector tells its failures in the words of a 200."""
    words = (
        "message delivery failed with error: Microsoft Teams endpoint returned HTTP error {} with ContextId x"
    )
    said = {
        code: registry.provider("teams")
        .outcome(HttpAnswer(200, {}, words.format(code).encode()), context())
        .cls.value
        for code in (400, 403, 404, 413, 429, 502)
    }
    assert said == {
        400: "invalid_payload",
        403: "auth",
        404: "invalid_recipient",
        413: "invalid_payload",
        429: "rate_limited",
        502: "transient",
    }


@pytest.mark.parametrize("name", CHATS)
def test_secu_04_a_text_mentions_nobody(name: str) -> None:
    """SECU-04: @everyone, @here and disguised links in a user's text rang everybody, or led elsewhere than they said.

    Sources: carloluisito/omnidesk#140, struxadotcloud/struxa#29, PostHog/posthog#95054. Here: a text is plain text.
    Where the vendor reads markup nevertheless, it is escaped or goes into a part that knows none; visible links stay.
    """
    options, to = CHATS[name]
    request = registry.build(name, options).request(message(Content(text=HOSTILE)), address(to), context())
    assert isinstance(request, HttpRequest)
    said = request.body.decode()
    body = json.loads(said)
    match name:
        case "discord":
            assert body["allowed_mentions"] == {"parse": []}
            assert r"\<@123\> \[pay\](https://evil.test) https://good.test/a_b" in body["content"]
        case "slack":
            assert body["mrkdwn"] is False
            assert "&lt;!here&gt; &lt;@123&gt;" in body["text"]
        case "teams":
            [block] = body["attachments"][0]["content"]["body"]
            assert block == {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": HOSTILE}]}
        case _:
            assert HOSTILE in said
            assert not {"parse_mode", "format", "markup"} & body.keys()
