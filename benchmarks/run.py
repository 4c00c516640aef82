"""Measure: ``python -m benchmarks.run [PART …] [--runs 5]``, or ``make bench PARTS="deliver latency" RUNS=5``.

A part is a module of ``benchmarks/parts`` with a one-line docstring and a function ``run(context) -> dict``:

    title: the heading.
    rounds: what was measured, round by round: ``[{variant: {measure: number}}]``; summaries are made of it.
    tables: ``[{"title", "columns", "rows"}]`` for people.
    plots: ``[{"name", "title", "unit", "bars": [{"name", "median", "min", "max"}]}]``.
    notes: sentences below the tables.

Whatever else it returns is kept as JSON. Each part is written to ``benchmarks/results``, which git ignores. ``--keep``
also puts the JSON into ``benchmarks/results/kept`` and the plots beside docs/reference/benchmarks.md: ``make docs``
writes that page from both.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import shutil
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import parts
from benchmarks.kit import machine, servers, stats, tables
from benchmarks.kit.context import Context

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS = Path(__file__).parent / "results"
KEPT = RESULTS / "kept"
DOCS = Path(__file__).parents[1] / "docs" / "reference"


def names() -> list[str]:
    """All parts there are."""
    return sorted(
        module.name for module in pkgutil.iter_modules(parts.__path__) if not module.name.startswith("_")
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the parts that are asked for; 0 when each gave a result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(names())}; all by default")
    parser.add_argument("--runs", type=int, default=5, help="rounds of each comparison (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies every size; less only to try it")
    parser.add_argument("--only", default="", help="variants, separated by commas")
    parser.add_argument("--keep", action="store_true", help="keep the result for the documentation")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.parts) - set(names())):
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(names())}")
    only = frozenset(name.strip() for name in options.only.split(",") if name.strip())
    facts = machine.facts()
    print(tables.facts(facts), flush=True)
    failed = []
    for name in options.parts or names():
        with servers.temporary("ringonce-bench-") as folder:
            context = Context(options.runs, options.scale, only, folder)
            context.say(f"{name}: begins")
            try:
                with context.stack:
                    result = importlib.import_module(f"benchmarks.parts.{name}").run(context)
            except Exception:  # noqa: BLE001 - the other parts are measured all the same
                traceback.print_exc()
                failed.append(name)
                continue
        settings = {"runs": options.runs, "scale": options.scale, "only": sorted(only)}
        result = {"part": name, "machine": facts, "settings": settings, **result}
        result["notes"] = [*result.get("notes", ()), *context.failures]
        if "rounds" in result:
            result["summary"] = stats.summarise(result["rounds"])
        for file in write(name, result):
            if options.keep and (kept := {".json": KEPT, ".svg": DOCS}.get(file.suffix)):
                kept.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, kept)
        print(f"\n{tables.markdown(result)}", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def write(name: str, result: dict[str, Any]) -> list[Path]:
    """Write one part's files and name them."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    files = {f"{name}.json": json.dumps(result, indent=1) + "\n", f"{name}.md": tables.markdown(result)}
    for plot in result.get("plots", ()):
        files[tables.image(name, plot)] = tables.bars(plot)
    for file, text in files.items():
        (RESULTS / file).write_text(text)
    return [RESULTS / file for file in files]


if __name__ == "__main__":
    sys.exit(main())
