"""The content of a turn: in the form of the conventions, limited in size, without secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.gateway.telemetry.otel.content import MOST_CHARACTERS, content_of
from penstock.protocol.items import Item
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import Response
from penstock.protocol.wire import read
from tests.effort import examples

SYSTEM, INPUT, OUTPUT = "gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"

PARTS: dict[str, set[str]] = {
    "text": {"content"},
    "reasoning": {"content"},
    "tool_call": {"name"},
    "tool_call_response": {"response"},
}
"""The required fields of each type of part in the conventions' schemas. Any other type needs none."""


def items(*given: dict[str, Any]) -> list[Item]:
    return [read(each, Item) for each in given]  # type: ignore[arg-type]


def content(
    input: Any = "", *, output: list[Item] | None = None, reason: str = "stop", mask: Any = str, **fields: Any
) -> dict[str, Any]:
    request = read({"input": input, **fields}, CreateResponse)
    found = content_of(request, Response(id="r", output=output or []), reason, mask)
    decoded = {name: json.loads(value) for name, value in found.items()}
    for message in (*decoded.get(INPUT, ()), *decoded.get(OUTPUT, ())):
        assert {"role", "parts"} <= message.keys()
        for part in message["parts"]:
            assert PARTS.get(part["type"], set()) <= part.keys()
    return decoded


def test_a_prompt_and_instructions() -> None:
    assert content("Hi", instructions="Be kind") == {
        SYSTEM: [{"type": "text", "content": "Be kind"}],
        INPUT: [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}],
    }


def test_without_content_there_is_no_attribute() -> None:
    assert content("") == {}


def test_a_history_with_tools() -> None:
    history = [
        {"role": "developer", "content": "Rules"},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:,x"}],
        },
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "out"}]},
        {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "raw {"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
        {"type": "web_search_call", "status": "completed"},
    ]
    assert content(history)[INPUT] == [
        {"role": "developer", "parts": [{"type": "text", "content": "Rules"}]},
        {"role": "user", "parts": [{"type": "text", "content": "a"}, {"type": "image"}]},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": {"a": 1}}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "out"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c2", "name": "g", "arguments": "raw {"}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c2", "response": "done"}]},
        {"role": "assistant", "parts": [{"type": "web_search_call"}]},
    ]


def test_the_output_is_one_message() -> None:
    output = items(
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "A"}, {"type": "refusal", "refusal": "no"}],
        },
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{"},
    )
    assert content(output=output, reason="tool_call")[OUTPUT] == [
        {
            "role": "assistant",
            "finish_reason": "tool_call",
            "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "text", "content": "A"},
                {"type": "text", "content": "no"},
                {"type": "tool_call", "id": "c", "name": "f", "arguments": "{"},
            ],
        }
    ]


def test_of_a_long_history_the_newest_is_kept() -> None:
    history = [{"role": "user", "content": f"{number} " + "x" * 1000} for number in range(200)]
    found = content(history)[INPUT]
    assert 12 < len(found) < 20
    assert found[-1]["parts"][0]["content"].startswith("199 ")
    assert found[0]["parts"][0]["content"].endswith("…")


def test_of_many_small_items_the_newest_are_kept() -> None:
    history = [{"role": "user", "content": str(number)} for number in range(1000)]
    found = content(history)[INPUT]
    assert len(found) == 256
    assert found[-1]["parts"][0]["content"] == "999"


def test_secrets_are_masked_everywhere() -> None:
    secret, known = "sk-abcdefghij0123456789", "correct horse battery"
    words = f"my key {secret} and {known}"
    history = [
        {"role": "user", "content": words},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": json.dumps({"key": words})},
        {"type": "function_call_output", "call_id": "c", "output": words},
    ]
    found = content(
        history,
        instructions=words,
        output=items(
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]}
        ),
        mask=lambda text: text.replace(known, "[key]"),
    )
    assert set(found) == {SYSTEM, INPUT, OUTPUT}
    assert secret not in str(found)
    assert known not in str(found)
    assert str(found).count("[key]") == 10


def test_a_secret_at_the_limit_is_masked() -> None:
    text = "x" * (MOST_CHARACTERS - 8) + " sk-abcdefghij0123456789"
    (message,) = content(text)[INPUT]
    assert "sk-" not in message["parts"][0]["content"]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
item = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, texts),
    st.builds(
        lambda text, n: {"role": "user", "content": [{"type": "input_text", "text": text}] * n},
        texts,
        st.integers(0, 3),
    ),
    st.builds(
        lambda text: {"type": "function_call", "call_id": text, "name": text, "arguments": text}, texts
    ),
    st.builds(lambda text: {"type": "function_call_output", "call_id": text, "output": text * 1000}, texts),
    st.builds(lambda text: {"type": text or "x", "text": text}, texts),
    st.just({"type": "shell_call", "call_id": "c", "action": {"commands": ["a"]}}),
)


@settings(max_examples=examples(60))
@given(st.lists(item, max_size=20))
def test_every_input_is_valid_and_limited(history: list[dict[str, Any]]) -> None:
    known = items(*history)
    request = CreateResponse(input=known)
    found = content_of(request, Response(id="r", output=known), "stop", str)
    for name, value in found.items():
        json.loads(value)
        # Each character may take six in JSON; names, ids and types come on top.
        assert len(value) < 6 * 2 * MOST_CHARACTERS, name


@pytest.mark.parametrize("arguments", ["[" * 100_000, '{"a": 1', "1e999", '"\\ud800"'])
def test_arguments_that_cannot_be_decoded_stay_text(arguments: str) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
    ((part,),) = [message["parts"] for message in content([call])[INPUT]]
    assert isinstance(part["arguments"], str | float)
