"""The template language: what it has, what it refuses, and that it always ends soon."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ringonce.core.purse import CHARACTERS
from ringonce.core.sandbox import MAX_SOURCE, Broken, compile_part
from tests.core.writing import shown


def broken(source: str, data: dict[str, object] | None = None, *, html: bool = False) -> Broken:
    """The error that a template ends with."""
    with pytest.raises(Broken) as caught:
        shown(source, data, html=html)
    return caught.value


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ 7 / 2 }} {{ 7 % 4 }} {{ -n }} {{ +n }}", "3 3 3.5 3 -5 5"),
        ("{{ 'a' ~ n ~ 'b' }} {{ 'a' + 'b' }}", "a5b ab"),
        ("{{ order.items }} {{ order['items'] }} {{ list[0] }} {{ list[-1] }} {{ name[0] }}", "3 3 1 3 A"),
        ("{% for x in list[1:] %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}", "2, 3"),
        ("{% for x in list if x > 1 %}{{ loop.index }}:{{ x }} {% else %}none{% endfor %}", "1:2 2:3 "),
        ("{% for x in [] %}{{ x }}{% else %}none{% endfor %}", "none"),
        ("{% for k, v in order | items %}{{ k }}={{ v }}{% endfor %}", "items=3"),
        ("{% for x in list %}{{ loop.length }}{% endfor %}", "333"),
        ("{% set y = n * 2 %}{{ y if y == 10 else 'no' }}", "10"),
        ("{% if n in list or 'd' in name %}in{% endif %}{% if 'items' in order %}!{% endif %}", "in!"),
        ("{% if nothing == none and n != none %}x{% endif %}{{ 'y' if 1 > 2 }}", "x"),
        ("{% if (list + list) | length == 6 and 1 < n <= 5 %}yes{% endif %}", "yes"),
        ("{{ recipient.id }} {{ data.n }} {{ data['name'] }}", "u1 5 Ada"),
        (
            "{% if x is defined %}{% else %}{% if n is number and name is string %}y{% endif %}{% endif %}",
            "y",
        ),
        (
            "{% if x is undefined and nothing is none and list is list and order is mapping %}y{% endif %}",
            "y",
        ),
        ("a{# no #}b{% raw %}{{ x }}{% endraw %}", "ab{{ x }}"),
        ("{% if true %}\nx\n{% endif %}\ny\n", "x\ny\n"),
    ],
)
def test_what_the_language_has(source: str, expected: str) -> None:
    """Arithmetic, texts, keys, loops, conditions, comparisons and tests."""
    data = {"n": 5, "name": "Ada", "list": [1, 2, 3], "order": {"items": 3}, "nothing": None}
    assert shown(source, data) == expected


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a'.ljust(1000000000) }}",
        "{{ 'a'.center(1000000000) }}",
        "{{ '{:>999999999}'.format(1) }}",
        "{{ range(1000000000) }}",
        "{{ ''.__class__.__mro__ }}{{ x() }}",
        "{{ 10 ** 1000000000 }}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% from 'x' import y %}",
        "{% extends 'x' %}",
        "{% macro f() %}{{ f() }}{% endmacro %}",
        "{% block x %}{% endblock %}",
        "{% call f() %}{% endcall %}",
        "{% filter upper %}x{% endfilter %}",
        "{% with x = 1 %}{% endwith %}",
        "{% set x %}text{% endset %}",
        "{% set ns.x = 1 %}",
        "{% for x in list recursive %}{{ loop(x) }}{% endfor %}",
        "{% for x in list recursive %}{% endfor %}",
        "{{ {'a': 1} }}",
        "{{ _secret }}",
        "{% set recipient = 1 %}",
        "{% for data in list %}{% endfor %}",
        "{{ x | nope }}",
        "{{ x | format(1) }}",
        "{{ x | upper(*list) }}",
        "{{ x | upper(**list) }}",
        "{{ x is divisibleby(3) }}",
        "{{ 5 | plural(one='x') }}",
        "{{ 5 | plural('x', other='y') }}",
        "{% if x %}",
        "{{ x y }}",
        "{{ 'a' % }}",
        "{{ " + "(" * 3_000 + "1" + ")" * 3_000 + " }}",
        "{% for x in list %}" * 30 + "{% endfor %}" * 30,
        "{{ 9" + "9" * 5_000 + " }}",
    ],
)
def test_what_is_refused_when_it_is_compiled(source: str) -> None:
    """Everything that calls, reaches out, names what is private, or can not be parsed: before it is ever run."""
    for html in (False, True):
        with pytest.raises(Broken):
            compile_part(source, html=html)


def test_a_source_has_a_limit() -> None:
    """A source over the limit is refused before it is parsed."""
    compile_part("x" * MAX_SOURCE, html=False)
    with pytest.raises(Broken):
        compile_part("x" * (MAX_SOURCE + 1), html=False)


DOUBLED = "{% set s = 'ab' %}" + "{% set s = s ~ s %}" * 60 + "{{ s }}"
ADDED = "{% set s = 'ab' %}" + "{% set s = s + s %}" * 60
LISTS = "{% set s = [1] %}" + "{% set s = s + s %}" * 60
NESTED = "{% set a = [1] %}{% set b = [1] %}" + "{% set a = [a, a] %}{% set b = [b, b] %}" * 60
FOUR_DEEP = "{% for a in many %}{% for b in many %}{% for c in many %}{% for d in many %}{% endfor %}" + (
    "{% endfor %}" * 3
)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 1000000000 }}",
        "{{ [1] * 1000000000 }}",
        "{{ 'a' * 2 }}",
        "{{ '%999999999d' % 1 }}",
        "{{ 'a' - 1 }}",
        "{{ true + true }}",
        "{% set n = 9 %}" + "{% set n = n * n %}" * 60 + "{{ n }}",
        "{{ 1e308 * 1e308 }}",
        DOUBLED,
        ADDED,
        LISTS,
        NESTED + "{{ a }}",
        NESTED + "{{ 1 if a == b else 2 }}",
        NESTED + "{{ 1 if a in b else 2 }}",
        NESTED + "{{ [a, b] | sort | length }}",
        NESTED + "{{ a | join }}",
        FOUR_DEEP,
        "{% for a in many %}{% if a in many %}{% endif %}{% endfor %}",
        "{% for a in many %}{% set b = many[:] %}{% endfor %}",
        "{% for a in many %}{% set b = long | upper %}{% endfor %}",
        "{% for a in many %}{% if long == long %}{% endif %}{% endfor %}",
        "{% for a in many %}" + "x" * 1_000 + "{% endfor %}",
        "{% for a in many %}{{ long }}{% endfor %}",
        "{{ long | replace('a', long) }}",
        "{{ many | join(long) }}",
        "{% for a in 5 %}{% endfor %}",
        "{% for a in 'text' %}{% endfor %}",
        "{% for a in nowhere %}{% endfor %}",
        "{{ nowhere + 1 }}",
        "{{ nowhere.x }}",
        "{{ nowhere[0] }}",
        "{{ [1][5] }}",
        "{{ [1]['x'] }}",
        "{{ recipient.nowhere }}",
        "{{ none }}",
        "{{ true }}",
        "{{ [1] }}",
        "{{ recipient }}",
        "{{ 1 / 0 }}",
        "{{ loop }}",
        "{{ self }}",
        "{{ [1] | upper }}",
        "{{ 'x' | truncate }}",
        "{{ [1, 2][::0] }}",
        "{{ big }}",
        "{{ 1 < 'a' }}",
    ],
)
def test_what_ends_a_rendering(source: str) -> None:
    """Every bomb, and every mistake that would show: as an error, in a fraction of a second."""
    data = {"many": list(range(50_000)), "long": "a" * 250_000, "big": 10**5_000}
    started = time.process_time()
    broken(source, data)
    assert time.process_time() - started < 3


SNIPPETS = [
    "{{ s }}",
    "{% set s = s ~ s %}",
    "{% set s = s + s %}",
    "{% set s = s | replace('a', s) %}",
    "{% set s = s | upper | lower %}",
    "{% set l = l + l %}",
    "{% set l = l | sort %}",
    "{% set l = l | reverse %}",
    "{% set s = l | join(s) %}",
    "{% set n = n * n %}",
    "{% if s == s and n in l %}x{% endif %}",
    "{% for x in l %}{{ s }}{% endfor %}",
    "{% for x in l %}{% for y in l %}{{ x }}{% endfor %}{% endfor %}",
]


@given(st.lists(st.sampled_from(SNIPPETS), max_size=60), st.booleans())
@example(SNIPPETS * 5, True)
@settings(max_examples=60, deadline=None)
def test_a_template_always_ends_soon_and_small(parts: list[str], html: bool) -> None:
    """However growing pieces are combined, the work and the result stay bounded."""
    source = "{% set s = 'aba' %}{% set l = [3, 1, 2] %}{% set n = 3 %}" + "".join(parts)
    started = time.process_time()
    try:
        text = shown(source, html=html)
    except Broken:
        pass
    else:
        assert len(text) <= CHARACTERS + len(source)
    assert time.process_time() - started < 5


def test_html_is_escaped_and_text_is_not() -> None:
    """Inserted values are escaped in html, joined ones too; a title or text shows them as they are."""
    data = {"x": '<b> & "q"', "l": ["<", ">"]}
    assert shown("{{ x }}", data) == '<b> & "q"'
    assert shown("<i>{{ x }}</i>", data, html=True) == "<i>&lt;b&gt; &amp; &#34;q&#34;</i>"
    assert shown("{{ l | join('&') }}{{ x ~ x }}", data, html=True).count("<") == 0
    assert shown("{{ 'a' ~ (x | isolate) ~ '<' }}", data, html=True) == (
        "a<bdi>&lt;b&gt; &amp; &#34;q&#34;</bdi>&lt;"
    )
    joined = "{{ [x | isolate, '<'] | join('&') }}"
    assert shown(joined, data, html=True) == "<bdi>&lt;b&gt; &amp; &#34;q&#34;</bdi>&amp;&lt;"


def test_an_error_names_the_line_and_the_variable() -> None:
    """A missing variable is named with its line; a missing key names no variable of the event."""
    error = broken("a\n\n{{ order }}")
    assert (error.line, error.missing, error.message) == (3, "order", "'order' is undefined")
    error = broken("{{ order.total }}", {"order": {}})
    assert (error.line, error.missing, error.message) == (1, None, "the mapping has no 'total'")
    error = broken("{% if x %}\n{{ y z }}{% endif %}")
    assert error.line == 2
    assert broken("\n{{ x | nope }}").line == 2
    assert "recursive" in broken("{% for x in l recursive %}{% endfor %}").message


def test_what_a_template_depends_on_is_known() -> None:
    """Whether it shows the recipient, and whether it shows moments, is known without rendering."""
    assert (compile_part("{{ a }}", html=False).personal, compile_part("{{ a }}", html=False).local) == (
        False,
        False,
    )
    assert compile_part("{% if recipient.id == 'x' %}{% endif %}", html=False).personal
    assert compile_part("{{ a | date }}", html=False).local
    forms = compile_part("\n{{ n | plural(one='a', other='b') }}", html=False).plurals
    assert forms == ((2, frozenset({"one", "other"})),)


def test_the_environment_has_nothing_else() -> None:
    """No global name of the library is reachable."""
    for name in ("lipsum", "cycler", "joiner", "namespace", "dict", "range"):
        assert broken(f"{{{{ {name} }}}}").missing == name


def test_a_loop_has_a_number_of_turns() -> None:
    """Nine thousand turns are fine, eleven thousand are too many, however little each of them does."""
    source = "{% for x in l %}{% endfor %}ok"
    assert shown(source, {"l": [0] * 9_000}) == "ok"
    assert "too many steps" in broken(source, {"l": [0] * 11_000}).message


def test_static_text_in_a_loop_is_paid_for() -> None:
    """What stands in a loop counts each time, in an inner loop by its own turns only."""
    text = "x" * 1_000
    assert len(shown("{% for x in l %}" + text + "{% endfor %}", {"l": [0] * 200})) == 200_000
    assert "characters" in broken("{% for x in l %}" + text + "{% endfor %}", {"l": [0] * 300}).message
    inner = "{% for x in l %}{% for y in none_ %}" + text + "{% endfor %}{% endfor %}"
    assert shown(inner, {"l": [0] * 300, "none_": []}) == ""
