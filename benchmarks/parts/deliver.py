"""Deliveries per second of one process with full durability, through the provider ``fcm``, and of its peers.

Everybody sends one POST per notification to the same stub, with a message of the same size, from a queue that was
filled before. Peers make 100 calls at the same time; with 400 those that could were no faster. ringonce's
``concurrency`` also counts what waits for its commit. The stub's counter tells when the first and the last one came.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.kit import ringonce, stats
from benchmarks.kit.context import environment
from benchmarks.kit.drain import Program, drain
from benchmarks.kit.peers import PEERS, measure
from benchmarks.kit.servers import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.kit.context import Context
    from benchmarks.kit.stats import Round

COUNT = 20_000
BARE = 50_000
HELD = 400
"""Rows that ringonce holds at most: waiting for the call, in the air, or waiting for their commit."""
SHOWN = ("rate", "cpu", "cpu_postgres", "cpu_valkey", "lost", "extra")
COLUMNS = ("", "deliveries/s", "least", "most", "CPU µs each", "database CPU µs each", "lost", "extra")


@dataclass(frozen=True, slots=True)
class Variant:
    """One line of the table.

    Attributes:
        title: its name for people.
        queue: where its queue lies.
        run: measures it once.
        missing: why it can not be measured here.
        settings: what it runs with.
        version: of the peer.
    """

    title: str
    queue: str
    run: Callable[[], dict[str, float]]
    missing: str = ""
    settings: str = ""
    version: str = ""


def run(context: Context) -> dict[str, Any]:
    """Alternate all variants that there are."""
    known = {**ours(context), **theirs(context)}
    left_out = {}
    for name, variant in known.items():
        if variant.missing and context.wants(name):
            left_out[name] = variant.missing
            context.say(f"  {name} is left out: {variant.missing}")
    ready = {name: variant.run for name, variant in known.items() if not variant.missing}
    rounds = context.alternate(ready, SHOWN)
    titles = {name: known[name].title for name in stats.variants(rounds)}
    return {
        "title": "Deliveries by one worker",
        "rounds": rounds,
        "left_out": left_out,
        "tables": [
            one
            for one in (rates(rounds, known), ratios(rounds, titles), settings(known, titles))
            if one["rows"]
        ],
        "plots": [plot(rounds, titles)],
        "notes": [f"Left out: {known[name].title} ({reason})." for name, reason in left_out.items()],
    }


def ours(context: Context) -> dict[str, Variant]:
    """Ringonce, and its client alone."""
    count = context.size(COUNT)
    postgres = partial(ringonce.on_postgres, context, count, concurrency=HELD)
    return {
        "ringonce": Variant(
            "ringonce", "PostgreSQL", postgres, settings=f"concurrency {HELD}, asyncpg, libcurl, uvloop"
        ),
        "no-mark": Variant(
            "ringonce, mark = false",
            "PostgreSQL",
            partial(postgres, mark=False),
            settings="the same without the mark before each call",
            missing=ringonce.refused(context.stub, mark=False),
        ),
        "two-processes": Variant(
            "ringonce, two processes",
            "PostgreSQL",
            partial(postgres, processes=2),
            settings="worker --processes 2",
            missing=ringonce.without_option("--processes"),
        ),
        "sqlite": Variant(
            "ringonce on SQLite",
            "SQLite",
            partial(ringonce.on_sqlite, context, count, concurrency=HELD),
            settings="the same, with the settings that a file has by default",
        ),
        "client": Variant(
            "libcurl alone",
            "none",
            partial(client_alone, context, context.size(BARE)),
            settings="ringonce's HTTP client in a bare loop, 100 calls at once",
        ),
    }


def theirs(context: Context) -> dict[str, Variant]:
    """The peers."""
    return {
        name: Variant(
            peer.title,
            "Valkey" if peer.valkey else "PostgreSQL",
            partial(measure, context, name),
            missing=(missing := peer.missing()),
            settings=peer.settings,
            version="" if missing else peer.version(),
        )
        for name, peer in PEERS.items()
    }


def client_alone(context: Context, count: int) -> dict[str, float]:
    """The bare loop."""
    command = [sys.executable, "-m", "benchmarks.kit.bare", context.stub.send_url, str(count)]
    program = Program(command, environment(), ROOT, context.folder / "client.log", ends=True)
    return drain(program, context.stub, count, {})


def rates(rounds: Sequence[Round], known: dict[str, Variant]) -> dict[str, Any]:
    """The main table, the fastest first."""
    told = stats.summarise(rounds)
    rows = []
    for name in sorted(told, key=lambda name: -told[name]["rate"]["median"]):
        one, variant = told[name], known[name]
        middle = {measure: values["median"] for measure, values in one.items()}
        rows.append(
            [
                f"{variant.title} {variant.version}".strip(),
                round(middle["rate"]),
                round(one["rate"]["min"]),
                round(one["rate"]["max"]),
                round(middle["cpu"]),
                next((round(middle[key]) for key in ("cpu_postgres", "cpu_valkey") if key in middle), None),
                int(one["lost"]["max"]),
                int(one["extra"]["max"]),
            ]
        )
    return {"title": "", "columns": COLUMNS, "rows": rows}


def ratios(rounds: Sequence[Round], titles: dict[str, str]) -> dict[str, Any]:
    """What the rates are to each other, round by round."""
    peers = [name for name in PEERS if name in titles]
    best = stats.best(rounds, [name for name in peers if PEERS[name].usual], "rate")
    below = dict.fromkeys([*([best] if best else []), *peers])
    pairs = [
        *((above, one) for above in ("ringonce", "no-mark", "sqlite") for one in below),
        ("no-mark", "ringonce"),
        ("two-processes", "ringonce"),
        ("client", "ringonce"),
    ]
    rows = []
    for above, one in pairs:
        found = stats.ratio(rounds, above, one, "rate")
        if found:
            label = f"{titles[above]} / {titles[one]}" + (" (the best peer)" if one == best else "")
            rows.append([label, found["median"], found["min"], found["max"]])
    return {"title": "Ratios within each round", "columns": ("", "median", "least", "most"), "rows": rows}


def settings(known: dict[str, Variant], titles: dict[str, str]) -> dict[str, Any]:
    """What each runs with."""
    rows = [
        [title, known[name].version or None, known[name].queue, known[name].settings]
        for name, title in titles.items()
    ]
    return {"title": "What each runs with", "columns": ("", "version", "queue", "settings"), "rows": rows}


def plot(rounds: Sequence[Round], titles: dict[str, str]) -> dict[str, Any]:
    """The rates; the client alone would dwarf them."""
    told = stats.summarise(rounds)
    bars = [{"name": titles[name], **told[name]["rate"]} for name in titles if name != "client"]
    return {"name": "rate", "title": "Deliveries by one worker", "unit": "per second", "bars": bars}
