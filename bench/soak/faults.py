"""What fails during the soak, at random: upstreams, clients, the store, and the clock."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from resource import RLIMIT_FSIZE, prlimit
from time import monotonic

from tests.store.postgres.cluster import connected

from bench.soak.clients import Clients
from bench.soak.sites import ROTATED, PostgresSite, Site, SoakError, SqliteSite

_APPLIED_SECONDS = 20.0
"""Seconds in which a gateway must have applied a change of its file."""


class Faults:
    """Breaks parts of a site, one after the other."""

    def __init__(self, site: Site, clients: Clients, seed: str) -> None:
        self._site, self._clients = site, clients
        self._random = random.Random(seed)
        self.counts: Counter[str] = Counter()

    @asynccontextmanager
    async def running(self, every: float) -> AsyncIterator[None]:
        """Break something every so many seconds on average."""
        stopped = asyncio.Event()
        task = asyncio.create_task(self._run(every, stopped))
        try:
            yield
        finally:
            stopped.set()
            await task

    async def _run(self, every: float, stopped: asyncio.Event) -> None:
        known = {**EVERYWHERE, **(ON_SQLITE if isinstance(self._site, SqliteSite) else ON_POSTGRES)}
        left: list[str] = []
        while not stopped.is_set():
            try:
                async with asyncio.timeout(self._random.expovariate(1 / every)):
                    await stopped.wait()
                return
            except TimeoutError:
                pass
            if not left:  # each kind once, in a random order, before any comes again
                left = self._random.sample(sorted(known), len(known))
            name = left.pop()
            parts, fault = known[name]
            for part in parts:
                self._site.begin_trouble(part)
            try:
                await fault(self)
                self.counts[name] += 1
            except (OSError, SoakError, AssertionError) as error:
                self._clients.report(f"{name}: {error!r}")
            finally:
                for part in parts:
                    self._site.end_trouble(part)

    async def _pause(self, least: float, most: float) -> None:
        await asyncio.sleep(self._random.uniform(least, most))

    # Upstreams

    async def kill_upstream(self) -> None:
        self._site.kill_upstream()
        await self._pause(0.1, 3)
        self._site.start_upstream()
        await self._site.upstream_answers()

    async def freeze_upstream(self) -> None:
        """It accepts connections, and says nothing."""
        self._site.signal_upstream(signal.SIGSTOP)
        await self._pause(0.5, 4)
        self._site.signal_upstream(signal.SIGCONT)

    async def reset_upstream(self) -> None:
        self._site.signal_upstream(signal.SIGUSR1)

    # Clients, configuration, clock

    async def vanish(self) -> None:
        self._clients.vanish()

    async def reload(self) -> None:
        """Change nothing in the file, and have it read again."""
        self._site.config.touch()
        self._site.signal(signal.SIGHUP)

    async def rotate_key(self) -> None:
        """The new key must work soon. The old one has no grace."""
        site = self._site
        printed = await site.command("keys", "rotate", ROTATED, "--config", str(site.config))
        old, site.rotated_key = site.rotated_key, printed.split()[-1]
        began = monotonic()
        while await self._status_of(site.rotated_key) != 200:
            if monotonic() > began + _APPLIED_SECONDS:
                raise SoakError("a rotated key is not accepted")
            await asyncio.sleep(0.1)
        if site.workers == 1 and await self._status_of(old) != 401:
            raise SoakError("the key before the rotation is still accepted")

    async def _status_of(self, key: str) -> int:
        async with self._clients.request("GET", "/v1/models", key=key) as answer:
            await answer.read()
            return answer.status

    async def turn_clock(self) -> None:
        """Set the clock of the gateway ahead or back for a few seconds."""
        await self._set_clock(self._random.choice((-90.0, 45.0, 3600.0)))
        await self._pause(1, 4)
        await self._set_clock(0.0)

    async def _set_clock(self, ahead: float) -> None:
        (self._site.folder / "census" / "clock").write_text(str(ahead))
        self._site.signal_all(signal.SIGRTMIN + 1)

    async def prune(self) -> None:
        """What an operator may run at any time."""
        size = f"{self._site.store_mib // 2}MB"
        await self._site.command("store", "prune", "--store", self._site.store, "--max-size", size)

    # The store in a file

    async def lock_file(self) -> None:
        """Another program holds the file for a moment."""
        assert isinstance(self._site, SqliteSite)
        seconds = self._random.uniform(0.2, 2)
        file = self._site.file

        def lock() -> sqlite3.Connection:
            stranger = sqlite3.connect(file, isolation_level=None, timeout=10, check_same_thread=False)
            stranger.execute("BEGIN IMMEDIATE")
            return stranger

        stranger = await asyncio.to_thread(lock)
        await asyncio.sleep(seconds)
        stranger.close()

    async def fill_disk(self) -> None:
        """No file of the gateway may grow."""
        assert isinstance(self._site, SqliteSite)
        size = self._site.file.with_name(self._site.file.name + "-wal").stat().st_size
        pid = self._site.pids[0]
        _, hard = prlimit(pid, RLIMIT_FSIZE)
        prlimit(pid, RLIMIT_FSIZE, (size, hard))
        await self._pause(0.5, 2)
        prlimit(pid, RLIMIT_FSIZE, (hard, hard))

    # The store in a database

    async def end_sessions(self) -> None:
        """Terminate all connections to the database, as an administrator may."""
        assert isinstance(self._site, PostgresSite)
        connection = await connected(self._site.cluster.url())
        try:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
        finally:
            await connection.close(timeout=5)

    async def restart_database(self) -> None:
        assert isinstance(self._site, PostgresSite)
        await self._site.run_lasting(self._site.cluster.restart)

    async def freeze_redis(self) -> None:
        assert isinstance(self._site, PostgresSite)
        self._site.redis.freeze()
        await self._pause(0.5, 4)
        self._site.redis.thaw()

    async def restart_redis(self) -> None:
        assert isinstance(self._site, PostgresSite)
        self._site.redis.stop()
        await self._pause(0.1, 2)
        self._site.redis.start()


Fault = tuple[tuple[str, ...], Callable[[Faults], Awaitable[None]]]
EVERYWHERE: dict[str, Fault] = {
    "upstream killed and started": (("upstream",), Faults.kill_upstream),
    "upstream frozen": (("upstream",), Faults.freeze_upstream),
    "connections of the upstream reset": (("upstream",), Faults.reset_upstream),
    "all clients vanished": (("clients",), Faults.vanish),
    "configuration read again": ((), Faults.reload),
    "key rotated": ((), Faults.rotate_key),
    "clock turned": ((), Faults.turn_clock),
    "store pruned": ((), Faults.prune),
}
"""By name: the parts of the site that fail, and how."""
ON_SQLITE: dict[str, Fault] = {
    "file locked": (("store",), Faults.lock_file),
    "disk full": (("store",), Faults.fill_disk),
}
ON_POSTGRES: dict[str, Fault] = {
    "sessions of PostgreSQL ended": (("store",), Faults.end_sessions),
    "PostgreSQL restarted": (("store",), Faults.restart_database),
    "Redis frozen": (("store",), Faults.freeze_redis),
    "Redis restarted": (("store",), Faults.restart_redis),
}
