"""Slack: webhooks as addresses, the call, what a text can not do, limits."""

import json

import pytest

from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.provider import HttpAnswer, HttpRequest, InDoubt
from ringonce.providers.slack import Slack, SlackOptions
from ringonce.testing import check_provider
from tests.providers.samples import address, content, context, message

PATH = "T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"
HOOK = f"https://hooks.slack.com/services/{PATH}"


def call(base_url: str = "https://hooks.slack.com", **said: str | None) -> HttpRequest:
    """Build the call."""
    return Slack(SlackOptions(base_url)).request(message(content(**said)), address(PATH), context())


def test_kit() -> None:
    """It keeps what every provider has to keep."""
    check_provider("slack", {}, address=HOOK, bad_addresses=["https://hooks.slack.com/", "#general"])


def test_call() -> None:
    """Title and text are one message without markup, at the webhook that the address names."""
    request = call(title="Order 42", text="on its *way*")
    assert (request.method, request.url) == ("POST", HOOK)
    assert json.loads(request.body) == {"text": "Order 42\n\non its *way*", "mrkdwn": False}


def test_nobody_is_mentioned() -> None:
    """What stands in a text mentions nobody and hides no link: the three control characters are escaped."""
    said = json.loads(call(text="<!here> <@U1> <https://evil.test|pay> & co").body)["text"]
    assert said == "&lt;!here&gt; &lt;@U1&gt; &lt;https://evil.test|pay&gt; &amp; co"


def test_own_server() -> None:
    """All webhooks are at the configured host, and addresses are checked against it."""
    assert call("http://127.0.0.1:9/").url == f"http://127.0.0.1:9/services/{PATH}"
    other = Slack(SlackOptions("http://127.0.0.1:9"))
    assert other.address(f"http://127.0.0.1:9/services/{PATH}") == PATH
    with pytest.raises(InputError):
        other.address(HOOK)
    with pytest.raises(ConfigError) as error:
        Slack(SlackOptions("hooks"))
    assert error.value.field == "base_url"


def test_hook() -> None:
    """Kept of a webhook's URL is its path, which is the same address."""
    assert Slack(SlackOptions()).address(f" {HOOK} ") == Slack(SlackOptions()).address(PATH) == PATH


@pytest.mark.parametrize(
    "value",
    [
        "#general",
        "https://hooks.slack.com/triggers/T0/1/a",
        f"https://evil.test/services/{PATH}",
        f"{HOOK}/../x",
        f"{HOOK}?a=1",
        7,
    ],
)
def test_no_hook(value: object) -> None:
    """Other hosts, other paths and channels' names are refused with the mend, and the URL is not repeated."""
    with pytest.raises(InputError) as error:
        Slack(SlackOptions()).address(value)
    assert error.value.mend
    assert "XXXX" not in str(error.value)


def test_limit_counts_what_is_sent() -> None:
    """40,000 characters are carried, and an escaped one counts as what it became."""
    provider = Slack(SlackOptions())
    provider.check(content(text="&" * 8_000))
    for text in ("x" * 40_001, "&" * 8_001):
        with pytest.raises(PayloadTooLarge):
            provider.check(content(text=text))


def test_own_words() -> None:
    """The word of the answer is kept as the provider's own."""
    assert Slack.outcome(HttpAnswer(404, {}, b"no_service\n"), context()).provider_code == "no_service"


def test_declarations() -> None:
    """Nothing folds a second message, so a doubt counts as sent."""
    assert Slack.in_doubt is InDoubt.ASSUME_SENT
