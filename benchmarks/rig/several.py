"""Several worker processes as one program: ``python -m benchmarks.rig.several COUNT CONFIG``, until SIGTERM."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

from benchmarks.kit.context import ringonce
from benchmarks.kit.servers import end


def main(count: int, config: str) -> None:
    """Start all, wait, end all."""
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    processes = [subprocess.Popen(ringonce("--config", config, "worker")) for _ in range(count)]
    told.wait()
    for process in processes:
        process.terminate()
    for process in processes:
        end(process, signal.SIGTERM)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
