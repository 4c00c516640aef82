"""Which refusals speak of the provider, and which provider comes next."""

import pytest

from ringonce import Ringonce
from ringonce.engine.channels import Entry
from ringonce.engine.ways import following, refused
from ringonce.model.notification import LastError
from ringonce.model.outcome import CODE_OF, Outcome, OutcomeClass


def out(cls: str, **facts: object) -> Outcome:
    """An outcome."""
    kind = OutcomeClass(cls)
    return Outcome(kind, CODE_OF[kind], **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "speaks"),
    [
        (out("transient"), True),
        (out("transient", ambiguous=True), False),
        (out("rate_limited"), False),
        (out("rate_limited", scope="address"), False),
        (out("rate_limited", scope="channel"), True),
        (out("auth", scope="channel"), True),
        (out("auth", scope="sender"), True),
        (out("auth", scope="endpoint"), False),
        (out("auth", scope="endpoint:example.org"), False),
        (out("auth", refresh=True), False),
        (out("disabled"), True),
        (out("not_implemented"), True),
        (out("invalid_recipient"), False),
        (out("invalid_payload"), False),
        (out("blocked"), False),
        (out("accepted"), False),
    ],
)
def test_what_speaks_of_the_provider(outcome: Outcome, speaks: bool) -> None:
    """Only a definite refusal of the provider itself, and not of the message, the address or one call."""
    assert refused(outcome, None) is speaks


def test_a_credential_is_refreshed_once_first() -> None:
    """What a fresh credential may heal stays; refused again it goes to the next."""
    assert refused(out("auth", refresh=True), LastError("NTF_PROVIDER_AUTH"))


@pytest.fixture
def entry() -> Entry:
    """A channel with three providers."""
    box = {"provider": "sandbox"}
    ring = Ringonce(
        {"store": {"url": "sqlite:///:memory:"}, "channels": {"sms": {"providers": [box, box, box]}}}
    )
    found = ring.engine.channels.get("sms")
    assert found is not None
    return found


def test_the_order_is_that_of_the_configuration(entry: Entry) -> None:
    """One after the other, and nobody after the last, or after one that is not configured any more."""
    names = ["sms", "sms~sandbox2", "sms~sandbox3", ""]
    assert [following(entry, name) for name in ("", *names[:3])] == ["sms~sandbox2", *names[1:]]
    assert following(entry, "sms~gone") == ""


def test_a_way_has_the_settings_of_its_channel(entry: Entry) -> None:
    """What stands beside providers holds for each of them, also after a change at run time."""
    assert all(way.channel.policy == entry.channel.policy for way in entry.ways)
    assert [way.channel.way_of for way in entry.ways] == ["sms", "sms"]
