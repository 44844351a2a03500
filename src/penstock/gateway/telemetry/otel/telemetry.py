"""Telemetry of a gateway: one span for each turn and each attempt, and metrics.

A turn's spans are built and encoded once, after its client has got its end; exports happen in tasks of their
own (`export`). Content is converted in a thread, because searching it for secrets takes milliseconds.
Whatever fails here is logged and has no effect on a turn.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from time import time_ns
from uuid import uuid4

from penstock.errors import ConfigError, OpenResponsesError
from penstock.fairness import HEAVY, run_heavy
from penstock.gateway.http.exchange import ClientRequest
from penstock.gateway.settings import Settings
from penstock.gateway.telemetry.logs import log_fault
from penstock.gateway.telemetry.metrics import Metrics
from penstock.gateway.telemetry.otel.attributes import (
    ATTEMPT,
    NO_SERVER,
    OPERATION,
    TURN,
    EndedAttempt,
    EndedTurn,
    GenAiServer,
    attributes_of,
    finish_reasons,
    is_error,
)
from penstock.gateway.telemetry.otel.content import content_of
from penstock.gateway.telemetry.otel.export import DROPPED, Collector, MetricExporter, SpanExporter, close_all
from penstock.gateway.telemetry.otel.instruments import EJECTIONS, INSTRUMENTS, otlp_metrics, record_turn
from penstock.gateway.telemetry.otel.otlp import (
    CLIENT,
    ERROR_STATUS,
    SERVER,
    UNSET_STATUS,
    Attributes,
    OtlpSpan,
    ResourceScope,
)
from penstock.gateway.telemetry.otel.trace_context import client_context, joined
from penstock.gateway.telemetry.otel.turn_trace import TurnTrace, genai_servers
from penstock.gateway.telemetry.otel.variables import OtelVariables, OtlpEndpoint, Signal, read_variables
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import Verdict, shown
from penstock.net.masking import Secrets, secrets_in, secrets_of
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import Response
from penstock.version import VERSION

LIBRARY = "penstock"
FLUSH = 5.0
"""The longest time that a shutdown waits for exports, in seconds."""
_LEAST_FLUSH = 1.0
_MOST_CONVERTED = 64
"""Turns whose content is being converted at a time. Further turns are exported without it."""
_INSTANCE = "service.instance.id"


def open_telemetry(settings: Settings, metrics: Metrics, environment: Mapping[str, str]) -> Telemetry | None:
    """Return the telemetry that the settings and the environment ask for; None if `OTEL_SDK_DISABLED` turns
    it off. Raise `ConfigError` for variables that cannot be used."""
    variables = read_variables(environment)
    return None if variables.is_disabled else Telemetry(settings, variables, metrics)


class Telemetry:
    """Belongs to one event loop. `metrics` are those of the gateway: they count what is exported and dropped.
    `clock` returns nanoseconds since 1970."""

    def __init__(
        self,
        settings: Settings,
        variables: OtelVariables,
        metrics: Metrics,
        *,
        clock: Callable[[], int] = time_ns,
    ) -> None:
        self._settings, self._sampler, self._clock = settings, variables.sampler, clock
        self._registry = Metrics(INSTRUMENTS)
        self._started = clock()
        self._scope = ResourceScope(_resource(variables, settings), LIBRARY, VERSION)
        self._collectors = {signal: _collector(signal, each) for signal, each in variables.endpoints.items()}
        self._counters = metrics
        self._converting: set[asyncio.Task[None]] = set()
        self._spans: SpanExporter | None = None
        self._metrics: MetricExporter | None = None
        if traces := self._collectors.get("traces"):
            self._spans = SpanExporter(traces, self._scope, variables, metrics)
        if collector := self._collectors.get("metrics"):
            self._metrics = MetricExporter(collector, self._metrics_body, variables.metric_interval, metrics)
        self._servers: dict[str, GenAiServer] = {}
        self.use(settings)

    def use(self, settings: Settings) -> None:
        """Use new settings for turns that begin or end from now on."""
        self._settings = settings
        self._servers = genai_servers(settings.targets)

    def begin(
        self, exchange: ClientRequest, request: CreateResponse, watch: Stopwatch, verdict: Verdict
    ) -> TurnTrace:
        """Return the trace of a turn: the client's, or a new one."""
        parent = client_context(exchange.headers, request)
        context = joined(parent, self._sampler)
        verdict.trace_id = context.trace_id.hex()
        telemetry = self._settings.telemetry
        return TurnTrace(
            context,
            parent,
            request,
            watch,
            is_propagated=telemetry.propagate,
            user_agent=shown(exchange.headers.get("user-agent", "")),
            secrets=tuple(secrets_of(secrets_in(exchange.headers))) if telemetry.content else (),
            clock=self._clock,
        )

    def end(
        self,
        trace: TurnTrace,
        verdict: Verdict,
        response: Response,
        *,
        cost: float | None = None,
        is_public: bool = True,
        is_counted: bool = True,
    ) -> None:
        """Export the spans of a turn, and count it. `is_public`: see `record_turn`. `is_counted`: whether the
        ledger has a record of the turn."""
        try:
            trace.conclude(verdict)
            for attempt in trace.attempts:
                attempt.server = self._servers.get(attempt.target, NO_SERVER)
            turn = EndedTurn(
                verdict=verdict,
                request=trace.request,
                response=response,
                server=self._servers.get(verdict.target, NO_SERVER),
                user_agent=trace.user_agent,
                cost=cost,
            )
            if is_counted and self._metrics is not None:
                record_turn(self._registry, turn, trace.attempts, is_public=is_public)
                self._metrics.start()
            if self._spans is None or not trace.context.is_sampled:
                return
            if self._settings.telemetry.content and self._may_convert():
                task = asyncio.create_task(self._add_with_content(self._spans, trace, turn))
                self._converting.add(task)
                task.add_done_callback(self._converting.discard)
            else:
                _add(self._spans, trace, turn, {})
        except Exception as error:
            log_fault(error, verdict.request_id)

    def count_ejection(self, target: str) -> None:
        """Count that a target is left out for a while."""
        if self._metrics is not None:
            self._registry.count(EJECTIONS, **{"penstock.target": target})
            self._metrics.start()

    def _may_convert(self) -> bool:
        if len(self._converting) < _MOST_CONVERTED:
            return True
        self._counters.count(DROPPED, signal="traces", reason="content")
        return False

    async def _add_with_content(self, exporter: SpanExporter, trace: TurnTrace, turn: EndedTurn) -> None:
        reason = next(iter(finish_reasons(turn.response)), turn.verdict.outcome)
        of_targets = [each for target in self._settings.targets for each in (*target.keys, *target.secrets)]
        content: dict[str, str] = {}
        try:
            secrets = Secrets([*trace.secrets, *secrets_of(of_targets)])
            content = await run_heavy(HEAVY, content_of, turn.request, turn.response, reason, secrets.mask)
        except Exception as error:  # the span is worth more
            log_fault(error, turn.verdict.request_id)
        try:
            _add(exporter, trace, turn, content)
        except Exception as error:
            log_fault(error, turn.verdict.request_id)

    def _metrics_body(self) -> bytes:
        found = list(otlp_metrics(self._registry))
        if not found:
            return b""
        encoding = self._collectors["metrics"].encoding
        return encoding.metrics(self._scope, found, self._started, self._clock())

    async def aclose(self) -> None:
        """Export what is left, for a limited time, and close the connections."""
        clock = asyncio.get_running_loop().time
        until = clock() + min(FLUSH, max(self._settings.limits.drain, _LEAST_FLUSH))
        if self._converting:
            _, late = await asyncio.wait(self._converting, timeout=until - clock())
            for task in late:
                task.cancel()
        exporters = [each for each in (self._spans, self._metrics) if each is not None]
        await close_all(exporters, list(self._collectors.values()), max(until - clock(), 0.0))


def _add(exporter: SpanExporter, trace: TurnTrace, turn: EndedTurn, content: Attributes) -> None:
    """Export the spans of a turn."""
    end = trace.start + turn.verdict.duration_ms * 1_000_000
    for attempt in trace.attempts:
        span = _attempt_span(trace, attempt)
        end = max(end, span.end)  # the verdict's duration is rounded
        exporter.add(span)
    exporter.add(_turn_span(trace, turn, end, content))


def _turn_span(trace: TurnTrace, turn: EndedTurn, end: int, content: Attributes) -> OtlpSpan:
    context = trace.context
    return OtlpSpan(
        trace_id=context.trace_id,
        span_id=context.span_id,
        parent_id=trace.parent.span_id if trace.parent is not None else b"",
        state=context.state,
        name=f"{OPERATION} {turn.verdict.model}",
        kind=SERVER,
        start=trace.start,
        end=end,
        attributes={**attributes_of(TURN, turn), **content},
        status=ERROR_STATUS if is_error(turn.verdict) else UNSET_STATUS,
    )


def _attempt_span(trace: TurnTrace, attempt: EndedAttempt) -> OtlpSpan:
    ended = attempt.began if attempt.ended is None else attempt.ended
    return OtlpSpan(
        trace_id=trace.context.trace_id,
        span_id=attempt.span_id,
        parent_id=trace.context.span_id,
        state=trace.context.state,
        name=f"{OPERATION} {attempt.model}",
        kind=CLIENT,
        start=trace.start + round(attempt.began * 1e9),
        end=trace.start + round(ended * 1e9),
        attributes=attributes_of(ATTEMPT, attempt),
        status=ERROR_STATUS if attempt.is_failed else UNSET_STATUS,
    )


def _resource(variables: OtelVariables, settings: Settings) -> dict[str, str]:
    """Return the attributes of this process. Each worker is an instance of its own: collectors would mix up
    the numbers of two processes under one name."""
    found = {
        "service.name": LIBRARY,
        "service.version": VERSION,
        _INSTANCE: str(uuid4()),
        "telemetry.sdk.name": LIBRARY,
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": VERSION,
        # A variable may contain bytes that are not UTF-8.
        **{name: _clean(value) for name, value in variables.resource.items()},
    }
    if _INSTANCE in variables.resource and settings.workers != 1:
        found[_INSTANCE] += f"-{os.getpid()}"
    return found


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _collector(signal: Signal, endpoint: OtlpEndpoint) -> Collector:
    try:
        return Collector(endpoint)
    except OpenResponsesError as error:  # an invalid proxy, for example
        raise ConfigError(f"the export of {signal}", 0, error.message) from None
