"""What the processes of a gateway use, sampled from outside, and what the gateway says about itself."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic

import aiohttp

from bench.soak.sites import Site, SoakError, census

_MIB = 1024 * 1024
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_ESTABLISHED = "01"
_CENSUS_SECONDS = 5.0
_METRICS_SECONDS = 10.0
_RETRY = 0.5
SLACK: Mapping[str, float] = {
    "rss_mib": 2.0,
    "pss_mib": 2.0,
    "uss_mib": 2.0,
    "files": 12.0,
    "sockets": 12.0,
    "threads": 2.0,
    "tasks": 12.0,
    "turns_running": 3.0,
    "upstream_connections": 12.0,
    "store_connections": 3.0,
    "store_mib": 4.0,
    "responses": 200.0,
    "objects": 2000.0,
}
"""What is sampled, and by how much it may always grow: the load itself varies by this much."""
NOT_JUDGED = ("turns_running", "pss_mib", "store_mib")
"""What depends on the load alone, what other processes change by sharing memory, and the size of the store:
the ledger keeps a row for each turn (`ledger_days`)."""
NEEDS_PRUNING = "responses"
"""Is flat only after the store has been pruned a few times."""


class Sampler:
    """Takes samples of a site: each a time, and a value for each name of `SLACK`."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.began = monotonic()
        self.samples: dict[str, list[tuple[float, float]]] = {name: [] for name in SLACK}
        self.types: list[tuple[float, dict[str, int]]] = []
        """The number of objects of each type."""
        self.missed: Counter[str] = Counter()
        """Samples that could not be taken, by the type of the error."""

    @asynccontextmanager
    async def running(self, every: float, census_every: float) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(self._repeat(every, self.take)),
            asyncio.create_task(self._repeat(census_every, self.count_objects)),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(self, every: float, what: object) -> None:
        assert callable(what)
        while True:
            try:
                await what()
            except Exception as error:  # the store may be away, or a worker too busy to answer
                self.missed[type(error).__name__] += 1
            await asyncio.sleep(every)

    async def take(self) -> dict[str, float]:
        """Take one sample; what cannot be read at the moment is left out."""
        at, site = monotonic() - self.began, self._site
        found = memory(site.pids) | descriptors(site.pids)
        found["upstream_connections"] = connections_to(site.upstream_port)
        for name, value in found.items():
            self.samples[name].append((at, value))
        numbers = await gauges(site)
        stored = {
            "tasks": numbers["penstock_tasks"],
            "turns_running": numbers["penstock_turns_running"],
            "store_mib": await site.store_bytes() / _MIB,
            "store_connections": float(await site.connections()),
            "responses": float(await site.responses()),
        }
        for name, value in stored.items():
            self.samples[name].append((at, value))
        return found | stored

    async def count_objects(self) -> None:
        site = self._site
        site.signal_all(signal.SIGRTMIN)
        await asyncio.sleep(_CENSUS_SECONDS)
        types = census(site)
        at = monotonic() - self.began
        self.types.append((at, types))
        self.samples["objects"].append((at, float(sum(types.values()))))


def memory(pids: list[int]) -> dict[str, float]:
    """Return the memory of processes in MiB: all of it, their share of it, and what only they use."""
    names = {"Rss": "rss_mib", "Pss": "pss_mib", "Private_Clean": "uss_mib", "Private_Dirty": "uss_mib"}
    found = dict.fromkeys(names.values(), 0.0)
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in names:
                found[names[name]] += int(rest.split()[0]) / 1024
    return found


def descriptors(pids: list[int]) -> dict[str, float]:
    found = {"files": 0.0, "sockets": 0.0, "threads": 0.0}
    for pid in pids:
        for file in Path(f"/proc/{pid}/fd").iterdir():
            found["files"] += 1
            with suppress(OSError):
                found["sockets"] += os.readlink(file).startswith("socket:")
        found["threads"] += sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    return found


def connections_to(port: int) -> float:
    """Return the number of open connections to a port of this machine."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    remote = f":{port:04X}"
    return float(
        sum(1 for line in lines if (words := line.split())[2].endswith(remote) and words[3] == _ESTABLISHED)
    )


async def metrics_of(site: Site) -> dict[str, dict[str, float]]:
    """Return all metrics: by name, then by labels. A worker of a busy machine answers 503 now and then
    (`metrics_unavailable`), so ask again for a while."""
    deadline = monotonic() + _METRICS_SECONDS
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_METRICS_SECONDS)) as session:
        while True:
            async with session.get(f"http://127.0.0.1:{site.metrics_port}/metrics") as answer:
                text = await answer.text()
            if answer.status == 200:
                break
            if monotonic() > deadline:
                raise SoakError(f"the metrics cannot be read: {answer.status} {text}")
            await asyncio.sleep(_RETRY)
    found: dict[str, dict[str, float]] = {}
    for name, labels, value in _SAMPLE.findall(text):
        found.setdefault(name, {})[labels] = float(value)
    return found


async def gauges(site: Site) -> dict[str, float]:
    """Return the metrics without labels."""
    return {name: values[""] for name, values in (await metrics_of(site)).items() if "" in values}
