"""Rendering requests for another Responses endpoint."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from penstock.dialects.plan import Quirks
from penstock.dialects.responses.render import HANDLED, render
from penstock.errors import DecodeError
from penstock.protocol.request import CreateResponse
from tests.dialects.render_cases import (
    EVERY_ITEM,
    EVERY_TOOL,
    PATCH,
    SEARCH,
    WEATHER,
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
from tests.dialects.responses.rendering import OPENAI, OTHER, items, message, rendered
from tests.effort import examples


def test_a_plain_request_keeps_no_state_at_the_upstream() -> None:
    request = rendered({"input": "hello", "store": True, "previous_response_id": "resp_1"})
    assert request.path == "responses"
    assert request.body == {
        "model": "m",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": [message("user", "hello")],
    }
    assert request.diagnostics == []


def test_a_request_without_content_is_refused() -> None:
    for nothing in ([], [user("")], [{"type": "item_reference", "id": "x"}]):
        with pytest.raises(DecodeError) as refused:
            rendered({"input": nothing})
        assert refused.value.param == "input"
    assert rendered({"input": [], "instructions": "Go."}).body["input"] == []


# Tools


def test_openai_gets_tools_as_declared_except_for_invalid_names() -> None:
    tools = [{**WEATHER, "name": "a.b"}, PATCH, SEARCH, {"type": "image_generation", "size": "1x1"}, PATCH]
    body = rendered({"tools": tools, "tool_choice": {"type": "function", "name": "a.b"}}).body
    assert body["tools"] == [{**WEATHER, "name": "a_b"}, PATCH, {**SEARCH, "description": ""}, tools[3]]
    assert body["tool_choice"] == {"type": "function", "name": "a_b"}
    assert items([call("c", "a.b"), output("c")], tools=tools)[0]["name"] == "a_b"


def test_openai_gets_tool_choices_unchanged() -> None:
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}
    for choice in ("required", {"type": "web_search"}, allowed):
        request = rendered(
            {"tools": [{"type": "web_search"}], "tool_choice": choice, "parallel_tool_calls": False}
        )
        assert request.body["tool_choice"] == choice
        assert request.body["parallel_tool_calls"] is False
        assert request.diagnostics == []


def test_other_endpoints_get_flat_functions() -> None:
    request = rendered(
        {"tools": [{**WEATHER, "strict": False}, PATCH, SEARCH, {"type": "web_search"}]}, OTHER
    )
    assert [(tool["type"], tool["name"]) for tool in request.body["tools"]] == [
        ("function", "weather"),
        ("function", "apply_patch"),
        ("function", "mcp__docs__search"),
    ]
    assert request.body["tools"][0] == {**WEATHER, "strict": False}
    assert "strict" not in request.body["tools"][2]
    assert codes(request) == {"tool_dropped"}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("required", "required"),
        ({"type": "custom", "name": "apply_patch"}, {"type": "function", "name": "apply_patch"}),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "weather"}]},
            "auto",
        ),
    ],
)
def test_tool_choices_for_other_endpoints(choice: Any, expected: Any) -> None:
    assert rendered({"tools": [WEATHER, PATCH], "tool_choice": choice}, OTHER).body["tool_choice"] == expected


def test_a_required_tool_that_was_dropped_is_refused() -> None:
    with pytest.raises(DecodeError, match="web_search"):
        rendered({"tools": [{"type": "web_search"}], "tool_choice": "required"}, OTHER)


def test_strict_and_parallel_calls_are_dropped_with_a_diagnostic_if_not_supported() -> None:
    quirks = Quirks(strict_tools=False, parallel_tool_calls=False)
    request = {"tools": [{**WEATHER, "strict": True, "description": ""}], "parallel_tool_calls": False}
    found = rendered(request, {**OTHER, "quirks": quirks})
    assert dropped(found) == {"tools.strict", "parallel_tool_calls"}
    assert found.body["tools"][0].keys() == {"type", "name", "parameters"}
    assert rendered(request, OTHER).body["parallel_tool_calls"] is False


# Fields


SCHEMA = {"type": "json_schema", "name": "a", "schema": {"type": "object"}, "strict": True}

MAPPED: dict[str, tuple[Any, Any]] = {
    "model": ("asked", "m"),
    "input": ("hi", [message("user", "hi")]),
    "instructions": ("Be.", "Be."),
    "include": (
        ["message.output_text.logprobs"],
        ["message.output_text.logprobs", "reasoning.encrypted_content"],
    ),
    "tools": ([WEATHER], [WEATHER]),
    "tool_choice": ("none", "none"),
    "parallel_tool_calls": (True, True),
    "max_tool_calls": (3, 3),
    "text": ({"format": SCHEMA, "verbosity": "low"}, {"format": SCHEMA, "verbosity": "low"}),
    "reasoning": ({"effort": "low", "context": "all_turns"}, {"effort": "low", "context": "all_turns"}),
    "temperature": (0.5, 0.5),
    "top_p": (0.5, 0.5),
    "presence_penalty": (0.5, 0.5),
    "frequency_penalty": (0.5, 0.5),
    "top_logprobs": (3, 3),
    "max_output_tokens": (99, 99),
    "truncation": ("auto", "auto"),
    "service_tier": ("flex", "flex"),
    "safety_identifier": ("s", "s"),
    "prompt_cache_key": ("k", "k"),
    "prompt_cache_retention": ("24h", "24h"),
    "prompt_cache_options": ({"mode": "explicit"}, {"mode": "explicit"}),
    "user": ("u", "u"),
    "context_management": ([{"type": "compaction"}], [{"type": "compaction"}]),
    "moderation": ({"model": "m"}, {"model": "m"}),
    "access_programs": (["a"], ["a"]),
    "image": ({"detail": "high"}, {"detail": "high"}),
    "extra": ({"top_k": 3}, None),
}
"""A value of each mapped field, and its value in the body."""

NOT_AT_OPENAI = {"presence_penalty", "frequency_penalty"}
ONLY_AT_OPENAI = {
    "prompt_cache_retention",
    "prompt_cache_options",
    "user",
    "context_management",
    "moderation",
    "access_programs",
    "image",
}


def test_every_field_of_a_request_has_a_row() -> None:
    assert set(HANDLED) == set(CreateResponse.__struct_fields__)
    assert {name for name, handling in HANDLED.items() if handling == "mapped"} == set(MAPPED)
    assert {name for name, handling in HANDLED.items() if handling == "refused"} == {"prompt"}
    assert set(HANDLED.values()) == {"mapped", "gateway", "refused"}


@pytest.mark.parametrize("field", MAPPED)
def test_a_mapped_field_is_in_the_body_without_a_diagnostic(field: str) -> None:
    value, expected = MAPPED[field]
    base: dict[str, Any] = {"tools": [WEATHER]} if field in ("tool_choice", "parallel_tool_calls") else {}
    target = OTHER if field in NOT_AT_OPENAI else OPENAI
    request = rendered({**base, **(value if field == "extra" else {field: value})}, target)
    if field == "extra":
        assert request.body["top_k"] == 3
    else:
        assert request.body[field] == expected
    assert request.diagnostics == []


@pytest.mark.parametrize(("fields", "target"), [(NOT_AT_OPENAI, OPENAI), (ONLY_AT_OPENAI, OTHER)])
def test_fields_that_an_endpoint_does_not_support_are_dropped_by_name(
    fields: set[str], target: dict[str, Any]
) -> None:
    request = rendered({field: MAPPED[field][0] for field in fields}, target)
    assert dropped(request) == fields
    assert request.body == rendered({}, target).body


@pytest.mark.parametrize("field", [name for name, handling in HANDLED.items() if handling == "gateway"])
def test_a_field_for_the_gateway_is_not_sent(field: str) -> None:
    assert rendered({field: FOR_THE_GATEWAY.get(field, "x")}).body == rendered({}).body


def test_an_extra_field_cannot_replace_a_rendered_field() -> None:
    plan = plan_for({}, **OPENAI)
    forged = msgspec.structs.replace(plan.request, extra={"store": True})
    assert render(msgspec.structs.replace(plan, request=forged)).body["store"] is False


def test_an_unsupported_schema_is_sent_as_an_instruction() -> None:
    target = {**OTHER, "quirks": Quirks(json_schema=False)}
    request = rendered({"instructions": "Be.", "text": {"format": SCHEMA, "verbosity": "low"}}, target)
    assert request.body["text"] == {"format": {"type": "json_object"}, "verbosity": "low"}
    assert request.body["instructions"].startswith("Be.\n\nAnswer with one JSON object")
    assert codes(request) == {"format_weakened"}


# Complete requests


TYPES = TypeAdapter(ResponseCreateParamsStreaming)


@pytest.mark.parametrize("target", [OPENAI, OTHER], ids=["openai", "other"])
def test_every_item_and_tool_is_accepted_by_openais_own_types(target: dict[str, Any]) -> None:
    request = rendered({"instructions": "Be.", "input": EVERY_ITEM, "tools": EVERY_TOOL[:6]}, target)
    body = deepcopy(request.body)
    for item in body["input"]:
        # The types require the ids that a stored answer has; the endpoint does not (client 1).
        if item.get("role") == "assistant" or item["type"].endswith("_call") or item["type"] == "reasoning":
            item["id"] = "x"
            item["status"] = "completed"
    for tool in body["tools"]:
        tool.setdefault("strict", None)
    body["input"] = [item for item in body["input"] if "video" not in str(item.get("content"))]
    TYPES.validate_python(body)
    assert codes(request) >= {"item_left_out", "content_left_out"}


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(requests, targets)
def test_any_request_is_rendered_or_refused_by_name(request: dict[str, Any], target: dict[str, Any]) -> None:
    try:
        found = rendered(request, {**target, "dialect": "responses"})
    except DecodeError as error:
        refused = error.param
    else:
        assert_valid(found.body["input"])
        msgspec.json.encode(found.body)
        return
    assert refused in ("input", "tool_choice")


def assert_valid(rendered_items: list[dict[str, Any]]) -> None:
    """Every call has one output, after it; only the output of a local shell has an id."""
    open_calls: set[str] = set()
    seen: set[str] = set()
    for item in rendered_items:
        if item["type"].endswith("_call") and "call_id" in item:
            assert item["call_id"] not in seen
            open_calls.add(item["call_id"])
            seen.add(item["call_id"])
        elif item["type"].endswith("_output") and (call_id := item.get("call_id") or item.get("id")):
            open_calls.remove(call_id)
        assert "id" not in item or item["type"] == "local_shell_call_output"
    assert open_calls == set()


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(requests, requests, targets)
def test_the_bytes_of_a_turn_are_a_prefix_of_the_next(
    first: dict[str, Any], second: dict[str, Any], target: dict[str, Any]
) -> None:
    target = {**target, "dialect": "responses"}
    # A complete turn, then another: separated by a user message, without shared call ids.
    settled = [user("start"), *_separate_turn(first["input"], "a"), user("border")]
    later = [*settled, *_separate_turn(second["input"], "b")]
    earlier_bytes = msgspec.json.encode(rendered({"input": settled}, target).body)
    later_bytes = msgspec.json.encode(rendered({"input": later}, target).body)
    assert later_bytes.startswith(earlier_bytes.removesuffix(b"]}"))


def _separate_turn(input_items: list[dict[str, Any]], prefix: str) -> list[dict[str, Any]]:
    """Return the items with their own call ids, and without those that add tools."""
    return [
        {**item, **({"call_id": prefix + item["call_id"]} if item.get("call_id") else {})}
        for item in input_items
        if item.get("type") not in ("additional_tools", "tool_search_output", "local_shell_call_output")
    ]


def test_a_derived_cache_key_is_sent_where_it_is_taken_unless_the_client_has_its_own() -> None:
    def sent(request: dict[str, Any], target: dict[str, Any]) -> Any:
        plan = msgspec.structs.replace(plan_for(request, **target), cache_key="derived")
        return render(plan).body.get("prompt_cache_key")

    assert sent({}, OPENAI) == "derived"
    assert sent({"prompt_cache_key": "mine"}, OPENAI) == "mine"
    assert sent({}, {"vendor": "openrouter"}) == "derived"
    assert sent({}, OTHER) is None
