"""Requests in which one list is long, for every list that a request can have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args, get_type_hints

from msgspec import Struct

from penstock.dialects.envelope import seal
from penstock.dialects.plan import Target
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import Wire

Json = dict[str, Any]

SEALED = seal(
    Target("m", vendor="openrouter", dialect="chat", family="m"),
    {"reasoning_details": [{"type": "reasoning.text", "text": "a"}]},
)


class Row(Struct, frozen=True):
    """`make(n)` is a request with n entries; `covers` names the fields that hold them."""

    name: str
    make: Callable[[int], Json]
    covers: tuple[str, ...] = ()


def calls(ids: list[str], type: str = "function_call", **fields: Any) -> list[Json]:
    fields = fields or {"name": "f", "arguments": "{}"}
    return [{"type": type, "call_id": id, **fields} for id in ids]


def outputs(ids: list[str], type: str = "function_call_output", output: Any = "ok") -> list[Json]:
    return [{"type": type, "call_id": id, "output": output} for id in ids]


def ids(count: int, pattern: str = "c{}") -> list[str]:
    return [pattern.format(number) for number in range(count)]


def unclean(count: int) -> list[str]:
    """Names that differ only in characters that upstreams do not accept."""
    return [f"name{chr(0x4E00 + number)}" for number in range(count)]


def user(content: Any = "hello") -> list[Json]:
    return [{"role": "user", "content": content}]


def said(part: Json) -> list[Json]:
    return [{"role": "assistant", "content": [part]}, *user()]


def function(name: str, **fields: Any) -> Json:
    return {"type": "function", "name": name, **fields}


def functions(count: int) -> list[Json]:
    return [function(name) for name in ids(count, "tool{}")]


def with_schema(schema: Json) -> Json:
    return {"input": "call f", "tools": [function("f", parameters=schema)]}


def strings(count: int, **more: Any) -> Json:
    """The schema of an object with so many properties."""
    names = ids(count, "p{}")
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, **more}


def variants(count: int) -> list[Json]:
    return [
        {"properties": {name: {"type": "string"}}, "required": [name, "same"]} for name in ids(count, "p{}")
    ]


def references(count: int) -> Json:
    properties = {f"p{number}": {"$ref": f"#/x/{number}"} for number in range(count)}
    return {"type": "object", "properties": properties, "x": [{"type": "string"} for _ in range(count)]}


def doubling(depth: int) -> Json:
    """Definitions that use each other twice: without a bound it would be 2 to the power of `depth`."""
    definitions: Json = {"d0": {"type": "string"}}
    for number in range(1, depth):
        reference = {"$ref": f"#/$defs/d{number - 1}"}
        definitions[f"d{number}"] = {"type": "object", "properties": {"a": reference, "b": reference}}
    return {"type": "object", "properties": {"x": {"$ref": f"#/$defs/d{depth - 1}"}}, "$defs": definitions}


def doubling_parts(depth: int) -> Json:
    """The same with `allOf`."""
    definitions: Json = {"d0": {"type": "object", "properties": {"a": {"type": "string"}}}}
    for number in range(1, depth):
        reference = {"$ref": f"#/$defs/d{number - 1}"}
        definitions[f"d{number}"] = {"allOf": [reference, reference]}
    return {"type": "object", "allOf": [{"$ref": f"#/$defs/d{depth - 1}"}], "$defs": definitions}


ROWS: tuple[Row, ...] = (
    # items
    Row("messages", lambda n: {"input": user() * n}, ("CreateResponse.input",)),
    Row("turns", lambda n: {"input": [*user(), {"role": "assistant", "content": "hi"}] * n}),
    Row("system", lambda n: {"input": [*user(), *({"role": "system", "content": id} for id in ids(n))]}),
    Row("unanswered calls", lambda n: {"input": calls(ids(n))}),
    Row("calls, then outputs", lambda n: {"input": calls(ids(n)) + outputs(ids(n))}),
    Row("outputs, then calls", lambda n: {"input": outputs(ids(n)) + calls(ids(n))}),
    Row("one id again and again", lambda n: {"input": [*calls(["c"]), *outputs(["c"])] * n}),
    Row("one id, calls first", lambda n: {"input": calls(["c"] * n) + outputs(["c"] * n)}),
    Row("ids with our suffix", lambda n: {"input": calls(ids(n, "c-pk{}"))}),
    Row(
        "ids that collide when cleaned",
        lambda n: {"input": [item for id in unclean(n) for item in (*calls([id]), *outputs([id]))]},
    ),
    Row("orphans", lambda n: {"input": outputs(ids(n))}),
    Row("custom calls", lambda n: {"input": calls(ids(n), "custom_tool_call", name="f", input="x")}),
    Row(
        "shell calls",
        lambda n: {
            "input": calls(ids(n), "shell_call", action={"commands": ["ls"]})
            + outputs(ids(n), "shell_call_output", [{"stdout": "x"}])
        },
    ),
    Row("unknown items", lambda n: {"input": [*({"type": id, "x": 1} for id in ids(n)), *user()]}),
    Row("reasoning", lambda n: {"input": [{"type": "reasoning", "encrypted_content": SEALED}] * n + user()}),
    Row("compactions", lambda n: {"input": [{"type": "compaction", "encrypted_content": "?"}] * n + user()}),
    Row(
        "searches for tools",
        lambda n: {
            "input": [
                item
                for id in ids(n)
                for item in (
                    {"type": "tool_search_call", "call_id": id, "arguments": {}},
                    {"type": "tool_search_output", "call_id": id, "tools": [function(f"t{id}")]},
                )
            ]
        },
        ("ToolSearchOutput.tools",),
    ),
    Row(
        "additional tools",
        lambda n: {"input": [{"type": "additional_tools", "tools": functions(n)}, *user()]},
        ("AdditionalTools.tools",),
    ),
    # what is in an item
    Row(
        "parts",
        lambda n: {"input": user([{"type": "input_text", "text": id} for id in ids(n)])},
        ("Message.content",),
    ),
    Row("unknown parts", lambda n: {"input": user([{"type": id} for id in ids(n)])}),
    Row(
        "parts of an output",
        lambda n: {
            "input": calls(["c", "d"])
            + outputs(["c"], output=[{"type": "input_text", "text": "x"}] * n)
            + outputs(["d"], "custom_tool_call_output", [{"type": "input_text", "text": "x"}] * n)
        },
        ("FunctionCallOutput.output", "CustomToolCallOutput.output"),
    ),
    Row(
        "parts of reasoning",
        lambda n: {
            "input": [
                {
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": "x"}] * n,
                    "content": [{"type": "reasoning_text", "text": "x"}] * n,
                },
                *user(),
            ]
        },
        ("ReasoningItem.summary", "ReasoningItem.content"),
    ),
    Row(
        "annotations",
        lambda n: {
            "input": said(
                {
                    "type": "output_text",
                    "text": "x",
                    "annotations": [{"type": "url_citation", "url": id} for id in ids(n)],
                    "logprobs": [{"token": "a", "logprob": -0.1}] * n,
                }
            )
        },
        ("OutputText.annotations", "OutputText.logprobs"),
    ),
    Row(
        "long actions",
        lambda n: {
            "input": [
                *calls(["a"], "shell_call", action={"commands": ids(n)}),
                *outputs(["a"], "shell_call_output", [{"stdout": "x"}] * n),
                *calls(["b"], "local_shell_call", action={"command": ids(n)}),
                *calls(["c"], "apply_patch_call", operation=dict.fromkeys(ids(n), 1)),
                {"type": "tool_search_call", "call_id": "d", "arguments": {"queries": ids(n)}},
                {"type": "web_search_call", "action": {"sources": ids(n)}},
            ]
        },
        (
            "ShellCall.action",
            "ShellCallOutput.output",
            "LocalShellCall.action",
            "ApplyPatchCall.operation",
            "WebSearchCall.action",
        ),
    ),
    Row(
        "messages between agents",
        lambda n: {
            "input": [
                {
                    "type": "agent_message",
                    "content": [{"type": "encrypted_content", "encrypted_content": "x"}] * n,
                },
                {"type": "agent_message", "author": "a", "content": "x"},
            ]
        },
        ("AgentMessage.content",),
    ),
    Row(
        "outputs without an id",
        lambda n: {
            "input": [*calls(ids(n)), *({"type": "function_call_output", "output": "x"} for _ in range(n))]
        },
    ),
    # tools
    Row("tools", lambda n: {"input": "x", "tools": functions(n)}, ("CreateResponse.tools",)),
    Row("one tool again and again", lambda n: {"input": "x", "tools": [function("f")] * n}),
    Row("tools that collide", lambda n: {"input": "x", "tools": [function(name) for name in unclean(n)]}),
    Row("unknown tools", lambda n: {"input": "x", "tools": [{"type": id} for id in ids(n)]}),
    Row(
        "namespaces",
        lambda n: {
            "input": "x",
            "tool_choice": {"type": "function", "name": "t"},
            "tools": [{"type": "namespace", "name": id, "tools": [function("t")]} for id in ids(n)],
        },
    ),
    Row(
        "a namespace",
        lambda n: {"input": "x", "tools": [{"type": "namespace", "name": "n", "tools": functions(n)}]},
        ("NamespaceTool.tools",),
    ),
    Row(
        "allowed tools",
        lambda n: {
            "input": "x",
            "tools": functions(n),
            "tool_choice": {"type": "allowed_tools", "tools": functions(n)},
        },
        ("AllowedTools.tools",),
    ),
    Row(
        "fields of other tools",
        lambda n: {
            "input": "x",
            "tools": [
                {"type": "custom", "name": "c", "format": dict.fromkeys(ids(n), 1)},
                {"type": "shell", "environment": dict.fromkeys(ids(n), 1)},
                {"type": "tool_search", "parameters": strings(n)},
                {"type": "web_search", "filters": {"d": ids(n)}, "user_location": {"d": ids(n)}},
            ],
        },
        (
            "CustomTool.format",
            "ShellTool.environment",
            "ToolSearchTool.parameters",
            "WebSearchTool.filters",
            "WebSearchTool.user_location",
        ),
    ),
    # schemas
    Row(
        "properties",
        lambda n: with_schema(strings(n, required=ids(n, "p{}"))),
        ("FunctionTool.parameters",),
    ),
    Row("enum", lambda n: with_schema({"type": "object", "properties": {"a": {"enum": ids(n)}}})),
    Row("anyOf at the top", lambda n: with_schema({"anyOf": variants(n)})),
    Row("allOf at the top", lambda n: with_schema({"type": "object", "allOf": variants(n)})),
    Row(
        "anyOf in an object",
        lambda n: with_schema(
            {"type": "object", "properties": {"a": {"type": "object", "anyOf": variants(n)}}}
        ),
    ),
    Row("references", lambda n: with_schema(references(n))),
    Row("types", lambda n: with_schema(strings(n, type=["object"] * n))),
    Row(
        "patterns",
        lambda n: with_schema(
            strings(
                n,
                patternProperties={id: {} for id in ids(n)},
                required=ids(n, "q{}"),
                additionalProperties=False,
            )
        ),
    ),
    Row(
        "schema of the answer",
        lambda n: {
            "input": "x",
            "text": {"format": {"type": "json_schema", "name": "a", "schema": strings(n)}},
        },
        ("JsonSchemaFormat.schema",),
    ),
    # the rest
    Row("include", lambda n: {"input": "x", "include": ids(n)}, ("CreateResponse.include",)),
    Row(
        "metadata",
        lambda n: {
            "input": "x",
            "metadata": dict.fromkeys(ids(n), "v"),
            "client_metadata": dict.fromkeys(ids(n), "v"),
            "prompt_cache_options": dict.fromkeys(ids(n), "v"),
        },
        (
            "CreateResponse.metadata",
            "CreateResponse.client_metadata",
            "CreateResponse.prompt_cache_options",
        ),
    ),
    Row("stop", lambda n: {"input": "x", "stop": ids(n)}),
    Row("unknown fields", lambda n: {"input": "x", **dict.fromkeys(ids(n), "v")}),
)


def list_fields(kind: type[Wire] = CreateResponse) -> set[str]:
    """Every field below a type that can hold a list or an object of any size."""
    found: set[str] = set()
    pending: list[type[Wire]] = [kind]
    seen: set[type[Wire]] = set()
    while pending:
        kind = pending.pop()
        if kind in seen:
            continue
        seen.add(kind)
        for name, hint in get_type_hints(kind).items():
            hints = _all_hints(hint)
            if name in kind.__struct_fields__ and name != "extra":
                found |= (
                    {f"{kind.__name__}.{name}"} if {list, dict} & {_origin(each) for each in hints} else set()
                )
                pending += [each for each in hints if isinstance(each, type) and issubclass(each, Wire)]
    return found


def _origin(hint: Any) -> Any:
    return getattr(hint, "__origin__", hint)


def _all_hints(hint: Any) -> list[Any]:
    return [hint, *(inner for each in get_args(hint) for inner in _all_hints(each))]
