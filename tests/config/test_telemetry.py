"""Counters, gauges and alerts."""

import json
import logging

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ringonce.telemetry import ALERT_EVERY, MOST_SERIES, Telemetry


class Watch:
    """A monotonic clock that a test turns."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self.at


def alerts(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    """The alert lines that were logged."""
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "ringonce.alerts"]


def test_exposition_is_what_prometheus_reads() -> None:
    """Prometheus's own parser reads back names, kinds, labels with any text, and values."""
    telemetry = Telemetry()
    telemetry.count("ringonce_retry_sent_total", 2, channel='e"m\\a\nil', tenant="")
    telemetry.count("ringonce_retry_sent_total", channel='e"m\\a\nil', tenant="")
    telemetry.gauge("ringonce_failed_backlog", 7, channel="push")
    families = {family.name: family for family in text_string_to_metric_families(telemetry.exposition())}
    (counter,) = families["ringonce_retry_sent"].samples
    (gauge,) = families["ringonce_failed_backlog"].samples
    assert (counter.labels, counter.value) == ({"channel": 'e"m\\a\nil', "tenant": ""}, 3)
    assert (gauge.labels, gauge.value) == ({"channel": "push"}, 7)


def test_series_are_bounded() -> None:
    """A label with endless values does not eat the memory, and the sum stays right."""
    telemetry = Telemetry()
    for number in range(MOST_SERIES + 50):
        telemetry.count("x_total", tenant=str(number))
    assert telemetry.exposition().count("x_total{") == MOST_SERIES
    assert telemetry.value("x_total") == MOST_SERIES + 50


def test_alert_is_one_warning_line_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    """An alert is one structured WARNING with its labels, and adds to ringonce_alerts_total."""
    telemetry = Telemetry()
    telemetry.alert("exhausted", "gave up", channel="email", code="NTF_PROVIDER_TRANSIENT")
    assert alerts(caplog) == [
        {
            "alert": "exhausted",
            "channel": "email",
            "code": "NTF_PROVIDER_TRANSIENT",
            "text": "gave up",
            "count": 1,
        }
    ]
    assert caplog.records[0].levelno == logging.WARNING
    assert telemetry.value("ringonce_alerts_total", kind="exhausted", channel="email") == 1


def test_alerts_are_grouped_by_kind_channel_and_code(caplog: pytest.LogCaptureFixture) -> None:
    """A storm is one line a minute per kind, channel and code; the next line says how many there were."""
    watch = Watch()
    telemetry = Telemetry(monotonic=watch)
    for _ in range(5):
        telemetry.alert("exhausted", "gave up", channel="email", code="A")
    telemetry.alert("exhausted", "gave up", channel="push", code="A")
    assert [line["count"] for line in alerts(caplog)] == [1, 1]
    watch.at = ALERT_EVERY
    telemetry.alert("exhausted", "gave up", channel="email", code="A")
    assert [line["count"] for line in alerts(caplog)] == [1, 1, 5]
    assert telemetry.value("ringonce_alerts_total", channel="email") == 6


def test_flush_says_what_was_grouped(caplog: pytest.LogCaptureFixture) -> None:
    """The end of the process swallows no alert."""
    telemetry = Telemetry()
    for _ in range(3):
        telemetry.alert("auth", "refused", channel="email")
    telemetry.flush()
    assert [line["count"] for line in alerts(caplog)] == [1, 2]


def test_alerts_show_no_address_and_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    """What looks like an address, a token or a person's number is left out of the line."""
    telemetry = Telemetry()
    telemetry.alert("x", "a.b@example.com at https://u:hidden@h/x for 4815162342 failed 503 twice")
    (line,) = alerts(caplog)
    assert "503 twice" in str(line["text"])
    for private in ("a.b@", "hidden", "4815162342"):
        assert private not in str(line)
