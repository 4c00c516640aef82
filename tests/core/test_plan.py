"""Which notifications an event becomes."""

from __future__ import annotations

from dataclasses import replace

from ringonce.core.plan import Outline, Skipped, outline
from ringonce.model.event import Event
from ringonce.model.notification import Address
from ringonce.model.policy import Channel
from ringonce.model.records import RecipientFacts
from ringonce.model.transition import Enqueued

NOW = 1_000
CHANNELS = {
    "push": Channel("push", "sandbox", account="keys-1"),
    "email": Channel("email", "sandbox", account="mail"),
    "hook": Channel("hook", "sandbox", enabled=False),
}
EVENT = Event("e1")


def address(id_: int, channel: str, **facts: object) -> Address:
    """A live address of user-1."""
    return replace(Address(id_, "", "user-1", channel, f"{channel}-{id_}", 1), **facts)  # type: ignore[arg-type]


def person(*addresses: Address, locale: str | None = None) -> RecipientFacts:
    """What is known of user-1."""
    return RecipientFacts("user-1", locale, None, addresses)


def found(made: Outline) -> list[tuple[str, int | None, str | None]]:
    """(channel, address id, reason) of what is planned."""
    return [
        (p.channel, None if p.address is None else p.address.id, p.enqueued.suppressed_by)
        for p in made.planned
    ]


def test_every_enabled_channel_with_an_address() -> None:
    """Channels omitted: those that are on and reach the recipient, each address on its own."""
    one = person(address(1, "email"), address(2, "push"), address(3, "push"), address(4, "hook"))
    made = outline(EVENT, [one], CHANNELS, NOW)
    assert found(made) == [("push", 2, None), ("push", 3, None), ("email", 1, None)]
    assert [p.account for p in made.planned] == ["keys-1", "keys-1", "mail"]
    assert {p.recipient for p in made.planned} == {"user-1"}
    assert made.skipped == ()


def test_nobody_to_reach_is_told() -> None:
    """Without any address on any enabled channel no notification exists, and the answer can say why."""
    gone = address(1, "push", invalidated_at=5, reason="gone")
    for one in (person(), person(gone), person(address(4, "hook")), person(address(5, "no such channel"))):
        assert outline(EVENT, [one], CHANNELS, NOW) == Outline((), (Skipped("user-1", "no_address"),))


def test_named_channels_exist_whatever_their_state() -> None:
    """A named channel waits when it is off, and is suppressed without an address or when nobody configures it."""
    event = replace(EVENT, channels=("hook", "email", "sms", "hook"))
    made = outline(event, [person(address(4, "hook"), address(9, "push"))], CHANNELS, NOW)
    assert found(made) == [
        ("hook", 4, None),
        ("email", None, "no_address"),
        ("sms", None, "unknown_channel"),
    ]
    assert made.planned[2].account == ""


def test_direct_goes_to_its_own_channel() -> None:
    """With ``to`` the channel is the address's own, whatever ``channels`` says, even when it is off."""
    event = replace(EVENT, channels=("email",))
    one = RecipientFacts("hook:x", None, None, (address(7, "hook"),), direct=True)
    assert found(outline(event, [one], CHANNELS, NOW)) == [("hook", 7, None)]


def test_times() -> None:
    """Due at send_at, but not before now; expires_at and a withdrawn subject travel with it."""
    one = person(address(1, "email"))

    def enqueued(event: Event, *, cancelled: bool = False) -> Enqueued:
        return outline(event, [one], CHANNELS, NOW, cancelled=cancelled).planned[0].enqueued

    assert enqueued(EVENT) == Enqueued(NOW)
    assert enqueued(replace(EVENT, send_at=NOW + 5)) == Enqueued(NOW + 5)
    assert enqueued(replace(EVENT, send_at=NOW - 5, expires_at=NOW + 9)) == Enqueued(NOW, None, NOW + 9)
    assert enqueued(EVENT, cancelled=True).cancelled


def test_texts_are_shared() -> None:
    """One text for each channel; what a template makes of it is decided when it is rendered."""
    ru, none = person(address(1, "email"), locale="RU"), person(address(2, "email"))
    for event in (EVENT, replace(EVENT, template="shipped")):
        keys = [p.content_key for p in outline(event, [ru, none], CHANNELS, NOW).planned]
        assert keys == ["email", "email"]


def kept(event: Event, one: RecipientFacts, channels: dict[str, Channel] = CHANNELS) -> Outline:
    """The outline where ``push`` and ``hook`` only store."""
    return outline(event, [one], channels, NOW, stored={"push", "hook"})


def test_a_stored_copy_needs_no_address() -> None:
    """Where copies are only stored everybody gets one, unless the channel is off and nobody named it."""
    made = kept(EVENT, person(address(1, "email")))
    assert found(made) == [("push", None, None), ("email", 1, None)]
    assert [p.enqueued.stored for p in made.planned] == [True, False]
    (off,) = kept(replace(EVENT, channels=("hook",)), person()).planned
    assert (off.enqueued.suppressed_by, off.enqueued.stored) == (None, False)


def test_a_stored_copy_that_to_names_is_its_owners() -> None:
    """By ``to`` the value is the recipient; the time to appear and the end travel with it."""
    one = RecipientFacts("push:ada", None, None, (replace(address(7, "push"), value="ada"),), direct=True)
    (made,) = kept(replace(EVENT, send_at=NOW + 5, expires_at=NOW + 9), one).planned
    assert (made.recipient, made.address) == ("ada", None)
    assert made.enqueued == Enqueued(NOW + 5, None, NOW + 9, stored=True)
