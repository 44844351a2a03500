"""Workers are killed while clients stream, poll, cancel and resume."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.chaos.clients import Load, clients_of
from tests.chaos.invariants import check
from tests.chaos.site import CLIENTS, IS_LONG, site_of
from tests.store.postgres.cluster import PostgresCluster

pytestmark = pytest.mark.chaos

KILLS = 50 if IS_LONG else 5


@pytest.mark.parametrize("with_redis", [False, True], ids=["postgres", "redis"])
def test_workers_are_killed_under_load(tmp_path: Path, cluster: PostgresCluster, with_redis: bool) -> None:
    async def run() -> None:
        async with site_of(tmp_path, cluster, with_redis=with_redis) as site, clients_of(site) as clients:
            async with Load(clients).running(CLIENTS):
                for _ in range(KILLS):
                    await asyncio.sleep(0.5)
                    await site.kill(site.random.choice(site.workers))
            counts = await check(f"{KILLS} workers killed", site, clients, workers_died=True)
            assert counts["ended as completed"]
            assert counts["resumes"]

    asyncio.run(run())
