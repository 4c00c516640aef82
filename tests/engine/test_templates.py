"""Templates on the real store: refused before anything is stored, rendered once for each text, loud when they fail."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from ringonce.app import Ringonce
from ringonce.errors import InputError, PayloadTooLarge, TemplateError
from ringonce.model.notification import Content
from ringonce.model.records import Reader
from ringonce.ports import Row
from ringonce.templates import Library

EN = """
title = "Order {{ order }}"
text = "{{ count }} {{ count | plural(one='item', other='items') }}"

[chat]
title = ""
"""
RU = """
title = "Заказ {{ order }}"
text = "{{ count }} {{ count | plural(one='товар', few='товара', many='товаров', other='товара') }}"
"""
DATA = {"order": 42, "count": 5}

Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of a template."""

    def keep(text: str, file: str = "en.toml", name: str = "shipped") -> None:
        path = tmp_path / "templates" / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return keep


@pytest.fixture
async def ringonce(tmp_path: Path) -> AsyncIterator[Ringonce]:
    """Channels: ``box`` carries everything, ``mail`` no data, ``chat`` neither HTML nor more than 4,096 units."""
    config = {
        "store": {"url": f"sqlite:///{tmp_path}/ringonce.db"},
        "templates": {"path": str(tmp_path / "templates")},
        "channels": {
            "box": {"provider": "sandbox"},
            "mail": {"provider": "smtp", "url": "smtp://127.0.0.1:1", "from": "shop@example.com"},
            "chat": {"provider": "telegram", "token": "1:abc"},
        },
    }
    async with Ringonce(config) as ringonce:
        # Files count at once: a test does not wait for the second between two looks.
        folder = tmp_path / "templates"
        ticks = iter(range(10_000))
        ringonce.engine.templates = Library(
            folder,
            Reader(locale="en", timezone="UTC"),
            ringonce.config.channels,
            monotonic=lambda: float(next(ticks)),
            alert=ringonce.telemetry.alert,
        )
        yield ringonce


async def texts(ringonce: Ringonce, **terms: object) -> dict[str, Content]:
    """Recipient and channel -> content."""
    rows = await ringonce.search(**terms)
    return {f"{row.recipient} {row.channel}": (await ringonce.get(row.id)).content for row in rows}


async def refused(ringonce: Ringonce, **body: object) -> InputError:
    """What an event is refused with; nothing of it is stored."""
    with pytest.raises(InputError) as caught:
        await ringonce.notify(template="shipped", **body)
    assert await ringonce.search() == []
    return caught.value


async def test_everybody_gets_the_text_of_their_locale(ringonce: Ringonce, write: Write) -> None:
    """Locale from the event, else from the store, else the default; the channel's own wording."""
    write(EN)
    write(RU, "ru.toml")
    address = {"box": ["b"], "chat": ["1"]}
    await ringonce.notify(
        recipients=[{"id": "stored", "locale": "ru", "addresses": {"box": "b0"}}], content={"text": "before"}
    )
    await ringonce.notify(
        event_id="e",
        template="shipped",
        data=DATA,
        recipients=[
            "stored",
            {"id": "en", "addresses": {**address, "box": "b1"}},
            {"id": "ru", "locale": "ru_RU", "addresses": {"box": "b2", "chat": "2"}},
        ],
        to={"mail": "ada@example.com"},
    )
    assert await texts(ringonce, event_id="e") == {
        "stored box": Content("Заказ 42", "5 товаров"),
        "en box": Content("Order 42", "5 items"),
        "en chat": Content(None, "5 items"),
        "ru box": Content("Заказ 42", "5 товаров"),
        "ru chat": Content("Заказ 42", "5 товаров"),
        "mail:ada@example.com mail": Content("Order 42", "5 items"),
    }


async def test_a_text_about_the_recipient_is_their_own(ringonce: Ringonce, write: Write) -> None:
    """What shows the recipient or moments in their zone is rendered for each; ids never get mixed up."""
    write('text = "{{ recipient.id }} {{ at | time(zone=false) }}"')
    people = [
        {"id": f"u{n}", "timezone": zone, "addresses": {"box": f"b{n}"}}
        for n, zone in enumerate(["Asia/Kolkata", "UTC", "UTC"])
    ]
    await ringonce.notify(template="shipped", data={"at": "2026-07-01T10:00:00Z"}, recipients=people)
    assert {content.text for content in (await texts(ringonce)).values()} == {
        "u0 3:30\u202fPM",
        "u1 10:00\u202fAM",
        "u2 10:00\u202fAM",
    }


async def test_what_is_missing_is_refused_before_anything_is_stored(ringonce: Ringonce, write: Write) -> None:
    """A variable that only the Russian text needs is missed at once, although nobody's locale is in the event."""
    write(EN)
    write(RU + 'html = "{{ total }}"', "ru.toml")
    error = await refused(ringonce, recipients=["u1"], data=DATA)
    assert isinstance(error, TemplateError)
    assert (error.code, error.field) == ("template_invalid", "data.total")
    assert "shipped/ru.toml, line 4 (html)" in str(error)
    # Whoever is known to read English is not held up by it.
    await ringonce.notify(
        template="shipped", data=DATA, recipients=[{"id": "u1", "locale": "en", "addresses": {"box": "b"}}]
    )


async def test_the_name_is_checked(ringonce: Ringonce, write: Write) -> None:
    """An unknown template suggests the nearest; content beside a template is refused; a broken one says why."""
    write(EN)
    with pytest.raises(TemplateError, match="did you mean shipped") as caught:
        await ringonce.notify(template="shiped", to={"box": "b"})
    assert (caught.value.code, caught.value.field) == ("unknown_template", "template")
    assert (await refused(ringonce, to={"box": "b"}, content={"text": "x"})).field == "template"
    write('text = "{{ half"')
    ringonce.engine.templates = None
    assert "no templates here" in str(await refused(ringonce, to={"box": "b"}))


async def test_a_bad_item_of_a_batch_is_named(ringonce: Ringonce, write: Write) -> None:
    """The index comes before the field, and nothing of the batch is stored."""
    write(EN)
    good = {"template": "shipped", "data": DATA, "to": {"box": "b"}}
    with pytest.raises(TemplateError) as caught:
        await ringonce.notify_many([good, {**good, "data": {"order": 1}}])
    assert caught.value.field == "[1].data.count"
    assert await ringonce.search() == []


async def test_what_a_channel_can_not_carry_is_refused_like_content(ringonce: Ringonce, write: Write) -> None:
    """Named: refused. One of several that could: the others carry it, and that one says so."""
    write('html = "<p>x</p>"')
    error = await refused(ringonce, to={"chat": "1"})
    assert (error.field, "channel chat" in str(error)) == ("template", True)
    await ringonce.notify(
        template="shipped", recipients=[{"id": "u", "addresses": {"box": "b", "chat": "1"}}], event_id="e"
    )
    rows = {row.channel: row for row in await ringonce.search(event_id="e")}
    assert {name: row.state.status.value for name, row in rows.items()} == {
        "box": "pending",
        "chat": "suppressed",
    }


async def test_a_channel_without_a_wording_is_left_out(ringonce: Ringonce, write: Write) -> None:
    """A template that speaks on one channel only: nobody asked for the others; asked for by name it is refused."""
    write('[chat]\ntext = "x"')
    people = [{"id": "u", "addresses": {"box": "b", "chat": "1"}}]
    await ringonce.notify(template="shipped", recipients=people, event_id="e")
    rows = {row.channel: row.state.status.value for row in await ringonce.search(event_id="e")}
    assert rows == {"box": "suppressed", "chat": "pending"}
    with pytest.raises(TemplateError, match="nothing to say on box"):
        await ringonce.notify(template="shipped", recipients=people, channels=["box", "chat"])


async def test_no_channel_carries_it(ringonce: Ringonce, write: Write) -> None:
    """If every channel refuses the text, so does the acceptance."""
    write('title = "{{ \'x\' }}"\n[box]\ntitle = ""\n[mail]\ntitle = ""\n[chat]\ntitle = ""\nhtml = "x"')
    assert "channel chat" in str(await refused(ringonce, recipients=["u"]))


async def test_a_long_text_is_cut_or_refused_as_the_template_says(ringonce: Ringonce, write: Write) -> None:
    """Cut by default, title included in the count; refused before it is stored where the file says so."""
    write('title = "Title"\ntext = "{{ body }}"')
    body = {"to": {"chat": "1"}, "data": {"body": "😀" * 5_000}}
    await ringonce.notify(template="shipped", event_id="e", **body)
    (content,) = (await texts(ringonce, event_id="e")).values()
    assert content.text is not None
    assert content.text.endswith("😀…")
    assert len(("Title\n\n" + content.text).encode("utf-16-le")) // 2 in {4_095, 4_096}
    write('title = "Title"\ntext = "{{ body }}"\ntoo_long = "refuse"')
    with pytest.raises(PayloadTooLarge):
        await ringonce.notify(template="shipped", **body)


async def expanded(ringonce: Ringonce) -> list[Row]:
    """What the events that were too large to be expanded at once become."""
    engine = ringonce.engine
    while await ringonce.store.expand(engine.plan, decide=engine.decide):
        pass
    return await ringonce.search(limit=500)


MANY = [{"id": f"u{n}", "addresses": {"box": f"b{n}"}} for n in range(101)]


async def test_a_large_event_is_rendered_once_for_all(ringonce: Ringonce, write: Write) -> None:
    """All recipients of a locale share one content."""
    write(EN)
    write(RU, "ru.toml")
    people = [{**one, "locale": "ru" if n % 2 else "en"} for n, one in enumerate(MANY)]
    accepted = await ringonce.notify(template="shipped", data=DATA, recipients=people)
    assert accepted.expanding
    rows = await expanded(ringonce)
    assert len(rows) == 101
    said = {(await ringonce.get(row.id)).content.title for row in rows}
    assert said == {"Order 42", "Заказ 42"}


@pytest.mark.parametrize("change", ["edited", "removed"])
async def test_a_template_that_fails_later_is_visible(
    ringonce: Ringonce, write: Write, tmp_path: Path, change: str
) -> None:
    """Changed between acceptance and expansion: failed for good with its own code, told in words, never sent empty."""
    write(EN)
    await ringonce.notify(template="shipped", data=DATA, recipients=MANY, channels=["box"])
    if change == "edited":
        write('text = "{{ total }}"')
    else:
        (tmp_path / "templates" / "shipped" / "en.toml").unlink()
        (tmp_path / "templates" / "shipped").rmdir()
    rows = await expanded(ringonce)
    assert {row.state.last_error.code for row in rows if row.state.last_error} == {"NTF_TEMPLATE_INVALID"}
    assert len(rows) == len(await ringonce.search(terminal_failures=True, limit=500)) == 101
    words = "\n".join(await ringonce.explain(rows[0].id))
    assert "its template failed" in words
    assert ("line 1 (text): 'total' is undefined" if change == "edited" else "unknown template") in words
    # There is nothing that a retry could send.
    await ringonce.retry(rows[0].id)
    await ringonce.run_worker(drain=True)
    again = (await ringonce.get(rows[0].id)).row.state
    assert again.final
    assert again.attempts == 0
    assert again.last_error is not None
    assert again.last_error.code == "NTF_TEMPLATE_INVALID"


async def test_a_channel_that_is_full_later_is_visible(ringonce: Ringonce, write: Write) -> None:
    """A text that outgrew a named channel meanwhile fails for good; one that nobody named is left out."""
    write('text = "x"')
    people = [{"id": f"u{n}", "addresses": {"chat": str(n + 1), "box": f"b{n}"}} for n in range(101)]
    await ringonce.notify(template="shipped", recipients=people, channels=["chat"], event_id="named")
    await ringonce.notify(template="shipped", recipients=people, event_id="any")
    write('html = "x"')
    await expanded(ringonce)
    named = await ringonce.search(event_id="named", limit=500)
    assert {row.state.last_error.code for row in named if row.state.last_error} == {"NTF_TEMPLATE_INVALID"}
    other = await ringonce.search(event_id="any", channel="chat", limit=500)
    assert {row.state.status.value for row in other} == {"suppressed"}


async def test_it_is_delivered(ringonce: Ringonce, write: Write) -> None:
    """From the template to the provider."""
    write(EN)
    await ringonce.notify(template="shipped", data=DATA, to={"box": "b"})
    await ringonce.run_worker(drain=True)
    (row,) = await ringonce.search()
    assert row.state.status.value == "sent"
