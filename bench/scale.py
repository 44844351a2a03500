"""Benchmark of the shared stores: `python -m bench.scale [cpu] [workers] [resume] [lookups]`.

It needs the programs of PostgreSQL and Redis (or Valkey); it starts private servers of them, with durable
settings. Everything is measured in one run, in which the stores take turns.

- *cpu*: the gateway's own CPU time for chunks, and the time to the first event, with each store;
- *workers*: how much several processes of one machine deliver;
- *resume*: how much later an event arrives at a client that resumed at another worker;
- *lookups*: the time to find something among 1,000 and among 1,000,000 responses.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

from tests.store.postgres.cluster import PostgresCluster, connected
from tests.store.redis_server import RedisServer

from bench.figures import take_turns
from bench.lab import servers
from bench.lab.bodies import body_for, chunks_of
from bench.lab.instruments import INSTRUMENT, build, family, load, memory_kb, set_priority, upstream
from bench.lab.servers import Server
from bench.store import QUESTIONS, fill, lookup, ratio
from penstock.store.postgres.store import open_postgres_store

RESULTS = Path(__file__).parent / "results" / "scale.json"

FLOOD, FLOOD_SECONDS, FLOOD_ROUNDS = "fake-c256", 2.0, 7
PACED, PACED_STREAMS, PACED_ROUNDS = "fake-c150-d20-ts", 64, 5
FIRST, FIRST_TURNS, FIRST_ROUNDS = "fake-c4", 40, 5
WORKERS, WORKER_ROUNDS, WORKER_STREAMS = (1, 2, 4), 5, 64
LIVE, LIVE_TURNS, LIVE_ROUNDS = "fake-c150-d20", 8, 5
RESUMES = 3
"""Clients that resume each turn. With `--workers`, chance decides which worker gets them."""
FEW, MANY = 1_000, 1_000_000

STORES = ("sqlite", "postgres", "postgres and redis")


@dataclass
class Lab:
    """What the gateways need."""

    folder: Path
    upstream: str
    cluster: PostgresCluster
    redis: RedisServer

    @contextmanager
    def gateway(self, store: str, name: str = "", *, workers: int = 1) -> Iterator[Server]:
        """Run a gateway. Those with the same name share an SQLite file; all others share the database."""
        name = name or store.replace(" ", "-")
        where = str(self.folder / f"{name}.sqlite") if store == "sqlite" else self.cluster.url()
        redis = self.redis.url if "redis" in store else ""
        running = servers.gateway(
            self.folder, self.upstream, store=where, name=name, workers=workers, redis=redis
        )
        with running as server:
            yield server


# CPU time


def measure_cpu(lab: Lab) -> dict[str, object]:
    with ExitStack() as stack:
        lines = {store: stack.enter_context(lab.gateway(store)) for store in STORES}
        for server in lines.values():
            server.load(FLOOD, "-n", 8, "-T", 0.5)  # warm up
        flood = take_turns({name: partial(_flood, server) for name, server in lines.items()}, FLOOD_ROUNDS)
        paced = take_turns({name: partial(_paced, server) for name, server in lines.items()}, PACED_ROUNDS)
        turn = take_turns({name: partial(_turn, server) for name, server in lines.items()}, FLOOD_ROUNDS)
        database = take_turns(
            {name: partial(_database, server, lab.cluster) for name, server in list(lines.items())[1:]},
            FIRST_ROUNDS,
        )
        memory = {name: round(memory_kb(server.pids) / 1024) for name, server in lines.items()}
        first = take_turns({name: partial(_first, server) for name, server in lines.items()}, FIRST_ROUNDS)
    return {
        "flood, CPU ms per 1,000 chunks": _compared(flood),
        f"paced {PACED_STREAMS} streams, CPU ms per 1,000 chunks": _compared(paced),
        "short turns, CPU ms per turn": _compared(turn),
        f"paced {PACED_STREAMS} streams, CPU ms of the database per 1,000 chunks": {
            name: round(median(values), 1) for name, values in database.items()
        },
        "MB resident afterwards": memory,
        "first event of a single client, ms": _compared(first),
    }


def _flood(server: Server) -> float:
    run = server.load(FLOOD, "-n", 32, "-T", FLOOD_SECONDS, "-X", 60).checked()
    return 1000 * run.cpu_ms / (run.good * chunks_of(FLOOD))


def _paced(server: Server) -> float:
    with server.urgent():
        run = server.load(PACED, "-n", PACED_STREAMS, "-R", 700, "-W", "-X", 40)
    if run.window is None or not run.window.deltas:
        raise RuntimeError(f"{server.name} sent nothing: {run.first_error}")
    return 1000 * run.window.cpu_ms / run.window.deltas


def _database(server: Server, cluster: PostgresCluster) -> float:
    """Return CPU ms of the database per 1,000 chunks."""
    main = int((cluster.folder / "data" / "postmaster.pid").read_text().split()[0])
    # Autovacuum workers come and go.
    pids = [
        pid for pid in family(main) if b"autovacuum worker" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    options = ("-n", PACED_STREAMS, "-R", 700, "-X", 40, "-r", PACED_STREAMS)
    run = load(server.port, pids, PACED, body_for(PACED), *options).checked()
    return 1000 * run.cpu_ms / (run.good * chunks_of(PACED))


def _turn(server: Server) -> float:
    run = server.load(FIRST, "-n", 16, "-T", FLOOD_SECONDS, "-X", 60).checked()
    return run.cpu_ms / run.good


def _first(server: Server) -> float:
    return server.load(FIRST, "-n", 1, "-r", FIRST_TURNS).checked().first_event_ms[0]


def _compared(samples: dict[str, list[float]]) -> dict[str, object]:
    """Return medians, and the medians of the ratios to SQLite in the same round."""
    base = samples[STORES[0]]
    return {
        name: {"median": round(median(values), 2), "ratio": round(ratio((values, base)), 2)}
        for name, values in samples.items()
    }


# Workers


def measure_workers(lab: Lab) -> dict[str, object]:
    found: dict[str, object] = {}
    for store in STORES[:2]:
        with ExitStack() as stack:
            lines = {
                str(count): stack.enter_context(lab.gateway(store, f"{store}-{count}-workers", workers=count))
                for count in WORKERS
            }
            for server in lines.values():
                server.load(FLOOD, "-n", WORKER_STREAMS, "-T", 1)
            rates = take_turns(
                {count: partial(_rate, server) for count, server in lines.items()}, WORKER_ROUNDS
            )
        found[f"{store}, chunks per second"] = {
            count: {
                "median": round(median(values)),
                "ratio": round(ratio((values, rates[str(WORKERS[0])])), 2),
            }
            for count, values in rates.items()
        }
    return found


def _rate(server: Server) -> float:
    run = server.load(FLOOD, "-n", WORKER_STREAMS, "-T", FLOOD_SECONDS, "-X", 60).checked()
    return 1000 * run.good * chunks_of(FLOOD) / run.wall_ms


# Resuming elsewhere


async def measure_resume(lab: Lab) -> dict[str, object]:
    lags: dict[str, list[float]] = {}
    with ExitStack() as stack:
        shared = stack.enter_context(lab.gateway("sqlite", "sqlite-workers", workers=2))
        pairs = {"sqlite, 2 workers": (shared, shared)}
        for store in STORES[1:]:
            one, other = (
                stack.enter_context(lab.gateway(store, f"{store.replace(' ', '-')}-{side}")) for side in "ab"
            )
            pairs[store] = one, other
        set_priority([os.getpid()], INSTRUMENT)  # what is measured is not how late this process is
        try:
            for _ in range(LIVE_ROUNDS):
                for name, (owner, other) in pairs.items():
                    turns = (_live_turn(owner, other) for _ in range(LIVE_TURNS))
                    for some in await asyncio.gather(*turns):
                        lags.setdefault(name, []).extend(some)
        finally:
            set_priority([os.getpid()], 0)
    found: dict[str, object] = {}
    for name, values in lags.items():
        cuts = quantiles(values, n=100)
        found[name] = {
            "events": len(values),
            "p50 ms": round(cuts[49], 1),
            "p99 ms": round(cuts[98], 1),
            "max ms": round(max(values), 1),
        }
    return found


class _Stream:
    """One client: the times when the events arrived, by their numbers."""

    def __init__(self) -> None:
        self.times: dict[int, float] = {}
        self.began = 0.0
        """When the head of the answer arrived."""
        self.id = ""
        self.worker = 0

    async def run(self, server: Server, head: str, body: bytes = b"") -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 20)
        lines = [head, "host: 127.0.0.1", "content-type: application/json", f"content-length: {len(body)}"]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in answer.partition(b"\r\n")[0]:
            raise RuntimeError(answer.decode())
        self.began = perf_counter()
        self.worker = _owner_of(writer.get_extra_info("sockname")[1], server)
        async for line in reader:
            if not line.startswith(b"data: {"):
                continue
            now = perf_counter()
            number = re.search(rb'"sequence_number":(\d+)', line)
            if number is not None:
                self.times[int(number[1])] = now
            if not self.id and (id := re.search(rb'"id":"(resp_\w+)"', line)):
                self.id = id[1].decode()
            if line.startswith(b'data: {"type":"response.completed"'):
                break
        writer.close()


async def _live_turn(owner: Server, other: Server) -> list[float]:
    """Return by how many ms the events of a turn arrive later at clients that resumed at another worker."""
    first = _Stream()
    running = asyncio.ensure_future(first.run(owner, "POST /v1/responses HTTP/1.1", body_for(LIVE)))
    while not first.id and not running.done():
        await asyncio.sleep(0.01)
    head = f"GET /v1/responses/{first.id}?stream=true&starting_after=0 HTTP/1.1"
    resumed = [_Stream() for _ in range(RESUMES if owner is other else 1)]
    await asyncio.gather(running, *(stream.run(other, head) for stream in resumed))
    return [
        1e3 * (time - first.times[number])
        for stream in resumed
        if stream.worker != first.worker
        for number, time in stream.times.items()
        if first.times[number] > stream.began
    ]


def _owner_of(port: int, server: Server) -> int:
    """Return the process that serves a connection from a port of ours."""
    inode = ""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == server.port and fields[2].endswith(f":{port:04X}"):
            inode = fields[9]
    for pid in server.pids:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            if os.readlink(entry.path) == f"socket:[{inode}]":
                return pid
    raise RuntimeError(f"no process of {server.name} has the connection from port {port}")


# Many responses


_COPIES = MANY // FEW - 1
_MULTIPLY = f"""
INSERT INTO penstock.responses (
    number, tenant, id, created_at, ended_at, day, status, previous_id, conversation_id, is_background,
    accent, token, dropped, size, request, response, verdict
) OVERRIDING SYSTEM VALUE
SELECT
    number + {FEW} * copy, tenant, 'resp_' || (substr(id, 6)::bigint + {FEW} * copy), created_at, ended_at,
    day, status, 'resp_' || (substr(previous_id, 6)::bigint + {FEW} * copy), conversation_id, is_background,
    accent, token, dropped, size, request, response, verdict
FROM penstock.responses, generate_series(1, {_COPIES}) AS copy;
INSERT INTO penstock.items (response, position, tenant, id, data)
SELECT
    response + {FEW} * copy, position, tenant,
    substring(id FROM '^.*_') || (substring(id FROM '[0-9]+$')::bigint + {FEW} * copy), data
FROM penstock.items, generate_series(1, {_COPIES}) AS copy;
INSERT INTO penstock.segments (day, tenant, response, is_trace, last, count, data)
SELECT day, tenant, response + {FEW} * copy, is_trace, last, count, data
FROM penstock.segments, generate_series(1, {_COPIES}) AS copy;
"""


async def measure_lookups(lab: Lab) -> dict[str, object]:
    maintenance = await connected(lab.cluster.url())
    for name in ("small", "large"):
        await maintenance.execute(f"CREATE DATABASE {name}")
    await maintenance.close(timeout=5)
    small = await open_postgres_store(lab.cluster.url("small"))
    large = await open_postgres_store(lab.cluster.url("large"))
    await fill(small, range(FEW))
    await fill(large, range(FEW))
    began = perf_counter()
    connection = await connected(lab.cluster.url("large"))
    await connection.execute(_MULTIPLY)
    await connection.execute("VACUUM ANALYZE")
    count = await connection.fetchval("SELECT count(*) FROM penstock.responses")
    size = await connection.fetchval("SELECT pg_database_size(current_database())")
    await connection.close(timeout=5)
    filled = perf_counter() - began
    try:
        times = {name: await lookup(question, large, small, MANY) for name, question in QUESTIONS.items()}
    finally:
        await asyncio.gather(small.aclose(), large.aclose())
    return {
        "responses": count,
        "bytes per response": round(size / count),
        "seconds to fill": round(filled),
        "lookup us": {name: round(1e6 * median(each[0])) for name, each in times.items()},
        "ratio to 1,000": {name: round(ratio(each), 2) for name, each in times.items()},
    }


async def main() -> int:
    chosen = set(sys.argv[1:])
    results = json.loads(RESULTS.read_text()) if chosen and RESULTS.exists() else {}
    build()
    cluster, redis = PostgresCluster(settings=("max_wal_size=8GB",)), RedisServer()
    cluster.start()
    redis.start()
    try:
        with tempfile.TemporaryDirectory() as name, upstream() as address:
            lab = Lab(Path(name), address, cluster, redis)
            for part in ("cpu", "workers", "resume", "lookups"):
                if chosen and part not in chosen:
                    continue
                done = PARTS[part](lab)
                results[part] = await done if asyncio.iscoroutine(done) else done
                print(json.dumps({part: results[part]}, indent=2), flush=True)
    finally:
        redis.stop()
        cluster.remove()
    results["load_average"] = [round(each, 1) for each in os.getloadavg()]
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    return 0


PARTS = {
    "cpu": measure_cpu,
    "workers": measure_workers,
    "resume": measure_resume,
    "lookups": measure_lookups,
}

if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
