"""Rendering a request for Gemini."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.gemini.render import HANDLED
from penstock.dialects.plan import Quirks
from penstock.errors import DecodeError
from penstock.protocol.request import CreateResponse
from tests.dialects.gemini.rendered_requests import ALL, MODEL, OLD, SIGNATURE, body, config, rendered, signed
from tests.dialects.render_cases import (
    EVERY_ITEM,
    EVERY_TOOL,
    EVERY_TOOL_NAMES,
    PATCH,
    SEARCH,
    WEATHER,
    call,
    codes,
    dropped,
    output,
    requests,
    targets,
)
from tests.dialects.request_samples import SAMPLES
from tests.effort import examples

# Path


@pytest.mark.parametrize(
    ("model", "stream", "path"),
    [
        (MODEL, True, "models/gemini-3-flash-preview:streamGenerateContent?alt=sse"),
        (MODEL, False, "models/gemini-3-flash-preview:streamGenerateContent?alt=sse"),
        ("models/gemini-2.5-pro", True, "models/gemini-2.5-pro:streamGenerateContent?alt=sse"),
        ("tunedModels/mine-1", False, "tunedModels/mine-1:streamGenerateContent?alt=sse"),
    ],
)
def test_the_path_contains_the_model(model: str, stream: bool, path: str) -> None:
    result = rendered({"stream": stream}, model)
    assert (result.path, result.headers) == (path, {})
    assert result.body == {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
    assert result.diagnostics == []


@pytest.mark.parametrize("model", ["", "../files", "a?key=b", "a#b", "a:b", "/a", "a//b", "a b"])
def test_a_model_name_that_would_change_the_path_is_rejected(model: str) -> None:
    with pytest.raises(DecodeError) as caught:
        rendered({}, model)
    assert caught.value.param == "model"


# Tools


def test_every_tool_is_declared_in_order_or_reported() -> None:
    result = rendered({"tools": EVERY_TOOL})
    functions = result.body["tools"][0]["functionDeclarations"]
    assert [function["name"] for function in functions] == EVERY_TOOL_NAMES
    assert functions[0] == {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
    assert "start: /.+/" in functions[1]["description"]
    assert functions[1]["parameters"]["required"] == ["input"]
    assert sum(each.code == "tool_dropped" for each in result.diagnostics) == 2


def test_a_tool_without_parameters_has_none() -> None:
    function = body({"tools": [{"type": "function", "name": "now"}]})["tools"][0]["functionDeclarations"][0]
    assert function == {"name": "now"}


def allowed(mode: str, *names: str) -> dict[str, Any]:
    tools = [{"type": "function", "name": name} for name in names]
    return {"type": "allowed_tools", "mode": mode, "tools": tools}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, None),
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ({"type": "function", "name": "weather"}, {"mode": "ANY", "allowedFunctionNames": ["weather"]}),
        (allowed("auto", "weather"), {"mode": "VALIDATED", "allowedFunctionNames": ["weather"]}),
        (allowed("required", "weather"), {"mode": "ANY", "allowedFunctionNames": ["weather"]}),
        (allowed("auto"), {"mode": "NONE"}),
        (allowed("none", "weather"), {"mode": "NONE"}),
    ],
)
def test_a_tool_choice_does_not_change_the_declared_tools(choice: Any, expected: Any) -> None:
    result = body({"tools": [WEATHER, PATCH, SEARCH], "tool_choice": choice})
    assert result.get("toolConfig", {}).get("functionCallingConfig") == expected
    assert len(result["tools"][0]["functionDeclarations"]) == 3


@pytest.mark.parametrize(
    "request_",
    [
        {"tools": [{"type": "web_search"}], "tool_choice": "required"},
        {"tools": [WEATHER], "tool_choice": allowed("required")},
        {"tools": [WEATHER], "tool_choice": {"type": "function", "name": "other"}},
    ],
)
def test_an_unsupported_tool_choice_is_rejected(request_: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        rendered(request_)
    assert caught.value.param == "tool_choice"


def test_a_tool_choice_that_the_upstream_does_not_support_is_reported() -> None:
    result = rendered({"tools": [WEATHER], "tool_choice": "required"}, quirks=Quirks(tool_choice=False))
    assert "toolConfig" not in result.body
    assert dropped(result) == {"tool_choice"}


def test_strict_is_reported_as_dropped() -> None:
    assert dropped(rendered({"tools": [{**WEATHER, "strict": True}]})) == {"tools.strict"}


# Output format and sampling


ANSWER = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


SCHEMA_FORMAT = {"format": {"type": "json_schema", "name": "x", "schema": ANSWER}}


def test_a_format_is_enforced() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    expected = {"responseMimeType": "application/json", "responseSchema": schema}
    assert config({"text": SCHEMA_FORMAT}) == expected
    assert config({"text": SCHEMA_FORMAT, "tools": [WEATHER]}) == expected
    assert config({"text": {"format": {"type": "json_object"}}}) == {"responseMimeType": "application/json"}
    assert config({"text": {"format": {"type": "text"}}}) == {}


def test_a_simplified_schema_for_the_answer_is_reported() -> None:
    format = {"type": "json_schema", "name": "x", "schema": {"type": "object", "not": {}}}
    assert codes(rendered({"text": {"format": format, "verbosity": "low"}})) == {
        "format_weakened",
        "field_dropped",
    }


@pytest.mark.parametrize(
    ("text", "model", "quirks", "config_"),
    [
        (SCHEMA_FORMAT, OLD, ALL, None),
        ({"format": {"type": "json_object"}}, OLD, ALL, None),
        (SCHEMA_FORMAT, MODEL, Quirks(json_schema=False), {"responseMimeType": "application/json"}),
    ],
)
def test_a_format_that_cannot_be_enforced_is_requested_in_the_prompt(
    text: Any, model: str, quirks: Quirks, config_: Any
) -> None:
    result = rendered({"text": text, "tools": [WEATHER]}, model, quirks)
    assert result.body.get("generationConfig") == config_
    assert "Answer with one JSON" in result.body["systemInstruction"]["parts"][0]["text"]
    assert codes(result) == {"format_weakened"}


def test_an_unknown_format_is_rejected() -> None:
    with pytest.raises(DecodeError) as caught:
        rendered({"text": {"format": {"type": "grammar"}}})
    assert caught.value.param == "text.format.type"


def test_sampling_fields_are_in_the_generation_config() -> None:
    request = {
        "temperature": 1.5,
        "top_p": 0.5,
        "max_output_tokens": 9,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "top_logprobs": 3,
        "stop": "x",
        "seed": 7,
    }
    assert config(request) == {
        "temperature": 1.5,
        "topP": 0.5,
        "maxOutputTokens": 9,
        "presencePenalty": 0.1,
        "frequencyPenalty": 0.2,
        "responseLogprobs": True,
        "logprobs": 3,
        "stopSequences": ["x"],
        "seed": 7,
    }


def test_include_is_mapped_or_reported() -> None:
    include = ["reasoning.encrypted_content", "message.output_text.logprobs", "web"]
    result = rendered({"include": include})
    assert result.body["generationConfig"] == {"responseLogprobs": True}
    assert dropped(result) == {"include: web"}


@pytest.mark.parametrize(
    ("tier", "sent", "dropped_fields"),
    [
        ("auto", None, set()),
        ("default", "standard", set()),
        ("flex", "flex", set()),
        ("scale", None, {"service_tier"}),
    ],
)
def test_service_tiers(tier: str, sent: str | None, dropped_fields: set[str]) -> None:
    result = rendered({"service_tier": tier})
    assert result.body.get("serviceTier") == sent
    assert dropped(result) == dropped_fields


def test_unknown_fields_are_reported() -> None:
    result = rendered(
        {"stop": 3, "seed": "x", "top_k": 3, "nothing": None, "reasoning": {"context": "all_turns"}}
    )
    assert dropped(result) == {"stop", "seed", "top_k", "reasoning.context"}


FIELDS: dict[str, Any] = {
    **SAMPLES,
    "tools": [WEATHER],
    "tool_choice": "none",
    "text": SCHEMA_FORMAT,
    "extra": "x",
}


@pytest.mark.parametrize("field", CreateResponse.__struct_fields__)
def test_every_field_is_handled_as_its_row_says(field: str) -> None:
    handling = HANDLED[field]
    if handling in ("gateway", "refused") or field == "model":  # the target sets the model
        return
    value: Any = FIELDS[field]
    field = "stop" if field == "extra" else field
    needs = {"tools": [WEATHER]} if field == "tool_choice" else {}
    result, before = rendered({**needs, field: value}), rendered(needs)
    if handling == "dropped":
        assert dropped(result) == {field}
        assert result.body == before.body
    else:
        assert result.body != before.body
        assert dropped(result) == set()


def test_default_values_are_dropped_without_a_diagnostic() -> None:
    usual = {"truncation": "disabled", "parallel_tool_calls": True, "prompt_cache_retention": "in_memory"}
    assert rendered(usual).diagnostics == []


_own = st.builds(
    signed,
    st.sampled_from(["functionCall", "text", "thought", "empty_text", "executableCode", ""]),
    st.sampled_from([SIGNATURE, ""]),
    after=st.booleans(),
)


@given(
    request=requests, own=st.lists(_own, max_size=3), target=targets, model=st.sampled_from([MODEL, OLD, "x"])
)
@settings(max_examples=examples(100), deadline=None)
def test_any_request_is_rendered_or_rejected(
    request: dict[str, Any], own: list[Any], target: dict[str, Any], model: str
) -> None:
    mixed = [item for pair in zip(request["input"], [*own, *[{}] * 9], strict=False) for item in pair if item]
    try:
        result = rendered({**request, "input": mixed}, model, target["quirks"])
    except DecodeError:
        return
    roles = [content["role"] for content in result.body["contents"]]
    assert roles[0] == roles[-1] == "user"
    assert all(left != right for left, right in pairwise(roles))
    calls = 0
    for content in result.body["contents"]:
        assert content["parts"]
        assert sum("functionResponse" in each for each in content["parts"]) == calls
        calls = sum("functionCall" in each for each in content["parts"])


def test_every_item_is_accepted_by_the_vendors_own_types() -> None:
    types = pytest.importorskip("google.genai.types")
    result = body(
        {
            "instructions": "A",
            "input": [*EVERY_ITEM[:-1], signed("functionCall"), call("own"), output("own"), EVERY_ITEM[-1]],
            "tools": [*EVERY_TOOL, {**WEATHER, "name": "odd", "parameters": {"anyOf": [ANSWER]}}],
            "tool_choice": allowed("auto", "weather"),
            "text": SCHEMA_FORMAT,
            "reasoning": {"effort": "high", "summary": "auto"},
            "max_output_tokens": 5000,
            "temperature": 0.5,
            "top_logprobs": 2,
            "service_tier": "flex",
            "stop": ["x"],
        }
    )
    accept(types.GenerationConfig, result.pop("generationConfig"))
    accept(types.ToolConfig, result.pop("toolConfig"))
    accept(types.Content, result.pop("systemInstruction"))
    for tool in result.pop("tools"):
        accept(types.Tool, tool)
    for content in result.pop("contents"):
        accept(types.Content, content)
    assert types.ServiceTier(result.pop("serviceTier")) is types.ServiceTier.FLEX
    assert result == {}


def accept(type: Any, value: Any) -> None:
    """Validate a value with the vendor's types, which reject unknown fields."""
    type.model_validate_json(msgspec.json.encode(value))


def test_a_web_search_alone_is_the_vendors_own() -> None:
    result = rendered({"tools": [{"type": "web_search"}]})
    assert result.body["tools"] == [{"googleSearch": {}}]
    assert result.diagnostics == []


def test_a_web_search_beside_functions_is_left_out() -> None:
    result = rendered({"tools": [{"type": "web_search"}, WEATHER]})
    assert [*result.body["tools"][0]] == ["functionDeclarations"]
    assert [each.code for each in result.diagnostics] == ["tool_dropped"]


def test_a_web_search_that_must_be_used_is_refused() -> None:
    with pytest.raises(DecodeError, match="web_search"):
        rendered({"tools": [{"type": "web_search"}], "tool_choice": "required"})
