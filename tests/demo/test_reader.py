"""Reading the demo model's frames."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.demo import DIALECT
from penstock.protocol.wire import to_builtins
from penstock.sse import Frame
from penstock.stream.deltas import ErrorDelta, FinishDelta
from tests.demo.asking import (
    WEATHER,
    RecordedSleep,
    events_of,
    plan_for,
    reads_of,
)
from tests.dialects.recording_checks import json_with
from tests.effort import examples


def test_a_complete_body_reads_like_the_stream() -> None:
    plan = plan_for("The weather in Ulm? Think.", tools=[WEATHER])
    data = b"".join(asyncio.run(reads_of(plan, RecordedSleep())))
    reader = DIALECT.reader(plan)
    streamed = [
        delta
        for line in data.decode().splitlines()
        if line
        for delta in reader.feed(Frame(None, line.removeprefix("data: ")))
    ]
    assert DIALECT.read_body(plan, data) == streamed + reader.end()
    assert reader.is_over
    assert isinstance(streamed[-1], FinishDelta)


def test_an_empty_answer_is_an_error() -> None:
    plan = plan_for("Hello.")
    assert DIALECT.read_body(plan, b"") == [
        ErrorDelta("upstream_empty", "the demo model sent an empty answer")
    ]


def test_an_answer_without_a_finish_reason_is_an_error() -> None:
    deltas = DIALECT.read_body(plan_for("Hello."), b'data: {"say": "a"}\n\n')
    assert deltas[-1] == ErrorDelta(
        "upstream_truncated", "the demo model stopped before the end of its answer"
    )


def test_an_unknown_frame_is_reported() -> None:
    plan = plan_for("Hello.")
    events = events_of(plan, b'data: {"sing": "la"}\n\ndata: {"stop": "stop"}\n\n')
    diagnostics = to_builtins(events[-1])["response"]["diagnostics"]
    assert [each["code"] for each in diagnostics] == ["unknown_frame"]


def test_failures_are_classified_like_those_of_other_upstreams() -> None:
    assert DIALECT.classify(429, {}, b"").code == "rate_limit_exceeded"


_words = [
    "think",
    "say",
    "call",
    "usage",
    "stop",
    "error",
    "cite",
    "seal",
    "key",
    "id",
    "name",
    "input",
    "end",
]


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(json_with([*_words, "logprobs", "part"], ["stop", "length", "get_weather"]), max_size=5))
def test_any_frames_make_a_lawful_stream(frames: list[Any]) -> None:
    data = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames)
    events_of(plan_for("Hello.", tools=[WEATHER]), data)
