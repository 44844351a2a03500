"""What the soak puts under load: a gateway on SQLite, and two workers on PostgreSQL with Redis. Each has an
upstream of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from tests.store.postgres.cluster import PostgresCluster, connected
from tests.store.redis_server import RedisServer

from bench.soak.answers import Json

KEY, RATE_KEY, NARROW_KEY, BUDGET_KEY, MINUTE_KEY, ROTATED_KEY = (
    f"sk-soak-{name}-7fQ2x9LmZt4w" for name in ("main", "rate", "narrow", "budget", "minute", "rotated")
)
ROTATED = "rotated"
_INSIDE = Path(__file__).parent / "inside"
_START_SECONDS = 60.0
_SETTLE = 10.0
"""Seconds after a fault in which its effects are still seen."""
_LASTING = ThreadPoolExecutor(1)
"""A server of PostgreSQL ends with the thread that has started it."""
_KEYS = {
    "main": (KEY, "admin = true"),
    "rate": (RATE_KEY, "requests_per_minute = 20"),
    "narrow": (NARROW_KEY, "concurrent_turns = 2"),
    "budget": (BUDGET_KEY, 'budget = "30000 tokens/day"'),
    "minute": (MINUTE_KEY, "tokens_per_minute = 12000"),
    ROTATED: (ROTATED_KEY, ""),
}
_TARGETS = {
    "chat": "chat",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "responses": "responses",
    "refusing": "chat",
}
_HEAD = """
[server]
workers = {workers}
log_level = "info"
metrics = "127.0.0.1:{metrics}"
[limits]
body_bytes = "512KiB"
answer_bytes = "2MiB"
patience = 2
comment_every = 1
event_every = 3
retries = 1
retry_wait = 2
client_timeout = 10
disconnect_grace = {grace}
store_days = 1
ledger_days = 1
store_bytes = "{store_mib}MiB"
drain = 10
[models.chain]
targets = ["chat/chain", "anthropic/chain"]
limits = "price:1/2"
"""
_TARGET = """
[targets.{name}]
base_url = "{url}/v1"
dialect = "{dialect}"
keys = ["SOAK_UPSTREAM_KEY"]
first_byte_timeout = 4
idle_timeout = 4
[models.{name}]
target = "{name}"
"""
_CLIENT = """
[[keys]]
name = "{name}"
hash = "sha256:{hash}"
{fields}
"""


class SoakError(Exception):
    """The soak could not run."""


class LedgerRow(Struct, frozen=True):
    id: str
    outcome: str
    attempts: int


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Site:
    """A gateway under load. `base` is where clients find it, `pids` its processes."""

    name = ""
    workers = 1
    grace = 0
    store_mib = 24

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.config, self.log = folder / "penstock.toml", folder / "log"
        self.calls_file = folder / "calls"
        self.upstream_port, self.metrics_port = free_port(), free_port()
        self.port = 0
        self.rotated_key = ROTATED_KEY
        self._gateway: subprocess.Popen[bytes] | None = None
        self._upstream: subprocess.Popen[bytes] | None = None
        self._writer: subprocess.Popen[bytes] | None = None
        self._troubles: dict[str, float] = {}
        """When the last failure of each part was over."""
        self._open_troubles: Counter[str] = Counter()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def store(self) -> str:
        """What `--store` names."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {**os.environ, "SOAK_UPSTREAM_KEY": "planted-upstream-key"}

    # What fails

    def begin_trouble(self, part: str) -> None:
        self._open_troubles[part] += 1

    def end_trouble(self, part: str) -> None:
        self._open_troubles[part] -= 1
        self._troubles[part] = monotonic()

    def troubles(self, since: float) -> frozenset[str]:
        """Return the parts that have failed since then, or whose failure may still be felt."""
        ended = {part for part, when in self._troubles.items() if when + _SETTLE > since}
        return frozenset(ended | {part for part, number in self._open_troubles.items() if number})

    # Processes

    async def start(self) -> None:
        await self.start_store()
        self.start_upstream()
        text = _HEAD.format(
            workers=self.workers, metrics=self.metrics_port, grace=self.grace, store_mib=self.store_mib
        )
        url = f"http://127.0.0.1:{self.upstream_port}"
        text += "".join(_TARGET.format(name=name, url=url, dialect=each) for name, each in _TARGETS.items())
        for name, (key, fields) in _KEYS.items():
            text += _CLIENT.format(name=name, hash=sha256(key.encode()).hexdigest(), fields=fields)
        self.config.write_text(text)
        ready, census = self.folder / "ready", self.folder / "census"
        census.mkdir()
        command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--config", str(self.config)]
        command += ["--ready-file", str(ready), "--store", self.store]
        path = os.pathsep.join([str(_INSIDE), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**self.environment(), "PYTHONPATH": path, "PENSTOCK_SOAK": str(census)}
        with self.log.open("wb") as log:  # through `cat`: the fault "disk full" must not reach the log
            self._writer = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log, process_group=0)
        self._gateway = subprocess.Popen(
            ["setpriv", "--pdeathsig=TERM", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._writer.stdin,
            cwd=self.folder,
            env=environment,
        )
        assert self._writer.stdin is not None
        self._writer.stdin.close()
        deadline = monotonic() + _START_SECONDS
        while not (ready.exists() and (where := ready.read_text().strip())):
            if self._gateway.poll() is not None or monotonic() > deadline:
                raise SoakError(f"the gateway did not start: {self.log.read_text()[-3000:]}")
            await asyncio.sleep(0.05)
        self.port = urlsplit(where).port or 0

    @property
    def is_running(self) -> bool:
        return self._gateway is not None and self._gateway.poll() is None

    @property
    def pids(self) -> list[int]:
        """The gateway's processes: the first one, and its workers."""
        assert self._gateway is not None
        first = self._gateway.pid
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [first, *map(int, children)]

    def signal(self, number: int) -> None:
        assert self._gateway is not None
        self._gateway.send_signal(number)

    def signal_all(self, number: int) -> None:
        for pid in self.pids:
            os.kill(pid, number)

    def start_upstream(self) -> None:
        command = [sys.executable, "-m", "bench.soak.upstream", str(self.upstream_port), str(self.calls_file)]
        self._upstream = subprocess.Popen(["setpriv", "--pdeathsig=KILL", *command])

    async def upstream_answers(self) -> None:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.upstream_port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return

    def signal_upstream(self, number: int) -> None:
        assert self._upstream is not None
        self._upstream.send_signal(number)

    def kill_upstream(self) -> None:
        assert self._upstream is not None
        self._upstream.kill()
        self._upstream.wait()

    async def command(self, *words: str) -> str:
        """Run one of our own commands; return what it prints."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "penstock", *words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(),
            cwd=self.folder,
        )
        out, error = await process.communicate()
        if process.returncode:
            raise SoakError(f"penstock {' '.join(words)}: {process.returncode} {error.decode()[-500:]}")
        return out.decode()

    async def stop(self) -> int:
        """Stop the gateway as an operator does; return its exit code."""
        assert self._gateway is not None
        self._gateway.terminate()
        code = await asyncio.to_thread(self._gateway.wait, 60)
        assert self._writer is not None
        await asyncio.to_thread(self._writer.wait, 60)  # it ends with the last process that logs
        return code

    def end(self) -> None:
        for process in (self._gateway, self._upstream, self._writer):
            if process is not None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()

    # The store

    async def start_store(self) -> None:
        pass

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    async def store_bytes(self) -> int:
        raise NotImplementedError

    async def connections(self) -> int:
        """Return the number of connections to the database."""
        raise NotImplementedError

    async def responses(self) -> int:
        return int((await self.rows("SELECT count(*) FROM responses"))[0][0])

    async def unended(self) -> int:
        [[responses]] = await self.rows("SELECT count(*) FROM responses WHERE ended_at IS NULL")
        [[turns]] = await self.rows("SELECT count(*) FROM turns WHERE ended_at IS NULL")
        return int(responses) + int(turns)

    async def ledger(self) -> list[LedgerRow]:
        return [LedgerRow(*row) for row in await self.rows("SELECT id, outcome, attempts FROM turns")]

    def calls(self) -> Counter[str]:
        """Return how often the upstream was asked for each turn."""
        return Counter(self.calls_file.read_text().split()) if self.calls_file.exists() else Counter()


class SqliteSite(Site):
    """One process, with its store in a file."""

    name = "sqlite"
    grace = 2

    @property
    def file(self) -> Path:
        return self.folder / "store.sqlite"

    @property
    def store(self) -> str:
        return str(self.file)

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        def read() -> list[tuple[Any, ...]]:
            with closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=30)) as connection:
                return connection.execute(query).fetchall()

        return await asyncio.to_thread(read)

    async def store_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.folder.glob("store.sqlite*"))

    async def connections(self) -> int:
        names = [Path(link).name for pid in self.pids for link in _links(pid)]
        return names.count(self.file.name)


class PostgresSite(Site):
    """Two workers that share a database, with Redis for messages between them."""

    name = "postgres"
    workers = 2

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cluster = PostgresCluster(settings=("fsync=off",))
        self.redis = RedisServer()

    @property
    def store(self) -> str:
        return self.cluster.url() + "?pool_size=4&lease=10"

    def environment(self) -> dict[str, str]:
        secret = "planted-secret-of-all-workers-0123456789abcdef"
        return {**super().environment(), "PENSTOCK_REDIS": self.redis.url, "PENSTOCK_SECRET": secret}

    async def start_store(self) -> None:
        await self.run_lasting(self.cluster.start)
        self.redis.start()

    async def run_lasting(self, call: Any, *arguments: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(_LASTING, call, *arguments)

    def end(self) -> None:
        super().end()
        self.redis.stop()
        _LASTING.submit(self.cluster.remove).result()

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        connection = await connected(self.cluster.url())
        try:
            await connection.execute("SET search_path TO penstock")
            return [tuple(row) for row in await connection.fetch(query)]
        finally:
            await connection.close(timeout=5)

    async def store_bytes(self) -> int:
        return int((await self.rows("SELECT pg_database_size(current_database())"))[0][0])

    async def connections(self) -> int:
        query = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        return int((await self.rows(query))[0][0]) - 1


def _links(pid: int) -> Sequence[str]:
    found = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(file))
        except OSError:  # closed meanwhile
            continue
    return found


def census(site: Site) -> Json:
    """Return the sum of what the processes of a gateway have counted last (`inside/sitecustomize.py`)."""
    total: Counter[str] = Counter()
    for pid in site.pids:
        file = site.folder / "census" / f"{pid}.json"
        if file.exists():
            total.update(json.loads(file.read_text()))
    return dict(total)


SITES = {each.name: each for each in (SqliteSite, PostgresSite)}
