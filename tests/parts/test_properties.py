"""What must hold for every stream: the adapter says what was said, however badly it is told."""

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
from tests.effort import examples
from tests.parts.adapted import Adapted, adapt
from tests.stream import strategies
from tests.stream.running import end, machine, plain
from tests.stream.strategies import ENDINGS

JSON = dict[str, Any]
Calls = dict[str, tuple[str, Any]]
"""Tool and input by the id of the call."""

some = settings(max_examples=examples(120), deadline=None)


class Made(Struct):
    """A lawful stream, and the response that it tells of."""

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

    def calls(self, *, whole: bool) -> Calls:
        """The calls that are completed; with `whole` also those that are not, but have all their arguments.

        Arguments that are no object make no call that could be run (decision 22).
        """
        found: Calls = {}
        for item in to_builtins(self.response)["output"]:
            is_function = item["type"] == "function_call"
            if item["type"] in CLIENT_CALLS and (item["status"] == "completed" or (whole and is_function)):
                name, input = _call(item)
                if isinstance(input, dict):
                    found.setdefault(item["call_id"], (name, input))
        return found


def _call(item: JSON) -> tuple[str, Any]:
    match item["type"]:
        case "shell_call":
            return "shell", item["action"]
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
def made(draw: st.DrawFn) -> Made:
    """What the machine makes of random deltas, in a random accent."""
    stream = machine(strategies.TOOLS)
    speak = ACCENTS[draw(st.sampled_from(list(ACCENTS)))]()
    events = stream.start()
    for delta in draw(st.lists(strategies.deltas, max_size=25)):
        events += stream.apply(delta)
    events += end(stream, draw(ENDINGS))
    return Made([speak(event) for event in events], stream.snapshot)


def called(found: Adapted) -> Calls:
    return {call.call_id.removeprefix("gw-"): (call.name, call.input) for call in found.calls}


# Lawful streams


@some
@given(made())
def test_text_and_thinking_are_told_as_they_come(case: Made) -> None:
    adapter = OpenResponsesStreamAdapter()
    texts = dict.fromkeys(case.texts(), "")
    thoughts: dict[str, str] = {}
    for event in case.events:
        for part in adapter.feed(event):
            item = getattr(event, "item_id", "")
            if isinstance(part, TextPart | ThinkingPart) and part.value:
                assert part.value == event.delta  # type: ignore[attr-defined]
                told = texts if isinstance(part, TextPart) else thoughts
                told[item] = told.get(item, "") + str(part.value)
    assert texts == case.texts()
    for reasoning in case.response.output:
        if isinstance(reasoning, ReasoningItem) and not (reasoning.summary and reasoning.content):
            parts = reasoning.content or reasoning.summary
            whole = "".join(part.text for part in parts)  # type: ignore[union-attr]
            assert thoughts.get(str(reasoning.id), "") == whole


@some
@given(made())
def test_calls_usage_and_errors_are_those_of_the_response(case: Made) -> None:
    found = adapt(case.events)
    assert called(found) == case.calls(whole=True)
    assert found.result.usage == case.response.usage
    assert found.result.response_id == case.response.id
    assert found.result.status == case.response.status
    answered = bool(found.calls) or any(text and not text.isspace() for text in case.texts().values())
    assert (found.result.error is None) == (answered and case.response.status != "failed")


# Streams with faults that change nothing of what is said


class Faults(Struct):
    dropped: frozenset[str]
    doubled: frozenset[int]
    """The places of the events that come twice."""
    ids: str
    numbers: str
    places: bool = True
    """Do the events say where their item stands?"""


DROPPABLE = (
    *("in_progress", "output_item.added", "content_part.added", "content_part.done"),
    *("reasoning_summary_part.added", "reasoning_summary_part.done"),
    *("output_text.delta", "output_text.done", "refusal.delta", "refusal.done"),
    *("function_call_arguments.delta", "function_call_arguments.done"),
    *("custom_tool_call_input.delta", "custom_tool_call_input.done"),
    "output_item.done",
)
"""Events that another one repeats: what is left has the item as it ended, or the response as it did."""

faults = st.builds(
    Faults,
    dropped=st.frozensets(st.sampled_from(DROPPABLE)),
    doubled=st.frozensets(st.integers(0, 60)),
    ids=st.sampled_from(["as they are", "others", "another one in every event", "none"]),
    numbers=st.sampled_from(["as they are", "none", "one for all"]),
    places=st.booleans(),
)


def damaged(events: list[JSON], faults: Faults) -> list[JSON]:
    rename = _renaming(faults.ids)
    told: list[JSON] = []
    for place, event in enumerate(events):
        if event["type"].removeprefix("response.") in faults.dropped:
            continue
        event = _renamed(event, rename)
        if not faults.places:
            event.pop("output_index", None)
        if faults.numbers == "none":
            del event["sequence_number"]
        elif faults.numbers == "one for all":
            event["sequence_number"] = 1
        # Without a number of its own an event that comes twice is two events.
        twice = place in faults.doubled and faults.numbers == "as they are"
        told += [event, event] if twice else [event]
    return told


def _renaming(how: str) -> Callable[[str], str | None]:
    numbers = count()
    return {
        "as they are": lambda name: name,
        "others": lambda name: f"x_{name}",
        "another one in every event": lambda name: f"{name}_{next(numbers)}",
        "none": lambda _: None,
    }[how]


def _renamed(event: JSON, rename: Callable[[str], str | None]) -> JSON:
    """The event with other ids for its items. Those of calls stay."""
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
@given(made(), faults)
def test_faults_in_the_telling_change_nothing_of_what_is_said(case: Made, faults: Faults) -> None:
    assume("output_item.done" not in faults.dropped or case.response.status != "failed")
    # An item must be known by something: without a place by its id, and that is told by `added`.
    is_known = faults.ids in ("as they are", "others") and "output_item.added" not in faults.dropped
    assume(faults.places or is_known)
    found = adapt(damaged(plain(case.events), faults))
    meant = adapt(case.events)
    if faults.dropped & {"output_text.delta", "refusal.delta"}:
        # What was not streamed comes when its item ends: two that were open at once may change places.
        assert sorted(found.text) == sorted(meant.text)
    else:
        assert found.text == meant.text
    assert case.calls(whole=False).items() <= called(found).items() <= case.calls(whole=True).items()
    assert found.result.usage == meant.result.usage
    assert found.result.refused == meant.result.refused


@some
@given(made(), st.sampled_from(["as they are", "another one in every event"]))
def test_a_terminal_response_that_is_made_anew_adds_nothing(case: Made, ids: str) -> None:
    """Other ids for items and calls alike, and nothing of items that have no text (ask A3)."""
    events = damaged(plain(case.events), Faults(frozenset(), frozenset(), ids, "as they are"))
    response = events[-1]["response"]
    output = [item for item in response["output"] if item.get("content") != []]
    for number, item in enumerate(output):
        item["id"] = f"anew_{number}"
        if "call_id" in item:
            item["call_id"] = f"call_anew_{number}"
    events[-1] = {**events[-1], "response": {**response, "output": output}}
    assert adapt(events).summary == adapt(case.events).summary


# Anything at all


EVENT_TYPES = sorted({*EVENTS, *HANDLERS, "response.nonsense", "ping", ""})
ITEM_TYPES = ("message", "reasoning", *sorted(CLIENT_CALLS), "image_generation_call", "nonsense")
ids = st.sampled_from(["", "a", "b", None, 3])
words = st.sampled_from(
    ["", "{}", '{"x":1}', '{"x":', "[1]", "text", " ", "completed", "incomplete", "failed"]
)
oddities = [None, True, -1, 2, 0.5, "", "x", [], [None], ["x"], {}, {"x": 1}, {"text": "x", "url": "y"}]
part_types = ("output_text", "text", "refusal", "reasoning_text", "summary_text", "output_image", "nonsense")


def loosely(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[JSON]:
    """An object with some of these fields, mostly with values of the right type."""
    odd = st.sampled_from(oddities)
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
@given(junk, st.sampled_from(["part", "text", "none"]), st.booleans())
def test_junk_never_raises_never_doubles_a_call_and_never_is_silent(
    events: list[JSON], thinking: str, annotations: bool
) -> None:
    found = adapt(events, thinking=thinking, annotations=annotations)
    if found.result.error is None:
        assert found.result.status in ("completed", "incomplete", "cancelled")
        assert found.text.strip() or found.calls or found.data
    assert len(found.result.diagnostics) <= 64


# Streams that are made to be expensive


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
    "calls at one place, then arguments without an id": lambda n: (
        [_added(k) for k in range(n)]
        + [{"type": "response.function_call_arguments.delta", "delta": "{"} for _ in range(n)]
    ),
    "calls at one place that end as others": lambda n: (
        [_added(k) for k in range(n)] + [_ended(k) for k in range(n)]
    ),
    "a broken call that ends again and again": lambda n: [_added(0)] + [_ended(0)] * n,
    "a part for every piece of text": lambda n: (
        [_said(k) for k in range(n)]
        + [{**_said(k), "type": "response.output_text.done", "text": "b"} for k in range(n)]
    ),
    "a part for every piece of a summary": lambda n: [
        {**_said(0), "type": "response.reasoning_summary_text.delta", "summary_index": k} for k in range(n)
    ],
    "citations, and the message again and again": lambda n: (
        [_cited(k) for k in range(n)] + [_done(_message(0, "a"))] * n
    ),
    "a terminal response that has nothing of what was streamed": lambda n: [
        *(_done(_message(k, f"a{k}")) for k in range(n)),
        *(_added(k) for k in range(n)),
        _completed([_message(-1 - k, f"b{k}") for k in range(n)]),
    ],
    "events that nobody knows": lambda n: [{"type": f"x{k}"} for k in range(n)],
}


def work(events: list[JSON]) -> int:
    """How many functions are called to read a stream: the same count on every machine."""
    known = [read_event(event) for event in events]
    adapter = OpenResponsesStreamAdapter()
    calls = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for event in known:
            adapter.feed(event)
        adapter.end()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("stream", EXPENSIVE.values(), ids=EXPENSIVE.keys())
def test_twice_the_stream_is_twice_the_work(stream: Callable[[int], list[JSON]]) -> None:
    assert work(stream(400)) < 2.3 * work(stream(200))
