"""One gateway and one scripted upstream for all tests of a worker that need nothing special of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.server import in_a_thread
from tests.gateway.running import SECRET_KEY, Running, gateway
from tests.gateway.upstream import ScriptedUpstream

CONFIG = """
passthrough = "chat"

[limits]
patience = 0.3
comment_every = 0.2
event_every = 0.5
retries = 0

[targets.chat]
base_url = "{url}/v1"
keys = ["UPSTREAM_KEY"]
idle_timeout = 20

[targets.anthropic]
base_url = "{url}/v1"
dialect = "anthropic"
keys = ["UPSTREAM_KEY"]

[targets.responses]
base_url = "{url}/v1"
dialect = "responses"
keys = ["UPSTREAM_KEY"]

[targets.hasty]
base_url = "{url}/v1"
keys = ["UPSTREAM_KEY"]
first_byte_timeout = 0.5
idle_timeout = 0.5

# Without keys: one that was refused rests, and its target is then asked last.
[targets.first]
base_url = "{url}/v1"

[targets.second]
base_url = "{url}/v1"
dialect = "anthropic"

# Every other name goes to the target `chat`.
[models.over-anthropic]
target = "anthropic"

[models.over-responses]
target = "responses"

[models.over-hasty]
target = "hasty"

[models.over-chain]
targets = ["first/chain-first", "second/chain-second"]
"""


@pytest.fixture(scope="session")
def upstream() -> Iterator[ScriptedUpstream]:
    scripted = ScriptedUpstream()
    with in_a_thread(scripted):
        yield scripted


@pytest.fixture(scope="session")
def penstock(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    with gateway(
        folder, config=CONFIG.format(url=upstream.url), environment={"UPSTREAM_KEY": SECRET_KEY}
    ) as running:
        yield running
