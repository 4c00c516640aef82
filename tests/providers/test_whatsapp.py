"""WhatsApp: numbers, texts and templates, limits, receipts that say the same as answers."""

import json

import pytest

from ringonce.config import from_mapping
from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.parts import entries
from ringonce.provider import HttpAnswer, HttpRequest, InDoubt
from ringonce.providers.whatsapp import RULES, WhatsApp, WhatsAppOptions
from ringonce.testing import check_provider
from tests.providers.samples import ID, address, content, context, message

TOKEN = "EAAJB4lR0n"
OPTIONS = {"token": TOKEN, "phone_number_id": "106540352242922"}
NUMBER = "+15550001234"


def number(**options: str) -> WhatsApp:
    """Build a provider for this number."""
    return WhatsApp(WhatsAppOptions(**{**OPTIONS, **options}))


def call(text: str | None = "on its *way*", title: str | None = None, template: object = None) -> HttpRequest:
    """Build the call."""
    said = content(text, title, data={"template": template} if template is not None else None)
    return number().request(message(said), address(NUMBER), context())


def test_kit() -> None:
    """It keeps what every provider has to keep."""
    template = {"name": "order_shipped", "language": "en_US"}
    for said in (content(), content(data={"template": template})):
        check_provider("whatsapp", OPTIONS, address=NUMBER, content=said, bad_addresses=["0155500012"])


def test_text() -> None:
    """Title and text are one message to the number; the reference travels with it, the token beside it."""
    request = call(title="Order 42")
    assert request.url == "https://graph.facebook.com/v23.0/106540352242922/messages"
    assert ("authorization", f"Bearer {TOKEN}") in request.headers
    assert json.loads(request.body) == {
        "messaging_product": "whatsapp",
        "recipient_type": "individual",
        "to": NUMBER,
        "biz_opaque_callback_data": str(ID),
        "type": "text",
        "text": {"body": "Order 42\n\non its *way*"},
    }


@pytest.mark.parametrize(
    ("values", "parameters"),
    [
        (["42", "Ann"], [{"type": "text", "text": "42"}, {"type": "text", "text": "Ann"}]),
        ({"order": "42"}, [{"type": "text", "parameter_name": "order", "text": "42"}]),
    ],
)
def test_template(values: object, parameters: object) -> None:
    """A template is sent by name, with its parameters by place or by name; a text beside it is another form of it."""
    said = json.loads(
        call(template={"name": "order_shipped", "language": "en_US", "parameters": values}).body
    )
    assert said["type"] == "template"
    assert "text" not in said
    assert said["template"] == {
        "name": "order_shipped",
        "language": {"code": "en_US"},
        "components": [{"type": "body", "parameters": parameters}],
    }


def test_template_without_parameters() -> None:
    """A template that has no parameters is sent without components, and needs no text."""
    said = json.loads(call(text=None, template={"name": "hello_world", "language": "en_US"}).body)
    assert said["template"] == {"name": "hello_world", "language": {"code": "en_US"}}


@pytest.mark.parametrize(
    "data",
    [
        {"order": 42},
        {"template": "order_shipped"},
        {"template": {"name": "a", "language": "en"}, "order": 42},
        {"template": {"name": "a"}},
        {"template": {"name": "", "language": "en"}},
        {"template": {"name": "a", "language": "en", "parameters": [42]}},
        {"template": {"name": "a", "language": "en", "parameters": "42"}},
        {"template": {"name": "a", "language": "en", "parameters": {"order": 42}}},
    ],
)
def test_no_template(data: dict[str, object]) -> None:
    """Data that are not exactly one whole template are refused when the notification is accepted, with the mend."""
    with pytest.raises(InputError) as error:
        number().check(content(data=data))
    assert error.value.field == "content.data"
    assert error.value.mend


@pytest.mark.parametrize("value", ["+1 (555) 000-1234", "15550001234", " +15550001234"])
def test_number(value: str) -> None:
    """A number with its country code is an address, however it is written."""
    assert number().address(value) == NUMBER


@pytest.mark.parametrize(
    "value", ["0155500012", "+0155500012", "12345", "+1555000123456789", "Ann", 15550009876]
)
def test_no_number(value: object) -> None:
    """A national number and other texts are refused with the mend, and not repeated."""
    with pytest.raises(InputError) as error:
        number().address(value)
    assert error.value.mend
    assert str(value) not in str(error.value)


@pytest.mark.parametrize(
    "options",
    [{"token": "a b"}, {"phone_number_id": "+15550001234"}, {"version": "23"}, {"base_url": "graph"}],
)
def test_bad_options(options: dict[str, str]) -> None:
    """What can not be a token, an id, a version or a URL is refused at start-up, with the mend."""
    with pytest.raises(ConfigError) as error:
        number(**options)
    assert error.value.field == next(iter(options))
    assert error.value.mend


def test_account() -> None:
    """The account is the sender's id; the token shows nowhere; another server is called where one is named."""
    assert number().account == "whatsapp:106540352242922"
    assert TOKEN not in repr(number().options) + repr(call())
    url = number(base_url="http://127.0.0.1:9").request(message(), address(NUMBER), context()).url
    assert url == "http://127.0.0.1:9/v23.0/106540352242922/messages"


def test_limit() -> None:
    """4,096 UTF-16 code units of title and text together are carried, one more is refused."""
    number().check(content(title="t" * 94, text="x" * 4_000))
    with pytest.raises(PayloadTooLarge):
        number().check(content(title="t" * 95, text="x" * 4_000))


CODES = sorted(
    {code for rule in RULES if isinstance(codes := rule.json.get("error.code"), tuple) for code in codes}
)


@pytest.mark.parametrize("code", CODES)
def test_a_code_means_the_same_in_both_forms(code: int) -> None:
    """A code in an answer, whatever its HTTP status, and in a later receipt is one and the same verdict."""
    answers = [
        *(
            HttpAnswer(status, {}, json.dumps({"error": {"code": code}}).encode())
            for status in (400, 403, 500)
        ),
        HttpAnswer(
            0, {}, json.dumps({"statuses": [{"status": "failed", "errors": [{"code": code}]}]}).encode()
        ),
    ]
    said = {
        (found.cls, found.scope, found.drop_address, found.ambiguous, found.provider_code)
        for found in (WhatsApp.outcome(answer, context()) for answer in answers)
    }
    assert len(said) == 1
    assert said.pop()[-1] == str(code)


def test_declarations() -> None:
    """A doubt waits ten minutes for a receipt, and then counts as sent."""
    assert (WhatsApp.in_doubt, WhatsApp.hold_for) == (InDoubt.HOLD, 600_000_000)
    channel = {"provider": "whatsapp", **OPTIONS}
    policy = entries(from_mapping({"channels": {"a": channel}}))["a"].channel.policy
    assert (policy.in_doubt, policy.hold_for) == (InDoubt.HOLD, 600_000_000)
