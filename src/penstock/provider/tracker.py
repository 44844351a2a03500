"""Track token usage per request, per model and in total, for a status bar.

The figures are the endpoint's own if it sends any. Otherwise (a request that was cancelled or failed, an
endpoint that does not count) they are estimates and marked as such (ask D4).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from penstock.models.info import Prices
from penstock.protocol.response import Usage

RECENT = 50
"""The number of finished requests to keep, so that users can see what happened."""


class Tokens(Struct, frozen=True):
    """Token counts. Input includes cached tokens, output includes reasoning tokens."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    cache_write: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))

    @classmethod
    def of(cls, usage: Usage) -> Tokens:
        input_details, output_details = usage.input_tokens_details, usage.output_tokens_details
        return cls(
            usage.input_tokens,
            usage.output_tokens,
            input_details.cached_tokens,
            output_details.reasoning_tokens,
            input_details.cache_write_tokens,
        )

    def cost(self, prices: Prices) -> float:
        """Return the cost in dollars. Cache reads and writes have their own price if it is known."""
        cached = min(self.cached, self.input)
        written = min(self.cache_write, self.input - cached)
        per_cached = prices.input if prices.cached_input is None else prices.cached_input
        per_written = prices.input if prices.cache_write is None else prices.cache_write
        input = (self.input - cached - written) * prices.input + cached * per_cached + written * per_written
        return (input + self.output * prices.output) / 1e6


class TrackedRequest(Struct, frozen=True):
    """One request, running or finished. `outcome`: running, completed, failed, cancelled."""

    agent_id: str
    model: str
    estimated_input: int
    max_input: int
    outcome: str = "running"
    tokens: Tokens = Tokens()
    is_estimate: bool = True
    cost: float | None = None
    error: str = ""
    prices: Prices | None = None
    started: float = 0.0
    ended: float = 0.0
    """By the tracker's clock, in seconds; 0 while it runs."""
    response_id: str | None = None
    """The endpoint's id of the response: `penstock explain` shows what happened in it."""

    @property
    def seconds(self) -> float:
        """The duration; 0 while it runs."""
        return max(self.ended - self.started, 0.0) if self.outcome != "running" else 0.0

    @property
    def fill(self) -> float:
        """How full the context is: the used share of the model's input limit."""
        used = self.estimated_input if self.is_estimate else self.tokens.input
        return used / self.max_input if self.max_input > 0 else 0.0


class Totals(Struct, frozen=True):
    """A sum over requests. `cost` excludes requests to models without prices; `unpriced` counts them."""

    requests: int = 0
    failed: int = 0
    cancelled: int = 0
    tokens: Tokens = Tokens()
    cost: float = 0.0
    unpriced: int = 0
    estimates: int = 0
    """How many of the requests have estimated figures."""
    compared: int = 0
    deviation: float = 0.0
    """The sum of |estimated - real| / real over the requests that were compared."""

    def __add__(self, other: Totals) -> Totals:
        return Totals(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))

    @property
    def accuracy(self) -> float | None:
        """The accuracy of the input estimates, from 0 to 1; None before the first."""
        return max(0.0, 1 - self.deviation / self.compared) if self.compared else None

    def plus(self, request: TrackedRequest) -> Totals:
        real = 0 if request.is_estimate else request.tokens.input
        return Totals(
            requests=self.requests + 1,
            failed=self.failed + (request.outcome == "failed"),
            cancelled=self.cancelled + (request.outcome == "cancelled"),
            tokens=self.tokens + request.tokens,
            cost=self.cost + (request.cost or 0.0),
            unpriced=self.unpriced + (request.cost is None),
            estimates=self.estimates + (request.is_estimate and request.tokens != Tokens()),
            compared=self.compared + (real > 0),
            deviation=self.deviation + (abs(request.estimated_input - real) / real if real else 0.0),
        )


class UsageTracker:
    """Tracks the usage of one or several providers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running: dict[str, TrackedRequest] = {}
        self._by_model: dict[str, Totals] = {}
        self._listeners: list[Callable[[], None]] = []
        self.total = Totals()
        self.recent: deque[TrackedRequest] = deque(maxlen=RECENT)

    @property
    def running(self) -> list[TrackedRequest]:
        return [*self._running.values()]

    @property
    def by_model(self) -> dict[str, Totals]:
        return dict(self._by_model)

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change. Returns a function that removes the listener."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def start_request(
        self,
        agent_id: str,
        estimated_input: int,
        max_input: int,
        model: str,
        *,
        prices: Prices | None = None,
    ) -> None:
        self._running[agent_id] = TrackedRequest(
            agent_id, model, estimated_input, max_input, prices=prices, started=self._clock()
        )
        self._changed()

    def complete_request(
        self,
        agent_id: str,
        usage: Usage | None,
        *,
        estimated_output: int = 0,
        response_id: str | None = None,
    ) -> None:
        self._end(agent_id, "completed", usage, estimated_output, response_id)

    def cancel_request(
        self,
        agent_id: str,
        usage: Usage | None = None,
        *,
        estimated_output: int = 0,
        response_id: str | None = None,
    ) -> None:
        self._end(agent_id, "cancelled", usage, estimated_output, response_id)

    def fail_request(
        self,
        agent_id: str,
        error: Exception,
        usage: Usage | None = None,
        *,
        estimated_output: int = 0,
        response_id: str | None = None,
    ) -> None:
        """End a request with an error. Without any output it used no tokens, and nothing is estimated."""
        self._end(agent_id, "failed", usage, estimated_output, response_id, str(error))

    def _end(
        self,
        agent_id: str,
        outcome: str,
        usage: Usage | None,
        estimated_output: int,
        response_id: str | None,
        error: str = "",
    ) -> None:
        """End a request. Only the first end of a request is counted (ask D4)."""
        request = self._running.pop(agent_id, None)
        if request is None:
            return
        tokens = _tokens(request, outcome, usage, estimated_output)
        ended = replace(
            request,
            outcome=outcome,
            tokens=tokens,
            is_estimate=usage is None,
            cost=None if request.prices is None else tokens.cost(request.prices),
            error=error,
            ended=self._clock(),
            response_id=response_id,
        )
        self.recent.append(ended)
        self.total = self.total.plus(ended)
        self._by_model[ended.model] = self._by_model.get(ended.model, Totals()).plus(ended)
        self._changed()

    def _changed(self) -> None:
        for listener in [*self._listeners]:
            try:
                listener()
            except Exception:  # a listener that fails must not end a response
                logging.getLogger("penstock.provider").exception("a usage listener failed")


def _tokens(request: TrackedRequest, outcome: str, usage: Usage | None, estimated_output: int) -> Tokens:
    if usage is not None:
        return Tokens.of(usage)
    if outcome == "failed" and not estimated_output:
        return Tokens()
    return Tokens(input=request.estimated_input, output=estimated_output)
