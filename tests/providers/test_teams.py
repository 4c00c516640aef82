"""Teams: webhooks as addresses, the card, limits."""

import json

import pytest

from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.provider import HttpRequest, InDoubt
from ringonce.providers.teams import Teams, TeamsOptions
from ringonce.testing import check_provider
from tests.providers.samples import address, content, context, message

FLOW = (
    "https://default0a1b.2c.environment.api.powerplatform.com:443/powerautomate/automations/direct/workflows/"
    "00aa/triggers/manual/paths/invoke?api-version=1&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=S3cret"
)


def call(**said: str | None) -> HttpRequest:
    """Build the call."""
    return Teams(TeamsOptions()).request(message(content(**said)), address(FLOW), context())


def blocks(**said: str | None) -> list[dict[str, object]]:
    """What the card shows."""
    body: list[dict[str, object]] = json.loads(call(**said).body)["attachments"][0]["content"]["body"]
    return body


def test_kit() -> None:
    """It keeps what every provider has to keep."""
    check_provider("teams", {}, address=FLOW, bad_addresses=["https://teams.microsoft.com/l/channel/1"])


def test_call() -> None:
    """One card is posted to the workflow's own URL, through the guard, for the host comes from a user."""
    request = call()
    assert (request.method, request.url, request.guarded) == ("POST", FLOW, True)
    said = json.loads(request.body)
    assert said["type"] == "message"
    assert said["attachments"][0]["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert said["attachments"][0]["content"]["type"] == "AdaptiveCard"


def test_texts_are_shown_as_they_are() -> None:
    """Title and lines are text runs, which know neither markup nor mentions; an empty line stays one."""
    shown = blocks(title="Order *42*", text="<at>Ann</at> [pay](https://evil.test)\n\n**on** its way")
    assert {block["type"] for block in shown} == {"RichTextBlock"}
    assert [block["inlines"] for block in shown] == [
        [{"type": "TextRun", "text": "Order *42*", "weight": "Bolder", "size": "Medium"}],
        [{"type": "TextRun", "text": "<at>Ann</at> [pay](https://evil.test)"}],
        [{"type": "TextRun", "text": " "}],
        [{"type": "TextRun", "text": "**on** its way"}],
    ]
    assert [block.get("spacing") for block in blocks(text="a\nb\n\nc")] == [None, "None", None, "None"]


def test_title_alone() -> None:
    """A title without a text is a card too."""
    assert len(blocks(title="Order 42", text=None)) == 1


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        (f" {FLOW} ", FLOW),
        (FLOW.replace("default0a1b", "DEFAULT0A1B"), FLOW),
        *(
            (url, url)
            for url in (
                "https://prod-96.westeurope.logic.azure.com:443/workflows/00aa?sig=S3cret",
                "https://acme.webhook.office.com/webhookb2/00aa/IncomingWebhook/1/2",
                "https://outlook.office.com/webhook/00aa",
            )
        ),
    ],
)
def test_hook(value: str, canonical: str) -> None:
    """A URL at one of Microsoft's hosts is an address, with its host in lower case and the rest as it is."""
    assert Teams(TeamsOptions()).address(value) == canonical


@pytest.mark.parametrize(
    "value",
    [
        FLOW.replace("https", "http"),
        FLOW.replace(":443", ":8443"),
        FLOW.replace("https://", "https://a@"),
        FLOW.replace(".com:443", ".com.evil.test"),
        "https://[evil/S3cret",
        "https://evilapi.powerplatform.com/S3cret",
        "https://acme.webhook.office.com",
        f"{FLOW}#a",
        f"{FLOW} a",
        7,
    ],
)
def test_no_hook(value: object) -> None:
    """Other hosts and what is no such URL are refused with the mend, and the URL is not repeated."""
    with pytest.raises(InputError) as error:
        Teams(TeamsOptions()).address(value)
    assert error.value.mend
    assert "S3cret" not in str(error.value)


def test_own_server() -> None:
    """Where a base is configured, addresses begin with it and not elsewhere."""
    own = Teams(TeamsOptions("http://127.0.0.1:9"))
    assert own.address("http://127.0.0.1:9/hook") == "http://127.0.0.1:9/hook"
    with pytest.raises(InputError):
        own.address(FLOW)
    with pytest.raises(ConfigError) as error:
        Teams(TeamsOptions("teams"))
    assert error.value.field == "base_url"


def test_limit() -> None:
    """A card of 28,000 bytes is carried, one byte more is refused."""
    provider = Teams(TeamsOptions())
    room = 28_000 - len(call(text="x").body) + 1
    provider.check(content(text="x" * room))
    with pytest.raises(PayloadTooLarge) as error:
        provider.check(content(text="x" * (room + 1)))
    assert error.value.field == "content.text"


def test_invisible() -> None:
    """A card that shows nothing is refused."""
    with pytest.raises(InputError):
        Teams(TeamsOptions()).check(content(text=" \n "))


def test_declarations() -> None:
    """Nothing folds a second message, so a doubt counts as sent."""
    assert Teams.in_doubt is InDoubt.ASSUME_SENT
