"""The folder of templates: what a file may say, what is told about a wrong one, and when a change counts."""

from pathlib import Path

import pytest

from ringonce.errors import TemplateError
from ringonce.model.records import Reader
from ringonce.templates import LOOK_EVERY, Library

ADA = Reader("ada", "en")


class Shelf:
    """A folder, a library on it, and a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0.0
        self.alerts: list[str] = []
        self.library = Library(
            folder,
            Reader(locale="en", timezone="UTC"),
            ("mail", "sms"),
            monotonic=lambda: self.now,
            alert=lambda _kind, text: self.alerts.append(text),
        )

    def write(self, name: str, text: str, file: str = "en.toml") -> None:
        """Write a file; its size differs with its text, whatever the clock of the disk."""
        path = self.folder / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def later(self) -> None:
        """The next look is due."""
        self.now += LOOK_EVERY
        self.library.refresh()

    def wrong(self, name: str) -> str:
        """What the library says of a template that can not be used."""
        with pytest.raises(TemplateError) as caught:
            self.library.get(name)
        return str(caught.value)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """An empty folder."""
    return Shelf(tmp_path / "templates")


def test_no_folder_is_no_template(shelf: Shelf) -> None:
    """Nobody needs the folder; asking for a template says where to write it."""
    assert shelf.library.loaded == {}
    assert "write " in shelf.wrong("hello")


def test_files_are_texts_by_locale_and_channel(shelf: Shelf) -> None:
    """A channel's table replaces single parts; an empty one leaves its part out."""
    shelf.write("hi", 'title = "Hi"\ntext = "long"\n[sms]\ntitle = ""\ntext = "short"\n')
    shelf.write("hi", 'title = "Привет"\ntext = "x"', "ru_RU.toml")
    shelf.write("hi", "ignored", "notes.txt")
    shelf.write("hi", "ignored", ".en.toml.swp")
    (shelf.folder / ".git").mkdir()
    (shelf.folder / "README").write_text("ignored")
    made = shelf.library.get("hi")
    assert list(shelf.library.loaded) == ["hi"]
    assert (made.render("mail", ADA, {}).title, made.render("mail", ADA, {}).text) == ("Hi", "long")
    assert (made.render("sms", ADA, {}).title, made.render("sms", ADA, {}).text) == (None, "short")
    assert made.render("mail", Reader("x", "ru-RU"), {}).title == "Привет"


def test_an_unknown_name_suggests_the_nearest(shelf: Shelf) -> None:
    """A misspelt template is refused with the one that was meant, or with what there is."""
    shelf.write("order-shipped", 'text = "x"')
    assert "did you mean order-shipped?" in shelf.wrong("order-shiped")
    assert "there are order-shipped" in shelf.wrong("zzz")
    assert "there are order-shipped" in shelf.wrong("../../etc/passwd")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('text = "a {{ b"', "t/en.toml, line 1 (text): "),
        (
            '\ntitle = "x"\ntext = """\na\n{{ b | nope }}\n"""',
            "t/en.toml, line 5 (text): there is no filter nope",
        ),
        ('text = """a\n{{ b | nope }}"""', "t/en.toml, line 2 (text)"),
        ("text = '''\na\n\n{% x %}'''\ntitle = 'y'", "t/en.toml, line 4 (text)"),
        ('text = """\ntitle = "no"\n"""\ntitle = "{{"', "t/en.toml, line 4 (title)"),
        ('text = "x"\n[sms]\ntext = "{{"', "t/en.toml, line 3 (text)"),
        ('text = "x"\n["sms"]\n"text" = "{{"', "t/en.toml, line 3 (text)"),
        ('text = "x"\ntitel = "y"', "t/en.toml, line 2: unknown key titel (did you mean title?)"),
        ('zzzzzz = "y"', "t/en.toml, line 1: unknown key zzzzzz (there are title, text, html, too_long"),
        ("text = 5", "t/en.toml, line 1: text is a text"),
        ('too_long = "split"', "t/en.toml, line 1: too_long is cut or refuse"),
        ('text = "x"\n[sms.deep]\ntext = "x"', "t/en.toml, line 1: unknown key deep"),
        ("text = ", "t/en.toml: Invalid value (at end of document)"),
    ],
)
def test_what_is_wrong_names_file_and_line(shelf: Shelf, text: str, told: str) -> None:
    """The line is that of the file, not of the part, whatever the quotes."""
    shelf.write("t", text)
    assert told in shelf.wrong("t")


def test_bytes_that_are_no_text(shelf: Shelf) -> None:
    """A file that is not UTF-8 is named."""
    (shelf.folder / "t").mkdir(parents=True)
    (shelf.folder / "t" / "en.toml").write_bytes(b'text = "\xff"')
    assert "t/en.toml: 'utf-8'" in shelf.wrong("t")


def test_names_and_locales_are_checked(shelf: Shelf) -> None:
    """A folder or a file with a name that means nothing is told of, as are two files for one locale."""
    shelf.write("bad name", 'text = "x"')
    shelf.write("one", 'text = "x"', "english.toml")
    shelf.write("two", 'text = "x"', "pt-BR.toml")
    shelf.write("two", 'text = "x"', "pt_br.toml")
    (shelf.folder / "none").mkdir()
    assert "no name of a template" in shelf.wrong("bad name")
    assert "one/english.toml: this is no locale" in shelf.wrong("one")
    assert "another file for this locale" in shelf.wrong("two")
    assert "it has no text" in shelf.wrong("none")


def test_windows_line_ends_count_once(shelf: Shelf) -> None:
    """The line of an error is right in a file with CRLF."""
    (shelf.folder / "t").mkdir(parents=True)
    (shelf.folder / "t" / "en.toml").write_bytes(b'text = """\r\na\r\n{{ b | nope }}"""\r\n')
    assert "line 3 (text)" in shelf.wrong("t")


def test_notices_are_no_errors(shelf: Shelf) -> None:
    """A channel that is not configured and a plural form that is missing are told of once, and nothing is refused."""
    text = (
        "title = \"{{ n | plural(one='a', other='b') }}\"\ntext = 'x'\n[smss]\ntext = 'y'\n[hook]\ntext = 'z'"
    )
    shelf.write("t", text, "ru.toml")
    shelf.library.get("t")
    assert shelf.library.loaded["t"].notices == [
        "t/ru.toml, line 1 (title): plural has no few, so other is used",
        "t/ru.toml, line 1 (title): plural has no many, so other is used",
        "t/ru.toml: no channel is called smss; did you mean sms?",
        "t/ru.toml: no channel is called hook",
    ]


def test_a_change_counts_from_the_next_look_on(shelf: Shelf) -> None:
    """Files are looked at once in a second, and only the changed ones are read again."""
    shelf.write("a", 'text = "one"')
    shelf.write("b", 'text = "x"')
    before = shelf.library.get("b")
    shelf.write("a", 'text = "one and two"')
    shelf.library.refresh()
    assert shelf.library.get("a").render("mail", ADA, {}).text == "one"
    shelf.later()
    assert shelf.library.get("a").render("mail", ADA, {}).text == "one and two"
    assert shelf.library.get("b") is before


def test_a_broken_change_leaves_the_old_text(shelf: Shelf) -> None:
    """While a file is being edited nothing stops; people are told, and a new start refuses it."""
    shelf.write("a", 'text = "good"')
    shelf.library.refresh()
    shelf.write("a", 'text = "{{ half"')
    shelf.later()
    assert shelf.library.get("a").render("mail", ADA, {}).text == "good"
    assert shelf.library.loaded["a"].wrong
    assert len(shelf.alerts) == 1
    shelf.later()
    assert len(shelf.alerts) == 1
    anew = Shelf(shelf.folder)
    assert "line 1 (text)" in anew.wrong("a")
    shelf.write("a", 'text = "better"')
    shelf.later()
    assert shelf.library.get("a").render("mail", ADA, {}).text == "better"


def test_a_template_that_is_removed_is_unknown(shelf: Shelf) -> None:
    """A folder that went away is no template any more."""
    shelf.write("a", 'text = "x"')
    shelf.library.get("a")
    (shelf.folder / "a" / "en.toml").unlink()
    (shelf.folder / "a").rmdir()
    shelf.later()
    assert "unknown template" in shelf.wrong("a")


def test_a_folder_that_vanishes_while_it_is_looked_at(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next look sees what is left."""
    shelf.write("a", 'text = "x"')
    shelf.write("b", 'text = "x"')
    listed = Path.iterdir

    def vanish(path: Path) -> object:
        if path.name == "a":
            raise FileNotFoundError(path)
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", vanish)
    assert list(shelf.library.loaded) == ["b"]


def test_too_long_is_a_policy(shelf: Shelf) -> None:
    """Cut unless the file says otherwise; a channel may say otherwise again."""
    shelf.write("a", 'text = "x"\ntoo_long = "refuse"\n[sms]\ntoo_long = "cut"')
    shelf.write("b", 'text = "x"')
    a, b = shelf.library.get("a"), shelf.library.get("b")
    cuts = [t.wording(channel, ADA).cut for t in (a, b) for channel in ("mail", "sms")]
    assert cuts == [False, True, True, True]
