"""The structure that every way in accepts: what is refused, and how it is said."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce import registry
from ringonce.engine.channels import Channels, Entry
from ringonce.engine.contract import check_texts, decode, decode_event, encode_event, load, plain
from ringonce.errors import InputError, PayloadTooLarge
from ringonce.model.policy import Channel

GOOD: dict[str, Any] = {"to": {"box": "a1"}, "content": {"text": "hello"}}


def refused(channels: Channels, body: dict[str, Any], tenant: str | None = None) -> InputError:
    """The error that the structure is refused with."""
    with pytest.raises(InputError) as caught:
        decode(body, lambda: "made-up", tenant, channels)
    return caught.value


def test_everything_but_a_target_and_a_text_is_optional(channels: Channels) -> None:
    """A target and a text are enough; the event id that is missing is the one that was made up."""
    event = decode(GOOD, lambda: "made-up", None, channels)
    assert (event.event_id, event.tenant, event.to, event.channels) == ("made-up", "", {"box": "a1"}, None)


def test_the_stored_form_gives_the_event_back(channels: Channels) -> None:
    """What is stored of an event is the whole event."""
    body = {
        **GOOD,
        "event_id": "e1",
        "recipients": [
            "u1",
            {"id": "u2", "locale": "ru", "addresses": {"mail": ["b@example.com"], "box": "x"}},
        ],
        "subject": "order:1",
        "data": {"n": [1, None, {"deep": True}]},
        "send_at": "2026-12-01T09:00:00+03:00",
        "mentions": ["u2"],
    }
    event = decode(body, str, "acme", channels)
    assert decode_event(encode_event(event)) == event
    assert event.send_at == 1_796_104_800_000_000
    assert event.recipients[1].addresses == {"mail": ("b@example.com",), "box": ("x",)}
    assert event.tenant == "acme"


@pytest.mark.parametrize(
    ("change", "field", "mend"),
    [
        ({"recipient": ["u"]}, "recipient", "recipients"),
        ({"content": {"txt": "x"}}, "content.txt", "text"),
        ({"recipients": [{"id": "u", "local": "ru"}]}, "recipients[0].local", "locale"),
        ({"to": {"bx": "a"}}, "to", "box"),
        ({"channels": ["mial"]}, "channels", "mail"),
    ],
)
def test_unknown_names_suggest_the_nearest(
    channels: Channels, change: dict[str, Any], field: str, mend: str
) -> None:
    """An unknown field or channel is named with its path, and the nearest known name is suggested."""
    error = refused(channels, {**GOOD, **change})
    assert error.field == field
    assert mend in error.mend


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"to": {}}, "recipients"),
        ({"channels": []}, "channels"),
        ({"content": None}, "content"),
        ({"content": {"title": ""}}, "content"),
        ({"priority": "urgent"}, "priority"),
        ({"type": "я" * 33}, "type"),
        ({"event_id": ""}, "event_id"),
        ({"subject": "s" * 257}, "subject"),
        ({"send_at": "2026-12-01T09:00:00"}, "send_at"),
        ({"send_at": 5}, "send_at"),
        ({"recipients": [{"id": ""}]}, "recipients[0].id"),
        ({"recipients": [7]}, "recipients[0]"),
        ({"to": {"mail": "nobody"}}, "to.mail"),
        ({"recipients": [{"id": "u", "addresses": {"mail": ["x"]}}]}, "recipients[0].addresses.mail"),
        ({"data": {"a": ["x\x00y"]}}, "data.a[0]"),
        ({"content": {"text": "\ud800"}}, "content.text"),
    ],
)
def test_bad_values_name_their_field(channels: Channels, change: dict[str, Any], field: str) -> None:
    """A bad value is refused with the path of its field."""
    assert refused(channels, {**GOOD, **change}).field == field


def test_a_key_speaks_for_its_own_tenant(channels: Channels) -> None:
    """A structure that names another tenant than the caller's is refused."""
    assert refused(channels, {**GOOD, "tenant": "other"}, tenant="acme").field == "tenant"


def test_what_a_named_channel_can_not_carry_is_refused(channels: Channels) -> None:
    """A feature that a named channel lacks is refused at acceptance, naming the channel."""
    error = refused(channels, {"to": {"chat": "5"}, "content": {"text": "x", "data": {"k": 1}}})
    assert "chat" in error.message
    assert error.field is not None
    assert error.field.startswith("content")


def test_unnamed_channels_refuse_only_what_none_can_carry(channels: Channels) -> None:
    """Without named channels the content is refused only when no channel at all can carry it."""
    mixed = {"recipients": ["u"], "content": {"html": "<b>only html</b>"}}
    assert decode(mixed, lambda: "e", None, channels).content is not None
    settings = {"token": "1:abc"}
    chat_only = Channels(
        {"chat": Entry(Channel("chat", "telegram"), registry.build("telegram", settings))},
        lambda channel, _: channel,
    )
    assert refused(chat_only, mixed).field is not None


@pytest.mark.parametrize("raw", [b"", b"[1]", b"{", b"\xff\xfe", b"nul", b'"x"', b"[" * 100_000])
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    """Bytes that are no JSON object in UTF-8 are refused, however deep or broken."""
    with pytest.raises(InputError):
        load(raw, 1_000_000)


def test_too_large_is_said_before_anything_is_read() -> None:
    """More bytes than the limit are refused with a class of their own."""
    with pytest.raises(PayloadTooLarge):
        load(b'{"a": 1}', 5)


def test_nesting_ends_somewhere(channels: Channels) -> None:
    """Data nested deeper than the limit is refused with its path."""
    deep: Any = 1
    for _ in range(40):
        deep = {"d": deep}
    error = refused(channels, {**GOOD, "data": deep})
    assert (error.field or "").startswith("data.d.d")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
FIELDS = [
    "event_id",
    "type",
    "tenant",
    "recipients",
    "to",
    "channels",
    "content",
    "data",
    "send_at",
    "mentions",
]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_nothing_but_input_errors(body: dict[str, Any]) -> None:
    """Whatever the structure holds, it is decoded or refused as input: nothing else is ever raised."""
    channels = Channels(
        {"box": Entry(Channel("box", "sandbox"), registry.build("sandbox", {}))}, lambda c, _: c
    )
    with suppress(InputError):
        assert decode({**GOOD, **body}, lambda: "e", None, channels).event_id


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=5)
ANY_JSON = st.recursive(
    ANY_TEXT, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3)
)


@given(ANY_JSON, st.booleans(), st.integers(0, 40))
def test_a_glance_lets_nothing_pass_that_the_walk_refuses(inner: Any, escaped: bool, levels: int) -> None:
    """Bytes that are plain at a glance hold no text that can not be stored, and are not too deep."""
    for _ in range(levels):
        inner = [inner]
    raw = json.dumps({"data": inner}, ensure_ascii=escaped).encode(errors="surrogatepass")
    if plain(raw):
        with suppress(InputError):
            # What can not be read at all is refused by ``load``.
            check_texts(load(raw, 1_000_000))
            return
        with pytest.raises(InputError):
            load(raw, 1_000_000)
