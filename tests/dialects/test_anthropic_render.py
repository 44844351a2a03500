"""A request as Anthropic's Messages wants it."""

from __future__ import annotations

from base64 import b64encode
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from penstock.dialects.anthropic import DIALECT
from penstock.dialects.anthropic.messages import BEGINNING, CONTINUE
from penstock.dialects.anthropic.render import HANDLED, render
from penstock.dialects.anthropic.schema import enforceable, tool_schema
from penstock.dialects.anthropic.thinking import BUDGETS, traits_of
from penstock.dialects.envelope import seal
from penstock.dialects.plan import Plan, Quirks, Target, UpstreamRequest
from penstock.errors import DecodeError
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import to_builtins
from penstock.tools.call_ids import NO_OUTPUT
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
from tests.stream.running import run

MODEL = "claude-sonnet-4-6"
ALL = Quirks(files=True)
MODELS = ("claude-3-5-haiku-latest", "claude-sonnet-4-5", "claude-opus-4-6", "claude-opus-5-5", "MiniMax-M2")


def planned(request: dict[str, Any], model: str = MODEL, quirks: Quirks = ALL, **target: Any) -> Plan:
    plan = plan_for(request, quirks=quirks, **{"dialect": "anthropic", "vendor": "anthropic", **target})
    return structs.replace(plan, target=structs.replace(plan.target, model=model))


def rendered(request: dict[str, Any], model: str = MODEL, quirks: Quirks = ALL) -> UpstreamRequest:
    return render(planned(request, model, quirks))


def body(request: dict[str, Any], model: str = MODEL, quirks: Quirks = ALL) -> dict[str, Any]:
    return rendered(request, model, quirks).body


def thought(payload: Any, text: str = "", attached: str = "block", **target: str) -> dict[str, Any]:
    to = structs.replace(Target(model=MODEL, dialect="anthropic", vendor="anthropic"), **target)
    content = [{"type": "reasoning_text", "text": text}] if text else []
    sealed = seal(to, payload, attached=attached)
    return {"type": "reasoning", "summary": [], "content": content, "encrypted_content": sealed}


def signed(text: str, signature: str) -> dict[str, Any]:
    return thought({"type": "thinking", "signature": signature}, text)


# Where it goes


def test_a_request_goes_to_messages_with_its_version_and_no_secret() -> None:
    to_send = rendered({"input": "hello", "stream": True})
    assert (to_send.path, to_send.headers) == ("messages", {"anthropic-version": "2023-06-01"})
    assert to_send.body == {
        "model": MODEL,
        "max_tokens": 32_000,
        "stream": True,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    }
    assert to_send.diagnostics == []


def test_the_upstream_is_streamed_whatever_the_client_wants() -> None:
    assert body({"stream": False})["stream"] is True


# Messages


def test_instructions_and_leading_system_items_are_one_system_text() -> None:
    given = [{"role": "developer", "content": "B"}, {"role": "system", "content": "C"}, user("hi")]
    made = body({"instructions": "A", "input": given})
    assert made["system"] == "A\n\nB\n\nC"
    assert [message["role"] for message in made["messages"]] == ["user"]


def test_a_late_system_item_is_a_framed_user_message() -> None:
    made = body({"input": [user("one"), assistant("two"), {"role": "developer", "content": "Late."}]})
    assert made["messages"][-1] == {
        "role": "user",
        "content": [{"type": "text", "text": "<system>\nLate.\n</system>"}],
    }


def test_a_late_system_item_stays_one_where_the_quirk_allows_it() -> None:
    given = [
        user("one"),
        {"role": "system", "content": "Late."},
        user("two"),
        {"role": "system", "content": " "},
    ]
    made = body({"input": given}, quirks=Quirks(system_first=False))
    assert [message["role"] for message in made["messages"]] == ["user", "system", "user"]


def test_neighbours_of_one_role_are_one_message() -> None:
    made = body({"input": [user("a"), user("b"), assistant("c"), assistant("d"), user("e")]})
    assert [message["role"] for message in made["messages"]] == ["user", "assistant", "user"]
    assert [len(message["content"]) for message in made["messages"]] == [2, 2, 1]


def test_a_tool_loop_has_its_results_in_one_message_directly_behind_the_calls() -> None:
    given = [
        user("?"),
        call("a", arguments='{"city":"Ulm"}'),
        call("b"),
        output("b", "rain"),
        output("a"),
        user("!"),
    ]
    messages = body({"input": given, "tools": [WEATHER]})["messages"]
    assert messages[1]["content"] == [
        {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Ulm"}},
        {"type": "tool_use", "id": "b", "name": "weather", "input": {}},
    ]
    assert messages[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "sunny"},
        {"type": "tool_result", "tool_use_id": "b", "content": "rain"},
        {"type": "text", "text": "!"},
    ]


def test_images_stay_inside_their_tool_result() -> None:
    parts = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": PIXEL}]
    made = body({"input": [user("?"), call(), output(output=parts)], "tools": [WEATHER]})
    assert made["messages"][-1]["content"][0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
    ]


@pytest.mark.parametrize("nothing", ["", " \n", [], [{"type": "input_text", "text": " "}]])
def test_an_empty_output_is_a_result_without_content(nothing: Any) -> None:
    made = body({"input": [user("?"), call(), output(output=nothing)], "tools": [WEATHER]})
    assert made["messages"][-1]["content"] == [{"type": "tool_result", "tool_use_id": "call_1"}]


def test_an_unanswered_call_has_a_placeholder() -> None:
    made = rendered({"input": [user("?"), call(), user("!")], "tools": [WEATHER]})
    assert made.body["messages"][-1]["content"][0]["content"] == NO_OUTPUT
    assert codes(made) == {"unanswered_call"}


def test_call_ids_are_acceptable_and_unique_in_the_whole_conversation() -> None:
    given = [user("?")]
    for id in ("functions.weather:0", "functions weather:0", "functions.weather:0-pk2"):
        given += [call(id), output(id, id)]
    messages = body({"input": given, "tools": [WEATHER]})["messages"]
    blocks = [block for message in messages for block in message["content"]]
    ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert ids == ["functions_weather_0", "functions_weather_0_2", "functions_weather_0_3"]
    assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == ids


@pytest.mark.parametrize("arguments", ["{", "[]", '"x"'])
def test_arguments_that_are_no_object_are_wrapped_and_told(arguments: str) -> None:
    made = rendered({"input": [user("?"), call(arguments=arguments), output()], "tools": [WEATHER]})
    assert made.body["messages"][1]["content"][0]["input"] == {"arguments": arguments}
    assert "odd_arguments" in codes(made)


def test_a_conversation_begins_and_ends_with_the_user() -> None:
    made = rendered({"input": [assistant("hello")]})
    texts = [message["content"][0]["text"] for message in made.body["messages"]]
    assert texts == [BEGINNING, "hello", CONTINUE]
    assert "turn_added" in codes(made)


@pytest.mark.parametrize("nothing", ["", " ", [], [user(" ")], [{"role": "system", "content": "x"}]])
def test_nothing_to_send_is_refused(nothing: Any) -> None:
    with pytest.raises(DecodeError) as caught:
        rendered({"input": nothing})
    assert caught.value.param == "input"


# Content


def block(part: dict[str, Any], quirks: Quirks = ALL) -> dict[str, Any]:
    made: dict[str, Any] = body({"input": [user([part])]}, quirks=quirks)["messages"][0]["content"][0]
    return made


def file_of(kind: str, data: bytes, **fields: str) -> dict[str, Any]:
    url = f"data:{kind};base64,{b64encode(data).decode()}"
    return {"type": "input_file", "file_data": url, **fields}


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            {"type": "input_image", "image_url": "https://example.org/a.png"},
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        ),
        (
            {"type": "input_image", "image_url": "DATA:image/JPEG;charset=x;base64,AAAA"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"}},
        ),
        (
            file_of("application/pdf", b"%PDF", filename="a.pdf"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
                "title": "a.pdf",
            },
        ),
        (
            {"type": "input_file", "file_data": "JVBERg==", "filename": "A.PDF"},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
                "title": "A.PDF",
            },
        ),
        (
            file_of("application/json", b'{"a":1}'),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": '{"a":1}'}},
        ),
        (
            file_of("image/png", b"x", filename="a.png"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}},
        ),
        (
            {"type": "input_file", "file_url": "https://example.org/a?b=c.png"},
            {"type": "document", "source": {"type": "url", "url": "https://example.org/a?b=c.png"}},
        ),
    ],
)
def test_images_and_files_are_blocks(part: dict[str, Any], expected: dict[str, Any]) -> None:
    assert block(part) == expected


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_image", "file_id": "file_1"},
        {"type": "input_image", "image_url": "data:image/svg+xml;base64,AAAA"},
        {"type": "input_image", "image_url": "data:image/png,AAAA"},
        {"type": "input_image", "image_url": "ftp://example.org/a.png"},
        {"type": "input_file", "file_id": "file_1"},
        {"type": "input_file", "file_data": "AAAA", "filename": "a.exe"},
        {"type": "input_file", "file_data": "AAAA", "filename": "no suffix"},
        file_of("text/plain", b"\xff"),
        file_of("text/plain", b" "),
        {"type": "input_video", "video_url": "https://example.org/a.mp4"},
        {"type": "input_smell", "smell": "roses"},
    ],
)
def test_what_cannot_be_shown_leaves_a_note_and_a_diagnostic(part: dict[str, Any]) -> None:
    made = rendered({"input": [user([part])]})
    note = made.body["messages"][0]["content"][0]
    assert note["type"] == "text"
    assert "left out" in note["text"]
    assert codes(made) == {"content_left_out"}


def test_a_model_without_images_or_files_gets_notes_and_text() -> None:
    blind = Quirks(images=False, files=False)
    assert "left out" in block({"type": "input_image", "image_url": PIXEL}, blind)["text"]
    assert "left out" in block(file_of("application/pdf", b"%PDF"), blind)["text"]
    assert block(file_of("text/csv", b"a,b", filename="a.csv"), blind) == {
        "type": "text",
        "text": "[the file 'a.csv']\na,b",
    }


def test_the_detail_of_an_image_is_dropped_and_told() -> None:
    part = {"type": "input_image", "image_url": PIXEL, "detail": "high"}
    assert dropped(rendered({"input": [user([part])]})) == {"input_image.detail"}
    assert not dropped(rendered({"input": [user([{**part, "detail": "auto"}])]}))


# Reasoning


def test_thinking_goes_back_byte_for_byte_and_in_order() -> None:
    redacted = thought({"type": "redacted_thinking", "data": "ZZ=="})
    given = [
        user("?"),
        signed(" a\n b ", "S1=="),
        redacted,
        assistant("so"),
        signed("", "S2"),
        call(),
        output(),
    ]
    assert body({"input": given, "tools": [WEATHER]})["messages"][1]["content"] == [
        {"type": "thinking", "thinking": " a\n b ", "signature": "S1=="},
        {"type": "redacted_thinking", "data": "ZZ=="},
        {"type": "text", "text": "so"},
        {"type": "thinking", "thinking": "", "signature": "S2"},
        {"type": "tool_use", "id": "call_1", "name": "weather", "input": {}},
    ]


def test_sealed_text_counts_more_than_what_a_client_made_of_it() -> None:
    item = thought({"type": "thinking", "signature": "S", "thinking": "sealed"}, "shown")
    made = body({"input": [user("?"), item, assistant("so"), user("!")]})
    assert made["messages"][1]["content"][0]["thinking"] == "sealed"


def test_a_summary_stands_in_for_reasoning_whose_text_a_client_moved() -> None:
    item = {**signed("", "S"), "summary": [{"type": "summary_text", "text": "moved"}]}
    made = body({"input": [user("?"), item, assistant("so"), user("!")]})
    assert made["messages"][1]["content"][0]["thinking"] == "moved"


@pytest.mark.parametrize(
    "item",
    [
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        thought({"thoughtSignature": "x"}, dialect="gemini"),
        thought("text"),
        thought({"type": "thinking", "signature": ""}, "Hm."),
    ],
)
def test_unsigned_and_foreign_reasoning_is_left_out_and_told_once(item: dict[str, Any]) -> None:
    made = rendered({"input": [user("?"), item, assistant("so"), user("!")]})
    assert [part["type"] for part in made.body["messages"][1]["content"]] == ["text"]
    told = [each for each in made.diagnostics if each.code == "reasoning_left_out"]
    assert [each.count for each in told] == [1]


def test_a_turn_does_not_end_with_thinking() -> None:
    made = rendered({"input": [user("?"), assistant("so"), signed("cut", "S"), user("!")]})
    assert [part["type"] for part in made.body["messages"][1]["content"]] == ["text"]
    assert "reasoning_left_out" in codes(made)


def test_old_reasoning_is_dropped_where_the_quirk_says_so() -> None:
    given = [user("?"), signed("a", "S1"), assistant("so"), user("!"), signed("b", "S2"), call(), output()]
    made = body({"input": given, "tools": [WEATHER]}, quirks=Quirks(drops_old_reasoning=True))
    kinds = [[part["type"] for part in message["content"]] for message in made["messages"]]
    assert kinds == [["text"], ["text"], ["text"], ["thinking", "tool_use"], ["tool_result"]]


def test_what_was_read_goes_back_as_it_came() -> None:
    content = [
        {"type": "thinking", "thinking": " Hm\n", "signature": "UzE=="},
        {"type": "redacted_thinking", "data": "ZZ=="},
        {"type": "text", "text": "I look."},
        {"type": "thinking", "thinking": "", "signature": "UzI="},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Ulm"}},
        {"type": "tool_use", "id": "toolu_2", "name": "mcp__docs__search", "input": {}},
    ]
    plan = planned({"input": "?", "tools": [WEATHER, SEARCH]})
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": "tool_use",
    }
    deltas = DIALECT.read_body(plan, msgspec.json.encode(answer))
    stream, _ = run(deltas, plan.request.tools or [])
    items = [to_builtins(item) for item in stream.snapshot.output]
    given = [user("?"), *items, output("toolu_1"), output("toolu_2")]
    assert body({"input": given, "tools": [WEATHER, SEARCH]})["messages"][1]["content"] == content


# Effort


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "sent", "told"),
    [
        ("claude-opus-4-5-20251101", "high", {"type": "enabled", "budget_tokens": 16_000}, None, False),
        ("claude-3-7-sonnet-latest", "minimal", {"type": "enabled", "budget_tokens": 1024}, None, False),
        ("claude-opus-4-20250514", "none", {"type": "disabled"}, None, False),
        ("anthropic/claude-4.5-haiku", "low", {"type": "enabled", "budget_tokens": 4096}, None, False),
        ("MiniMax-M2", "medium", {"type": "enabled", "budget_tokens": 10_000}, None, False),
        ("claude-opus-4-6", "xhigh", {"type": "adaptive"}, "high", True),
        ("us.anthropic.claude-sonnet-4-6-v1:0", "medium", {"type": "adaptive"}, "medium", False),
        ("claude-opus-4-7", "xhigh", {"type": "adaptive"}, "xhigh", False),
        ("claude-opus-4-7", "minimal", {"type": "adaptive"}, "low", True),
        ("claude-sonnet-5", "none", {"type": "disabled"}, None, False),
        ("claude-sonnet-5-5", "none", {"type": "between_tools"}, None, False),
        ("claude-opus-5-5", "none", None, "low", True),
        ("claude-fable-5-1", "max", {"type": "adaptive"}, "max", False),
        ("claude-next", "strange", {"type": "adaptive"}, "medium", True),
        ("claude-3-haiku-20240307", "high", None, None, True),
    ],
)
def test_an_effort_is_asked_for_in_the_manner_of_the_model(
    model: str, effort: str, thinking: Any, sent: str | None, told: bool
) -> None:
    made = rendered({"reasoning": {"effort": effort}}, model)
    assert made.body.get("thinking") == thinking
    assert made.body.get("output_config", {}).get("effort") == sent
    assert bool(made.diagnostics) is told


def test_the_quirk_names_another_row_than_the_model() -> None:
    assert traits_of(Target(model="claude-opus-4-7", quirks=Quirks(effort="budget"))).thinking == "budget"
    assert traits_of(Target(model="claude-opus-4-7", quirks=Quirks(effort="openai"))).thinking == "adaptive"


@pytest.mark.parametrize("effort", sorted(BUDGETS))
@pytest.mark.parametrize("limit", [1, 2047, 2048, 5000, 100_000])
def test_a_budget_leaves_room_for_the_answer(effort: str, limit: int) -> None:
    made = body({"reasoning": {"effort": effort}, "max_output_tokens": limit}, "claude-sonnet-4-5")
    assert made["max_tokens"] == limit
    if limit < 2048:
        assert made["thinking"] == {"type": "disabled"}
    else:
        assert 1024 <= made["thinking"]["budget_tokens"] <= limit - 1024


def test_a_summary_alone_shows_thinking_where_the_model_decides_about_it() -> None:
    shown = {"type": "adaptive", "display": "summarized"}
    assert body({"reasoning": {"summary": "auto"}})["thinking"] == shown
    assert body({"reasoning": {"summary": "auto", "effort": "low"}})["thinking"] == shown
    old = rendered({"reasoning": {"summary": "auto"}}, "claude-sonnet-4-5")
    assert "thinking" not in old.body
    assert dropped(old) == {"reasoning.summary"}
    assert "thinking" not in body({"reasoning": {}}, "claude-sonnet-4-5")


def test_a_forced_call_turns_thinking_off() -> None:
    request = {"tools": [WEATHER], "tool_choice": "required", "reasoning": {"effort": "high"}}
    for model in ("claude-sonnet-4-5", "claude-opus-4-7"):
        made = rendered(request, model)
        assert made.body["thinking"] == {"type": "disabled"}
        assert codes(made) == {"effort_changed"}
    without = {"tools": [WEATHER], "tool_choice": "required"}
    assert body(without, "claude-opus-5")["thinking"] == {"type": "disabled"}  # it thinks by itself
    assert "thinking" not in body(without, "claude-sonnet-4-5")


def test_a_loop_of_another_maker_goes_on_without_thinking() -> None:
    request = {"input": [user("?"), call(), output()], "tools": [WEATHER], "reasoning": {"effort": "low"}}
    assert body(request, "claude-sonnet-4-5")["thinking"] == {"type": "disabled"}
    assert body(request, "claude-opus-4-6")["thinking"] == {"type": "adaptive"}
    own = {**request, "input": [user("?"), signed("a", "S"), call(), output()]}
    assert body(own, "claude-sonnet-4-5")["thinking"]["type"] == "enabled"


# Tools


def test_every_tool_is_declared_in_order_and_what_is_none_is_told() -> None:
    made = rendered({"tools": EVERY_TOOL})
    assert [tool["name"] for tool in made.body["tools"]] == ["weather", "apply_patch", "mcp__docs__search"]
    assert made.body["tools"][0] == {
        "name": "weather",
        "description": "Tells the weather.",
        "input_schema": WEATHER["parameters"],
    }
    assert "start: /.+/" in made.body["tools"][1]["description"]
    assert made.body["tools"][1]["input_schema"]["required"] == ["input"]
    assert sum(each.code == "tool_dropped" for each in made.diagnostics) == 4


def test_tools_of_items_are_appended() -> None:
    given = [{"type": "additional_tools", "tools": [PATCH]}, user("hi")]
    assert [tool["name"] for tool in body({"tools": [WEATHER], "input": given})["tools"]] == [
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
def test_the_choice_of_tools(choice: Any, parallel: bool | None, expected: Any) -> None:
    made = body({"tools": [WEATHER, PATCH, SEARCH], "tool_choice": choice, "parallel_tool_calls": parallel})
    assert made.get("tool_choice") == expected
    names = [tool["name"] for tool in made["tools"]]
    assert names == (["apply_patch"] if choice is ONE else ["weather", "apply_patch", "mcp__docs__search"])


@pytest.mark.parametrize(
    ("request_", "model"),
    [
        ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, MODEL),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "other"}}, MODEL),
        ({"tools": [WEATHER], "tool_choice": "required"}, "claude-opus-5-5"),
    ],
)
def test_a_choice_that_cannot_be_kept_is_refused(request_: dict[str, Any], model: str) -> None:
    with pytest.raises(DecodeError) as caught:
        rendered(request_, model)
    assert caught.value.param == "tool_choice"


def test_calls_of_tools_that_are_not_declared_any_more_get_a_declaration() -> None:
    made = rendered({"input": [user("?"), call(), output()]})
    assert made.body["tools"] == [{"name": "weather", "input_schema": {"type": "object", "properties": {}}}]
    assert made.body["tool_choice"] == {"type": "none"}
    assert "tools_added" in codes(made)


def test_an_upstream_without_a_choice_is_told_about() -> None:
    request = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}
    made = rendered(request, quirks=Quirks(tool_choice=False, parallel_tool_calls=False))
    assert "tool_choice" not in made.body
    assert dropped(made) == {"tool_choice", "parallel_tool_calls"}


def test_strict_is_kept_where_the_schema_can_be_enforced() -> None:
    tool = body({"tools": [{**WEATHER, "strict": True}]})["tools"][0]
    assert tool["strict"] is True
    assert tool["input_schema"]["additionalProperties"] is False
    assert "strict" not in body({"tools": [{**WEATHER, "strict": False}]})["tools"][0]
    for made in (
        rendered({"tools": [{**WEATHER, "strict": True}]}, quirks=Quirks(strict_tools=False)),
        rendered(
            {"tools": [{**WEATHER, "strict": True, "parameters": {"type": "object"}}]},
            quirks=Quirks(strict_tools=False),
        ),
    ):
        assert "strict" not in made.body["tools"][0]
        assert "strict_dropped" in codes(made)


# Schemas


def test_a_schema_is_left_as_it_is_where_that_is_accepted() -> None:
    schema = {
        "type": "object",
        "$defs": {"a": {"type": "string"}},
        "properties": {"$id": {"$ref": "#/$defs/a"}, "b": {"type": ["null", "string"], "minLength": 1}},
        "additionalProperties": False,
    }
    assert tool_schema(schema) == (schema, False)
    assert body({"tools": [{**WEATHER, "parameters": schema}]})["tools"][0]["input_schema"] == schema


def test_the_top_of_a_schema_becomes_a_plain_object() -> None:
    variants = [
        {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a", "b"]},
        {"properties": {"a": {"type": "integer"}, "c": {}}, "required": ["a", "c"]},
    ]
    changed, told = tool_schema({"type": "object", "anyOf": variants, "description": "d"})
    assert told
    assert changed == {
        "type": "object",
        "description": "d",
        "properties": {"a": {"type": "integer"}, "b": {}, "c": {}} | {"a": changed["properties"]["a"]},
        "required": ["a"],
    }
    both, _ = tool_schema({"allOf": variants, "properties": {"d": {}}, "required": ["d"]})
    assert set(both["required"]) == {"a", "b", "c", "d"}
    pointed, _ = tool_schema({"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"e": {}}}}})
    assert pointed == {"type": "object", "properties": {"e": {}}, "required": []}
    made = rendered({"tools": [{**WEATHER, "parameters": {"oneOf": variants}}]})
    assert "schema_changed" in codes(made)


@pytest.mark.parametrize(
    "odd", [{"anyOf": 5}, {"allOf": [1, {"required": 3}]}, {"type": "array"}, {"oneOf": {}}]
)
def test_an_odd_schema_becomes_a_plain_object_too(odd: dict[str, Any]) -> None:
    assert tool_schema(odd)[0]["type"] == "object"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer", "minimum": 3}, {"type": "integer"}),
        ({"type": "string", "format": "uuid"}, {"type": "string", "format": "uuid"}),
        ({"type": "string", "format": "phone"}, {"type": "string"}),
        ({"oneOf": [{"const": 1}, {"type": "null"}]}, {"anyOf": [{"const": 1}, {"type": "null"}]}),
        ({"type": "array", "items": {"enum": ["a"]}}, {"type": "array", "items": {"enum": ["a"]}}),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"b": {"type": "null"}}}}},
            {"type": "object", "properties": {"b": {"type": "null"}}, "additionalProperties": False},
        ),
    ],
)
def test_a_schema_is_made_into_what_a_grammar_can_say(schema: Any, expected: Any) -> None:
    assert enforceable(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {}}},
        {"type": "array", "items": [{"type": "string"}]},
        {"anyOf": [{}]},
        {"anyOf": 5},
        {"not": {"type": "string"}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "string", "format": ["x"], "if": {}},
    ],
)
def test_a_schema_that_a_grammar_cannot_say_is_not_made_into_one(schema: Any) -> None:
    assert enforceable(schema) is None


# The answer

ANSWER = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def test_a_format_is_enforced_where_it_can_be() -> None:
    text = {"format": {"type": "json_schema", "name": "x", "schema": ANSWER}, "verbosity": "medium"}
    made = rendered({"text": text, "reasoning": {"effort": "low"}})
    schema = {**ANSWER, "additionalProperties": False}
    assert made.body["output_config"] == {
        "format": {"type": "json_schema", "schema": schema},
        "effort": "low",
    }
    assert made.diagnostics == []


@pytest.mark.parametrize(
    ("format", "quirks", "said"),
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
def test_a_format_that_cannot_be_enforced_is_asked_for_in_words(
    format: Any, quirks: Quirks, said: str
) -> None:
    made = rendered({"instructions": "A", "text": {"format": format}}, quirks=quirks)
    assert made.body["system"].startswith("A\n\nAnswer with one JSON")
    assert said in made.body["system"]
    assert codes(made) == {"format_weakened"}


def test_verbosity_is_told() -> None:
    assert dropped(rendered({"text": {"verbosity": "low"}})) == {"text.verbosity"}


def test_a_format_that_nobody_knows_is_refused() -> None:
    with pytest.raises(DecodeError) as caught:
        rendered({"text": {"format": {"type": "grammar"}}})
    assert caught.value.param == "text.format.type"


@pytest.mark.parametrize("text", [{}, {"format": {}}, {"format": {"type": "text"}}])
def test_plain_text_needs_nothing(text: Any) -> None:
    made = rendered({"text": text})
    assert not made.body.keys() & {"system", "output_config"}


@pytest.mark.parametrize(
    ("request_", "model", "sent", "gone"),
    [
        ({"temperature": 0.2}, MODEL, {"temperature": 0.2}, set()),
        ({"temperature": 0.2, "top_p": 0.5}, MODEL, {"temperature": 0.2}, {"top_p"}),
        ({"top_p": 0.5}, MODEL, {"top_p": 0.5}, set()),
        ({"temperature": 0.2, "top_p": 0.5}, "claude-opus-4-7", {}, {"temperature", "top_p"}),
        ({"temperature": 0, "reasoning": {"effort": "low"}}, "claude-sonnet-4-5", {}, {"temperature"}),
        ({"temperature": 0, "reasoning": {"effort": "none"}}, "claude-sonnet-4-5", {"temperature": 0}, set()),
    ],
)
def test_sampling_is_sent_where_the_model_lets_it_be_chosen(
    request_: dict[str, Any], model: str, sent: dict[str, Any], gone: set[str]
) -> None:
    made = rendered(request_, model)
    assert {name: made.body[name] for name in ("temperature", "top_p") if name in made.body} == sent
    assert dropped(made) == gone


def test_a_temperature_above_the_highest_is_the_highest() -> None:
    made = rendered({"temperature": 1.7})
    assert made.body["temperature"] == 1
    assert codes(made) == {"temperature_changed"}


# The rest


def test_a_named_cache_marks_what_is_to_be_cached() -> None:
    request = {"instructions": "A", "input": [user("a"), assistant("b"), user("c")], "prompt_cache_key": "k"}
    made = body(request)
    mark = {"type": "ephemeral"}
    assert made["system"] == [{"type": "text", "text": "A", "cache_control": mark}]
    assert made["messages"][0]["content"] == [{"type": "text", "text": "a", "cache_control": mark}]
    assert "cache_control" not in made["messages"][1]["content"][0]
    assert made["messages"][2]["content"][-1]["cache_control"] == mark
    longer = body({"prompt_cache_retention": "24h"})
    assert longer["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_the_user_is_told_apart() -> None:
    assert body({"user": "u"})["metadata"] == {"user_id": "u"}
    both = rendered({"user": "u", "safety_identifier": "s"})
    assert both.body["metadata"] == {"user_id": "s"}
    assert dropped(both) == {"user"}


@pytest.mark.parametrize(
    ("tier", "sent"), [("auto", "auto"), ("default", "standard_only"), ("priority", "auto"), ("flex", None)]
)
def test_service_tiers(tier: str, sent: str | None) -> None:
    made = rendered({"service_tier": tier})
    assert made.body.get("service_tier") == sent
    assert dropped(made) == (set() if sent else {"service_tier"})


def test_stop_is_kept_and_other_unknown_fields_are_told() -> None:
    made = rendered(
        {"stop": ["a", "", 1], "top_k": 3, "nothing": None, "reasoning": {"context": "all_turns"}}
    )
    assert made.body["stop_sequences"] == ["a"]
    assert dropped(made) == {"top_k", "reasoning.context"}
    assert body({"stop": "b"})["stop_sequences"] == ["b"]


def test_what_is_asked_to_be_included_is_told_unless_it_always_is() -> None:
    include = ["reasoning.encrypted_content", "message.output_text.logprobs"]
    assert dropped(rendered({"include": include})) == {"include: message.output_text.logprobs"}


SAMPLES: dict[str, Any] = {
    "model": "m",
    "input": "other",
    "instructions": "x",
    "include": ["reasoning.encrypted_content"],
    "tools": [WEATHER],
    "tool_choice": "none",
    "parallel_tool_calls": False,
    "max_tool_calls": 2,
    "text": {"format": {"type": "json_object"}},
    "reasoning": {"effort": "low"},
    "temperature": 0.5,
    "top_p": 0.5,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "top_logprobs": 2,
    "max_output_tokens": 7,
    "truncation": "auto",
    "service_tier": "auto",
    "safety_identifier": "s",
    "prompt_cache_key": "k",
    "prompt_cache_retention": "24h",
    "user": "u",
    "extra": "x",
}


@pytest.mark.parametrize("field", CreateResponse.__struct_fields__)
def test_every_field_is_handled_as_its_row_says(field: str) -> None:
    handling = HANDLED[field]
    if handling == "gateway" or field == "model":  # the model is the target's
        return
    value: Any = SAMPLES[field]
    field = "stop" if field == "extra" else field
    needs = {"tools": [WEATHER]} if field in ("tool_choice", "parallel_tool_calls") else {}
    made, before = rendered({**needs, field: value}), rendered(needs)
    if handling == "dropped":
        assert dropped(made) == {field}
        assert made.body == before.body
    else:
        assert made.body != before.body
        assert dropped(made) == set()


def test_what_asks_for_the_usual_is_not_told() -> None:
    assert (
        rendered({"truncation": "disabled", "top_logprobs": 0, "parallel_tool_calls": True}).diagnostics == []
    )


# Proofs

TURNS: list[list[dict[str, Any]]] = [
    [user("one")],
    [signed("a", "S1"), assistant("b"), call("c1"), call("c2"), output("c1"), output("c2", "rain")],
    [{"role": "developer", "content": "late"}],
    [signed("c", "S2"), call("c1-pk2"), output("c1-pk2")],
    [assistant("done"), user([{"type": "input_image", "image_url": PIXEL}])],
    [{"type": "reasoning", "summary": [], "encrypted_content": "foreign"}, assistant("ok"), user("bye")],
]


def blocks_in(made: dict[str, Any]) -> list[Any]:
    def bare(block: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in block.items() if key != "cache_control"}

    return [(message["role"], bare(block)) for message in made["messages"] for block in message["content"]]


@given(order=st.permutations(range(1, len(TURNS))), cached=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_longer_conversation_starts_with_the_shorter_one(order: list[int], cached: bool) -> None:
    turns = [TURNS[0], *(TURNS[index] for index in order)]
    request: dict[str, Any] = {"instructions": "A", "tools": [WEATHER]}
    if cached:
        request["prompt_cache_key"] = "k"
    before: dict[str, Any] = {}
    for length in range(1, len(turns) + 1):
        made = body({**request, "input": [item for turn in turns[:length] for item in turn]})
        if before:
            blocks = blocks_in(before)
            assert blocks_in(made)[: len(blocks)] == blocks
            assert (made["system"], made["tools"]) == (before["system"], before["tools"])
        before = made


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
def test_any_request_is_rendered_or_refused(
    request: dict[str, Any], own: list[Any], target: dict[str, Any], model: str
) -> None:
    mixed = [item for pair in zip(request["input"], [*own, *[{}] * 9], strict=False) for item in pair if item]
    try:
        made = render(planned({**request, "input": mixed}, model, target["quirks"]))
    except DecodeError:
        return
    roles = [message["role"] for message in made.body["messages"]]
    assert roles[0] == roles[-1] == "user"
    assert all(left != right for left, right in pairwise(roles))
    calls: set[str] = set()
    for message in made.body["messages"]:
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
    given = [*EVERY_ITEM[:-1], signed("a", "S"), assistant("b"), EVERY_ITEM[-1]]
    made = body(
        {
            "instructions": "A",
            "input": given,
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
    assert consumed(adapter.validate_python(made)) == made


def consumed(value: Any) -> Any:
    """What was validated, read to its end: the vendor's types are lazy about lists, and drop unknown keys."""
    if isinstance(value, dict):
        return {key: consumed(inner) for key, inner in value.items()}
    if isinstance(value, str | bytes | int | float | None):
        return value
    return [consumed(inner) for inner in value]
