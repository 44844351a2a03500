"""What the process uses, in the metrics."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from penstock.gateway.gateway import Gateway
from penstock.gateway.settings import Settings
from penstock.gateway.telemetry.metrics import DECLARED, PROCESS, PROCESS_GAUGES, SUMMED, process_gauges
from penstock.store.memory import MemoryStore
from tests.gateway.telemetry.prometheus import parse

needs_proc = pytest.mark.skipif(not PROCESS.exists(), reason="this system has no /proc")
PAGE = os.sysconf("SC_PAGE_SIZE")


@needs_proc
def test_open_files_are_counted_without_that_of_the_list_itself(tmp_path: Path) -> None:
    count = process_gauges()["process_open_fds"]
    before = count()
    assert isinstance(before, int)
    with (tmp_path / "a").open("w"), (tmp_path / "b").open("w"):
        assert count() == before + 2
    assert count() == before


def test_the_resident_memory_is_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "statm").write_text("9000 123 45 1 0 800 0\n")
    assert process_gauges(tmp_path)["process_resident_memory_bytes"]() == 123 * PAGE


def test_a_system_without_proc_has_none_of_them(tmp_path: Path) -> None:
    assert process_gauges(tmp_path) == {}


def test_they_are_declared_and_summed_over_workers(tmp_path: Path) -> None:
    (tmp_path / "statm").write_text("1 1")
    assert process_gauges(tmp_path).keys() == PROCESS_GAUGES
    assert DECLARED.keys() & SUMMED >= PROCESS_GAUGES


@needs_proc
def test_the_metrics_of_a_gateway_have_them() -> None:
    async def render() -> bytes:
        gateway = Gateway(Settings(), store=MemoryStore())
        try:
            return gateway.metrics.render()
        finally:
            await gateway.aclose()

    samples = parse(asyncio.run(render()))
    assert samples[("process_resident_memory_bytes", ())] > 10_000_000
    assert samples[("process_open_fds", ())] >= 3
