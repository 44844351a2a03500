"""Rendering a request for Anthropic's Messages API."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.anthropic.render import HANDLED, render
from penstock.dialects.plan import Quirks
from penstock.errors import DecodeError
from penstock.protocol.request import CreateResponse
from tests.dialects.anthropic.rendered_requests import ALL, MODEL, body, planned, rendered, signed, thought
from tests.dialects.render_cases import (
    EVERY_ITEM,
    EVERY_TOOL,
    EVERY_TOOL_NAMES,
    PATCH,
    SEARCH,
    WEATHER,
    assistant,
    call,
    codes,
    dropped,
    output,
    requests,
    targets,
    user,
)
from tests.dialects.request_samples import SAMPLES
from tests.effort import examples

MODELS = ("claude-3-5-haiku-latest", "claude-sonnet-4-5", "claude-opus-4-6", "claude-opus-5-5", "MiniMax-M2")


# Path and headers


def test_a_request_has_the_path_the_version_and_no_secret() -> None:
    to_send = rendered({"input": "hello", "stream": True})
    assert (to_send.path, to_send.headers) == ("messages", {"anthropic-version": "2023-06-01"})
    assert to_send.body == {
        "model": MODEL,
        "max_tokens": 32_000,
        "stream": True,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    }
    assert to_send.diagnostics == []


def test_the_upstream_is_always_streamed() -> None:
    assert body({"stream": False})["stream"] is True


# Tools


def test_every_tool_is_declared_in_order_or_reported() -> None:
    result = rendered({"tools": EVERY_TOOL})
    assert [tool["name"] for tool in result.body["tools"]] == [*EVERY_TOOL_NAMES, "web_search"]
    assert result.body["tools"][0] == {
        "name": "weather",
        "description": "Tells the weather.",
        "input_schema": WEATHER["parameters"],
    }
    assert "start: /.+/" in result.body["tools"][1]["description"]
    assert result.body["tools"][1]["input_schema"]["required"] == ["input"]
    assert sum(each.code == "tool_dropped" for each in result.diagnostics) == 1


def test_tools_of_items_are_appended() -> None:
    items = [{"type": "additional_tools", "tools": [PATCH]}, user("hi")]
    assert [tool["name"] for tool in body({"tools": [WEATHER], "input": items})["tools"]] == [
        "weather",
        "apply_patch",
    ]


ONE = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "apply_patch"}]}


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        ("auto", None, {"type": "auto"}),
        ("none", False, {"type": "none"}),
        ("required", None, {"type": "any"}),
        ({"type": "function", "name": "weather"}, None, {"type": "tool", "name": "weather"}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        (None, True, None),
        (ONE, None, {"type": "any"}),
    ],
)
def test_the_tool_choice_is_mapped(choice: Any, parallel: bool | None, expected: Any) -> None:
    result = body({"tools": [WEATHER, PATCH, SEARCH], "tool_choice": choice, "parallel_tool_calls": parallel})
    assert result.get("tool_choice") == expected
    names = [tool["name"] for tool in result["tools"]]
    assert names == (["apply_patch"] if choice is ONE else ["weather", "apply_patch", "mcp__docs__search"])


@pytest.mark.parametrize(
    ("request_", "model"),
    [
        ({"tools": [{"type": "file_search"}], "tool_choice": "required"}, MODEL),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "other"}}, MODEL),
        ({"tools": [WEATHER], "tool_choice": "required"}, "claude-opus-5-5"),
    ],
)
def test_an_unsupported_tool_choice_is_rejected(request_: dict[str, Any], model: str) -> None:
    with pytest.raises(DecodeError) as caught:
        rendered(request_, model)
    assert caught.value.param == "tool_choice"


def test_the_tools_of_earlier_calls_are_declared() -> None:
    result = rendered({"input": [user("?"), call(), output()]})
    assert result.body["tools"] == [{"name": "weather", "input_schema": {"type": "object", "properties": {}}}]
    assert result.body["tool_choice"] == {"type": "none"}
    assert "tools_added" in codes(result)


def test_a_tool_choice_that_the_upstream_does_not_support_is_reported() -> None:
    request = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}
    result = rendered(request, quirks=Quirks(tool_choice=False, parallel_tool_calls=False))
    assert "tool_choice" not in result.body
    assert dropped(result) == {"tool_choice", "parallel_tool_calls"}


def test_strict_is_sent_if_the_schema_can_be_enforced() -> None:
    tool = body({"tools": [{**WEATHER, "strict": True}]})["tools"][0]
    assert tool["strict"] is True
    assert tool["input_schema"]["additionalProperties"] is False
    assert "strict" not in body({"tools": [{**WEATHER, "strict": False}]})["tools"][0]
    for result in (
        rendered({"tools": [{**WEATHER, "strict": True}]}, quirks=Quirks(strict_tools=False)),
        rendered(
            {"tools": [{**WEATHER, "strict": True, "parameters": {"type": "object"}}]},
            quirks=Quirks(strict_tools=False),
        ),
    ):
        assert "strict" not in result.body["tools"][0]
        assert "strict_dropped" in codes(result)


# Output format and sampling


ANSWER = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def test_a_format_is_enforced_where_it_can_be() -> None:
    text = {"format": {"type": "json_schema", "name": "x", "schema": ANSWER}, "verbosity": "medium"}
    result = rendered({"text": text, "reasoning": {"effort": "low"}})
    schema = {**ANSWER, "additionalProperties": False}
    assert result.body["output_config"] == {
        "format": {"type": "json_schema", "schema": schema},
        "effort": "low",
    }
    assert result.diagnostics == []


@pytest.mark.parametrize(
    ("format", "quirks", "prompt"),
    [
        ({"type": "json_object"}, ALL, "one JSON object"),
        (
            {"type": "json_schema", "name": "x", "schema": ANSWER},
            Quirks(json_schema=False),
            '"required":["a"]',
        ),
        ({"type": "json_schema", "name": "x"}, ALL, '"type":"object"'),
    ],
)
def test_a_format_that_cannot_be_enforced_is_requested_in_the_prompt(
    format: Any, quirks: Quirks, prompt: str
) -> None:
    result = rendered({"instructions": "A", "text": {"format": format}}, quirks=quirks)
    assert result.body["system"].startswith("A\n\nAnswer with one JSON")
    assert prompt in result.body["system"]
    assert codes(result) == {"format_weakened"}


def test_verbosity_is_reported_as_dropped() -> None:
    assert dropped(rendered({"text": {"verbosity": "low"}})) == {"text.verbosity"}


def test_an_unknown_format_is_rejected() -> None:
    with pytest.raises(DecodeError) as caught:
        rendered({"text": {"format": {"type": "grammar"}}})
    assert caught.value.param == "text.format.type"


@pytest.mark.parametrize("text", [{}, {"format": {}}, {"format": {"type": "text"}}])
def test_plain_text_needs_nothing(text: Any) -> None:
    result = rendered({"text": text})
    assert not result.body.keys() & {"system", "output_config"}


@pytest.mark.parametrize(
    ("request_", "model", "sent", "dropped_fields"),
    [
        ({"temperature": 0.2}, MODEL, {"temperature": 0.2}, set()),
        ({"temperature": 0.2, "top_p": 0.5}, MODEL, {"temperature": 0.2}, {"top_p"}),
        ({"top_p": 0.5}, MODEL, {"top_p": 0.5}, set()),
        ({"temperature": 0.2, "top_p": 0.5}, "claude-opus-4-7", {}, {"temperature", "top_p"}),
        ({"temperature": 0, "reasoning": {"effort": "low"}}, "claude-sonnet-4-5", {}, {"temperature"}),
        ({"temperature": 0, "reasoning": {"effort": "none"}}, "claude-sonnet-4-5", {"temperature": 0}, set()),
    ],
)
def test_sampling_is_sent_if_the_model_accepts_it(
    request_: dict[str, Any], model: str, sent: dict[str, Any], dropped_fields: set[str]
) -> None:
    result = rendered(request_, model)
    assert {name: result.body[name] for name in ("temperature", "top_p") if name in result.body} == sent
    assert dropped(result) == dropped_fields


def test_a_temperature_above_the_maximum_is_lowered() -> None:
    result = rendered({"temperature": 1.7})
    assert result.body["temperature"] == 1
    assert codes(result) == {"temperature_changed"}


# Other fields


def test_a_cache_key_marks_the_prompt_for_caching() -> None:
    request = {"instructions": "A", "input": [user("a"), assistant("b"), user("c")], "prompt_cache_key": "k"}
    result = body(request)
    mark = {"type": "ephemeral"}
    assert result["system"] == [{"type": "text", "text": "A", "cache_control": mark}]
    assert result["messages"][0]["content"] == [{"type": "text", "text": "a", "cache_control": mark}]
    assert "cache_control" not in result["messages"][1]["content"][0]
    assert result["messages"][2]["content"][-1]["cache_control"] == mark
    longer = body({"prompt_cache_retention": "24h"})
    assert longer["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_the_user_is_sent_as_metadata() -> None:
    assert body({"user": "u"})["metadata"] == {"user_id": "u"}
    both = rendered({"user": "u", "safety_identifier": "s"})
    assert both.body["metadata"] == {"user_id": "s"}
    assert dropped(both) == {"user"}


@pytest.mark.parametrize(
    ("tier", "sent"), [("auto", "auto"), ("default", "standard_only"), ("priority", "auto"), ("flex", None)]
)
def test_service_tiers(tier: str, sent: str | None) -> None:
    result = rendered({"service_tier": tier})
    assert result.body.get("service_tier") == sent
    assert dropped(result) == (set() if sent else {"service_tier"})


def test_stop_is_sent_and_unknown_fields_are_reported() -> None:
    result = rendered(
        {"stop": ["a", "", 1], "top_k": 3, "nothing": None, "reasoning": {"context": "all_turns"}}
    )
    assert result.body["stop_sequences"] == ["a"]
    assert dropped(result) == {"top_k", "reasoning.context"}
    assert body({"stop": "b"})["stop_sequences"] == ["b"]


def test_include_is_reported_unless_it_is_always_on() -> None:
    include = ["reasoning.encrypted_content", "message.output_text.logprobs"]
    assert dropped(rendered({"include": include})) == {"include: message.output_text.logprobs"}


FIELDS: dict[str, Any] = {
    **SAMPLES,
    "include": ["reasoning.encrypted_content"],
    "tools": [WEATHER],
    "tool_choice": "none",
    "text": {"format": {"type": "json_object"}},
    "service_tier": "auto",
    "extra": "x",
}


@pytest.mark.parametrize("field", CreateResponse.__struct_fields__)
def test_every_field_is_handled_as_its_row_says(field: str) -> None:
    handling = HANDLED[field]
    if handling in ("gateway", "refused") or field == "model":  # the target sets the model
        return
    value: Any = FIELDS[field]
    field = "stop" if field == "extra" else field
    needs = {"tools": [WEATHER]} if field in ("tool_choice", "parallel_tool_calls") else {}
    result, before = rendered({**needs, field: value}), rendered(needs)
    if handling == "dropped":
        assert dropped(result) == {field}
        assert result.body == before.body
    else:
        assert result.body != before.body
        assert dropped(result) == set()


def test_default_values_are_dropped_without_a_diagnostic() -> None:
    assert (
        rendered({"truncation": "disabled", "top_logprobs": 0, "parallel_tool_calls": True}).diagnostics == []
    )


_own = st.builds(
    thought,
    st.one_of(
        st.builds(
            lambda kind, key, value: {"type": kind, key: value},
            st.sampled_from(["thinking", "redacted_thinking", 3]),
            st.sampled_from(["signature", "data", "thinking"]),
            st.sampled_from(["S", "", None, 3, ["x"]]),
        ),
        st.sampled_from(["x", 3, []]),
    ),
    st.text(max_size=3),
)


@given(request=requests, own=st.lists(_own, max_size=3), target=targets, model=st.sampled_from(MODELS))
@settings(max_examples=examples(100), deadline=None)
def test_any_request_is_rendered_or_rejected(
    request: dict[str, Any], own: list[Any], target: dict[str, Any], model: str
) -> None:
    mixed = [item for pair in zip(request["input"], [*own, *[{}] * 9], strict=False) for item in pair if item]
    try:
        result = render(planned({**request, "input": mixed}, model, target["quirks"]))
    except DecodeError:
        return
    roles = [message["role"] for message in result.body["messages"]]
    assert roles[0] == roles[-1] == "user"
    assert all(left != right for left, right in pairwise(roles))
    calls: set[str] = set()
    for message in result.body["messages"]:
        assert message["content"]
        assert message["content"][-1]["type"] not in ("thinking", "redacted_thinking")
        answered = {each["tool_use_id"] for each in message["content"] if each["type"] == "tool_result"}
        assert answered == calls
        calls = {each["id"] for each in message["content"] if each["type"] == "tool_use"}


def test_every_item_is_accepted_by_the_vendors_own_types() -> None:
    pytest.importorskip("anthropic")
    from anthropic.types import message_create_params
    from pydantic import TypeAdapter

    text = {"format": {"type": "json_schema", "name": "x", "schema": ANSWER}}
    items = [*EVERY_ITEM[:-1], signed("a", "S"), assistant("b"), EVERY_ITEM[-1]]
    result = body(
        {
            "instructions": "A",
            "input": items,
            "tools": [*EVERY_TOOL, {**WEATHER, "name": "strict", "strict": True}],
            "tool_choice": "auto",
            "parallel_tool_calls": False,
            "text": text,
            "reasoning": {"effort": "high", "summary": "auto"},
            "max_output_tokens": 5000,
            "service_tier": "auto",
            "prompt_cache_key": "k",
            "user": "u",
            "stream": True,
        }
    )
    adapter: TypeAdapter[Any] = TypeAdapter(message_create_params.MessageCreateParamsStreaming)
    assert consumed(adapter.validate_python(result)) == result


def consumed(value: Any) -> Any:
    """Return the validated value with its lazy lists evaluated; the vendor's types drop unknown keys."""
    if isinstance(value, dict):
        return {key: consumed(inner) for key, inner in value.items()}
    if isinstance(value, str | bytes | int | float | None):
        return value
    return [consumed(inner) for inner in value]


def test_a_web_search_is_the_vendors_own() -> None:
    search = {
        "type": "web_search",
        "filters": {"allowed_domains": ["example.org"]},
        "user_location": {"type": "approximate", "city": "Ulm"},
        "search_context_size": "low",
    }
    result = rendered({"tools": [WEATHER, search]})
    assert [tool["name"] for tool in result.body["tools"]] == ["weather", "web_search"]
    assert result.body["tools"][1] == {
        "type": "web_search_20250305",
        "name": "web_search",
        "allowed_domains": ["example.org"],
        "user_location": {"type": "approximate", "city": "Ulm"},
    }
    assert [each.code for each in result.diagnostics] == ["field_dropped"]


def test_a_web_search_can_be_the_only_tool_and_be_required() -> None:
    for choice, expected in [
        ("required", {"type": "any"}),
        ({"type": "web_search"}, {"type": "tool", "name": "web_search"}),
    ]:
        result = rendered({"tools": [{"type": "web_search"}], "tool_choice": choice})
        assert result.body["tool_choice"] == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "web_search", "external_web_access": False}]},
        {"tools": [{"type": "web_search"}, {"type": "function", "name": "web_search"}]},
        {
            "tools": [{"type": "web_search"}, WEATHER],
            "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "weather"}]},
        },
    ],
)
def test_a_web_search_that_the_client_does_not_allow_is_left_out(fields: dict[str, Any]) -> None:
    result = rendered(fields)
    assert all("input_schema" in tool for tool in result.body.get("tools", []))
    assert [each.code for each in result.diagnostics] == ["tool_dropped"]
