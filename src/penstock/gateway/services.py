"""Everything that the routes need, for one version of the settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock.demo.upstream import DemoUpstream
from penstock.gateway.errors import RequestRefused
from penstock.gateway.http.access import client_key_of
from penstock.gateway.model_listing import Listing, Listings
from penstock.gateway.settings import DEMO, ClientKey, Settings
from penstock.gateway.telemetry.metrics import OTHER, Metrics
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.errors import Diagnostic
from penstock.protocol.items import Item
from penstock.protocol.request import CreateResponse
from penstock.store.records import LOCAL
from penstock.stream.deltas import UsageDelta
from penstock.suggestions import advice
from penstock.tokens.counter import TokenCounter, why_estimated
from penstock.tokens.request_estimates import count_input, estimate_usage
from penstock.upstream.attempts import Candidate
from penstock.upstream.http import HttpUpstream
from penstock.upstream.target import Upstream, UpstreamTarget


class Fleet:
    """The upstreams of a gateway. An upstream whose target did not change survives a settings reload."""

    def __init__(self) -> None:
        self._demo: Upstream = DemoUpstream()
        self._known: dict[str, tuple[UpstreamTarget, Upstream]] = {}

    def renew(self, targets: Iterable[UpstreamTarget]) -> tuple[dict[str, Upstream], list[Upstream]]:
        """Return the upstreams of these targets by name, and the upstreams that are no longer needed."""
        old, new = dict(self._known), {}
        for target in targets:
            current = old.get(target.name)
            if current is None or current[0] != target:
                current = (target, HttpUpstream(target))
            else:
                del old[target.name]
            new[target.name] = current
        self._known = new  # only now: an invalid target must leave the upstreams unchanged
        upstreams = {DEMO: self._demo, **{name: upstream for name, (_, upstream) in self._known.items()}}
        return upstreams, [upstream for _, upstream in old.values()]

    def resting(self) -> dict[str, float]:
        """Return how many keys of each upstream are resting now."""
        return {name: upstream.keys.resting() for name, (_, upstream) in self._known.items()}

    def all(self) -> list[Upstream]:
        return [self._demo, *(upstream for _, upstream in self._known.values())]


class Services:
    """Settings with the upstreams, listings and counters that belong to them. Belongs to one event loop."""

    def __init__(
        self,
        settings: Settings,
        upstreams: Mapping[str, Upstream],
        metrics: Metrics,
        counter: TokenCounter,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self.clock = clock
        self._running = 0
        self.idle = asyncio.Event()
        """Set while no turn runs under these settings."""
        self.idle.set()
        self._upstreams = upstreams
        self._counter = counter
        self._lists = Listings(settings, clock)

    def enter(self) -> None:
        """Count a turn that begins under these settings."""
        self._running += 1
        self.idle.clear()

    def leave(self) -> None:
        self._running -= 1
        if not self._running:
            self.idle.set()

    def count_attempt(self, target: str, result: str) -> None:
        self.metrics.count("penstock_upstream_attempts_total", target=target, result=result)

    def count_turn(self, verdict: Verdict, cost: float | None = None) -> None:
        metrics, key = self.metrics, verdict.client or LOCAL
        model = verdict.model if self.is_public(verdict.model) else OTHER
        metrics.count(
            "penstock_turns_total",
            model=model,
            target=verdict.target,
            outcome=verdict.outcome,
            closer=verdict.closer,
            key=key,
        )
        metrics.observe("penstock_turn_seconds", verdict.duration_ms / 1000)
        metrics.observe("penstock_overhead_seconds", verdict.overhead_ms / 1000)
        if verdict.first_output_ms >= 0:
            metrics.observe("penstock_first_output_seconds", verdict.first_output_ms / 1000)
        for kind in ("input", "cached", "output", "reasoning"):
            tokens = getattr(verdict, f"{kind}_tokens")
            metrics.count("penstock_tokens_total", tokens, model=model, kind=kind, key=key)
        metrics.count("penstock_cost_dollars_total", cost or 0.0, model=model, key=key)
        metrics.count("penstock_bytes_total", verdict.bytes_in, direction="in")
        metrics.count("penstock_bytes_total", verdict.bytes_out, direction="out")
        metrics.count("penstock_heartbeats_total", verdict.heartbeats)

    def candidates(self, model: str, key: ClientKey | None = None) -> list[Candidate]:
        """Return the targets for a model, in order; raise `RequestRefused` for an unknown name. `key` is the
        client's: names that it may not use are not revealed."""
        settings, route = self.settings, self.settings.route_of(model)
        if route is None:
            names = [*settings.models, *settings.aliases, DEMO]
            known = [name for name in names if key is None or key.may_use(name)]
            message = f"there is no model {model[:128]!r}; {advice(model, known)}"
            raise RequestRefused(404, "model_not_found", message, type="not_found", param="model")
        return [
            Candidate(self._upstreams[step.target], step.model or route.name, place, step.weight)
            for place, group in enumerate(route.groups)
            for step in group
        ]

    def listing_for(self, headers: Mapping[str, str]) -> Listing:
        """Return the models that this client may see."""
        return self._lists.for_key(client_key_of(self.settings, headers))

    def is_public(self, model: str) -> bool:
        """Return whether the operator or an upstream defines this name. A name that a client made up is not
        used as a label: such names are unlimited and may reveal something about the client."""
        return self.settings.names(model) or self._lists.for_key("").lists(model)

    def count_input(self, request: CreateResponse, model: str, key: ClientKey | None = None) -> int:
        return count_input(request, self._upstream_name(model, key), self._counter)

    def count_diagnostics(self, model: str, key: ClientKey | None = None) -> list[Diagnostic]:
        """Return what a client should know about the counts for a model: that they are estimates."""
        why = why_estimated(self._upstream_name(model, key))
        return [Diagnostic(code="tokens_estimated", message=why)] if why else []

    def estimate(self, request: CreateResponse, model: str, output: Sequence[Item]) -> UsageDelta:
        return estimate_usage(request, self._upstream_name(model), output, self._counter)

    def _upstream_name(self, model: str, key: ClientKey | None = None) -> str:
        """Return the upstream's name of a model: tokens are counted for that model."""
        return self.candidates(model, key)[0].model
