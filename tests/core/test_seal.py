"""Sealed tokens and tagged return paths."""

import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.core import verp
from ringonce.core.seal import LONGEST, seal, unseal
from ringonce.errors import InputError

SECRET = "a secret of some length"
ID = str(UUID("018f2f6e-1111-7222-8333-444455556666"))


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=50), max_size=4))
def test_what_is_sealed_comes_back(parts: list[str]) -> None:
    """The parts come back as they were; made again the token is the same, and it is fit for URLs."""
    token = seal(SECRET, "test", *parts)
    assert unseal(SECRET, "test", token) == tuple(parts)
    assert token == seal(SECRET, "test", *parts)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", token)


def test_nobody_else_can_read_or_write_it() -> None:
    """Another secret, another purpose, a changed or cut token and garbage give nothing; the inside does not show."""
    token = seal(SECRET, "test", "ada@example.com")
    for secret, purpose, given_ in (
        ("another secret", "test", token),
        (SECRET, "other", token),
        (SECRET, "test", ("B" if token[0] == "A" else "A") + token[1:]),
        (SECRET, "test", token[:-4]),
        (SECRET, "test", ""),
        (SECRET, "test", "A"),
        (SECRET, "test", "a b"),
        (SECRET, "test", "A" * (LONGEST + 1)),
    ):
        assert unseal(secret, purpose, given_) is None
    assert "ada" not in token


@pytest.mark.parametrize("reference", [ID, f"{ID}.r2", f"{ID}.r9999"])
def test_a_tag_survives_the_way(reference: str) -> None:
    """In upper or lower case, in the middle of anything, it leads back to its reference; it is short enough."""
    tag = verp.tag(reference, SECRET)
    assert len(tag) <= verp.LONGEST
    for text in (f"bounces+{tag}@example.com", f"<BOUNCES+{tag.upper()}@EXAMPLE.COM>", f"x {tag}, {tag}"):
        assert verp.references(text, SECRET) == [reference]
    assert verp.tagged(tag)


def test_a_tag_can_not_be_made_up() -> None:
    """With another secret, for another reference or changed in one letter it leads nowhere."""
    tag = verp.tag(ID, SECRET)
    other = verp.tag(f"{ID}.r2", SECRET)
    assert verp.references(tag, "another secret of ours") == []
    assert verp.references(tag[:29] + other[29:], SECRET) == []
    assert verp.references(tag[:-1] + ("a" if tag[-1] != "a" else "b"), SECRET) == []
    assert verp.references("bounces@example.com", SECRET) == []
    assert not verp.tagged("bounces@example.com")


@pytest.mark.parametrize("reference", ["", "order-42", f"{ID}.r0", f"{ID}.r10000", f"{ID}.x2"])
def test_only_our_own_references_become_tags(reference: str) -> None:
    """What is no client reference is refused."""
    with pytest.raises(InputError):
        verp.tag(reference, SECRET)
