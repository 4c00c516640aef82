"""Ids of the application: ordered by time, never the same."""

import subprocess
import sys
import time

from ringonce.clock import DRAWN_AT_ONCE, SystemEntropy

FORK = """
import os, sys
from ringonce.clock import SystemEntropy
draw = SystemEntropy().uuid7
draw()
read, write = os.pipe()
if not os.fork():
    os.write(write, "\\n".join(str(draw())[14:] for _ in range(20)).encode())
    os._exit(0)
os.wait()
mine = {str(draw())[14:] for _ in range(20)}
sys.exit(bool(mine & set(os.read(read, 65536).decode().split())))
"""


def test_ids_differ() -> None:
    """Beyond what is drawn at once, all ids are UUIDs of version 7, differ, and begin with the time in milliseconds."""
    entropy = SystemEntropy()
    before = time.time_ns() // 1_000_000
    ids = [entropy.uuid7() for _ in range(5 * DRAWN_AT_ONCE)]
    after = time.time_ns() // 1_000_000
    assert len(set(ids)) == len(ids)
    assert {(id_.version, id_.variant) for id_ in ids} == {(7, "specified in RFC 4122")}
    assert all(before <= id_.int >> 80 <= after for id_ in ids)
    assert len({id_.int & (1 << 62) - 1 for id_ in ids}) == len(ids)


def test_a_child_process_draws_for_itself() -> None:
    """After a fork parent and child never give out the same random bits."""
    assert subprocess.run([sys.executable, "-c", FORK], check=False).returncode == 0
