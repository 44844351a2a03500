"""OTLP as a collector reads it: OpenTelemetry's own messages decode what is sent, in both encodings."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from penstock.gateway.telemetry.otel.otlp import (
    CLIENT,
    ENCODINGS,
    ERROR_STATUS,
    Attributes,
    HistogramPoint,
    NumberPoint,
    OtlpEncoding,
    OtlpMetric,
    OtlpSpan,
    ResourceScope,
)
from tests.client.server import Asked
from tests.effort import examples
from tests.gateway.telemetry.otel.collector import metrics_in, spans_in

SCOPE = ResourceScope({"service.name": "penstock", "service.instance.id": "one"}, "penstock", "1.0")

both = pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=["protobuf", "json"])

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
values = st.one_of(
    text,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(text, max_size=3),
)


def asked(encoding: OtlpEncoding, body: bytes, signal: str = "traces") -> Asked:
    return Asked("POST", f"/v1/{signal}", {"content-type": encoding.content_type}, body)


@both
@settings(max_examples=examples(60))
@given(
    name=text,
    attributes=st.dictionaries(text, values, max_size=5),
    state=st.sampled_from(["", "a=1"]),
    parent=st.sampled_from([b"", b"parent_1"]),
    times=st.tuples(st.integers(0, 2**63), st.integers(0, 2**63)),
)
def test_every_span_is_read_as_it_was(encoding: OtlpEncoding, **given: Any) -> None:
    start, end = given["times"]
    span = OtlpSpan(
        trace_id=b"trace_0123456789",
        span_id=b"span_012",
        parent_id=given["parent"],
        state=given["state"],
        name=given["name"],
        kind=CLIENT,
        start=start,
        end=end,
        attributes=given["attributes"],
        status=ERROR_STATUS,
    )
    body = encoding.spans(SCOPE, [encoding.span(span)] * 2)
    seen, _ = spans_in(asked(encoding, body))
    assert (seen.trace_id, seen.span_id) == (span.trace_id.hex(), span.span_id.hex())
    assert (seen.parent_id, seen.state) == (span.parent_id.hex(), span.state)
    assert (seen.name, seen.kind, seen.is_error) == (span.name, "CLIENT", True)
    assert (seen.start, seen.end) == (start, end)
    assert seen.attributes == span.attributes
    assert seen.resource == SCOPE.attributes


def test_a_number_and_a_flag_keep_their_types() -> None:
    for encoding in ENCODINGS.values():
        attributes: Attributes = {"flag": True, "whole": 1, "float": 1.0, "text": "1"}
        span = OtlpSpan(
            trace_id=b"t" * 16, span_id=b"s" * 8, name="n", kind=CLIENT, start=1, end=2, attributes=attributes
        )
        (seen,) = spans_in(asked(encoding, encoding.spans(SCOPE, [encoding.span(span)])))
        assert [type(each) for each in seen.attributes.values()] == [bool, int, float, str]


@both
@given(counts=st.lists(st.integers(0, 2**40), min_size=3, max_size=3), total=st.floats(0, 1e12))
def test_metrics_are_read_as_they_were(encoding: OtlpEncoding, counts: list[int], total: float) -> None:
    counter = OtlpMetric(
        name="c", description="d", unit="{x}", numbers=[NumberPoint({"a": "b"}, total), NumberPoint({}, 2.0)]
    )
    histogram = OtlpMetric(
        name="h",
        description="d",
        unit="s",
        bounds=(0.1, 5.0),
        histograms=[HistogramPoint({"a": "b"}, counts, total)],
    )
    body = encoding.metrics(SCOPE, [counter, histogram], 10, 20)
    resource, found = metrics_in(asked(encoding, body, "metrics"))
    assert resource == SCOPE.attributes
    assert found["c"] == {(("a", "b"),): total, (): 2.0}
    assert found["h"] == {(("a", "b"),): sum(counts)}


def test_both_encodings_say_the_same() -> None:
    span = OtlpSpan(
        trace_id=b"t" * 16, span_id=b"s" * 8, name="n", kind=CLIENT, start=1, end=2, attributes={"a": ["b"]}
    )
    one, other = (spans_in(asked(each, each.spans(SCOPE, [each.span(span)]))) for each in ENCODINGS.values())
    assert one == other


@pytest.mark.parametrize("number", [0, 1, 127, 128, 70_000, 2**62])
def test_the_number_of_rejected_spans_is_read(number: int) -> None:
    protobuf, as_json = ENCODINGS.values()
    answer = ExportTraceServiceResponse()
    answer.partial_success.error_message = "no"
    answer.partial_success.rejected_spans = number
    assert protobuf.rejected(answer.SerializeToString()) == number
    of_metrics = ExportMetricsServiceResponse()
    of_metrics.partial_success.rejected_data_points = number
    assert protobuf.rejected(of_metrics.SerializeToString()) == number
    for written in (number, str(number)):
        for name in ("rejectedSpans", "rejectedDataPoints"):
            partial = {name: written, "errorMessage": "no"}
            wanted = number if number < 10**18 or isinstance(written, int) else 0
            assert as_json.rejected(json.dumps({"partialSuccess": partial}).encode()) == wanted


@both
@given(data=st.binary(max_size=40))
def test_no_answer_of_a_collector_raises(encoding: OtlpEncoding, data: bytes) -> None:
    assert encoding.rejected(data) >= 0


@both
@pytest.mark.parametrize("answer", [b"", b"{}", b"<html>", b"\xff" * 100, b"\x0a\xff", b"[" * 100_000])
def test_other_answers_reject_nothing(encoding: OtlpEncoding, answer: bytes) -> None:
    assert encoding.rejected(answer) == 0


def test_an_infinite_number_can_be_encoded() -> None:
    for encoding in ENCODINGS.values():
        metric = OtlpMetric(name="c", description="d", unit="s", numbers=[NumberPoint({}, math.inf)])
        assert encoding.metrics(SCOPE, [metric], 1, 2)
