"""send: by options, by a structure on standard input, by lines of a file."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Ring

GOOD = {"event_id": "e1", "to": {"ok": "ada"}, "content": {"text": "hello"}}


def line(**changes: object) -> bytes:
    """One line with one structure."""
    return json.dumps({**GOOD, **changes}).encode() + b"\n"


def stored(ring: Ring) -> list[str]:
    """The event ids of all notifications."""
    return sorted(item["event_id"] for item in ring("list", "--json", "--limit", "500").json)


def test_options_become_the_structure(ring: Ring) -> None:
    """Every option reaches its field."""
    done = ring(
        "send", "--to", "ok=ada", "--title", "t", "--text", "x", "--type", "order.shipped", "--event-id", "e1",
        "--tenant", "acme", "--subject", "order:1", "--thread", "th", "--collapse", "c", "--priority", "high",
        "--send-at", "2099-01-01T00:00:00Z", "--expires-at", "2099-01-02T00:00:00Z", "--json",
    )  # fmt: skip
    id_ = done.json["notifications"][0]["id"]
    view = ring("explain", id_, "--json").json
    assert view["content"] == {"title": "t", "text": "x", "html": None, "data": {}}
    for name, value in {
        "type": "order.shipped",
        "event_id": "e1",
        "tenant": "acme",
        "subject": "order:1",
        "thread": "th",
        "collapse": "c",
        "priority": "high",
        "next_attempt_at": "2099-01-01T00:00:00.000000Z",
        "expires_at": "2099-01-02T00:00:00.000000Z",
    }.items():
        assert view[name] == value


def test_a_template_and_its_data(ring: Ring, folder: Path) -> None:
    """--template takes the place of the text, --data is what it shows; what is no JSON object is a usage error."""
    (folder / "templates" / "hi").mkdir(parents=True)
    (folder / "templates" / "hi" / "en.toml").write_text('text = "Hi {{ name }}"')
    done = ring("send", "--to", "ok=ada", "--template", "hi", "--data", '{"name": "Ada"}', "--json")
    view = ring("explain", done.json["notifications"][0]["id"], "--json").json
    assert view["content"]["text"] == "Hi Ada"
    missing = ring("send", "--to", "ok=ada", "--template", "hi")
    assert missing.code == 1
    assert "data.name" in missing.err
    for bad in ("{", "[1]"):
        assert ring("send", "--to", "ok=ada", "--template", "hi", "--data", bad).code == 2


def test_recipients_with_registered_addresses(ring: Ring) -> None:
    """--recipient reaches every registered address, --channel narrows it."""
    ring("recipients", "address", "add", "ada", "ok", "ada-1")
    ring("recipients", "address", "add", "ada", "flaky", "ada-2")
    both = ring("send", "--recipient", "ada", "--text", "x", "--json").json["notifications"]
    one = ring("send", "--recipient", "ada", "--channel", "flaky", "--text", "x", "--json").json[
        "notifications"
    ]
    assert sorted(item["channel"] for item in both) == ["flaky", "ok"]
    assert [item["channel"] for item in one] == ["flaky"]


def test_one_structure_on_standard_input(ring: Ring) -> None:
    """Without options the structure is read from standard input."""
    done = ring("send", "--json", stdin=line())
    assert (done.code, done.json["event_id"]) == (0, "e1")


def test_again_is_told_as_known(ring: Ring) -> None:
    """The same event again is no error and says that nothing new happened."""
    ring("send", stdin=line())
    done = ring("send", stdin=line())
    assert done.code == 0
    assert "known already" in done.out


def test_bad_input_is_1_and_stores_nothing(ring: Ring) -> None:
    """A refused structure ends with 1, names code, field and mend, and stores nothing."""
    done = ring("send", "--to", "okk=ada", "--text", "x")
    assert done.code == 1
    assert "[unknown_channel]" in done.err
    assert "did you mean ok?" in done.err
    assert stored(ring) == []


def test_a_file_of_good_lines(ring: Ring, folder: Path) -> None:
    """Every line is accepted, empty ones and a byte order mark are no matter; a second run adds nothing."""
    lines = b"\xef\xbb\xbf" + b"".join(line(event_id=f"e{n:03}") for n in range(450)) + b"\n\r\n"
    (folder / "x.jsonl").write_bytes(lines)
    first = ring("send", "--file", "x.jsonl", "--json")
    again = ring("send", "--file", "x.jsonl", "--json")
    assert (first.code, again.code) == (0, 0)
    assert first.json == {"accepted": 450, "duplicates": 0, "notifications": 450, "bad": 0, "problems": []}
    assert (again.json["accepted"], again.json["duplicates"]) == (0, 450)


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b"{\n", "invalid_json"),
        (b'{"to": {"ok": "\xff"}}\n', "invalid_json"),
        (b"[]\n", "invalid_input"),
        (b"\x00\n", "invalid_json"),
        (line(event_id="b", to={"nope": "x"}), "unknown_channel"),
        (line(event_id="b", data={"x": "y" * 5_000}), "payload_too_large"),
        (line(event_id="b", data={"x": "y" * 50_000}), "payload_too_large"),
        (line(event_id="e0", content={"text": "other"}), "conflict"),
    ],
)
def test_good_lines_are_accepted_and_bad_ones_listed(ring: Ring, bad: bytes, code: str) -> None:
    """A bad line is listed by its number, the others are accepted, and the command ends with 1."""
    lines = line(event_id="e0") + bad + line(event_id="e1")
    done = ring("send", "--file", "-", "--json", stdin=lines)
    assert done.code == 1
    assert [(item["line"], item["code"]) for item in done.json["problems"]] == [(2, code)]
    assert stored(ring) == ["e0", "e1"]


def test_bad_lines_are_said_at_once(ring: Ring) -> None:
    """Without --json each bad line is one line on standard error."""
    done = ring("send", "--file", "-", stdin=b"{\n" + line())
    assert done.err.startswith("line 1: [invalid_json]")
    assert "1 bad" in done.out


def test_a_last_line_without_its_end_counts(ring: Ring) -> None:
    """The last line needs no line end."""
    assert ring("send", "--file", "-", "--json", stdin=line().rstrip()).json["accepted"] == 1


def test_accepting_on_a_disabled_channel(ring: Ring, accepted: Callable[..., str]) -> None:
    """A disabled channel accepts: the notification waits."""
    ring("channels", "disable", "ok")
    id_ = accepted("ok")
    assert ring("explain", id_, "--json").json["status"] == "pending"
