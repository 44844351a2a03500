"""A whole site: workers behind a balancer, their database, Redis if a test wants it, and an upstream."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.chaos.balancer import Relay
from tests.chaos.upstream import CountingUpstream
from tests.store.postgres.cluster import PostgresCluster, connected
from tests.store.redis_server import RedisServer

IS_LONG = os.environ.get("PENSTOCK_CHAOS") == "long"
CLIENTS = 14 if IS_LONG else 8
"""At the same time."""
LEASE = 2.5
"""Seconds: death must be noticed within a test."""
KEY = "sk-planted-chaos-key-7fQ2x9LmZt4w"
KEYS_OF_THE_DEAD = "keys held after the death of their worker"
_START_SECONDS = 30.0
_LASTING = ThreadPoolExecutor(1)
"""A server of PostgreSQL ends with the thread that has started it."""
_LAUNCHER = Path(__file__).parent / "launcher.py"
_CONFIG = """
passthrough = "chat"
[limits]
retries = 0
patience = 2
drain = {drain}
[targets.chat]
base_url = "{upstream}/v1"
[[keys]]
name = "chaos"
hash = "sha256:{hash}"
"""
_EXPECTED_CODES = frozenset(
    {"unreachable", "busy", "io", "taken_over", "worker_lost", "redis_unreachable", "closed", "timeout"}
)
"""Of errors in the log that say that a part of the site has failed."""

_numbers = count(1)


class Worker:
    """A gateway process."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, port: int) -> None:
        self.process, self.folder, self.port = process, folder, port

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self, seconds: float = 60.0) -> int:
        return await asyncio.to_thread(self.process.wait, seconds)


class Site:
    """What a test breaks. `base` is where clients find it."""

    def __init__(
        self,
        folder: Path,
        cluster: PostgresCluster,
        database: str,
        upstream: CountingUpstream,
        redis: RedisServer | None,
        *,
        drain: float,
        pool_size: int,
        config: str,
    ) -> None:
        self.folder, self.cluster, self.upstream, self.redis = folder, cluster, upstream, redis
        self.url = cluster.url(database)
        self._options = f"?lease={LEASE}&pool_size={pool_size}"
        self._database, self._drain, self._config = database, drain, config
        self.workers: list[Worker] = []
        self.dead: list[Worker] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self.balancer = Relay()
        self.random = random.Random(7)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.balancer.port}"

    @property
    def logs(self) -> list[Worker]:
        return [*self.workers, *self.dead]

    # Workers

    async def start_worker(self, *, postgres_port: int | None = None, clock: float = 0.0) -> Worker:
        folder = self.folder / f"worker-{next(_numbers)}"
        folder.mkdir()
        config = folder / "penstock.toml"
        hashed = sha256(KEY.encode()).hexdigest()
        text = _CONFIG.format(upstream=self.upstream.url, drain=self._drain, hash=hashed)
        config.write_text(text + self._config)
        environment = {
            **os.environ,
            "CHAOS_CLOCK": str(clock),
            "PENSTOCK_REDIS": self.redis.url if self.redis is not None else "",
            "PENSTOCK_SECRET": "planted-secret-of-all-workers-0123456789abcdef",
        }
        store = self.cluster.url(self._database, port=postgres_port) + self._options
        command = [sys.executable, str(_LAUNCHER), "serve", "--port", "0", "--config", str(config)]
        options = ["--ready-file", str(folder / "ready"), "--log-level", "info", "--store", store]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", *command, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=folder,
                env=environment,
            )
        self._processes.append(process)
        worker = Worker(process, folder, 0)
        worker.port = await _port_of(worker)
        self.workers.append(worker)
        self.balancer.ports.append(worker.port)
        return worker

    def forget(self, worker: Worker) -> None:
        self.workers.remove(worker)
        self.dead.append(worker)
        self.balancer.ports.remove(worker.port)

    async def kill(self, worker: Worker) -> None:
        """End a worker as a crash of its machine would. The balancer learns of it later, as one does."""
        worker.process.kill()
        await worker.ended()
        await self.start_worker()
        self.forget(worker)

    async def stop_worker(self, worker: Worker) -> int:
        """Drain a worker, as a deploy does."""
        worker.signal(signal.SIGTERM)
        code = await worker.ended()
        self.forget(worker)
        return code

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    # The database

    async def stop_database(self, how: signal.Signals) -> None:
        await asyncio.get_running_loop().run_in_executor(_LASTING, self.cluster.stop, how)

    async def start_database(self) -> None:
        await asyncio.get_running_loop().run_in_executor(_LASTING, self.cluster.start)

    # What is left behind

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        connection = await connected(self.url)
        try:
            return [tuple(row) for row in await connection.fetch(query)]
        finally:
            await connection.close(timeout=5)

    async def leftovers(self) -> dict[str, int]:
        """Count what dead workers have left in the database."""
        queries = {
            "running": "SELECT count(*) FROM penstock.running",
            "workers": "SELECT count(*) FROM penstock.workers",
            "open turns": "SELECT count(*) FROM penstock.turns WHERE ended_at IS NULL",
            "unended": "SELECT count(*) FROM penstock.responses WHERE ended_at IS NULL",
            "held keys": "SELECT count(*) FROM penstock.held_keys JOIN penstock.workers ON id = worker",
            KEYS_OF_THE_DEAD: "SELECT count(*) FROM penstock.held_keys "
            "WHERE worker <> '' AND NOT EXISTS (SELECT FROM penstock.workers WHERE id = worker)",
        }
        found = {name: int((await self.rows(query))[0][0]) for name, query in queries.items()}
        found["workers"] -= len(self.workers)
        return {name: number for name, number in found.items() if number}

    async def abandoned(self, name: str) -> int:
        """Count the responses to a turn that were cancelled because their client had disconnected. Then its
        key is free again, and the turn may run once more."""
        query = f"""
        SELECT count(DISTINCT number) FROM penstock.responses JOIN penstock.items ON items.response = number
        WHERE status = 'cancelled' AND position('"client_gone"'::bytea in verdict) > 0
        AND position('turn {name}:'::bytea in items.data) > 0
        """
        return int((await self.rows(query))[0][0])

    async def settled(self) -> dict[str, int]:
        """Wait until nothing is left of dead workers but their keys, for a few leases at most; return what is
        left."""
        deadline = time.monotonic() + 4 * LEASE + 5
        while (left := await self.leftovers()).keys() - {KEYS_OF_THE_DEAD} and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        return left

    def faults(self) -> list[str]:
        """Return what the logs call an error, but is none of the failures that tests cause."""
        found = []
        for worker in self.logs:
            for line in worker.log.splitlines():
                if "Traceback" in line or not line.startswith("{"):
                    found.append(line)
                    continue
                try:
                    fields = json.loads(line)
                except ValueError:  # the process was killed in the middle of it
                    continue
                is_expected = fields.get("event") == "store" and fields.get("code") in _EXPECTED_CODES
                if (fields.get("level") == "error" or "exception" in fields) and not is_expected:
                    found.append(line)
        return found


async def _port_of(worker: Worker) -> int:
    ready, deadline = worker.folder / "ready", time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if ready.exists() and (url := ready.read_text().strip()):
            return int(urlsplit(url).port or 0)
        assert worker.is_alive, worker.log
        await asyncio.sleep(0.05)
    raise AssertionError(f"the worker is not ready: {worker.log}")


@asynccontextmanager
async def site_of(
    folder: Path,
    cluster: PostgresCluster,
    *,
    workers: int = 3,
    with_redis: bool = False,
    drain: float = 5.0,
    pool_size: int = 8,
    config: str = "",
) -> AsyncIterator[Site]:
    """Start a site with a database of its own. `config` is added to the configuration of its workers."""
    database = f"chaos_{next(_numbers)}"
    connection = await connected(cluster.url())
    await connection.execute(f"CREATE DATABASE {database}")
    await connection.close(timeout=5)
    async with AsyncExitStack() as stack:
        redis = RedisServer() if with_redis else None
        if redis is not None:
            redis.start()
            stack.callback(redis.stop)
        upstream = await stack.enter_async_context(CountingUpstream())
        site = Site(
            folder, cluster, database, upstream, redis, drain=drain, pool_size=pool_size, config=config
        )
        await stack.enter_async_context(site.balancer)
        stack.callback(site.end)
        await asyncio.gather(*(site.start_worker() for _ in range(workers)))
        yield site
