"""Traces: what happened between the gateway and an upstream, written and read back."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from penstock import errors
from penstock.dialects.plan import UpstreamRequest
from penstock.errors import DecodeError, NetworkError, OpenResponsesError, RateLimitError, ServerError
from penstock.gateway.telemetry.traces import (
    LONGEST_BODY,
    NO_BODY,
    AnswerTrace,
    FailureTrace,
    PlanTrace,
    ReadTrace,
    RequestTrace,
    Tracer,
    decode_trace,
    read_trace,
)
from penstock.store.records import Trace
from penstock.upstream.attempts import Attempt
from tests.dialects.chat_streams import plan
from tests.gateway.fake_upstreams import FakeSource, FakeUpstream

BODY: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Hi"}],
    "tools": [
        {"type": "mcp", "server_label": "files", "authorization": "planted", "headers": {"k": "planted"}}
    ],
}


class MaskingSource(FakeSource):
    """Masks a key that the upstream repeats, also where it was cut in two."""

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:
        whole = (before + data).replace(b"sk-planted", b"**********")
        return whole[len(before) :]


def rendered(body: dict[str, Any] = BODY) -> UpstreamRequest:
    return UpstreamRequest(path="/chat/completions", body=body, data=json.dumps(body).encode())


def traced(*, is_recording: bool, request: UpstreamRequest | None = None) -> list[Trace]:
    """The traces of one attempt: asked, answered, two reads, and the end."""
    traces: list[Trace] = []
    clock = iter(range(100))
    tracer = Tracer(traces.append, is_recording=is_recording, clock=lambda: float(next(clock)))
    request = request or rendered()
    attempt = Attempt(FakeUpstream("near", []), "m", "sk-planted", 0.0, 2)
    tracer.request(attempt, plan(), request, tracer.body_of(request))
    tracer.answer(MaskingSource([]))
    tracer.read(b"data: sk-pla")
    tracer.read(b"nted\n\n")
    tracer.read(b"")
    return traces


def test_what_was_written_is_read_back() -> None:
    traces = traced(is_recording=False)
    assert [trace.kind for trace in traces] == ["request", "answer", "read", "read", "read"]
    assert [trace.time for trace in traces] == [0, 1, 2, 3, 4]
    request, answer, *reads = [decode_trace(trace) for trace in traces]
    assert isinstance(request, RequestTrace)
    assert (request.target, request.model, request.dialect, request.attempt) == ("near", "m", "chat", 2)
    assert answer == AnswerTrace(status=200, content_type="text/event-stream", request_id="up_1")
    assert reads == [ReadTrace(12), ReadTrace(6), ReadTrace(0)]
    assert [each.is_end for each in reads if isinstance(each, ReadTrace)] == [False, False, True]


@pytest.mark.parametrize("is_recording", [False, True])
def test_no_trace_contains_a_key(is_recording: bool) -> None:
    """Ask K3: neither the client's keys to its tool servers, nor one that the upstream repeats."""
    traces = traced(is_recording=is_recording)
    data = b"".join(trace.data for trace in traces)
    assert b"planted" not in data
    assert b"server_label" in data


def test_bytes_are_kept_only_where_the_gateway_records() -> None:
    assert b"".join(each.data for each in traced(is_recording=False) if each.kind == "read") == b""
    recorded = traced(is_recording=True)
    assert recorded[0].kind == "plan"
    record = decode_trace(recorded[0])
    assert isinstance(record, PlanTrace)
    assert record.target.model == "m"
    kept = b"".join(each.data for each in recorded if each.kind == "read")
    assert kept == b"data: sk-pla****\n\n"


@pytest.mark.parametrize(("is_recording", "is_kept"), [(False, False), (True, True)])
def test_a_body_that_is_too_long_is_kept_only_in_a_recording(is_recording: bool, is_kept: bool) -> None:
    """An agent sends its whole history with every turn: a day of them would fill the store."""
    long = rendered({"model": "m", "input": "x" * LONGEST_BODY})
    [trace] = [each for each in traced(is_recording=is_recording, request=long) if each.kind == "request"]
    record = decode_trace(trace)
    assert isinstance(record, RequestTrace)
    assert (record.body != NO_BODY) is is_kept
    assert trace.size == len(long.data)


def test_a_body_without_secrets_is_kept_byte_by_byte() -> None:
    data = b'{"model":  "m", "n":1e3}'
    request = replace(rendered({"model": "m", "n": 1e3}), data=data)
    traces: list[Trace] = []
    assert Tracer(traces.append).body_of(request) == data


def test_nothing_is_prepared_for_a_turn_that_is_not_stored() -> None:
    tracer, request = Tracer(None, is_recording=True), rendered()
    assert tracer.body_of(request) == b""
    tracer.request(Attempt(FakeUpstream("near", []), "m", "", 0.0, 1), plan(), request, b"")
    tracer.answer(MaskingSource([]))
    tracer.read(b"data: hello")
    tracer.failure(FAILURES[0])


FAILURES = [
    RateLimitError("slow down", status=429, retry_after=7.0),
    NetworkError("cut", phase="idle"),
    ServerError("on fire", status=500, param="input"),
]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_a_failure_is_the_same_exception_again(error: OpenResponsesError) -> None:
    traces: list[Trace] = []
    Tracer(traces.append).failure(error)
    record = decode_trace(traces[0])
    assert isinstance(record, FailureTrace)
    again = record.error()
    assert type(again) is type(error)
    for field in ("message", "status", "phase", "retry_after", "param"):
        assert getattr(again, field) == getattr(error, field), field
    assert record.is_a_break is isinstance(error, NetworkError)


@pytest.mark.parametrize("kind", ["ErrorOfALaterVersion", "PenstockError", "annotations", ""])
def test_a_failure_of_an_unknown_kind_is_the_one_that_all_are(kind: str) -> None:
    assert not hasattr(errors, "ErrorOfALaterVersion")
    assert type(FailureTrace(kind=kind, message="x").error()) is OpenResponsesError


def test_traces_of_other_versions_are_read_as_far_as_they_are_known() -> None:
    now = time.time()
    assert decode_trace(Trace("made_later", now, b"{}", 0)) is None
    earlier = decode_trace(Trace("request", now, b'{"target":"near","field_of_later":1}', 9))
    assert earlier == RequestTrace(target="near")


@pytest.mark.parametrize(
    ("kind", "empty"),
    [
        ("request", RequestTrace()),
        ("answer", AnswerTrace()),
        ("failure", FailureTrace()),
        ("plan", None),
    ],
)
def test_a_damaged_trace_is_an_error_or_an_empty_record(kind: str, empty: object) -> None:
    damaged = Trace(kind, 0.0, b'{"target": ', 0)
    with pytest.raises(DecodeError):
        decode_trace(damaged)
    assert read_trace(damaged) == empty
    assert Raw(b"null") == NO_BODY
