"""Answers for a shop's customers: written here, approved by their mode or by a person, published by ringonce.

``python app.py customers.jsonl`` saves an answer for each line. It may run as often as you like, and be killed: each
customer has one draft, the same text again changes nothing, and what is published is left alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ringonce.blocking import Ringonce
from ringonce.core.drafts import state_of

GOOD = 4
"""So many stars are praise."""


def written(customer: dict[str, Any]) -> tuple[str, str]:
    """The scenario and the text of an answer. Yours may come from a model."""
    name = customer["name"]
    if customer["kind"] == "question":
        return "question", f"{name}, thank you for asking. Yes, it is."
    if customer["stars"] >= GOOD:
        return "praise", f"Thank you, {name}! We are glad that you like it."
    return "complaint", f"{name}, we are sorry. Please write to us, and we will send you another one."


def main(file: str) -> None:
    """Save an answer for each customer, and say how each stands."""
    with Ringonce("ringonce.toml") as ringonce:
        for line in Path(file).read_text("utf-8").splitlines():
            customer = json.loads(line)
            scenario, text = written(customer)
            key = f"{customer['kind']}:{customer['id']}"
            saved = ringonce.put_draft(key, text, scenario=scenario, by="app.py")
            note = ", left alone" if saved.skipped else ""
            print(f"{key}: {state_of(saved.draft.row.state)}{note}")


if __name__ == "__main__":
    main(sys.argv[1])
