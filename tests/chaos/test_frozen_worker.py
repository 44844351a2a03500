"""A worker is frozen for longer than a lease, and wakes up when its turns belong to others."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.clients import Call, Load, clients_of
from tests.chaos.invariants import check
from tests.chaos.site import CLIENTS, IS_LONG, LEASE, Site, site_of
from tests.store.postgres.cluster import PostgresCluster

pytestmark = pytest.mark.chaos

Record = tuple[Any, ...]
TIMES = 5 if IS_LONG else 1
FROZEN = LEASE * 1.6
SILENCE = 3.0
"""Seconds without a byte after which clients give up: a frozen worker accepts connections, and is silent."""
PER_WORKER = 2
"""Clients that wait for their worker, however long it takes."""
_RECORDS = """
SELECT id, status, response, ended_at, (
    SELECT max(last) FROM penstock.segments WHERE segments.response = responses.number AND NOT is_trace
) FROM penstock.responses WHERE id IN ({ids}) AND ended_at IS NOT NULL ORDER BY id
"""


@pytest.mark.parametrize("with_redis", [False, True], ids=["postgres", "redis"])
def test_a_worker_is_frozen_under_load(tmp_path: Path, cluster: PostgresCluster, with_redis: bool) -> None:
    async def run() -> None:
        async with (
            site_of(tmp_path, cluster, with_redis=with_redis) as site,
            clients_of(site, silence=SILENCE) as clients,
            clients_of(site) as patient,
        ):
            records = []
            for number in range(TIMES):
                waiting = long_turns(site, number)
                tasks = [asyncio.create_task(patient.run(call)) for call in waiting]
                await begun(waiting)
                async with Load(clients, name=f"l{number}-").running(CLIENTS):
                    records += await freeze(site, waiting)
                await asyncio.gather(*tasks)
            counts = await check(f"a worker frozen {TIMES} times", site, clients, workers_died=True)
            assert counts["ended as completed"]
            assert counts["resumes"]
            assert counts["broken connections"]
            counts = await check("its patient clients", site, patient, workers_died=True)
            # Each gets its end on the connection on which its turn began.
            assert counts["ended as failed (worker_lost)"] == PER_WORKER * TIMES
            assert counts["ended as completed"] == PER_WORKER * 2 * TIMES
            assert not counts["broken connections"]
            assert not counts["resumes"]
            # The worker that woke up has written nothing to the turns that it has lost.
            assert await records_of(site, [id for id, *_ in records]) == sorted(records)

    asyncio.run(run())


def long_turns(site: Site, number: int) -> list[Call]:
    """Return turns that still run when the worker wakes up, as many for each worker."""
    many = PER_WORKER * len(site.workers)
    return [Call(f"patient{number}-{each}", "stream", 80, 0.1) for each in range(many)]


async def begun(calls: list[Call]) -> None:
    async with asyncio.timeout(10):
        while not all(call.id for call in calls):
            await asyncio.sleep(0.01)


async def freeze(site: Site, waiting: list[Call]) -> list[Record]:
    """Freeze a worker for longer than a lease. Return the records of its turns as others have ended them."""
    await asyncio.sleep(0.5)
    worker = site.random.choice(site.workers)
    worker.signal(signal.SIGSTOP)
    await asyncio.sleep(FROZEN)
    async with asyncio.timeout(LEASE):
        while len(records := await records_of(site, [call.id for call in waiting])) < PER_WORKER:
            await asyncio.sleep(0.1)
    worker.signal(signal.SIGCONT)
    await asyncio.sleep(0.5)
    return records


async def records_of(site: Site, ids: list[str]) -> list[Record]:
    return await site.rows(_RECORDS.format(ids=", ".join(f"'{id}'" for id in ids)))
