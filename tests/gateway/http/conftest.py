"""A gateway in a thread, for tests that write raw bytes to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.gateway.config.file import read_settings
from tests.gateway.configs import CONFIG
from tests.gateway.raw_sockets import close_all
from tests.gateway.threaded import ThreadedGateway, threaded_gateway
from tests.gateway.upstream import ScriptedUpstream


@pytest.fixture(scope="module")
def served(upstream: ScriptedUpstream) -> Iterator[ThreadedGateway]:
    settings = read_settings(CONFIG.format(url=upstream.url), file="penstock.toml", environment={})
    with threaded_gateway(settings) as gateway:
        yield gateway


@pytest.fixture(autouse=True)
def _close_connections() -> Iterator[None]:
    yield
    close_all()
