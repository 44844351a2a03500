"""One gateway and one scripted upstream for all tests of a worker that need nothing special of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.server import in_a_thread
from tests.gateway.configs import SHARED_CONFIG
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
