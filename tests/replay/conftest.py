"""The scripted upstream of the gateway's tests, and a gateway that records its turns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.conftest import upstream
from tests.gateway.upstream import ScriptedUpstream
from tests.replay.recorders import Recorder, recording_gateway

__all__ = ["recorder", "upstream"]


@pytest.fixture(scope="module")
def recorder(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    with recording_gateway(tmp_path_factory.mktemp("recorder"), upstream) as recorder:
        yield recorder
