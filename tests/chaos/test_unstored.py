"""Turns with `store: false` need no database: only the death of their own worker ends them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.chaos.balancer import Relay
from tests.chaos.clients import UNSTORED, Clients, Load, clients_of, is_complete
from tests.chaos.invariants import check
from tests.chaos.site import CLIENTS, IS_LONG, KEY, LEASE, Site, site_of
from tests.store.postgres.cluster import PostgresCluster

pytestmark = pytest.mark.chaos

TIMES = 5 if IS_LONG else 1
NOTICED = LEASE * 1.2
"""Seconds after which each worker knows that the database is away."""
AWAY = 8.0 if IS_LONG else 2.0
"""Seconds after that."""
KILLS = 20 if IS_LONG else 3

Outage = Callable[[Site, Relay], Awaitable[None]]


async def stop(site: Site, _: Relay) -> None:
    await site.stop_database(signal.SIGINT)


async def crash(site: Site, _: Relay) -> None:
    await site.stop_database(signal.SIGQUIT)


async def cut(_: Site, network: Relay) -> None:
    """Let queries disappear without an error."""
    network.cut()


@asynccontextmanager
async def outage(site: Site, network: Relay, begin: Outage) -> AsyncIterator[None]:
    await begin(site, network)
    try:
        yield
    finally:
        if begin is cut:
            network.join()
        else:
            await site.start_database()


@pytest.mark.parametrize("begin", [stop, crash, cut])
def test_the_database_is_away(tmp_path: Path, cluster: PostgresCluster, begin: Outage) -> None:
    async def run() -> None:
        async with (
            Relay(cluster.port) as network,
            site_of(tmp_path, cluster, workers=0) as site,
            clients_of(site) as stored,
            clients_of(site) as unstored,
        ):
            await asyncio.gather(*(site.start_worker(postgres_port=network.port) for _ in range(3)))
            many = CLIENTS // 2
            load = Load(unstored, name="u", kinds=UNSTORED)
            async with Load(stored).running(many), load.running(many):
                for _ in range(TIMES):
                    await asyncio.sleep(1)
                    async with outage(site, network, begin):
                        before = ended(unstored)
                        await asyncio.sleep(NOTICED)
                        await ask_each_worker(site)
                        await asyncio.sleep(AWAY)
                        # A turn takes a second.
                        assert ended(unstored) - before >= many * (NOTICED + AWAY) / 2
                    await asyncio.sleep(1)
            await check(f"PostgreSQL away ({begin.__name__}): stored", site, stored)
            counts = await check(f"PostgreSQL away ({begin.__name__}): not stored", site, unstored)
            assert counts["ended as completed"] == counts["turns"] == ended(unstored)
            assert [what for what in counts if "answers with" in what or "broken" in what] == []

    asyncio.run(run())


def ended(clients: Clients) -> int:
    return sum(map(is_complete, clients.calls))


async def ask_each_worker(site: Site) -> None:
    """Check the statuses while the database is away."""
    right, wrong = ({"authorization": f"Bearer {key}"} for key in (KEY, "sk-wrong"))
    turn = {"model": "m", "input": "turn {}: say 1 words, 0 seconds each"}
    async with aiohttp.ClientSession() as session:
        for worker in site.workers:
            url = f"http://127.0.0.1:{worker.port}/v1/responses"
            name = f"asked-{worker.port}-{site.random.random()}"
            body = {"model": "m", "input": turn["input"].format(name), "store": False}
            async with session.post(url, json=body, headers=right) as answer:
                assert answer.status == 200, await answer.text()
            async with session.post(url, json=body, headers=wrong) as answer:
                assert answer.status == 401
            async with session.post(url, json={**body, "store": True}, headers=right) as answer:
                assert answer.status == 503, await answer.text()
                assert int(answer.headers["retry-after"]) > 0
                assert (await answer.json())["error"]["code"] == "store_unavailable"
            assert site.upstream.calls[name] == 1


def test_workers_die(tmp_path: Path, cluster: PostgresCluster) -> None:
    async def run() -> None:
        async with site_of(tmp_path, cluster) as site, clients_of(site) as clients:
            most = 0
            async with Load(clients, kinds=UNSTORED).running(CLIENTS):
                for _ in range(KILLS):
                    await asyncio.sleep(1)
                    worker = site.random.choice(site.workers)
                    port = worker.port
                    # Those that are open now, and those that are opened until it is dead.
                    most += site.balancer.open[port] - site.balancer.opened[port]
                    await site.kill(worker)
                    most += site.balancer.opened[port]
            counts = await check(f"{KILLS} workers killed: not stored", site, clients, workers_died=True)
            assert 0 < counts["lost to their clients"] <= most
            assert counts["ended as completed"] + counts["lost to their clients"] == counts["turns"]

    asyncio.run(run())
