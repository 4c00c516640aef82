"""The client alone: ringonce's HTTP client (libcurl's multi interface) in the barest loop, without any database.

What is left between this and a queue is the queue. ``python -m benchmarks.kit.bare URL COUNT``; it ends by itself.
"""

from __future__ import annotations

import json
import sys
from io import BytesIO

import pycurl

from benchmarks.kit import push

SLOTS = 100


def main(url: str, count: int) -> None:
    """Post ``count`` messages, ``SLOTS`` at the same time, and look at each answer."""
    template = push.template().encode()
    multi = pycurl.CurlMulti()
    multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, SLOTS)
    answers: dict[pycurl.Curl, BytesIO] = {}
    begun = done = 0

    def begin(handle: pycurl.Curl) -> None:
        nonlocal begun
        handle.setopt(pycurl.POSTFIELDS, template.replace(b"@NUMBER@", b"%012d" % begun))
        answers[handle] = body = BytesIO()
        handle.setopt(pycurl.WRITEDATA, body)
        multi.add_handle(handle)
        begun += 1

    for _ in range(min(SLOTS, count)):
        handle = pycurl.Curl()
        handle.setopt(pycurl.URL, url)
        handle.setopt(
            pycurl.HTTPHEADER, [*(f"{name}: {value}" for name, value in push.HEADERS.items()), "expect:"]
        )
        begin(handle)
    while done < count:
        multi.perform()
        _, good, bad = multi.info_read(SLOTS)
        if bad:
            raise SystemExit(f"a call failed: {bad[0][1:]}")
        for handle in good:
            multi.remove_handle(handle)
            if (
                handle.getinfo(pycurl.RESPONSE_CODE) != 200
                or not json.loads(answers[handle].getvalue())["name"]
            ):
                raise SystemExit("the stub refused a call")
            done += 1
            if begun < count:
                begin(handle)
        if not good:
            multi.select(1.0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
