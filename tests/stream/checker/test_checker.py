"""The checker finds nothing in a lawful stream, and in a broken one the broken rule and its position."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.protocol.tools import FunctionTool
from penstock.protocol.wire import encode
from penstock.stream.checker import StreamChecker
from penstock.stream.checker.rules import RULES, Violation
from penstock.stream.deltas import Delta, FinishReason, TextDelta
from tests.effort import examples
from tests.stream import lawful, strategies
from tests.stream.checker.broken_streams import (
    ADDED,
    ARGUMENTS,
    ARGUMENTS_DONE,
    COMPLETED,
    DELTA,
    DONE,
    FRAMES,
    LAST,
    PART_ADDED,
    PART_DONE,
    TEXT,
    TEXT_DONE,
    WORKING,
    Broken,
    Case,
    assert_found_once,
    assert_tolerated_as_documented,
    check,
    check_frames,
)
from tests.stream.checker.fault_cases import FRAME_CASES, STREAM_CASES
from tests.stream.lawful import STREAMS, Event, Stream, renumber
from tests.stream.running import end, machine
from tests.stream.strategies import ENDINGS


@pytest.mark.parametrize("case", STREAM_CASES, ids=lambda case: case.id)
def test_a_fault_in_the_stream_is_found_once_under_its_rule(case: Case) -> None:
    assert_found_once(case)


@pytest.mark.parametrize("case", STREAM_CASES, ids=lambda case: case.id)
def test_tolerant_mode_ignores_faults_in_the_stream_as_documented(case: Case) -> None:
    assert_tolerated_as_documented(case)


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("tolerant", [False, True])
def test_a_lawful_stream_breaks_no_rule(name: str, tolerant: bool) -> None:
    stream = STREAMS[name]()
    assert check(stream.events, accent=stream.accent, tolerant=tolerant) == []


@pytest.mark.parametrize("name", STREAMS)
def test_a_lawful_stream_in_frames_breaks_no_rule(name: str) -> None:
    stream = STREAMS[name]()
    assert check_frames(lawful.frames(stream.events), accent=stream.accent) == []


def test_parallel_tool_calls_are_lawful() -> None:
    stream = lawful.parallel_tool_calls()
    received = [(event["type"], event.get("item_id", "")) for event in stream.events[2:8]]
    assert received == [
        (ADDED, ""),
        (ADDED, ""),
        (ARGUMENTS, "fc_1"),
        (ARGUMENTS, "fc_2"),
        (ARGUMENTS_DONE, "fc_1"),
        (ARGUMENTS_DONE, "fc_2"),
    ]
    assert check(stream.events) == []


def test_an_interleaved_text_and_tool_call_are_lawful() -> None:
    stream = lawful.text_and_tool_call_interleaved()
    received = [event["type"] for event in stream.events[2:]]
    assert received == [
        ADDED,
        PART_ADDED,
        DELTA,
        ADDED,
        DELTA,
        ARGUMENTS,
        TEXT_DONE,
        PART_DONE,
        ARGUMENTS_DONE,
        DONE,
        DONE,
        COMPLETED,
    ]
    assert check(stream.events) == []


@pytest.mark.parametrize("name", [name for name in STREAMS if not name.startswith("failed")])
def test_a_lawful_stream_on_a_websocket_has_no_done_mark(name: str) -> None:
    stream = STREAMS[name]()
    frames: list[tuple[str | None, str]] = [(None, json.dumps(event)) for event in stream.events]
    assert check_frames(frames, accent=stream.accent, transport="websocket") == []


def test_a_failure_on_a_websocket_is_response_failed_alone() -> None:
    stream = Stream().work()
    stream.message().add_part("output_text", "Half").done("incomplete")
    assert check(stream.fail().events, transport="websocket") == []


ENVELOPE: Event = {
    "type": "error",
    "status": 400,
    "error": {"code": "previous_response_not_found", "message": "No such response."},
}


def test_an_error_envelope_on_a_websocket_is_a_whole_turn() -> None:
    assert check([ENVELOPE], transport="websocket") == []


@pytest.mark.parametrize("done", [False, True])
def test_the_done_mark_is_optional_on_ndjson(done: bool) -> None:
    frames = [(None, data) for _, data in lawful.frames(lawful.text().events, done=done)]
    assert check_frames(frames, transport="ndjson") == []


def test_events_without_frames_need_no_done_mark() -> None:
    assert check(lawful.text().events, transport="sse") == []


def test_flat_copies_in_an_error_are_required_only_on_sse() -> None:
    events = Broken(lawful.failed()).unset("error", "code").events
    assert check(events, transport="ndjson") == []
    assert check(events) == [("terminal.error-payload", len(events) - 2)]


def test_an_error_with_two_different_codes_is_reported_once() -> None:
    broken = Broken(lawful.failed()).set("error", "error.code", "timeout")
    assert check(broken.events) == [("terminal.error-differs", broken.find("error"))]


PING = (None, '{"type":"ping","cost":"0"}')


@pytest.mark.parametrize(("rule", "frames", "position"), FRAME_CASES)
def test_a_fault_in_the_frames_is_reported(
    rule: str, frames: list[tuple[str | None, str]], position: int
) -> None:
    found = check_frames(frames)
    numbers = ("sequence.step", LAST)  # the repeated event has its old number
    assert [fault for fault in found if fault != numbers] == [(rule, position)]
    tolerated = not RULES[rule].tolerant
    assert (check_frames(frames, tolerant=True) == []) == tolerated


def test_a_done_mark_does_not_replace_the_terminal_event() -> None:
    assert check_frames([*FRAMES[:-2], FRAMES[-1]]) == [("terminal.missing", LAST - 1)]


def test_the_done_mark_is_forbidden_on_a_websocket() -> None:
    frames = [(None, data) for _, data in FRAMES]
    assert check_frames(frames, transport="websocket") == [("transport.done-forbidden", LAST)]


@pytest.mark.parametrize("frame", [PING, ("ping", PING[1]), ("keepalive", '{"type":"keepalive"}')])
def test_pings_are_ignored_anywhere_in_tolerant_mode(frame: tuple[str | None, str]) -> None:
    noisy = [other for each in FRAMES for other in (frame, each)]
    assert check_frames([*noisy, frame], tolerant=True) == []


WEBSOCKET_CASES = [
    ([{**ENVELOPE, "status": "400"}], ("transport.error-envelope", 0)),
    ([{**ENVELOPE, "error": {"code": None, "message": "x"}}], ("transport.error-envelope", 0)),
    ([{**ENVELOPE, "error": "x"}], ("transport.error-envelope", 0)),
    ([*TEXT[:2], ENVELOPE], ("transport.error-envelope", 2)),
    ([ENVELOPE, *Stream().fail().events], ("terminal.after", 1)),
    ([ENVELOPE, ENVELOPE], ("terminal.after", 1)),
]


@pytest.mark.parametrize(("events", "fault"), WEBSOCKET_CASES)
def test_an_error_envelope_stands_alone(events: list[Event], fault: tuple[str, int]) -> None:
    found = check(events, transport="websocket")
    assert found[0] == fault
    assert {rule for rule, _ in found} <= {fault[0], "terminal.twice"}


@pytest.mark.parametrize("event", [{}, {"type": None}, {"type": ""}, {"type": ["x"]}, {"sequence_number": 2}])
def test_an_event_without_a_type_is_reported(event: Event) -> None:
    assert check([*TEXT[:2], event, *TEXT[2:]]) == [("event.type", 2)]


def test_an_event_that_is_not_an_object_is_reported() -> None:
    checker = StreamChecker()
    value: Any = ["response.created"]
    assert [violation.rule for violation in checker.feed(value)] == ["event.type"]


def test_a_stream_without_sequence_numbers_is_reported_once() -> None:
    events = [{key: event[key] for key in event if key != "sequence_number"} for event in TEXT]
    assert check(events) == [("sequence.number", 0)]
    assert check(events, tolerant=True) == []


def test_events_after_the_end_are_reported_once() -> None:
    late = renumber([*TEXT, *TEXT])
    assert check(late) == [("terminal.after", LAST), ("terminal.twice", 2 * LAST - 1)]


def test_end_reports_only_once() -> None:
    checker = StreamChecker()
    assert [violation.rule for violation in checker.end()] == ["terminal.missing"]
    assert checker.end() == []
    assert not checker.lawful


@pytest.mark.parametrize("start", range(1, len(TEXT)))
def test_tolerant_mode_accepts_a_stream_resumed_anywhere(start: int) -> None:
    assert check(TEXT[start:], tolerant=True) == []


@pytest.mark.parametrize("start", range(1, len(lawful.heartbeats().events)))
def test_tolerant_mode_accepts_interleaved_items_resumed_anywhere(start: int) -> None:
    events = lawful.heartbeats().events[start:]
    found = check(events, tolerant=True)
    # A snapshot in the middle looks like a start, so earlier events are reported as missing.
    expected = {"item.added-missing", "terminal.output", "item.index-order", "part.added-missing"}
    assert found == [] or (events[0]["type"] == WORKING and {rule for rule, _ in found} <= expected | BEFORE)


BEFORE = {"part.text-differs", "arguments.differs", "arguments.no-delta", "item.content-differs"}


@pytest.mark.parametrize("options", [{"accent": "klingon"}, {"transport": "pigeon"}])
def test_an_unknown_accent_or_transport_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="must be one of"):
        StreamChecker(**options)  # type: ignore[arg-type]


FIELDS = [
    "id",
    "item",
    "part",
    "response",
    "output",
    "content",
    "summary",
    "status",
    "item_id",
    "output_index",
    "content_index",
    "summary_index",
    "delta",
    "text",
    "arguments",
    "call_id",
    "name",
    "role",
    "usage",
    "error",
    "annotation",
    "annotation_index",
    "sequence_number",
    "logprobs",
]
TYPES = sorted({event["type"] for build in STREAMS.values() for event in build().events})
ITEM_TYPES = ["message", "reasoning", "function_call", "custom_tool_call", "acme:x", "output_text"]
LEAVES: list[Any] = [None, True, -1, 0, 1, 2**70, 1.5, "", "x", "\ud800", *ITEM_TYPES]
SHALLOW = st.sampled_from([*LEAVES, [], {}, [None], [[]], [{}]])
OBJECTS = st.dictionaries(st.sampled_from(["type", *FIELDS]), SHALLOW, max_size=6)
VALUES = (
    SHALLOW | OBJECTS | st.lists(OBJECTS, max_size=2) | st.builds(lambda inner: {"output": [inner]}, OBJECTS)
)
JSON = st.recursive(
    st.sampled_from(LEAVES) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
EVENTS = st.builds(
    lambda kind, fields: {"type": kind, **fields},
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6),
)
OPTIONS = st.fixed_dictionaries(
    {
        "accent": st.sampled_from(["openresponses", "openai", "copilot"]),
        "transport": st.sampled_from(["sse", "ndjson", "websocket"]),
        "tolerant": st.booleans(),
    }
)


@given(st.lists(EVENTS | OBJECTS, max_size=6), OPTIONS)
@settings(max_examples=examples(300), deadline=None)
def test_no_sequence_of_objects_raises(events: list[Event], options: dict[str, Any]) -> None:
    check(events, **options)


@given(st.sampled_from(sorted(STREAMS)), st.data(), OPTIONS)
@settings(max_examples=examples(300), deadline=None)
def test_no_change_to_a_lawful_stream_raises(name: str, data: st.DataObject, options: dict[str, Any]) -> None:
    events = STREAMS[name]().events
    for _ in range(data.draw(st.integers(1, 4))):
        holder: Any = events
        while True:
            key = data.draw(
                st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder)))
            )
            inner = holder[key]
            if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
                break
            holder = inner
        holder[key] = copy.deepcopy(data.draw(VALUES))  # the next change may be made inside it
    check([event for event in events if isinstance(event, dict)], **options)


@given(st.none() | st.text(max_size=10), st.text(max_size=40) | JSON.map(json.dumps), OPTIONS)
@settings(max_examples=examples(300), deadline=None)
def test_no_frame_raises(name: str | None, data: str, options: dict[str, Any]) -> None:
    check_frames([(name, data), (name, f"{data}\n{data}")], **options)


# Events of the state machine


def reports(events: Iterable[Any], **options: Any) -> list[Violation]:
    checker = StreamChecker(**options)
    return [*(violation for event in events for violation in checker.feed(event)), *checker.end()]


@given(st.lists(strategies.deltas, max_size=12), ENDINGS, st.data(), OPTIONS)
@settings(max_examples=examples(200), deadline=None)
def test_feeding_events_and_feeding_their_json_report_the_same(
    deltas: list[Delta], ending: str, data: st.DataObject, options: dict[str, Any]
) -> None:
    stream = machine(strategies.TOOLS)
    events = stream.start()
    for delta in deltas:
        events += stream.apply(delta)
    events += end(stream, ending)
    places = st.lists(st.integers(0, len(events) - 1), max_size=3)
    for place in data.draw(places):  # break the stream: send an event again, later
        events.insert(data.draw(st.integers(0, len(events))), events[place])
    decoded = [json.loads(encode(event)) for event in events]
    assert reports(events, **options) == reports(decoded, **options)


def test_events_of_the_machine_are_checked_as_a_client_sees_them() -> None:
    stream = machine([FunctionTool(name="look")])
    events = [*stream.start(), *stream.apply(TextDelta("Hi.")), *stream.finish(FinishReason.STOP)]
    assert reports(events) == []
    added = next(event for event in events if event.type == ADDED)
    again = [*events[:-1], replace(added, sequence_number=events[-1].sequence_number), events[-1]]
    assert "item.added-twice" in {violation.rule for violation in reports(again)}
