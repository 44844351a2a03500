"""Rendering requests for Chat Completions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import ConfigDict, TypeAdapter, with_config

from penstock.dialects.chat.render import HANDLED, render
from penstock.dialects.plan import Quirks
from penstock.dialects.presets import PRESETS
from penstock.dialects.presets.efforts import EFFORTS
from penstock.errors import DecodeError
from penstock.protocol.request import CreateResponse
from tests.dialects.chat.rendering import reasoning, rendered
from tests.dialects.render_cases import (
    EVERY_ITEM,
    EVERY_TOOL,
    PATCH,
    PIXEL,
    WEATHER,
    assistant,
    call,
    codes,
    dropped,
    output,
    plan_for,
    requests,
    targets,
    user,
)
from tests.dialects.request_samples import FOR_THE_GATEWAY
from tests.effort import examples

# The request


def test_a_plain_request() -> None:
    request = rendered({"input": "hello"})
    assert request.path == "chat/completions"
    assert request.headers == {}
    assert request.body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hello"}],
    }
    assert request.diagnostics == []


def test_usage_is_not_requested_if_the_vendor_refuses_it() -> None:
    assert "stream_options" not in rendered({}, quirks=Quirks(stream_usage=False)).body


@pytest.mark.parametrize(
    "nothing", [{"input": []}, {"input": [user("")]}, {"input": [reasoning("", "foreign")]}]
)
def test_a_request_without_content_is_refused(nothing: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as refused:
        rendered(nothing)
    assert refused.value.param == "input"


# Tools


def test_tools_are_functions() -> None:
    request = rendered({"tools": [{**WEATHER, "strict": True}, PATCH, {"type": "function", "name": "bare"}]})
    functions = [tool["function"] for tool in request.body["tools"]]
    assert functions[0] == {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": WEATHER["parameters"],
        "strict": True,
    }
    assert functions[1]["parameters"]["required"] == ["input"]
    assert functions[2] == {"name": "bare", "parameters": {"type": "object", "properties": {}}}


def test_strict_is_dropped_with_a_diagnostic_if_it_is_not_supported() -> None:
    tools = [{**WEATHER, "strict": True}, {**WEATHER, "name": "loose", "strict": False}]
    request = rendered({"tools": tools}, quirks=Quirks(strict_tools=False))
    assert all("strict" not in tool["function"] for tool in request.body["tools"])
    assert dropped(request) == {"tools.strict"}


def test_schemas_are_unchanged_unless_the_vendor_refuses_references() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    request = {"tools": [{**WEATHER, "parameters": schema}]}
    assert rendered(request).body["tools"][0]["function"]["parameters"] == schema
    inlined = rendered(request, vendor="moonshot")
    assert "$ref" not in str(inlined.body["tools"])
    assert codes(inlined) == {"schema_cut"}


ONLY_WEATHER = {
    "type": "allowed_tools",
    "mode": "required",
    "tools": [{"type": "function", "name": "weather"}],
}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "name": "weather"}, {"type": "function", "function": {"name": "weather"}}),
        (
            {"type": "custom", "name": "apply_patch"},
            {"type": "function", "function": {"name": "apply_patch"}},
        ),
        (ONLY_WEATHER, "required"),
    ],
)
def test_tool_choice(choice: Any, expected: Any) -> None:
    assert rendered({"tools": [WEATHER, PATCH], "tool_choice": choice}).body["tool_choice"] == expected


def test_allowed_tools_are_sent_or_restrict_the_declared_tools() -> None:
    request = {"tools": [WEATHER, PATCH], "tool_choice": ONLY_WEATHER}
    assert [tool["function"]["name"] for tool in rendered(request).body["tools"]] == ["weather"]
    own = rendered(request, vendor="openai").body
    assert [tool["function"]["name"] for tool in own["tools"]] == ["weather", "apply_patch"]
    assert own["tool_choice"] == {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "required",
            "tools": [{"type": "function", "function": {"name": "weather"}}],
        },
    }


def test_allowing_only_unsupported_tools_forbids_all_tools() -> None:
    choice = {**ONLY_WEATHER, "mode": "auto", "tools": []}
    for vendor in ("", "openai"):
        request = rendered({"tools": [PATCH], "tool_choice": choice}, vendor=vendor)
        assert "tools" not in request.body or request.body["tool_choice"] == "none"
        assert codes(request) == {"tool_dropped"}


def test_a_required_tool_that_was_dropped_is_refused() -> None:
    with pytest.raises(DecodeError, match="web_search"):
        rendered({"tools": [{"type": "web_search"}], "tool_choice": "required"})
    with pytest.raises(DecodeError):
        rendered({"tools": [PATCH], "tool_choice": {**ONLY_WEATHER, "tools": []}}, vendor="openai")


@pytest.mark.parametrize(
    ("choice", "offered", "diagnostics"),
    [
        ("auto", ["weather", "apply_patch"], set()),
        ("none", [], set()),
        ("required", ["weather", "apply_patch"], {"tool_choice_weakened"}),
        ({"type": "function", "name": "weather"}, ["weather"], {"tool_choice_weakened"}),
    ],
)
def test_without_tool_choice_the_declared_tools_are_restricted(
    choice: Any, offered: list[str], diagnostics: set[str]
) -> None:
    request = rendered({"tools": [WEATHER, PATCH], "tool_choice": choice}, quirks=Quirks(tool_choice=False))
    assert [tool["function"]["name"] for tool in request.body.get("tools", [])] == offered
    assert "tool_choice" not in request.body
    assert codes(request) == diagnostics


def test_parallel_tool_calls_is_sent_only_with_tools_and_if_supported() -> None:
    assert "parallel_tool_calls" not in rendered({"parallel_tool_calls": False}).body
    request = {"tools": [WEATHER], "parallel_tool_calls": False}
    assert rendered(request).body["parallel_tool_calls"] is False
    lacking = rendered(request, quirks=Quirks(parallel_tool_calls=False))
    assert "parallel_tool_calls" not in lacking.body
    assert dropped(lacking) == {"parallel_tool_calls"}


# The format of the answer


SCHEMA = {
    "type": "json_schema",
    "name": "person",
    "schema": {"type": "object"},
    "strict": True,
    "description": "D",
}


def test_response_formats() -> None:
    def format_of(format: dict[str, Any]) -> Any:
        return rendered({"text": {"format": format}}).body.get("response_format")

    assert format_of({"type": "text"}) is None
    assert format_of({}) is None
    assert format_of({"type": "json_object"}) == {"type": "json_object"}
    assert format_of(SCHEMA) == {
        "type": "json_schema",
        "json_schema": {"name": "person", "schema": {"type": "object"}, "strict": True, "description": "D"},
    }
    assert format_of({"type": "json_schema"}) == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": {"type": "object"}},
    }
    with pytest.raises(DecodeError) as refused:
        format_of({"type": "grammar"})
    assert refused.value.param == "text.format.type"


def test_an_unsupported_schema_is_sent_as_an_instruction() -> None:
    request = rendered({"instructions": "Be.", "text": {"format": SCHEMA}}, quirks=Quirks(json_schema=False))
    assert request.body["response_format"] == {"type": "json_object"}
    assert request.body["messages"][0]["content"].startswith("Be.\n\nAnswer with one JSON object")
    assert request.body["messages"][0]["content"].endswith('{"type":"object"}')
    assert codes(request) == {"format_weakened"}


def test_verbosity_is_sent_only_to_vendors_that_support_it() -> None:
    assert rendered({"text": {"verbosity": "low"}}, vendor="openai").body["verbosity"] == "low"
    lacking = rendered({"text": {"verbosity": "low", "tone": "warm"}})
    assert "response_format" not in lacking.body
    assert dropped(lacking) == {"text.verbosity", "text.tone"}
    assert rendered({"text": {"verbosity": "medium"}}).diagnostics == []


@pytest.mark.parametrize(
    ("row", "effort", "expected"),
    [
        ("openai", "xhigh", {"reasoning_effort": "xhigh"}),
        ("low_to_high", "medium", {"reasoning_effort": "medium"}),
        ("openrouter", "none", {"reasoning": {"effort": "none"}}),
        ("deepseek", "none", {"thinking": {"type": "disabled"}}),
        ("deepseek", "medium", {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("thinking", "low", {"thinking": {"type": "enabled"}}),
        ("qwen", "none", {"enable_thinking": False}),
        ("template", "high", {"chat_template_kwargs": {"enable_thinking": True}}),
    ],
)
def test_an_effort_is_sent_in_the_vendors_way(row: str, effort: str, expected: dict[str, Any]) -> None:
    request = rendered({"reasoning": {"effort": effort}}, quirks=Quirks(effort=row))
    assert expected.items() <= request.body.items()
    assert request.diagnostics == []


@pytest.mark.parametrize(
    ("row", "effort", "found"),
    [
        ("low_to_high", "none", "low"),
        ("low_to_high", "xhigh", "high"),
        ("none_to_high", "minimal", "low"),
        ("openai", "ultra", "max"),
    ],
)
def test_an_unsupported_effort_becomes_the_nearest(row: str, effort: str, found: str) -> None:
    request = rendered({"reasoning": {"effort": effort}}, quirks=Quirks(effort=row))
    assert request.body["reasoning_effort"] == found
    assert codes(request) == {"effort_changed"}


def test_unsupported_reasoning_options_are_dropped_by_name() -> None:
    request = rendered({"reasoning": {"effort": "high", "summary": "detailed", "context": "all_turns"}})
    assert dropped(request) == {"reasoning.effort", "reasoning.summary", "reasoning.context"}
    assert rendered({"reasoning": {"summary": "auto"}}).diagnostics == []
    assert dropped(rendered({"reasoning": {"effort": "odd"}}, quirks=Quirks(effort="openai"))) == {
        "reasoning.effort"
    }


# Fields


MAPPED: dict[str, tuple[Any, dict[str, Any]]] = {
    "model": ("asked", {"model": "m"}),
    "input": ("hi", {"messages": [{"role": "user", "content": "hi"}]}),
    "instructions": (
        "Be.",
        {"messages": [{"role": "system", "content": "Be."}, {"role": "user", "content": "hello"}]},
    ),
    "include": (["message.output_text.logprobs", "reasoning.encrypted_content"], {"logprobs": True}),
    "tools": ([{"type": "function", "name": "f"}], {}),
    "tool_choice": ("none", {}),
    "parallel_tool_calls": (True, {}),
    "text": ({"format": {"type": "json_object"}}, {"response_format": {"type": "json_object"}}),
    "reasoning": ({"effort": "low"}, {"reasoning_effort": "low"}),
    "temperature": (0.5, {"temperature": 0.5}),
    "top_p": (0.5, {"top_p": 0.5}),
    "presence_penalty": (0.5, {"presence_penalty": 0.5}),
    "frequency_penalty": (0.5, {"frequency_penalty": 0.5}),
    "top_logprobs": (3, {"logprobs": True, "top_logprobs": 3}),
    "max_output_tokens": (99, {"max_completion_tokens": 99}),
    "service_tier": ("flex", {"service_tier": "flex"}),
    "safety_identifier": ("s", {"safety_identifier": "s"}),
    "prompt_cache_key": ("k", {"prompt_cache_key": "k"}),
    "prompt_cache_retention": ("24h", {"prompt_cache_retention": "24h"}),
    "prompt_cache_options": ({"ttl": "30m"}, {"prompt_cache_options": {"ttl": "30m"}}),
    "user": ("u", {"user": "u"}),
    "extra": ({"stop": ["x"], "seed": 7}, {"stop": ["x"], "seed": 7}),
}
"""A value of each mapped field, and what the body for OpenAI must contain."""

DROPPED: dict[str, Any] = {
    "max_tool_calls": 3,
    "truncation": "auto",
    "context_management": [{"type": "compaction"}],
    "moderation": {"model": "m"},
    "access_programs": ["a"],
    "image": {"detail": "high"},
}

OPENAI = Quirks(effort="openai", max_tokens_field="max_completion_tokens")


def test_every_field_of_a_request_has_a_row() -> None:
    assert set(HANDLED) == set(CreateResponse.__struct_fields__)
    assert {name for name, handling in HANDLED.items() if handling == "mapped"} == set(MAPPED)
    assert {name for name, handling in HANDLED.items() if handling == "dropped"} == set(DROPPED)
    assert {name for name, handling in HANDLED.items() if handling == "refused"} == {"prompt"}


@pytest.mark.parametrize("field", MAPPED)
def test_a_mapped_field_is_in_the_body_without_a_diagnostic(field: str) -> None:
    value, expected = MAPPED[field]
    base: dict[str, Any] = {"tools": [WEATHER]} if "tool" in field else {}
    without = rendered(base, vendor="openai", quirks=OPENAI)
    request = rendered(
        {**base, **(value if field == "extra" else {field: value})}, vendor="openai", quirks=OPENAI
    )
    assert expected.items() <= request.body.items()
    assert field == "model" or request.body != without.body
    assert request.diagnostics == []


@pytest.mark.parametrize("field", DROPPED)
def test_a_dropped_field_is_reported(field: str) -> None:
    request = rendered({field: DROPPED[field]}, vendor="openai")
    assert dropped(request) == {field}
    assert request.body == rendered({}, vendor="openai").body


@pytest.mark.parametrize("field", [name for name, handling in HANDLED.items() if handling == "gateway"])
def test_a_field_for_the_gateway_is_not_sent(field: str) -> None:
    request = rendered({field: FOR_THE_GATEWAY.get(field, "x")})
    assert request.body == rendered({}).body
    assert request.diagnostics == []


def test_fields_that_a_vendor_does_not_support_are_dropped_by_name() -> None:
    fields = {
        "service_tier": "flex",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "user": "u",
        "top_k": 3,
    }
    request = rendered({**fields, "prompt_cache_retention": "24h", "include": ["file_search_call.results"]})
    assert dropped(request) == {*fields, "prompt_cache_retention", "include: file_search_call.results"}
    assert request.body == rendered({}).body


def test_default_values_are_dropped_without_a_diagnostic() -> None:
    request = rendered({"service_tier": "auto", "truncation": "disabled", "top_logprobs": 0, "stop": None})
    assert request.diagnostics == []
    assert request.body == rendered({}).body


def test_sampling_parameters_are_sent_to_vendors_that_support_them() -> None:
    assert rendered({"top_k": 3}, vendor="vllm").body["top_k"] == 3


@pytest.mark.parametrize(
    ("vendor", "header"), [("xai", "x-grok-conv-id"), ("fireworks", "x-session-affinity")]
)
def test_a_cache_key_is_sent_as_the_vendors_header(vendor: str, header: str) -> None:
    assert rendered({"prompt_cache_key": "k"}, vendor=vendor).headers == {header: "k"}
    forged = rendered({"prompt_cache_key": "k\r\nx: y"}, vendor=vendor)
    assert forged.headers == {}
    assert dropped(forged) == {"prompt_cache_key"}


# Complete requests


TYPES = TypeAdapter(with_config(ConfigDict(extra="forbid"))(CompletionCreateParamsStreaming))


def test_every_item_and_tool_is_accepted_by_openais_own_types() -> None:
    request = rendered(
        {
            "instructions": "Be.",
            "input": EVERY_ITEM,
            "tools": EVERY_TOOL,
            "tool_choice": {"type": "function", "name": "weather"},
            "text": {"format": SCHEMA, "verbosity": "low"},
            **{
                name: value for name, (value, _) in MAPPED.items() if name in ("temperature", "top_p", "user")
            },
        },
        vendor="openai",
        quirks=Quirks(
            system_first=False, developer_role=True, files=True, max_tokens_field="max_completion_tokens"
        ),
    )
    TYPES.validate_python(request.body, strict=False)
    assert codes(request) >= {"item_left_out", "tool_dropped", "content_left_out"}


def test_every_item_is_rendered_or_reported() -> None:
    request = rendered({"input": EVERY_ITEM, "tools": [WEATHER]}, quirks=Quirks(reasoning_field="reasoning"))
    text = msgspec.json.encode(request.body).decode()
    for trace in (
        "Be brief.",
        "Be kind.",
        "Look:",
        "and think.",
        "Hm.",
        "I will look.",
        "Ulm",
        "***",
        "sunny",
    ):
        assert trace in text
    for trace in (
        "local_shell",
        "delete_file",
        "tool_search",
        "Now be long.",
        "No.",
        "Go on.",
        "mcp__docs__search",
    ):
        assert trace in text
    left_out = [each.message for each in request.diagnostics if each.code == "item_left_out"]
    for type in ("web_search_call", "item_reference", "compaction", "mystery"):
        assert any(type in message for message in left_out)


@pytest.mark.parametrize("name", [name for name, row in PRESETS.items() if row.dialect == "chat"])
def test_a_request_can_be_rendered_for_every_preset(name: str) -> None:
    row = PRESETS[name]
    assert row.quirks.effort in {"", *EFFORTS}
    request = rendered(
        {"input": EVERY_ITEM, "tools": EVERY_TOOL, "reasoning": {"effort": "low"}},
        vendor=name,
        quirks=row.quirks,
    )
    assert_valid(request.body["messages"], row.quirks)


_turns = st.lists(
    st.sampled_from(
        [
            [user("a")],
            [user([{"type": "input_image", "image_url": PIXEL}])],
            [assistant("A."), user("b")],
            [{"role": "developer", "content": "Late."}],
            [reasoning("Hm."), call("c{n}"), output("c{n}")],
            [call("c{n}"), output("c{n}", [{"type": "input_image", "image_url": PIXEL}]), user("c")],
            [{"type": "additional_tools", "tools": [PATCH]}],
            [output("nobody's")],
        ]
    ),
    min_size=2,
    max_size=8,
)


@settings(max_examples=60)
@given(
    _turns, st.integers(1, 7), st.sampled_from([Quirks(), Quirks(system_first=False, reasoning_field="r")])
)
def test_the_bytes_of_a_turn_are_a_prefix_of_the_next(
    turns: list[list[dict[str, Any]]], cut: int, quirks: Quirks
) -> None:
    def request(turns: list[list[dict[str, Any]]]) -> dict[str, Any]:
        items = [user("start")]
        for number, turn in enumerate(turns):
            items += [
                msgspec.json.decode(msgspec.json.encode(item).replace(b"{n}", b"%d" % number))
                for item in turn
            ]
        return {"instructions": "Be.", "tools": [WEATHER, PATCH], "input": items}

    earlier = msgspec.json.encode(rendered(request(turns[:cut]), quirks=quirks).body)
    later = msgspec.json.encode(rendered(request(turns), quirks=quirks).body)
    assert later.startswith(earlier.removesuffix(b"]}"))


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(requests, targets)
def test_any_request_is_rendered_or_refused_by_name(request: dict[str, Any], target: dict[str, Any]) -> None:
    try:
        found = rendered(request, **target)
    except DecodeError as error:
        refused = error.param
    else:
        assert_valid(found.body["messages"], target["quirks"])
        msgspec.json.encode(found.body)
        return
    assert refused in ("input", "tool_choice", "text.format.type")


def assert_valid(rendered_messages: list[dict[str, Any]], quirks: Quirks) -> None:
    """Every call has exactly one output, right after it, and a system message comes first if required."""
    unanswered: list[str] = []
    for index, message in enumerate(rendered_messages):
        if message["role"] == "tool":
            assert message["tool_call_id"] == unanswered.pop(0)
            continue
        assert unanswered == []
        unanswered = [call["id"] for call in message.get("tool_calls", [])]
        assert len(set(unanswered)) == len(unanswered)
        if quirks.system_first:
            assert index == 0 or message["role"] in ("user", "assistant")
    assert unanswered == []


@pytest.mark.parametrize(
    ("vendor", "body", "headers"),
    [
        ("openai", {"prompt_cache_key": "derived"}, {}),
        ("xai", {}, {"x-grok-conv-id": "derived"}),
        ("groq", {}, {}),
        ("", {}, {}),
    ],
)
def test_a_derived_cache_key_is_sent_only_where_it_helps(
    vendor: str, body: dict[str, str], headers: dict[str, str]
) -> None:
    plan = msgspec.structs.replace(plan_for({}, vendor=vendor), cache_key="derived")
    found = render(plan)
    assert {name: found.body[name] for name in ("prompt_cache_key",) if name in found.body} == body
    assert found.headers == headers
    assert found.diagnostics == []
