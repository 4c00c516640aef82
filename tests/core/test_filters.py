"""Each filter of templates, and what it refuses."""

import pytest

from ringonce.core.filters import FILTERS
from ringonce.core.sandbox import Broken
from tests.core.writing import shown

DATA: dict[str, object] = {
    "n": 1234.5,
    "name": " ada ",
    "l": [3, 1, 2],
    "rows": [{"k": "b", "v": 2}, {"k": "a", "v": 1.5}],
    "none": None,
    "at": "2026-12-01T21:30:00Z",
    "empty": [],
}

GOOD = [
    ("{{ 1 | plural(one='a', other='b') }}{{ 2 | plural(one='a', other='b') }}", "ab"),
    ("{{ n | number }} {{ n | number(2) }} {{ '0.30' | number }}", "1,234.5 1,234.50 0.3"),
    ("{{ 0.256 | percent }} {{ 0.256 | percent(1) }}", "26% 25.6%"),
    ("{{ n | currency('EUR') }}", "€1,234.50"),
    ("{{ at | date }} {{ at | date('short') }}", "Dec 1, 2026 12/1/26"),
    ("{{ at | time }} {{ at | time(zone=false) }}", "9:30\u202fPM UTC 9:30\u202fPM"),
    ("{{ at | datetime }}", "Dec 1, 2026, 9:30\u202fPM UTC"),
    ("{{ n | round }} {{ 2.345 | round(2) }}", "1234 2.35"),
    ("{{ name | trim | upper }}{{ 'AB' | lower }}{{ 'ab' | capitalize }}", "ADAabAb"),
    ("{{ 'a b/я' | urlencode }}", "a%20b%2F%D1%8F"),
    ("{{ 'a-b-c' | replace('-', '+') }}{{ 'aa' | replace('aa', '') }}", "a+b+c"),
    ("{{ 'hello' | truncate(4) }} {{ 'hello' | truncate(3, '') }}", "hel… hel"),
    (
        "{{ none | default('x') }}{{ nowhere | default('y') }}{{ n | default(1) }}{{ none | default }}",
        "xy1234.5",
    ),
    ("{{ l | length }}{{ name | length }}{{ rows[0] | length }}", "352"),
    ("{{ l | first }}{{ l | last }}", "32"),
    ("{{ l | join(', ') }} {{ rows | join('/', 'k') }}", "3, 1, 2 b/a"),
    ("{{ rows | map('v') | join(' ') }}", "2 1.5"),
    (
        "{{ l | sort | join }} {{ rows | sort('k') | map('k') | join }} {{ l | sort(reverse=true) | join }}",
        "123 ab 321",
    ),
    ("{{ l | reverse | join }}", "213"),
    ("{{ l | sum }} {{ rows | sum('v') }}", "6 3.5"),
    ("{% for k, v in rows[0] | items %}{{ k }}{{ v }}{% endfor %}", "kbv2"),
    ("{{ 'x' | bare }}", "x"),
    ("{{ 'x' | isolate }}", "\u2068x\u2069"),
]

BAD = [
    "{{ 1 | plural(one='a', other='b', lots='c') }}",
    "{{ 'x' | plural(other='b') }}",
    "{{ nowhere | plural(other='b') }}",
    "{{ true | number }}",
    "{{ none | number }}",
    "{{ '1,5' | number }}",
    "{{ l | number }}",
    "{{ rows[0] | number }}",
    "{{ 1e60 | number }}",
    "{{ n | number(16) }}",
    "{{ n | number('2') }}",
    "{{ n | currency('XXY') }}",
    "{{ n | currency(1) }}",
    "{{ 'tomorrow' | date }}",
    "{{ 5 | date }}",
    "{{ '2026-12-01T09:00:00' | datetime }}",
    "{{ '2026-12-01' | time }}",
    "{{ '9999-12-31T23:00:00Z' | date }}",
    "{{ '2026-02-30' | date }}",
    "{{ at | date('huge') }}",
    "{{ at | time('long') }}",
    "{{ 'x' | round }}",
    "{{ n | round(-1) }}",
    "{{ n | round(20) }}",
    "{{ n | round(true) }}",
    "{{ none | upper }}",
    "{{ 'x' | truncate(-1) }}",
    "{{ 5 | length }}",
    "{{ nowhere | length }}",
    "{{ empty | first }}",
    "{{ 'x' | last }}",
    "{{ 5 | join }}",
    "{{ [[1]] | join }}",
    "{{ rows | map('nowhere') | join }}",
    "{{ l | map('k') | join }}",
    "{{ ['a', 1] | sort | join }}",
    "{{ rows | sort | join }}",
    "{{ ['a'] | sum }}",
    "{{ [true] | sum }}",
    "{{ l | items }}",
    "{{ nowhere | items }}",
]


@pytest.mark.parametrize(("source", "expected"), GOOD)
def test_filter(source: str, expected: str) -> None:
    """What a filter makes of a value."""
    assert shown(source, DATA) == expected


def test_every_filter_has_an_example() -> None:
    """No filter is left out of the examples above."""
    used = {name for source, _ in GOOD for name in FILTERS if f"| {name}" in source}
    assert used == set(FILTERS)


@pytest.mark.parametrize("source", BAD)
def test_filter_refuses(source: str) -> None:
    """A value or an argument of the wrong kind is an error with a mend, never a text that looks right."""
    with pytest.raises(Broken) as caught:
        shown(source, DATA)
    assert caught.value.mend
