"""The assembler against what real upstreams do (quirk C13 to quirk C23, ask B4 to ask B9)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.protocol.items import LocalShellCall
from penstock.protocol.tools import (
    AllowedTools,
    CustomTool,
    FunctionTool,
    LocalShellTool,
    NamespaceTool,
    Tool,
    ToolReference,
)
from penstock.stream.calls.assembler import POLICY, Sighting
from penstock.stream.calls.trailing_arguments import MAX_VALUES
from penstock.stream.deltas import Delta, FinishDelta, FinishReason, ItemDelta, TextDelta, ToolCallDelta
from tests.effort import examples
from tests.stream import strategies
from tests.stream.running import calls, codes, machine, of_type, run

TOOLS: list[Tool] = [
    FunctionTool(name="get_weather"),
    FunctionTool(name="get_weather_history"),
    FunctionTool(name="list"),
    CustomTool(name="apply_patch"),
    NamespaceTool(name="mcp__docs", tools=[FunctionTool(name="search"), CustomTool(name="write")]),
]


def call(arguments: Any = None, /, **fields: Any) -> ToolCallDelta:
    return ToolCallDelta(arguments=arguments, **fields)


def names_and_arguments(deltas: list[Delta]) -> list[tuple[str, str]]:
    return [(name, arguments) for name, arguments, _ in calls(run(deltas, TOOLS)[1])]


def test_streamed_arguments_and_the_complete_call_are_one_item() -> None:
    deltas: list[Delta] = [
        call(key="call_123", id="call_123", name="get_weather"),
        call('{"loc', key="call_123", id="call_123"),
        call('ation":"NYC"}', key="call_123", id="call_123"),
        call({"location": "NYC"}, key="call_123", id="call_123", name="get_weather"),
    ]
    stream, events = run(deltas, TOOLS)
    assert len(of_type(events, "output_item.added")) == 1
    ids = {event.get("item_id") or event["item"]["id"] for event in events if "output_index" in event}
    assert len(ids) == 1
    assert calls(events) == [("get_weather", '{"location":"NYC"}', "completed")]
    assert stream.diagnostics == []


def test_a_call_id_that_had_to_be_hashed_is_reported_once_and_not_per_chunk() -> None:
    """Decision 7."""
    long, short = "x" * 65, "y" * 64
    deltas: list[Delta] = [call(key=0, id=long, name="get_weather")]
    deltas += [call(piece, key=0, id=long) for piece in '{"city":"Rome"}']
    deltas += [call('{"city":"Oslo"}', key=1, id=short, name="get_weather")]
    stream, events = run(deltas, TOOLS)
    hashed, kept = (event["item"]["call_id"] for event in of_type(events, "output_item.done"))
    assert kept == short
    [reported] = stream.diagnostics
    assert (reported.code, reported.count) == ("long_call_id", 1)
    assert (
        reported.message == f"a call id of 65 characters is too long; the call has the id {hashed!r} instead"
    )


def test_a_long_call_id_of_a_complete_item_is_reported() -> None:
    item = LocalShellCall(call_id="x" * 65, action={"type": "exec", "command": ["ls"]})
    stream, events = run([ItemDelta(0, item, done=True)], [LocalShellTool()])
    assert len(of_type(events, "output_item.done")[0]["item"]["call_id"]) <= 64
    assert codes(stream) == {"long_call_id"}


def test_a_repeated_id_that_is_too_long_with_its_suffix_is_reported() -> None:
    id = "x" * 64
    stream = machine(TOOLS, used_call_ids={id})
    stream.start()
    stream.apply(call(ROME, key=0, id=id, name="get_weather"))
    stream.finish(FinishReason.TOOL_CALLS)
    assert codes(stream) == {"long_call_id"}


WEATHER = ("get_weather", '{"city":"Rome"}')
HISTORY = ("get_weather_history", '{"city":"Oslo"}')
ROME, OSLO = WEATHER[1], HISTORY[1]
CASES: dict[str, tuple[list[Delta], list[tuple[str, str]], set[str]]] = {
    # Name of the case: the deltas, the expected calls, the expected diagnostics.
    "complete arguments in one delta (quirk C13)": (
        [call(ROME, key=0, id="a", name="get_weather")],
        [WEATHER],
        set(),
    ),
    "no index (quirk C15)": (
        [
            call(ROME, id="a", name="get_weather"),
            call('{"city":', id="b", name="get_weather_history"),
            call('"Oslo"}', id="b"),
        ],
        [WEATHER, HISTORY],
        set(),
    ),
    "no index and no id (quirk C15)": (
        [call(name="get_weather"), call('{"city":'), call('"Rome"}')],
        [WEATHER],
        set(),
    ),
    "the first index is 1 (quirk C16)": ([call(ROME, key=1, id="a", name="get_weather")], [WEATHER], set()),
    "id and name empty later (quirk C17)": (
        [call(key=0, id="a", name="get_weather"), call(ROME, key=0, id="", name="")],
        [WEATHER],
        set(),
    ),
    "id and name in every delta (quirk C17)": (
        [
            call(key=0, id="a", name="get_weather"),
            call('{"city":', key=0, id="a", name="get_weather"),
            call('"Rome"}', key=0, id="a", name="get_weather"),
        ],
        [WEATHER],
        set(),
    ),
    "the name comes after the arguments (quirk C18)": (
        [call('{"city":', key=0, id="a"), call('"Rome"}', key=0), call(key=0, name="get_weather")],
        [WEATHER],
        set(),
    ),
    "no id at all (quirk C19)": ([call(ROME, key=0, id="", name="get_weather")], [WEATHER], set()),
    "one id for two parallel calls (quirk C19)": (
        [
            call(key=0, id="x", name="get_weather"),
            call(key=1, id="x", name="get_weather_history"),
            call('{"city":', key=0, id="x"),
            call('{"city":', key=1, id="x"),
            call('"Rome"}', key=0, id="x"),
            call('"Oslo"}', key=1, id="x"),
        ],
        [WEATHER, HISTORY],
        {"shared_call_id"},
    ),
    "a late id that another call already has": (
        [
            call(key=0, id="x", name="get_weather"),
            call(key=1, name="get_weather_history"),
            call(OSLO, key=1, id="x"),
            call(ROME, key=0, id="x"),
        ],
        [WEATHER, HISTORY],
        {"late_call_id"},
    ),
    "a call gets its key late": (
        [call('{"city":', id="a", name="get_weather"), call('"Rome"', key=4, id="a"), call("}", key=4)],
        [WEATHER],
        set(),
    ),
    "an id after the announcement": (
        [call(key=0, name="get_weather"), call(ROME, key=0, id="late"), call("", key=0, id="late")],
        [WEATHER],
        {"late_call_id"},
    ),
    "a new id at a used index (quirk C20)": (
        [
            call(ROME, key=0, id="a", name="get_weather"),
            call(OSLO, key=0, id="b", name="get_weather_history"),
        ],
        [WEATHER, HISTORY],
        set(),
    ),
    "an old id at an index in other use": (
        [
            call('{"city":', key=0, id="a", name="get_weather"),
            call('{"city":', key=0, id="b", name="get_weather_history"),
            call('"Rome"}', key=0, id="a"),
            call('"Oslo"}', key=0, id="b"),
        ],
        [WEATHER, HISTORY],
        set(),
    ),
    "a new name at a used index without an id (ask B5)": (
        [call(ROME, key=0, name="get_weather"), call(OSLO, key=0, name="get_weather_history")],
        [WEATHER, HISTORY],
        {"unmarked_call"},
    ),
    "the same name, index and no id, after complete arguments (ask B5)": (
        [call(ROME, key=0, name="get_weather"), call(OSLO, key=0, name="get_weather")],
        [WEATHER, ("get_weather", OSLO)],
        {"glued_calls"},
    ),
    "complete calls with the same name, index and no id (ask B5)": (
        [
            call({"city": "Rome"}, key=0, name="get_weather"),
            call({"city": "Oslo"}, key=0, name="get_weather"),
        ],
        [WEATHER, ("get_weather", OSLO)],
        {"glued_calls"},
    ),
    "complete calls without any key or id": (
        [call({"city": "Rome"}, name="get_weather"), call({"city": "Rome"}, name="get_weather")],
        [WEATHER, WEATHER],
        set(),
    ),
    "glued arguments (ask B5)": (
        [call(ROME + OSLO[:5], key=0, id="a", name="get_weather"), call(OSLO[5:] + '{"city":"Bern"}', key=0)],
        [WEATHER, ("get_weather", OSLO), ("get_weather", '{"city":"Bern"}')],
        {"glued_calls"},
    ),
    "glued arguments with commas and line ends": (
        [call(f"{ROME},\n{OSLO}\n", key=0, id="a", name="get_weather")],
        [WEATHER, ("get_weather", OSLO)],
        {"glued_calls"},
    ),
    "braces in a string do not end it (ask B5)": (
        [call('{"q":"}{', key=0, id="a", name="list"), call('\\"}"}', key=0)],
        [("list", '{"q":"}{\\"}"}')],
        set(),
    ),
    "a summary repeats the arguments (ask B4)": (
        [call(ROME, key=0, id="a", name="get_weather"), call('{ "city" : ', key=0), call('"Rome" }', key=0)],
        [WEATHER],
        {"repeated_arguments"},
    ),
    "a summary repeats glued arguments": (
        [call(ROME + OSLO + ROME + OSLO, key=0, id="a", name="get_weather")],
        [WEATHER, ("get_weather", OSLO)],
        {"glued_calls", "repeated_arguments"},
    ),
    "a summary in a JSON string (ask B4)": (
        [call(ROME, key=0, id="a", name="get_weather"), call(json.dumps(ROME), key=0, id="a")],
        [WEATHER],
        {"repeated_arguments"},
    ),
    "a repeat that is cut off": (
        [call(ROME + ROME[:7], key=0, id="a", name="get_weather")],
        [WEATHER],
        {"repeated_arguments"},
    ),
    "other text after the arguments": (
        [call(ROME + "}", key=0, id="a", name="get_weather"), call(' "x" ', key=0)],
        [WEATHER],
        {"trailing_arguments"},
    ),
    "a trailing blank (quirk C22)": (
        [call(ROME, key=0, id="a", name="get_weather"), call(" ", key=0), call("\n", key=0)],
        [WEATHER],
        set(),
    ),
    "a repeated start": (
        [
            call(key=0, id="a", name="get_weather"),
            call(ROME, key=0),
            call(key=0, id="a", name="get_weather"),
        ],
        [WEATHER],
        set(),
    ),
    "a complete call adds what the deltas lack": (
        [call('{"city":', key=0, id="a", name="get_weather"), call(ROME, key=0, id="a", whole=True)],
        [WEATHER],
        set(),
    ),
    "a complete call with other arguments": (
        [call(ROME, key=0, id="a", name="get_weather"), call(OSLO, key=0, id="a", whole=True)],
        [WEATHER],
        {"arguments_disagree"},
    ),
    "a complete call twice": (
        [call(ROME, key=0, id="a", name="get_weather", whole=True)] * 2,
        [WEATHER],
        set(),
    ),
    "arguments after the end of a call without any": (
        [call(key=0, id="a", name="list", whole=True), call(" ", key=0), call("{}", key=0)],
        [("list", "{}")],
        {"repeated_arguments"},
    ),
    "an end without a start": (
        [call(ROME, key=0, id="a", name="get_weather"), call(key=0, whole=True)],
        [WEATHER],
        set(),
    ),
    "a complete call before its name": (
        [call(ROME, key=0, id="a", whole=True), call(key=0, id="a", name="get_weather")],
        [WEATHER],
        set(),
    ),
    "empty arguments (quirk C21)": (
        [call(key=0, id="a", name="list"), call("", key=0)],
        [("list", "{}")],
        set(),
    ),
    "blank arguments": ([call(" ", key=0, id="a", name="list")], [("list", " {}")], set()),
    "empty object arguments": ([call({}, key=0, id="a", name="list")], [("list", "{}")], set()),
    "arguments that are not an object": (
        [call("[1]", key=0, id="a", name="list")],
        [("list", "[1]")],
        {"odd_arguments"},
    ),
    "an empty entry is ignored (ask B6)": ([call(key=0), call("", id="", name="")], [], set()),
    "two names for one id without a key, the first call complete": (
        [call(ROME, id="x", name="get_weather"), call(OSLO, id="x", name="get_weather_history")],
        [WEATHER, HISTORY],
        {"shared_call_id"},
    ),
    "an id and another name after a complete call without an id": (
        [call(ROME, key=0, name="get_weather"), call(OSLO, key=0, id="b", name="get_weather_history")],
        [WEATHER, HISTORY],
        set(),
    ),
    "an id and the same name after a complete call without an id": (
        [call(ROME, key=0, name="get_weather"), call(OSLO, key=0, id="b", name="get_weather")],
        [WEATHER, ("get_weather", OSLO)],
        set(),
    ),
    "glued calls and then a new one at their key": (
        [
            call(ROME + OSLO, key=0, id="a", name="get_weather"),
            call("{}", key=0, id="b", name="list"),
        ],
        [WEATHER, ("get_weather", OSLO), ("list", "{}")],
        {"glued_calls"},
    ),
    "balanced braces that are not JSON": (
        [call(ROME, key=0, id="a", name="get_weather"), call("{{}}", key=0)],
        [WEATHER],
        {"trailing_arguments"},
    ),
    "true is not 1": (
        [call('{"flag":1}{"flag":true}', key=0, id="a", name="list")],
        [("list", '{"flag":1}'), ("list", '{"flag":true}')],
        {"glued_calls"},
    ),
    "repeats of glued calls before their name": (
        [call(ROME, key=0, id="a"), call(OSLO, key=0), call(OSLO, key=0), call(key=0, name="get_weather")],
        [WEATHER, ("get_weather", OSLO)],
        {"glued_calls", "repeated_arguments"},
    ),
    "repeats of glued calls identified by id alone": (
        [call(ROME, id="a", name="get_weather"), call(OSLO, id="a"), call(OSLO, id="a")],
        [WEATHER, ("get_weather", OSLO)],
        {"glued_calls", "repeated_arguments"},
    ),
    "a complete call again under another key (ask B4)": (
        [
            call(key=0, id="c", name="get_weather"),
            call(ROME, key=0, id="c"),
            call({"city": "Rome"}, key=1, id="c", name="get_weather"),
        ],
        [WEATHER],
        set(),
    ),
    "a key stays with its call": (
        [
            call('{"city":', key=0, id="a", name="get_weather"),
            call('{"city":', key=1, id="b", name="get_weather_history"),
            call('"Rome"}', key=1, id="a"),
            call('"Oslo"}', key=1),
        ],
        [WEATHER, HISTORY],
        set(),
    ),
    "a summary in a JSON string, in two pieces (ask B4)": (
        [
            call(ROME, key=0, id="a", name="get_weather"),
            call(json.dumps(ROME)[:9], key=0, id="a"),
            call(json.dumps(ROME)[9:], key=0, id="a"),
        ],
        [WEATHER],
        {"repeated_arguments"},
    ),
    "whitespace that JSON does not allow": (
        [call('{"a":1}\u00a0', key=0, id="a", name="list")],
        [("list", '{"a":1}')],
        {"trailing_arguments"},
    ),
    "a number that is too large for Python": (
        [call('{"a":1e400}', key=0, id="a", name="list")],
        [("list", '{"a":1e400}')],
        set(),
    ),
    "an unpaired surrogate": (
        [call('{"a":"\ud83d', key=0, id="a", name="list"), call('"}', key=0)],
        [("list", '{"a":"\N{REPLACEMENT CHARACTER}"}')],
        set(),
    ),
    "arguments after arguments that are not an object": (
        [call("[1]", key=0, id="a", name="list", whole=True), call('{"b":1}', key=0)],
        [("list", "[1]"), ("list", '{"b":1}')],
        {"odd_arguments", "glued_calls"},
    ),
    "a second name for one id": (
        [call(key=0, id="a", name="get_weather"), call(ROME, key=0, id="a", name="list")],
        [WEATHER],
        {"name_changed"},
    ),
    "an undeclared tool": ([call("{}", key=0, id="a", name="rm_rf")], [("rm_rf", "{}")], {"undeclared_tool"}),
    "a name in pieces": (
        [
            call(key=0, id="a", name="get_"),
            call(key=0, name="weather_his"),
            call(key=0, name="tory"),
            call(OSLO, key=0),
        ],
        [HISTORY],
        set(),
    ),
    "a name that grows": (
        [call(key=0, id="a", name="get_wea"), call(key=0, id="a", name="get_weather"), call(ROME, key=0)],
        [WEATHER],
        set(),
    ),
    "a declared name is final though a longer one begins with it": (
        [call(ROME, key=0, id="a", name="get_weather")],
        [WEATHER],
        set(),
    ),
    "a piece of a name is final at the first byte of arguments": (
        [call("{}", key=0, id="a", name="get_")],
        [("get_", "{}")],
        {"undeclared_tool"},
    ),
    "a piece of a name is final at the end": (
        [call(key=0, id="a", name="get_")],
        [("get_", "{}")],
        {"undeclared_tool"},
    ),
    "a piece of a name and then another name": (
        [call(key=0, name="get_"), call("{}", key=0, name="list")],
        [("get_", "{}"), ("list", "{}")],
        {"undeclared_tool", "unmarked_call"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_call_is_sent_completely_and_once(case: str) -> None:
    deltas, expected, diagnostics = CASES[case]
    stream, events = run(deltas, TOOLS)
    assert calls(events) == [(name, arguments, "completed") for name, arguments in expected]
    assert codes(stream) == diagnostics
    call_ids = [item["call_id"] for item in events[-1]["response"]["output"]]
    assert len(set(call_ids)) == len(call_ids)


def test_every_row_of_the_policy_is_reached() -> None:
    assert set(POLICY) == {(id, key) for id in Sighting for key in Sighting}
    reached = set()
    for deltas, _, _ in CASES.values():
        ids: set[Any] = set()
        keys: set[Any] = set()
        for delta in deltas:
            assert isinstance(delta, ToolCallDelta)
            if delta.id or delta.name or delta.arguments or delta.whole:
                reached.add((sighting(delta.id, ids), sighting(delta.key, keys)))
                ids.add(delta.id)
                keys.add(delta.key)
    assert reached == set(POLICY)


def sighting(value: Any, known: set[Any]) -> Sighting:
    if value is None or value == "":
        return Sighting.ABSENT
    return Sighting.KNOWN if value in known else Sighting.NEW


def test_a_late_name_does_not_announce_a_placeholder() -> None:
    stream = machine(TOOLS)
    stream.start()
    assert stream.tool_call(call('{"city":', key=0, id="a")) == []
    announced = stream.tool_call(call('"Rome"}', key=0, name="get_weather"))
    assert [event.type.removeprefix("response.") for event in announced] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
    ]


@pytest.mark.parametrize(
    "empty",
    [
        call(key=1),
        call(key=1, whole=True),
        call("", key=1, id="b", whole=True),
        call(key=1, id="b", name=""),
        call(key=None, id="b"),
    ],
)
@pytest.mark.parametrize("reason", [FinishReason.TOOL_CALLS, FinishReason.LENGTH])
def test_a_call_without_a_name_and_arguments_is_ignored(empty: ToolCallDelta, reason: FinishReason) -> None:
    deltas: list[Delta] = [call(ROME, key=0, id="a", name="get_weather"), empty, FinishDelta(reason)]
    stream, events = run(deltas, TOOLS)
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["function_call"]
    assert stream.phase.value == ("completed" if reason is FinishReason.TOOL_CALLS else "incomplete")
    ignored = not empty.id and not empty.whole  # such an entry is no call at all (ask B6)
    assert codes(stream) == (set() if ignored else {"unannounced_call"})


def test_parallel_calls_interleave() -> None:
    deltas: list[Delta] = [
        call(key=0, id="a", name="get_weather"),
        call(key=1, id="b", name="get_weather_history"),
        call('{"city":', key=1),
        call('{"city":', key=0),
        call('"Rome"}', key=0),
        call('"Oslo"}', key=1),
    ]
    assert names_and_arguments(deltas) == [WEATHER, HISTORY]


def test_equal_calls_with_different_ids_are_two() -> None:
    deltas: list[Delta] = [
        call(ROME, key=i, id=f"call_{i}", name="get_weather", whole=True) for i in range(2)
    ]
    assert names_and_arguments(deltas) == [WEATHER, WEATHER]


def test_an_upstream_id_gets_a_suffix_only_if_it_was_used_before() -> None:
    deltas: list[Delta] = [
        call(ROME, key=0, id="call_0", name="get_weather"),
        call(OSLO, key=1, id="call_1", name="get_weather"),
        call("{}", key=2, id="x" * 80, name="list"),
    ]
    _, events = run(deltas, TOOLS, used_call_ids={"call_0"})
    first, second, third = (item["call_id"] for item in events[-1]["response"]["output"])
    assert (first, second) == ("call_0-pk2", "call_1")
    assert len(third) <= 64


def test_a_truncated_call_is_incomplete_and_keeps_its_arguments() -> None:
    deltas: list[Delta] = [
        call('{"city":"Ro', key=0, id="a", name="get_weather"),
        FinishDelta(FinishReason.LENGTH),
    ]
    _, events = run(deltas, TOOLS)
    assert calls(events) == [("get_weather", '{"city":"Ro', "incomplete")]
    assert events[-1]["type"] == "response.incomplete"


def test_a_truncated_call_without_arguments_stays_empty() -> None:
    _, events = run([call(key=0, id="a", name="list"), FinishDelta(FinishReason.LENGTH)], TOOLS)
    assert calls(events) == [("list", "", "incomplete")]
    assert of_type(events, "function_call_arguments.delta") == []


def test_in_a_truncated_response_the_partial_second_call_is_sent_too() -> None:
    deltas: list[Delta] = [
        call(ROME + '{"city":"Os', key=0, id="a", name="get_weather"),
        FinishDelta(FinishReason.LENGTH),
    ]
    stream, events = run(deltas, TOOLS)
    assert calls(events) == [
        ("get_weather", ROME, "completed"),
        ("get_weather", '{"city":"Os', "incomplete"),
    ]
    assert codes(stream) == {"glued_calls"}


@pytest.mark.parametrize(
    "deltas",
    [
        [call("\u00a0", key=0, id="a", name="list")],
        [call('{"a":', key=0, id="a"), call(key=0, name="get_")],
    ],
    ids=["whitespace that JSON does not allow", "cut arguments before a piece of a name"],
)
def test_incomplete_arguments_fail_the_response(deltas: list[Delta]) -> None:
    _, events = run(deltas, TOOLS)
    assert events[-1]["response"]["error"]["code"] == "bridge.stream.incomplete_tool_call"


def test_a_delta_with_a_field_of_the_wrong_type_is_refused_without_effect() -> None:
    stream = machine(TOOLS)
    stream.start()
    with pytest.raises(TypeError, match="id"):
        stream.tool_call(ToolCallDelta(key=0, id=5, name="list"))  # type: ignore[arg-type]
    assert stream.tool_call(call("{}", key=0, name="list"))[0].type == "response.output_item.added"


def test_in_a_truncated_response_buffered_text_does_not_complete_other_items() -> None:
    deltas: list[Delta] = [
        call(ROME + '{"city":"Os', key=0, id="a", name="get_weather"),
        call(OSLO, key=1, id="b", name="get_weather_history"),
        TextDelta("cut"),
        FinishDelta(FinishReason.LENGTH),
    ]
    _, events = run(deltas, TOOLS)
    statuses = [(item["type"], item["status"]) for item in events[-1]["response"]["output"]]
    assert statuses == [
        ("function_call", "completed"),
        ("function_call", "completed"),
        ("message", "incomplete"),
        ("function_call", "incomplete"),
    ]


def test_an_incomplete_name_that_is_not_allowed_fails_too() -> None:
    _, events = run([call(key=0, id="a", name="get_")], TOOLS, tool_choice="none")
    assert events[-1]["response"]["error"]["code"] == "tool_not_allowed"


def test_allowed_tools_are_enforced() -> None:
    choice = AllowedTools(tools=[ToolReference(type="function", name="list")])
    deltas: list[Delta] = [
        TextDelta("hi"),
        call(ROME, key=0, id="a", name="get_weather"),
        call("{}", key=1, id="b", name="list"),
    ]
    stream, events = run(deltas, TOOLS, tool_choice=choice)
    assert calls(events) == [("list", "{}", "completed")]
    assert codes(stream) == {"tool_not_allowed"}


# Namespaces and custom tools
def test_a_call_has_the_declared_namespace() -> None:
    deltas: list[Delta] = [
        call("{}", key=0, id="a", name="mcp__docs__search"),
        call("{}", key=1, id="b", name="search", namespace="mcp__docs"),
    ]
    stream, events = run(deltas, TOOLS)
    for event in of_type(events, "output_item.added", "output_item.done"):
        assert (event["item"]["name"], event["item"]["namespace"]) == ("search", "mcp__docs")
    assert stream.diagnostics == []


def test_the_number_of_calls_in_one_text_is_limited() -> None:
    glued = "".join(f'{{"n":{n}}}' for n in range(10 * MAX_VALUES))
    stream, events = run([call(glued, key=0, id="a", name="list")], TOOLS)
    assert len(calls(events)) == MAX_VALUES + 1
    assert {each.code for each in stream.diagnostics} == {"glued_calls", "trailing_arguments"}


def without_ids(delta: ToolCallDelta) -> ToolCallDelta:
    """Mark a missing id as the empty id, which means the same, so that the delta is never a mere fragment."""
    return replace(delta, id=delta.id or "")


fragments_of_calls = st.builds(
    ToolCallDelta,
    key=st.sampled_from([None, 0, 1]),
    type=st.sampled_from([None, None, "custom"]),
    arguments=strategies.fragments,
)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(strategies.tool_call_deltas | fragments_of_calls | fragments_of_calls, max_size=14))
def test_a_fragment_has_the_effect_of_any_delta_with_its_fields(
    deltas: list[ToolCallDelta],
) -> None:
    stream, events = run(deltas, strategies.TOOLS)
    other, expected = run(map(without_ids, deltas), strategies.TOOLS)
    assert (events, stream.diagnostics) == (expected, other.diagnostics)


@pytest.mark.parametrize(
    ("delta", "fragment"),
    [
        (call("x", key=0), "x"),
        (call("x", key=0, type="custom"), "x"),
        (call("x", key=0, id=""), ""),
        (call("x", key=0, name="f"), ""),
        (call("x", key=0, namespace="n"), ""),
        (call("x", key=0, whole=True), ""),
        (call({"x": 1}, key=0), ""),
        (call(key=0), ""),
    ],
)
def test_a_fragment_is_a_delta_with_nothing_but_a_piece_of_the_arguments(
    delta: ToolCallDelta, fragment: str
) -> None:
    assert delta.fragment == fragment
