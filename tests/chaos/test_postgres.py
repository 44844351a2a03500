"""The database is restarted, crashes, and has too few connections."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.chaos.clients import Call, Load, clients_of
from tests.chaos.invariants import check
from tests.chaos.site import CLIENTS, IS_LONG, site_of
from tests.store.postgres.cluster import PostgresCluster

pytestmark = pytest.mark.chaos

TIMES = 10 if IS_LONG else 2
AT_ONCE = 200 if IS_LONG else 100


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restart", "crash"])
def test_the_database_goes_away(tmp_path: Path, cluster: PostgresCluster, how: signal.Signals) -> None:
    async def run() -> None:
        async with site_of(tmp_path, cluster) as site, clients_of(site) as clients:
            async with Load(clients).running(CLIENTS):
                for _ in range(TIMES):
                    await asyncio.sleep(1)
                    await site.stop_database(how)
                    await asyncio.sleep(1)
                    await site.start_database()
                    await asyncio.sleep(1)
            counts = await check(f"PostgreSQL stopped by {how.name} {TIMES} times", site, clients)
            assert counts["ended as completed"]

    asyncio.run(run())


def test_four_connections_serve_many_turns(tmp_path: Path, cluster: PostgresCluster) -> None:
    async def run() -> None:
        async with (
            site_of(tmp_path, cluster, workers=1, pool_size=4) as site,
            clients_of(site) as clients,
        ):
            kinds = ("stream", "background", "stream with key", "cancel", "background stream")
            calls = [Call(f"t{number}", kinds[number % 5], 40, 0.1) for number in range(AT_ONCE)]
            await asyncio.gather(*(clients.run(call) for call in calls))
            counts = await check(f"4 connections, {AT_ONCE} turns at once", site, clients)
            assert counts["turns"] == AT_ONCE

    asyncio.run(run())
