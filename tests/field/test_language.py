"""Field reports about languages, time zones and templates. The ids are those of docs/reference/field-reports.md."""

import json
import os
import subprocess
import sys
import time

import pytest

from ringonce.app import Ringonce
from ringonce.core.render import wording
from ringonce.errors import InputError, TemplateError
from ringonce.model.notification import Content
from ringonce.model.records import Reader
from tests.core.writing import said, template
from tests.field.conftest import Write

FORMS = "{{ count }} {{ count | plural(one='заказ', few='заказа', other='заказы') }}"


async def only(ringonce: Ringonce) -> Content:
    """The content of the one notification."""
    (row,) = await ringonce.search()
    return (await ringonce.get(row.id)).content


@pytest.mark.parametrize("locale", ["ru", "ru-RU", "RU_ru", None, "xx", "../../etc/passwd", "pt_BR", "pt-br"])
async def test_i18n_02_a_missing_plural_form_or_locale(
    ringonce: Ringonce, write: Write, locale: str | None
) -> None:
    """I18N-02: a plural form that was missing raised when the message was sent, and the message was lost.

    Sources: ruby-i18n/i18n#339, spree-contrib/spree_i18n#88. Here: the form falls back to ``other``, the locale to its
    language, the default, English, any; a locale that is none is treated like one that is unknown.
    """
    write(f'text = "{FORMS}"', file="ru.toml")
    write('text = "{{ count }} pedidos"', file="pt.toml")
    person = {"id": "u", "addresses": {"box": "b"}} | ({"locale": locale} if locale else {})
    await ringonce.notify(template="t", data={"count": 5}, recipients=[person])
    expected = "5 заказы" if locale and locale.lower().startswith("ru") else "5 pedidos"
    assert (await only(ringonce)).text == expected


SHOW = """
import json
from ringonce.model.records import Reader
from tests.core.writing import said, template
text = "{{ n | number }} {{ day | date('short') }} {{ at | time }} {{ 'FILE' | lower }}"
made = template({tag: {"": said(text=text)} for tag in ("en", "de", "ru", "tr", "ar")})
data = {"n": 1234.5, "day": "2026-02-03", "at": "2026-07-01T10:00:00Z"}
people = ("en-US", "en-GB", "de", "ru", "tr", "ar-EG")
print(json.dumps([made.render("m", Reader("u", tag, "Asia/Kolkata"), data).text for tag in people]))
"""


@pytest.mark.parametrize(
    ("lang", "zone"), [("C", "UTC"), ("ru_RU.UTF-8", "Europe/Moscow"), ("tr_TR.UTF-8", "America/St_Johns")]
)
def test_i18n_03_the_servers_locale_and_zone_have_no_say(lang: str, zone: str) -> None:
    """I18N-03: dates and numbers followed the server's locale and zone instead of the recipient's.

    Source: springfall2008/batpred#3764 (derived). Here: locale and zone are arguments; a process under another LC_ALL
    and TZ renders the same, with the recipient's separators, order, digits and zone; a dotless i changes nothing.
    """
    environment = {**os.environ, "LC_ALL": lang, "LANG": lang, "LC_TIME": lang, "TZ": zone}
    done = subprocess.run(
        [sys.executable, "-c", SHOW], env=environment, check=True, capture_output=True, text=True
    )
    assert json.loads(done.stdout) == [
        "1,234.5 2/3/26 3:30\u202fPM GMT+05:30 file",
        "1,234.5 03/02/2026 15:30 GMT+05:30 file",
        "1.234,5 03.02.26 15:30 GMT+05:30 file",
        "1\xa0234,5 03.02.2026 15:30 GMT+05:30 file",
        "1.234,5 3.02.2026 15:30 GMT+05:30 file",
        "١٬٢٣٤٫٥ ٣\u200f/٢\u200f/٢٠٢٦ ٣:٣٠ م غرينتش+٠٥:٣٠ \u2068file\u2069",
    ]


def test_i18n_03_inserted_names_keep_their_direction() -> None:
    """I18N-03: a Latin name inside Hebrew text, or the other way round, turned the sentence about.

    Here: Unicode's isolates stand around inserted values that run against the text, in titles and texts.
    """
    made = template({"he": {"": said(text="שלום {{ name }}!")}, "en": {"": said(text="Hello {{ name }}!")}})
    assert made.render("m", Reader("u", "he"), {"name": "Ada"}).text == "שלום \u2068Ada\u2069!"
    assert made.render("m", Reader("u", "en"), {"name": "שרה"}).text == "Hello \u2068שרה\u2069!"


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("Asia/Kolkata", "3:30\u202fPM GMT+05:30"),
        ("America/St_Johns", "7:30\u202fAM GMT-02:30"),
        ("Asia/Kathmandu", "3:45\u202fPM GMT+05:45"),
        ("America/New_York", "6:00\u202fAM EDT"),
        (None, "10:00\u202fAM UTC"),
    ],
)
async def test_clck_04_times_are_those_of_the_recipient(
    ringonce: Ringonce, write: Write, zone: str | None, expected: str
) -> None:
    """CLCK-04: the time in the text was an hour off, because it was formatted in UTC or the server's zone.

    Source: springfall2008/batpred#3764. Here: the recipient's zone, with its abbreviation or offset; the server's zone
    is never asked (see I18N-03).
    """
    write('text = "{{ at | time }}"')
    person = {"id": "u", "locale": "en-US", "addresses": {"box": "b"}} | ({"timezone": zone} if zone else {})
    await ringonce.notify(template="t", data={"at": "2026-07-01T10:00:00Z"}, recipients=[person])
    assert (await only(ringonce)).text == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ undefined_variable }}",
        "{% include 'partial' %}",
        "{{ count | no_filter }}",
        "{{ 1 / zero }}",
        "{% for a in many %}{% for b in many %}{% for c in many %}{% endfor %}{% endfor %}{% endfor %}",
        "{% for a in many %}" + "x" * 2_000 + "{% endfor %}",
        "{% if zero %}nothing{% endif %}",
        "{{ ''.__class__ }}",
    ],
)
async def test_ops_01_a_bad_template_is_refused_at_once(ringonce: Ringonce, write: Write, text: str) -> None:
    """OPS-01: a missing template or variable was mailed again and again with an empty body, or vanished uncounted.

    Sources: prometheus/alertmanager#311, #2857, #2301. Here: it is rendered when the event is accepted, in bounded
    time and size, and refused with file and line; nothing is stored, and nothing empty is ever sent.
    """
    write(f'text = "{text}"')
    started = time.process_time()
    with pytest.raises(TemplateError) as caught:
        await ringonce.notify(
            template="t", to={"box": "b"}, data={"zero": 0, "count": 1, "many": list(range(6_000))}
        )
    assert time.process_time() - started < 5
    assert "line 1 (text)" in str(caught.value)
    assert await ringonce.search() == []


async def test_ops_01_a_template_that_is_deleted_later(ringonce: Ringonce, write: Write) -> None:
    """OPS-01: the template went away while rows were pending.

    Here: their text was made when they were accepted and does not need it any more. (What a large event becomes when
    its template fails before it is expanded: tests/engine/test_templates.py.)
    """
    write('text = "hello {{ name }}"')
    await ringonce.notify(template="t", to={"box": "b"}, data={"name": "Ada"})
    folder = ringonce.engine.templates.folder / "t"  # type: ignore[union-attr]
    (folder / "en.toml").unlink()
    folder.rmdir()
    await ringonce.run_worker(drain=True)
    (row,) = await ringonce.search()
    assert (row.state.status.value, (await only(ringonce)).text) == ("sent", "hello Ada")


@pytest.mark.parametrize("units", [4_097, 5_000, 100_000])
@pytest.mark.parametrize("word", ["x", "😀", "word "])
async def test_lost_02_a_long_text_is_cut_and_not_lost(
    ringonce: Ringonce, write: Write, units: int, word: str
) -> None:
    """LOST-02: a text over the provider's limit got a 400, and only a log line told of the message that was lost.

    Source: caronc/apprise#745. Here: a template's text is cut to what the channel carries (or refused at acceptance,
    if the template says so); plain content is refused at acceptance. No attempt is ever made with a text that is too
    long. Texts are sent without markup, so that no tag can be cut.
    """
    write('text = "{{ body }}"')
    body = (word * units)[: (units + 1) // 2 if word == "😀" else units]
    await ringonce.notify(template="t", to={"chat": "1"}, data={"body": body})
    text = (await only(ringonce)).text
    assert text is not None
    assert text.endswith("…")
    assert 4_090 <= len(text.encode("utf-16-le")) // 2 <= 4_096
    with pytest.raises(InputError) as caught:
        await ringonce.notify(to={"chat": "1"}, content={"text": "x" * 4_097})
    assert caught.value.field == "content.text"


def test_ops_01_the_file_is_checked_before_it_is_used() -> None:
    """OPS-01: validated on save. Here: every part that can not be compiled is told with its line, all at once."""
    made, wrong = wording({"title": ("{{ x | nope }}", 1), "text": ("\n{% if %}", 3)}, "t/en.toml")
    assert made is None
    assert ["line 1 (title)" in str(wrong[0]), "line 4 (text)" in str(wrong[1])] == [True, True]
