"""Fixtures of the tests of deploy/."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.server import in_a_thread
from tests.gateway.upstream import ScriptedUpstream


@pytest.fixture
def upstream() -> Iterator[ScriptedUpstream]:
    scripted = ScriptedUpstream()
    with in_a_thread(scripted):
        yield scripted
