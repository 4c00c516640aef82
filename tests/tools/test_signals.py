"""The pages of events and metrics: what is not described is an error."""

from pathlib import Path

import pytest

from ringonce import telemetry
from tools import signals


def test_an_undescribed_metric_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A metric or an alert that somewhere is said and nowhere described stops the documentation."""
    (tmp_path / "new.py").write_text('telemetry.count("ringonce_new_total", channel=name)\n')
    monkeypatch.setattr(signals, "SOURCE", tmp_path)
    monkeypatch.setattr(telemetry, "HELP", {})
    with pytest.raises(ValueError, match="ringonce_new_total: describe it"):
        signals.metrics()
    monkeypatch.setattr(telemetry, "HELP", {"ringonce_new_total": "New."})
    monkeypatch.setattr(telemetry, "ALERTS", {"old": "Never said."})
    with pytest.raises(ValueError, match="old: described in telemetry"):
        signals.metrics()


def test_every_event_is_described() -> None:
    """Each field of each event of ours has its meaning."""
    page = signals.events()
    for name in ("notification.dispatched", "notification.status_changed", "`assumed`", "`attempts`"):
        assert name in page
