"""The models of one endpoint: fetched from time to time, cached, and shared by all callers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from penstock.models.enrich import enrich
from penstock.models.info import STATED, LearnedLimit, ModelFacts, ModelInfo
from penstock.models.learned_limits import EndpointLimits
from penstock.models.listing import read_listing
from penstock.models.overrides import Override, override_for
from penstock.models.probes import Fetcher, probe, probe_of
from penstock.protocol.content import JsonObject
from penstock.protocol.errors import Diagnostic

RETRY_WAIT = 30.0
"""Seconds without a retry after a failure: an editor asks for its models several times a second, and must not
wait for a dead endpoint each time."""


class Endpoint(Protocol):
    """The part of `OpenResponsesClient` that the directory uses."""

    async def models(self) -> list[JsonObject]: ...


class ModelDirectory:
    """The models that an endpoint lists, each with everything that is known about it.

    Use it on one event loop only. Concurrent calls share one request, and cancelling one of them does not
    affect the others. Once a list was loaded there is always one: if the endpoint fails, the old list is
    returned and `stale` contains the reason.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        overrides: Iterable[Override] = (),
        fetcher: Fetcher | None = None,
        preset: str = "",
        limits: EndpointLimits | None = None,
        ttl: float = 300.0,
        patience: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`fetcher` is for probing local servers, and `preset` names the kind of server. `limits` are those
        that were learned from errors: without them, nothing is learned and no file is used.

        `patience` is how many seconds `get` waits for the first list.
        """
        self.limits = limits
        self._endpoint = endpoint
        self._overrides = tuple(overrides)
        self._fetcher = fetcher
        self._preset = preset
        self._ttl = ttl
        self._patience = patience
        self._clock = clock
        self._models: dict[str, ModelInfo] | None = None
        """As listed, without learned limits, which may change at any time."""
        self._listed: dict[str, ModelFacts] = {}
        self._probed: dict[str, ModelFacts] = {}
        self._fresh_until = 0.0
        self._failure: Exception | None = None
        self._loading: asyncio.Task[None] | None = None

    @property
    def stale(self) -> Diagnostic | None:
        """Return why the list is out of date; None if it is current, or if there is no list."""
        if self._failure is None or self._models is None:
            return None
        reason = str(self._failure) or type(self._failure).__name__
        message = f"the list of models is out of date, because the endpoint failed: {reason}"
        return Diagnostic(code="models_stale", message=message)

    async def list(self, refresh: bool = False) -> list[ModelInfo]:
        """Return the models in the endpoint's order; raise the endpoint's error if there never was a list.

        `refresh` ignores the cached list, but shares a request that is already running.
        """
        models = self._models
        if models is None or refresh or self._clock() >= self._fresh_until:
            models = await self._load()
        learned = self.limits.all() if self.limits else {}
        return [self._with_learned(info, learned) for info in models.values()]

    async def get(self, id: str) -> ModelInfo:
        """Return one model, even if it is not listed: it may work anyway. `sources` has the source of each
        field."""
        if self._clock() >= self._fresh_until:
            loading = self._start_loading()
            if self._models is None:
                # A slow list must not delay the first answer. If the endpoint fails, the first request to the
                # model reports it.
                await asyncio.wait({loading}, timeout=self._patience)
        found = (self._models or {}).get(id) or enrich(ModelFacts(id=id), override_for(id, self._overrides))
        return self._with_learned(found, self.limits.all() if self.limits else {})

    def learn(self, info: ModelInfo, limit: int | None, refused: int | None = None) -> bool:
        """Learn the limit that an error of the endpoint names; return whether it changes the window in
        `info`."""
        return self.limits is not None and self.limits.learn(info, limit, refused, self._stated(info.id))

    def _stated(self, id: str) -> int | None:
        """Return the window that the endpoint or a probe states: 0 if neither does, None before the first
        list."""
        if self._models is None:
            return None
        info = self._models.get(id)
        return info.context_window if info and info.sources["context_window"] in STATED else 0

    def _with_learned(self, info: ModelInfo, learned: Mapping[str, LearnedLimit]) -> ModelInfo:
        """Return the model with its learned limit, if there is one."""
        if info.id not in learned:
            return info
        facts, probed = self._listed.get(info.id), self._probed.get(info.id)
        override = override_for(info.id, self._overrides)
        return enrich(facts or ModelFacts(id=info.id), override, probed, learned[info.id])

    def _start_loading(self) -> asyncio.Task[None]:
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(self._fetch(), name="penstock models")
        return self._loading

    async def _load(self) -> dict[str, ModelInfo]:
        # All waiting callers share the request: it continues if one of them is cancelled.
        await asyncio.shield(self._start_loading())
        if self._models is None:
            assert self._failure is not None
            raise self._failure
        return self._models

    async def _fetch(self) -> None:
        """Fetch the list. Never raises, because all callers may have been cancelled."""
        try:
            entries = await self._endpoint.models()
            listed = read_listing(entries)
            probed = await self._probe(entries, listed)
        except Exception as error:
            self._failure = error
            self._fresh_until = self._clock() + min(self._ttl, RETRY_WAIT)
            return
        self._listed, self._probed = {facts.id: facts for facts in listed}, probed
        self._models = {
            facts.id: enrich(facts, override_for(facts.id, self._overrides), probed.get(facts.id))
            for facts in listed
        }
        self._failure = None
        self._fresh_until = self._clock() + self._ttl

    async def _probe(
        self, entries: Sequence[JsonObject], listed: Sequence[ModelFacts]
    ) -> dict[str, ModelFacts]:
        if self._fetcher is None:
            return {}
        return await probe(probe_of(self._preset, entries), [facts.id for facts in listed], self._fetcher)
