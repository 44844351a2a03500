"""A collector on a real socket: it decodes what it is sent with OpenTelemetry's own messages."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from penstock.demo.upstream import DemoUpstream
from penstock.gateway.gateway import Gateway
from penstock.gateway.services import Services
from penstock.gateway.settings import DEMO, Settings, TelemetrySettings
from penstock.store.memory import MemoryStore
from penstock.tokens.counter import TokenCounter
from penstock.upstream.target import Upstream
from tests.client.server import Asked, Script, Server, answer, keep
from tests.gateway.in_process import chain

ACCEPTED: Script = [answer(200, b"", connection="keep-alive"), keep]
_IDS = ("traceId", "spanId", "parentSpanId")


@dataclass
class SeenSpan:
    """A span as a collector reads it."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    state: str
    start: int
    end: int
    is_error: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]


Points = dict[tuple[tuple[str, Any], ...], float]
"""By their attributes: the value of a counter, or the number of values in a histogram."""


class OtlpCollector(Server):
    """Answers every request with this script; by default it accepts."""

    def __init__(self, script: Script = ACCEPTED) -> None:
        super().__init__()
        self.script = script

    def script_for(self, asked: Asked) -> Script:  # noqa: ARG002
        return self.script

    @property
    def bytes(self) -> bytes:
        """Everything that was received: heads and bodies, decompressed."""
        return b"\n".join(str(each.headers).encode() + body_of(each) for each in self.asked)

    @property
    def spans(self) -> list[SeenSpan]:
        return [span for asked in self.asked if asked.target.endswith("/traces") for span in spans_in(asked)]

    @property
    def turns(self) -> list[SeenSpan]:
        return [span for span in self.spans if span.kind == "SERVER"]

    @property
    def attempts(self) -> list[SeenSpan]:
        return [span for span in self.spans if span.kind == "CLIENT"]

    def points(self, name: str) -> Points:
        """The latest values of a metric, of all processes together."""
        latest: dict[str, Points] = {}
        for asked in self.asked:
            if asked.target.endswith("/metrics"):
                resource, found = metrics_in(asked)
                latest[resource["service.instance.id"]] = found.get(name, {})
        sums: Points = {}
        for points in latest.values():
            for key, value in points.items():
                sums[key] = sums.get(key, 0) + value
        return sums

    def total(self, name: str, **attributes: str) -> float:
        """The sum of a metric over all series with these attributes; dots are written as underscores."""
        return sum(
            value
            for key, value in self.points(name).items()
            if attributes.items() <= {label.replace(".", "_"): each for label, each in key}.items()
        )


def body_of(asked: Asked) -> bytes:
    return gzip.decompress(asked.body) if asked.headers.get("content-encoding") == "gzip" else asked.body


def spans_in(asked: Asked) -> list[SeenSpan]:
    request = ExportTraceServiceRequest()
    _decode(asked, request)
    found = []
    for group in request.resource_spans:
        resource = _attributes(group.resource.attributes)
        for scope in group.scope_spans:
            assert scope.scope.name == "penstock"
            found += [_seen(span, resource) for span in scope.spans]
    return found


def metrics_in(asked: Asked) -> tuple[dict[str, Any], dict[str, Points]]:
    request = ExportMetricsServiceRequest()
    _decode(asked, request)
    (group,) = request.resource_metrics
    found: dict[str, Points] = {}
    for metric in (each for scope in group.scope_metrics for each in scope.metrics):
        assert metric.unit
        assert metric.description
        if metric.HasField("sum"):
            assert metric.sum.is_monotonic
            assert metric.sum.aggregation_temporality == 2
            points = {_key(point): point.as_double for point in metric.sum.data_points}
        else:
            assert metric.histogram.aggregation_temporality == 2
            for point in metric.histogram.data_points:
                assert point.count == sum(point.bucket_counts)
                assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
                assert 0 < point.start_time_unix_nano < point.time_unix_nano
            points = {_key(point): float(point.count) for point in metric.histogram.data_points}
        found[metric.name] = points
    return _attributes(group.resource.attributes), found


def _decode(asked: Asked, message: Any) -> None:
    body = body_of(asked)
    if asked.headers["content-type"] == "application/json":
        ParseDict(_with_base64_ids(json.loads(body)), message)
    else:
        assert asked.headers["content-type"] == "application/x-protobuf"
        assert message.ParseFromString(body) == len(body)
        size = message.ByteSize()
        message.DiscardUnknownFields()
        assert message.ByteSize() == size, "every field is one of the protocol"


def _with_base64_ids(value: Any) -> Any:
    """OTLP writes ids as hexadecimal text; protobuf's own JSON mapping wants base64."""
    if isinstance(value, list):
        return [_with_base64_ids(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: msgspec.to_builtins(bytes.fromhex(each)) if name in _IDS else _with_base64_ids(each)
        for name, each in value.items()
    }


def _seen(span: Span, resource: dict[str, Any]) -> SeenSpan:
    assert span.flags & 1, "only sampled spans are exported"
    assert len({each.key for each in span.attributes}) == len(span.attributes)
    return SeenSpan(
        name=span.name,
        kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        state=span.trace_state,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        is_error=span.status.code == Status.STATUS_CODE_ERROR,
        attributes=_attributes(span.attributes),
        resource=resource,
    )


def _key(point: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(_attributes(point.attributes).items())


def _attributes(pairs: Sequence[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind or "string_value")


def variables(url: str, **more: str) -> dict[str, str]:
    """The variables for a collector. Spans are exported soon, metrics when the gateway ends."""
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "20", **more}


def traced(
    test: Callable[[Gateway], Awaitable[None]],
    *upstreams: Upstream,
    collector: OtlpCollector | None = None,
    settings: Settings | None = None,
    **more: str,
) -> OtlpCollector:
    """Run a test against a gateway that exports; return what its collector got until the gateway ended.
    `more` are variables of the environment."""

    async def run() -> OtlpCollector:
        async with collector or OtlpCollector() as running:
            found = settings or chain(*upstreams)
            if not found.telemetry.enabled:
                found = msgspec.structs.replace(found, telemetry=TelemetrySettings(enabled=True))
            gateway = Gateway(found, store=MemoryStore(), environment=variables(running.url, **more))
            if upstreams:
                known = {DEMO: DemoUpstream(pace=0), **{each.name: each for each in upstreams}}
                gateway.services = Services(found, known, gateway.metrics, TokenCounter())
            try:
                await test(gateway)
            finally:
                await gateway.aclose()
            for _ in range(10):
                await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return running

    return asyncio.run(run())


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)
