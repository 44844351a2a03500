"""The models of one endpoint: asked for once in a while, kept, and shared by all who want to know."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from penstock.models.enrich import enrich
from penstock.models.info import ModelFacts, ModelInfo
from penstock.models.listing import read_listing
from penstock.models.overrides import Override, override_for
from penstock.models.probes import Fetcher, probe, probe_of
from penstock.protocol.content import JsonObject
from penstock.protocol.errors import Diagnostic

RETRY_WAIT = 30.0
"""After a failure the endpoint is left alone for so long by all who can do without it: an editor asks for its
models several times in a second, and must not wait for a dead endpoint each time."""


class Endpoint(Protocol):
    """What `OpenResponsesClient` is to the directory."""

    async def models(self) -> list[JsonObject]: ...


class ModelDirectory:
    """The models that an endpoint lists, each with all that is known of it.

    Belongs to the event loop that it is used on. Calls at the same time share one request, and one that is
    cancelled leaves the others theirs. Once there is a list there is always one: when the endpoint fails, the
    old list is given and `stale` says why.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        overrides: Iterable[Override] = (),
        fetcher: Fetcher | None = None,
        preset: str = "",
        ttl: float = 300.0,
        patience: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`fetcher` is for probing servers on the own machine, and `preset` tells which server it is.

        `patience` is how long `get` waits for the first list, in seconds.
        """
        self._endpoint = endpoint
        self._overrides = tuple(overrides)
        self._fetcher = fetcher
        self._preset = preset
        self._ttl = ttl
        self._patience = patience
        self._clock = clock
        self._known: dict[str, ModelInfo] | None = None
        self._good_until = 0.0
        self._failure: Exception | None = None
        self._loading: asyncio.Task[None] | None = None

    @property
    def stale(self) -> Diagnostic | None:
        """Why the list is an old one; None when it is not, or when there is none at all."""
        if self._failure is None or self._known is None:
            return None
        reason = str(self._failure) or type(self._failure).__name__
        message = f"the list of models is an old one, because the endpoint does not give a new one: {reason}"
        return Diagnostic(code="models_stale", message=message)

    async def list(self, refresh: bool = False) -> list[ModelInfo]:
        """The models in the order of the endpoint. Raises what the endpoint raised if there never was a list.

        `refresh` asks the endpoint however new the list is; a request that is on its way already will do.
        """
        known = self._known
        if known is None or refresh or self._clock() >= self._good_until:
            known = await self._load()
        return [*known.values()]

    async def get(self, id: str) -> ModelInfo:
        """One model. One that is not listed, or whose endpoint lists nothing, may work all the same: what is
        known of it is from elsewhere, and `sources` says from where."""
        if self._clock() >= self._good_until:
            loading = self._started()
            if self._known is None:
                # Nobody should wait for an answer because the list of models is slow. What is wrong with the
                # endpoint, if anything is, the first request to the model will tell.
                await asyncio.wait({loading}, timeout=self._patience)
        found = (self._known or {}).get(id)
        return found or enrich(ModelFacts(id=id), override_for(id, self._overrides))

    def _started(self) -> asyncio.Task[None]:
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(self._ask(), name="penstock models")
        return self._loading

    async def _load(self) -> dict[str, ModelInfo]:
        # The request belongs to all who wait for it: it goes on when one of them is cancelled.
        await asyncio.shield(self._started())
        if self._known is None:
            assert self._failure is not None
            raise self._failure
        return self._known

    async def _ask(self) -> None:
        """Never raises, because perhaps nobody is left to hear it."""
        try:
            entries = await self._endpoint.models()
            listed = read_listing(entries)
            probed = await self._probe(entries, listed)
        except Exception as error:
            self._failure = error
            self._good_until = self._clock() + min(self._ttl, RETRY_WAIT)
            return
        self._known = {
            facts.id: enrich(facts, override_for(facts.id, self._overrides), probed.get(facts.id))
            for facts in listed
        }
        self._failure = None
        self._good_until = self._clock() + self._ttl

    async def _probe(
        self, entries: Sequence[JsonObject], listed: Sequence[ModelFacts]
    ) -> dict[str, ModelFacts]:
        if self._fetcher is None:
            return {}
        return await probe(probe_of(self._preset, entries), [told.id for told in listed], self._fetcher)
