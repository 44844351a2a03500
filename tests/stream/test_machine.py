from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import BridgeError
from penstock.protocol.content import UrlCitation
from penstock.protocol.items import FunctionCall, ShellCall, UnknownItem, WebSearchCall
from penstock.protocol.response import Response
from penstock.protocol.wire import read
from penstock.stream.deltas import (
    AnnotationDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    ErrorDelta,
    EventDelta,
    FinishDelta,
    FinishReason,
    ItemDelta,
    OpaqueReasoning,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
    UsageDelta,
)
from penstock.stream.machine import ResponseStreamStateMachine, derived_ids
from penstock.stream.phases import ResponseStreamPhase
from tests.stream.running import (
    NOW,
    assert_lawful,
    codes,
    machine,
    of_type,
    plain,
    run,
    violations,
)

Machine = ResponseStreamStateMachine
CITATION = UrlCitation(url="https://example.com", title="Example", start_index=0, end_index=2)


def types(events: list[dict[str, object]]) -> list[str]:
    return [str(event["type"]).removeprefix("response.") for event in events]


# The error of each refused move

DELTA_CALLS: dict[str, Callable[[Machine], object]] = {
    "text": lambda m: m.text("x"),
    "empty text": lambda m: m.text(""),
    "refusal": lambda m: m.refusal("x"),
    "reasoning": lambda m: m.reasoning("x"),
    "summary": lambda m: m.summary("x"),
    "opaque": lambda m: m.opaque("x"),
    "annotation": lambda m: m.annotation(CITATION),
    "tool_call": lambda m: m.tool_call(ToolCallDelta(name="f")),
    "start_block": lambda m: m.start_block(0, BlockKind.TEXT),
    "end_block": lambda m: m.end_block(0),
    "item": lambda m: m.item(0, WebSearchCall(), done=True),
    "event": lambda m: m.event("response.web_search_call.searching", {}),
    "usage": lambda m: m.usage(UsageDelta(input_tokens=1)),
    "diagnostic": lambda m: m.diagnostic("code", "message"),
    "upstream_info": lambda m: m.upstream_info(UpstreamInfo(model="x")),
    "heartbeat": lambda m: m.heartbeat(),
    "defer_finish": lambda m: m.defer_finish(FinishReason.STOP),
    "finish": lambda m: m.finish(FinishReason.STOP),
}
ENDS: dict[str, Callable[[Machine], object]] = {
    "finish": lambda m: m.finish(FinishReason.STOP),
    "finish early": lambda m: m.finish(FinishReason.LENGTH),
    "fail": lambda m: m.fail("server_error", "broken"),
    "cancel": lambda m: m.cancel(),
}

EVERY_CALL = {**DELTA_CALLS, **ENDS}


def refused(stream: Machine, call: Callable[[Machine], object], code: str) -> None:
    """The pair that every illegal move has: it raises, and nothing has changed."""
    before = stream.phase, stream.snapshot
    with pytest.raises(BridgeError) as caught:
        call(stream)
    assert caught.value.code == code
    assert (stream.phase, stream.snapshot) == before


@pytest.mark.parametrize("call", DELTA_CALLS.values(), ids=DELTA_CALLS)
def test_seed_001_output_before_start(call: Callable[[Machine], object]) -> None:
    refused(machine(), call, "bridge.stream.output_before_start")


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("call", EVERY_CALL.values(), ids=EVERY_CALL)
def test_seed_001_delta_after_terminal(
    end: Callable[[Machine], object], call: Callable[[Machine], object]
) -> None:
    stream = machine()
    stream.start()
    end(stream)
    refused(stream, call, "bridge.stream.delta_after_terminal")


def test_seed_001_invalid_transition() -> None:
    stream = machine()
    stream.start()
    refused(stream, lambda m: m.start(), "bridge.stream.invalid_transition")
    refused(stream, lambda m: m.begin(), "bridge.stream.invalid_transition")
    queued = machine()
    queued.start(queued=True)
    for name, call in DELTA_CALLS.items():
        if name != "heartbeat":
            refused(queued, call, "bridge.stream.invalid_transition")


@pytest.mark.parametrize(
    "deltas",
    [
        [ToolCallDelta(key=0, id="a", arguments='{"x":1}')],
        [ToolCallDelta(key=0, id="a", name="f", arguments='{"x":')],
        [ToolCallDelta(key=0, id="a", name="f", arguments='{"x":', whole=True)],
        [ToolCallDelta(key=0, id="a", name="f", arguments='{"x":1}{"y":')],
        [ToolCallDelta(key=0, id="a", name="f", arguments="[" * 100_000)],
    ],
    ids=["no name", "cut", "ended and cut", "a second call cut", "nested too deeply"],
)
def test_seed_001_incomplete_tool_call(deltas: list[ToolCallDelta]) -> None:
    stream = machine()
    events = stream.start()
    for delta in deltas:
        events += stream.apply(delta)
    refused(stream, lambda m: m.finish(FinishReason.STOP), "bridge.stream.incomplete_tool_call")
    events += stream.fail("bridge.stream.incomplete_tool_call", "not whole")
    assert stream.phase is ResponseStreamPhase.FAILED
    assert stream.snapshot.error is not None
    assert stream.snapshot.error.code == "bridge.stream.incomplete_tool_call"
    assert_lawful(events)


# Beginning


def test_start_creates_and_begins() -> None:
    events = plain(machine().start())
    assert types(events) == ["created", "in_progress"]
    assert [event["sequence_number"] for event in events] == [0, 1]
    assert {event["response"]["status"] for event in events} == {"in_progress"}


def test_a_queued_stream_waits_until_it_begins() -> None:
    stream = machine()
    events = stream.start(queued=True) + stream.heartbeat() + stream.begin() + stream.text("hi")
    events += stream.finish(FinishReason.STOP)
    spoken = plain(events)
    assert types(spoken)[:4] == ["created", "queued", "queued", "in_progress"]
    assert [event["response"]["status"] for event in spoken[:4]] == ["queued"] * 3 + ["in_progress"]
    assert_lawful(events)


@pytest.mark.parametrize("end", ["fail", "cancel"])
def test_a_queued_stream_can_fail_and_be_cancelled(end: str) -> None:
    stream = machine()
    events = stream.start(queued=True)
    events += stream.fail("server_error", "gone") if end == "fail" else stream.cancel()
    assert_lawful(events)


def test_a_heartbeat_repeats_in_progress_with_what_was_said() -> None:
    stream = machine()
    events = stream.start() + stream.text("hi") + stream.heartbeat() + stream.text(" there")
    beat = plain(events)[-2]
    assert beat["type"] == "response.in_progress"
    assert beat["response"]["output"][0]["content"][0]["text"] == "hi"
    assert_lawful(events + stream.finish(FinishReason.STOP))


# Blocks


def test_text_is_announced_streamed_and_closed() -> None:
    _, events = run([TextDelta("Hel"), TextDelta(""), TextDelta("lo")])
    assert types(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert events[-1]["response"]["completed_at"] == NOW + 1


def test_an_item_closes_when_another_kind_starts() -> None:
    _, events = run(
        [ReasoningDelta("a"), TextDelta("b"), RefusalDelta("c"), ReasoningDelta("d"), TextDelta("e")]
    )
    assert [item["type"] for item in events[-1]["response"]["output"]] == [
        "reasoning",
        "message",
        "message",
        "reasoning",
        "message",
    ]
    assert [e["output_index"] for e in of_type(events, "output_item.added", "output_item.done")] == [
        *(0, 0, 1, 1, 2, 2, 3, 3, 4, 4)
    ]


def test_text_after_a_tool_call_is_a_new_message_and_the_call_stays_open() -> None:
    _, events = run(
        [
            TextDelta("before"),
            ToolCallDelta(key=0, id="a", name="f", arguments='{"x":'),
            TextDelta("after"),
            ToolCallDelta(key=0, arguments="1}"),
        ]
    )
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "function_call", "message"]
    assert output[1]["arguments"] == '{"x":1}'


def test_keyed_blocks_stay_open_across_each_other() -> None:
    _, events = run(
        [
            BlockStart("t", BlockKind.TEXT, phase="commentary"),
            BlockStart("r", BlockKind.REASONING),
            TextDelta("a", block="t"),
            ReasoningDelta("think", block="r"),
            TextDelta("b", block="t"),
            RefusalDelta("no", block="t"),
            ReasoningDelta("ing", block="r"),
            BlockEnd("t"),
            TextDelta("c", block="t"),
        ]
    )
    first, second, third = events[-1]["response"]["output"]
    assert first["phase"] == "commentary"
    assert [part["type"] for part in first["content"]] == ["output_text", "refusal"]
    assert first["content"][0]["text"] == "ab"
    assert second["content"][0]["text"] == "thinking"
    assert third["content"][0]["text"] == "c"


def test_a_text_and_a_reasoning_block_may_share_a_key() -> None:
    _, events = run(
        [
            ReasoningDelta("r", block="0"),
            TextDelta("t", block="0"),
            BlockEnd("0", BlockKind.REASONING),
            TextDelta("t", block="0"),
            BlockEnd("0"),
        ]
    )
    reasoning, message = events[-1]["response"]["output"]
    assert (reasoning["type"], message["content"][0]["text"]) == ("reasoning", "tt")


def test_a_block_without_content_makes_no_item() -> None:
    _, events = run([BlockStart(0, BlockKind.TEXT), TextDelta("", block=0), BlockEnd(0)])
    assert events[-1]["response"]["output"] == []


def test_summary_parts_and_content_are_one_reasoning_item() -> None:
    stream, events = run(
        [
            SummaryDelta("one", part=0),
            SummaryDelta(" more", part=0),
            SummaryDelta("two", part=1),
            ReasoningDelta("raw"),
            OpaqueReasoning("sealed"),
        ]
    )
    (item,) = events[-1]["response"]["output"]
    assert [part["text"] for part in item["summary"]] == ["one more", "two"]
    assert item["content"] == [{"type": "reasoning_text", "text": "raw"}]
    assert item["encrypted_content"] == "sealed"
    assert "encrypted_content" not in of_type(events, "output_item.added")[0]["item"]
    assert stream.diagnostics == []


def test_opaque_reasoning_alone_is_an_item_and_does_not_split_the_text() -> None:
    _, events = run([TextDelta("a"), OpaqueReasoning("one"), TextDelta("b"), OpaqueReasoning("two", call=0)])
    message, one, two = events[-1]["response"]["output"]
    assert message["content"][0]["text"] == "ab"
    assert [one["encrypted_content"], two["encrypted_content"]] == ["one", "two"]
    assert one["summary"] == []


def test_opaque_reasoning_of_a_call_stands_directly_before_it() -> None:
    _, events = run(
        [TextDelta("a"), OpaqueReasoning("s", call=0), TextDelta("b"), ToolCallDelta(key=0, name="f")]
    )
    kinds = [item["type"] for item in events[-1]["response"]["output"]]
    assert kinds == ["message", "reasoning", "message", "function_call"]


def test_opaque_reasoning_of_a_keyed_block_waits_for_its_end() -> None:
    _, events = run([OpaqueReasoning("x", block=3), OpaqueReasoning("y", block=3), BlockEnd(3)])
    assert [item["encrypted_content"] for item in events[-1]["response"]["output"]] == ["x", "y"]


def test_annotations_before_their_text_wait_for_it() -> None:
    _, events = run([AnnotationDelta(CITATION), TextDelta("see"), AnnotationDelta(CITATION)])
    part = events[-1]["response"]["output"][0]["content"][0]
    assert len(part["annotations"]) == 2
    added = of_type(events, "output_text.annotation.added")
    assert [event["annotation_index"] for event in added] == [0, 1]


def test_annotations_without_text_are_told() -> None:
    stream, _ = run([AnnotationDelta(CITATION), AnnotationDelta(CITATION, block=1)])
    assert codes(stream) == {"annotation_without_text"}


def test_logprobs_are_on_the_delta_and_on_the_part() -> None:
    logprob = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
    _, events = run([TextDelta("a", logprobs=[logprob]), TextDelta("b")])  # type: ignore[list-item]
    deltas = of_type(events, "output_text.delta")
    assert [event["logprobs"] for event in deltas] == [[logprob], []]
    assert events[-1]["response"]["output"][0]["content"][0]["logprobs"] == [logprob]


def test_half_a_surrogate_pair_cannot_break_the_stream() -> None:
    _, events = run([TextDelta("a\ud83d"), TextDelta("\ude00b")])
    text = events[-1]["response"]["output"][0]["content"][0]["text"]
    assert text == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b"


def test_a_late_citation_does_not_go_to_another_text() -> None:
    stream, events = run(
        [TextDelta("a"), ToolCallDelta(key=0, name="f"), AnnotationDelta(CITATION), TextDelta("b")]
    )
    assert events[-1]["response"]["output"][2]["content"][0]["annotations"] == []
    assert "annotation_without_text" in codes(stream)


def test_a_phase_waits_for_its_message_and_an_unknown_one_is_told() -> None:
    stream, events = run(
        [
            BlockStart(0, BlockKind.TEXT, phase="commentary"),
            BlockStart(1, BlockKind.TEXT, phase="weird"),
            ReasoningDelta("r", block=0),
            TextDelta("t", block=0),
        ]
    )
    assert events[-1]["response"]["output"][1]["phase"] == "commentary"
    assert codes(stream) == {"unknown_phase"}


def test_what_is_no_delta_is_refused_by_its_type() -> None:
    stream = machine()
    stream.start()
    with pytest.raises(TypeError, match="str"):
        stream.apply("text")  # type: ignore[arg-type]


def test_text_that_is_no_string_is_refused_before_anything_is_said() -> None:
    stream = machine()
    stream.start()
    with pytest.raises(TypeError):
        stream.text(5)  # type: ignore[arg-type]
    assert stream.snapshot.output == []


# Items of the vendor


def test_a_hosted_item_gets_our_id_and_its_events_point_at_it() -> None:
    stream, events = run(
        [
            ItemDelta("ws", WebSearchCall(id="ws_theirs", status="searching"), done=False),
            EventDelta("response.web_search_call.searching", {"item_id": "ws_theirs"}, key="ws"),
            ItemDelta("ws", WebSearchCall(id="ws_other", action={"query": "q"}), done=True),
            ItemDelta("ws", WebSearchCall(id="ws_other"), done=True),
            EventDelta("response.web_search_call.searching", {}, key="ws"),
        ]
    )
    (item,) = events[-1]["response"]["output"]
    assert item["id"].startswith("ws_1_")
    assert item["status"] == "completed"
    assert item["action"] == {"query": "q"}
    assert of_type(events, "web_search_call.searching")[0]["item_id"] == item["id"]
    assert len(of_type(events, "output_item.added", "output_item.done")) == 2
    assert codes(stream) == {"repeated_item", "event_without_item"}


def test_a_hosted_item_that_is_only_done_is_announced_first() -> None:
    _, events = run([ItemDelta(0, WebSearchCall(status="failed"), done=True)])
    assert types(events)[2:4] == ["output_item.added", "output_item.done"]
    assert events[-1]["response"]["output"][0]["status"] == "failed"


def test_a_hosted_item_cut_short_is_incomplete() -> None:
    stream = machine()
    events = stream.start() + stream.item(0, WebSearchCall(), done=False) + stream.cancel()
    assert plain(events)[-1]["response"]["output"][0]["status"] == "incomplete"
    assert_lawful(events)


def test_a_call_that_the_vendor_sends_whole_goes_out_once() -> None:
    shell = ShellCall(id="a", call_id="call_0", action={"commands": ["ls"]}, status="completed")
    stream, events = run(
        [ItemDelta(0, shell, done=True), ItemDelta(1, shell, done=True)], used_call_ids={"call_0"}
    )
    (item,) = events[-1]["response"]["output"]
    assert item["call_id"] == "call_0-pk2"
    assert codes(stream) == {"repeated_item"}


def test_a_vendors_call_without_an_id_gets_one_and_its_nulls_do_not_show() -> None:
    null = read({"type": "computer_call", "id": None, "status": None, "call_id": None}, UnknownItem)
    _, events = run([ItemDelta(0, null, done=True), ItemDelta(1, null, done=True)])
    one, other = events[-1]["response"]["output"]
    assert one["call_id"] != other["call_id"]
    assert (one["status"], one["id"]) == ("completed", "item_1_1")


def test_what_has_deltas_of_its_own_cannot_be_a_hosted_item() -> None:
    stream = machine()
    stream.start()
    with pytest.raises(ValueError, match="function_call"):
        stream.item(0, FunctionCall(call_id="a", name="f"), done=True)
    with pytest.raises(ValueError, match=r"output_text\.delta"):
        stream.event("response.output_text.delta", {})
    assert stream.snapshot.output == []


def test_an_event_of_nobody_passes_with_our_number() -> None:
    _, events = run([EventDelta("response.metadata", {"sequence_number": 99, "x": 1})])
    assert events[2] == {"type": "response.metadata", "sequence_number": 2, "x": 1}


# Usage and the upstream


def test_usage_zeros_never_overwrite_and_the_total_is_the_sum() -> None:
    _, events = run(
        [
            UsageDelta(input_tokens=10, output_tokens=1, cached_tokens=4, cache_write_tokens=2),
            TextDelta("x"),
            UsageDelta(output_tokens=7, reasoning_tokens=5),
            UsageDelta(input_tokens=0, output_tokens=0, cached_tokens=0, reasoning_tokens=0),
        ]
    )
    assert events[-1]["response"]["usage"] == {
        "input_tokens": 10,
        "output_tokens": 7,
        "total_tokens": 17,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens_details": {"reasoning_tokens": 5},
    }


def test_usage_that_does_not_add_up_is_bounded_and_told() -> None:
    stream, events = run([UsageDelta(input_tokens=1, output_tokens=2, cached_tokens=5, reasoning_tokens=9)])
    usage = events[-1]["response"]["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] == 1
    assert usage["output_tokens_details"]["reasoning_tokens"] == 2
    assert codes(stream) == {"usage_inconsistent"}


def test_a_count_that_is_no_integer_is_refused() -> None:
    stream = machine()
    stream.start()
    with pytest.raises(TypeError, match="integer"):
        stream.usage(UsageDelta(input_tokens=3, output_tokens="5"))  # type: ignore[arg-type]
    assert stream.snapshot.usage is None
    stream.finish(FinishReason.STOP)


def test_an_estimate_of_nothing_is_not_told() -> None:
    stream, _ = run([UsageDelta(estimated=True)])
    assert stream.diagnostics == []


def test_estimated_usage_is_told_and_absent_usage_is_null() -> None:
    stream, _ = run([UsageDelta(input_tokens=3, estimated=True)])
    assert codes(stream) == {"usage_estimated"}
    assert run([])[1][-1]["response"]["usage"] is None


def test_the_model_that_answered_is_the_one_in_the_snapshot() -> None:
    _, events = run([UpstreamInfo(model="demo-2"), UpstreamInfo(id="x", service_tier="flex")])
    assert events[-1]["response"]["model"] == "demo-2"
    assert events[-1]["response"]["service_tier"] == "flex"


# Endings


def test_a_stronger_finish_reason_replaces_a_weaker_one_and_deltas_may_follow() -> None:
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


def test_at_truncation_a_call_is_complete_only_beyond_doubt() -> None:
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


def test_a_failure_tells_an_error_and_then_fails() -> None:
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


def test_a_failure_without_words_still_has_a_code_and_a_message() -> None:
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


def test_on_a_websocket_the_failure_stands_alone() -> None:
    stream = machine(error_event=False)
    events = stream.start() + stream.fail("server_error", "broken")
    assert types(plain(events))[-1] == "failed"
    assert "error" not in types(plain(events))
    assert violations(events, "openresponses", transport="websocket") == []


@pytest.mark.parametrize("end", ["fail", "cancel"])
def test_an_idle_stream_can_fail_and_be_cancelled(end: str) -> None:
    stream = machine()
    events = stream.fail("server_error", "gone") if end == "fail" else stream.cancel()
    assert types(plain(events))[:2] == ["created", "in_progress"]
    assert_lawful(events)


def test_cancel_ends_incomplete_with_its_reason() -> None:
    stream = machine()
    events = stream.start() + stream.text("half") + stream.cancel()
    assert plain(events)[-1]["type"] == "response.incomplete"
    assert plain(events)[-1]["response"]["incomplete_details"] == {"reason": "cancelled"}
    assert_lawful(events)


def test_an_answer_of_nothing_but_forbidden_calls_fails() -> None:
    stream, events = run([ToolCallDelta(key=0, id="a", name="f", arguments="{}")], tool_choice="none")
    assert events[-1]["response"]["error"]["code"] == "tool_not_allowed"
    assert codes(stream) == {"undeclared_tool", "tool_not_allowed"}


def test_a_forbidden_call_beside_text_is_kept_back_and_told() -> None:
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
        one, other = derived_ids(response_id), derived_ids(response_id)
        ids = [one("msg"), one("msg"), one("fc")]
        assert ids == [other("msg"), other("msg"), other("fc")]
        assert len(set(ids)) == 3
        assert all(len(each) <= 64 for each in ids)


def test_diagnostics_are_counted_and_bounded() -> None:
    stream = machine()
    stream.start()
    for number in range(300):
        stream.event("response.web_search_call.searching", {}, key=f"none {number % 2}")
        stream.tool_call(ToolCallDelta(key=number, name=f"tool_{number}"))
    assert len(stream.diagnostics) <= 64
    assert max(diagnostic.count for diagnostic in stream.diagnostics) == 300


def test_the_events_at_the_end_of_a_part_share_one_text() -> None:
    """A text of 60 MB is not joined and kept once for each event that repeats it."""
    m = machine()
    m.start()
    for _ in range(3):
        m.text("a piece, ")
    done, part, item, completed = m.finish(FinishReason.STOP)
    text = done.text  # type: ignore[attr-defined]
    assert text == "a piece, " * 3
    assert part.part.text is text  # type: ignore[attr-defined]
    assert item.item.content[0].text is text  # type: ignore[attr-defined]
    assert completed.response.output[0].content[0].text is text  # type: ignore[attr-defined]
