"""Hypothesis strategies for deltas: all input of the machine, sensible or not."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from penstock.protocol.content import Annotation, FileCitation, UnknownAnnotation, UrlCitation
from penstock.protocol.items import Item, ShellCall, UnknownItem, WebSearchCall
from penstock.protocol.tools import (
    ApplyPatchTool,
    CustomTool,
    FunctionTool,
    LocalShellTool,
    NamespaceTool,
    ShellTool,
    Tool,
    ToolSearchTool,
)
from penstock.stream.deltas import (
    AnnotationDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    DiagnosticDelta,
    EventDelta,
    FinishDelta,
    FinishReason,
    ItemDelta,
    Key,
    OpaqueReasoning,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
    UsageDelta,
)

TOOLS: list[Tool] = [
    FunctionTool(name="get"),
    FunctionTool(name="get_weather"),
    CustomTool(name="patch"),
    NamespaceTool(name="ns", tools=[FunctionTool(name="get")]),
    LocalShellTool(),
    ShellTool(),
    ApplyPatchTool(),
    ToolSearchTool(execution="client"),
]

keys: st.SearchStrategy[Key] = st.sampled_from([0, 1, "a"])
blocks: st.SearchStrategy[Key | None] = st.none() | keys
text = st.text(alphabet=st.characters(codec="utf-8"), max_size=8)
call_ids = st.sampled_from([None, "", "call_0", "call_1", "call_0-pk2", "x" * 70])
names = st.sampled_from(
    [
        *(None, "", "ge", "get", "get_wea", "get_weather", "patch", "pa", "tch", "ns__get", "other"),
        *("shell", "local_shell", "apply_patch", "tool_search"),
    ]
)
fragments = st.sampled_from(
    [
        *("", " ", ",", "{", "}", "}{", "{}", "null", "[1]", "{ code }"),
        *('{"a":', "1}", '{"a":1}', '{"a":1}{"a":2}', ' {"a": 1}', '"{\\"a\\":1}"'),
        *('{"input":"', "\\", "n", "\\u00", "\\ud83d", '\\ude00"}', '"'),
        *('{"commands":["', 'ls","', '"]}', '{"commands":["a"]}', '{"command":["a","b"]}'),
        *('{"type":"update_file","path":"a","diff":"', '+b"}', '{"type":"delete_file","path":"a"}'),
    ]
)
objects = st.dictionaries(st.sampled_from("ab"), st.integers(0, 9), max_size=2)
arguments = st.none() | fragments | text | objects
citations: st.SearchStrategy[Annotation] = st.sampled_from(
    [
        UrlCitation(url="https://example.com/a"),
        FileCitation(file_id="file_1", filename="x"),
        UnknownAnnotation(type="page", extra={"url": "https://example.com/b", "title": "B"}),
        UnknownAnnotation(type="page", extra={"url": 5}),
    ]
)
items: st.SearchStrategy[Item] = st.sampled_from(
    [
        WebSearchCall(status="searching"),
        WebSearchCall(id="ws_theirs", status="completed", action={"query": "q"}),
        UnknownItem(type="mcp_call", status="failed", extra={"name": "n"}),
        UnknownItem(type="acme:note"),
        ShellCall(call_id="call_0", action={"commands": []}),
    ]
)
event_types = st.sampled_from(
    ["response.web_search_call.searching", "acme:trace", "response.shell_call_command.added"]
)
counts = st.none() | st.integers(0, 50)

tool_call_deltas = st.builds(
    ToolCallDelta,
    key=blocks,
    id=call_ids,
    name=names,
    namespace=st.sampled_from([None, None, None, "ns"]),
    type=st.sampled_from([None, None, None, "custom"]),
    arguments=arguments,
    whole=st.sampled_from([False, False, False, True]),
)

deltas: st.SearchStrategy[Delta] = st.one_of(
    st.builds(TextDelta, text=text, block=blocks, part=blocks),
    st.builds(RefusalDelta, text=text, block=blocks, part=blocks),
    st.builds(ReasoningDelta, text=text, block=blocks, part=blocks),
    st.builds(SummaryDelta, text=text, part=keys, block=blocks),
    tool_call_deltas,
    tool_call_deltas,
    st.builds(OpaqueReasoning, data=text, block=blocks, call=blocks),
    st.builds(AnnotationDelta, annotation=citations, block=blocks, part=blocks),
    st.builds(BlockStart, block=keys, kind=st.sampled_from(BlockKind), phase=st.just("commentary")),
    st.builds(BlockEnd, block=keys, kind=st.none() | st.sampled_from(BlockKind)),
    st.builds(ItemDelta, key=keys, item=items, done=st.booleans()),
    st.builds(EventDelta, type=event_types, fields=st.just({"x": 1}), key=keys),
    st.builds(
        UsageDelta,
        input_tokens=counts,
        output_tokens=counts,
        cached_tokens=counts,
        reasoning_tokens=counts,
        estimated=st.booleans(),
    ),
    st.builds(UpstreamInfo, model=st.sampled_from([None, "", "m2"]), service_tier=st.just("flex")),
    st.builds(DiagnosticDelta, code=st.just("dropped"), message=text),
    st.builds(FinishDelta, reason=st.sampled_from(FinishReason)),
)

crowded_calls = st.builds(
    ToolCallDelta,
    key=st.sampled_from([None, 0]),
    id=st.sampled_from([None, "call_0"]),
    name=st.sampled_from([None, None, "ge", "get", "patch"]),
    arguments=st.sampled_from([None, " ", "{", "}", '{"a":1}', '{"a":true}', "[1]", '{"input":"x"}', '"']),
    whole=st.booleans(),
)
"""Conflicting calls: one key, one id, few fragments."""

json_objects = st.dictionaries(
    st.text(max_size=4),
    st.recursive(
        st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=6),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
).map(lambda value: json.dumps(value, ensure_ascii=False))


@st.composite
def cut(draw: st.DrawFn, whole: st.SearchStrategy[str]) -> list[str]:
    """Split a text into pieces."""
    value = draw(whole)
    at = sorted(draw(st.lists(st.integers(0, len(value)), max_size=5)))
    return [value[i:j] for i, j in zip([0, *at], [*at, len(value)], strict=True)]


ENDINGS = st.sampled_from(["finish", "cut off", "fail", "cancel"])
"""How a stream ends; see `tests.stream.running.end`."""
