"""How lanes are spelled."""

from hypothesis import given
from hypothesis import strategies as st

from ringonce.core.lane import Lane, belongs, of_account, of_group, parse, spell, stops

CHANNEL = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,5}", fullmatch=True)
TEXT = st.text(max_size=6)


@given(CHANNEL, TEXT, TEXT)
def test_what_is_spelled_is_read(channel: str, group: str, scope: str) -> None:
    """Whatever a tenant is called, its lane is parsed back to what it was made of."""
    lane = Lane(channel, group, scope)
    assert parse(spell(lane)) == lane


def test_a_channel_by_itself_is_its_own_lane() -> None:
    """Rows that were written before there were lanes are in the right one."""
    assert spell(Lane("email")) == "email"
    assert parse("email") == Lane("email")


@given(st.lists(st.tuples(CHANNEL, TEXT, TEXT), min_size=2, max_size=2, unique=True))
def test_no_two_lanes_share_a_name(lanes: list[tuple[str, str, str]]) -> None:
    """Different lanes have different names."""
    first, second = (spell(Lane(*lane)) for lane in lanes)
    assert first != second


def test_what_stops_a_lane() -> None:
    """The account, the channel, the group and the scope do, each for all lanes below it and for no others."""
    acme = stops(Lane("push", "acme", "platform"), "google")
    assert acme == ("@google", "push", "push/acme", "push//platform", "push/acme/platform")
    assert stops(Lane("push", "", "platform")) == ("push", "push/", "push//platform")
    assert stops(Lane("push")) == ("push", "push/")
    assert of_account("google") in acme
    assert of_group("push", "acme") in acme
    assert of_group("push", "") not in acme


def test_names_of_a_channel() -> None:
    """A name concerns the channel that it begins with, or whose account it is; a longer name is another channel."""
    assert all(belongs(name, "push", "g") for name in ("push", "push/", "push/acme", "push//platform", "@g"))
    assert not any(belongs(name, "push", "g") for name in ("pushy", "@", "@other", "email"))
    assert not belongs("@", "push")
