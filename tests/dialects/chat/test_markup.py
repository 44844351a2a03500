"""Reasoning and tool calls that a model writes as text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.chat import DIALECT
from penstock.protocol.tools import FunctionTool, NamespaceTool
from penstock.stream.deltas import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from tests.dialects.block_stream_checks import as_frame
from tests.dialects.chat_streams import DONE, answer, chunk, of, plan, read, split_at
from tests.effort import examples

# Think tags

THINKING: dict[str, tuple[str, str, str]] = {
    # text, reasoning, answer
    "balanced": ("<think>hm</think>hi", "hm", "hi"),
    "with line breaks": ("<think>\nhm\n</think>\n\nhi\n", "hm\n", "hi\n"),
    "after white space": ("\n\n<think>hm</think>hi", "hm", "hi"),
    "empty": ("<think>\n\n</think>\n\nhi", "", "hi"),
    "another name": ("<thought>hm</thought>hi", "hm", "hi"),
    "closing only": ("hm, so\n</think>\n\nhi", "hm, so\n", "hi"),
    "closing only, with backticks": ("hm `</think>` so</think>hi", "hm `</think>` so", "hi"),
    "unclosed": ("<think>hm", "hm", ""),
    "no tags": ("hi there", "", "hi there"),
    "literal in backticks": ("hi `<think>x</think>` you", "", "hi `<think>x</think>` you"),
    "literal in a block": ("hi\n```\n<think>\n```\nyou", "", "hi\n```\n<think>\n```\nyou"),
    "literal in the reasoning": ("<think>use `</think>` here</think>hi", "use `</think>` here", "hi"),
    "literal in the answer": (
        "<think>hm</think>use `<think>` and </think>",
        "hm",
        "use `<think>` and </think>",
    ),
    "mentioned in a line": ("<think>hm</think>the <think> tag", "hm", "the <think> tag"),
    "a stray backtick": ("<think>a ` b\nc</think>hi", "a ` b\nc", "hi"),
    "nested": ("<think>a\n<think>b</think>c</think>hi", "a\nbc", "hi"),
    "twice": ("<think>a</think>hi\n<think>b</think>you", "ab", "hi\nyou"),
    "a text, then thinking": ("hi\n<think>a</think>you", "a", "hi\nyou"),
    "not quite a tag": ("1 <think 2 < 3 <thin", "", "1 <think 2 < 3 <thin"),
}


@pytest.mark.parametrize("name", THINKING)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_think_tags_separate_reasoning_from_text(name: str, size: int) -> None:
    text, reasoning, answer_text = THINKING[name]
    deltas = read(*split_at(text, size), chunk(finish="stop"), for_plan=plan(think_tags=True))
    assert "".join(each.text for each in of(deltas, ReasoningDelta)) == reasoning
    assert "".join(each.text for each in of(deltas, TextDelta)) == answer_text
    assert of(read(*split_at(text, size)), ReasoningDelta) == []


def test_text_is_not_held_back_if_reasoning_has_its_own_field() -> None:
    reader = DIALECT.reader(plan(think_tags=True))
    reader.feed(as_frame(chunk({"reasoning_content": "hm"})))
    assert reader.feed(as_frame(chunk({"content": "hi"}))) == [TextDelta("hi")]


def test_a_tool_call_releases_text_that_was_held_back() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f"}}
    deltas = read(chunk({"content": "hi"}), chunk({"tool_calls": [call]}), for_plan=plan(think_tags=True))
    assert [type(each) for each in deltas[:2]] == [TextDelta, ToolCallDelta]


# Tool markup

JSON_CALL = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
XML_CALL = "<function=g>\n<parameter=path>\na.py\n</parameter>\n<parameter=n>\n3\n</parameter>\n</function>"
F, G = ("f", {"x": 1}), ("g", {"path": "a.py", "n": 3})
MARKUP: dict[str, tuple[str, list[tuple[str, Any]], str]] = {
    # text, calls, remaining text
    "JSON": (JSON_CALL, [F], ""),
    "parameters for arguments": ('<tool_call>{"name":"f","parameters":{"x":1}}</tool_call>', [F], ""),
    "no arguments": ('<tool_call>{"name":"f"}</tool_call>', [("f", {})], ""),
    "arguments as a text": ('<tool_call>{"name":"f","arguments":"{\\"x\\":1}"}</tool_call>', [F], ""),
    "tags": (XML_CALL, [G], ""),
    "tags in tags": (f"<tool_call>\n{XML_CALL}\n</tool_call>", [G], ""),
    "after text": (f"Look:\n{JSON_CALL}", [F], "Look:"),
    "two": (f"{JSON_CALL}\n{XML_CALL}\n", [F, G], ""),
    "text after": (f"{JSON_CALL}\nthen", [F], "\nthen"),
    "a closing tag inside": (
        '<tool_call>{"name":"f","arguments":{"x":"</tool_call>"}}</tool_call>',
        [("f", {"x": "</tool_call>"})],
        "",
    ),
    "the closing tag was a stop sequence": (JSON_CALL.removesuffix("</tool_call>"), [F], ""),
    "in backticks": ("use `<tool_call>{}</tool_call>` so", [], "use `<tool_call>{}</tool_call>` so"),
    "in a block": (f"so:\n```xml\n{JSON_CALL}\n```\n", [], f"so:\n```xml\n{JSON_CALL}\n```\n"),
    "no JSON": ("<tool_call>what</tool_call>", [], "<tool_call>what</tool_call>"),
    "no name": ("<tool_call>{}</tool_call>", [], "<tool_call>{}</tool_call>"),
    "cut": ('<tool_call>{"name": "f", "arg', [], '<tool_call>{"name": "f", "arg'),
    "cut tags": ("<function=g", [], "<function=g"),
    "not quite a tag": ("a <tool_cal", [], "a <tool_cal"),
    "white space": ("\n\n", [], "\n\n"),
}
TYPED = FunctionTool(
    name="g", parameters={"properties": {"n": {"type": "integer"}, "path": {"type": ["string", "null"]}}}
)


@pytest.mark.parametrize("name", MARKUP)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_tool_markup_becomes_calls(name: str, size: int) -> None:
    text, expected, remaining = MARKUP[name]
    markup_plan = plan(tool_markup=True, tools=[TYPED])
    deltas = read(*split_at(text, size), chunk(finish="stop"), for_plan=markup_plan)
    found = [(each.name, each.arguments) for each in of(deltas, ToolCallDelta)]
    assert [
        (called, json.loads(args) if isinstance(args, str) else args) for called, args in found
    ] == expected
    assert "".join(each.text for each in of(deltas, TextDelta)) == remaining
    assert of(read(*split_at(text, size)), ToolCallDelta) == []
    response = answer(*split_at(text, size), chunk(finish="stop"), for_plan=markup_plan)
    assert response["status"] == "completed"


def test_markup_counts_only_after_think_tags() -> None:
    text = f"<think>hm {JSON_CALL}</think>\n\n{JSON_CALL}"
    deltas = read(*split_at(text, 4), DONE, for_plan=plan(think_tags=True, tool_markup=True))
    assert "".join(each.text for each in of(deltas, ReasoningDelta)) == f"hm {JSON_CALL}"
    assert [each.arguments for each in of(deltas, ToolCallDelta)] == [{"x": 1}]
    assert of(deltas, TextDelta) == []


def test_markup_uses_the_schema_of_a_tool_in_a_namespace() -> None:
    space = NamespaceTool(name="mcp", tools=[TYPED])
    text = XML_CALL.replace("<function=g>", "<function=mcp__g>").replace("\n3\n", "\nthree\n")
    deltas = read(chunk({"content": text}), DONE, for_plan=plan(tool_markup=True, tools=[space]))
    assert of(deltas, ToolCallDelta)[0].arguments == {"path": "a.py", "n": "three"}


PIECES = st.sampled_from(
    ["a", "<think>", "</think>", "`", "\n", "<tool_call>", '{"name":"f"}', "</tool_call>", ""]
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(PIECES, max_size=12), st.booleans(), st.booleans())
def test_the_result_does_not_depend_on_how_the_text_is_split(
    texts: list[str], think_tags: bool, tool_markup: bool
) -> None:
    """The result is the same for one delta, for the given deltas, and for single characters."""
    markup_plan = plan(think_tags=think_tags, tool_markup=tool_markup)
    expected = _joined(read(chunk({"content": "".join(texts)}), for_plan=markup_plan))
    assert _joined(read(*[chunk({"content": each}) for each in texts], for_plan=markup_plan)) == expected
    assert _joined(read(*split_at("".join(texts), 1), for_plan=markup_plan)) == expected


def _joined(deltas: list[Delta]) -> list[tuple[str, str]]:
    """Return the deltas as kinds and texts, with neighbours of one kind joined."""
    joined: list[tuple[str, str]] = []
    for each in of(deltas, TextDelta, ReasoningDelta, ToolCallDelta):
        kind, text = type(each).__name__, str(getattr(each, "text", each))
        if joined and joined[-1][0] == kind != "ToolCallDelta":
            kind, text = kind, joined.pop()[1] + text
        joined.append((kind, text))
    return joined
