"""Redis is frozen and flushed while clients follow turns at other workers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.chaos.clients import Load, clients_of
from tests.chaos.invariants import check
from tests.chaos.site import CLIENTS, IS_LONG, site_of
from tests.store.postgres.cluster import PostgresCluster

pytestmark = pytest.mark.chaos

FROZEN = 20.0 if IS_LONG else 3.0
FLUSHES = 50 if IS_LONG else 10


def test_redis_is_frozen(tmp_path: Path, cluster: PostgresCluster) -> None:
    async def run() -> None:
        async with site_of(tmp_path, cluster, with_redis=True) as site, clients_of(site) as clients:
            assert site.redis is not None
            async with Load(clients).running(CLIENTS):
                await asyncio.sleep(1)
                site.redis.freeze()
                await asyncio.sleep(FROZEN)
                site.redis.thaw()
                await asyncio.sleep(1)
            counts = await check(f"Redis frozen for {FROZEN:g} s", site, clients)
            assert_nothing_failed(counts)

    asyncio.run(run())


def test_redis_is_flushed(tmp_path: Path, cluster: PostgresCluster) -> None:
    async def run() -> None:
        async with site_of(tmp_path, cluster, with_redis=True) as site, clients_of(site) as clients:
            assert site.redis is not None
            redis = Redis.from_url(site.redis.url)
            async with Load(clients).running(CLIENTS):
                for _ in range(FLUSHES):
                    await asyncio.sleep(0.3)
                    await redis.flushall()
            await redis.aclose()
            counts = await check(f"Redis flushed {FLUSHES} times", site, clients)
            assert_nothing_failed(counts)

    asyncio.run(run())


def assert_nothing_failed(counts: dict[str, int]) -> None:
    assert [what for what in counts if "failed" in what or "broken" in what or "answers with" in what] == []
    assert not counts["with store_late"]
