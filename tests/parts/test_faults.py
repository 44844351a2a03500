"""What real servers do wrong, and what the adapter makes of it: the right parts, or a typed error.

Never a doubled call, never a doubled text, never silence: `read` checks the first and the last for every row.
The first table is the fault matrix of real clients (client 6), over the stream that those faults were tried
on.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from msgspec import Struct

from penstock.errors import (
    InvalidRequestError,
    NetworkError,
    OpenResponsesError,
    ProtocolError,
    RateLimitError,
    ServerError,
)
from penstock.parts.parts import ThinkingPart
from penstock.sse import Decoder
from tests.cli import streams
from tests.parts.events import (
    JSON,
    added,
    all_argued,
    all_said,
    argued,
    call,
    completed,
    done,
    ended,
    event,
    failed,
    incomplete,
    message,
    reasoning,
    said,
    thought,
)
from tests.parts.reading import read

Events = list[JSON]
Change = Callable[[Events], Events]
Failure = tuple[type[OpenResponsesError], str]

ADD = ("gw-call_fc_1", "add", {"a": 2, "b": 3})
MULTIPLY = ("gw-call_fc_2", "multiply", {"c": 4})
TRUNCATED = (ProtocolError, "stream_truncated")
EMPTY = (ProtocolError, "empty_response")
MALFORMED = (ProtocolError, "malformed_tool_call")


class Outcome(Struct, kw_only=True):
    """What a stream must come to. `told` are the codes of its diagnostics, with their counts."""

    text: str = ""
    calls: list[tuple[str, str, JSON]] = []
    error: Failure | None = None
    finish: str = "stop"
    told: dict[str, int] = {}

    def holds_for(self, events: Events, broken: OpenResponsesError | None = None) -> None:
        found = read(events, broken=broken)
        calls = [(call.call_id, call.name, call.input) for call in found.calls]
        assert (found.text, calls) == (self.text, self.calls)
        assert found.error == self.error
        assert found.result.finish == self.finish
        assert found.diagnostics == self.told


# The fault matrix


def control() -> Events:
    """Text and a call, nothing wrong."""
    text, working = streams.message("msg_1", 0, ["work", "ing"])
    arguments, add = streams.call("fc_1", 1, "add", ['{"a":2,', '"b":3}'])
    return streams.response([*text, *arguments], [working, add])


def of(*types: str) -> Callable[[JSON], bool]:
    return lambda event: event["type"].removeprefix("response.") in types


def without(*types: str) -> Change:
    return lambda events: [event for event in events if not of(*types)(event)]


def only(*types: str) -> Change:
    return lambda events: [event for event in events if of(*types)(event)]


def changed(change: Callable[[JSON], Any], *types: str) -> Change:
    """Every event (of these types) changed in place."""

    def apply(events: Events) -> Events:
        for each in events:
            if not types or of(*types)(each):
                change(each)
        return events

    return apply


def without_fields(*names: str) -> Change:
    return changed(lambda event: [event.pop(name, None) for name in names])


def in_items(change: Callable[[JSON], Any]) -> Change:
    """Every item changed in place, wherever it is told."""

    def apply(event: JSON) -> None:
        for item in [
            *([event["item"]] if "item" in event else []),
            *event.get("response", {}).get("output", []),
        ]:
            change(item)

    return changed(apply)


def in_response(change: Callable[[JSON], Any], *types: str) -> Change:
    return changed(lambda event: change(event["response"]), *(types or ("completed",)))


def twice(*types: str, numbered: bool = False) -> Change:
    """Every event of these types again at once, `numbered` as an event of its own."""

    def apply(events: Events) -> Events:
        told: Events = []
        for each in events:
            again = {**copy.deepcopy(each), **({"sequence_number": 1000} if numbered else {})}
            told += [each, again] if of(*types)(each) else [each]
        return told

    return apply


def until(*types: str, index: int | None = None) -> Change:
    """The stream up to and including the first event of these types (of the item at a place)."""

    def apply(events: Events) -> Events:
        fits = (
            n for n, each in enumerate(events) if of(*types)(each) and index in (None, each["output_index"])
        )
        return events[: next(fits) + 1]

    return apply


def then(change: Change, *more: JSON) -> Change:
    return lambda events: [*change(events), *more]


def inserted(at: int, *more: JSON) -> Change:
    return lambda events: [*events[:at], *more, *events[at:]]


def over_the_wire(write: Callable[[bytes], bytes]) -> Change:
    """Through the bytes of server-sent events."""

    def apply(events: Events) -> Events:
        frames = Decoder().feed(write(streams.as_sse(events)))
        return [json.loads(frame.data) for frame in frames if frame.data != "[DONE]"]

    return apply


def call_again(events: Events) -> Events:
    """The call once more, all of its events, under another item id and the same call id."""
    again, _ = streams.call("fc_1", 2, "add", ['{"a":2,', '"b":3}'])
    return [*events[:-1], *json.loads(json.dumps(again).replace('"fc_1"', '"fc_2"')), events[-1]]


def rotated(events: Events) -> Events:
    """Another id for the same item in every event, and in the response."""
    numbers = count()
    for each in events:
        if "item_id" in each:
            each["item_id"] = f"x{next(numbers)}"
    return in_items(lambda item: item.update(id=f"x{next(numbers)}"))(events)


def minimal(response: JSON) -> None:
    kept = ("id", "object", "created_at", "status", "model", "output", "tools", "usage", "error")
    for name in [name for name in response if name not in kept]:
        del response[name]


FAILED = failed("server_error", "boom")
GONE = {"type": "error", "code": "server_error", "message": "mid error", "param": None}
NESTED = {"type": "error", "error": {"type": "server_error", "code": "server_error", "message": "mid error"}}
SERVER = (ServerError, "server_error")

BOTH = Outcome(text="working", calls=[ADD], finish="tool_calls")
CUT = NetworkError("the connection broke", phase="cut")

MATRIX: dict[str, tuple[Change, Outcome]] = {
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
        Outcome(text="working", calls=[ADD], error=TRUNCATED, finish="error"),
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
        Outcome(text="working", calls=[("gw-fc_1", *ADD[1:])], finish="tool_calls"),
    ),
    "item ids differ added/args.done/done": (rotated, BOTH),
    "response objects minimal (9 fields)": (
        in_response(minimal, "created", "in_progress", "completed"),
        BOTH,
    ),
    "completed.response = {id} only": (
        changed(lambda event: event.update(response={"id": "resp_1"}), "completed"),
        BOTH,
    ),
    "completed.output empty": (in_response(lambda response: response.update(output=[])), BOTH),
    "usage null": (in_response(lambda response: response.update(usage=None)), BOTH),
    "usage without details": (
        in_response(lambda response: response.update(usage={"input_tokens": 9, "output_tokens": 12})),
        BOTH,
    ),
    "text part without annotations/logprobs": (
        changed(
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
    "keep-alive events": (inserted(3, {"type": "keepalive"}, event("keep_alive"), {"type": "ping"}), BOTH),
    "unknown event type mid stream": (
        inserted(5, event("nonsense")),
        Outcome(text="working", calls=[ADD], finish="tool_calls", told={"unknown_event": 1}),
    ),
    "unknown output item type": (inserted(5, added({"type": "acme:dream", "id": "d"}, 2)), BOTH),
    "dup item.done (same ids)": (twice("output_item.done", numbered=True), BOTH),
    "dup call: new item id, same call_id": (
        call_again,
        Outcome(text="working", calls=[ADD], finish="tool_calls", told={"repeated_call": 1}),
    ),
    "dup item.added": (twice("output_item.added", numbered=True), BOTH),
    "dup text delta": (twice("output_text.delta"), BOTH),
    "dup completed": (twice("completed", numbered=True), BOTH),
    "response.failed first": (lambda events: [events[0], FAILED], Outcome(error=SERVER, finish="error")),
    "response.failed after tool item": (
        then(without("completed"), FAILED),
        Outcome(text="working", calls=[ADD], error=SERVER, finish="error"),
    ),
    "response.incomplete max tokens": (
        then(until("output_text.done"), incomplete("max_output_tokens")),
        Outcome(text="working", finish="length"),
    ),
    "error event flat": (
        then(until("output_text.done"), GONE),
        Outcome(text="working", error=SERVER, finish="error"),
    ),
    "error event nested": (
        then(until("output_text.done"), NESTED),
        Outcome(text="working", error=SERVER, finish="error"),
    ),
    "clean close mid text": (
        until("output_text.delta"),
        Outcome(text="work", error=TRUNCATED, finish="error"),
    ),
    "clean close after tool item.done": (
        until("output_item.done", index=1),
        Outcome(text="working", calls=[ADD], error=TRUNCATED, finish="error"),
    ),
}


@pytest.mark.parametrize(("change", "outcome"), MATRIX.values(), ids=MATRIX.keys())
def test_the_fault_matrix(change: Change, outcome: Outcome) -> None:
    outcome.holds_for(change(control()))


BROKEN: dict[str, tuple[Change, OpenResponsesError, Outcome]] = {
    "http 400": (
        lambda _: [],
        InvalidRequestError("no", status=400),
        Outcome(error=(InvalidRequestError, "invalid_request"), finish="error"),
    ),
    "http 429 retry-after:1": (
        lambda _: [],
        RateLimitError("slow down", status=429, retry_after=1),
        Outcome(error=(RateLimitError, "rate_limit_exceeded"), finish="error"),
    ),
    "http 500": (
        lambda _: [],
        ServerError("boom", status=500),
        Outcome(error=SERVER, finish="error"),
    ),
    "cut mid text": (
        until("output_text.delta"),
        CUT,
        Outcome(text="work", error=(NetworkError, "network_error"), finish="error"),
    ),
    "cut after tool item.done": (
        until("output_item.done", index=1),
        CUT,
        Outcome(text="working", calls=[ADD], error=(NetworkError, "network_error"), finish="error"),
    ),
    "cut behind an error event": (
        then(until("output_text.done"), GONE),
        CUT,
        Outcome(text="working", error=SERVER, finish="error"),
    ),
    "cut behind the end": (lambda events: events, CUT, BOTH),
}


@pytest.mark.parametrize(("change", "broken", "outcome"), BROKEN.values(), ids=BROKEN.keys())
def test_a_connection_that_breaks_says_why(
    change: Change, broken: OpenResponsesError, outcome: Outcome
) -> None:
    outcome.holds_for(change(control()), broken)


# The same in other combinations, as servers are known to have them


def each_piece_a_part(events: Events) -> Events:
    numbers = count()
    return changed(lambda event: event.update(content_index=next(numbers)), "output_text.delta")(events)


def parallel(first_ends_first: bool) -> Events:
    """Two calls whose events come in turns."""
    add, first = streams.call("fc_1", 0, "add", ['{"a":2,', '"b":3}'])
    multiply, second = streams.call("fc_2", 1, "multiply", ['{"c":', "4}"])
    turns = zip(*((add, multiply) if first_ends_first else (multiply, add)), strict=True)
    events = [add[0], multiply[0], *[each for pair in turns for each in pair][2:]]
    return streams.response(events, [first, second])


def anonymous(events: Events) -> Events:
    """Nothing that says which item an event is about."""
    events = without_fields("output_index", "item_id")(events)
    return in_items(lambda item: [item.pop(name, None) for name in ("id", "call_id")])(events)


def call_id_changed(events: Events) -> Events:
    """Another call id in the terminal response (vLLM): a client knows the call by the first."""
    return in_response(lambda response: response["output"][-1].update(call_id="call_new"))(events)


SAME: dict[str, Change] = {
    "another item id in every event": rotated,
    "another item id in every event, and nothing announced": lambda events: rotated(
        without("output_item.added")(events)
    ),
    "another item id in every event, and no places": lambda events: without_fields("output_index")(
        rotated(events)
    ),
    "another item id in every event, announced twice": lambda events: rotated(
        twice("output_item.added", numbered=True)(events)
    ),
    "another response id in every event": in_response(
        lambda response: response.update(id=f"resp_{id(response)}"), "created", "in_progress", "completed"
    ),
    "one item id for all": lambda events: json.loads(
        json.dumps(events).replace('"msg_1"', '"x"').replace('"fc_1"', '"x"')
    ),
    "every item at place 0": changed(lambda event: "output_index" in event and event.update(output_index=0)),
    "places from 1": changed(
        lambda event: "output_index" in event and event.update(output_index=event["output_index"] + 1)
    ),
    "places that are no numbers": changed(
        lambda event: "output_index" in event and event.update(output_index="0")
    ),
    "one number for all events": changed(lambda event: event.update(sequence_number=1)),
    "every piece of text a part": each_piece_a_part,
    "parts numbered from 1, and from 0 in the item": changed(
        lambda event: event.update(content_index=1), "output_text.delta"
    ),
    "another call id in the response": call_id_changed,
    "other ids for all in the response": lambda events: call_id_changed(
        in_response(lambda response: [item.update(id=f"new_{item['id']}") for item in response["output"]])(
            events
        )
    ),
    "another call id when the item is done": changed(
        lambda event: event["item"].update(call_id="call_new") if "call_id" in event["item"] else None,
        "output_item.done",
    ),
    "another call id and item id when the item is done": changed(
        lambda event: (
            event["item"].update(call_id="call_new", id="new") if "call_id" in event["item"] else None
        ),
        "output_item.done",
    ),
    "arguments that are an object": changed(
        lambda event: (
            event["item"].update(arguments={"a": 2, "b": 3}) if "call_id" in event["item"] else None
        ),
        "output_item.done",
    ),
    "no event of the call but its deltas": lambda events: in_response(
        lambda response: response.update(output=[])
    )(without("function_call_arguments.done", "output_item.done")(events)),
    "the item is done before its arguments are": lambda events: [
        *(each for each in events[:-1] if not of("function_call_arguments.done")(each)),
        *filter(of("function_call_arguments.done"), events),
        events[-1],
    ],
    "nulls for what is not known": changed(lambda event: event.update(item_id=None, output_index=None)),
    "messages without a role": in_items(lambda item: item.pop("role", None)),
    "a text that is no list of parts": in_items(
        lambda item: (
            item["type"] == "message" and item.update(content="".join(p["text"] for p in item["content"]))
        )
    ),
    "a delta that is an object": changed(
        lambda event: event.update(delta={"type": "output_text", "text": event["delta"]}), "output_text.delta"
    ),
    "an output that is null": in_response(lambda response: response.update(output=None)),
    "an end that is called done": changed(lambda event: event.update(type="response.done"), "completed"),
    "an end that still is in progress": in_response(lambda response: response.update(status="in_progress")),
    "types with a slug": changed(
        lambda event: event.update(type=f"openai:{event['type']}") if event["type"] != "error" else None
    ),
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME.keys())
def test_what_is_told_otherwise_is_still_the_same(change: Change) -> None:
    found = read(change(control()))
    assert (found.text, [(call.call_id, call.name, call.input) for call in found.calls]) == ("working", [ADD])
    assert (found.error, found.result.finish) == (None, "tool_calls")


ARGUED = ("function_call_arguments.delta", "function_call_arguments.done")

PARALLEL: dict[str, Change] = {
    "nothing": lambda events: events,
    "another item id in every event": rotated,
    "every item at place 0": changed(lambda event: "output_index" in event and event.update(output_index=0)),
    "another item id in every event, every item at place 0": lambda events: rotated(
        changed(lambda event: "output_index" in event and event.update(output_index=0))(events)
    ),
    "one item id for all": lambda events: json.loads(
        json.dumps(events).replace('"fc_1"', '"x"').replace('"fc_2"', '"x"')
    ),
    "one item id for all, and only arguments that end": lambda events: PARALLEL["one item id for all"](
        PARALLEL["only arguments that end"](events)
    ),
    "only arguments that end": lambda events: in_response(lambda response: response.update(output=[]))(
        without("output_item.done")(events)
    ),
    "the id of the call for that of its item, at place 0, and only arguments that end": lambda events: (
        changed(lambda event: event.update(item_id=f"call_{event['item_id']}", output_index=0), *ARGUED)(
            PARALLEL["only arguments that end"](events)
        )
    ),
    "nothing announced": without("output_item.added"),
    "no item is done": without("output_item.done"),
    "announced twice": twice("output_item.added", numbered=True),
    "done twice": twice("output_item.done", "function_call_arguments.done", numbered=True),
    "an empty response": in_response(lambda response: response.update(output=[])),
    "other ids for all in the response": in_response(
        lambda response: [
            item.update(id=f"x{n}", call_id=f"y{n}") for n, item in enumerate(response["output"])
        ]
    ),
    "the response in another order, with other ids": in_response(
        lambda response: [
            response["output"].reverse(),
            *(item.update(id=f"x{n}", call_id=f"y{n}") for n, item in enumerate(response["output"])),
        ]
    ),
}


@pytest.mark.parametrize("first_ends_first", [True, False], ids=["the first ends first", "the second does"])
@pytest.mark.parametrize("change", PARALLEL.values(), ids=PARALLEL.keys())
def test_parallel_calls_are_told_apart(change: Change, first_ends_first: bool) -> None:
    found = read(change(parallel(first_ends_first)))
    assert sorted((call.call_id, call.name, call.input) for call in found.calls) == [ADD, MULTIPLY]
    assert set(found.diagnostics) <= {"repeated_call"}


@pytest.mark.parametrize("first_ends_first", [True, False], ids=["the first ends first", "the second does"])
def test_without_any_id_calls_keep_their_names_and_arguments(first_ends_first: bool) -> None:
    found = read(anonymous(parallel(first_ends_first)))
    assert sorted((call.name, call.input) for call in found.calls) == [
        ("add", {"a": 2, "b": 3}),
        ("multiply", {"c": 4}),
    ]


def test_without_any_id_a_call_does_not_get_the_arguments_of_another() -> None:
    events = [
        added(call("", "add")),
        argued("", '{"a":2,"b":3}'),
        done(call("", "rest", "")),
        done(call("", "add", "")),
        completed(),
    ]
    found = read(anonymous(events))
    assert [(call.name, call.input) for call in found.calls] == [("rest", {}), ADD[1:]]


def test_without_any_id_two_calls_to_one_tool_are_two() -> None:
    first, one = streams.call("fc_1", 0, "add", ['{"a":1}'])
    second, two = streams.call("fc_2", 1, "add", ['{"a":2}'])
    for events in ([*first, *second], [first[0], second[0], *first[1:], *second[1:]]):
        found = read(anonymous(streams.response(events, [one, two])))
        assert [call.input for call in found.calls] == [{"a": 1}, {"a": 2}]


def test_one_item_id_for_two_calls_one_after_the_other() -> None:
    add, multiply = (
        call("x", "add", '{"a":2,"b":3}', call_id="call_fc_1"),
        call("x", "multiply", "", call_id="call_fc_2"),
    )
    for announced in (True, False):
        opened = [[added(item, index)] if announced else [] for index, item in enumerate((add, multiply))]
        found = read(
            [
                *opened[0],
                done(add, 0),
                *opened[1],
                argued("x", '{"c":4}', 1),
                all_argued("x", '{"c":4}', 1),
                done({**multiply, "arguments": '{"c":4}'}, 1),
                completed(),
            ]
        )
        assert found.said == [ADD, MULTIPLY]


def test_one_item_id_for_two_calls_the_second_of_which_only_the_response_has() -> None:
    add, multiply = (
        call("x", "add", '{"a":2,"b":3}', call_id="call_fc_1"),
        call("x", "multiply", '{"c":4}', call_id="call_fc_2"),
    )
    assert read([done(add), completed(add, multiply)]).said == [ADD, MULTIPLY]


def test_calls_at_one_place_under_ids_of_their_own_in_the_events() -> None:
    """Not those that they were announced with, but the same in every event: the first one is learnt."""
    events = [
        added(call("fc_1", "add")),
        argued("event_1", '{"a":2,'),
        added(call("fc_2", "multiply")),
        all_argued("event_1", '{"a":2,"b":3}'),
        all_argued("event_2", '{"c":4}'),
        completed(),
    ]
    assert read(events).said == [ADD, MULTIPLY]


ANEW: dict[str, tuple[Events, list[JSON]]] = {
    "has a call more to the same tool": (
        [done(call("fc_1", "add", '{"a":2,"b":3}'))],
        [call("x", "add", '{"a":9}'), call("y", "add", '{"a":2,"b":3}')],
    ),
    "has a call more to another tool": (
        [done(call("fc_1", "add", '{"a":2,"b":3}'))],
        [call("x", "multiply", '{"a":9}'), call("y", "add", '{"a":2,"b":3}')],
    ),
}


@pytest.mark.parametrize(("events", "output"), ANEW.values(), ids=ANEW.keys())
def test_a_response_with_other_ids_has_its_new_calls_delivered_and_the_old_ones_not(
    events: Events, output: list[JSON]
) -> None:
    found = read([*events, completed(*output)])
    assert [(call.call_id, call.input) for call in found.calls] == [
        ("gw-call_fc_1", {"a": 2, "b": 3}),
        ("gw-call_x", {"a": 9}),
    ]


def test_a_call_that_was_only_announced_is_found_in_a_response_with_other_ids() -> None:
    events = [added(call("fc_1", "add")), completed(call("x", "add", '{"a":2,"b":3}'))]
    Outcome(calls=[ADD], finish="tool_calls").holds_for(events)


REPEATED = {
    "before the first is done": [
        added(call("fc_1", "add"), 0),
        added(call("fc_9", "add", call_id="call_fc_1"), 1),
        all_argued("fc_1", '{"a":2,"b":3}', 0),
        all_argued("fc_9", '{"a":2,"b":3}', 1),
    ],
    "after the first is done": [
        done(call("fc_1", "add", '{"a":2,"b":3}'), 0),
        done(call("fc_9", "add", '{"a":2,"b":3}', call_id="call_fc_1"), 1),
    ],
    "with other arguments": [
        done(call("fc_1", "add", '{"a":2,"b":3}'), 0),
        done(call("fc_9", "add", '{"a":9}', call_id="call_fc_1"), 1),
    ],
    "at the same place": [
        done(call("fc_1", "add", '{"a":2,"b":3}'), 0),
        done(call("fc_9", "add", '{"a":2,"b":3}', call_id="call_fc_1"), 0),
    ],
    "in the response alone": [
        done(call("fc_1", "add", '{"a":2,"b":3}'), 0),
        completed(
            call("fc_1", "add", '{"a":2,"b":3}'), call("fc_9", "add", '{"a":2,"b":3}', call_id="call_fc_1")
        ),
    ],
}


@pytest.mark.parametrize("events", REPEATED.values(), ids=REPEATED.keys())
def test_a_call_that_is_repeated_under_another_item_id_comes_once(events: Events) -> None:
    assert read([*events, completed()]).said == [ADD]


def test_a_call_that_only_the_response_has_comes_beside_one_like_it() -> None:
    """What only the response has is no repeat, however alike: the calls that were told are all taken."""
    alike = [call("fc_1", "add", '{"a":2,"b":3}'), call("fc_2", "add", '{"a":2,"b":3}')]
    again = call("fc_9", "add", '{"a":2,"b":3}', call_id="call_fc_1")
    found = read([done(alike[0], 0), done(again, 1), completed(*alike)])
    assert [call.call_id for call in found.calls] == ["gw-call_fc_1", "gw-call_fc_2"]


# Arguments


def only_in_arguments_done(arguments: Any) -> Events:
    return [added(call("fc_1", "add")), all_argued("fc_1", arguments), completed()]


def only_in_the_item(arguments: Any) -> Events:
    return [done(call("fc_1", "add", arguments)), completed()]


def only_in_the_response(arguments: Any) -> Events:
    return [completed(call("fc_1", "add", arguments))]


def only_announced(arguments: Any) -> Events:
    return [added(call("fc_1", "add", arguments)), all_argued("fc_1", ""), completed()]


PLACES = [only_in_arguments_done, only_in_the_item, only_in_the_response, only_announced]
GOOD: dict[str, tuple[Any, JSON]] = {
    "empty": ("", {}),
    "blank": (" \n", {}),
    "an empty object": ("{}", {}),
    "missing": (None, {}),
    "an object": ('{"a":2}', {"a": 2}),
    "an object with space around it": (' {"a":2}\n', {"a": 2}),
    "an object that is no text": ({"a": 2}, {"a": 2}),
    "an empty object that is no text": ({}, {}),
}
BAD: dict[str, Any] = {
    "cut off": '{"a":',
    "no JSON": "nope",
    "a list": "[1]",
    "a text in a text": '"{}"',
    "null as text": "null",
    "a number as text": "5",
    "two objects": '{"a":2}{"a":3}',
    "a list that is no text": [1],
    "a number": 5,
    "true": True,
}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize(("arguments", "input"), GOOD.values(), ids=GOOD.keys())
def test_arguments_that_make_an_input(place: Callable[[Any], Events], arguments: Any, input: JSON) -> None:
    assert read(place(arguments)).said == [("gw-call_fc_1", "add", input)]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD.keys())
def test_arguments_that_make_none_are_told_and_an_error_if_nothing_else_came(
    place: Callable[[Any], Events], arguments: Any
) -> None:
    Outcome(error=MALFORMED, finish="error", told={"malformed_tool_call": 1}).holds_for(place(arguments))
    spoken = [said("m", "Hm.", 1), *place(arguments)]
    Outcome(text="Hm.", told={"malformed_tool_call": 1}).holds_for(spoken)
    again = [done(call("fc_1", "add", arguments)), *place(arguments)]
    Outcome(error=MALFORMED, finish="error", told={"malformed_tool_call": 1}).holds_for(again)
    beside = [done(call("fc_2", "multiply", '{"c":4}'), 1), *place(arguments)]
    Outcome(calls=[MULTIPLY], finish="tool_calls", told={"malformed_tool_call": 1}).holds_for(beside)


WHOLE_SOMEWHERE: dict[str, Events] = {
    "the item's are broken, the event's whole": [
        added(call("fc_1", "add")),
        all_argued("other", '{"a":2,"b":3}', 1),
        done(call("fc_1", "add", '{"a":2,')),
        completed(call("fc_1", "add", '{"a":2,"b":3}')),
    ],
    "the deltas' are whole": [
        added(call("fc_1", "add")),
        argued("fc_1", '{"a":2,"b":3}'),
        done(call("fc_1", "add", '{"a":')),
        completed(),
    ],
    "the item has another id, another place, and none": [
        added(call("fc_1", "add")),
        argued("fc_1", '{"a":2,"b":3}'),
        done(call("x", "add", "", call_id="call_fc_1"), 1),
        completed(),
    ],
    "the response's are whole": [
        done(call("fc_1", "add", '{"a":')),
        completed(call("fc_1", "add", '{"a":2,"b":3}')),
    ],
}


@pytest.mark.parametrize("events", WHOLE_SOMEWHERE.values(), ids=WHOLE_SOMEWHERE.keys())
def test_of_several_tellings_the_whole_one_counts(events: Events) -> None:
    assert read(events).said == [ADD]


def test_the_name_of_a_call_may_come_late() -> None:
    late = [added(call("fc_1", "")), all_argued("fc_1", '{"a":2,"b":3}', name="add"), completed()]
    assert read(late).said == [ADD]
    for early in ("", "ad"):
        announced = [added(call("fc_1", early)), argued("fc_1", '{"a":2,"b":3}')]
        assert read([*announced, done(call("fc_1", "add")), completed()]).said == [ADD]


def test_a_call_without_a_name_is_a_typed_error() -> None:
    for events in (
        [done(call("fc_1", "", "{}")), completed()],
        [added(call("fc_1", "")), argued("fc_1", "{}"), completed()],
    ):
        Outcome(error=MALFORMED, finish="error", told={"malformed_tool_call": 1}).holds_for(events)


def test_a_call_that_is_announced_and_never_heard_of_again_is_a_typed_error() -> None:
    events = [added(call("fc_1", "add")), completed()]
    Outcome(error=MALFORMED, finish="error", told={"malformed_tool_call": 1}).holds_for(events)


# Calls that are cut off


CUT_OFF: dict[str, tuple[Events, Outcome]] = {
    "its item is incomplete": (
        [done(call("fc_1", "add", '{"a":2,"b":3}', status="incomplete")), incomplete("max_output_tokens")],
        Outcome(error=(ProtocolError, "incomplete_length"), finish="length"),
    ),
    "its item does not say that it is incomplete": (
        [done(call("fc_1", "add", '{"a":')), incomplete("max_output_tokens")],
        Outcome(error=(ProtocolError, "incomplete_length"), finish="length", told={"malformed_tool_call": 1}),
    ),
    "its arguments stop": (
        [added(call("fc_1", "add")), argued("fc_1", '{"a":'), incomplete("max_output_tokens")],
        Outcome(error=(ProtocolError, "incomplete_length"), finish="length"),
    ),
    "the stream stops": (
        [added(call("fc_1", "add")), argued("fc_1", '{"a":')],
        Outcome(error=TRUNCATED, finish="error"),
    ),
    "one before it is whole": (
        [
            done(call("fc_1", "add", '{"a":2,"b":3}'), 0),
            added(call("fc_2", "multiply"), 1),
            argued("fc_2", '{"c":', 1),
            incomplete("max_output_tokens", call("fc_2", "multiply", '{"c":', status="incomplete")),
        ],
        Outcome(calls=[ADD], finish="length"),
    ),
    "one that only the response has is completed": (
        [
            incomplete(
                "max_output_tokens",
                call("fc_1", "add", '{"a":2,"b":3}', status="completed"),
                call("fc_2", "multiply", '{"c":4}', status="in_progress"),
            )
        ],
        Outcome(calls=[ADD], finish="length"),
    ),
}


@pytest.mark.parametrize(("events", "outcome"), CUT_OFF.values(), ids=CUT_OFF.keys())
def test_a_call_that_is_cut_off_gives_no_part(events: Events, outcome: Outcome) -> None:
    outcome.holds_for(events)


# Text


def whole(id: str, text: str, index: int = 0) -> Events:
    return [added(message(id), index), said(id, text, index), done(message(id, text), index)]


TEXTS: dict[str, tuple[Events, str]] = {
    "only in output_text.done": ([all_said("m", "Hello"), completed()], "Hello"),
    "only in the item": ([done(message("m", "Hello")), completed(message("m", "Hello"))], "Hello"),
    "only in the response": ([completed(message("m", "Hello"))], "Hello"),
    "only when it was announced": ([added(message("m", "Hello")), completed()], "Hello"),
    "deltas, and a longer end": ([said("m", "Hel"), all_said("m", "Hello"), completed()], "Hello"),
    "deltas, and a longer item": ([said("m", "Hel"), done(message("m", "Hello")), completed()], "Hello"),
    "deltas, and a longer response": ([said("m", "Hel"), completed(message("m", "Hello"))], "Hello"),
    "deltas, and an item with one part more": (
        [said("m", "Hello"), done(message("m", "Hello", ", you")), completed()],
        "Hello, you",
    ),
    "two parts, one of them streamed": (
        [said("m", "a"), event("output_text.done", item_id="m", content_index=1, text="ab"), completed()],
        "aab",
    ),
    "done again under another id": (
        [*whole("m", "Hello"), done(message("n", "Hello")), completed(message("n", "Hello"))],
        "Hello",
    ),
    "done twice under other ids, and never streamed": (
        [done(message("m", "Hello")), done(message("n", "Hello")), completed(message("o", "Hello"))],
        "Hello",
    ),
    "two messages, and the response has other ids": (
        [
            *whole("m", "One. "),
            *whole("n", "Two.", 1),
            completed(message("o", "One. "), message("p", "Two.")),
        ],
        "One. Two.",
    ),
    "two messages under one id": (
        [
            *whole("m", "One. "),
            *whole("m", "Two.", 1),
            completed(message("m", "One. "), message("m", "Two.")),
        ],
        "One. Two.",
    ),
    "an empty message that the response does not have, under other ids": (
        [added(message("m")), done(message("m")), *whole("n", "Hello", 1), completed(message("o", "Hello"))],
        "Hello",
    ),
    "a message that begins like the one before it, under other ids": (
        [*whole("m", "A"), *whole("n", "AB", 1), completed(message("o", "AB"))],
        "AAB",
    ),
    "announced twice under two ids, and the response has a third": (
        [added(message("m")), added(message("n")), said("n", "Hello"), completed(message("o", "Hello"))],
        "Hello",
    ),
    "announced after it began, under another id": (
        [said("m", "Hel"), added(message("n")), said("o", "lo"), completed(message("p", "Hello"))],
        "Hello",
    ),
}


@pytest.mark.parametrize(("events", "text"), TEXTS.values(), ids=TEXTS.keys())
def test_text_is_told_once_wherever_it_stands(events: Events, text: str) -> None:
    found = read(events)
    assert (found.text, found.error, found.result.finish) == (text, None, "stop")


def test_where_all_events_have_one_number_pieces_that_are_alike_are_all_told() -> None:
    text, item = streams.message("m", 0, ["ha", "ha", "!"])
    events = changed(lambda event: event.update(sequence_number=1))(streams.response(text, [item]))
    assert read(events).said == ["ha", "ha", "!"]


DISAGREEING: dict[str, Events] = {
    "an end that is shorter": [said("m", "Hello\n"), done(message("m", "Hello")), completed()],
    "an end that is another": [said("m", "Hello"), all_said("m", "Bye"), completed()],
    "a response that is shorter, under another id": [
        said("m", "Hello\n"),
        done(message("m", "Hello\n")),
        completed(message("n", "Hello")),
    ],
    "a delta that came twice under two numbers": twice("output_text.delta", numbered=True)(
        [{**said("m", "Hello"), "sequence_number": 1}, done(message("m", "Hello")), completed()]
    ),
}


@pytest.mark.parametrize("events", DISAGREEING.values(), ids=DISAGREEING.keys())
def test_what_was_streamed_stands_and_a_disagreement_is_told(events: Events) -> None:
    found = read(events)
    assert found.text == "".join(each["delta"] for each in events if "delta" in each)
    assert set(found.diagnostics) == {"text_disagrees"}


@pytest.mark.parametrize("text", ["", " ", "\n\n"], ids=["nothing", "a space", "lines"])
def test_blank_text_is_no_answer(text: str) -> None:
    found = read([said("m", text), completed(message("m", text))])
    assert (found.error, found.text) == (EMPTY, text)


# Thinking


SEALED = reasoning("rs", "Hm", encrypted_content="sealed")

THOUGHTS: dict[str, Events] = {
    "deltas": [thought("rs", "H"), thought("rs", "m"), done(SEALED)],
    "only in the item": [done(SEALED)],
    "only in the response": [],
    "only when it was announced": [added(SEALED)],
    "deltas, and never done": [added(reasoning("rs", encrypted_content="sealed")), thought("rs", "Hm")],
    "done twice": [thought("rs", "Hm"), done(SEALED), done(SEALED)],
    "done again under another id": [thought("rs", "Hm"), done(SEALED), done({**SEALED, "id": "rs_2"})],
    "another id in every event": [
        added(reasoning("rs")),
        thought("a", "H"),
        thought("b", "m"),
        done({**SEALED, "id": "c"}),
    ],
    "content and summary": [done(reasoning("rs", "Hm", "In short", encrypted_content="sealed"))],
    "a bare text": [done({**reasoning("rs", encrypted_content="sealed"), "content": "Hm"})],
    "a bare summary": [done({**reasoning("rs", encrypted_content="sealed"), "summary": ["Hm"]})],
}


@pytest.mark.parametrize("told", THOUGHTS.values(), ids=THOUGHTS.keys())
def test_thinking_is_told_once_and_sealed_once_with_its_encrypted_content(told: Events) -> None:
    listed = [] if told else [SEALED]
    found = read([*told, said("m", "Yes.", 1), completed(*listed)])
    assert (found.thinking, found.text) == ("Hm", "Yes.")
    thoughts = [part for part in found.parts if isinstance(part, ThinkingPart)]
    assert {part.id for part in thoughts} == {"rs"}
    sealed = [part.metadata for part in thoughts if part.metadata]
    assert [metadata["openresponses"]["reasoning"]["encrypted_content"] for metadata in sealed] == ["sealed"]
    assert thoughts[-1].metadata == sealed[0]


def test_a_response_with_other_ids_repeats_no_thinking() -> None:
    """The first item agrees with both that were told; where it stands says which of them it is."""
    first, second = reasoning("a", "0", "00"), reasoning("b", "", "00")
    told = [done({**second, "id": "rs_2"}, 1), thought("rs_1", "0"), done({**first, "id": "rs_1"})]
    assert read([*told, said("m", "Yes.", 2), completed(first, second)]).thinking == "000"


def test_thinking_without_an_id_has_one_all_the_same() -> None:
    found = read([thought("", "Hm"), said("m", "Yes.", 1), completed()])
    assert [part.id for part in found.parts if isinstance(part, ThinkingPart)] == ["reasoning_0"]


def test_of_two_encrypted_contents_that_of_the_item_is_kept() -> None:
    """The terminal response seals anew, and either is good: one of them is enough (quirk R4)."""
    found = read([done(SEALED), said("m", "Yes.", 1), completed({**SEALED, "encrypted_content": "anew"})])
    sealed = [part.metadata for part in found.parts if isinstance(part, ThinkingPart) and part.metadata]
    assert [metadata["openresponses"]["reasoning"]["encrypted_content"] for metadata in sealed] == ["sealed"]


@pytest.mark.parametrize("thinking", ["part", "text", "none"])
def test_thinking_alone_is_no_answer(thinking: str) -> None:
    found = read([thought("rs", "Hm"), done(SEALED), completed(SEALED)], thinking=thinking)
    assert found.error == EMPTY
    assert "only reasoning" in str(found.result.error)


# Ends


ENDS: dict[str, tuple[Events, Outcome]] = {
    "an error that says nothing, and then why": (
        [{"type": "error"}, failed("rate_limit_exceeded", "slow down")],
        Outcome(error=(RateLimitError, "rate_limit_exceeded"), finish="error"),
    ),
    "an error that says why, and then another": (
        [
            {"type": "error", "message": "slow down", "code": "rate_limit_exceeded"},
            failed("server_error", "x"),
        ],
        Outcome(error=(RateLimitError, "rate_limit_exceeded"), finish="error"),
    ),
    "an error that says nothing, and nothing else": (
        [{"type": "error"}, event("failed")],
        Outcome(error=SERVER, finish="error"),
    ),
    "completed, and nothing": ([completed()], Outcome(error=EMPTY, finish="error")),
    "completed, without a response": ([event("completed")], Outcome(error=EMPTY, finish="error")),
    "completed, with a response that is none": (
        [event("completed", response="resp_1")],
        Outcome(error=EMPTY, finish="error"),
    ),
    "completed, with an empty message": ([completed(message("m", ""))], Outcome(error=EMPTY, finish="error")),
    "completed, without a response, behind text": ([said("m", "Hi"), event("completed")], Outcome(text="Hi")),
    "completed, and its response failed": (
        [
            said("m", "Hi"),
            event(
                "completed", response={"status": "failed", "error": {"code": "server_error", "message": "x"}}
            ),
        ],
        Outcome(text="Hi", error=SERVER, finish="error"),
    ),
    "failed, and its response is completed": (
        [said("m", "Hi"), event("failed", response={"id": "r", "status": "completed", "error": None})],
        Outcome(text="Hi", error=SERVER, finish="error"),
    ),
    "failed, without saying why": (
        [event("failed", response={"id": "r", "status": "failed", "error": None})],
        Outcome(error=SERVER, finish="error"),
    ),
    "failed, without a response": ([event("failed")], Outcome(error=SERVER, finish="error")),
    "failed, and the event says why": (
        [event("failed", error={"code": "rate_limit_exceeded", "message": "Slow"})],
        Outcome(error=(RateLimitError, "rate_limit_exceeded"), finish="error"),
    ),
    "failed, and only the response has the call": (
        [ended("failed", [call("fc_1", "add", "{}")], error={"code": "server_error", "message": "x"})],
        Outcome(error=SERVER, finish="error"),
    ),
    "failed after text": ([said("m", "Hi"), FAILED], Outcome(text="Hi", error=SERVER, finish="error")),
    "an error with a code of the vendor's own": (
        [
            {
                "type": "error",
                "error": {"code": "acme_17", "message": "Too many requests", "type": "too_many_requests"},
            }
        ],
        Outcome(error=(RateLimitError, "acme_17"), finish="error"),
    ),
    "an error that is a text": (
        [{"type": "error", "error": "boom"}],
        Outcome(error=SERVER, finish="error"),
    ),
    "an error that says nothing": ([{"type": "error"}], Outcome(error=SERVER, finish="error")),
    "an error, then failed with another": (
        [GONE, failed("rate_limit_exceeded", "Slow")],
        Outcome(error=SERVER, finish="error"),
    ),
    "an error, then completed": (
        [said("m", "Hi"), GONE, completed(message("m", "Hi"))],
        Outcome(text="Hi", error=SERVER, finish="error"),
    ),
    "incomplete, and nothing": (
        [incomplete("max_output_tokens")],
        Outcome(error=(ProtocolError, "incomplete_length"), finish="length"),
    ),
    "incomplete, and only thinking": (
        [thought("rs", "Hm"), incomplete("max_output_tokens", reasoning("rs", "Hm"))],
        Outcome(error=(ProtocolError, "incomplete_length"), finish="length"),
    ),
    "incomplete, and only the response has text": (
        [incomplete("max_output_tokens", message("m", "Hi"))],
        Outcome(text="Hi", finish="length"),
    ),
    "incomplete, without a reason": (
        [ended("incomplete")],
        Outcome(error=(ProtocolError, "incomplete"), finish="incomplete"),
    ),
    "incomplete, for a reason of the vendor's own": (
        [said("m", "Hi"), incomplete("max_tool_calls")],
        Outcome(text="Hi", finish="max_tool_calls"),
    ),
    "filtered, and nothing": (
        [incomplete("content_filter")],
        Outcome(error=(InvalidRequestError, "content_filter"), finish="content_filter"),
    ),
    "filtered, behind text": (
        [said("m", "Hi"), incomplete("content_filter")],
        Outcome(text="Hi", finish="content_filter"),
    ),
    "filtered, behind a call": (
        [done(call("fc_1", "add", '{"a":2,"b":3}')), incomplete("content_filter")],
        Outcome(calls=[ADD], finish="content_filter"),
    ),
    "cancelled, and nothing": (
        [ended("cancelled")],
        Outcome(error=(ProtocolError, "incomplete_cancelled"), finish="cancelled"),
    ),
    "cancelled, behind text": ([said("m", "Hi"), ended("cancelled")], Outcome(text="Hi", finish="cancelled")),
    "incomplete, because it was cancelled": (
        [said("m", "Hi"), incomplete("cancelled")],
        Outcome(text="Hi", finish="cancelled"),
    ),
    "no event at all": ([], Outcome(error=TRUNCATED, finish="error")),
    "no event that says anything": (
        [event("created", response={"id": "r"}), event("queued", response={"id": "r"})],
        Outcome(error=TRUNCATED, finish="error"),
    ),
}


@pytest.mark.parametrize(("events", "outcome"), ENDS.values(), ids=ENDS.keys())
def test_every_end_is_an_answer_or_a_typed_error(events: Events, outcome: Outcome) -> None:
    outcome.holds_for(events)


def test_a_stream_that_sent_nothing_says_so_and_one_that_was_cut_says_that() -> None:
    assert "before any event" in str(read([]).result.error)
    assert "before its response was complete" in str(read([said("m", "Hi")]).result.error)


def test_nothing_that_comes_behind_the_end_counts() -> None:
    late = [
        event("rate_limits.updated"),
        said("m", "more"),
        done(call("fc_1", "add", "{}")),
        FAILED,
        completed(usage={"input_tokens": 1}),
    ]
    Outcome(text="Hi").holds_for([said("m", "Hi"), completed(), *late])


USAGES: dict[str, tuple[Any, tuple[int, int, int, int, int] | None]] = {
    "whole": (
        {
            "input_tokens": 9,
            "output_tokens": 12,
            "total_tokens": 21,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens_details": {"reasoning_tokens": 5},
        },
        (9, 12, 21, 4, 5),
    ),
    "without details": ({"input_tokens": 9, "output_tokens": 12, "total_tokens": 21}, (9, 12, 21, 0, 0)),
    "with details that are null": (
        {"input_tokens": 9, "output_tokens": 12, "total_tokens": 21, "input_tokens_details": None},
        (9, 12, 21, 0, 0),
    ),
    "null": (None, None),
    "no object": ("many", None),
    "no numbers": ({"input_tokens": "many"}, None),
}


def test_usage_that_a_later_snapshot_leaves_out_is_kept() -> None:
    early = event("in_progress", response={"id": "resp_1", "usage": {"input_tokens": 9}})
    usage = read([early, said("m", "Hi"), completed(usage=None)]).result.usage
    assert usage is not None
    assert usage.input_tokens == 9


@pytest.mark.parametrize("end", ["completed", "incomplete", "failed"])
@pytest.mark.parametrize(("usage", "expected"), USAGES.values(), ids=USAGES.keys())
def test_usage_as_far_as_it_was_told(end: str, usage: Any, expected: tuple[int, ...] | None) -> None:
    found = read([said("m", "Hi"), ended(end, usage=usage)]).result.usage
    told = None
    if found is not None:
        details = found.input_tokens_details.cached_tokens, found.output_tokens_details.reasoning_tokens
        told = (found.input_tokens, found.output_tokens, found.total_tokens, *details)
    assert told == expected


# What nobody knows


def test_unknown_events_are_counted_by_their_type_and_pings_are_not() -> None:
    odd = [event("nonsense"), event("nonsense"), {"type": "acme.thing"}, {"type": ""}]
    pings = [{"type": "ping"}, {"type": "keepalive"}, event("heartbeat"), event("web_search_call.searching")]
    found = read([*odd, *pings, said("m", "Hi"), completed()])
    assert found.diagnostics == {"unknown_event": 4}
    assert [diagnostic.count for diagnostic in found.result.diagnostics] == [2, 1, 1]


def test_a_file_that_holds_nothing_is_counted_too() -> None:
    found = read([event("file", file={"file_id": "file_1"}), said("m", "Hi"), completed()])
    assert (found.said, found.diagnostics) == (["Hi"], {"unknown_event": 1})


WRONG_FIELDS: dict[str, JSON] = {
    "a delta that is a number": event("output_text.delta", item_id="m", delta=5),
    "an item that is a text": event("output_item.added", item="msg_1"),
    "an item that is missing": event("output_item.done"),
    "an item of no type": event("output_item.done", item={"id": "m"}),
    "a part that is a list": event("content_part.done", item_id="m", part=[]),
    "an annotation that is null": event("output_text.annotation.added", item_id="m", annotation=None),
    "a response that is a list": event("created", response=[]),
    "arguments of nobody": event("function_call_arguments.delta", delta={}),
    "a number that is none": event("output_text.delta", sequence_number="one", delta=None),
    "a place that is negative": event("output_text.delta", output_index=-1, delta=""),
}


@pytest.mark.parametrize("odd", WRONG_FIELDS.values(), ids=WRONG_FIELDS.keys())
def test_an_event_with_the_wrong_fields_harms_nothing(odd: JSON) -> None:
    for at in (0, 4, 10):
        found = read(inserted(at, odd)(control()))
        assert (found.said, found.error) == (["work", "ing", ADD], None)
