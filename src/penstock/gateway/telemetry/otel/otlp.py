"""OTLP: spans and metrics as the bodies of requests to a collector, in JSON or as protocol buffers.

An ended span is encoded at once, so that the queue holds bytes, whose size is known. A request is the
concatenation of its spans between a head and an end that are the same for all.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct

AttributeValue = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, AttributeValue]

SERVER, CLIENT = 2, 3
"""Kinds of spans."""
UNSET_STATUS, ERROR_STATUS = 0, 2
CUMULATIVE = 2
"""The values count from the start of the process, so that a lost export loses nothing."""


class OtlpSpan(Struct, frozen=True, kw_only=True):
    """Times are nanoseconds since 1970."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes = b""
    state: str = ""
    name: str
    kind: int
    start: int
    end: int
    attributes: Attributes
    status: int = UNSET_STATUS
    is_sampled: bool = True


class NumberPoint(Struct, frozen=True):
    attributes: Attributes
    value: float


class HistogramPoint(Struct, frozen=True):
    attributes: Attributes
    counts: Sequence[int]
    total: float


class OtlpMetric(Struct, frozen=True, kw_only=True):
    """A counter, or a histogram if it has bounds."""

    name: str
    description: str
    unit: str
    bounds: Sequence[float] = ()
    numbers: Sequence[NumberPoint] = ()
    histograms: Sequence[HistogramPoint] = ()


class ResourceScope(Struct, frozen=True):
    """Who sends: the service with its attributes, and the library that measures."""

    attributes: Attributes
    library: str
    version: str


class OtlpEncoding(Protocol):
    content_type: str

    def span(self, span: OtlpSpan) -> bytes: ...

    def spans(self, scope: ResourceScope, encoded: Sequence[bytes]) -> bytes:
        """Return the body of a request with these spans, which `span` has encoded."""

    def metrics(self, scope: ResourceScope, metrics: Iterable[OtlpMetric], start: int, now: int) -> bytes: ...

    def rejected(self, answer: bytes) -> int:
        """Return how many spans or data points the collector reports as rejected."""


# JSON

_Digits = Annotated[str, Meta(pattern=r"^[0-9]{1,18}$")]


class JsonEncoding:
    """Names as in the JSON mapping of protocol buffers; 64-bit numbers are strings, and ids hexadecimal."""

    content_type = "application/json"

    def span(self, span: OtlpSpan) -> bytes:
        fields: dict[str, Any] = {
            "traceId": span.trace_id.hex(),
            "spanId": span.span_id.hex(),
            "name": span.name,
            "kind": span.kind,
            "startTimeUnixNano": str(span.start),
            "endTimeUnixNano": str(span.end),
            "attributes": _attributes(span.attributes),
            "status": {"code": span.status} if span.status else {},
            "flags": int(span.is_sampled),
        }
        if span.parent_id:
            fields["parentSpanId"] = span.parent_id.hex()
        if span.state:
            fields["traceState"] = span.state
        return msgspec.json.encode(fields)

    def spans(self, scope: ResourceScope, encoded: Sequence[bytes]) -> bytes:
        spans = [msgspec.Raw(each) for each in encoded]
        group = {"resource": _resource(scope), "scopeSpans": [{"scope": _library(scope), "spans": spans}]}
        return msgspec.json.encode({"resourceSpans": [group]})

    def metrics(self, scope: ResourceScope, metrics: Iterable[OtlpMetric], start: int, now: int) -> bytes:
        times = {"startTimeUnixNano": str(start), "timeUnixNano": str(now)}
        found = [_metric(each, times) for each in metrics]
        group = {"resource": _resource(scope), "scopeMetrics": [{"scope": _library(scope), "metrics": found}]}
        return msgspec.json.encode({"resourceMetrics": [group]})

    def rejected(self, answer: bytes) -> int:
        try:
            partial = msgspec.json.decode(answer, type=_JsonAnswer).partialSuccess
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return 0
        return 0 if partial is None else max(int(partial.rejectedSpans), int(partial.rejectedDataPoints), 0)


class _JsonRejected(Struct, frozen=True):
    rejectedSpans: int | _Digits = 0  # noqa: N815 - the names of the protocol
    rejectedDataPoints: int | _Digits = 0  # noqa: N815


class _JsonAnswer(Struct, frozen=True):
    partialSuccess: _JsonRejected | None = None  # noqa: N815


def _resource(scope: ResourceScope) -> Any:
    return {"attributes": _attributes(scope.attributes)}


def _library(scope: ResourceScope) -> Any:
    return {"name": scope.library, "version": scope.version}


def _attributes(attributes: Attributes) -> list[Any]:
    return [{"key": key, "value": _any(value)} for key, value in attributes.items()]


def _any(value: AttributeValue) -> Any:
    match value:
        case str():
            return {"stringValue": value}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case _:
            return {"arrayValue": {"values": [_any(each) for each in value]}}


def _metric(metric: OtlpMetric, times: Mapping[str, str]) -> Any:
    named = {"name": metric.name, "description": metric.description, "unit": metric.unit}
    if not metric.bounds:
        numbers = [
            {"attributes": _attributes(point.attributes), **times, "asDouble": point.value}
            for point in metric.numbers
        ]
        return {
            **named,
            "sum": {"dataPoints": numbers, "aggregationTemporality": CUMULATIVE, "isMonotonic": True},
        }
    histograms = [
        {
            "attributes": _attributes(point.attributes),
            **times,
            "count": str(sum(point.counts)),
            "sum": point.total,
            "bucketCounts": [str(count) for count in point.counts],
            "explicitBounds": list(metric.bounds),
        }
        for point in metric.histograms
    ]
    return {**named, "histogram": {"dataPoints": histograms, "aggregationTemporality": CUMULATIVE}}


# Protocol buffers


def _varint(number: int) -> bytes:
    number &= 0xFFFF_FFFF_FFFF_FFFF  # a negative number is written in ten bytes
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


_SHORT = [_varint(number) for number in range(1024)]
"""Most lengths are short."""


def _length(number: int) -> bytes:
    return _SHORT[number] if number < 1024 else _varint(number)


def _data(field: int, data: bytes) -> bytes:
    """Return a field that has a length: text, bytes, another message, packed numbers."""
    return b"%c%b%b" % (field << 3 | 2, _length(len(data)), data)


def _text(field: int, text: str) -> bytes:
    return _data(field, text.encode())


def _number(field: int, number: int) -> bytes:
    return b"%c%b" % (field << 3, _length(number))


def _fixed64(field: int, number: int) -> bytes:
    return struct.pack("<BQ", field << 3 | 1, number)


def _double(field: int, number: float) -> bytes:
    return struct.pack("<Bd", field << 3 | 1, number)


def _any_message(value: AttributeValue) -> bytes:
    match value:
        case str():
            return _text(1, value)
        case bool():
            return b"\x10\x01" if value else b"\x10\x00"
        case int():
            return b"\x18" + _varint(value)
        case float():
            return _double(4, value)
        case _:
            return _data(5, b"".join(_data(1, _any_message(each)) for each in value))


_KEYS: dict[str, bytes] = {}
"""The encoded keys of attributes. Their number is small: only the operator adds others, to the resource."""


def _attribute_messages(field: int, attributes: Attributes) -> bytes:
    pieces = []
    for key, value in attributes.items():
        encoded = _KEYS.get(key)
        if encoded is None:
            encoded = _KEYS[key] = _text(1, key)
        message = _any_message(value)
        pieces.append(_data(field, b"%b\x12%b%b" % (encoded, _length(len(message)), message)))
    return b"".join(pieces)


class ProtobufEncoding:
    """The messages of opentelemetry-proto 1.x. The numbers are those of its fields, which never change."""

    content_type = "application/x-protobuf"

    def span(self, span: OtlpSpan) -> bytes:
        return b"".join(
            (
                _data(1, span.trace_id),
                _data(2, span.span_id),
                _text(3, span.state) if span.state else b"",
                _data(4, span.parent_id) if span.parent_id else b"",
                _text(5, span.name),
                _number(6, span.kind),
                _fixed64(7, span.start),
                _fixed64(8, span.end),
                _attribute_messages(9, span.attributes),
                _data(15, _number(3, span.status)) if span.status else b"",
                # Field 16 has a tag of two bytes.
                struct.pack("<HI", 0x0185, int(span.is_sampled)),
            )
        )

    def spans(self, scope: ResourceScope, encoded: Sequence[bytes]) -> bytes:
        spans = b"".join(_data(2, each) for each in encoded)
        return _data(1, _data(1, _attribute_messages(1, scope.attributes)) + _data(2, _scoped(scope, spans)))

    def metrics(self, scope: ResourceScope, metrics: Iterable[OtlpMetric], start: int, now: int) -> bytes:
        times = _fixed64(2, start) + _fixed64(3, now)
        found = b"".join(_data(2, _metric_message(each, times)) for each in metrics)
        return _data(1, _data(1, _attribute_messages(1, scope.attributes)) + _data(2, _scoped(scope, found)))

    def rejected(self, answer: bytes) -> int:
        """Field 1 of the answer is `partial_success`, and its field 1 the number."""
        try:
            partial = _field(1, answer)
            found = _field(1, partial) if isinstance(partial, bytes) else None
        except (IndexError, ValueError):
            return 0
        return found if isinstance(found, int) and found < 2**63 else 0


def _field(wanted: int, message: bytes) -> int | bytes | None:
    """Return a field of a message; None if it has none. Raise `ValueError` or `IndexError` if the message is
    damaged."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        value: int | bytes
        if tag & 7 == 0:
            value, at = _read_varint(message, at)
        elif tag & 7 == 2:
            length, at = _read_varint(message, at)
            value, at = message[at : at + length], at + length
        else:
            raise ValueError("the field is of no type that an answer has")
        if tag >> 3 == wanted:
            return value
    return None


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
        if shift > 63:
            raise ValueError("the number is too long")


def _scoped(scope: ResourceScope, content: bytes) -> bytes:
    return _data(1, _text(1, scope.library) + _text(2, scope.version)) + content


def _metric_message(metric: OtlpMetric, times: bytes) -> bytes:
    named = _text(1, metric.name) + _text(2, metric.description) + _text(3, metric.unit)
    if not metric.bounds:
        points = b"".join(
            _data(1, _attribute_messages(7, point.attributes) + times + _double(4, point.value))
            for point in metric.numbers
        )
        return named + _data(7, points + _number(2, CUMULATIVE) + _number(3, 1))
    bounds = _data(7, struct.pack(f"<{len(metric.bounds)}d", *metric.bounds))
    points = b"".join(
        _data(
            1,
            _attribute_messages(9, point.attributes)
            + times
            + _fixed64(4, sum(point.counts))
            + _double(5, point.total)
            + _data(6, struct.pack(f"<{len(point.counts)}Q", *point.counts))
            + bounds,
        )
        for point in metric.histograms
    )
    return named + _data(9, points + _number(2, CUMULATIVE))


ENCODINGS: Mapping[str, OtlpEncoding] = {"http/protobuf": ProtobufEncoding(), "http/json": JsonEncoding()}
"""The values of `OTEL_EXPORTER_OTLP_PROTOCOL`, the default first."""
