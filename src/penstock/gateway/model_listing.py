"""What `GET /v1/models` answers: the names that this gateway takes, with the limits of what is behind them.

One body has two lists of the same models (ask I1): `data` as OpenAI, OpenRouter and vLLM write it, and
`models` for Codex (`codex_models.py`). An upstream that is slow or gone costs its own models their limits,
and nobody the list.
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
"""Gives what a target lists, by the target's name; raises what it likes."""

Fetchers = Callable[[str], Fetcher | None]
"""How the server of a target is asked what it has loaded; None: it is not."""

PATIENCE = 2.0
"""How long the first list of an upstream is waited for, in seconds, and that once."""

DEMO_MODEL = ModelFacts(
    id=DEMO,
    name="Penstock's demo",
    description="Built in: answers without a key and without a network.",
    window=128_000,
    max_output=16_000,
    image_input=True,
    tool_calling=True,
    reasoning=True,
    efforts=("low", "medium", "high"),
)

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
    """One entry of `data`. The first four fields are OpenAI's; the others have the names of those who told
    such a thing first, because that is what clients look for."""

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
    """Where each limit is from (ask I2)."""


class _Body(Struct, frozen=True, kw_only=True):
    object: str = "list"
    data: list[_Entry]
    models: list[CodexModel]


def models_body(models: Sequence[ModelInfo], *, created: int) -> bytes:
    """The body of `GET /v1/models`. `created` is a time in seconds; nobody knows when a model was made."""
    return msgspec.json.encode(
        _Body(
            data=[_entry(info, created) for info in models],
            models=[codex_model(info, priority) for priority, info in enumerate(models)],
        )
    )


def model_body(info: ModelInfo, *, created: int) -> bytes:
    """The body of `GET /v1/models/{id}`."""
    return msgspec.json.encode(_entry(info, created))


def _entry(info: ModelInfo, created: int) -> _Entry:
    # A limit of output that nobody named is room that is kept, and not a number to send.
    is_told = info.sources.get("max_output") != "default"
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
        max_output_tokens=info.max_output if is_told else UNSET,
        architecture=_Architecture(["text", "image"] if info.image_input else ["text"], ["text"]),
        capabilities=_Capabilities(info.image_input, info.tool_calling, info.reasoning),
        supported_reasoning_levels=levels(info.efforts),
        pricing=_pricing(info.prices) if info.prices else UNSET,
        sources={name: info.sources.get(field, "default") for name, field in _SOURCES.items()},
    )


def _pricing(prices: Prices) -> dict[str, str]:
    """As OpenRouter writes it: dollars for one token, as text."""
    named = {
        "prompt": prices.input,
        "completion": prices.output,
        "input_cache_read": prices.cached_input,
        "input_cache_write": prices.cache_write,
    }
    return {name: f"{price / 1_000_000:.12f}" for name, price in named.items() if price is not None}


class _UpstreamList:
    """What one upstream lists, as it was heard last.

    The directory decides when to ask again. It is asked for no model: a list that is old is used until there
    is a new one, which the directory gives only to those who wait for it.
    """

    def __init__(
        self, target: str, preset: str, fetch: Fetch, fetcher: Fetcher | None, clock: Callable[[], float]
    ) -> None:
        self.told: Mapping[str, ModelFacts] = {}
        self._probed: Mapping[str, ModelFacts] = {}
        self._target = target
        self._preset = preset
        self._fetch = fetch
        self._fetcher = fetcher
        self._directory = ModelDirectory(self, patience=0.0, clock=clock)
        self._answered = asyncio.Event()
        self._wait_until: float | None = None

    async def models(self) -> list[JsonObject]:
        """The directory's question."""
        try:
            entries = await self._fetch(self._target)
            listed = read_listing(entries)
            ids = [told.id for told in listed]
            if self._fetcher is not None:
                self._probed = await probe(probe_of(self._preset, entries), ids, self._fetcher)
            self.told = {told.id: told for told in listed}
            return entries
        finally:
            self._answered.set()

    async def refresh(self, patience: float) -> None:
        """Ask if it is time to. Waits for the first answer alone, and never longer than `patience` in all:
        the second who asks for the models of a dead upstream must not wait as the first one did."""
        await self._directory.get("")
        if self._answered.is_set():
            return
        now = asyncio.get_running_loop().time()
        if self._wait_until is None:
            self._wait_until = now + patience
        with suppress(TimeoutError):
            await asyncio.wait_for(self._answered.wait(), max(self._wait_until - now, 0.0))

    def info(self, model: str, override: ModelFacts) -> ModelInfo:
        return enrich(self.told.get(model) or ModelFacts(id=model), override, self._probed.get(model))


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
        """Every name that can be listed: the default first, what was configured, what the upstream that takes
        all other names lists, and the demo."""
        await self._refresh(self._lists)
        settings = self._settings
        named = [settings.default_model, *settings.models, *settings.aliases]
        named += self._lists[settings.passthrough].told if settings.passthrough else ()
        found = (self._info(name) for name in dict.fromkeys([*named, DEMO]) if name not in ("", ALL))
        return [info for info in found if info is not None]

    async def find(self, name: str) -> ModelInfo | None:
        """One model; None for a name that leads nowhere. An upstream that takes every name may know more of
        them than it lists."""
        route = self._settings.route_of(name)
        if route is None:
            return None
        await self._refresh(step.target for step in route.steps if step.target != DEMO)
        return self._info(name)

    def lists(self, name: str) -> bool:
        """Does the upstream that takes all other names list this one? As far as it was asked until now."""
        passthrough = self._settings.passthrough
        return bool(passthrough) and name in self._lists[passthrough].told

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
        # The first step that is known at all speaks for the chain.
        upstream, model = next((step for step in steps if step[1] in step[0].told), steps[0])
        info = upstream.info(model, self._override(model, route.name, name))
        return info if model == name else _called(info, name)

    def _override(self, *names: str) -> ModelFacts:
        """What a person says of a model that has several names. The last one is the strongest."""
        lines = [each for each in self._settings.overrides if each.id == ALL]
        for name in dict.fromkeys(names):
            lines += [Override(names[-1], each.facts) for each in self._settings.overrides if each.id == name]
        return override_for(names[-1], lines)


def _called(info: ModelInfo, name: str) -> ModelInfo:
    """The same model under another name, which is also the one to show: two may be the same behind it."""
    return replace(info, id=name, name=name, sources={**info.sources, "name": "id"})


_MOST_LISTS = 64
"""Clients whose lists are kept. Keys are what clients write: there is no end to them."""


class Listings:
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
        if len(self._kept) > _MOST_LISTS:
            self._kept.popitem(last=False)
        return listing

    def _listing(self, key: str) -> Listing:
        queries = {target.name: _TargetQuery(target, key) for target in self._settings.targets}
        return Listing(
            self._settings,
            lambda name: queries[name].models(),
            fetchers=lambda name: queries[name].fetcher,
            clock=self._clock,
        )


class _TargetQuery:
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
