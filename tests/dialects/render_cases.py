"""Items, tools, requests and plans for tests of rendering."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from penstock.dialects.plan import Plan, Quirks, Target, UpstreamRequest
from penstock.dialects.toolset import declared_tools
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import read
from penstock.tools.identity import ToolIdentityMap

PIXEL = "data:image/png;base64,iVBORw0KGgo="

WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
PATCH: dict[str, Any] = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Changes files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}
SEARCH: dict[str, Any] = {"type": "namespace", "name": "mcp__docs", "tools": [{**WEATHER, "name": "search"}]}


def plan_for(request: dict[str, Any], *, quirks: Quirks | None = None, **target: Any) -> Plan:
    decoded = read({"input": "hello", **request}, CreateResponse)
    return Plan(
        request=decoded,
        target=Target(model="m", quirks=quirks or Quirks(), **target),
        tools=ToolIdentityMap(declared_tools(decoded), decoded.tool_choice),
    )


def codes(rendered: UpstreamRequest) -> set[str]:
    return {diagnostic.code for diagnostic in rendered.diagnostics}


def dropped(rendered: UpstreamRequest) -> set[str]:
    """Return the fields that were dropped."""
    return {each.message.split("`")[1] for each in rendered.diagnostics if each.code == "field_dropped"}


def call(call_id: str = "call_1", name: str = "weather", arguments: str = "{}") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def output(call_id: str = "call_1", output: Any = "sunny") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [part]}


SHELL_OUTPUT = {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}

EVERY_ITEM: list[dict[str, Any]] = [
    {"type": "additional_tools", "role": "developer", "id": "at_1", "tools": [SEARCH]},
    {"type": "message", "role": "developer", "content": "Be brief."},
    {"role": "system", "content": [{"type": "input_text", "text": "Be kind."}]},
    user(
        [
            {"type": "input_text", "text": "Look:"},
            {"type": "input_image", "image_url": PIXEL, "detail": "original"},
            {"type": "input_image", "file_id": "file_1"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
            {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGk="},
            {"type": "input_file", "file_url": "https://example.org/a.pdf"},
            {"type": "input_file", "file_id": "file_2"},
            {"type": "input_video", "video_url": "https://example.org/a.mp4"},
            {"type": "input_smell", "smell": "roses"},
            {"type": "text", "text": "and think."},
        ]
    ),
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
    },
    assistant("I will look."),
    call("call_1", "weather", '{"city":"Ulm"}'),
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "apply_patch", "input": "***"},
    {**call("call_3", "search"), "namespace": "mcp__docs"},
    output("call_1", [{"type": "input_text", "text": "sunny"}, {"type": "input_image", "image_url": PIXEL}]),
    {"type": "custom_tool_call_output", "call_id": "call_2", "output": "done"},
    output("call_3", ""),
    {
        "type": "local_shell_call",
        "call_id": "call_4",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    },
    {"type": "local_shell_call_output", "id": "call_4", "output": "a"},
    {"type": "shell_call", "call_id": "call_5", "action": {"commands": ["ls"]}, "status": "completed"},
    {"type": "shell_call_output", "call_id": "call_5", "output": [SHELL_OUTPUT]},
    {
        "type": "apply_patch_call",
        "call_id": "call_6",
        "operation": {"type": "delete_file", "path": "a"},
        "status": "completed",
    },
    {"type": "apply_patch_call_output", "call_id": "call_6", "status": "completed", "output": "ok"},
    {"type": "tool_search_call", "call_id": "call_7", "execution": "client", "arguments": {"query": "x"}},
    {"type": "tool_search_output", "call_id": "call_7", "execution": "client", "tools": [PATCH]},
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    },
    {"type": "item_reference", "id": "msg_0"},
    {"type": "compaction", "encrypted_content": "of somebody"},
    {"type": "mystery", "id": "x_1", "clue": 1},
    {"role": "developer", "content": "Now be long."},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    user("Go on."),
]

EVERY_TOOL: list[dict[str, Any]] = [
    WEATHER,
    PATCH,
    SEARCH,
    {"type": "web_search"},
    {"type": "local_shell"},
    {"type": "tool_search", "execution": "client"},
    {"type": "image_generation"},
    {"type": "shell"},
    {"type": "apply_patch"},
]
EVERY_TOOL_NAMES = [
    *("weather", "apply_patch", "mcp__docs__search", "local_shell", "tool_search", "shell", "apply_patch_2")
]
"""The upstream's names for those that a client runs."""

_texts = st.text(max_size=8)
_ids = st.sampled_from(["call_1", "call_2", "call_3", "", "call_9-pk2", "x" * 70])
_parts = st.one_of(
    st.builds(lambda text: {"type": "input_text", "text": text}, _texts),
    st.builds(lambda text: {"type": "output_text", "text": text}, _texts),
    st.builds(lambda text: {"type": "refusal", "refusal": text}, _texts),
    st.sampled_from(EVERY_ITEM[3]["content"]),
)
_contents = st.one_of(_texts, st.lists(_parts, max_size=3))
_arguments = st.sampled_from(["", "{}", '{"a":1}', "{", "[]", "null", '"x"'])
_items = st.one_of(
    st.sampled_from(EVERY_ITEM),
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant", "system", "developer", "critic"]),
        _contents,
    ),
    st.builds(
        call,
        _ids,
        st.sampled_from(["weather", "apply_patch", "search", "no.such tool", ""]),
        _arguments,
    ),
    st.builds(output, _ids, _contents),
    st.builds(
        lambda call_id, text: {
            "type": "custom_tool_call",
            "call_id": call_id,
            "name": "apply_patch",
            "input": text,
        },
        _ids,
        _texts,
    ),
    st.builds(
        lambda text, sealed: {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": text}],
            "encrypted_content": sealed,
        },
        _texts,
        st.sampled_from([None, "", "foreign", "pk1.e30"]),
    ),
)

requests: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"input": st.lists(_items, max_size=8)},
    optional={
        "instructions": _texts,
        "tools": st.lists(st.sampled_from(EVERY_TOOL), max_size=4),
        "tool_choice": st.sampled_from(
            [
                "auto",
                "none",
                "required",
                "whatever",
                {"type": "function", "name": "weather"},
                {"type": "custom", "name": "apply_patch"},
                {"type": "web_search"},
                {"type": "shell"},
                {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "weather"}]},
                {"type": "allowed_tools", "mode": "required", "tools": []},
                {"type": "allowed_tools", "mode": "none", "tools": []},
            ]
        ),
        "text": st.sampled_from(
            [
                {"format": {"type": "text"}},
                {"format": {"type": "json_object"}, "verbosity": "low"},
                {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}},
                {"format": {"type": "grammar"}},
                {"format": {}},
            ]
        ),
        "reasoning": st.sampled_from(
            [{"effort": "max"}, {"effort": "odd"}, {"effort": None, "summary": "x"}]
        ),
        "parallel_tool_calls": st.booleans(),
        "temperature": st.floats(0, 2),
        "stop": st.sampled_from(["x", ["x"], None]),
    },
)
"""Requests with any items in any order."""

targets: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "vendor": st.sampled_from(
            ["", "openai", "deepseek", "openrouter", "mistral", "moonshot", "zai", "xai"]
        ),
        "quirks": st.builds(
            Quirks,
            system_first=st.booleans(),
            developer_role=st.booleans(),
            reasoning_field=st.sampled_from(["", "reasoning_content"]),
            reasoning_details=st.booleans(),
            effort=st.sampled_from(["", "openai", "thinking", "no such row"]),
            strict_tools=st.booleans(),
            json_schema=st.booleans(),
            images=st.booleans(),
            files=st.booleans(),
            parallel_tool_calls=st.booleans(),
            tool_choice=st.booleans(),
        ),
    }
)
