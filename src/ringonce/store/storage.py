"""Storage parameters of the hot tables on PostgreSQL, each with its reason.

The defaults of autovacuum wait for a fifth of a table: of 10⁷ rows that is two million dead ones, removed in one
run of many minutes, which the next snapshot that is held makes worthless. Small runs, begun early, keep indexes
short and the visibility map up to date (PostgreSQL manual, "Automatic Vacuuming").
"""

from __future__ import annotations

STORAGE: dict[str, dict[str, str]] = {
    # Claim, mark and settle change each row three times: half a minute of full speed is one run, at full speed.
    "dispatch": {
        "fillfactor": "70",
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_threshold": "1000",
        "autovacuum_vacuum_cost_delay": "0",
        "autovacuum_analyze_scale_factor": "0.1",
    },
    # The final update is HOT only where the page has room (measured: fillfactor 85 / 50 → 20 % / 100 %), so what
    # dies here is removed by page pruning; autovacuum is for what retention deletes. New rows arrive all day:
    # they are frozen in small runs, and not in one before the transaction ids wrap around.
    "notifications": {
        "fillfactor": "50",
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_threshold": "5000",
        "autovacuum_vacuum_insert_scale_factor": "0.1",
        "autovacuum_analyze_scale_factor": "0.05",
    },
    # Inserted once and deleted by retention: dead rows come in batches of 500, whatever the size of the table.
    "attempts": {
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_threshold": "5000",
        "autovacuum_vacuum_insert_scale_factor": "0.1",
        "autovacuum_analyze_scale_factor": "0.1",
    },
    "timeline": {
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_threshold": "5000",
        "autovacuum_vacuum_insert_scale_factor": "0.1",
        "autovacuum_analyze_scale_factor": "0.1",
    },
    # Expanding flips a flag that an index names, and retention empties the body: two dead rows for each event.
    # The index of unexpanded events is read by every idle worker each second, so its dead entries go soon.
    "events": {
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_threshold": "1000",
        "autovacuum_vacuum_insert_scale_factor": "0.1",
        "autovacuum_analyze_scale_factor": "0.05",
    },
    # Kept longest of all, and read by its key alone: only what retention deletes dies.
    "event_recipients": {
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_threshold": "5000",
        "autovacuum_vacuum_insert_scale_factor": "0.1",
    },
    # The widest rows (html, data: kept out of line): freed space is worth most here, also that of the TOAST table.
    "contents": {
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_threshold": "1000",
        "autovacuum_vacuum_insert_scale_factor": "0.1",
        "toast.autovacuum_vacuum_scale_factor": "0.02",
        "toast.autovacuum_vacuum_threshold": "1000",
    },
    # Each row is updated once, when it is published, and deleted a week later: the oldest rows are read all the time.
    "outbox": {
        "fillfactor": "85",
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_threshold": "1000",
        "autovacuum_analyze_scale_factor": "0.1",
    },
}
"""Table (without prefix) → storage parameter → value."""
