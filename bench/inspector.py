"""What the page of the gateway costs running streams: `python -m bench.inspector`.

Streams at the pace of a model, stored, in turns: while nobody watches the feed, and while five browsers do.
Then the longest lag of four fast streams, without and with the check of a file of 32 MB at the same time.
"""

from __future__ import annotations

import http.client
import json
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from bench.figures import take_turns
from bench.lab import instruments, servers
from bench.lab.bodies import body_for
from bench.lab.servers import Server

RESULT = Path(__file__).parent / "results" / "inspector.json"
ROUNDS = 5
VIEWERS = 5
STREAMS = 64
_SPEC = "fake-c150-d20-ts"
_FAST = "fake-c800-d3-ts"
_FILE = 32 * 1024 * 1024


@contextmanager
def watched(server: Server, viewers: int) -> Iterator[None]:
    """Let some browsers watch the feed."""
    with ExitStack() as stack:
        for _ in range(viewers):
            connection = stack.enter_context(closing(connect(server)))
            connection.request("GET", "/inspector/api/feed")
            feed = stack.enter_context(closing(connection.getresponse()))
            threading.Thread(target=_read, args=(feed,), daemon=True).start()
        yield


def _read(feed: http.client.HTTPResponse) -> None:
    with suppress(OSError, ValueError, AttributeError, http.client.HTTPException):  # closed while reading
        feed.read()


def connect(server: Server) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)


def cpu_of_streams(server: Server, viewers: int) -> float:
    """Return CPU ms per 1,000 chunks while all streams are open."""
    with watched(server, viewers), server.urgent():
        run = server.load(_SPEC, "-n", STREAMS, "-R", 700, "-W", "-X", 40).checked()
    assert run.window is not None
    return 1000 * run.window.cpu_ms / run.window.deltas


def lag_of_streams(server: Server, file: bytes) -> float:
    """Return the longest lag in ms of four streams while a file is checked, if there is one."""
    body = body_for(_FAST, **server.fields)
    with (
        server.urgent(),
        instruments.loading(server.port, server.pids, _FAST, body, "-n", 4, "-r", 4) as runs,
    ):
        if file:
            with closing(connect(server)) as connection:
                connection.request("POST", "/inspector/api/check", file)
                checked = json.loads(connection.getresponse().read())
                assert checked["kind"] == "responses", checked["sentence"]
    return runs[0].checked().lag_ms[2]


def long_file(server: Server) -> bytes:
    """Return a recorded stream of 32 MB: one long answer."""
    with closing(connect(server)) as connection:
        body = json.dumps({"model": "fake-c256", "input": "x", "stream": True})
        connection.request("POST", "/v1/responses", body, {"content-type": "application/json"})
        stream = connection.getresponse().read()
    delta = next(frame for frame in stream.split(b"\n\n") if b"output_text.delta" in frame) + b"\n\n"
    head, _, tail = stream.partition(delta)
    return head + delta * ((_FILE - len(stream)) // len(delta)) + tail


def main() -> int:
    instruments.build()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(instruments.upstream())
        server = stack.enter_context(servers.gateway(folder, upstream, store=str(folder / "store.sqlite")))
        file = long_file(server)
        cpu = take_turns(
            {
                "nobody": partial(cpu_of_streams, server, 0),
                "viewers": partial(cpu_of_streams, server, VIEWERS),
            },
            ROUNDS,
        )
        lag = take_turns(
            {"idle": partial(lag_of_streams, server, b""), "checking": partial(lag_of_streams, server, file)},
            3,
        )
    result = {
        "streams": STREAMS,
        "viewers": VIEWERS,
        "cpu_ms_per_1000_chunks": {name: round(statistics.median(each), 2) for name, each in cpu.items()},
        "longest_lag_ms": {name: round(statistics.median(each), 1) for name, each in lag.items()},
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
