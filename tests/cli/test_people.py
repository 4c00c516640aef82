"""Recipients and inboxes at the command line."""

from pathlib import Path

from tests.cli.conftest import Ring


def test_a_recipient_from_making_to_erasing(ring: Ring) -> None:
    """Set, shown, reached, read, erased: each step by its command."""
    assert ring("recipients", "show", "ada").code == 3
    assert ring("recipients", "set", "ada", "--locale", "pt-BR", "--timezone", "Europe/Lisbon").code == 0
    assert ring("recipients", "set", "ada", "--timezone", "Nowhere").code == 1
    ring("recipients", "address", "add", "ada", "ok", "ada-1")
    shown = ring("recipients", "show", "ada", "--json").json
    assert (shown["locale"], shown["addresses"][0]["address"]) == ("pt-BR", "ada-1")
    assert "pt-BR" in ring("recipients", "show", "ada").out
    refused = ring("recipients", "erase", "ada")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert ring("recipients", "erase", "ada", "--yes", "--json").json == {"erased": 0}
    assert ring("recipients", "show", "ada").code == 3


def test_an_inbox(ring: Ring, folder: Path) -> None:
    """What was stored is listed, with the number that is unread; an empty inbox says so."""
    (folder / "ringonce.toml").write_text('[channels.app]\nprovider = "inapp"\n', encoding="utf-8")
    assert "empty" in ring("inbox", "ada").out
    assert ring("send", "--to", "app=ada", "--text", "hello").code == 0
    shown = ring("inbox", "ada", "--unread").out
    assert "hello" in shown
    assert "1 unread" in shown
    assert [copy["content"]["text"] for copy in ring("inbox", "ada", "--json").json] == ["hello"]
