"""A history as Anthropic's messages."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.anthropic import DIALECT
from penstock.dialects.anthropic.messages import BEGINNING, CONTINUE, loop_without_thinking
from penstock.dialects.plan import Quirks
from penstock.errors import DecodeError
from penstock.protocol.wire import to_builtins
from penstock.tools.call_ids import NO_OUTPUT
from tests.dialects.anthropic.rendered_requests import body, planned, rendered, signed, thought
from tests.dialects.render_cases import (
    PIXEL,
    SEARCH,
    WEATHER,
    assistant,
    call,
    codes,
    output,
    user,
)
from tests.stream.running import run


def test_instructions_and_leading_system_items_are_one_system_text() -> None:
    history = [{"role": "developer", "content": "B"}, {"role": "system", "content": "C"}, user("hi")]
    result = body({"instructions": "A", "input": history})
    assert result["system"] == "A\n\nB\n\nC"
    assert [message["role"] for message in result["messages"]] == ["user"]


def test_a_late_system_item_is_a_framed_user_message() -> None:
    result = body({"input": [user("one"), assistant("two"), {"role": "developer", "content": "Late."}]})
    assert result["messages"][-1] == {
        "role": "user",
        "content": [{"type": "text", "text": "<system>\nLate.\n</system>"}],
    }


def test_a_late_system_item_stays_a_system_message_if_the_quirk_allows_it() -> None:
    history = [
        user("one"),
        {"role": "system", "content": "Late."},
        user("two"),
        {"role": "system", "content": " "},
    ]
    result = body({"input": history}, quirks=Quirks(system_first=False))
    assert [message["role"] for message in result["messages"]] == ["user", "system", "user"]


def test_adjacent_turns_of_one_role_are_one_message() -> None:
    result = body({"input": [user("a"), user("b"), assistant("c"), assistant("d"), user("e")]})
    assert [message["role"] for message in result["messages"]] == ["user", "assistant", "user"]
    assert [len(message["content"]) for message in result["messages"]] == [2, 2, 1]


def test_the_results_of_a_tool_loop_are_one_message_after_the_calls() -> None:
    history = [
        user("?"),
        call("a", arguments='{"city":"Ulm"}'),
        call("b"),
        output("b", "rain"),
        output("a"),
        user("!"),
    ]
    messages = body({"input": history, "tools": [WEATHER]})["messages"]
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
    """Field F13."""
    parts = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": PIXEL}]
    result = body({"input": [user("?"), call(), output(output=parts)], "tools": [WEATHER]})
    assert result["messages"][-1]["content"][0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
    ]


@pytest.mark.parametrize("nothing", ["", " \n", [], [{"type": "input_text", "text": " "}]])
def test_an_empty_output_is_a_result_without_content(nothing: Any) -> None:
    result = body({"input": [user("?"), call(), output(output=nothing)], "tools": [WEATHER]})
    assert result["messages"][-1]["content"] == [{"type": "tool_result", "tool_use_id": "call_1"}]


def test_an_unanswered_call_has_a_placeholder() -> None:
    result = rendered({"input": [user("?"), call(), user("!")], "tools": [WEATHER]})
    assert result.body["messages"][-1]["content"][0]["content"] == NO_OUTPUT
    assert codes(result) == {"unanswered_call"}


def test_call_ids_are_valid_and_unique_in_the_conversation() -> None:
    history = [user("?")]
    for id in ("functions.weather:0", "functions weather:0", "functions.weather:0-pk2"):
        history += [call(id), output(id, id)]
    messages = body({"input": history, "tools": [WEATHER]})["messages"]
    blocks = [block for message in messages for block in message["content"]]
    ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert ids == ["functions_weather_0", "functions_weather_0_2", "functions_weather_0_3"]
    assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == ids


@pytest.mark.parametrize("arguments", ["{", "[]", '"x"'])
def test_arguments_that_are_not_an_object_are_wrapped_and_reported(arguments: str) -> None:
    result = rendered({"input": [user("?"), call(arguments=arguments), output()], "tools": [WEATHER]})
    assert result.body["messages"][1]["content"][0]["input"] == {"arguments": arguments}
    assert "odd_arguments" in codes(result)


def test_a_conversation_begins_and_ends_with_the_user() -> None:
    result = rendered({"input": [assistant("hello")]})
    texts = [message["content"][0]["text"] for message in result.body["messages"]]
    assert texts == [BEGINNING, "hello", CONTINUE]
    assert "turn_added" in codes(result)


@pytest.mark.parametrize("nothing", ["", " ", [], [user(" ")], [{"role": "system", "content": "x"}]])
def test_empty_input_is_rejected(nothing: Any) -> None:
    with pytest.raises(DecodeError) as caught:
        rendered({"input": nothing})
    assert caught.value.param == "input"


def test_thinking_is_sent_back_unchanged_and_in_order() -> None:
    redacted = thought({"type": "redacted_thinking", "data": "ZZ=="})
    history = [
        user("?"),
        signed(" a\n b ", "S1=="),
        redacted,
        assistant("so"),
        signed("", "S2"),
        call(),
        output(),
    ]
    assert body({"input": history, "tools": [WEATHER]})["messages"][1]["content"] == [
        {"type": "thinking", "thinking": " a\n b ", "signature": "S1=="},
        {"type": "redacted_thinking", "data": "ZZ=="},
        {"type": "text", "text": "so"},
        {"type": "thinking", "thinking": "", "signature": "S2"},
        {"type": "tool_use", "id": "call_1", "name": "weather", "input": {}},
    ]


def test_sealed_text_takes_precedence_over_the_clients_text() -> None:
    item = thought({"type": "thinking", "signature": "S", "thinking": "sealed"}, "shown")
    result = body({"input": [user("?"), item, assistant("so"), user("!")]})
    assert result["messages"][1]["content"][0]["thinking"] == "sealed"


def test_a_summary_replaces_missing_reasoning_text() -> None:
    item = {**signed("", "S"), "summary": [{"type": "summary_text", "text": "moved"}]}
    result = body({"input": [user("?"), item, assistant("so"), user("!")]})
    assert result["messages"][1]["content"][0]["thinking"] == "moved"


@pytest.mark.parametrize(
    "item",
    [
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        thought({"thoughtSignature": "x"}, dialect="gemini"),
        thought("text"),
        thought({"type": "thinking", "signature": ""}, "Hm."),
    ],
)
def test_unsigned_and_foreign_reasoning_is_left_out_and_reported_once(item: dict[str, Any]) -> None:
    result = rendered({"input": [user("?"), item, assistant("so"), user("!")]})
    assert [part["type"] for part in result.body["messages"][1]["content"]] == ["text"]
    diagnostics = [each for each in result.diagnostics if each.code == "reasoning_left_out"]
    assert [each.count for each in diagnostics] == [1]


def test_a_turn_does_not_end_with_thinking() -> None:
    result = rendered({"input": [user("?"), assistant("so"), signed("cut", "S"), user("!")]})
    assert [part["type"] for part in result.body["messages"][1]["content"]] == ["text"]
    assert "reasoning_left_out" in codes(result)


def test_old_reasoning_is_dropped_if_the_quirk_is_set() -> None:
    history = [user("?"), signed("a", "S1"), assistant("so"), user("!"), signed("b", "S2"), call(), output()]
    result = body({"input": history, "tools": [WEATHER]}, quirks=Quirks(drops_old_reasoning=True))
    kinds = [[part["type"] for part in message["content"]] for message in result["messages"]]
    assert kinds == [["text"], ["text"], ["text"], ["thinking", "tool_use"], ["tool_result"]]


def test_what_was_read_is_sent_back_unchanged() -> None:
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
    history = [user("?"), *items, output("toolu_1"), output("toolu_2")]
    assert body({"input": history, "tools": [WEATHER, SEARCH]})["messages"][1]["content"] == content


TURNS: list[list[dict[str, Any]]] = [
    [user("one")],
    [signed("a", "S1"), assistant("b"), call("c1"), call("c2"), output("c1"), output("c2", "rain")],
    [{"role": "developer", "content": "late"}],
    [signed("c", "S2"), call("c1-pk2"), output("c1-pk2")],
    [assistant("done"), user([{"type": "input_image", "image_url": PIXEL}])],
    [{"type": "reasoning", "summary": [], "encrypted_content": "foreign"}, assistant("ok"), user("bye")],
]


def blocks_in(result: dict[str, Any]) -> list[Any]:
    def bare(block: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in block.items() if key != "cache_control"}

    return [(message["role"], bare(block)) for message in result["messages"] for block in message["content"]]


@given(order=st.permutations(range(1, len(TURNS))), cached=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_longer_conversation_starts_with_the_shorter_one(order: list[int], cached: bool) -> None:
    turns = [TURNS[0], *(TURNS[index] for index in order)]
    request: dict[str, Any] = {"instructions": "A", "tools": [WEATHER]}
    if cached:
        request["prompt_cache_key"] = "k"
    before: dict[str, Any] = {}
    for length in range(1, len(turns) + 1):
        result = body({**request, "input": [item for turn in turns[:length] for item in turn]})
        if before:
            blocks = blocks_in(before)
            assert blocks_in(result)[: len(blocks)] == blocks
            assert (result["system"], result["tools"]) == (before["system"], before["tools"])
        before = result


THINKING = {"type": "thinking", "thinking": "a", "signature": "S"}
USE = {"type": "tool_use", "id": "c", "name": "weather", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c"}
TEXT = {"type": "text", "text": "a"}


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ([[TEXT]], False),
        ([[RESULT]], False),
        ([[TEXT], [USE], [RESULT]], True),
        ([[TEXT], [TEXT, USE], [RESULT, TEXT]], True),
        ([[TEXT], [THINKING, USE], [RESULT]], False),
        ([[TEXT], [{"type": "redacted_thinking", "data": "x"}, USE], [RESULT]], False),
        ([[TEXT], [USE], [TEXT]], False),
        ([[TEXT], [USE], [RESULT], [TEXT], [TEXT]], False),
        ([[TEXT], [THINKING, {"type": "server_tool_use"}]], False),
        ([[TEXT], [{"type": "server_tool_use"}]], True),
    ],
)
def test_a_tool_loop_without_thinking_is_recognized(contents: list[Any], expected: bool) -> None:
    roles = ["user", "assistant"] * 3
    messages = [{"role": role, "content": blocks} for role, blocks in zip(roles, contents, strict=False)]
    assert loop_without_thinking(messages) is expected
