"""Replaying: the recorded attempts run through the gateway's own turn, without network and delays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.gateway.turn.stop_reasons import CANCELLED, SHUTTING_DOWN
from penstock.protocol.wire import encode
from penstock.replay.recording import CannotReplay
from penstock.replay.runner import Replayed, replay
from penstock.stream.checker import StreamChecker
from tests.dialects.chat_streams import calls, chunk
from tests.replay.recorded import (
    REQUEST,
    STOP,
    answered,
    attempt,
    compared,
    failed,
    hello,
    recorded,
    sse,
    text,
    types,
    with_events,
)

DONE = {"type": "response.completed", "response": {}}
MESSAGE = ["output_item.added", "content_part.added", "output_text.delta"]
END = ["output_text.done", "content_part.done", "output_item.done"]


def last(replayed: Replayed) -> dict[str, Any]:
    response: dict[str, Any] = json.loads(encode(replayed.events[-1]))["response"]
    return response


def test_a_turn_is_replayed_as_a_lawful_stream() -> None:
    replayed, comparison = compared(recorded(hello()))
    assert types(replayed) == [
        *("created", "in_progress", *MESSAGE, "output_text.delta", *END, "completed"),
    ]
    assert comparison.is_same
    checker = StreamChecker(transport="websocket")
    found = [each for event in replayed.events for each in checker.feed_frame(None, encode(event).decode())]
    assert [each.message for each in [*found, *checker.end()]] == []


def test_the_request_is_rendered_again() -> None:
    (rendered,) = replay(recorded(hello())).rendered
    assert rendered.now["messages"] == [{"role": "user", "content": "hi"}]
    assert rendered.attempt.sent.target == "first"


def test_an_attempt_that_failed_is_followed_by_the_next() -> None:
    traces = [*attempt(failed()), *attempt(*answered(text("Yes."), STOP), target="second")]
    replayed, comparison = compared(recorded(traces))
    assert [each.attempt.sent.target for each in replayed.rendered] == ["first", "second"]
    assert types(replayed)[-1] == "completed"
    assert comparison.is_same


def test_a_connection_that_broke_after_output_fails_the_response() -> None:
    traces = attempt(*answered(text("Hel"), is_ended=False), failed("NetworkError", 3.0, phase="read"))
    replayed = replay(recorded(traces))
    assert types(replayed)[-2:] == ["error", "failed"]
    assert last(replayed)["error"]["code"] == "upstream_truncated"


def test_an_error_that_was_in_the_bytes_must_be_found_in_them_again() -> None:
    """Only a broken connection is replayed as a failure; the reader must find any other failure again."""
    ends_well = attempt(*answered(text("Fine."), STOP), failed("ServerError", 3.0, code="server_error"))
    assert types(replay(with_events(ends_well, [DONE])))[-1] == "completed"
    cut_off = attempt(*answered(text("Fine.")), failed("ServerError", 3.0, code="server_error"))
    assert last(replay(with_events(cut_off, [DONE])))["error"]["code"] == "upstream_truncated"


def test_a_failure_before_the_stream_refuses_the_request() -> None:
    traces = attempt(failed("ServerError", status=503, code="server_is_overloaded", message="busy"))
    replayed = replay(with_events(traces, [DONE]))
    assert replayed.events == []
    assert replayed.refused is not None
    assert (replayed.refused.status, "busy" in str(replayed.refused)) == (503, True)


def test_a_stream_that_had_started_early_is_not_refused() -> None:
    """The recorded gateway had started the stream before the failure, because the client was waiting."""
    traces = attempt(failed("ServerError", at=5.0, status=503, code="server_is_overloaded"))
    replayed = replay(with_events(traces, [DONE], at=2.0))
    assert replayed.refused is None
    assert types(replayed) == ["created", "in_progress", "error", "failed"]


def test_a_background_turn_is_queued_first() -> None:
    request = {**REQUEST, "background": True}
    replayed = replay(with_events(attempt(*answered(text("a"), STOP), request=request), [DONE]))
    assert types(replayed)[:3] == ["created", "queued", "in_progress"]


def test_a_failure_over_a_websocket_has_no_error_event() -> None:
    """Decision 9."""
    request = {**REQUEST, "type": "response.create"}
    traces = attempt(*answered(text("a"), is_ended=False), failed(at=3.0), request=request)
    assert types(replay(with_events(traces, [DONE])))[-2:] == ["output_item.done", "failed"]


def test_a_cancelled_turn_is_cancelled_where_the_recording_ends() -> None:
    end = {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "cancelled"}}}
    recording = with_events(attempt(*answered(text("Hel"), is_ended=False)), [end])
    assert recording.stopped is CANCELLED
    replayed = replay(recording)
    assert types(replayed)[-1] == "incomplete"
    assert last(replayed)["output"][0]["content"][0]["text"] == "Hel"


def test_a_turn_that_was_stopped_before_the_answer_ends_there() -> None:
    end = {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "cancelled"}}}
    replayed = replay(with_events(attempt(), [end]))
    assert types(replayed) == ["created", "in_progress", "incomplete"]


def test_a_turn_that_was_stopped_by_a_shutdown_fails_there() -> None:
    end = {"type": "response.failed", "response": {"error": {"code": SHUTTING_DOWN.code}}}
    replayed = replay(with_events(attempt(*answered(text("Hel"), is_ended=False)), [end]))
    assert types(replayed)[-1] == "failed"
    assert last(replayed)["error"]["code"] == SHUTTING_DOWN.code


def test_a_turn_that_was_cancelled_while_it_waited_to_retry_ends_there() -> None:
    end = {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "cancelled"}}}
    traces = attempt(failed("OverloadedError", status=529, code="server_is_overloaded"))
    replayed = replay(with_events(traces, [end], at=-1.0))
    assert len(replayed.rendered) == 1
    assert types(replayed)[-1] == "incomplete"


def test_nothing_is_invented_after_the_end_of_a_killed_gateway() -> None:
    recording = with_events(
        attempt(*answered(text("Hel"), is_ended=False)),
        [{"type": "response.created"}, {"type": "response.in_progress"}],
    )
    assert recording.is_cut
    assert types(replay(recording)) == ["created", "in_progress", *MESSAGE]


def diagnostics(replayed: Replayed) -> list[str]:
    return [each["code"] for each in last(replayed).get("diagnostics") or ()]


def test_diagnostics_of_steps_that_are_not_replayed_are_taken_over() -> None:
    """A single attempt after a fallback: the keys of the first target were cooling down."""
    notes = [{"code": code, "message": "m"} for code in ("fell_back", "compaction_unreadable", "other")]
    recording = with_events(hello(), [{"type": "response.completed", "response": {"diagnostics": notes}}])
    assert diagnostics(replay(recording)) == ["fell_back", "compaction_unreadable"]
    two = with_events(
        [*attempt(failed()), *hello()],
        [{"type": "response.completed", "response": {"diagnostics": notes[:1]}}],
    )
    assert "other" not in diagnostics(replay(two))


def test_a_dialect_of_another_version_is_refused() -> None:
    with pytest.raises(CannotReplay, match="does not support the dialect of the recording: telex"):
        replay(with_events(attempt(*answered(STOP), dialect="telex"), [DONE]))


def test_the_demo_model_is_replayed_with_its_own_dialect() -> None:
    recording = with_events(attempt(dialect="demo"), [{"type": "response.created"}])
    assert replay(recording).rendered[0].attempt.sent.dialect == "demo"


def test_a_call_id_that_an_earlier_turn_used_is_replaced() -> None:
    call = {"index": 0, "id": "call_1", "function": {"name": "look", "arguments": "{}"}}
    recording = with_events(attempt(*answered(sse(calls(call), chunk(finish="tool_calls")))), [DONE])
    (only,) = recording.attempts
    assert last(replay(recording))["output"][0]["call_id"] == "call_1"
    only.plan = replace(only.plan, used_call_ids=frozenset({"call_1"}))
    assert last(replay(recording))["output"][0]["call_id"] != "call_1"
