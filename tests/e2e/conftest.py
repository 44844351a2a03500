from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.server import in_a_thread
from tests.e2e.gateway_setup import scripted
from tests.gateway.upstream import ScriptedUpstream


@pytest.fixture
def upstream() -> Iterator[ScriptedUpstream]:
    upstream = scripted()
    with in_a_thread(upstream):
        yield upstream
