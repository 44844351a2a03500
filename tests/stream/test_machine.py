"""The state machine: start, snapshot, ends, ids."""

from __future__ import annotations

import pytest

from penstock.protocol.response import Response
from penstock.stream.deltas import (
    ErrorDelta,
    FinishDelta,
    FinishReason,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
)
from penstock.stream.machine import DerivedIds, ResponseStreamStateMachine
from penstock.stream.phases import ResponseStreamPhase
from tests.stream.running import (
    assert_lawful,
    codes,
    machine,
    plain,
    run,
    types,
    violations,
)


# Beginning
def test_start_creates_and_begins() -> None:
    events = plain(machine().start())
    assert types(events) == ["created", "in_progress"]
    assert [event["sequence_number"] for event in events] == [0, 1]
    assert {event["response"]["status"] for event in events} == {"in_progress"}


def test_a_heartbeat_repeats_in_progress_with_the_current_snapshot() -> None:
    stream = machine()
    events = stream.start() + stream.text("hi") + stream.heartbeat() + stream.text(" there")
    beat = plain(events)[-2]
    assert beat["type"] == "response.in_progress"
    assert beat["response"]["output"][0]["content"][0]["text"] == "hi"
    assert_lawful(events + stream.finish(FinishReason.STOP))


def test_apply_refuses_a_value_that_is_not_a_delta() -> None:
    stream = machine()
    stream.start()
    with pytest.raises(TypeError, match="str"):
        stream.apply("text")  # type: ignore[arg-type]


def test_text_that_is_not_a_string_is_refused_without_events() -> None:
    stream = machine()
    stream.start()
    with pytest.raises(TypeError):
        stream.text(5)  # type: ignore[arg-type]
    assert stream.snapshot.output == []


def test_the_model_that_answered_is_the_one_in_the_snapshot() -> None:
    _, events = run([UpstreamInfo(model="demo-2"), UpstreamInfo(id="x", service_tier="flex")])
    assert events[-1]["response"]["model"] == "demo-2"
    assert events[-1]["response"]["service_tier"] == "flex"


# Endings
def test_the_finish_reason_with_the_highest_priority_wins_and_deltas_may_follow() -> None:
    stream, events = run(
        [
            FinishDelta(FinishReason.STOP),
            TextDelta("late"),
            FinishDelta(FinishReason.LENGTH),
            FinishDelta(FinishReason.TOOL_CALLS),
        ]
    )
    assert stream.phase is ResponseStreamPhase.INCOMPLETE
    assert events[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert events[-1]["response"]["output"][0]["status"] == "incomplete"
    assert events[-1]["response"]["completed_at"] is None


def test_finish_without_any_reason_is_a_failure() -> None:
    stream = machine()
    events = stream.start() + stream.text("cut") + stream.finish()
    assert stream.phase is ResponseStreamPhase.FAILED
    assert stream.snapshot.error is not None
    assert stream.snapshot.error.code == "upstream_truncated"
    assert stream.snapshot.output_text == "cut"
    assert_lawful(events)


def test_finish_refuses_a_reason_it_does_not_know() -> None:
    stream = machine()
    stream.start()
    with pytest.raises(ValueError, match="nonsense"):
        stream.finish("nonsense")  # type: ignore[arg-type]
    assert stream.phase is ResponseStreamPhase.IN_PROGRESS


def test_in_a_truncated_response_a_call_is_completed_only_if_its_end_is_certain() -> None:
    _, events = run(
        [
            ToolCallDelta(key=0, id="ended", name="f", arguments='{"a":1}', whole=True),
            ToolCallDelta(key=1, id="followed", name="f", arguments='{"a":2}'),
            ToolCallDelta(key=2, id="last", name="f", arguments='{"a":3}'),
            ToolCallDelta(key=3, id="nameless", arguments="{"),
            FinishDelta(FinishReason.LENGTH),
        ]
    )
    output = events[-1]["response"]["output"]
    assert [(item["call_id"], item["status"]) for item in output] == [
        ("ended", "completed"),
        ("followed", "completed"),
        ("last", "incomplete"),
    ]
    assert [d["code"] for d in events[-1]["response"]["diagnostics"]] == [
        "undeclared_tool",
        "unannounced_call",
    ]


def test_a_failure_sends_error_and_then_response_failed() -> None:
    stream, events = run([TextDelta("x"), ErrorDelta("rate_limit_exceeded", "slow down", param="p")])
    error, failed = events[-2:]
    assert error["error"] == {
        "type": "server_error",
        "code": "rate_limit_exceeded",
        "message": "slow down",
        "param": "p",
    }
    assert (error["code"], error["message"], error["param"]) == ("rate_limit_exceeded", "slow down", "p")
    assert failed["response"]["error"] == {"code": "rate_limit_exceeded", "message": "slow down"}
    assert failed["response"]["output"][0]["status"] == "incomplete"
    assert stream.phase is ResponseStreamPhase.FAILED


def test_a_failure_without_a_message_gets_a_code_and_a_message() -> None:
    stream, events = run([ErrorDelta("", "")])
    assert events[-1]["response"]["error"] == {
        "code": "server_error",
        "message": "the upstream gave no reason",
    }
    assert stream.phase is ResponseStreamPhase.FAILED


def test_a_clock_that_fails_leaves_the_stream_open() -> None:
    def broken() -> float:
        raise OSError("no time")

    stream = ResponseStreamStateMachine(Response(id="resp_1", model="m"), clock=broken)
    stream.start()
    stream.text("x")
    with pytest.raises(OSError, match="no time"):
        stream.finish(FinishReason.STOP)
    assert [event.type for event in stream.fail("server_error", "x")][-1] == "response.failed"


def test_a_clock_that_is_set_back_completes_no_response_before_it_was_created() -> None:
    response = Response(id="resp_1", model="m", created_at=1_000)
    stream = ResponseStreamStateMachine(response, clock=lambda: 940.0)
    events = stream.start() + stream.text("x") + stream.finish(FinishReason.STOP)
    assert plain(events)[-1]["response"]["completed_at"] == 1_000
    assert violations(events, "openresponses") == []


def test_on_a_websocket_response_failed_is_sent_without_error() -> None:
    stream = machine(error_event=False)
    events = stream.start() + stream.fail("server_error", "broken")
    assert types(plain(events))[-1] == "failed"
    assert "error" not in types(plain(events))
    assert violations(events, "openresponses", transport="websocket") == []


def test_cancel_ends_as_incomplete_with_its_reason() -> None:
    stream = machine()
    events = stream.start() + stream.text("half") + stream.cancel()
    assert plain(events)[-1]["type"] == "response.incomplete"
    assert plain(events)[-1]["response"]["incomplete_details"] == {"reason": "cancelled"}
    assert_lawful(events)


def test_a_response_with_only_forbidden_calls_fails() -> None:
    stream, events = run([ToolCallDelta(key=0, id="a", name="f", arguments="{}")], tool_choice="none")
    assert events[-1]["response"]["error"]["code"] == "tool_not_allowed"
    assert codes(stream) == {"undeclared_tool", "tool_not_allowed"}


def test_a_forbidden_call_next_to_text_is_dropped_and_reported() -> None:
    stream, events = run(
        [TextDelta("hi"), ToolCallDelta(key=0, name="f", arguments='{"a":1}{"b":2}', whole=True)],
        tool_choice="none",
    )
    assert events[-1]["type"] == "response.completed"
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message"]
    assert "tool_not_allowed" in codes(stream)


# Ids and bounds
def test_derived_ids_are_short_unique_and_the_same_every_time() -> None:
    for response_id in ("resp_1", "plain", "resp_" + "x" * 200):
        one, other = DerivedIds(response_id), DerivedIds(response_id)
        ids = [one("msg"), one("msg"), one("fc")]
        assert ids == [other("msg"), other("msg"), other("fc")]
        assert len(set(ids)) == 3
        assert all(len(each) <= 64 for each in ids)
