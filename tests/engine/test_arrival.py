"""The short way of a structure and the long one lead to the same place."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringonce import registry
from ringonce.core.journal import canonical
from ringonce.engine.arrival import read
from ringonce.engine.channels import Channels, Entry
from ringonce.engine.contract import check_texts, decode, load, make
from ringonce.errors import InputError
from ringonce.model.policy import Channel

GOOD: dict[str, Any] = {"event_id": "e", "to": {"box": "a1"}, "content": {"text": "hello"}}
MOST = 10_000
ENTRY = Entry(Channel("box", "sandbox"), registry.build("sandbox", {}))
CHANNELS = Channels({"box": ENTRY}, lambda channel, _: channel)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def the_long_way(raw: bytes) -> tuple[Any, bytes]:
    """The event and its canonical body."""
    value = load(raw, MOST)
    return decode(value, "made-up", None, CHANNELS), canonical(value)


def told(way: Callable[[], tuple[Any, bytes]]) -> object:
    """What comes of it, or the words of its error."""
    try:
        return way()
    except InputError as error:
        return str(error)


@settings(max_examples=200)
@given(
    st.fixed_dictionaries(
        {"content": st.fixed_dictionaries({"text": TEXT, "data": st.dictionaries(TEXT, JSON, max_size=3)})},
        optional={
            "event_id": TEXT,
            "to": st.fixed_dictionaries({"box": TEXT}),
            "recipients": st.lists(TEXT | st.fixed_dictionaries({"id": TEXT}), max_size=3),
            "channels": st.lists(st.sampled_from(["box", "bax"]), max_size=2),
            "priority": st.sampled_from(["high", "urgent"]),
            "subject": TEXT,
            "type": st.text("aü", max_size=70),
            "send_at": st.sampled_from(["2026-12-01T09:00:00Z", "2026-12-01T09:00:00", "soon"]),
            "unknown": JSON,
        },
    )
)
def test_both_ways_agree(body: dict[str, Any]) -> None:
    """Where the short way goes at all, it gives the event and the canonical body, or the error, of the long one."""
    raw = json.dumps(body).encode()
    short = read(raw, MOST)
    if short is None:
        return
    right, whole = short
    id_ = None if right.event_id else "made-up"
    assert told(lambda: (make(right, id_, None, CHANNELS, None), whole)) == told(lambda: the_long_way(raw))


@pytest.mark.parametrize(
    "body", [GOOD, {**GOOD, "recipients": ["u"], "tenant": "", "data": {"ü": [1, None]}}]
)
def test_what_is_right_goes_the_short_way(body: dict[str, Any]) -> None:
    """Usual structures need no long way, as bytes or as a mapping, and their canonical body is one."""
    assert read(json.dumps(body).encode(), MOST) == read(body, MOST)
    assert read(body, MOST) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"content": {"text": "a\0b"}},
        {"data": {"a\0": 1}},
        {"data": {"x": 1.5}},
        {"data": json.loads("[" * 40 + "]" * 40) and {"x": json.loads("[" * 40 + "]" * 40)}},
        {"event_id": ""},
        {"subject": "x" * 257},
        {"type": "ü" * 33},
        {"priority": "urgent"},
        {"channels": []},
        {"unknown": 1},
        {"data": {"long": "x" * MOST}},
    ],
)
def test_what_needs_a_look_goes_the_long_way(change: dict[str, Any]) -> None:
    """What is wrong, or spelled in more ways than one, is left to the long way."""
    assert read(json.dumps({**GOOD, **change}).encode(), MOST) is None


@pytest.mark.parametrize("raw", [b"{", b"[]", b'"\xff"', b'{"a": "\\ud800"}', b'{"a": NaN}', b"[" * 5_000])
def test_what_is_not_json_goes_the_long_way(raw: bytes) -> None:
    """Bytes that are no structure are left to the long way."""
    assert read(raw, MOST) is None


@pytest.mark.parametrize("value", [{"x": "\ud800"}, {"x": float("nan")}, {"x": object()}, {1: 2, "a": 3}])
def test_values_that_are_not_json_go_the_long_way(value: dict[Any, Any]) -> None:
    """A mapping that JSON can not say is left to the long way."""
    assert read({**GOOD, "data": value}, MOST) is None


def test_a_text_that_only_looks_like_an_escape() -> None:
    """A backslash before ``u0000`` is a text like any other: the long way accepts it."""
    raw = json.dumps({**GOOD, "content": {"text": "\\u0000"}}).encode()
    event, _ = the_long_way(raw)
    assert event.content.text == "\\u0000"
    check_texts(load(raw, MOST))
