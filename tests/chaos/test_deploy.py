"""All workers are replaced under load, one after the other; and one of them has a wrong clock."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.chaos.clients import Load, clients_of
from tests.chaos.invariants import check
from tests.chaos.site import CLIENTS, IS_LONG, site_of
from tests.store.postgres.cluster import PostgresCluster

pytestmark = pytest.mark.chaos

DEPLOYS = 5 if IS_LONG else 1


@pytest.mark.parametrize("drain", [5.0, 0.2], ids=["patient", "hasty"])
def test_a_rolling_deploy(tmp_path: Path, cluster: PostgresCluster, drain: float) -> None:
    """With enough time to drain nothing fails. With less, turns end as `shutting_down`."""

    async def run() -> None:
        async with site_of(tmp_path, cluster, drain=drain) as site, clients_of(site) as clients:
            async with Load(clients).running(CLIENTS):
                for _ in range(DEPLOYS):
                    for worker in [*site.workers]:
                        await site.start_worker()
                        assert await site.stop_worker(worker) == 0
            counts = await check(f"{DEPLOYS} deploys of 3 workers, drain {drain:g} s", site, clients)
            assert counts["ended as completed"]
            if drain > 1:
                assert [what for what in counts if "failed" in what] == []

    asyncio.run(run())


@pytest.mark.parametrize("ahead", [3600.0, -3600.0] if IS_LONG else [3600.0])
def test_the_clock_of_a_worker_is_wrong(tmp_path: Path, cluster: PostgresCluster, ahead: float) -> None:
    async def run() -> None:
        async with site_of(tmp_path, cluster, workers=2) as site, clients_of(site) as clients:
            await site.start_worker(clock=ahead)
            async with Load(clients).running(CLIENTS):
                await asyncio.sleep(6 if IS_LONG else 2)
            counts = await check(f"a clock wrong by {ahead:+g} s", site, clients)
            assert [what for what in counts if "failed" in what or "broken" in what] == []
            query = "SELECT max(abs(created_at - extract(epoch FROM now()))) FROM penstock.responses"
            [(most,)] = await site.rows(query)
            assert most < 120

    asyncio.run(run())
