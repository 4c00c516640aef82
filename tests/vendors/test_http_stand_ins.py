"""The webhook receiver and the Telegram stand-in, called through the real wire."""

import base64
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from ringonce.errors import InputError
from ringonce.model.exchange import Fault, HttpAnswer, HttpRequest, NoAnswer
from ringonce.vendors.ledger import read_ledger
from ringonce.vendors.script import plan
from ringonce.vendors.telegram import TelegramApi
from ringonce.vendors.webhook import WebhookReceiver
from tests.vendors.conftest import Ask, program, status

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
OTHER = "whsec_" + base64.b64encode(b"another secret of 24 byte").decode()


def signed(
    url: str, reference: str = "r1", body: bytes = b'{"a":1}', timeout: float = 30.0, **more: object
) -> HttpRequest:
    """A delivery signed by the reference implementation."""
    at = more.pop("at", datetime.now(tz=UTC))
    secret = str(more.pop("secret", SECRET))
    assert isinstance(at, datetime)
    headers = (
        ("webhook-id", reference),
        ("webhook-timestamp", str(int(at.timestamp()))),
        ("webhook-signature", Webhook(secret).sign(reference, at, body.decode())),
    )
    return HttpRequest(
        "POST", url + "/hook", headers=headers, body=body, timeout=timeout, connect_timeout=30.0
    )


async def test_a_signed_delivery_is_accepted_once(call: Ask) -> None:
    """A valid delivery is 204, its repeat too, and only the first one told somebody."""
    with WebhookReceiver([SECRET]) as server:
        for _ in range(2):
            [answer] = await call(signed(server.url))
            assert status(answer) == 204
        assert [(entry.verdict, entry.accepted) for entry in server.ledger.entries] == [
            ("204", True),
            ("repeat", False),
        ]
        assert server.ledger.accepted() == {("r1", "/hook"): 1}


async def test_an_invalid_delivery_is_refused(call: Ask) -> None:
    """Another secret, another body, an old or a future timestamp, no signature, no id: 401."""
    now = datetime.now(tz=UTC)
    with WebhookReceiver([SECRET]) as server:
        valid = signed(server.url)
        changed = HttpRequest("POST", valid.url, headers=valid.headers, body=b'{"a":2}')
        bare = [
            HttpRequest(
                "POST", valid.url, headers=valid.headers[:skip] + valid.headers[skip + 1 :], body=valid.body
            )
            for skip in range(3)
        ]
        for request in [
            signed(server.url, secret=OTHER),
            changed,
            signed(server.url, at=now - timedelta(seconds=302)),
            signed(server.url, at=now + timedelta(seconds=360)),
            *bare,
        ]:
            [answer] = await call(request)
            assert status(answer) == 401
        assert server.ledger.accepted() == {}


async def test_each_of_several_secrets_is_valid(call: Ask) -> None:
    """While secrets are rotated both are taken."""
    with WebhookReceiver([OTHER, SECRET]) as server:
        answers = await call(signed(server.url, "r1"), signed(server.url, "r2", secret=OTHER))
        assert [status(answer) for answer in answers] == [204, 204]


def test_a_secret_that_is_none_is_refused() -> None:
    """The error names the field."""
    with pytest.raises(InputError, match="secret"):
        WebhookReceiver(["whsec_!"])


@pytest.mark.parametrize(
    ("rule", "expected", "accepted"),
    [
        ("503", 503, False),
        ("429:retry_after=7", 429, False),
        ("delay:seconds=0.01", 204, True),
        ("close_before_reply", Fault.RESET_BEFORE_STATUS, False),
        ("reset", Fault.RESET_BEFORE_STATUS, False),
        ("hang", Fault.READ_TIMEOUT, False),
        ("garbage", Fault.RESET_BEFORE_STATUS, False),
        ("accept_then_hang", Fault.READ_TIMEOUT, True),
        ("accept_then_close", Fault.RESET_BEFORE_STATUS, True),
        ("accept_then_reset", Fault.RESET_BEFORE_STATUS, True),
    ],
)
async def test_a_fault_is_seen_as_what_it_is(call: Ask, rule: str, expected: object, accepted: bool) -> None:
    """The wire sees each fault as meant, the ledger says whether somebody was told, and the next call works."""
    with WebhookReceiver([SECRET], plan=plan([rule + (",times=1" if ":" in rule else ":times=1")])) as server:
        # Enough for the request to arrive on a machine that stalls for seconds.
        [answer] = await call(signed(server.url, timeout=6.0 if expected is Fault.READ_TIMEOUT else 30.0))
        if isinstance(expected, int):
            assert status(answer) == expected
        else:
            assert isinstance(answer, NoAnswer)
            assert (answer.fault, answer.sent) == (expected, True)
        if rule.startswith("429"):
            assert isinstance(answer, HttpAnswer)
            assert answer.headers["retry-after"] == "7"
        [entry] = server.ledger.entries
        assert (entry.reference, entry.address, entry.accepted) == ("r1", "/hook", accepted)
        [answer] = await call(signed(server.url, "r2"))
        assert status(answer) == 204


def message(
    url: str, chat: str = "42", text: str = "hello", token: str = "1:x", method: str = "sendMessage"
) -> HttpRequest:
    """A call of the Bot API."""
    body = json.dumps({"chat_id": chat, "text": text}).encode()
    headers = (("Content-Type", "application/json"),)
    return HttpRequest("POST", f"{url}/bot{token}/{method}", headers=headers, body=body, timeout=30.0)


async def test_a_message_is_accepted(call: Ask) -> None:
    """A message gets an id of its own, and stands in the ledger under its text."""
    with TelegramApi("1:x") as server:
        answers = await call(message(server.url), message(server.url, text="again"))
        ids = set()
        for answer in answers:
            assert isinstance(answer, HttpAnswer)
            body = json.loads(answer.body)
            assert (answer.status, body["ok"], body["result"]["chat"]["id"]) == (200, True, 42)
            ids.add(body["result"]["message_id"])
        assert len(ids) == 2
        assert server.ledger.accepted() == {("hello", "42"): 1, ("again", "42"): 1}


@pytest.mark.parametrize(
    ("more", "code", "description"),
    [
        ({"chat": "1"}, 403, "Forbidden: bot was blocked by the user"),
        ({"chat": "2"}, 400, "Bad Request: chat not found"),
        ({"chat": "-3"}, 400, "Bad Request: group chat was upgraded to a supergroup chat"),
        ({"token": "2:y"}, 401, "Unauthorized"),
        ({"method": "sendPigeon"}, 404, "Not Found: method not found"),
        ({"text": " "}, 400, "Bad Request: message text is empty"),
        ({"text": "x" * 4097}, 400, "Bad Request: message is too long"),
        ({"text": "😀" * 2049}, 400, "Bad Request: message is too long"),
    ],
)
async def test_the_bot_api_says_why_not(call: Ask, more: dict[str, str], code: int, description: str) -> None:
    """Errors come with the body of the real API, and nobody was told."""
    server = TelegramApi("1:x", blocked=["1"], unknown=["2"], migrated={"-3": -1003})
    with server:
        [answer] = await call(message(server.url, **more))
        assert isinstance(answer, HttpAnswer)
        body = json.loads(answer.body)
        assert (answer.status, body["ok"], body["error_code"], body["description"]) == (
            code,
            False,
            code,
            description,
        )
        assert (body.get("parameters") == {"migrate_to_chat_id": -1003}) == (more.get("chat") == "-3")
        assert server.ledger.accepted() == {}


async def test_a_flood_is_told_three_times(call: Ask) -> None:
    """Header, parameter and text of a 429 say the same delay."""
    with TelegramApi("1:x", plan=plan(["429:first=1,retry_after=35", "500:numbers=2"])) as server:
        [answer] = await call(message(server.url))
        assert isinstance(answer, HttpAnswer)
        body = json.loads(answer.body)
        assert (answer.status, answer.headers["retry-after"]) == (429, "35")
        assert body["parameters"] == {"retry_after": 35}
        assert body["description"] == "Too Many Requests: retry after 35"
        [answer] = await call(message(server.url))
        assert isinstance(answer, HttpAnswer)
        assert json.loads(answer.body)["error_code"] == 500


async def test_a_thousand_deliveries(call: Ask) -> None:
    """1,000 deliveries at once are each received once."""
    with WebhookReceiver([SECRET]) as server:
        answers = await call(*(signed(server.url, f"r{n}") for n in range(1000)))
        assert [status(answer) for answer in answers] == [204] * 1000
        assert len(server.ledger.accepted()) == len(server.ledger.entries) == 1000


async def test_as_a_program(call: Ask, tmp_path: Path) -> None:
    """The program prints its port, writes its ledger, and ends well at SIGTERM."""
    path = tmp_path / "ledger.jsonl"
    with program("webhook", "--secret", SECRET, "--fault", "503:first=1", "--ledger", str(path)) as port:
        url = f"http://127.0.0.1:{port}"
        before = time.time()
        seen = [status((await call(signed(url)))[0]) for _ in range(2)]
    assert seen == [503, 204]
    assert [entry.verdict for entry in read_ledger(path)] == ["503", "204"]
    assert int(before * 1e6) <= read_ledger(path)[0].at <= time.time() * 1e6
