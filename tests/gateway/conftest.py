"""One gateway and one scripted upstream, shared by the tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.server import in_a_thread
from tests.gateway.configs import SHARED_CONFIG
from tests.gateway.in_process import LocalGateway
from tests.gateway.log_records import log_records
from tests.gateway.running import SECRET_KEY, Running, gateway
from tests.gateway.upstream import ScriptedUpstream


@pytest.fixture(scope="session")
def upstream() -> Iterator[ScriptedUpstream]:
    scripted = ScriptedUpstream()
    with in_a_thread(scripted):
        yield scripted


@pytest.fixture(scope="session")
def penstock(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    with gateway(
        folder, config=SHARED_CONFIG.format(url=upstream.url), environment={"UPSTREAM_KEY": SECRET_KEY}
    ) as running:
        yield running


@pytest.fixture(scope="session")
def local() -> Iterator[LocalGateway]:
    """A gateway in this process, for tests that need neither a process nor a network."""
    gateway = LocalGateway()
    yield gateway
    gateway.close()


@pytest.fixture
def verdicts() -> Iterator[list[dict[str, Any]]]:
    """The verdicts of the turns that end in this process."""
    with log_records("turn") as found:
        yield found.fields
