"""Settings of the gateways that tests start."""

from __future__ import annotations

CONFIG = """
passthrough = "chat"
[limits]
retries = 0
[targets.chat]
base_url = "{url}/v1"
"""


SHARED_CONFIG = """
passthrough = "chat"

[limits]
patience = 0.3
comment_every = 0.2
event_every = 0.5
retries = 0

[routing]
eject_after = "off"  # a test must not depend on the failures of others

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

# Without keys: a refused key rests, and its target is then asked last.
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

HOSTILE_CONFIG = """
passthrough = "chat"
[limits]
retries = 0
client_timeout = {client_timeout}
[targets.chat]
base_url = "{url}/v1"
"""
"""For clients that do not read, or send too much."""
