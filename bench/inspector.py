"""What the page of the gateway costs: `python -m bench.inspector [queries] [postgres] [feed] [check]`.

The store has 100,000 turns of 30 days (`bench.inspector_store`), and the gateway is a real one.

- *queries*: the gateway's own CPU time for each request of the page;
- *postgres*: the same with the turns in PostgreSQL, and the CPU time of the database;
- *feed*: what streams cost while nobody watches the live list, one browser does, and twenty do, in turns;
- *check*: the longest lag of four fast streams, without and with the check of a file of 32 MB.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

from tests.store.postgres.cluster import PostgresCluster

from bench.figures import as_markdown, interval, shown, take_turns
from bench.inspector_store import RARE_MODEL, SEARCHED, TURNS, fill
from bench.lab import instruments, servers
from bench.lab.bodies import body_for, chunks_of
from bench.lab.servers import Server
from bench.report import machine, with_parts

RESULT = Path(__file__).parent / "results" / "inspector.json"
STORE = "store.sqlite"
PAGE = Path(__file__).parent.parent / "docs" / "inspector.md"
LIMIT_MS = 50
"""CPU time that a query of the list or of the dashboard may take."""
ROUNDS, REQUESTS = 7, 10
VIEWERS = {"nobody": 0, "1 viewer": 1, "20 viewers": 20}
FLOOD, PACED, FIRST, FAST = "fake-c256", "fake-c150-d20-ts", "fake-c4", "fake-c800-d3-ts"
STREAMS = 64
FEED_ROUNDS, CHECK_ROUNDS = 14, 3
LONG_TURN = "fake-c20000"
FILE_BYTES = 32 * 1024 * 1024
HOUR, DAY = 3600, 24 * 3600
SPANS = {"1 h": (HOUR, 60), "24 h": (DAY, HOUR), "7 d": (7 * DAY, HOUR), "30 d": (30 * DAY, DAY)}
"""Seconds, and those of a bar. The page asks for whole bars, the last of which is not over."""


def connect(server: Server) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)


# Queries


def paths(now: float) -> dict[str, str]:
    """Return what the page asks for, by name. Those of the list and of the dashboard have a limit."""
    found = {
        "list, first page": query("v1/turns", limit=50),
        "list, a page deep inside": query("v1/turns", limit=50, after=f"{now - 25 * DAY!r}_resp_"),
        "list, one key": query("v1/turns", limit=50, key="key-7"),
        "list, a rare model": query("v1/turns", limit=50, model=RARE_MODEL),
        "list, a search": query("v1/turns", limit=50, search=SEARCHED),
        "list, a search that finds nothing": query("v1/turns", limit=50, search="nothing like it"),
    }
    for name, (seconds, step) in SPANS.items():
        since = (now // step + 1) * step - seconds
        for by in ("model", "key"):
            span = {"since": since, "until": now, "by": by, "bucket": "day" if step == DAY else "hour"}
            found[f"dashboard, {name} by {by}"] = query("inspector/api/dashboard", **span)
    span = {"since": now - 30 * DAY, "until": now, "by": "model", "bucket": "day"}
    found["dashboard, 30 d by model, from the middle of a day"] = query("inspector/api/dashboard", **span)
    found["conversations"] = query("inspector/api/threads", limit=50)
    return found


def query(path: str, **values: object) -> str:
    return f"/{path}?{urlencode(values)}" if values else f"/{path}"


def cpu_of(server: Server, path: str, requests: int = REQUESTS) -> float:
    """Return CPU ms of the gateway per request."""
    with closing(connect(server)) as connection:
        before = instruments.cpu_ms(server.pids)
        for _ in range(requests):
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
            if response.status != 200:
                raise RuntimeError(f"{path}: {response.status} {body[:300]!r}")
        return (instruments.cpu_ms(server.pids) - before) / requests


def measure_postgres(folder: Path, upstream: str) -> dict[str, object]:
    """Measure the list and the dashboard of a gateway whose store is a database."""
    cluster = PostgresCluster(settings=())
    cluster.start()
    try:
        command = [sys.executable, "-m", "penstock", "store", "import", str(folder / STORE)]
        subprocess.run([*command, "--store", cluster.url()], check=True, stdout=subprocess.DEVNULL)
        with servers.gateway(folder, upstream, store=cluster.url(), name="postgres") as server:
            database = partial(cpu_of_database, cluster)
            calls = {
                name: partial(cpu_of_both, server, database, path)
                for name, path in paths(time.time()).items()
            }
            for call in calls.values():
                call()
            samples = take_turns(calls, ROUNDS)
    finally:
        cluster.remove()
    return {
        "cpu_ms_per_request": {
            name: {
                "gateway": round(median(own for own, _ in each), 1),
                "database": round(median(other for _, other in each), 1),
            }
            for name, each in samples.items()
        }
    }


def cpu_of_database(cluster: PostgresCluster) -> float:
    main = int((cluster.folder / "data" / "postmaster.pid").read_text().split()[0])
    return instruments.cpu_ms(instruments.family(main))


def cpu_of_both(server: Server, database: Callable[[], float], path: str) -> tuple[float, float]:
    """Return CPU ms of the gateway and of the database per request."""
    before = database()
    own = cpu_of(server, path)
    return own, (database() - before) / REQUESTS


def measure_queries(server: Server) -> dict[str, object]:
    turn = long_turn(server)
    calls: dict[str, Callable[[], float]] = {}
    first: dict[str, float] = {}
    long = {"a turn of 20,000 events": query(f"inspector/api/turns/{turn}")}
    for name, path in {**paths(time.time()), **long}.items():
        first[name] = cpu_of(server, path, 1)  # also imports what it needs
        calls[name] = partial(cpu_of, server, path, 2 if turn in path else REQUESTS)
    samples = take_turns(calls, ROUNDS)
    return {
        "turns": TURNS,
        "cpu_ms_per_request": {
            name: {
                "median": round(median(each), 1),
                "least": round(min(each), 1),
                "most": round(max(each), 1),
                "first": round(first[name], 1),
            }
            for name, each in samples.items()
        },
    }


def long_turn(server: Server) -> str:
    """Have a turn of 20,000 events stored; return its id."""
    events = stream_of(server, LONG_TURN)
    found: str = json.loads(events.partition(b"data: ")[2].partition(b"\n")[0])["response"]["id"]
    return found


def stream_of(server: Server, spec: str) -> bytes:
    with closing(connect(server)) as connection:
        connection.request("POST", "/v1/responses", body_for(spec), {"content-type": "application/json"})
        return connection.getresponse().read()


# The feed


@contextmanager
def watched(server: Server, viewers: int) -> Iterator[None]:
    """Let some browsers watch the feed."""
    with ExitStack() as stack:
        for _ in range(viewers):
            feed = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            feed.sendall(b"GET /inspector/api/feed HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            if not feed.recv(1 << 16).startswith(b"HTTP/1.1 200"):
                raise RuntimeError("the feed was refused")
            reader = threading.Thread(target=_read, args=(feed,))
            reader.start()
            stack.callback(reader.join)
            stack.callback(feed.shutdown, socket.SHUT_RDWR)
        yield


def _read(feed: socket.socket) -> None:
    with suppress(OSError):
        while feed.recv(1 << 16):
            pass


def paced(server: Server, viewers: int) -> float:
    """Return CPU ms per 1,000 chunks while all streams are open."""
    with watched(server, viewers), server.urgent():
        run = server.load(PACED, "-n", STREAMS, "-R", 700, "-W", "-X", 40).checked()
    assert run.window is not None
    return 1000 * run.window.cpu_ms / run.window.deltas


def flood(server: Server, viewers: int) -> float:
    """Return CPU ms per 1,000 chunks."""
    with watched(server, viewers):
        run = server.load(FLOOD, "-n", 32, "-T", 3, "-X", 60).checked()
    return 1000 * run.cpu_ms / (run.good * chunks_of(FLOOD))


def first_event(server: Server, viewers: int) -> float:
    """Return the median of the times until the first event, in ms, of one client."""
    with watched(server, viewers), server.urgent():
        return server.load(FIRST, "-n", 1, "-r", 200, "-X", 40).checked().first_event_ms[0]


def measure_feed(server: Server) -> dict[str, object]:
    measures = {
        "paced, CPU ms per 1,000 chunks": paced,
        "flood, CPU ms per 1,000 chunks": flood,
        "first event, ms": first_event,
    }
    flood(server, 1)  # warm up
    found: dict[str, object] = {"streams": STREAMS, "rounds": FEED_ROUNDS}
    for title, measure in measures.items():
        sides = {name: partial(measure, server, viewers) for name, viewers in VIEWERS.items()}
        found[title] = _compared(take_turns(sides, FEED_ROUNDS))
    return found


def _compared(samples: dict[str, list[float]]) -> dict[str, object]:
    """Return medians, and an interval for the ratio to nobody in the same round."""
    base = samples["nobody"]
    found: dict[str, object] = {}
    for name, values in samples.items():
        low, middle, high = interval([one / other for one, other in zip(values, base, strict=True)])
        ratio = {"ratio": round(middle, 3), "low": round(low, 3), "high": round(high, 3)}
        found[name] = {"median": round(median(values), 2), **(ratio if name != "nobody" else {})}
    return found


# Checking a file


def measure_check(server: Server) -> dict[str, object]:
    file = long_file(server)
    sides = {
        "idle": partial(lag_of_streams, server, b""),
        "checking": partial(lag_of_streams, server, file),
    }
    lag = take_turns(sides, CHECK_ROUNDS)
    return {"longest_lag_ms": {name: round(median(each), 1) for name, each in lag.items()}}


def lag_of_streams(server: Server, file: bytes) -> float:
    """Return the longest lag in ms of four streams while a file is checked, if there is one."""
    body = body_for(FAST, **server.fields)
    with (
        server.urgent(),
        instruments.loading(server.port, server.pids, FAST, body, "-n", 4, "-r", 4) as runs,
    ):
        if file:
            with closing(connect(server)) as connection:
                connection.request("POST", "/inspector/api/check", file)
                checked = json.loads(connection.getresponse().read())
                assert checked["kind"] == "responses", checked["sentence"]
    return runs[0].checked().lag_ms[2]


def long_file(server: Server) -> bytes:
    """Return a recorded stream of 32 MB: one long answer."""
    stream = stream_of(server, FLOOD)
    delta = next(frame for frame in stream.split(b"\n\n") if b"output_text.delta" in frame) + b"\n\n"
    head, _, tail = stream.partition(delta)
    return head + delta * ((FILE_BYTES - len(stream)) // len(delta)) + tail


# The page of the documentation


def tables(results: dict[str, dict[str, dict[str, dict[str, float]]]]) -> str:
    """Return the results as tables."""
    cpu = results["queries"]["cpu_ms_per_request"]
    database = [
        (name, f"{each['gateway']:.1f}", f"{each['database']:.1f}")
        for name, each in results[POSTGRES]["cpu_ms_per_request"].items()
    ]
    queries = [
        (name, *(f"{each[column]:.1f}" for column in ("median", "most", "first")))
        for name, each in cpu.items()
    ]
    feed = []
    for title, sides in results["feed"].items():
        if not isinstance(sides, dict):
            continue
        for name, each in sides.items():
            ratio = (
                f"{each['ratio']:.2f} ({each['low']:.2f} to {each['high']:.2f})" if "ratio" in each else ""
            )
            feed.append((title, name, shown(each["median"]), ratio))
    lag = results["check"]["longest_lag_ms"]
    checking = (
        f"The longest lag of four streams was {lag['idle']} ms, and {lag['checking']} ms while a file of 32 "
        "MB was checked."
    )
    return "\n\n".join(
        (
            f"Measured on {machine()}.",
            as_markdown(("request", "CPU ms of the gateway", "most", "the first time"), queries),
            as_markdown(("the turns in PostgreSQL", "CPU ms of the gateway", "of the database"), database),
            as_markdown(("streams", "feed", "median", "ratio to nobody (95 % interval)"), feed),
            checking,
        )
    )


PARTS = {"queries": measure_queries, "feed": measure_feed, "check": measure_check}
POSTGRES = "postgres"


def main() -> int:
    parts = [*PARTS, POSTGRES]
    chosen = [name for name in parts if name in sys.argv[1:]] or parts
    results = json.loads(RESULT.read_text()) if len(chosen) < len(parts) and RESULT.exists() else {}
    instruments.build()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = folder / STORE
        fill(file)
        upstream = stack.enter_context(instruments.upstream())
        if POSTGRES in chosen:  # before the gateway below has the file
            results[POSTGRES] = measure_postgres(folder, upstream)
            print(json.dumps(results[POSTGRES], indent=2), flush=True)
        server = stack.enter_context(servers.gateway(folder, upstream, store=str(file)))
        for name in (each for each in PARTS if each in chosen):
            results[name] = PARTS[name](server)
            print(json.dumps({name: results[name]}, indent=2), flush=True)
    results = {name: results[name] for name in parts if name in results}
    results["load_average"] = [round(each, 1) for each in os.getloadavg()]
    RESULT.write_text(json.dumps(results, indent=2) + "\n")
    if results.keys() >= set(parts):
        PAGE.write_text(with_parts(PAGE.read_text(), {"inspector": tables(results)}))
    slow = [
        name
        for name, each in results.get("queries", {}).get("cpu_ms_per_request", {}).items()
        if name.startswith(("list", "dashboard")) and each["median"] > LIMIT_MS
    ]
    print("".join(f"above {LIMIT_MS} ms of CPU: {name}\n" for name in slow), end="")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
