"""The pure parts of the benchmarks' kit: figures that are told have to be right."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import run
from benchmarks.kit import cpu, push, stats, tables
from benchmarks.kit.context import Context
from benchmarks.kit.drain import StalledError
from benchmarks.kit.peers import NODE, PEERS
from benchmarks.kit.ringonce import toml
from benchmarks.kit.servers import ServerError, Stub, stub_status
from ringonce.provider import Content
from ringonce.providers.fcm import Fcm, FcmOptions
from tests.providers.samples import address, context, message
from tools import benchmarks_page

ROUNDS: list[stats.Round] = [
    {"fast": {"rate": 300.0}, "slow": {"rate": 100.0}},
    {"fast": {"rate": 200.0}, "slow": {"rate": 50.0}},
    {"fast": {"rate": 260.0}, "slow": {"rate": 130.0}},
]


def test_summary_tells_the_middle_and_the_range() -> None:
    """A summary is the median, the ends, and how far these lie apart in terms of the median."""
    assert stats.summary([4, 1, 2]) == {"median": 2, "min": 1, "max": 4, "spread": 1.5, "runs": 3}


def test_nothing_measured_is_no_figure() -> None:
    """Without a value there is no summary, rather than a zero."""
    with pytest.raises(ValueError, match="nothing"):
        stats.summary([])


def test_ratio_is_taken_within_each_round() -> None:
    """The ratio is the median of the rounds' ratios (3, 4, 2), not the ratio of the medians (2.6)."""
    found = stats.ratio(ROUNDS, "fast", "slow", "rate")
    assert found is not None
    assert (found["median"], found["min"], found["max"]) == (3, 2, 4)


def test_ratio_skips_rounds_that_lack_one() -> None:
    """A round in which one of the two failed gives no ratio."""
    found = stats.ratio([*ROUNDS, {"fast": {"rate": 900.0}}], "fast", "slow", "rate")
    assert found is not None
    assert found["runs"] == 3
    assert stats.ratio([{"fast": {"rate": 1.0}}], "fast", "slow", "rate") is None


def test_best_is_by_median() -> None:
    """The best is whose median is highest, among those that were asked about and measured."""
    assert stats.best(ROUNDS, ["slow", "fast"], "rate") == "fast"
    assert stats.best(ROUNDS, ["slow", "absent"], "rate") == "slow"
    assert stats.best(ROUNDS, ["absent"], "rate") is None


def test_order_gives_each_the_first_place() -> None:
    """Over as many rounds as there are variants each is first once, and all are in each round."""
    orders = [stats.order(["a", "b", "c"], number) for number in range(3)]
    assert [one[0] for one in orders] == ["a", "b", "c"]
    assert all(sorted(one) == ["a", "b", "c"] for one in orders)


@pytest.mark.parametrize(("percent", "value"), [(50, 5), (99, 10), (100, 10), (1, 1)])
def test_percentile_is_a_value_that_was_seen(percent: float, value: int) -> None:
    """The nearest rank: no figure between two that were measured."""
    assert stats.percentile(list(range(1, 11)), percent) == value


def test_summaries_of_what_is_a_number() -> None:
    """Texts and truth values have no median."""
    assert stats.summarise([{"a": {"rate": 1.0, "why": "x", "ok": True}}]).keys() == {"a"}
    assert stats.summarise([{"a": {"rate": 1.0, "why": "x", "ok": True}}])["a"].keys() == {"rate"}


def test_what_fails_is_left_out_and_told(tmp_path: Path) -> None:
    """A variant that fails in a round has no figure there, the others have theirs, and the result says so."""
    context = Context(runs=2, scale=1, only=frozenset(), folder=tmp_path)
    turns = iter([1.0, None])

    def sometimes() -> dict[str, float]:
        rate = next(turns)
        if rate is None:
            raise StalledError("it fell silent")
        return {"rate": rate}

    rounds = context.alternate({"steady": lambda: {"rate": 2.0}, "shaky": sometimes})
    assert [sorted(one) for one in rounds] == [["shaky", "steady"], ["steady"]]
    assert context.failures == ["Round 2 has no figure of shaky: it fell silent"]


def test_table_is_markdown() -> None:
    """Texts to the left, figures to the right, a dash where nothing was measured, no bar that ends a cell."""
    assert tables.table(["", "x"], [["a|b", 12345.6], ["c", 0.12345], ["d", None]]) == (
        "|  | x |\n| :-- | --: |\n| a\\|b | 12,346 |\n| c | 0.123 |\n| d | - |\n"
    )


def test_table_refuses_rows_that_do_not_fit() -> None:
    """A row with a cell too few would put figures under the wrong heading."""
    with pytest.raises(ValueError, match="2 cells"):
        tables.table(["", "x"], [["a", 1], ["b"]])


def test_plot_puts_the_longest_first_and_escapes() -> None:
    """The longest bar is on top, and a name is text."""
    bars = [
        {"name": "<slow>", "median": 1, "min": 1, "max": 2},
        {"name": "ringonce", "median": 3, "min": 2, "max": 4},
    ]
    drawn = tables.bars({"title": "T", "unit": "per second", "bars": bars})
    assert drawn.index("ringonce") < drawn.index("&lt;slow&gt;")
    assert "<slow>" not in drawn


def test_kept_results_become_a_page(tmp_path: Path) -> None:
    """The page shows plot, table and machine of each result that is kept, and says so when there is none."""
    assert "No result" in benchmarks_page.page(tmp_path)
    machine = {
        "versions": {"nginx": "1.2"},
        "load_before": [0.5, 0, 0],
        "date": "2026-01-02",
        "commit": "abc",
    }
    machine |= {"cores": 2, "processor": "CPU", "memory_mb": 100, "kernel": "Linux", "python": "3.11"}
    part = {
        "part": "deliver",
        "title": "Deliveries",
        "machine": machine,
        "plots": [{"name": "rate", "title": "T"}],
    }
    part["tables"] = [{"title": "", "columns": ["", "x"], "rows": [["a", 1]]}]
    (tmp_path / "deliver.json").write_text(json.dumps(part))
    told = benchmarks_page.page(tmp_path)
    assert told.startswith("### Deliveries\n\n![T](benchmarks-deliver-rate.svg)\n\n|  | x |")
    assert "2026-01-02" in told
    assert "2 cores (CPU)" in told


def test_processor_time_survives_any_name() -> None:
    """A process may be called anything; its parent and its four times are read behind the name."""
    line = "7 (a) b (c) S 3 7 7 0 -1 4194304 1 2 3 4 100 50 20 30 20 0 1 0 5"
    assert cpu.parse_stat(line) == (3, pytest.approx(200 * cpu.TICK))


def test_counter_of_the_stub() -> None:
    """Of nginx's page the third figure is what counts; another page is an error."""
    page = "Active connections: 1 \nserver accepts handled requests\n 16 15 31 \nReading: 0\n"
    assert stub_status(page) == 31
    with pytest.raises(ServerError):
        stub_status("<h1>404</h1>")


def test_everybody_sends_the_same_message() -> None:
    """The peers' message is the one that ringonce's provider makes of the benchmark's event, with another number."""
    stub = Stub(port=9, pid=0, token_uri="http://127.0.0.1:9/token")
    event = push.event(12)
    provider = Fcm(FcmOptions(credentials=push.account(stub), base_url=stub.base_url))
    reference = "00000000-0000-7000-8000-000000000012"
    made = provider.request(
        message(Content(**event["content"]), reference=reference),
        address(event["to"][push.CHANNEL]),
        replace(context(), credential="ya29.bench"),
    )
    assert made.body.decode() == push.template().replace("@NUMBER@", "000000000012")
    assert made.url == stub.send_url
    assert push.HEADERS.items() <= dict(made.headers).items()


def test_configuration_is_written_as_it_is() -> None:
    """A configuration written as TOML is read as the same structure."""
    config = {
        "store": {"url": "a"},
        "channels": {"push": {"mark": False, "n": 3, "text": 'q"\n', "b": {"base": "1s"}}},
    }
    assert tomllib.loads("\n".join(toml(config))) == config


def test_peers_are_pinned() -> None:
    """Each peer is named in the requirements with an exact version, and its program exists."""
    root = Path(run.__file__).parents[1]
    pins = {
        line.partition("==")[0] for line in (root / "requirements" / "bench.txt").read_text().splitlines()
    }
    exact = json.loads((NODE / "package.json").read_text())["dependencies"]
    for peer in PEERS.values():
        assert (peer.folder / peer.file).is_file()
        assert exact[peer.package][0].isdigit() if peer.node else peer.package in pins


def test_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A part that does not exist ends the command with the names of those that do."""
    with pytest.raises(SystemExit):
        run.main(["nothing"])
    assert "deliver" in capsys.readouterr().err
