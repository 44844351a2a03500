"""The lists of models that targets have: one for everybody, and one for each client with a key of its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from penstock.client.client import OpenResponsesClient
from penstock.dialects.presets import fingerprint
from penstock.gateway.model_listing import Listing
from penstock.gateway.settings import Settings
from penstock.models.probes import Fetcher
from penstock.net.urls import is_loopback, read_address
from penstock.protocol.content import JsonObject
from penstock.upstream.http import listing_config
from penstock.upstream.target import UpstreamTarget

_MOST = 64
"""Clients whose lists are kept. Keys are what clients write: there is no end to them."""


class ModelLists:
    """A target that takes the client's own key shows each client what that key may see."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._takes_keys = any(target.pass_key for target in settings.targets)
        self._kept: OrderedDict[str, Listing] = OrderedDict()

    def for_key(self, key: str) -> Listing:
        key = key if self._takes_keys else ""
        name = fingerprint(key)
        listing = self._kept.pop(name, None) or self._listing(key)
        self._kept[name] = listing
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        return listing

    def _listing(self, key: str) -> Listing:
        asking = {target.name: _Asking(target, key) for target in self._settings.targets}
        return Listing(
            self._settings,
            lambda name: asking[name].models(),
            fetchers=lambda name: asking[name].fetcher,
            clock=self._clock,
        )


class _Asking:
    """Asks one target, now and then: no connection is kept for it."""

    def __init__(self, target: UpstreamTarget, key: str) -> None:
        self._config = listing_config(target, key)
        is_here = is_loopback(read_address(target.base_url).host)
        self.fetcher: Fetcher | None = self if is_here else None
        """A server on this machine can be asked what it has loaded."""

    async def models(self) -> list[JsonObject]:
        async with OpenResponsesClient(self._config) as client:
            return await client.models()

    async def fetch(self, path: str, body: JsonObject | None = None) -> Any:
        async with OpenResponsesClient(self._config) as client:
            return await client.fetch(path, body)
