"""Columns that are alike travel as one value; what is stored is the same."""

import pytest

from ringonce.model.event import Event, Recipient
from ringonce.model.notification import Content
from ringonce.ports import Query
from tests.store.kit import World

NASTY = ("NULL", "", "{}", "a,b", 'say "x"', "back\\slash", "'quoted'", "\u202eright", "\\x00", " ")
NASTY += ("\x1f", "\x1e", "a\x1f", "\x1e\x1f1", "\x1f1\x1e", "\x1e1\x1f")


@pytest.mark.parametrize("alike", [True, False])
async def test_every_column_is_stored_as_it_was_given(world: World, alike: bool) -> None:
    """Texts, keys, numbers and nulls of a batch are read back, whether all its rows are alike or none is."""
    texts = [NASTY[0] if alike else text for text in NASTY]
    given = [
        Event(
            f"e-{number}",
            text[:64],
            subject=text if alike or number % 2 else None,
            thread=None if alike or number % 3 else text,
            priority="high" if alike or number % 2 else "low",
            recipients=(Recipient(f"r{text}", locale=text, addresses={"email": (f"m{text}",)}),),
            to={"push": f"p{text}"},
            content=Content(text, text or None, None, {"k": text}),
            send_at=None if alike or number % 2 else world.now + number,
        )
        for number, text in enumerate(texts)
    ]
    answers = await world.accept(*given)
    assert [len(answer.notifications) for answer in answers] == [2] * len(given)
    rows = {row.id: row for row in await world.store.search(Query(limit=100))}
    for event, answer in zip(given, answers, strict=True):
        for brief in answer.notifications:
            row = rows[brief.id]
            said = (row.event_id, row.event_type, row.subject, row.thread, row.priority)
            assert said == (event.event_id, event.type, event.subject, event.thread, event.priority)
            assert row.state.next_attempt_at == (event.send_at or world.now)
            life = await world.store.get(brief.id)
            assert life is not None
            assert life.content == event.content
            assert life.due is not None
            assert life.due.at == (event.send_at or world.now)
    person = await world.store.person("", f"r{texts[-1]}")
    assert person is not None
    assert person.locale == texts[-1]


async def test_an_address_that_is_known_keeps_its_owner(world: World) -> None:
    """Named again by ``to``, an address is not taken from whom it belongs to."""
    owned = await world.store.register("", "ada", "email", "ada@example.com", now=world.now)
    first = (await world.accept(Event("e-1", to={"email": "ada@example.com"})))[0].notifications[0]
    life = await world.store.get(first.id)
    assert life is not None
    assert life.row.address == owned
    await world.store.register("", "ada", "email", "ada@example.com", now=world.now)
    await world.accept(Event("e-2", to={"email": "ada@example.com", "push": "new"}))
    assert [a.recipient for a in await world.store.addresses("", "ada")] == ["ada"]
