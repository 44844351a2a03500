"""Properties of the adapter that hold for every stream, valid or faulty."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import count
from types import FrameType
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from penstock.parts.adapter import HANDLERS, OpenResponsesStreamAdapter
from penstock.parts.parts import TextPart, ThinkingPart
from penstock.protocol.events import EVENTS, Event, read_event
from penstock.protocol.items import CLIENT_CALLS, Message, ReasoningItem
from penstock.protocol.response import Response
from penstock.protocol.wire import to_builtins
from penstock.stream.accents import ACCENTS
from penstock.stream.machine import ResponseStreamStateMachine
from tests.effort import examples
from tests.parts.adapted import Adapted, adapt
from tests.stream import strategies
from tests.stream.running import finish, machine, plain

JSON = dict[str, Any]
Calls = dict[str, tuple[str, Any]]
"""Tool and input by the id of the call."""

some = settings(max_examples=examples(120), deadline=None)


class LawfulStream(Struct):
    """A lawful stream and its response."""

    events: list[Event]
    response: Response

    def texts(self) -> dict[str, str]:
        """The text of each message, refusals included."""
        return {
            str(item.id): "".join(
                getattr(part, "text", "") or getattr(part, "refusal", "") for part in item.content
            )
            for item in self.response.output
            if isinstance(item, Message) and not isinstance(item.content, str)
        }

    def calls(self, *, with_incomplete: bool) -> Calls:
        """Return the completed calls, optionally with incomplete calls that have all their arguments.

        A call whose arguments are not an object cannot be run (decision 22).
        """
        found: Calls = {}
        for item in to_builtins(self.response)["output"]:
            is_function = item["type"] == "function_call"
            if item["type"] in CLIENT_CALLS and (
                item["status"] == "completed" or (with_incomplete and is_function)
            ):
                name, input = _call(item)
                if isinstance(input, dict):
                    found.setdefault(item["call_id"], (name, input))
        return found


def _call(item: JSON) -> tuple[str, Any]:
    match item["type"]:
        case "shell_call" | "local_shell_call" as type:
            return type.removesuffix("_call"), item["action"]
        case "apply_patch_call":
            return "apply_patch", item["operation"]
        case "tool_search_call":
            return "tool_search", item["arguments"]
        case "custom_tool_call":
            return item["name"], {"input": item["input"]}
        case _:
            return item["name"], _value(item["arguments"])


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


@st.composite
def lawful_streams(draw: st.DrawFn) -> LawfulStream:
    """Return the stream that the machine produces for random deltas, with a random event naming (accent)."""
    stream = machine(strategies.TOOLS)
    speak = ACCENTS[draw(st.sampled_from(list(ACCENTS)))]()
    events = stream.start()
    for delta in draw(st.lists(strategies.deltas, max_size=25)):
        events += stream.apply(delta)
    events += draw(st.sampled_from([finish, _fail, ResponseStreamStateMachine.cancel]))(stream)
    return LawfulStream([speak(event) for event in events], stream.snapshot)


def _fail(stream: ResponseStreamStateMachine) -> list[Event]:
    return stream.fail("server_error", "broken")


def calls_of(found: Adapted) -> Calls:
    return {call.call_id.removeprefix("gw-"): (call.name, call.input) for call in found.calls}


# Lawful streams


@some
@given(lawful_streams())
def test_text_and_thinking_are_forwarded_as_they_arrive(case: LawfulStream) -> None:
    adapter = OpenResponsesStreamAdapter()
    texts = dict.fromkeys(case.texts(), "")
    thoughts: dict[str, str] = {}
    for event in case.events:
        for part in adapter.feed(event):
            item = getattr(event, "item_id", "")
            if isinstance(part, TextPart | ThinkingPart) and part.value:
                assert part.value == event.delta  # type: ignore[attr-defined]
                channel = texts if isinstance(part, TextPart) else thoughts
                channel[item] = channel.get(item, "") + str(part.value)
    assert texts == case.texts()
    for reasoning in case.response.output:
        if isinstance(reasoning, ReasoningItem) and not (reasoning.summary and reasoning.content):
            parts = reasoning.content or reasoning.summary
            full_text = "".join(part.text for part in parts)  # type: ignore[union-attr]
            assert thoughts.get(str(reasoning.id), "") == full_text


@some
@given(lawful_streams())
def test_calls_usage_and_errors_are_those_of_the_response(case: LawfulStream) -> None:
    found = adapt(case.events)
    assert calls_of(found) == case.calls(with_incomplete=True)
    assert found.result.usage == case.response.usage
    assert found.result.response_id == case.response.id
    assert found.result.status == case.response.status
    has_answer = bool(found.calls) or any(text and not text.isspace() for text in case.texts().values())
    assert (found.result.error is None) == (has_answer and case.response.status != "failed")


# Streams with faults that do not change the content


class Faults(Struct):
    dropped: frozenset[str]
    repeated: frozenset[int]
    """The positions of the events that are repeated."""
    ids: str
    numbers: str
    indexes: bool = True
    """Whether the events have an output index."""


DROPPABLE = (
    *("in_progress", "output_item.added", "content_part.added", "content_part.done"),
    *("reasoning_summary_part.added", "reasoning_summary_part.done"),
    *("output_text.delta", "output_text.done", "refusal.delta", "refusal.done"),
    *("function_call_arguments.delta", "function_call_arguments.done"),
    *("custom_tool_call_input.delta", "custom_tool_call_input.done"),
    "output_item.done",
)
"""Events that can be dropped: their content is also in the done item or in the terminal response."""

faults = st.builds(
    Faults,
    dropped=st.frozensets(st.sampled_from(DROPPABLE)),
    repeated=st.frozensets(st.integers(0, 60)),
    ids=st.sampled_from(["as they are", "others", "another one in every event", "none"]),
    numbers=st.sampled_from(["as they are", "none", "one for all"]),
    indexes=st.booleans(),
)


def damaged(events: list[JSON], faults: Faults) -> list[JSON]:
    rename = _renaming(faults.ids)
    damaged_events: list[JSON] = []
    for position, event in enumerate(events):
        if event["type"].removeprefix("response.") in faults.dropped:
            continue
        event = _renamed(event, rename)
        if not faults.indexes:
            event.pop("output_index", None)
        if faults.numbers == "none":
            del event["sequence_number"]
        elif faults.numbers == "one for all":
            event["sequence_number"] = 1
        # Without unique numbers, a repeated event is two events.
        twice = position in faults.repeated and faults.numbers == "as they are"
        damaged_events += [event, event] if twice else [event]
    return damaged_events


def _renaming(mode: str) -> Callable[[str], str | None]:
    numbers = count()
    return {
        "as they are": lambda name: name,
        "others": lambda name: f"x_{name}",
        "another one in every event": lambda name: f"{name}_{next(numbers)}",
        "none": lambda _: None,
    }[mode]


def _renamed(event: JSON, rename: Callable[[str], str | None]) -> JSON:
    """Return the event with other item ids. Call ids stay."""
    event = dict(event)
    if "item_id" in event:
        event["item_id"] = rename(event["item_id"])
    if "item" in event:
        event["item"] = {**event["item"], "id": rename(event["item"]["id"])}
    if "response" in event:
        output = [{**item, "id": rename(item["id"])} for item in event["response"]["output"]]
        event["response"] = {**event["response"], "output": output}
    return event


@some
@given(lawful_streams(), faults)
def test_faults_do_not_change_the_content(case: LawfulStream, faults: Faults) -> None:
    assume("output_item.done" not in faults.dropped or case.response.status != "failed")
    # An item must be identifiable: without an index by its id, which is in `added`.
    is_identifiable = faults.ids in ("as they are", "others") and "output_item.added" not in faults.dropped
    assume(faults.indexes or is_identifiable)
    found = adapt(damaged(plain(case.events), faults))
    expected = adapt(case.events)
    if faults.dropped & {"output_text.delta", "refusal.delta"}:
        # Text that was not streamed is reported when its item ends: two open items may swap places.
        assert sorted(found.text) == sorted(expected.text)
    else:
        assert found.text == expected.text
    assert (
        case.calls(with_incomplete=False).items()
        <= calls_of(found).items()
        <= case.calls(with_incomplete=True).items()
    )
    assert found.result.usage == expected.result.usage
    assert found.result.refused == expected.result.refused


@some
@given(lawful_streams(), st.sampled_from(["as they are", "another one in every event"]))
def test_a_regenerated_terminal_response_adds_nothing(case: LawfulStream, ids: str) -> None:
    """It has other ids for items and calls, and lacks items without text (ask A3)."""
    events = damaged(plain(case.events), Faults(frozenset(), frozenset(), ids, "as they are"))
    response = events[-1]["response"]
    output = [item for item in response["output"] if item.get("content") != []]
    for number, item in enumerate(output):
        item["id"] = f"new_{number}"
        if "call_id" in item:
            item["call_id"] = f"call_new_{number}"
    events[-1] = {**events[-1], "response": {**response, "output": output}}
    assert adapt(events).summary == adapt(case.events).summary


# Arbitrary events


EVENT_TYPES = sorted({*EVENTS, *HANDLERS, "response.nonsense", "ping", ""})
ITEM_TYPES = ("message", "reasoning", *sorted(CLIENT_CALLS), "image_generation_call", "nonsense")
ids = st.sampled_from(["", "a", "b", None, 3])
words = st.sampled_from(
    ["", "{}", '{"x":1}', '{"x":', "[1]", "text", " ", "completed", "incomplete", "failed"]
)
odd_values = [None, True, -1, 2, 0.5, "", "x", [], [None], ["x"], {}, {"x": 1}, {"text": "x", "url": "y"}]
part_types = ("output_text", "text", "refusal", "reasoning_text", "summary_text", "output_image", "nonsense")


def loosely(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[JSON]:
    """An object with some of these fields, mostly with values of the right type."""
    odd = st.sampled_from(odd_values)
    return st.fixed_dictionaries({}, optional={name: value | odd for name, value in fields.items()})


parts = loosely(
    {
        "type": st.sampled_from(part_types),
        "text": words,
        "refusal": words,
        "annotations": st.lists(loosely({"type": st.just("url_citation"), "url": words}), max_size=2),
        "data": words,
    }
)
items = loosely(
    {
        "type": st.sampled_from(ITEM_TYPES),
        "id": ids,
        "call_id": ids,
        "name": st.sampled_from(["add", "view_image", ""]),
        "arguments": words,
        "input": words,
        "status": words,
        "content": st.lists(parts, max_size=2),
        "summary": st.lists(parts, max_size=2),
        "result": words,
    }
)
junk = st.lists(
    st.builds(
        lambda named, fields: {**fields, "type": named},
        st.sampled_from(EVENT_TYPES),
        loosely(
            {
                "sequence_number": st.integers(0, 3),
                "item_id": ids,
                "output_index": st.integers(0, 1),
                "content_index": st.integers(0, 1),
                "summary_index": st.integers(0, 1),
                "delta": words,
                "text": words,
                "arguments": words,
                "input": words,
                "name": words,
                "part": parts,
                "annotation": loosely({"type": st.just("url_citation"), "url": words}),
                "item": items,
                "error": loosely({"code": words, "message": words}),
                "response": loosely({"id": ids, "status": words, "output": st.lists(items, max_size=3)}),
            }
        ),
    ),
    max_size=12,
)


@settings(max_examples=examples(200), deadline=None)
@given(junk, st.sampled_from(["part", "text", "none"]), st.sampled_from(["off", "inline", "end"]))
def test_arbitrary_events_never_raise_never_repeat_a_call_and_never_end_silently(
    events: list[JSON], thinking: str, citations: str
) -> None:
    found = adapt(events, thinking=thinking, citations=citations)
    if found.result.error is None:
        assert found.result.status in ("completed", "incomplete", "cancelled")
        assert found.text.strip() or found.calls or found.data
    assert len(found.result.diagnostics) <= 64


# Streams that are designed to be expensive


def _added(number: int) -> JSON:
    call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "add"}
    return {"type": "response.output_item.added", "item": call}


def _ended(number: int, arguments: str = "{") -> JSON:
    item = {"type": "function_call", "id": f"x_{number}", "call_id": f"y_{number}", "name": "add"}
    return {"type": "response.output_item.done", "item": {**item, "arguments": arguments}}


def _said(index: int) -> JSON:
    return {"type": "response.output_text.delta", "item_id": "m", "content_index": index, "delta": "a"}


def _message(number: int, text: str) -> JSON:
    return {"type": "message", "id": f"m_{number}", "content": [{"type": "output_text", "text": text}]}


def _done(item: JSON) -> JSON:
    return {"type": "response.output_item.done", "item": item}


def _cited(number: int) -> JSON:
    annotation = {"type": "url_citation", "url": f"u{number}"}
    return {"type": "response.output_text.annotation.added", "item_id": "m_0", "annotation": annotation}


def _completed(output: list[JSON]) -> JSON:
    return {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": output}}


EXPENSIVE: dict[str, Callable[[int], list[JSON]]] = {
    "calls at one index, then arguments without an id": lambda n: (
        [_added(k) for k in range(n)]
        + [{"type": "response.function_call_arguments.delta", "delta": "{"} for _ in range(n)]
    ),
    "calls at one index that end with other ids": lambda n: (
        [_added(k) for k in range(n)] + [_ended(k) for k in range(n)]
    ),
    "a malformed call that ends repeatedly": lambda n: [_added(0)] + [_ended(0)] * n,
    "a part for every text delta": lambda n: (
        [_said(k) for k in range(n)]
        + [{**_said(k), "type": "response.output_text.done", "text": "b"} for k in range(n)]
    ),
    "a part for every summary delta": lambda n: [
        {**_said(0), "type": "response.reasoning_summary_text.delta", "summary_index": k} for k in range(n)
    ],
    "citations, and the same message repeatedly": lambda n: (
        [_cited(k) for k in range(n)] + [_done(_message(0, "a"))] * n
    ),
    "a terminal response with none of the streamed items": lambda n: [
        *(_done(_message(k, f"a{k}")) for k in range(n)),
        *(_added(k) for k in range(n)),
        _completed([_message(-1 - k, f"b{k}") for k in range(n)]),
    ],
    "unknown events": lambda n: [{"type": f"x{k}"} for k in range(n)],
}


def work(events: list[JSON]) -> int:
    """Return how many Python calls reading a stream takes; unlike time, it is the same on every machine."""
    known = [read_event(event) for event in events]
    adapter = OpenResponsesStreamAdapter()
    calls = 0

    def count_call(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count_call)
    try:
        for event in known:
            adapter.feed(event)
        adapter.end()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("stream", EXPENSIVE.values(), ids=EXPENSIVE.keys())
def test_work_grows_linearly_with_the_stream(stream: Callable[[int], list[JSON]]) -> None:
    assert work(stream(400)) < 2.3 * work(stream(200))
