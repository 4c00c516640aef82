"""Results as Markdown and as a plot."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDTH, ROW, LEFT, RIGHT, TOP = 860, 26, 240, 110, 44


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; columns of texts are aligned left. None is told as a dash.

    Raises ValueError when a row has too many cells or too few.
    """
    if any(len(row) != len(columns) for row in rows):
        raise ValueError(f"each row has {len(columns)} cells")
    texts = [
        all(value is None or isinstance(value, str) for value in values) for values in zip(*rows, strict=True)
    ]
    rule = [":--" if left else "--:" for left in texts or [True] * len(columns)]
    lines = [columns, rule, *([cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def cell(value: object) -> str:
    """One value: large numbers without decimals, small ones with three digits that count."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).replace("|", "\\|")
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def facts(machine: Mapping[str, Any]) -> str:
    """One paragraph on what it was measured on."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    load = " / ".join(f"{value:.2f}" for value in machine["load_before"])
    where = (
        f"{machine['cores']} cores ({machine['processor']}), {machine['memory_mb']:,} MB, {machine['kernel']}"
    )
    what = f"ringonce at {machine['commit'] or 'an unknown commit'}, Python {machine['python']}, {versions}"
    return f"Measured on {machine['date']} on {where}, with {what}. Load average before the run: {load}.\n"


def image(part: str, plot: Mapping[str, Any]) -> str:
    """The file's name of a part's plot."""
    return f"benchmarks-{part}-{plot['name']}.svg"


def markdown(part: Mapping[str, Any], level: int = 2) -> str:
    """One part's result, its heading at ``level``: tables, notes, the machine."""
    pieces = [f"{'#' * level} {part['title']}\n"]
    for one in part.get("tables", ()):
        if one.get("title"):
            pieces.append(f"{'#' * (level + 1)} {one['title']}\n")
        pieces.append(table(one["columns"], one["rows"]))
    pieces += [f"{note}\n" for note in part.get("notes", ())]
    if "machine" in part:
        pieces.append(facts(part["machine"]))
    return "\n".join(pieces)


def bars(plot: Mapping[str, Any]) -> str:
    """An SVG of horizontal bars, one for each of ``plot["bars"]``, with the range of the runs across its end.

    ``{"title", "unit", "bars": [{"name", "median", "min", "max"}]}``; the longest first.
    """
    told = sorted(plot["bars"], key=lambda bar: -bar["median"])
    most = max((bar["max"] for bar in told), default=1.0) or 1.0
    height = TOP + ROW * len(told) + 12
    scale = (WIDTH - LEFT - RIGHT) / most
    frame = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
    heading = f"{plot['title']} ({plot['unit']}; bar: median, line: range of the runs)"
    parts = [
        f'<svg {frame} font-family="sans-serif" font-size="13">',
        f"<title>{escape(plot['title'])}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="8" y="24" font-size="15" font-weight="bold">{escape(heading)}</text>',
    ]
    for index, bar in enumerate(told):
        y = TOP + index * ROW
        end = LEFT + bar["median"] * scale
        low, high = LEFT + bar["min"] * scale, LEFT + bar["max"] * scale
        fill = "#1b6ca8" if bar["name"].startswith("ringonce") else "#9aa5b1"
        whisker = f"M{low:.1f} {y + 9}H{high:.1f}M{low:.1f} {y + 5}V{y + 13}M{high:.1f} {y + 5}V{y + 13}"
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(bar["name"])}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{max(1.0, end - LEFT):.1f}" height="18" fill="{fill}"/>',
            f'<path d="{whisker}" stroke="#222" fill="none"/>',
            f'<text x="{max(end, high) + 8:.1f}" y="{y + 14}">{cell(bar["median"])}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
