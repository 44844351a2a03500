"""A gateway with a scripted upstream, and a host that uses it; shared by tests that need nothing special."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.conftest import penstock, upstream
from tests.gateway.running import SECRET_KEY, Running
from tests.provider.host.host_process import HostProcess, host_process

__all__ = ["host", "penstock", "upstream"]


@pytest.fixture(scope="session")
def host(penstock: Running) -> Iterator[HostProcess]:
    """Return a host whose group `work` uses the gateway."""
    with host_process() as running:
        running.configure("work", penstock.url, key=SECRET_KEY)
        yield running
