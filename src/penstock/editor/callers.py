"""The callers of `POST /v1/parts`, each with its own models, token counts and usage."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from msgspec import Struct

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.models.directory import ModelDirectory
from penstock.models.learned_limits import LearnedLimits
from penstock.protocol.content import JsonObject
from penstock.provider.tracker import UsageTracker
from penstock.tokens.counter import TokenCounter

CREDENTIALS = ("authorization", "x-api-key")
"""Headers that identify a caller."""

MAX_CALLERS = 256
"""The maximum number of callers to remember. Beyond that, the least recent ones are forgotten."""

_MODELS_TTL = 15.0
"""Seconds to cache the list of models: the gateway has its own cache, and settings change."""


class Caller(Struct, frozen=True, eq=False):
    """The models, token counts and usage of one caller, which other callers cannot see."""

    directory: ModelDirectory
    counter: TokenCounter
    tracker: UsageTracker


class _ModelSource:
    """Lists models with a new connection each time, so that none is open when the gateway stops."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config

    async def models(self) -> list[JsonObject]:
        async with OpenResponsesClient(self._config) as client:
            return await client.models()


class Callers:
    """The most recent callers."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Caller] = OrderedDict()

    def find(self, tenant: str, config: ClientConfig) -> Caller:
        """Find a caller by its credentials: without gateway keys, these are its key for the upstream."""
        name = _digest(tenant, config.headers)
        if name not in self._known:
            credentials = {name: value for name, value in config.headers.items() if name in CREDENTIALS}
            directory = ModelDirectory(
                _ModelSource(replace(config, headers=credentials)),
                limits=LearnedLimits().at(config.base_url),  # in memory: the file belongs to a user
                ttl=_MODELS_TTL,
            )
            self._known[name] = Caller(directory, TokenCounter(), UsageTracker())
            if len(self._known) > MAX_CALLERS:
                self._known.popitem(last=False)
        self._known.move_to_end(name)
        return self._known[name]


def _digest(tenant: str, headers: Mapping[str, str]) -> bytes:
    identity = [tenant, *(headers.get(name, "") for name in CREDENTIALS)]
    return sha256("\0".join(identity).encode("utf-8", "surrogatepass")).digest()
