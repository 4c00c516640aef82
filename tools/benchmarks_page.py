"""The results that docs/reference/benchmarks.md quotes, from what ``make bench ARGS=--keep`` has kept."""

import json
from pathlib import Path

from benchmarks.kit import tables

KEPT = Path(__file__).parents[1] / "benchmarks" / "results" / "kept"
NOTHING = "No result has been kept yet.\n"


def page(folder: Path = KEPT) -> str:
    """Each part's plot and tables, below the heading of the results."""
    parts = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    return "\n".join(map(section, parts)) if parts else NOTHING


def section(part: dict[str, object]) -> str:
    """One part."""
    told = tables.markdown(part, level=3)
    plots = part.get("plots", [])
    assert isinstance(plots, list)
    drawn = "".join(f"![{plot['title']}]({tables.image(str(part['part']), plot)})\n\n" for plot in plots)
    heading, _, rest = told.partition("\n\n")
    return f"{heading}\n\n{drawn}{rest}"
