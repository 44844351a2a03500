from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from penstock.dialects.envelope import seal
from penstock.dialects.plan import Quirks, Target, UpstreamRequest
from penstock.dialects.responses.render import HANDLED, render
from penstock.errors import DecodeError
from penstock.protocol.request import CreateResponse
from tests.dialects.render_cases import (
    EVERY_ITEM,
    EVERY_TOOL,
    PATCH,
    PIXEL,
    SEARCH,
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
from tests.effort import examples

OPENAI: dict[str, Any] = {
    "vendor": "openai",
    "dialect": "responses",
    "family": "gpt",
    "key_fingerprint": "k",
    "quirks": Quirks(system_first=False, developer_role=True),
}
OTHER: dict[str, Any] = {"vendor": "lmstudio", "dialect": "responses", "family": "gpt-oss"}


def rendered(request: dict[str, Any], target: dict[str, Any] = OPENAI) -> UpstreamRequest:
    return render(plan_for(request, **target))


def items(
    given: list[dict[str, Any]], target: dict[str, Any] = OPENAI, **request: Any
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rendered({"input": given, **request}, target).body["input"]
    return found


def message(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def sealed(payload: Any, target: dict[str, Any]) -> str:
    return seal(Target(model="m", **target), payload)


def reasoning(encrypted: str | None = None, text: str = "") -> dict[str, Any]:
    content = [{"type": "reasoning_text", "text": text}] if text else None
    summary = [{"type": "summary_text", "text": "S."}]
    return {
        "type": "reasoning",
        "id": "rs_1",
        "summary": summary,
        "content": content,
        "encrypted_content": encrypted,
    }


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


def test_nothing_to_say_is_refused() -> None:
    for nothing in ([], [user("")], [{"type": "item_reference", "id": "x"}]):
        with pytest.raises(DecodeError) as refused:
            rendered({"input": nothing})
        assert refused.value.param == "input"
    assert rendered({"input": [], "instructions": "Go."}).body["input"] == []


# -- messages


def test_messages_lose_their_ids_and_keep_what_the_endpoint_reads() -> None:
    said = {**assistant("A."), "phase": "final_answer"}
    part = {"type": "output_text", "text": "A.", "annotations": []}
    assert items([said]) == [{**message("assistant", [part]), "phase": "final_answer"}]
    assert items([said], OTHER) == [message("assistant", [part])]
    refusal = {"type": "refusal", "refusal": "No."}
    assert items([{"role": "assistant", "content": [refusal]}]) == [message("assistant", [refusal])]
    assert items([{"role": "assistant", "content": "bare"}]) == [message("assistant", "bare")]


def test_text_is_of_the_type_that_its_speaker_may_use() -> None:
    texts = [
        {"type": "text", "text": "a"},
        {"type": "output_text", "text": "b"},
        {"type": "refusal", "refusal": "c"},
    ]
    assert items([user(texts)])[0]["content"] == [{"type": "input_text", "text": each} for each in "abc"]
    assert items([{"role": "assistant", "content": texts[:1]}])[0]["content"] == [
        {"type": "output_text", "text": "a", "annotations": []}
    ]


IMAGE = {"type": "input_image", "image_url": PIXEL, "detail": "low"}
STORED_IMAGE = {"type": "input_image", "file_id": "file_1"}
FILE = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}
STORED_FILE = {"type": "input_file", "file_id": "file_1"}
VIDEO = {"type": "input_video", "video_url": "https://example.org/a.mp4"}


@pytest.mark.parametrize(
    ("part", "target", "is_sent"),
    [
        (IMAGE, OPENAI, True),
        (IMAGE, OTHER, True),
        (IMAGE, {**OTHER, "quirks": Quirks(images=False)}, False),
        (STORED_IMAGE, OPENAI, True),
        (STORED_IMAGE, OTHER, False),
        (FILE, OPENAI, True),
        (FILE, OTHER, False),
        (FILE, {**OTHER, "quirks": Quirks(files=True)}, True),
        (STORED_FILE, OPENAI, True),
        (STORED_FILE, {**OTHER, "quirks": Quirks(files=True)}, False),
        (VIDEO, OPENAI, False),
        (VIDEO, OTHER, True),
        ({"type": "input_smell"}, OPENAI, False),
    ],
)
def test_media_are_sent_or_noted(part: dict[str, Any], target: dict[str, Any], is_sent: bool) -> None:
    request = rendered({"input": [user([part])]}, target)
    [content] = request.body["input"][0]["content"]
    if is_sent:
        assert content == part
        assert request.diagnostics == []
    else:
        assert part["type"] in content["text"]
        assert codes(request) == {"content_left_out"}


def test_an_image_of_the_assistant_is_noted() -> None:
    request = rendered({"input": [{"role": "assistant", "content": [IMAGE]}]})
    assert request.body["input"][0]["content"][0]["type"] == "output_text"
    assert codes(request) == {"content_left_out"}


LEADING_AND_LATE = {
    "instructions": "One.",
    "input": [
        {"role": "developer", "content": "Two."},
        {"role": "system", "content": [{"type": "input_text", "text": "Three."}]},
        user("a"),
        {"role": "developer", "content": "Late."},
        {"role": "developer", "content": ""},
    ],
}


def test_system_texts_stay_as_they_are_at_openai() -> None:
    body = rendered(LEADING_AND_LATE).body
    assert body["instructions"] == "One."
    assert [item["role"] for item in body["input"]] == ["developer", "system", "user", "developer"]


def test_leading_system_texts_are_instructions_where_only_one_may_be_first() -> None:
    body = rendered(LEADING_AND_LATE, OTHER).body
    assert body["instructions"] == "One.\n\nTwo.\n\nThree."
    assert body["input"] == [message("user", "a"), message("user", "<system>\nLate.\n</system>")]


def test_an_image_among_instructions_is_noted() -> None:
    parts = [{"type": "input_text", "text": "Be."}, IMAGE, {"type": "input_text", "text": ""}]
    request = rendered({"input": [{"role": "system", "content": parts}, user("x")]}, OTHER)
    assert request.body["instructions"].startswith("Be.\n[content of type 'input_image' was left out")
    assert codes(request) == {"content_left_out"}


def test_developers_are_called_as_the_endpoint_calls_them() -> None:
    for developer_role, role in [(False, "system"), (True, "developer")]:
        quirks = Quirks(system_first=False, developer_role=developer_role)
        body = rendered(LEADING_AND_LATE, {**OTHER, "quirks": quirks}).body
        assert [item["role"] for item in body["input"]] == [role, role, "user", role]


# -- calls and outputs


def test_openai_gets_its_own_types_back() -> None:
    given = [
        call("c1", arguments='{"city":"Ulm"}'),
        output("c1", "sunny"),
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c2", "name": "apply_patch", "input": "x"},
        {"type": "custom_tool_call_output", "id": "ctco_1", "call_id": "c2", "output": "ok"},
        {**call("c3", "search"), "namespace": "mcp__docs"},
        output("c3", [{"type": "input_text", "text": "a"}, IMAGE]),
        {"type": "local_shell_call", "call_id": "c4", "action": {"type": "exec"}, "status": "completed"},
        {"type": "local_shell_call_output", "id": "c4", "output": "a"},
        {"type": "shell_call", "call_id": "c5", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c5", "output": [{"stdout": "a"}]},
        {"type": "tool_search_call", "execution": "server", "arguments": {"query": "x"}},
        {"type": "tool_search_output", "execution": "server", "tools": [PATCH]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
        {"type": "additional_tools", "id": "at_1", "tools": [SEARCH]},
    ]
    request = rendered({"tools": EVERY_TOOL, "input": given})
    expected = deepcopy(given)
    for item in expected:
        if item["type"] != "local_shell_call_output":
            item.pop("id", None)
    expected[13]["role"] = "developer"
    expected[13]["tools"][0]["description"] = ""
    assert request.body["input"] == expected
    assert request.diagnostics == []


def test_other_endpoints_get_functions() -> None:
    given = [
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c2", "name": "apply_patch", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "ok"},
        {**call("c3", "search"), "namespace": "mcp__docs"},
        output("c3", [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]),
        {"type": "shell_call", "call_id": "c5", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c5", "output": [{"stdout": "a"}]},
        {**call("c6", "lost.tool"), "namespace": "n"},
        output("c6", [IMAGE]),
        {"type": "additional_tools", "tools": [SEARCH]},
    ]

    def pair(call_id: str, name: str, arguments: str, answer: Any) -> list[dict[str, Any]]:
        return [
            {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments},
            {"type": "function_call_output", "call_id": call_id, "output": answer},
        ]

    assert items(given, OTHER, tools=[PATCH]) == [
        *pair("c2", "apply_patch", '{"input":"x"}', "ok"),
        *pair("c3", "mcp__docs__search", "{}", "a\nb"),
        *pair("c5", "shell", '{"commands":["ls"]}', '[{"stdout":"a"}]'),
        *pair("c6", "n__lost_tool", "{}", [IMAGE]),
    ]


def kinds(given: list[dict[str, Any]], target: dict[str, Any] = OPENAI) -> list[tuple[str, str]]:
    return [(item["type"], item.get("call_id", "")) for item in items(given, target)]


@pytest.mark.parametrize("target", [OPENAI, OTHER], ids=["openai", "other"])
def test_calls_and_outputs_match_whatever_came(target: dict[str, Any]) -> None:
    pair = [("function_call", "c"), ("function_call_output", "c")]
    assert kinds([call("c"), output("c")], target) == pair
    assert kinds([output("c"), call("c")], target) == pair
    assert kinds([call("c"), call("c"), output("c"), output("c")], target) == pair
    assert kinds([call("c")], target) == pair
    assert kinds([output("c")], target) == [("message", "")]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([call("c"), call("c"), output("c")], "repeated_call"),
        ([call("c"), output("c"), output("c")], "repeated_output"),
        ([call("c")], "unanswered_call"),
        ([output("c")], "orphan_output"),
        ([user("x"), {"type": "item_reference", "id": "x"}], "item_left_out"),
        ([user("x"), {"type": "mystery", "id": "x"}], "item_left_out"),
        ([user("x"), {"type": "compaction", "encrypted_content": "x"}], "item_left_out"),
    ],
)
def test_every_repair_is_told(given: list[dict[str, Any]], told: str) -> None:
    assert codes(rendered({"input": given})) == {told}


def test_an_id_that_is_used_again_after_its_output_is_another_call() -> None:
    given = [call("c", "a"), output("c", "1"), call("c", "b"), output("c", "2")]
    found = items(given)
    assert [item.get("name") or item["output"] for item in found] == ["a", "1", "b", "2"]
    assert found[0]["call_id"] == found[1]["call_id"] != found[2]["call_id"] == found[3]["call_id"]


def test_our_suffix_is_taken_off_where_no_other_call_has_the_id() -> None:
    assert kinds([call("c-pk2"), output("c-pk2")])[0] == ("function_call", "c")
    both = kinds([call("c"), output("c"), call("c-pk2"), output("c-pk2")])
    assert [call_id for _, call_id in both] == ["c", "c", "c-pk2", "c-pk2"]
    crossed = kinds([call("c-pk2"), output("c-pk2"), call("c"), output("c")])
    assert len({call_id for _, call_id in crossed}) == 2


def test_an_output_is_of_the_type_of_its_call() -> None:
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "x"}
    assert [kind for kind, _ in kinds([custom, output("c")])] == [
        "custom_tool_call",
        "custom_tool_call_output",
    ]
    assert [kind for kind, _ in kinds([custom])] == ["custom_tool_call", "custom_tool_call_output"]


def test_a_typed_call_without_an_output_is_told_about() -> None:
    [item] = items([{"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}])
    assert item["role"] == "assistant"
    assert '"commands":["ls"]' in item["content"]


def test_what_a_lost_search_found_can_still_be_called() -> None:
    found = {"type": "tool_search_output", "call_id": "gone", "tools": [PATCH]}
    assert items([found]) == [{"type": "additional_tools", "role": "developer", "tools": [PATCH]}]
    assert items([found], OTHER)[0]["type"] == "message"


# -- reasoning


def test_encrypted_reasoning_goes_back_to_its_maker_alone() -> None:
    ours = sealed({"encrypted_content": "gAAA"}, OPENAI)
    given = [reasoning(ours, "Text."), assistant("A.")]
    assert items(given)[0] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "S."}],
        "encrypted_content": "gAAA",
    }
    for other in ({"key_fingerprint": "other"}, {"family": "o"}, {"vendor": "azure"}):
        request = rendered({"input": given}, {**OPENAI, **other})
        assert [item["type"] for item in request.body["input"]] == ["message"]
        assert codes(request) == {"reasoning_left_out"}


def test_reasoning_as_text_goes_back_to_endpoints_that_show_it() -> None:
    assert items([reasoning(None, "Text."), assistant("A.")], OTHER)[0] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "S."}],
        "content": [{"type": "reasoning_text", "text": "Text."}],
    }
    request = rendered({"input": [reasoning(None, "Text."), assistant("A.")]})
    assert len(request.body["input"]) == 1
    assert codes(request) == {"reasoning_left_out"}


def test_empty_or_unreadable_reasoning_is_left_out() -> None:
    empty = {"type": "reasoning", "summary": [], "encrypted_content": sealed("odd", OTHER)}
    request = rendered({"input": [empty, assistant("A.")]}, OTHER)
    assert len(request.body["input"]) == 1
    assert codes(request) == {"reasoning_left_out"}


def test_reasoning_that_led_to_nothing_is_left_out_at_openai() -> None:
    ours = reasoning(sealed({"encrypted_content": "gAAA"}, OPENAI))
    request = rendered({"input": [ours, user("x"), ours, ours, call(), output(), ours]})
    assert [item["type"] for item in request.body["input"]] == [
        "message",
        "reasoning",
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    assert codes(request) == {"reasoning_left_out"}


def test_compactions_of_ours_are_text_and_the_vendors_own_go_back() -> None:
    text = {"type": "compaction", "encrypted_content": sealed({"text": "So far."}, OTHER)}
    assert items([text]) == [message("user", "So far.")]
    own = {
        "type": "compaction",
        "id": "cmp_1",
        "encrypted_content": sealed({"encrypted_content": "x"}, OPENAI),
    }
    assert items([own]) == [{"type": "compaction", "encrypted_content": "x"}]
    assert codes(rendered({"input": [user("x"), own]}, OTHER)) == {"item_left_out"}


# -- tools


def test_openai_gets_tools_as_they_were_declared_but_for_impossible_names() -> None:
    tools = [{**WEATHER, "name": "a.b"}, PATCH, SEARCH, {"type": "image_generation", "size": "1x1"}, PATCH]
    body = rendered({"tools": tools, "tool_choice": {"type": "function", "name": "a.b"}}).body
    assert body["tools"] == [{**WEATHER, "name": "a_b"}, PATCH, {**SEARCH, "description": ""}, tools[3]]
    assert body["tool_choice"] == {"type": "function", "name": "a_b"}
    assert items([call("c", "a.b"), output("c")], tools=tools)[0]["name"] == "a_b"


def test_openai_gets_choices_as_they_came() -> None:
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
def test_choices_at_other_endpoints(choice: Any, expected: Any) -> None:
    assert rendered({"tools": [WEATHER, PATCH], "tool_choice": choice}, OTHER).body["tool_choice"] == expected


def test_a_required_tool_that_was_dropped_is_refused() -> None:
    with pytest.raises(DecodeError, match="web_search"):
        rendered({"tools": [{"type": "web_search"}], "tool_choice": "required"}, OTHER)


def test_strict_and_parallel_calls_are_dropped_and_told_where_they_are_unknown() -> None:
    quirks = Quirks(strict_tools=False, parallel_tool_calls=False)
    request = {"tools": [{**WEATHER, "strict": True, "description": ""}], "parallel_tool_calls": False}
    found = rendered(request, {**OTHER, "quirks": quirks})
    assert dropped(found) == {"tools.strict", "parallel_tool_calls"}
    assert found.body["tools"][0].keys() == {"type", "name", "parameters"}
    assert rendered(request, OTHER).body["parallel_tool_calls"] is False


# -- fields


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
    "user": ("u", "u"),
    "extra": ({"top_k": 3}, None),
}
"""A value of each mapped field, and what it becomes."""

NOT_AT_OPENAI = {"presence_penalty", "frequency_penalty"}
ONLY_AT_OPENAI = {"prompt_cache_retention", "user"}


def test_every_field_of_a_request_has_a_row() -> None:
    assert set(HANDLED) == set(CreateResponse.__struct_fields__)
    assert {name for name, handling in HANDLED.items() if handling == "mapped"} == set(MAPPED)
    assert set(HANDLED.values()) == {"mapped", "gateway"}


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
def test_fields_that_an_endpoint_does_not_have_are_dropped_by_name(
    fields: set[str], target: dict[str, Any]
) -> None:
    request = rendered({field: MAPPED[field][0] for field in fields}, target)
    assert dropped(request) == fields
    assert request.body == rendered({}, target).body


@pytest.mark.parametrize("field", [name for name, handling in HANDLED.items() if handling == "gateway"])
def test_a_field_of_the_gateway_does_not_reach_the_upstream(field: str) -> None:
    values: dict[str, Any] = {
        "stream": False,
        "background": True,
        "store": True,
        "metadata": {"a": "b"},
        "client_metadata": {"a": "b"},
        "stream_options": {"include_obfuscation": True},
    }
    assert rendered({field: values.get(field, "x")}).body == rendered({}).body


def test_an_extra_field_cannot_replace_one_of_ours() -> None:
    plan = plan_for({}, **OPENAI)
    forged = msgspec.structs.replace(plan.request, extra={"store": True})
    assert render(msgspec.structs.replace(plan, request=forged)).body["store"] is False


def test_a_schema_is_asked_for_in_words_where_there_is_no_other_way() -> None:
    target = {**OTHER, "quirks": Quirks(json_schema=False)}
    request = rendered({"instructions": "Be.", "text": {"format": SCHEMA, "verbosity": "low"}}, target)
    assert request.body["text"] == {"format": {"type": "json_object"}, "verbosity": "low"}
    assert request.body["instructions"].startswith("Be.\n\nAnswer with one JSON object")
    assert codes(request) == {"format_weakened"}


# -- everything at once


TYPES = TypeAdapter(ResponseCreateParamsStreaming)


@pytest.mark.parametrize("target", [OPENAI, OTHER], ids=["openai", "other"])
def test_every_item_and_tool_is_accepted_by_openais_own_types(target: dict[str, Any]) -> None:
    request = rendered({"instructions": "Be.", "input": EVERY_ITEM, "tools": EVERY_TOOL[:6]}, target)
    body = deepcopy(request.body)
    for item in body["input"]:
        # The types want the ids that a stored answer has; the endpoint does not (client 1).
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
        assert_lawful(found.body["input"])
        msgspec.json.encode(found.body)
        return
    assert refused in ("input", "tool_choice")


def assert_lawful(written: list[dict[str, Any]]) -> None:
    """Every call has one output, behind it; nothing has an id but a local shell's output."""
    open_calls: set[str] = set()
    seen: set[str] = set()
    for item in written:
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
def test_the_bytes_of_a_turn_are_the_beginning_of_the_next(
    first: dict[str, Any], second: dict[str, Any], target: dict[str, Any]
) -> None:
    target = {**target, "dialect": "responses"}
    # A user's message on both sides of the border, and no ids on both: a whole turn, then another.
    settled = [user("start"), *_whole(first["input"], "a"), user("border")]
    later = [*settled, *_whole(second["input"], "b")]
    earlier_bytes = msgspec.json.encode(rendered({"input": settled}, target).body)
    later_bytes = msgspec.json.encode(rendered({"input": later}, target).body)
    assert later_bytes.startswith(earlier_bytes.removesuffix(b"]}"))


def _whole(given: list[dict[str, Any]], mark: str) -> list[dict[str, Any]]:
    """The items with call ids of their own, and without what brings tools."""
    return [
        {**item, **({"call_id": mark + item["call_id"]} if item.get("call_id") else {})}
        for item in given
        if item.get("type") not in ("additional_tools", "tool_search_output", "local_shell_call_output")
    ]
