"""The pipeline: from an upstream's bytes to the events of a lawful stream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.chat import DIALECT
from penstock.dialects.pipeline import FRAMES_AT_ONCE, MOST_DELTAS, Pipeline
from penstock.errors import BridgeError, FrameTooLarge, OpenResponsesError, RateLimitError
from penstock.protocol.errors import Diagnostic
from penstock.protocol.events import TERMINAL, Event
from penstock.protocol.response import response_for
from penstock.protocol.wire import to_builtins
from penstock.sse import Frame
from penstock.stream.deltas import Delta, TextDelta, ToolCallDelta, UpstreamInfo, UsageDelta
from penstock.stream.machine import ResponseStreamStateMachine
from tests.dialects.chat_streams import chunk, plan
from tests.effort import examples
from tests.stream.running import assert_lawful

INFO = chunk(id="c-1", model="upstream-model")
HELLO = chunk({"content": "Hello"})
STOP = chunk(finish="stop")
USAGE = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
ERROR = {"error": {"code": "rate_limit_exceeded", "message": "Slow down.", "type": "rate_limit_error"}}


def sse(*chunks: Any, done: bool = False) -> bytes:
    data = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks)
    return data + b"data: [DONE]\n\n" if done else data


def opened(*, content_type: str = "text/event-stream", **hooks: Any) -> Pipeline:
    response = response_for(plan().request, id="resp_1", created_at=0, model="m")
    pipeline = Pipeline(ResponseStreamStateMachine(response, clock=lambda: 0), **hooks)
    pipeline.open(DIALECT, plan(), content_type=content_type)
    return pipeline


def types(events: list[Event]) -> list[str]:
    return [event.type.removeprefix("response.") for event in events]


def last(events: list[Event]) -> dict[str, Any]:
    response: dict[str, Any] = to_builtins(events[-1])["response"]
    return response


STREAM = sse(INFO, HELLO, chunk({"content": " there"}), STOP, USAGE, done=True)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=8).map(sorted), st.integers(0, len(STREAM)))
def test_splitting_the_bytes_changes_nothing_and_every_stream_ends_once(cuts: list[int], size: int) -> None:
    """`size`: the upstream is cut off after this many bytes."""
    data = STREAM[:size]
    unsplit, split = opened(), opened()
    expected = unsplit.start() + unsplit.feed(data) + unsplit.end()
    ends = [*[min(each, size) for each in cuts], size]
    pieces = [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    events = split.start() + [event for piece in pieces for event in split.feed(piece)] + split.end()
    assert [to_builtins(event) for event in events] == [to_builtins(event) for event in expected]
    assert [event.type for event in events if event.type in TERMINAL] == [events[-1].type]
    assert_lawful(events)


def test_nothing_after_the_end_is_read() -> None:
    pipeline = opened()
    events = pipeline.feed(STREAM + sse(chunk({"content": "more"})))
    assert types(events)[-1] == "completed"
    assert pipeline.feed(sse(HELLO)) == [] == pipeline.end()
    assert (pipeline.fail("x", "y"), pipeline.cancel(), pipeline.heartbeat()) == ([], [], [])
    assert "more" not in str(last(events))


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
@pytest.mark.parametrize("is_repeated", [True, False])
def test_a_large_read_is_translated_a_few_frames_at_a_time(field: str, is_repeated: bool) -> None:
    """Whether or not the chunks repeat everything but their text."""
    most, count = 128, 40 * FRAMES_AT_ONCE
    chunks = [chunk({field: str(number)}, id="c" if is_repeated else f"c{number}") for number in range(count)]
    pipeline = opened()
    steps = list(pipeline.read(sse(*chunks)))
    assert max(map(len, steps)) <= most
    deltas = [event for step in steps for event in types(step) if event.endswith(".delta")]
    assert len(deltas) == count


# Before the first output


def test_an_attempt_without_output_can_be_replaced() -> None:
    pipeline = opened()
    pipeline.prepare([Diagnostic(code="one", message="of the first")])
    assert types([event for each in pipeline.read(sse(INFO)) for event in each]) == ["created", "in_progress"]
    with pytest.raises(RateLimitError, match=r"Slow down\."):
        list(pipeline.read(sse(ERROR)))
    assert not pipeline.has_output

    pipeline.prepare([Diagnostic(code="two", message="of the second")])
    pipeline.open(DIALECT, plan())
    response = last(pipeline.feed(sse(HELLO, STOP, done=True)))
    assert [each["code"] for each in response["diagnostics"]] == ["two"]
    assert (response["status"], response["model"]) == ("completed", "m")


def test_a_failed_attempt_keeps_its_diagnostics_and_usage() -> None:
    pipeline = opened()
    pipeline.prepare([Diagnostic(code="dropped", message="a field")])
    events = pipeline.feed(sse({**INFO, **USAGE}, ERROR))
    assert types(events) == ["created", "in_progress", "error", "failed"]
    response = last(events)
    assert response["error"]["code"] == "rate_limit_exceeded"
    assert (response["usage"]["input_tokens"], response["diagnostics"][0]["code"]) == (3, "dropped")


def test_a_failure_after_output_is_reported_by_finish() -> None:
    """So that the caller can act before the terminal event."""
    pipeline = opened()
    events = [event for each in pipeline.read(sse(HELLO, ERROR, HELLO)) for event in each]
    assert types(events)[-1] == "output_text.delta"
    assert (pipeline.has_output, pipeline.is_answered) == (True, True)
    assert isinstance(pipeline.failure, RateLimitError)
    assert types(pipeline.read_end() + pipeline.finish())[-1] == "failed"


# Ends


def test_a_disconnect_after_output_passes_on_what_was_received() -> None:
    pipeline = opened()
    data = sse(HELLO, chunk({"content": " you"}))
    events = [event for each in pipeline.read(data.rstrip(b"\n")) for event in each] + pipeline.read_cut()
    assert [to_builtins(each)["delta"] for each in events if each.type.endswith("delta")] == ["Hello", " you"]
    assert (pipeline.has_finished, pipeline.is_over) == (False, False)


def test_a_disconnect_before_output_passes_on_nothing_unless_the_model_had_finished() -> None:
    begun, finished = opened(), opened()
    for pipeline, data in ((begun, sse(INFO)), (finished, sse(INFO, STOP))):
        list(pipeline.read(data))
        pipeline.read_cut()
    assert (begun.has_finished, finished.has_finished) == (False, True)
    assert types(finished.finish()) == ["completed"]


def test_a_partial_frame_at_the_end_is_a_truncation_and_not_invalid_json() -> None:
    pipeline = opened()
    events = pipeline.feed(sse(HELLO) + b'data: {"choices": [{"delta": {"conte') + pipeline.end()
    assert last(events)["error"]["code"] == "upstream_truncated"


class OversizedDecoder:
    """A decoder that finds at the end that its last frame is too large."""

    def feed(self, _: bytes) -> list[Frame]:
        return []

    def end(self) -> list[Frame]:
        raise FrameTooLarge(1000)


def test_an_oversized_frame_at_the_end_fails_the_stream() -> None:
    pipeline = opened()
    pipeline.open(DIALECT, plan(), decoder=OversizedDecoder())
    events = pipeline.feed(b"x") + pipeline.end()
    assert last(events)["error"]["code"] == "upstream_invalid"


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
def test_an_answer_larger_than_the_limit_fails(monkeypatch: pytest.MonkeyPatch, content_type: str) -> None:
    monkeypatch.setattr("penstock.dialects.pipeline.DEFAULT_LIMIT", 100)
    pipeline = opened(content_type=content_type)
    data = b"{" if content_type == "application/json" else b"data: {"
    assert types(pipeline.feed(data)) == []
    events = pipeline.feed(b"x" * 100)
    assert last(events)["error"]["code"] == "upstream_invalid"
    assert "100 bytes" in last(events)["error"]["message"]
    assert pipeline.finish() == []


class RefusingMachine(ResponseStreamStateMachine):
    """Refuses one delta."""

    def apply(self, delta: Delta) -> list[Event]:
        if isinstance(delta, TextDelta) and delta.text == "no":
            raise BridgeError("bridge.stream.illegal", "not this one")
        return super().apply(delta)


def test_a_delta_that_the_machine_refuses_fails_only_the_stream() -> None:
    response = response_for(plan().request, id="resp_1", created_at=0)
    pipeline = Pipeline(RefusingMachine(response, clock=lambda: 0))
    pipeline.open(DIALECT, plan())
    events = pipeline.feed(sse(HELLO, chunk({"content": "no"}), HELLO)) + pipeline.end()
    assert_lawful(events)
    final = last(events)
    assert (final["status"], final["error"]["code"]) == ("failed", "upstream_invalid")
    assert final["output"][0]["content"][0]["text"] == "Hello"


def test_an_answer_that_is_not_a_stream_is_read_as_a_document() -> None:
    body = {"id": "c", "model": "m2", "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    pipeline = opened(content_type="application/json")
    data = json.dumps(body).encode()
    events = pipeline.feed(b"\n" + data[:9]) + pipeline.feed(data[9:]) + pipeline.end()
    assert (last(events)["status"], last(events)["model"]) == ("completed", "m2")
    streamed = opened(
        content_type="application/json"
    )  # a stream without its content type is still read as a stream
    assert last(streamed.feed(STREAM))["status"] == "completed"


# Hooks


def test_the_retry_time_and_the_request_id_are_added_to_the_message() -> None:
    pipeline = opened(sign=lambda message: f"{message} (request 7)")
    events = pipeline.fail("rate_limit_exceeded", "Too fast.", retry_after=2.5)
    assert last(events)["error"]["message"] == "Too fast. Please try again in 2.5s. (request 7)"


@pytest.mark.parametrize(
    ("reported", "counted", "used"),
    [
        (None, UsageDelta(input_tokens=7, output_tokens=5), (7, 5, True)),
        ((3, 2), UsageDelta(input_tokens=7, output_tokens=3), (3, 2, False)),
        ((3, 0), UsageDelta(input_tokens=7, output_tokens=5), (3, 5, True)),
        (None, None, None),
    ],
)
def test_missing_usage_is_estimated(
    reported: tuple[int, int] | None, counted: UsageDelta | None, used: tuple[int, int, bool] | None
) -> None:
    pipeline = opened(estimate=lambda: counted)
    usage = {"prompt_tokens": reported[0], "completion_tokens": reported[1]} if reported else {}
    response = last(
        pipeline.feed(sse(HELLO, STOP, {"choices": [], "usage": usage} if reported else HELLO, done=True))
    )
    if used is None:
        assert response["usage"] is None
    else:
        assert (response["usage"]["input_tokens"], response["usage"]["output_tokens"]) == used[:2]
        assert pipeline.usage_is_estimated is used[2]


def test_upstream_information_passes_through_the_mask() -> None:
    def mask(deltas: list[Delta]) -> list[Delta]:
        return [UpstreamInfo("[key]", "m") if isinstance(each, UpstreamInfo) else each for each in deltas]

    pipeline = opened()
    pipeline.open(DIALECT, plan(), mask=mask)
    pipeline.feed(sse(INFO, HELLO))
    assert pipeline.upstream_id == "[key]"


def test_cancel_and_heartbeat_work_at_any_time() -> None:
    idle, begun = opened(), opened()
    assert types(idle.cancel()) == ["created", "in_progress", "incomplete"]
    begun.feed(sse(HELLO))
    assert types(begun.heartbeat()) == ["in_progress"]
    events = begun.cancel()
    assert (types(events)[-1], last(events)["incomplete_details"]["reason"]) == ("incomplete", "cancelled")


def test_an_error_in_a_long_first_read_raises_before_the_stream_begins() -> None:
    long_error = {"error": {**ERROR["error"], "message": "Slow down. " * 500}}
    for between in (b"", b": processing\n\n" * 2 * FRAMES_AT_ONCE):
        pipeline = opened()
        with pytest.raises(RateLimitError):
            list(pipeline.read(sse(INFO) + between + sse(long_error)))
        assert pipeline.is_idle


def test_an_invalid_frame_before_output_raises_for_another_target() -> None:
    pipeline = opened()
    with pytest.raises(OpenResponsesError):
        list(pipeline.read(b"data: no json\n\n"))
    assert pipeline.is_idle


def test_every_snapshot_echoes_what_the_last_attempt_sent() -> None:
    """Field F16."""
    pipeline = opened()
    pipeline.prepare(echo={"service_tier": "default"})
    first = pipeline.start()
    pipeline.prepare(echo={"service_tier": "flex"})
    events = first + pipeline.feed(STREAM)
    tiers = [to_builtins(event)["response"]["service_tier"] for event in events if hasattr(event, "response")]
    assert (tiers[0], tiers[-1]) == ("default", "flex")


def test_a_mask_sees_every_delta_that_can_contain_a_secret() -> None:
    seen: list[Delta] = []

    def mask(deltas: list[Delta]) -> list[Delta]:
        seen.extend(deltas)
        return deltas

    pipeline = opened()
    pipeline.open(DIALECT, plan(), mask=mask)
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}
    fragment = {"index": 0, "function": {"arguments": "}"}}
    for each in (INFO, HELLO, chunk({"tool_calls": [call]}), chunk({"tool_calls": [fragment]})):
        pipeline.feed(sse(each))
    assert seen == [
        UpstreamInfo("c-1", "upstream-model"),
        ToolCallDelta(0, "a", "f", arguments="{"),
    ]


def test_a_short_read_is_translated_at_once() -> None:
    pipeline = opened()
    assert pipeline.read(b"data: {") == ()
    assert len(list(pipeline.read(b"}\n\n" + sse(HELLO, HELLO, HELLO)))) == 1


def test_what_one_frame_may_change_is_limited() -> None:
    """The deltas of a frame are applied in one go, which would block every other stream."""
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    calls = [{"index": number, "id": f"c{number}", **call} for number in range(MOST_DELTAS + 1)]
    pipeline = opened()
    events = pipeline.feed(sse(HELLO, chunk({"tool_calls": calls}), STOP, done=True))
    assert last(events)["error"]["code"] == "upstream_invalid"
    assert "at most 4,096" in last(events)["error"]["message"]
    assert 1 < pipeline.item_count <= MOST_DELTAS
    assert_lawful(events)
