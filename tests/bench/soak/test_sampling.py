"""What is sampled of a process."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from bench.soak.sampling import connections_to, descriptors, memory

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")


def test_memory_is_the_sum_of_the_processes() -> None:
    one, two = memory([os.getpid()]), memory([os.getpid()] * 2)
    assert one["rss_mib"] >= one["pss_mib"] >= one["uss_mib"] > 1
    assert two["rss_mib"] == pytest.approx(2 * one["rss_mib"], rel=0.05)


def test_files_connections_and_threads_are_counted() -> None:
    before = descriptors([os.getpid()])
    with socket.socket(), Path(__file__).open():
        after = descriptors([os.getpid()])
    assert {name: after[name] - before[name] for name in after} == {"files": 2, "sockets": 1, "threads": 0}


def test_connections_to_a_port_are_counted_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert connections_to(port) == 0
        with socket.create_connection(("127.0.0.1", port)), listener.accept()[0]:
            assert connections_to(port) == 1
