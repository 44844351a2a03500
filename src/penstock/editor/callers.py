"""Who calls `POST /v1/parts`, and what is kept for each: models, token counts and usage."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from msgspec import Struct

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.models.directory import ModelDirectory
from penstock.protocol.content import JsonObject
from penstock.provider.tracker import UsageTracker
from penstock.tokens.counter import TokenCounter

CREDENTIALS = ("authorization", "x-api-key")
"""Headers that tell who a caller is."""

MOST_CALLERS = 256
"""Callers whose figures are kept. Of more, those that were silent the longest are forgotten."""

_MODELS_FOR = 15.0
"""Seconds for which a list of models is good: the gateway keeps one of its own, and settings change."""


class Caller(Struct, frozen=True, eq=False):
    """What is kept for one who calls: models, counts and figures that nobody else sees."""

    directory: ModelDirectory
    counter: TokenCounter
    tracker: UsageTracker


class _ModelSource:
    """Lists models with a connection of its own, which nobody has to close when the gateway ends."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config

    async def models(self) -> list[JsonObject]:
        async with OpenResponsesClient(self._config) as client:
            return await client.models()


class Callers:
    """Those who called most recently."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Caller] = OrderedDict()

    def find(self, tenant: str, config: ClientConfig) -> Caller:
        """By their credentials: where the gateway has no keys, that is their key for the upstream."""
        name = _digest(tenant, config.headers)
        if name not in self._known:
            lasting = {name: value for name, value in config.headers.items() if name in CREDENTIALS}
            directory = ModelDirectory(_ModelSource(replace(config, headers=lasting)), ttl=_MODELS_FOR)
            self._known[name] = Caller(directory, TokenCounter(), UsageTracker())
            if len(self._known) > MOST_CALLERS:
                self._known.popitem(last=False)
        self._known.move_to_end(name)
        return self._known[name]


def _digest(tenant: str, headers: Mapping[str, str]) -> bytes:
    shown = [tenant, *(headers.get(name, "") for name in CREDENTIALS)]
    return sha256("\0".join(shown).encode("utf-8", "surrogatepass")).digest()
