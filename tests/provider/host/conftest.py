"""A gateway, a scripted upstream behind it, and a host in front: shared where nothing special is needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.conftest import penstock, upstream
from tests.gateway.running import SECRET_KEY, Running
from tests.provider.host.hosts import HostProcess, host_process

__all__ = ["host", "penstock", "upstream"]


@pytest.fixture(scope="session")
def host(penstock: Running) -> Iterator[HostProcess]:
    """Its group `work` is the gateway."""
    with host_process() as running:
        running.configure("work", penstock.url, key=SECRET_KEY)
        yield running
