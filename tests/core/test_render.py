"""A template: the text for a locale and a channel, what it depends on, and how its errors name the place."""

import pytest

from ringonce.core.fit import fitted
from ringonce.core.render import Part, missing_forms, wording
from ringonce.core.sandbox import compile_part
from ringonce.errors import InputError, PayloadTooLarge, TemplateError
from ringonce.model.notification import Content
from ringonce.model.records import Reader
from tests.core.writing import NOBODY, said, template

RU, EN = Reader("u1", "ru-RU", "Europe/Moscow"), Reader("u2", "en", "UTC")
BOTH = template(
    {
        "ru": {"": said(title="Заказ {{ n }}", text="Отправлен", html="<p>{{ n }}</p>")},
        "en": {"": said(title="Order {{ n }}", text="Sent"), "sms": said(text="Order {{ n }} sent")},
    }
)


def test_each_locale_and_channel_has_its_text() -> None:
    """The reader's locale picks the text, the channel its wording."""
    assert BOTH.render("mail", RU, {"n": "<7>"}) == Content("Заказ <7>", "Отправлен", "<p>&lt;7&gt;</p>")
    assert BOTH.render("mail", EN, {"n": 7}) == Content("Order 7", "Sent")
    assert BOTH.render("sms", EN, {"n": 7}) == Content(None, "Order 7 sent")
    assert BOTH.render("sms", RU, {"n": 7}).title == "Заказ 7"
    assert BOTH.render("mail", Reader("u3", "xx"), {"n": 7}).title == "Order 7"


def test_contents_are_shared_as_far_as_they_are_the_same() -> None:
    """Region counts; zone only where moments are shown; the recipient only where they are shown."""
    plain = template({"en": {"": said(text="{{ n }}")}})
    local = template({"en": {"": said(text="{{ n | date }}")}})
    personal = template({"en": {"": said(text="{{ recipient.id }}")}})
    us, gb = Reader("a", "en-US", "Asia/Kolkata"), Reader("b", "en-GB", "Asia/Kolkata")
    assert plain.key("mail", us) == "mail/en/en-us"
    assert plain.key("mail", us) != plain.key("mail", gb)
    assert plain.key("mail", Reader("c", "en-US", "UTC")) == plain.key("mail", us)
    assert local.key("mail", Reader("c", "en-US", "UTC")) != local.key("mail", us)
    assert local.key("mail", Reader("c", "en-US", "nowhere")) == local.key("mail", Reader("d", "en-US"))
    assert personal.key("mail", us) != personal.key("mail", Reader("c", "en-US", "Asia/Kolkata"))
    assert BOTH.key("mail", RU) == "mail/ru/ru-ru"


def test_the_recipient_is_known_to_the_text() -> None:
    """Id, locale and zone; where none is known, those that are used instead."""
    text = said(text="{{ recipient.id }} {{ recipient.locale }} {{ recipient.timezone }}")
    made = template({"en": {"": text}})
    assert made.render("m", RU, {}).text == "u1 ru-RU Europe/Moscow"
    assert made.render("m", Reader("u"), {}).text == "u en UTC"
    nowhere = template({"en": {"": text}}, Reader())
    assert nowhere.render("m", Reader("u"), {}).text == "u en UTC"


def test_defaults_stand_in_for_what_is_unknown() -> None:
    """Without a zone, or with one that nobody knows, moments are shown in the default one."""
    made = template({"en": {"": said(text="{{ at | time }}")}}, Reader(locale="en", timezone="Asia/Kolkata"))
    for zone in (None, "Nowhere/Land"):
        assert made.render("m", Reader("u", "en", zone), {"at": "2026-07-01T10:00:00Z"}).text == (
            "3:30\u202fPM GMT+05:30"
        )


def test_a_title_is_one_line() -> None:
    """Line ends and other control characters in an inserted value become a space: no header can be injected."""
    made = template({"en": {"": said(title="\nHi {{ name }}\n", text="x")}})
    title = made.render("m", EN, {"name": "Bob\r\nBcc: x@evil.test\u2028\x85\0end"}).title
    assert title == "Hi Bob Bcc: x@evil.test end"


def test_control_characters_in_a_text_are_replaced() -> None:
    """A text keeps its line ends and loses what no database and no terminal should see."""
    made = template({"en": {"": said(text="\n a\n{{ x }}{{ '\\x00' }}\n\n")}})
    assert made.render("m", EN, {"x": "\x1b[31m"}).text == "a\n\ufffd[31m\ufffd"


def test_an_empty_text_is_an_error() -> None:
    """A text that renders to nothing would be an empty message; an empty title is none."""
    text = said(title="{% if 0 %}x{% endif %}", text="{% if n %}x{% endif %}")
    made = template({"en": {"": text}})
    assert made.render("m", EN, {"n": 1}) == Content(None, "x")
    with pytest.raises(TemplateError, match=r"line 1 .text.: it renders to nothing"):
        made.render("m", EN, {"n": 0})


def test_a_channel_without_a_text_is_an_error() -> None:
    """A wording that is blank, or has nothing but an empty title, has nothing to say."""
    made = template({"en": {"": said(title="", text=" "), "sms": said(title="{{ '' }}")}})
    assert not made.wording("m", EN).speaks
    assert made.wording("sms", EN).speaks
    for channel in ("m", "sms"):
        with pytest.raises(TemplateError, match="nothing to say"):
            made.render(channel, EN, {})


def test_an_error_names_file_line_part_and_field() -> None:
    """What is missing is named as a field of the event, where the template asks for it."""
    made, _ = wording({"text": ("a\n{{ total }}", 7)}, "order/en.toml")
    assert made is not None
    with pytest.raises(TemplateError) as caught:
        template({"en": {"": made}}).render("m", EN, {})
    assert caught.value.field == "data.total"
    assert "order/en.toml, line 8 (text): 'total' is undefined" in str(caught.value)


def test_all_that_is_wrong_is_told_at_once() -> None:
    """Each broken part of a wording is one error."""
    made, wrong = wording({"title": ("{{", 1), "text": ("{% x %}", 5), "html": ("ok", 9)}, "t/en.toml")
    assert made is None
    assert [str(error).split(":")[1].strip() for error in wrong] == [
        "t/en.toml, line 1 (title)",
        "t/en.toml, line 5 (text)",
    ]


def test_missing_plural_forms_are_told_of() -> None:
    """A Russian text without ``many`` works and is named; a Portuguese one needs none."""
    text = said(text="x\n{{ n | plural(one='a', few='b', other='c') }}")
    assert missing_forms(text, "ru") == ["t/en.toml, line 2 (text): plural has no many, so other is used"]
    assert missing_forms(text, "pt") == []
    assert template({"ru": {"": text}}, NOBODY).render("m", RU, {"n": 5}).text == "x\nc"


def test_isolates_surround_what_runs_the_other_way() -> None:
    """A Hebrew name in an English text, a Latin one in a Hebrew text; never a link, nor html, nor what is bare."""
    source = "{{ x }}"
    for locale, value, turned in (
        ("en", "שלום", True),
        ("en", "Ada", False),
        ("en", "Ж", False),
        ("he", "Ada", True),
        ("he", "12", False),
        ("he", "שלום", False),
        ("he", "https://example.com/a", False),
    ):
        made = template({locale: {"": said(title=source, text="{{ x | bare }}", html=source)}})
        content = made.render("m", Reader("u", locale), {"x": value})
        assert content == Content(f"\u2068{value}\u2069" if turned else value, value, value)


def test_a_part_that_is_markup_is_never_isolated_twice() -> None:
    """What ``isolate`` has made in a text stays as it is."""
    made = template({"he": {"": said(text="{{ 'Ada' | isolate | bare }}")}})
    assert made.render("m", Reader("u", "he"), {}).text == "\u2068Ada\u2069"


def limit(size: int, *, with_title: bool = False) -> object:
    """A provider's check: text (and title) of so many characters."""

    def check(content: Content) -> None:
        total = len(content.text or "") + (len(content.title or "") if with_title else 0)
        if total > size:
            raise PayloadTooLarge(f"{total}", field="content.text")

    return check


def test_a_text_is_cut_to_what_the_channel_carries() -> None:
    """As much of the text as passes the provider's own check, an ellipsis at its end."""
    long = Content("title", "x" * 100)
    assert fitted(long, limit(100)) is long  # type: ignore[arg-type]
    assert fitted(long, limit(10)).text == "x" * 9 + "…"  # type: ignore[arg-type]
    assert fitted(long, limit(10, with_title=True)).text == "x" * 4 + "…"  # type: ignore[arg-type]
    assert fitted(long, limit(1)).text == "…"  # type: ignore[arg-type]


def test_what_cutting_does_not_help_is_refused() -> None:
    """A title that is too long by itself, a text that is not there, an error of another kind."""
    with pytest.raises(PayloadTooLarge):
        fitted(Content("t" * 50, "x" * 100), limit(10, with_title=True))  # type: ignore[arg-type]
    with pytest.raises(PayloadTooLarge):
        fitted(Content("t" * 50), limit(10, with_title=True))  # type: ignore[arg-type]

    def no(_content: Content) -> None:
        raise InputError("no")

    with pytest.raises(InputError, match="no"):
        fitted(Content(text="x"), no)


def test_the_line_of_a_part_counts_in_its_file() -> None:
    """A part knows where it begins."""
    part = Part("text", "t/en.toml", 12, compile_part("x", html=False), blank=False)
    from ringonce.core.sandbox import Broken

    assert "line 14" in str(part.fault(Broken("no", line=3)))
