"""Messages of an editor, and the items that they become."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from penstock.parts.markers import marker_part
from penstock.parts.messages import TranslatedMessages, instructions_of, translate_messages
from penstock.parts.parts import (
    ChatMessage,
    DataPart,
    MessagePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from penstock.protocol.wire import to_builtins

MODEL, ENDPOINT = "acme/large", "https://gateway.example/v1"
PNG = b"\x89PNG\r\n\x1a\n"
LONG = "l" * 70


def user(*content: MessagePart | str, name: str | None = None) -> ChatMessage:
    return ChatMessage(Role.USER, parts(content), name)


def assistant(*content: MessagePart | str) -> ChatMessage:
    return ChatMessage(Role.ASSISTANT, parts(content))


def system(*content: MessagePart | str) -> ChatMessage:
    return ChatMessage(Role.SYSTEM, parts(content))


def parts(content: Iterable[MessagePart | str]) -> list[MessagePart]:
    return [TextPart(part) if isinstance(part, str) else part for part in content]


def call(call_id: str, name: str = "read_file", **input: Any) -> ToolCallPart:
    return ToolCallPart(call_id, name, input)


def result(call_id: str, *content: TextPart | DataPart | str, is_error: bool = False) -> ToolResultPart:
    return ToolResultPart(
        call_id, [TextPart(part) if isinstance(part, str) else part for part in content], is_error
    )


def marker(
    response_id: str, model: str = MODEL, endpoint: str = ENDPOINT, prompt: str = "", *system: str
) -> DataPart:
    """Return a marker; `prompt` and `system` are the instructions of its response."""
    system_messages = [ChatMessage(Role.SYSTEM, [TextPart(text)]) for text in system]
    return marker_part(model, endpoint, response_id, instructions_of(system_messages, prompt))


def thinking_end(id: str, text: str = "Hm.", model: str = MODEL, **fields: Any) -> ThinkingPart:
    """Return the last part of one of our thinking blocks."""
    item = {"type": "reasoning", "id": id, "summary": [{"type": "summary_text", "text": text}], **fields}
    return ThinkingPart("", id, {"openresponses": {"reasoning": item, "model": model}})


def reasoning(id: str, text: str = "Hm.", **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning", "id": id, "summary": [{"type": "summary_text", "text": text}], **fields}


def translate(*messages: ChatMessage, **options: Any) -> list[dict[str, Any]]:
    return items_of(translate_messages(messages, **options))


def items_of(translated: TranslatedMessages) -> list[dict[str, Any]]:
    return [to_builtins(item) for item in translated.input]


def codes(*messages: ChatMessage, **options: Any) -> list[str]:
    return [diagnostic.code for diagnostic in translate_messages(messages, **options).diagnostics]


def message_item(role: str, *content: dict[str, Any] | str) -> dict[str, Any]:
    """Return a message item."""
    parts = [_text(role, part) if isinstance(part, str) else part for part in content]
    return {"type": "message", "role": role, "content": parts}


def _text(role: str, text: str) -> dict[str, Any]:
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "input_text", "text": text}


def call_item(call_id: str, arguments: str = "{}", name: str = "read_file") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def output_item(call_id: str, output: Any = "ok") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def data_url(mime: str, data: bytes = PNG) -> str:
    return f"data:{mime};base64,{b64encode(data).decode()}"


IMAGE = {"type": "input_image", "image_url": data_url("image/png"), "detail": "auto"}


# Markers

SAME_TARGET: dict[str, Any] = {"model": MODEL, "endpoint": ENDPOINT}


def follow(*messages: ChatMessage, **options: Any) -> tuple[str | None, list[dict[str, Any]]]:
    translated = translate_messages(messages, **{**SAME_TARGET, **options})
    return translated.previous_response_id, items_of(translated)
