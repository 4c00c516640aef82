"""POST /v1/notifications and /batch: what is accepted, what is refused, and that a refusal stores nothing."""

import json
from collections.abc import Iterator
from uuid import UUID

import pytest

from ringonce.app import Ringonce
from tests.api.asgi import Answer, Caller
from tests.api.conftest import LIMIT

GOOD = {"event_id": "e1", "to": {"ok": "ada"}, "content": {"text": "hello"}}


def is_problem(answer: Answer, status: int, code: str, field: str | None = None) -> None:
    """The answer is a problem document that says this."""
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status, answer.json["status"], answer.json["code"]) == (status, status, code)
    assert answer.json["title"]
    assert answer.json["type"] == "about:blank"
    if field is not None:
        assert answer.json["field"] == field


async def nothing_stored(ringonce: Ringonce) -> bool:
    """No notification exists."""
    return not await ringonce.search()


async def test_accepted_is_202_with_ids_status_and_final(api: Caller) -> None:
    """An accepted event answers 202 with the id, status and finality of each notification."""
    answer = await api.post("/v1/notifications", GOOD)
    assert answer.status == 202
    (notification,) = answer.json["notifications"]
    assert UUID(notification.pop("id")).version == 7
    assert notification == {"recipient": "ok:ada", "channel": "ok", "status": "pending", "final": False}
    assert (answer.json["event_id"], answer.json["duplicate"]) == ("e1", False)


async def test_the_same_again_is_the_first_answer(api: Caller, ringonce: Ringonce) -> None:
    """The same event again answers 202 with the same ids and creates nothing."""
    first = await api.post("/v1/notifications", GOOD)
    again = await api.post("/v1/notifications", GOOD)
    assert (again.status, again.json["duplicate"]) == (202, True)
    assert again.json["notifications"] == first.json["notifications"]
    assert len(await ringonce.search()) == 1


async def test_another_body_under_the_same_id_is_409(api: Caller, ringonce: Ringonce) -> None:
    """A known event id with another body is a conflict and changes nothing."""
    await api.post("/v1/notifications", GOOD)
    answer = await api.post("/v1/notifications", {**GOOD, "content": {"text": "other"}})
    is_problem(answer, 409, "conflict", "event_id")
    assert len(await ringonce.search()) == 1


async def test_idempotency_key_stands_for_the_event_id(api: Caller) -> None:
    """Idempotency-Key alone is the event's id."""
    body = {key: value for key, value in GOOD.items() if key != "event_id"}
    answer = await api.post("/v1/notifications", body, headers={"Idempotency-Key": "k1"})
    assert answer.json["event_id"] == "k1"


async def test_idempotency_key_equal_to_the_event_id(api: Caller) -> None:
    """Both may be given when they are equal."""
    answer = await api.post("/v1/notifications", GOOD, headers={"Idempotency-Key": "e1"})
    assert answer.status == 202


async def test_idempotency_key_other_than_the_event_id_is_422(api: Caller, ringonce: Ringonce) -> None:
    """Both given and different is refused, because nobody knows which is meant."""
    answer = await api.post("/v1/notifications", GOOD, headers={"Idempotency-Key": "e2"})
    is_problem(answer, 422, "invalid_input", "Idempotency-Key")
    assert await nothing_stored(ringonce)


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({**GOOD, "to": {"okk": "ada"}}, "to", "did you mean ok?"),
        ({**GOOD, "contents": {}}, "contents", "did you mean content?"),
        ({**GOOD, "content": {"text": 3}}, "content.text", "str"),
        ({"content": {"text": "x"}}, "recipients", "nobody"),
        ({"to": {"ok": "ada"}}, "content", "nothing to say"),
        ({**GOOD, "type": "x" * 65}, "type", "64 bytes"),
        ({**GOOD, "send_at": "2026-12-01T09:00:00"}, "send_at", "offset"),
        ({**GOOD, "content": {"text": "a\u0000b"}}, "content.text", "U+0000"),
    ],
)
async def test_bad_input_names_the_field(
    api: Caller, ringonce: Ringonce, body: dict[str, object], field: str, said: str
) -> None:
    """What is wrong is 422 with the field's path and the mend, and nothing is stored."""
    answer = await api.post("/v1/notifications", body)
    assert answer.status == 422
    assert answer.json["field"] == field
    assert said in answer.json["detail"]
    assert await nothing_stored(ringonce)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b'{"a": 1} x'])
async def test_what_is_no_json_is_400(api: Caller, ringonce: Ringonce, raw: bytes) -> None:
    """Malformed JSON and invalid UTF-8 are 400, and nothing is stored."""
    is_problem(await api.post("/v1/notifications", raw=raw), 400, "invalid_json")
    is_problem(await api.post("/v1/notifications/batch", raw=raw), 400, "invalid_json")
    assert await nothing_stored(ringonce)


async def test_other_media_types_are_415(api: Caller, ringonce: Ringonce) -> None:
    """Only JSON is read, so that a web page can not post a form across origins."""
    answer = await api.post(
        "/v1/notifications", raw=json.dumps(GOOD).encode(), headers={"content-type": "text/plain"}
    )
    is_problem(answer, 415, "unsupported_media_type")
    assert await nothing_stored(ringonce)


async def test_too_large_is_413(api: Caller, ringonce: Ringonce) -> None:
    """An event over the limit is refused."""
    answer = await api.post("/v1/notifications", {**GOOD, "data": {"x": "y" * LIMIT}})
    is_problem(answer, 413, "payload_too_large")
    assert await nothing_stored(ringonce)


async def test_too_large_is_refused_while_it_is_read(api: Caller) -> None:
    """A body without a declared length is cut off at the limit; the rest is never read."""

    def endless() -> Iterator[bytes]:
        while True:
            yield b" " * 1_024

    is_problem(await api.post("/v1/notifications", raw=endless()), 413, "payload_too_large")
    assert api.pieces_read == LIMIT // 1_024 + 1


async def test_batch_accepts_all(api: Caller) -> None:
    """A batch answers 202 with one answer per item, in order."""
    items = [{**GOOD, "event_id": f"e{n}"} for n in range(3)]
    answer = await api.post("/v1/notifications/batch", items)
    assert answer.status == 202
    assert [item["event_id"] for item in answer.json] == ["e0", "e1", "e2"]


async def test_a_bad_item_refuses_the_batch_by_its_index(api: Caller, ringonce: Ringonce) -> None:
    """One bad item: 422 with its index and field, and none of the batch is stored."""
    answer = await api.post(
        "/v1/notifications/batch", [GOOD, {**GOOD, "event_id": "e2", "to": {"nope": "x"}}]
    )
    is_problem(answer, 422, "unknown_channel", "[1].to")
    assert await nothing_stored(ringonce)


@pytest.mark.parametrize("body", [[], {"event_id": "x"}])
async def test_a_batch_is_a_list_of_events(api: Caller, body: object) -> None:
    """An empty list, or something else than a list, is refused."""
    assert (await api.post("/v1/notifications/batch", body)).status in {400, 422}
