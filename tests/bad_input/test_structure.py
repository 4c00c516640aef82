"""Bad structures through the library, HTTP and the command line: a clear error, and nothing is stored."""

import json
from typing import Any

import pytest

from ringonce.app import Ringonce
from ringonce.errors import InputError
from tests.api.asgi import Caller
from tests.bad_input.conftest import LIMIT, Ring

GOOD: dict[str, Any] = {"to": {"ok": "ada"}, "content": {"text": "hello"}}


def body(**changes: object) -> bytes:
    """A good structure with changes."""
    return json.dumps({**GOOD, **changes}).encode()


def raw(text: str) -> bytes:
    """A good structure whose ``data`` is this JSON text."""
    return b'{"to":{"ok":"ada"},"content":{"text":"x"},"data":' + text.encode() + b"}"


JSON = "send one JSON object in UTF-8"
CASES: dict[str, tuple[bytes, str | None, str]] = {
    # name: (what is given, the field that is to blame, words of the mend or the message)
    "nothing": (b"", None, JSON),
    "truncated": (b'{"to":', None, JSON),
    "no JSON": (b"hello", None, JSON),
    "binary": (b"\x89PNG\r\n\x1a\n\x00\x00", None, JSON),
    "UTF-16": ("{}".encode("utf-16"), None, JSON),
    "invalid UTF-8": (b'{"to":{"ok":"ada"},"content":{"text":"\xff"}}', None, "UTF-8"),
    "lone surrogate": (
        b'{"to":{"ok":"ada"},"content":{"text":"\\ud800"}}',
        "content.text",
        "send valid Unicode",
    ),
    "not a number": (raw("NaN"), None, JSON),
    "number out of range": (raw("1e999"), None, "out of range"),
    "a list": (b"[]", None, "a JSON object is needed"),
    "null": (b"null", None, "a JSON object is needed"),
    "U+0000": (body(content={"text": "a\x00b"}), "content.text", "remove it"),
    "U+0000 in a key": (raw('{"a":{"\\u0000":1}}'), "data.a", "remove it"),
    "deep": (raw('{"a":' * 40 + "1" + "}" * 40), "data" + ".a" * 31, "flatten"),
    "deep lists": (raw("[" * 900 + "]" * 900), "data" + "[0]" * 32, "flatten"),
    "empty": (b"{}", "recipients", "nobody to tell"),
    "nobody": (body(to={}), "recipients", "nobody to tell"),
    "no content": (body(content=None), "content", "nothing to say"),
    "empty content": (body(content={}), "content", "title, text, html, data"),
    "empty text": (body(content={"text": ""}), "content", "nothing to say"),
    "empty id": (body(event_id=""), "event_id", "1 to 256"),
    "long id": (body(event_id="e" * 257), "event_id", "1 to 256"),
    "empty address": (body(to={"ok": " "}), "to.ok", "non-empty"),
    "empty recipient": (body(recipients=[""]), "recipients[0].id", "1 to 256"),
    "no channel": (body(channels=[]), "channels", "leave it out"),
    "unknown field": (body(contnet={}), "contnet", "did you mean content?"),
    "unknown field below": (body(content={"txt": "x"}), "content.txt", "did you mean text?"),
    "unknown field of a recipient": (
        body(recipients=[{"id": "ada", "adresses": {}}]),
        "recipients[0].adresses",
        "did you mean addresses?",
    ),
    "text for a mapping": (body(to="ok"), "to", "Expected `object`"),
    "text for a list": (body(recipients="ada"), "recipients", "Expected `array`"),
    "number for a recipient": (body(recipients=[1]), "recipients[0]", "Expected"),
    "number for a text": (body(content={"text": 5}), "content.text", "Expected `str"),
    "number for a channel": (body(channels=["ok", 5]), "channels[1]", "Expected `str`"),
    "no time": (body(send_at="yesterday"), "send_at", "RFC3339"),
    "a time of nowhere": (body(expires_at="2026-12-01T09:00:00"), "expires_at", "offset"),
    "unknown priority": (body(priority="urgent"), "priority", "low, normal, high"),
    "long type": (body(type="я" * 33), "type", "64 bytes"),
    "unknown channel": (body(channels=["emial"]), "channels", "did you mean email?"),
    "unknown channel of an address": (body(to={"emial": "a@b.org"}), "to", "did you mean email?"),
    "a template and a content": (body(template="order"), "template", "leave one out"),
    "html where it is not carried": (
        body(to={"chat": "1"}, content={"html": "<b>x</b>"}),
        "content.html",
        "telegram carries no html",
    ),
    "data where it is not carried": (
        body(to={"email": "a@b.org"}, content={"text": "x", "data": {"k": 1}}),
        "content.data",
        "smtp carries no data",
    ),
    "no mailbox": (body(to={"email": "ada"}), "to.email", "name@example.com"),
    "no URL": (body(to={"hook": "ftp://example.com"}), "to.hook", "https://"),
    "no chat": (body(to={"chat": "call me"}), "to.chat", "@channel"),
    "header injection by the address": (
        body(to={"email": "a@example.com\r\nBcc: b@example.com"}),
        "to.email",
        "line break",
    ),
    "header injection by the title": (
        body(to={"email": "a@example.com"}, content={"title": "x\r\nBcc: b@example.com", "text": "x"}),
        "content.title",
        "one line",
    ),
    "header injection by the URL": (body(to={"hook": "http://h/\r\nX: y"}), "to.hook", "percent-encode"),
    "request splitting by the chat": (body(to={"chat": "1\r\nX: y"}), "to.chat", "chat"),
    "too large": (body(data={"x": "y" * LIMIT}), None, "send less data"),
}
EVERY = pytest.mark.parametrize("case", CASES)


@EVERY
async def test_the_library_names_field_and_mend(ringonce: Ringonce, case: str) -> None:
    """InputError with the field and what to do; alone or between good ones nothing is stored."""
    given, field, words = CASES[case]
    with pytest.raises(InputError) as raised:
        await ringonce.notify(given)
    assert raised.value.field == field
    assert words in str(raised.value)
    with pytest.raises(InputError) as raised:
        await ringonce.notify_many([body(event_id="e1"), given, body(event_id="e2")])
    assert (raised.value.field or "").startswith("[1]")
    assert await ringonce.search() == []


@EVERY
async def test_http_answers_4xx_with_the_field(ringonce: Ringonce, api: Caller, case: str) -> None:
    """A problem document with 400 (no JSON), 413 (too large) or 422, the field and what to do; nothing is stored."""
    given, field, words = CASES[case]
    answer = await api.post("/v1/notifications", raw=given)
    told = answer.json
    code = told["code"]
    assert answer.status == {"invalid_json": 400, "payload_too_large": 413}.get(code, 422)
    assert answer.headers["content-type"] == "application/problem+json"
    assert (told.get("field"), told["status"]) == (field, answer.status)
    assert words in told["detail"]
    assert await ringonce.search() == []


@EVERY
def test_send_ends_with_1_and_one_line(ring: Ring, case: str) -> None:
    """`send` with such a structure on standard input: one line on standard error, exit 1, nothing stored."""
    given, field, words = CASES[case]
    done = ring("send", "--json", stdin=given)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("ringonce: [")
    assert done.err.count("\n") == 1
    assert words in done.err
    assert (field or "") in done.err
    assert ring("list", "--json").json == []


async def test_what_is_odd_but_right_is_sent(ringonce: Ringonce) -> None:
    """Of a key given twice the last counts, huge integers and far times are kept, and the worker takes them."""
    twice = b'{"to":{"ok":"a"},"to":{"ok":"b"},"content":{"text":"x"}}'
    huge = body(content={"text": "x", "data": {"n": 10**400, "m": -(2**70)}})
    past = body(send_at="0001-01-01T00:00:00Z")
    future = body(send_at="9999-12-31T23:59:59Z")
    accepted = [await ringonce.notify(given) for given in (twice, huge, past, future)]
    assert accepted[0].notifications[0].recipient == "ok:b"
    await ringonce.run_worker(drain=True)
    states = [(await ringonce.get(item.notifications[0].id)).row.state.status.value for item in accepted]
    assert states == ["sent", "sent", "sent", "pending"]


@pytest.mark.parametrize(
    ("given", "headers", "status", "said"),
    [
        (body(), {"content-type": "text/plain"}, 415, "Content-Type"),
        (body(event_id="a"), {"idempotency-key": "b"}, 422, "same"),
        (body(), {"idempotency-key": "k" * 300}, 422, "1 to 256"),
        (b"[]", {"idempotency-key": "b"}, 422, "object"),
    ],
)
async def test_http_headers_are_checked_too(
    ringonce: Ringonce, api: Caller, given: bytes, headers: dict[str, str], status: int, said: str
) -> None:
    """A wrong media type and a contradicting key are refused, naming what to do."""
    answer = await api.post("/v1/notifications", raw=given, headers=headers)
    assert answer.status == status
    assert said in answer.json["detail"]
    assert await ringonce.search() == []


@pytest.mark.parametrize(
    ("given", "status"),
    [(b"{}", 400), (b"[", 400), (b"[]", 422), (b"[1]", 422), (b"[{}, {}]", 422), (b"\xff", 400), (b"", 400)],
)
async def test_a_bad_batch_stores_nothing(ringonce: Ringonce, api: Caller, given: bytes, status: int) -> None:
    """A batch that is no list, is empty or holds a bad item is refused as a whole, with the index."""
    answer = await api.post("/v1/notifications/batch", raw=given)
    assert answer.status == status
    if given == b"[{}, {}]":
        assert answer.json["field"] == "[0].recipients"
    assert await ringonce.search() == []


@pytest.mark.parametrize(
    ("method", "path", "given", "status"),
    [
        ("GET", "/v1/notifications/abc", None, 404),
        ("GET", "/v1/notifications/01a22c10-4db9-7e06-89ed-99cfb3f2fb5f", None, 404),
        ("GET", "/v1/notifications?limit=many", None, 422),
        ("GET", "/v1/notifications?status=snet", None, 422),
        ("POST", "/v1/notifications/01a22c10-4db9-7e06-89ed-99cfb3f2fb5f/retry", b"{", 400),
        ("POST", "/v1/notifications/01a22c10-4db9-7e06-89ed-99cfb3f2fb5f/cancel", None, 404),
        ("POST", "/v1/notifications/01a22c10-4db9-7e06-89ed-99cfb3f2fb5f/resolve", b'{"verdict":"x"}', 422),
        ("POST", "/v1/cancel", b"{}", 422),
        ("DELETE", "/v1/notifications", None, 405),
        ("GET", "/v1/nothing", None, 404),
    ],
)
async def test_other_routes_answer_problem_documents(
    api: Caller, method: str, path: str, given: bytes | None, status: int
) -> None:
    """Whatever is wrong with a request, the answer is a problem document with a code and words."""
    answer = await api.call(method, path, raw=given)
    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["code"]
    assert answer.json["detail"]
