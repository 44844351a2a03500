"""The soak for a minute and a half: mixed load and faults on SQLite, and on PostgreSQL with Redis."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from bench.soak.run import run_all, schedule_of
from bench.soak.sites import SITES

from tests.store.postgres.cluster import binaries

pytestmark = pytest.mark.soak

MINUTES = 1.5


def test_nothing_grows_and_every_count_is_right(tmp_path: Path) -> None:
    names = [name for name in SITES if name != "postgres" or binaries() is not None]
    seed = str(random.randrange(10**6))
    print(f"\nseed {seed}: python -m bench.soak --minutes {MINUTES} --seed {seed}")
    results = asyncio.run(run_all(tmp_path, names, schedule_of(MINUTES, seed)))
    for result in results:
        print(f"{result.name}: {result.totals} {result.faults}")
        assert result.counts["turns seen as completed"] > 50
        assert len(result.faults) > 3
    assert {result.name: result.problems for result in results if result.problems} == {}
