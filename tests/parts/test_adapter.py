"""Which event produces which part (editor 14 to editor 18), and what the faults of real servers change.

No repeated call, no repeated text, no silent end: `adapt` checks the first and the last for every stream.
`FAULTS` is the fault matrix of real clients (client 6).
"""

from __future__ import annotations

import json
from base64 import b64encode
from itertools import count

import pytest

from penstock.errors import (
    InvalidRequestError,
    NetworkError,
    OpenResponsesError,
    RateLimitError,
    ServerError,
)
from penstock.parts.adapter import WARNING, OpenResponsesStreamAdapter
from penstock.parts.parts import DataPart, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from penstock.parts.tracing import trace_line
from penstock.protocol.events import read_event
from tests.cli import streams
from tests.parts.adapted import adapt
from tests.parts.events import (
    JSON,
    arguments_delta,
    arguments_done,
    call,
    completed,
    event,
    incomplete,
    item_added,
    item_done,
    message,
    reasoning,
    reasoning_delta,
    text_delta,
    text_done,
)
from tests.parts.expected import (
    ADD,
    ADD_PART,
    ERROR_EVENT,
    FAILED,
    MULTIPLY_PART,
    RATE_LIMIT,
    SERVER_ERROR,
    TRUNCATED,
    Expected,
    Table,
    assert_produces,
)
from tests.parts.stream_changes import (
    Change,
    Events,
    change_events,
    in_items,
    in_response,
    insert,
    of,
    only,
    over_the_wire,
    rotate_item_ids,
    then_send,
    twice,
    until,
    valid_stream,
    without,
    without_fields,
)


def repeat_call(events: Events) -> Events:
    """Repeat all events of the call with another item id and the same call id."""
    again, _ = streams.call("fc_1", 2, "add", ['{"a":2,', '"b":3}'])
    return [*events[:-1], *json.loads(json.dumps(again).replace('"fc_1"', '"fc_2"')), events[-1]]


def keep_required_fields(response: JSON) -> None:
    required = ("id", "object", "created_at", "status", "model", "output", "tools", "usage", "error")
    for name in [name for name in response if name not in required]:
        del response[name]


NESTED_ERROR_EVENT = {
    "type": "error",
    "error": {"type": "server_error", "code": "server_error", "message": "mid error"},
}

BOTH = Expected(text="working", calls=[ADD], finish="tool_calls")
CONNECTION_LOST = NetworkError("the connection broke", phase="cut")

FAULTS: dict[str, tuple[Change, Expected]] = {
    "control": (lambda events: events, BOTH),
    "drop created": (without("created"), BOTH),
    "drop in_progress": (without("in_progress"), BOTH),
    "drop output_item.added": (without("output_item.added"), BOTH),
    "drop content_part.added": (without("content_part.added"), BOTH),
    "drop output_text.delta": (without("output_text.delta"), BOTH),
    "drop output_text.done": (without("output_text.done"), BOTH),
    "drop content_part.done": (without("content_part.done"), BOTH),
    "drop function_call_arguments.delta": (without("function_call_arguments.delta"), BOTH),
    "drop function_call_arguments.done": (without("function_call_arguments.done"), BOTH),
    "drop output_item.done": (without("output_item.done"), BOTH),
    "drop completed": (
        without("completed"),
        Expected(text="working", calls=[ADD], error=TRUNCATED, finish="error"),
    ),
    "only item.done+completed": (only("output_item.done", "completed"), BOTH),
    "only created+completed(output)": (only("created", "completed"), BOTH),
    "no sequence_number": (without_fields("sequence_number"), BOTH),
    "no output_index/item_id/content_index": (
        without_fields("output_index", "item_id", "content_index"),
        BOTH,
    ),
    "no item id": (in_items(lambda item: item.pop("id")), BOTH),
    "no item status": (in_items(lambda item: item.pop("status")), BOTH),
    "no call_id": (
        in_items(lambda item: item.pop("call_id", None)),
        Expected(text="working", calls=[("gw-fc_1", *ADD[1:])], finish="tool_calls"),
    ),
    "item ids differ added/args.done/done": (rotate_item_ids, BOTH),
    "minimal response objects (9 fields)": (
        in_response(keep_required_fields, "created", "in_progress", "completed"),
        BOTH,
    ),
    "completed.response = {id} only": (
        change_events(lambda event: event.update(response={"id": "resp_1"}), "completed"),
        BOTH,
    ),
    "completed.output empty": (in_response(lambda response: response.update(output=[])), BOTH),
    "usage null": (in_response(lambda response: response.update(usage=None)), BOTH),
    "usage without details": (
        in_response(lambda response: response.update(usage={"input_tokens": 9, "output_tokens": 12})),
        BOTH,
    ),
    "text part without annotations/logprobs": (
        change_events(
            lambda event: [event["part"].pop(name) for name in ("annotations", "logprobs")],
            "content_part.done",
        ),
        BOTH,
    ),
    "no event: lines": (
        over_the_wire(lambda data: b"".join(line for line in data.splitlines(True) if line[:6] != b"event:")),
        BOTH,
    ),
    "keep-alive comments": (over_the_wire(lambda data: data.replace(b"\n\n", b"\n\n: ping\n\n")), BOTH),
    "keep-alive events": (insert(3, {"type": "keepalive"}, event("keep_alive"), {"type": "ping"}), BOTH),
    "unknown event type mid stream": (
        insert(5, event("nonsense")),
        Expected(text="working", calls=[ADD], finish="tool_calls", diagnostics={"unknown_event": 1}),
    ),
    "unknown output item type": (insert(5, item_added({"type": "acme:dream", "id": "d"}, 2)), BOTH),
    "dup item.done (same ids)": (twice("output_item.done", numbered=True), BOTH),
    "dup call: new item id, same call_id": (
        repeat_call,
        Expected(text="working", calls=[ADD], finish="tool_calls", diagnostics={"repeated_call": 1}),
    ),
    "dup item.added": (twice("output_item.added", numbered=True), BOTH),
    "dup text delta": (twice("output_text.delta"), BOTH),
    "dup completed": (twice("completed", numbered=True), BOTH),
    "response.failed first": (
        lambda events: [events[0], FAILED],
        Expected(error=SERVER_ERROR, finish="error"),
    ),
    "response.failed after tool item": (
        then_send(without("completed"), FAILED),
        Expected(text="working", calls=[ADD], error=SERVER_ERROR, finish="error"),
    ),
    "response.incomplete max tokens": (
        then_send(until("output_text.done"), incomplete("max_output_tokens")),
        Expected(text="working", finish="length"),
    ),
    "error event flat": (
        then_send(until("output_text.done"), ERROR_EVENT),
        Expected(text="working", error=SERVER_ERROR, finish="error"),
    ),
    "error event nested": (
        then_send(until("output_text.done"), NESTED_ERROR_EVENT),
        Expected(text="working", error=SERVER_ERROR, finish="error"),
    ),
    "clean close mid text": (
        until("output_text.delta"),
        Expected(text="work", error=TRUNCATED, finish="error"),
    ),
    "clean close after tool item.done": (
        until("output_item.done", index=1),
        Expected(text="working", calls=[ADD], error=TRUNCATED, finish="error"),
    ),
}


@pytest.mark.parametrize(("change", "outcome"), FAULTS.values(), ids=FAULTS.keys())
def test_known_faults_of_servers(change: Change, outcome: Expected) -> None:
    outcome.check(change(valid_stream()))


BROKEN_STREAMS: dict[str, tuple[Change, OpenResponsesError, Expected]] = {
    "http 400": (
        lambda _: [],
        InvalidRequestError("no", status=400),
        Expected(error=(InvalidRequestError, "invalid_request"), finish="error"),
    ),
    "http 429 retry-after:1": (
        lambda _: [],
        RateLimitError("slow down", status=429, retry_after=1),
        Expected(error=(RateLimitError, "rate_limit_exceeded"), finish="error"),
    ),
    "http 500": (
        lambda _: [],
        ServerError("boom", status=500),
        Expected(error=SERVER_ERROR, finish="error"),
    ),
    "cut mid text": (
        until("output_text.delta"),
        CONNECTION_LOST,
        Expected(text="work", error=(NetworkError, "network_error"), finish="error"),
    ),
    "cut after tool item.done": (
        until("output_item.done", index=1),
        CONNECTION_LOST,
        Expected(text="working", calls=[ADD], error=(NetworkError, "network_error"), finish="error"),
    ),
    "cut off after an error event": (
        then_send(until("output_text.done"), ERROR_EVENT),
        CONNECTION_LOST,
        Expected(text="working", error=SERVER_ERROR, finish="error"),
    ),
    "cut off after the end": (lambda events: events, CONNECTION_LOST, BOTH),
}


@pytest.mark.parametrize(("change", "broken", "outcome"), BROKEN_STREAMS.values(), ids=BROKEN_STREAMS.keys())
def test_the_error_of_a_lost_connection_is_reported(
    change: Change, broken: OpenResponsesError, outcome: Expected
) -> None:
    outcome.check(change(valid_stream()), broken)


# Equivalent streams


def one_part_per_delta(events: Events) -> Events:
    numbers = count()
    return change_events(lambda event: event.update(content_index=next(numbers)), "output_text.delta")(events)


def change_call_id(events: Events) -> Events:
    """Use another call id in the terminal response, as vLLM does; clients know the first."""
    return in_response(lambda response: response["output"][-1].update(call_id="call_new"))(events)


EQUIVALENT: dict[str, Change] = {
    "another item id in every event": rotate_item_ids,
    "another item id in every event, and nothing announced": lambda events: rotate_item_ids(
        without("output_item.added")(events)
    ),
    "another item id in every event, and no indexes": lambda events: without_fields("output_index")(
        rotate_item_ids(events)
    ),
    "another item id in every event, announced twice": lambda events: rotate_item_ids(
        twice("output_item.added", numbered=True)(events)
    ),
    "another response id in every event": in_response(
        lambda response: response.update(id=f"resp_{id(response)}"), "created", "in_progress", "completed"
    ),
    "the same item id for all": lambda events: json.loads(
        json.dumps(events).replace('"msg_1"', '"x"').replace('"fc_1"', '"x"')
    ),
    "every item at index 0": change_events(
        lambda event: "output_index" in event and event.update(output_index=0)
    ),
    "indexes from 1": change_events(
        lambda event: "output_index" in event and event.update(output_index=event["output_index"] + 1)
    ),
    "indexes that are not numbers": change_events(
        lambda event: "output_index" in event and event.update(output_index="0")
    ),
    "the same number for all events": change_events(lambda event: event.update(sequence_number=1)),
    "a part for every text delta": one_part_per_delta,
    "part indexes from 1 in deltas and from 0 in the item": change_events(
        lambda event: event.update(content_index=1), "output_text.delta"
    ),
    "another call id in the response": change_call_id,
    "other ids for all in the response": lambda events: change_call_id(
        in_response(lambda response: [item.update(id=f"new_{item['id']}") for item in response["output"]])(
            events
        )
    ),
    "another call id when the item is done": change_events(
        lambda event: event["item"].update(call_id="call_new") if "call_id" in event["item"] else None,
        "output_item.done",
    ),
    "another call id and item id when the item is done": change_events(
        lambda event: (
            event["item"].update(call_id="call_new", id="new") if "call_id" in event["item"] else None
        ),
        "output_item.done",
    ),
    "arguments as an object": change_events(
        lambda event: (
            event["item"].update(arguments={"a": 2, "b": 3}) if "call_id" in event["item"] else None
        ),
        "output_item.done",
    ),
    "only the deltas of the call": lambda events: in_response(lambda response: response.update(output=[]))(
        without("function_call_arguments.done", "output_item.done")(events)
    ),
    "the item is done before its arguments are": lambda events: [
        *(each for each in events[:-1] if not of("function_call_arguments.done")(each)),
        *filter(of("function_call_arguments.done"), events),
        events[-1],
    ],
    "null for unknown fields": change_events(lambda event: event.update(item_id=None, output_index=None)),
    "messages without a role": in_items(lambda item: item.pop("role", None)),
    "a string instead of a list of parts": in_items(
        lambda item: (
            item["type"] == "message" and item.update(content="".join(p["text"] for p in item["content"]))
        )
    ),
    "a delta as an object": change_events(
        lambda event: event.update(delta={"type": "output_text", "text": event["delta"]}), "output_text.delta"
    ),
    "a null output": in_response(lambda response: response.update(output=None)),
    "response.done instead of response.completed": change_events(
        lambda event: event.update(type="response.done"), "completed"
    ),
    "completed with the status in_progress": in_response(
        lambda response: response.update(status="in_progress")
    ),
    "types with a vendor prefix": change_events(
        lambda event: event.update(type=f"openai:{event['type']}") if event["type"] != "error" else None
    ),
}


@pytest.mark.parametrize("change", EQUIVALENT.values(), ids=EQUIVALENT.keys())
def test_streams_with_odd_ids_and_fields_are_equivalent(change: Change) -> None:
    found = adapt(change(valid_stream()))
    assert (found.text, [(call.call_id, call.name, call.input) for call in found.calls]) == ("working", [ADD])
    assert (found.error, found.result.finish) == (None, "tool_calls")


def test_events_after_the_end_change_nothing() -> None:
    late = [
        event("rate_limits.updated"),
        text_delta("m", "more"),
        item_done(call("fc_1", "add", "{}")),
        FAILED,
        completed(usage={"input_tokens": 1}),
    ]
    Expected(text="Hi").check([text_delta("m", "Hi"), completed(), *late])


# Unknown events


def test_unknown_events_are_counted_and_pings_are_not() -> None:
    odd = [event("nonsense"), event("nonsense"), {"type": "acme.thing"}, {"type": ""}]
    pings = [{"type": "ping"}, {"type": "keepalive"}, event("heartbeat"), event("web_search_call.searching")]
    found = adapt([*odd, *pings, text_delta("m", "Hi"), completed()])
    assert found.diagnostics == {"unknown_event": 4}
    assert [diagnostic.count for diagnostic in found.result.diagnostics] == [2, 1, 1]


def test_an_empty_file_event_is_counted() -> None:
    found = adapt([event("file", file={"file_id": "file_1"}), text_delta("m", "Hi"), completed()])
    assert (found.summary, found.diagnostics) == (["Hi"], {"unknown_event": 1})


WRONG_FIELDS: dict[str, JSON] = {
    "a number as a delta": event("output_text.delta", item_id="m", delta=5),
    "a string as an item": event("output_item.added", item="msg_1"),
    "an item that is missing": event("output_item.done"),
    "an item without a type": event("output_item.done", item={"id": "m"}),
    "a list as a part": event("content_part.done", item_id="m", part=[]),
    "a null annotation": event("output_text.annotation.added", item_id="m", annotation=None),
    "a list as a response": event("created", response=[]),
    "arguments without an item": event("function_call_arguments.delta", delta={}),
    "an invalid sequence number": event("output_text.delta", sequence_number="one", delta=None),
    "a negative index": event("output_text.delta", output_index=-1, delta=""),
}


@pytest.mark.parametrize("odd", WRONG_FIELDS.values(), ids=WRONG_FIELDS.keys())
def test_an_event_with_invalid_fields_changes_nothing(odd: JSON) -> None:
    for at in (0, 4, 10):
        found = adapt(insert(at, odd)(valid_stream()))
        assert (found.summary, found.error) == (["work", "ing", ADD], None)


# The flows of text, calls and thinking


def test_text_deltas_become_text_parts() -> None:
    part = {"type": "output_text", "text": "", "annotations": []}
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    assert_produces(
        [
            (event("created", response={"id": "resp_1"}), []),
            (event("in_progress", response={"id": "resp_1"}), []),
            (item_added(message("m")), []),
            (event("content_part.added", **place, part=part), []),
            (text_delta("m", "Hello, "), [TextPart("Hello, ")]),
            (text_delta("m", "world"), [TextPart("world")]),
            (text_done("m", "Hello, world"), []),
            (event("content_part.done", **place, part={**part, "text": "Hello, world"}), []),
            (item_done(message("m", "Hello, world")), []),
            (completed(message("m", "Hello, world")), []),
        ]
    )


def test_reasoning_deltas_become_thinking_parts() -> None:
    assert_produces(
        [
            (item_added(reasoning("rs")), []),
            (reasoning_delta("rs", "Hm, "), [ThinkingPart("Hm, ", "rs")]),
            (reasoning_delta("rs", "yes"), [ThinkingPart("yes", "rs")]),
            (event("reasoning.done", item_id="rs", content_index=0, text="Hm, yes"), []),
            (text_delta("m", "Yes.", 1), [TextPart("Yes.")]),
        ]
    )


def test_text_interleaved_with_a_call() -> None:
    part = event("content_part.added", item_id="m", part={"type": "output_text", "text": ""})
    assert_produces(
        [
            (item_added(message("m"), 0), []),
            (part, []),
            (text_delta("m", "Let me "), [TextPart("Let me ")]),
            (item_added(call("fc_1", "add"), 1), []),
            (text_delta("m", "check that..."), [TextPart("check that...")]),
            (arguments_delta("fc_1", '{"a":2}', 1), []),
            (text_done("m", "Let me check that..."), []),
            (arguments_done("fc_1", '{"a":2}', 1), [ADD_PART]),
            (item_done(message("m", "Let me check that..."), 0), []),
            (item_done(call("fc_1", "add", '{"a":2}'), 1), []),
        ]
    )


def test_an_error_can_be_reported_as_text() -> None:
    assert adapt([text_delta("m", "Half"), RATE_LIMIT], errors_as_text=True).summary == [
        "Half",
        "\n\n**Error:** Slow\n\n",
    ]


# Kinds of parts (editor 15)


EVERYTHING = [
    item_added(reasoning("rs"), 0),
    reasoning_delta("rs", "Hm", 0),
    item_done(reasoning("rs", "Hm"), 0),
    text_delta("m", "Look:", 1),
    item_done(message("m", "Look:"), 1),
    item_done(call("fc_1", "add", '{"a":2}'), 2),
    event("file", mime_type="text/plain", data=b64encode(b"a file").decode()),
    item_done({"type": "function_call_output", "id": "fco", "call_id": "call_fc_1", "output": "5"}, 3),
    item_done({"type": "custom_tool_call_output", "id": "ctco", "call_id": "call_x", "output": "5"}, 4),
    completed({"type": "function_call_output", "id": "fco", "call_id": "call_fc_1", "output": "5"}),
]


@pytest.mark.parametrize("thinking", ["part", "text", "none"])
def test_a_tool_result_is_never_emitted(thinking: str) -> None:
    found = adapt(EVERYTHING, thinking=thinking)
    assert not any(isinstance(part, ToolResultPart) for part in found.parts)
    assert "5" not in found.text
    assert [call.call_id for call in found.calls] == ["gw-call_fc_1"]


def test_parts_are_in_the_order_of_generation() -> None:
    kinds = [part.__class__ for part in adapt(EVERYTHING).parts]
    assert kinds == [ThinkingPart, ThinkingPart, TextPart, ToolCallPart, DataPart]


def test_text_is_forwarded_unchanged() -> None:
    pieces = ["Hello", ", ", "", "world!", "\n", "\n"]
    table: Table = [(text_delta("m", piece), [TextPart(piece)] if piece else []) for piece in pieces]
    assert_produces(table)


def test_a_call_is_delivered_before_the_text_after_it() -> None:
    found = adapt(
        [
            text_delta("m_1", "Let me check", 0),
            item_done(message("m_1", "Let me check"), 0),
            item_done(call("fc_1", "add", '{"a":2}'), 1),
            text_delta("m_2", "Based on the file...", 2),
            completed(),
        ]
    )
    assert found.parts == [TextPart("Let me check"), ADD_PART, TextPart("Based on the file...")]


def test_parallel_calls_come_before_the_text_that_follows_them() -> None:
    first, second = call("fc_1", "add", '{"a":2}'), call("fc_2", "multiply", '{"b":3}')
    found = adapt([item_done(first, 0), item_done(second, 1), text_delta("m", "Done.", 2), completed()])
    assert found.parts == [ADD_PART, MULTIPLY_PART, TextPart("Done.")]


# Order of parts (editor 16, editor 17)


def test_parts_are_not_delayed() -> None:
    adapter = OpenResponsesStreamAdapter()
    parts = [
        part
        for each in (text_delta("m", "Half"), text_delta("m", " an"))
        for part in adapter.feed(read_event(each))
    ]
    assert parts == [TextPart("Half"), TextPart(" an")]
    assert adapter.result.error is None


SAY, CALL_ADD, CALL_MULTIPLY = "say", "add", "multiply"
PATTERNS = [
    (SAY, SAY, CALL_ADD, SAY),
    (SAY, CALL_ADD, CALL_MULTIPLY, SAY),
    (CALL_ADD, SAY, CALL_MULTIPLY, SAY),
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=", ".join)
def test_text_and_calls_keep_their_order(pattern: tuple[str, ...]) -> None:
    moves: dict[str, tuple[JSON, Part]] = {
        CALL_ADD: (item_done(call("fc_1", "add", '{"a":2}')), ADD_PART),
        CALL_MULTIPLY: (item_done(call("fc_2", "multiply", '{"b":3}')), MULTIPLY_PART),
        SAY: (text_delta("m", "text"), TextPart("text")),
    }
    events = [{**moves[each][0], "output_index": index} for index, each in enumerate(pattern)]
    assert adapt([*events, completed()]).parts == [moves[each][1] for each in pattern]


def test_events_after_the_end_produce_no_parts() -> None:
    late = [
        text_delta("m", "more"),
        item_done(call("fc_1", "add", "{}")),
        completed(message("m", "more")),
        RATE_LIMIT,
    ]
    found = adapt([text_delta("m", "Yes."), completed(), *late])
    assert (found.summary, found.error) == (["Yes."], None)


def test_every_event_is_traced_with_its_parts_and_problems_are_warnings() -> None:
    traced: list[str] = []
    warnings: list[tuple[int, str]] = []
    events = [
        {**text_delta("m", "Yes."), "sequence_number": 4},
        {**text_delta("m", "Yes."), "sequence_number": 4},
        item_added(call("fc_1", "add"), 1),
        event("nonsense"),
        item_done(call("fc_1", "add", "{nope"), 1),
        RATE_LIMIT,
        text_delta("m", "late"),
    ]
    adapt(
        events,
        log=lambda level, line: warnings.append((level, line)),
        trace=lambda event, parts: traced.append(trace_line(event, parts)),
    )
    assert traced == [
        "4 response.output_text.delta 0 m -> text 4",
        "4 response.output_text.delta 0 m -> nothing",
        "0 response.output_item.added 1 fc_1 -> nothing",
        "0 unknown event -> nothing",
        "0 response.output_item.done 1 fc_1 -> nothing",
        "0 response.failed resp_1 -> nothing",
        "0 response.output_text.delta 0 m -> nothing",
    ]
    assert warnings == [
        (WARNING, "unknown_event: an event of type 'response.nonsense' was ignored"),
        (WARNING, "malformed_tool_call: a call to 'add' has arguments that are not a JSON object"),
        (WARNING, "the response failed: Slow (rate_limit_exceeded)"),
    ]


def test_parts_after_the_last_event_are_traced() -> None:
    traced: list[str] = []
    adapt(
        [text_delta("m", "Half")],
        errors_as_text=True,
        trace=lambda event, parts: traced.append(trace_line(event, parts)),
    )
    assert traced[-1].startswith("end of the stream -> text ")
