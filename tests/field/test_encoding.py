"""Field reports about lengths and characters. The ids are those of docs/reference/field-reports.md."""

import json
import unicodedata

import pytest

from ringonce.app import Ringonce
from ringonce.core.text import cut, length
from ringonce.engine.engine import Engine
from ringonce.errors import InputError
from ringonce.model.notification import Content
from ringonce.providers.telegram import Telegram, TelegramOptions
from tests.field.conftest import Write
from tests.providers.samples import address, context, message

FAMILY = "👨\u200d👩\u200d👧\u200d👦"
ANSWER = 4_096


@pytest.mark.parametrize(
    "body",
    [
        "ж" * 5_000,
        "😀" * 1_200,
        "漢" * 1_400,
        "a" + "e\u0301" * 2_500,
        FAMILY * 400,
        "🇩🇪🇫🇷" * 600,
        '"\\' * 3_000,
        "\x01" * 1_000,
        "👍🏽" * 800,
    ],
)
@pytest.mark.parametrize("shift", [0, 1, 2, 3])
def test_encd_01_cutting_counts_what_the_provider_counts(body: str, shift: int) -> None:
    """ENCD-01: characters were counted where the provider counts bytes: still too long, or cut inside a character.

    Sources: node-apn/node-apn#98, Redth/PushSharp#288, openclaw/openclaw#111733. Here: the bytes of the JSON string
    are counted, escapes included; no code point, combining mark, joined emoji or flag is split; the ellipsis is inside
    the limit and nothing is wasted.
    """
    text = "x" * shift + body
    shorter = cut(text, ANSWER, "json")
    encoded = json.dumps(shorter, ensure_ascii=False).encode()
    assert len(encoded) - 2 == length(shorter, "json") <= ANSWER
    assert length(shorter, "json") > ANSWER - 60
    kept = shorter.removesuffix("…")
    assert text.startswith(kept)
    rest = text[len(kept) :]
    assert not kept.endswith("\u200d")
    assert rest[0] != "\u200d"
    assert not unicodedata.combining(rest[0])
    assert rest[0] != "🏽"
    flags = [character for character in kept if "\U0001f1e6" <= character <= "\U0001f1ff"]
    assert len(flags) % 2 == 0


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("😀" * 2_048, True),
        ("😀" * 2_048 + "a", False),
        ("😀" * 2_049, False),
        ("ж" * 4_096, True),
        ("ж" * 4_097, False),
        ("a" * 4_094 + "😀", True),
        ("a" * 4_095 + "😀", False),
    ],
)
def test_encd_03_a_message_is_measured_in_utf16(text: str, fits: bool) -> None:
    """ENCD-03: 2,049 emoji passed a limit of 4,096 characters and were rejected; elsewhere bytes were counted.

    Sources: NousResearch/hermes-agent#8725, SamSaffron/term-llm#274. Here: UTF-16 code units at acceptance, and when a
    template's text is cut. Texts have no entities and are never split into parts.
    """
    provider = Telegram(TelegramOptions(token="1:abc"))
    if fits:
        provider.check(Content(text=text))
        body = json.loads(provider.request(message(Content(text=text)), address("1"), context()).body)
        assert body["text"] == text
    else:
        with pytest.raises(InputError):
            provider.check(Content(text=text))
    shorter = cut(text, 4_096, "utf16")
    provider.check(Content(text=shorter))
    assert (shorter == text) is fits
    shorter.encode()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"content": {"text": "a\x00b"}}, "content.text"),
        ({"content": {"text": "x"}, "data": {"deep": [{"k": "\ud83d"}]}}, "data.deep[0].k"),
        ({"content": {"text": "x"}, "data": {"a\x00": 1}}, "data"),
        ({"content": {"title": "\udc00"}}, "content.title"),
        ({"content": {"text": "x"}, "subject": "order:\x00"}, "subject"),
    ],
)
async def test_encd_05_what_a_database_refuses_is_refused_first(
    ringonce: Ringonce, body: dict[str, object], field: str
) -> None:
    """ENCD-05: U+0000 or a lone surrogate made PostgreSQL refuse the row, while tests on SQLite were green.

    Sources: kodustech/kodus-ai#1683, hardbyte/awa#84, open-metadata/OpenMetadata#31120. Here: refused at acceptance
    with the field, on both databases alike, whether it comes as Python or as JSON with escapes.
    """
    whole = {**body, "to": {"box": "b"}}
    for given in (whole, json.dumps(whole).encode()):
        with pytest.raises(InputError) as caught:
            await ringonce.notify(given)
        assert caught.value.field == field
    assert await ringonce.search() == []


async def test_encd_05_legal_text_comes_back_as_it_was(ringonce: Ringonce, write: Write) -> None:
    """ENCD-05: six characters that only look like an escape are a legal text, in content, data and templates."""
    write('text = "{{ x }}"')
    text = "literal \\u0000 and \\ud83d, \u2028 😀"
    await ringonce.notify(
        {"to": {"box": "b"}, "content": {"text": text, "data": {"k": text}}, "event_id": "e"}
    )
    await ringonce.notify(template="t", to={"box": "b"}, data={"x": text}, event_id="t")
    for event_id in ("e", "t"):
        (row,) = await ringonce.search(event_id=event_id)
        content = (await ringonce.get(row.id)).content
        assert content.text == text
        assert content.data == ({"k": text} if event_id == "e" else {})


async def test_encd_05_a_providers_words_never_stop_a_state(
    ringonce: Ringonce, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENCD-05: a provider's error text with U+0000 made the update of the state fail.

    Here: what a provider says is made storable first; the notification ends as it should, on both databases.
    """
    from dataclasses import replace

    from ringonce.providers.sandbox import Sandbox

    told = Sandbox.outcome.__func__  # type: ignore[attr-defined]

    def dirty(cls: type[Sandbox], answer: object, context: object) -> object:
        outcome = told(cls, answer, context)
        return replace(
            outcome, text="bad\x00 \ud83d text\x1b", provider_code="E\x00\ud83d", message_id="id\x00"
        )

    monkeypatch.setattr(Sandbox, "outcome", classmethod(dirty))
    await ringonce.notify(to={"box": "b"}, content={"text": "x"})
    await ringonce.run_worker(drain=True)
    (row,) = await ringonce.search()
    assert row.state.status.value == "sent"
    life = await ringonce.get(row.id)
    json.dumps([life.attempts[0].answer, life.attempts[0].provider_code], ensure_ascii=False).encode()
    assert (
        "\x00" not in f"{life.attempts[0].answer}{life.attempts[0].provider_code}{life.row.state.message_id}"
    )
    assert isinstance(ringonce.engine, Engine)
