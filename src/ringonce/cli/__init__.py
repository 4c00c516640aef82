"""The command line: one file per group of commands, heavy imports inside the commands."""

from __future__ import annotations

import sys


def main() -> None:
    """The program ``ringonce``. Ends with 0 ok, 1 failed, 2 wrong usage or configuration, 3 not found."""
    from ringonce.cli.root import run

    sys.exit(run(sys.argv[1:]))
