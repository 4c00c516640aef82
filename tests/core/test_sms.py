"""Short messages: the alphabet, how many parts a text becomes, what is refused, phone numbers."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.core.sms import gsm7_text, phone, segments, sms_text, user_data
from ringonce.errors import InputError, PayloadTooLarge
from ringonce.model.notification import Content

# 3GPP TS 23.038 section 6.2.1, row by row of the table's columns, without the escape.
TABLE = (
    "@ΔSP0¡P¿p£_!1AQaq$Φ\"2BRbr¥Γ#3CScsèΛ¤4DTdtéΩ%5EUeuùΠ&6FVfvìΨ'7GWgwòΣ(8HXhx"
    "ÇΘ)9IYiy\nΞ*:JZjzØ+;KÄkäøÆ,<LÖlö\ræ-=MÑmñÅß.>NÜnüåÉ/?O§oà "
)


def test_alphabet() -> None:
    """All 127 characters of the GSM table count one septet, and those of the extension two."""
    assert len(set(TABLE)) == 127
    for letter in TABLE:
        assert (segments(letter).encoding, segments(letter).units) == ("gsm7", 1), letter
    for letter in "^{}\\[~]|€\f":
        assert (segments(letter).encoding, segments(letter).units) == ("gsm7", 2), letter


def test_codes() -> None:
    """Each character of the table has the code of its place, and each of the extension an escape before its own."""
    # The rows of TABLE without the one place of the escape: column by column it is in the order of the codes.
    rows = [
        *("@Δ 0¡P¿p", "£_!1AQaq", '$Φ"2BRbr', "¥Γ#3CScs", "èΛ¤4DTdt", "éΩ%5EUeu", "ùΠ&6FVfv"),
        *(
            "ìΨ'7GWgw",
            "òΣ(8HXhx",
            "ÇΘ)9IYiy",
            "\nΞ*:JZjz",
            "Ø\x1b+;KÄkä",
            "øÆ,<LÖlö",
            "\ræ-=MÑmñ",
            "Åß.>NÜnü",
            "åÉ/?O§oà",
        ),
    ]
    for low, row in enumerate(rows):
        for high, letter in enumerate(row):
            if letter != "\x1b":
                assert user_data(letter, 0) == (bytes((high * 16 + low,)),), letter
    extension = {
        "\f": 0x0A,
        "^": 0x14,
        "{": 0x28,
        "}": 0x29,
        "\\": 0x2F,
        "[": 0x3C,
        "~": 0x3D,
        "]": 0x3E,
        "|": 0x40,
        "€": 0x65,
    }
    for letter, code in extension.items():
        assert user_data(letter, 0) == (bytes((0x1B, code)),), letter


@given(st.text(alphabet=st.sampled_from(sorted(set(TABLE) | set("^{}\\[~]|€\f"))), max_size=100))
def test_there_and_back(text: str) -> None:
    """What is written in the GSM alphabet is read as it was."""
    assert gsm7_text(user_data(text, 0, apart=False)[0]) == text


def test_octets_that_stand_for_nothing() -> None:
    """An octet beyond the table, or one that the extension lacks, is a question mark; an escape at the end nothing."""
    assert gsm7_text(b"a\x80\x1b\x00\x1b\x1bb\x1b") == "a???b"


def test_parts_are_joined_by_their_headers() -> None:
    """Each part begins with six octets: their length, a concatenation with its length, number, count, place."""
    first, second = user_data("a" * 153 + "b" * 8, 0x1234)
    assert first == bytes((5, 0, 3, 0x34, 2, 1)) + b"a" * 153
    assert second == bytes((5, 0, 3, 0x34, 2, 2)) + b"b" * 8
    first, second = user_data("ж" * 67 + "a" * 4, 7)
    assert first == bytes((5, 0, 3, 7, 2, 1)) + ("ж" * 67).encode("utf-16-be")
    assert second == bytes((5, 0, 3, 7, 2, 2)) + "aaaa".encode("utf-16-be")


def test_one_piece() -> None:
    """A text is one piece without a header where the other side divides it, in the encoding of the whole."""
    assert user_data("a" * 400, 7, apart=False) == (b"a" * 400,)
    assert user_data("a" * 400 + "ж", 7, apart=False) == (("a" * 400 + "ж").encode("utf-16-be"),)


@pytest.mark.parametrize("letter", ["`", "ç", "á", "ж", "“", "\t", "\u00a0", "漢", "\u0301"])
def test_other_letters(letter: str) -> None:
    """One character that the alphabet lacks makes the whole text UCS-2."""
    assert segments("Order 42" + letter).encoding == "ucs2"


@pytest.mark.parametrize(
    ("text", "units", "parts"),
    [
        ("", 0, 1),
        ("a" * 160, 160, 1),
        ("a" * 161, 161, 2),
        ("a" * 306, 306, 2),
        ("a" * 307, 307, 3),
        ("€" * 80, 160, 1),
        ("€" * 80 + "a", 161, 2),
        ("ж" * 70, 70, 1),
        ("ж" * 71, 71, 2),
        ("ж" * 134, 134, 2),
        ("ж" * 135, 135, 3),
        ("😀" * 35, 70, 1),
        ("😀" * 36, 72, 2),
    ],
)
def test_count(text: str, units: int, parts: int) -> None:
    """A lone part has 160 septets or 70 code units; where there are several, each has 153 or 67."""
    made = segments(text)
    assert (made.units, len(made.parts)) == (units, parts)


def test_pairs_stay_together() -> None:
    """An escape and its character, or two surrogates, come into the same part, even if that costs another part."""
    assert [len(part) for part in segments("a" * 152 + "€" + "a" * 152).parts] == [152, 152, 1]
    assert [len(part) for part in segments("😀" * 67).parts] == [33, 33, 1]


@given(st.text(st.sampled_from("aé€^жñ漢😀 \n"), max_size=700))
def test_parts_are_the_text(text: str) -> None:
    """The parts joined are the text, none is too large, and each but the last is as full as it can be."""
    made = segments(text)
    assert "".join(made.parts) == text
    extended = re.compile(r"[\f^{}\\\[~\]|€]")

    def size(part: str) -> int:
        if made.encoding == "gsm7":
            return len(part) + len(extended.findall(part))
        return len(part.encode("utf-16-le")) // 2

    assert sum(map(size, made.parts)) == made.units
    alone, room = (160, 153) if made.encoding == "gsm7" else (70, 67)
    if len(made.parts) == 1:
        assert made.units <= alone
    else:
        for part, after in zip(made.parts, made.parts[1:], strict=False):
            assert size(part) <= room < size(part) + size(after[0])
        assert 0 < size(made.parts[-1]) <= room


def test_text() -> None:
    """Title and text are one message, on two lines."""
    assert sms_text(Content("Order 42", "On its way.")) == "Order 42\nOn its way."
    assert sms_text(Content("Order 42", None)) == "Order 42"


def test_nothing_visible() -> None:
    """A text of spaces is refused."""
    with pytest.raises(InputError) as error:
        sms_text(Content(None, " \n"))
    assert error.value.field == "content.text"


def test_too_long() -> None:
    """Title and text together have a limit in UTF-16 code units, and are never cut."""
    assert sms_text(Content("a", "😀" * 4), longest=10)
    with pytest.raises(PayloadTooLarge) as error:
        sms_text(Content("ab", "😀" * 4), longest=10)
    assert error.value.field == "content.text"


def test_too_many_parts() -> None:
    """A text that becomes more short messages than are allowed, or than a header can count, is refused."""
    assert sms_text(Content(None, "a" * 306), most=2)
    assert sms_text(Content(None, "a" * 153 * 255))
    for text, most in (
        ("a" * 307, 2),
        ("ж" * 71, 1),
        ("a" * (153 * 255 + 1), 0),
        ("a" * (153 * 255 + 1), 999),
    ):
        with pytest.raises(PayloadTooLarge) as error:
            sms_text(Content(None, text), most=most)
        assert error.value.field == "content.text"


@pytest.mark.parametrize(
    "value", ["+447700900123", "+44 7700 900-123", "+44 (7700) 900.123", "+44\u00a07700900123"]
)
def test_phone(value: str) -> None:
    """A number is kept as plus and digits, however it was written."""
    assert phone(value) == "+447700900123"


@pytest.mark.parametrize(
    "value",
    [
        *(None, 447700900123, "", "447700900123", "+0447700900", "+44770", "+1234567890123456"),
        *("+4477x0900123", "+447700900123\n", "+٤٤٧٧٠٠٩٠٠١٢٣", "++447700900123"),
    ],
)
def test_no_phone(value: object) -> None:
    """What lacks the country, has other characters or too many digits is refused with the mend."""
    with pytest.raises(InputError) as error:
        phone(value)
    assert error.value.field == "address"
    assert error.value.mend
