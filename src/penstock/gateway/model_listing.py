"""`GET /v1/models`: the model names that this gateway accepts, with the limits of the models behind them.

The body has two lists of the same models (ask I1): `data` in the format of OpenAI, OpenRouter and vLLM, and
`models` for Codex (`codex_models.py`). If an upstream is slow or down, only the limits of its own models are
missing; the list is still sent.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from penstock.client.client import OpenResponsesClient
from penstock.dialects.presets import fingerprint
from penstock.gateway.codex_models import CodexModel, Level, codex_model, levels
from penstock.gateway.settings import DEMO, Settings
from penstock.models.directory import ModelDirectory
from penstock.models.enrich import enrich
from penstock.models.info import ModelFacts, ModelInfo, Prices
from penstock.models.listing import read_listing
from penstock.models.overrides import ALL, Override, override_for
from penstock.models.probes import Fetcher, probe, probe_of
from penstock.net.urls import is_loopback, read_address
from penstock.protocol.content import JsonObject
from penstock.upstream.http import listing_config
from penstock.upstream.target import UpstreamTarget

Fetch = Callable[[str], Awaitable[list[JsonObject]]]
"""Returns the models that a target lists, by the target's name; may raise anything."""

Fetchers = Callable[[str], Fetcher | None]
"""Returns the fetcher that asks a target's server which models it has loaded; None: do not ask."""

PATIENCE = 2.0
"""Seconds to wait for the first list of an upstream; later requests do not wait."""

DEMO_MODEL = ModelFacts(
    id=DEMO,
    name="Penstock's demo",
    description="Built in: works without a key and without a network.",
    window=128_000,
    max_output=16_000,
    image_input=True,
    tool_calling=True,
    reasoning=True,
    efforts=("low", "medium", "high"),
)

_FREE = Prices(0.0, 0.0)

_SOURCES = {
    "context_window": "context_window",
    "max_input_tokens": "max_input",
    "max_output_tokens": "max_output",
}


class _Architecture(Struct, frozen=True):
    input_modalities: list[str]
    output_modalities: list[str]


class _Capabilities(Struct, frozen=True):
    vision: bool
    function_calling: bool
    reasoning: bool


class _Entry(Struct, frozen=True, kw_only=True):
    """One entry of `data`. The first four fields are OpenAI's; the others use the names of the vendors that
    introduced them, because clients look for these."""

    id: str
    object: str = "model"
    created: int
    owned_by: str
    name: str
    description: str | UnsetType = UNSET
    context_window: int
    context_length: int
    max_model_len: int
    max_input_tokens: int
    max_output_tokens: int | UnsetType = UNSET
    architecture: _Architecture
    capabilities: _Capabilities
    supported_reasoning_levels: list[Level]
    pricing: dict[str, str] | UnsetType = UNSET
    sources: dict[str, str]
    """Where each limit comes from (ask I2)."""


class _Body(Struct, frozen=True, kw_only=True):
    object: str = "list"
    data: list[_Entry]
    models: list[CodexModel]


def models_body(models: Sequence[ModelInfo], *, created: int) -> bytes:
    """Return the body of `GET /v1/models`. `created` is a Unix time: the models' own dates are unknown."""
    return msgspec.json.encode(
        _Body(
            data=[_entry(info, created) for info in models],
            models=[codex_model(info, priority) for priority, info in enumerate(models)],
        )
    )


def model_body(info: ModelInfo, *, created: int) -> bytes:
    """Return the body of `GET /v1/models/{id}`."""
    return msgspec.json.encode(_entry(info, created))


def _entry(info: ModelInfo, created: int) -> _Entry:
    # A default output limit is only reserved room, not a number to send.
    has_max_output = info.sources.get("max_output") != "default"
    return _Entry(
        id=info.id,
        created=created,
        owned_by=info.vendor or "system",
        name=info.name,
        description=info.description or UNSET,
        context_window=info.context_window,
        context_length=info.context_window,
        max_model_len=info.context_window,
        max_input_tokens=info.max_input,
        max_output_tokens=info.max_output if has_max_output else UNSET,
        architecture=_Architecture(["text", "image"] if info.image_input else ["text"], ["text"]),
        capabilities=_Capabilities(info.image_input, info.tool_calling, info.reasoning),
        supported_reasoning_levels=levels(info.listed_efforts),
        pricing=_pricing(info.prices) if info.prices else UNSET,
        sources={name: info.sources.get(field, "default") for name, field in _SOURCES.items()},
    )


def _pricing(prices: Prices) -> dict[str, str]:
    """Return prices in OpenRouter's format: dollars per token, as text."""
    named = {
        "prompt": prices.input,
        "completion": prices.output,
        "input_cache_read": prices.cached_input,
        "input_cache_write": prices.cache_write,
    }
    return {name: f"{price / 1_000_000:.12f}" for name, price in named.items() if price is not None}


class _UpstreamList:
    """The latest list of one upstream's models.

    The directory only decides when to fetch it again. It makes its callers wait for a new list, whereas here
    the old list is used until the new one arrives.
    """

    def __init__(
        self, target: str, preset: str, fetch: Fetch, fetcher: Fetcher | None, clock: Callable[[], float]
    ) -> None:
        self.listed: Mapping[str, ModelFacts] = {}
        self._probed: Mapping[str, ModelFacts] = {}
        self._target = target
        self._preset = preset
        self._fetch = fetch
        self._fetcher = fetcher
        self._directory = ModelDirectory(self, patience=0.0, clock=clock)
        self._answered = asyncio.Event()
        self._wait_until: float | None = None

    async def models(self) -> list[JsonObject]:
        """Fetch the list; called by the directory."""
        try:
            entries = await self._fetch(self._target)
            listed = read_listing(entries)
            ids = [facts.id for facts in listed]
            if self._fetcher is not None:
                self._probed = await probe(probe_of(self._preset, entries), ids, self._fetcher)
            self.listed = {facts.id: facts for facts in listed}
            return entries
        finally:
            self._answered.set()

    async def refresh(self, patience: float) -> None:
        """Fetch the list if it is due. Wait only for the first list, and at most `patience` seconds in total:
        if an upstream is down, only the first client waits for it."""
        await self._directory.get("")
        if self._answered.is_set():
            return
        now = asyncio.get_running_loop().time()
        if self._wait_until is None:
            self._wait_until = now + patience
        with suppress(TimeoutError):
            await asyncio.wait_for(self._answered.wait(), max(self._wait_until - now, 0.0))

    def prices(self, model: str) -> Prices | None:
        found = (facts.get(model) for facts in (self.listed, self._probed))
        return next((each.prices for each in found if each is not None and each.prices is not None), None)

    def info(self, model: str, override: ModelFacts) -> ModelInfo:
        return enrich(self.listed.get(model) or ModelFacts(id=model), override, self._probed.get(model))


class Listing:
    """The models of a gateway. Belongs to one event loop."""

    def __init__(
        self,
        settings: Settings,
        fetch: Fetch,
        *,
        fetchers: Fetchers = lambda _: None,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._patience = patience
        presets = {target.name: target.preset for target in settings.targets}
        routed = [step.target for route in settings.models.values() for step in route.steps]
        named = dict.fromkeys([*routed, *filter(None, [settings.passthrough])])
        self._lists = {
            name: _UpstreamList(name, presets.get(name, ""), fetch, fetchers(name), clock) for name in named
        }

    async def models(self) -> list[ModelInfo]:
        """Return every model that can be listed: the default model, the configured ones, those that the
        passthrough target lists, and the demo model."""
        await self._refresh(self._lists)
        settings = self._settings
        named = [settings.default_model, *settings.models, *settings.aliases]
        named += self._lists[settings.passthrough].listed if settings.passthrough else ()
        found = (self._info(name) for name in dict.fromkeys([*named, DEMO]) if name not in ("", ALL))
        return [info for info in found if info is not None]

    async def find(self, name: str) -> ModelInfo | None:
        """Return one model, or None for an unknown name. A passthrough target may have more models than it
        lists."""
        route = self._settings.route_of(name)
        if route is None:
            return None
        await self._refresh(step.target for step in route.steps if step.target != DEMO)
        return self._info(name)

    def lists(self, name: str) -> bool:
        """Return whether the passthrough target lists this name, as far as its list was fetched so far."""
        passthrough = self._settings.passthrough
        return bool(passthrough) and name in self._lists[passthrough].listed

    def prices(self, name: str, target: str, model: str) -> Prices | None:
        """Return the prices of a model at a target, as far as they are known now; `name` is what clients call
        it. The demo model is free."""
        if (prices := self._override(model, name).prices) is not None:
            return prices
        if target == DEMO:
            return _FREE
        known = self._lists.get(target)
        return known.prices(model) if known is not None else None

    async def _refresh(self, targets: Iterable[str]) -> None:
        lists = [self._lists[target] for target in dict.fromkeys(targets)]
        await asyncio.gather(*(each.refresh(self._patience) for each in lists))

    def _info(self, name: str) -> ModelInfo | None:
        route = self._settings.route_of(name)
        if route is None:
            return None
        if route.name == DEMO:
            info = enrich(DEMO_MODEL, self._override(DEMO, name))
            return info if name == DEMO else _called(info, name)
        steps = [(self._lists[step.target], step.model or route.name) for step in route.steps]
        # The first target that lists its model determines the limits of the chain.
        upstream, model = next((step for step in steps if step[1] in step[0].listed), steps[0])
        info = upstream.info(model, self._override(model, route.name, name))
        return info if model == name else _called(info, name)

    def _override(self, *names: str) -> ModelFacts:
        """Return the configured facts of a model with several names. The last name takes precedence."""
        lines = [each for each in self._settings.overrides if each.id == ALL]
        for name in dict.fromkeys(names):
            lines += [Override(names[-1], each.facts) for each in self._settings.overrides if each.id == name]
        return override_for(names[-1], lines)


def _called(info: ModelInfo, name: str) -> ModelInfo:
    """Return the model under another name, which is also its display name: two names may share a model."""
    return replace(info, id=name, name=name, sources={**info.sources, "name": "id"})


_MOST_LISTS = 64
"""Number of client keys whose lists are cached. Clients choose their keys, so there is no other limit."""


class Listings:
    """The listings by client key: a target with `pass_key` lists for each client what its key may use."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._takes_keys = any(target.pass_key for target in settings.targets)
        self._by_key: OrderedDict[str, Listing] = OrderedDict()

    def for_key(self, key: str) -> Listing:
        key = key if self._takes_keys else ""
        name = fingerprint(key)
        listing = self._by_key.pop(name, None) or self._listing(key)
        self._by_key[name] = listing
        if len(self._by_key) > _MOST_LISTS:
            self._by_key.popitem(last=False)
        return listing

    def _listing(self, key: str) -> Listing:
        queries = {target.name: _TargetQuery(target, key) for target in self._settings.targets}
        return Listing(
            self._settings,
            lambda name: queries[name].models(),
            fetchers=lambda name: queries[name].fetcher if name in queries else None,
            clock=self._clock,
        )


class _TargetQuery:
    """Queries one target. Queries are rare, so no connection is kept open."""

    def __init__(self, target: UpstreamTarget, key: str) -> None:
        self._config = listing_config(target, key)
        is_local = is_loopback(read_address(target.base_url).host)
        self.fetcher: Fetcher | None = self if is_local else None
        """Only a server on this machine is asked which models it has loaded."""

    async def models(self) -> list[JsonObject]:
        async with OpenResponsesClient(self._config) as client:
            return await client.models()

    async def fetch(self, path: str, body: JsonObject | None = None) -> Any:
        async with OpenResponsesClient(self._config) as client:
            return await client.fetch(path, body)
