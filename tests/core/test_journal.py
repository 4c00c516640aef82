"""Keys: equal for the same thing, different for different things, the same for ever."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.core.journal import body_hash, canonical, client_reference, event_key, recipient_key

ID = UUID("0190a7c2-7c1e-7b3a-9d5f-1a2b3c4d5e6f")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.tuples(st.text(), st.text()), st.tuples(st.text(), st.text()))
def test_different_parts_have_different_keys(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Parts never run into each other: a length stands before each."""
    assert (event_key(*one) == event_key(*other)) == (one == other)


def test_parts_do_not_run_into_each_other() -> None:
    """``ab`` + ``c`` is not ``a`` + ``bc``."""
    assert event_key("ab", "c") != event_key("a", "bc")


def test_no_tenant() -> None:
    """A null tenant is the empty one, and is not a tenant with an empty-looking name."""
    assert event_key(None, "e") == event_key("", "e")
    assert event_key("", "e") != event_key("\0", "e")


def test_keys_are_stable() -> None:
    """The keys are in databases: they never change."""
    assert event_key("acme", "msg-981").hex() == "3b06747e21b1566e2bc78a8d23838ac5"
    assert (
        recipient_key(event_key("acme", "msg-981"), "user-1", direct=False).hex()
        == "ec7e0f8ec83813dbf7dad79ce5ec369c"
    )
    assert body_hash(b"{}").hex() == "0139b3ee99662bdcad50ae2a25362df503"


def test_recipients() -> None:
    """Who is addressed directly is not the recipient whose id reads the same; another event is another key."""
    event, other = event_key("", "e"), event_key("", "f")
    keys = {recipient_key(k, "x", direct=d) for k in (event, other) for d in (True, False)}
    assert len(keys) == 4
    assert {len(k) for k in keys} == {16}


def test_lone_surrogate_has_a_key() -> None:
    """An id that is no Unicode is refused elsewhere; asking for its key does not crash."""
    assert event_key("", "\ud800") != event_key("", "\ud801")


@given(st.dictionaries(st.text(), JSON))
def test_canonical_ignores_order(body: dict[str, object]) -> None:
    """The order of keys does not matter, their values do."""
    assert canonical(body) == canonical(dict(reversed(body.items())))
    assert canonical({**body, "more": 1}) != canonical({**body, "more": 2})


def test_canonical_form() -> None:
    """Sorted, without spaces, in UTF-8."""
    assert canonical({"b": [1, None], "a": "ü"}) == '{"a":"ü","b":[1,null]}'.encode()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), {"x": [float("-inf")]}, "\ud800"])
def test_canonical_refuses_what_is_not_json(bad: object) -> None:
    """NaN, infinities and lone surrogates are no JSON."""
    with pytest.raises(ValueError):
        canonical(bad)


def test_canonical_refuses_objects() -> None:
    """A value that JSON does not know is refused, not guessed."""
    with pytest.raises(TypeError):
        canonical({"x": object()})


def test_body_hash_has_a_version() -> None:
    """The first byte tells the form, so that another form is never compared with this one."""
    assert body_hash(b"{}")[0] == 1
    assert len(body_hash(b"{}")) == 17
    assert body_hash(b"{}") != body_hash(b"[]")


def test_client_reference() -> None:
    """The id itself, then one name for each later revision."""
    assert [client_reference(ID, n) for n in (1, 2, 3)] == [str(ID), f"{ID}.r2", f"{ID}.r3"]
