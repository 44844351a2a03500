"""Memory after thousands of streams: it must not depend on how many there were (ask J2)."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from bench.soak.answers import FAULTS
from bench.soak.clients import Client, Clients
from bench.soak.sampling import gauges, memory
from bench.soak.sites import SqliteSite, census
from bench.soak.turns import RESTING, SeenTurn

pytestmark = pytest.mark.soak

FIRST, ALL = 500, 5_000
AT_ONCE = 16
SHARE = 0.05
SLOW = ("stall", "silence")
"""Failures that end with a timeout."""
QUICK = [how for how in FAULTS if how not in (*SLOW, *RESTING)]


def test_memory_stays_within_5_percent_over_5000_mixed_streams(tmp_path: Path) -> None:
    async def run() -> None:
        site = SqliteSite(tmp_path / "site")
        await site.start()
        try:
            async with aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, force_close=True)
            ) as session:
                clients = Clients(site, session, "streams")
                await site.upstream_answers()
                await clients.try_each_model()
                turns = kinds(ALL, random.Random(7))
                await run_turns(clients, turns, FIRST)
                first = await settled(site)
                few = Counter(census(site))
                await run_turns(clients, turns, ALL - FIRST)
                last = await settled(site)
                many = Counter(census(site))
        finally:
            site.end()
        shown = {name: f"{value:.1f} -> {last[name]:.1f}" for name, value in first.items()}
        [(grown, number)] = (many - few).most_common(1)
        print(f"\nafter {FIRST} streams, and after {ALL}: {shown}; {number} more {grown}")
        print(dict(sorted(clients.counts.items())))
        assert clients.problems == []
        assert clients.counts["turns"] >= ALL
        assert clients.counts["turns seen as cut"] > ALL / 40
        assert clients.counts["cancels with 200"] > ALL / 40
        assert clients.counts["turns seen as failed"] > ALL / 40
        assert last["rss_mib"] <= first["rss_mib"] * (1 + SHARE)
        assert last["tasks"] <= first["tasks"]
        # One stream in ten is cancelled, and one fails. Caches and weak references vary by half of that.
        assert number < (ALL - FIRST) / 12, f"there are {number} more {grown}"

    asyncio.run(run())


def kinds(many: int, chance: random.Random) -> Iterator[str]:
    """Of ten streams one is cancelled and one fails, in a random order."""
    while many > 0:
        ten = ["cancelled", "failed", *["text"] * 5, "reasoning", "call", "call"]
        chance.shuffle(ten)
        yield from ten[:many]
        many -= len(ten)


async def run_turns(clients: Clients, turns: Iterator[str], many: int) -> None:
    left = Counter(turns=many)

    async def one(number: int) -> None:
        client = Client(clients, random.Random(f"{many}/{number}"))
        while left["turns"]:
            left["turns"] -= 1
            await stream(client, next(turns))

    await asyncio.gather(*(one(number) for number in range(AT_ONCE)))


async def stream(client: Client, kind: str) -> None:
    """Run one turn. A client cancels by its id or by disconnecting."""
    how = client.random.choice(QUICK) if kind == "failed" else "text" if kind == "cancelled" else kind
    turn = SeenTurn(how, random=client.random, words=8, gap_ms=20 if kind == "cancelled" else 0)
    if kind != "cancelled":
        await client.run_turn(turn)
    elif client.random.random() < 0.5:
        await client.run_turn(turn, stop_after=client.random.randint(1, 8))
    else:
        await client.cancel_turn(turn, client.random.uniform(0.0, 0.03))
    client.clients.finish(turn)


async def settled(site: SqliteSite) -> dict[str, float]:
    """Return what the gateway uses when nothing runs any more, its garbage is collected, and what is free was
    returned to the system."""
    while (await gauges(site))["penstock_turns_running"]:
        await asyncio.sleep(0.05)
    counted = site.folder / "census" / f"{site.pids[0]}.json"
    counted.unlink(missing_ok=True)
    site.signal_all(signal.SIGRTMIN + 2)
    while not counted.exists():
        await asyncio.sleep(0.05)
    numbers = await gauges(site)
    return {
        **memory(site.pids),
        "tasks": numbers["penstock_tasks"],
        "objects": float(sum(census(site).values())),
    }
