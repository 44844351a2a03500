"""Custom tools: the input as text, with or without the JSON wrapper."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from penstock.protocol.tools import CustomTool, Tool
from penstock.protocol.wire import to_builtins
from penstock.stream.deltas import Delta, FinishDelta, FinishReason, ToolCallDelta
from penstock.tools.custom import CustomCallStream
from penstock.tools.family import ToolIdentity
from tests.stream.running import calls, codes, of_type, run

TOOLS: list[Tool] = [CustomTool(name="apply_patch")]


def call(arguments: Any = None, /, **fields: Any) -> ToolCallDelta:
    return ToolCallDelta(arguments=arguments, **fields)


def test_custom_input_streams_escape_by_escape() -> None:
    text = '*** Begin Patch\n+"é😀"\t\\'
    wrapped = json.dumps({"input": text})
    deltas: list[Delta] = [call(key=0, id="a", name="apply_patch")]
    deltas += [call(character, key=0) for character in wrapped]
    stream, events = run(deltas, TOOLS)
    added = of_type(events, "output_item.added")[0]["item"]
    assert (added["type"], added["input"]) == ("custom_tool_call", "")
    pieces = [event["delta"] for event in of_type(events, "custom_tool_call_input.delta")]
    assert "".join(pieces) == text
    assert len(pieces) == len(text)
    assert calls(events) == [("apply_patch", text, "completed")]
    assert stream.diagnostics == []


CUSTOM: dict[str, tuple[list[Delta], list[str], set[str]]] = {
    "raw text from an upstream that knows custom tools": (
        [
            call("*** Beg", key=0, id="a", name="apply_patch", type="custom"),
            call("in", key=0),
            call("*** Begin", key=0, whole=True),
        ],
        ["*** Begin"],
        set(),
    ),
    "raw text after its end": (
        [
            call("all", key=0, id="a", name="apply_patch", type="custom", whole=True),
            call("more", key=0),
        ],
        ["all"],
        {"trailing_arguments"},
    ),
    "raw text that looks like JSON": (
        [call("{ x }{ y }", key=0, id="a", name="apply_patch", type="custom")],
        ["{ x }{ y }"],
        set(),
    ),
    "text without the wrapper (ask B1)": (
        [call("*** Be", key=0, id="a", name="apply_patch"), call("gin {}", key=0)],
        ["*** Begin {}"],
        {"odd_arguments"},
    ),
    "code that begins with a brace": (
        [call("{ run(); } then { more }", key=0, id="a", name="apply_patch")],
        ["{ run(); } then { more }"],
        {"odd_arguments"},
    ),
    "another wrapper (ask B1)": (
        [call('{"patch":', key=0, id="a", name="apply_patch"), call('"p"}', key=0)],
        ["p"],
        {"odd_arguments"},
    ),
    "the input is not the first field": (
        [call('{"why":"x","input":"p"}', key=0, id="a", name="apply_patch")],
        ["p"],
        {"odd_arguments"},
    ),
    "another field next to the input": (
        [call('{"input":"p","workdir":"/x"}', key=0, id="a", name="apply_patch")],
        ["p"],
        {"odd_arguments"},
    ),
    "text after an object that is not the wrapper": (
        [call('{"a":1}\nfoo', key=0, id="a", name="apply_patch")],
        ['{"a":1}\nfoo'],
        {"odd_arguments"},
    ),
    "an object without any text": (
        [call('{"a":1}', key=0, id="a", name="apply_patch")],
        ['{"a":1}'],
        {"odd_arguments"},
    ),
    "an empty object": ([call("{}", key=0, id="a", name="apply_patch")], [""], {"odd_arguments"}),
    "nothing": ([call(key=0, id="a", name="apply_patch")], [""], set()),
    "blank": ([call("  ", key=0, id="a", name="apply_patch")], [""], set()),
    "a long way to the wrapper": (
        [call("{" + " " * 300, key=0, id="a", name="apply_patch"), call('"input":"p"}', key=0)],
        ["p"],
        {"odd_arguments"},
    ),
    "two glued inputs": (
        [call('{"input":"a"}{"input":"b"}', key=0, id="a", name="apply_patch")],
        ["a", "b"],
        {"glued_calls"},
    ),
    "an undeclared custom tool": (
        [call("x", key=0, id="a", name="unknown", type="custom")],
        ["x"],
        {"undeclared_tool"},
    ),
    "a broken escape": (
        [call('{"input":"\\q"}', key=0, id="a", name="apply_patch")],
        ["\\q"],
        {"odd_arguments"},
    ),
}


@pytest.mark.parametrize("case", CUSTOM)
def test_custom_input_is_delivered_as_text(case: str) -> None:
    deltas, expected, diagnostics = CUSTOM[case]
    stream, events = run(deltas, TOOLS)
    assert [(arguments, status) for _, arguments, status in calls(events)] == [
        (text, "completed") for text in expected
    ]
    assert {item["type"] for item in events[-1]["response"]["output"]} == {"custom_tool_call"}
    assert codes(stream) == diagnostics


def test_a_truncated_custom_input_is_incomplete() -> None:
    deltas: list[Delta] = [
        call('{"input":"half', key=0, id="a", name="apply_patch"),
        FinishDelta(FinishReason.LENGTH),
    ]
    assert calls(run(deltas, TOOLS)[1]) == [("apply_patch", "half", "incomplete")]
    other: list[Delta] = [call('{"patch":"half', key=0, id="a", name="apply_patch"), deltas[1]]
    assert calls(run(other, TOOLS)[1]) == [("apply_patch", '{"patch":"half', "incomplete")]
    _, events = run(deltas[:1], TOOLS)
    assert events[-1]["response"]["error"]["code"] == "bridge.stream.incomplete_tool_call"


def test_a_wrapper_of_another_shape_does_not_change_the_item_type() -> None:
    _, events = run([call('{"patch":"p"}', key=0, id="a", name="apply_patch")], TOOLS)
    items = of_type(events, "output_item.added", "output_item.done")
    assert [event["item"]["type"] for event in items] == ["custom_tool_call"] * 2


def stream(*, raw: bool = False) -> CustomCallStream:
    identity = ToolIdentity("custom", "apply_patch", None, "apply_patch")
    stream = CustomCallStream(identity, item_id="ctc_1", call_id="call_1", raw=raw)
    stream.output_index = 0
    return stream


@pytest.mark.parametrize(
    ("fragments", "input", "flaw"),
    [
        (['{"input":"a\\n', 'b"}'], "a\nb", ""),
        (["{ ", '"inp', 'ut" :', ' "a" }'], "a", ""),
        (["plain text"], "plain text", "the input is not wrapped in JSON"),
        (['{"input":"a","b":1}'], "a", "fields other than the input were dropped"),
        (['{"patch":"a"}'], "a", "the input is wrapped in an unexpected JSON object"),
        (['{"a":"x","b":"y"}'], '{"a":"x","b":"y"}', "the input is wrapped in an unexpected JSON object"),
        (['{"input":"\\ud83d"}'], "\N{REPLACEMENT CHARACTER}", "the JSON around the input is broken"),
    ],
)
def test_a_flaw_says_what_was_wrong_with_the_wrapper(fragments: list[str], input: str, flaw: str) -> None:
    call = stream()
    for fragment in fragments:
        call.feed(fragment, count().__next__)
    call.close(count().__next__, complete=True)
    assert (call.item("completed").input, call.flaw) == (input, flaw)


@pytest.mark.parametrize(
    ("text", "complete"),
    [('{"input":"a"}', True), ('{"input":"a"', False), ('{"a":', False), ("code {", True), ("", True)],
)
def test_only_a_json_object_can_be_incomplete(text: str, complete: bool) -> None:
    call = stream()
    call.feed(text, count().__next__)
    assert call.is_complete == complete


def test_only_the_wrapper_ends_the_input() -> None:
    assert stream().may_end_with('{"input": "a"}')
    for code in ('{"a": 1}', '{"input": "a", "b": 1}', "{ run(); }"):
        assert not stream().may_end_with(code)


def test_raw_text_is_never_decoded() -> None:
    call = stream(raw=True)
    events = call.feed('{"input":"a"}', count().__next__)
    assert [to_builtins(event)["delta"] for event in events] == ['{"input":"a"}']
    assert (call.is_complete, call.flaw) == (True, "")
