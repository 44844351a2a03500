"""Items as clients send them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from penstock.protocol.content import (
    InputText,
)
from penstock.protocol.items import (
    FunctionCallOutput,
    ItemReference,
    Message,
    ReasoningItem,
    ToolSearchCall,
    UnknownItem,
)
from tests.protocol.reading import back, item


# Items without a type
@pytest.mark.parametrize("type", [{}, {"type": None}, {"type": "message"}])
def test_an_item_with_a_role_is_a_message(type: dict[str, Any]) -> None:
    message = item({**type, "role": "user", "content": "Hi", "id": "msg_1"})
    assert message == Message(role="user", content="Hi", id="msg_1")
    assert back(message)["type"] == "message"


@pytest.mark.parametrize("type", [{}, {"type": None}, {"type": "item_reference"}])
def test_an_item_with_only_an_id_is_a_reference(type: dict[str, Any]) -> None:
    assert item({**type, "id": "msg_1"}) == ItemReference(id="msg_1")


def test_an_item_without_type_role_and_id_is_unknown() -> None:
    assert item({"call_id": "call_1"}) == UnknownItem(extra={"call_id": "call_1"})


# Content
def test_content_may_be_a_string_and_stays_one() -> None:
    assert back(item({"role": "user", "content": "Hi"}))["content"] == "Hi"


def test_a_tool_output_may_be_a_string_or_parts() -> None:
    text = item({"type": "function_call_output", "call_id": "call_1", "output": "5"})
    parts = item(
        {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "5"}]}
    )
    assert text == FunctionCallOutput(call_id="call_1", output="5")
    assert parts == FunctionCallOutput(call_id="call_1", output=[InputText(text="5")])


# Nulls
def test_a_reasoning_item_as_codex_returns_it() -> None:
    """Client 1: explicit nulls for absent fields; the schema forbids writing them."""
    sent: dict[str, Any] = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": None,
        "encrypted_content": None,
    }
    assert item(sent) == ReasoningItem(id="rs_1")
    assert back(item(sent)) == {"type": "reasoning", "id": "rs_1", "summary": []}


# Tools beyond functions
def test_a_tool_search_call_has_an_object_for_arguments() -> None:
    sent = {
        "type": "tool_search_call",
        "call_id": "call_1",
        "execution": "client",
        "arguments": {"query": "add", "limit": None},
    }
    call = item(sent)
    assert isinstance(call, ToolSearchCall)
    assert call.arguments == {"query": "add", "limit": None}
    assert back(call) == sent


def test_an_absent_value_is_false() -> None:
    assert not Message(role="user").id
    assert Message(role="user").id is UNSET
