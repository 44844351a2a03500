"""One worker is cut off from the database, for less and for more than a lease."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.chaos.balancer import Relay
from tests.chaos.clients import Load, clients_of
from tests.chaos.invariants import check
from tests.chaos.site import CLIENTS, IS_LONG, LEASE, site_of
from tests.store.postgres.cluster import PostgresCluster

pytestmark = pytest.mark.chaos

TIMES = 5 if IS_LONG else 1


@pytest.mark.parametrize("seconds", [LEASE / 3, LEASE * 2.4], ids=["short", "long"])
def test_a_worker_is_cut_off_from_the_database(
    tmp_path: Path, cluster: PostgresCluster, seconds: float
) -> None:
    async def run() -> None:
        async with (
            Relay(cluster.port) as network,
            site_of(tmp_path, cluster, workers=2) as site,
            clients_of(site) as clients,
        ):
            await site.start_worker(postgres_port=network.port)
            async with Load(clients).running(CLIENTS):
                for _ in range(TIMES):
                    await asyncio.sleep(1.5)
                    network.cut()
                    await asyncio.sleep(seconds)
                    network.join()
                    await asyncio.sleep(1.5)
            counts = await check(f"network cut for {seconds:.1f} s {TIMES} times", site, clients)
            assert counts["ended as completed"]

    asyncio.run(run())
