"""The content of a turn in the form of the GenAI conventions, for operators who have turned it on.

The size of each attribute is limited, and so is the work: of a long history, only the newest items are
looked at. What looks like a secret is masked. Files and images are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import UNSET

from penstock.likely_secrets import mask_likely_secrets
from penstock.protocol.items import (
    AgentMessage,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    ReasoningItem,
)
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import Response

MOST_CHARACTERS = 16 * 1024
"""Characters of text in one attribute."""
_MOST_MESSAGES = 256
_LONGEST_SECRET = 1024
"""Characters beyond the limit that are looked at, so that a secret at the limit is recognised."""
_CUT = "…"

Mask = Callable[[str], str]
"""Masks the secrets that are known."""

_Part = dict[str, Any]


class _Budget:
    """How much text an attribute may still take."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self.left = MOST_CHARACTERS

    def text(self, text: str) -> str:
        """Return a text without secrets, cut to what is left."""
        masked = mask_likely_secrets(self._mask(text[: self.left + _LONGEST_SECRET]))
        if len(masked) > self.left:
            masked = masked[: self.left] + _CUT
        self.left = max(self.left - len(masked), 0)
        return masked


def content_of(request: CreateResponse, response: Response, finish_reason: str, mask: Mask) -> dict[str, str]:
    """Return the attributes with the content of a turn, each as JSON."""
    found: dict[str, Any] = {}
    if request.instructions:
        found["gen_ai.system_instructions"] = [_text(_Budget(mask).text(request.instructions))]
    if request.input:
        items = (
            [Message(role="user", content=request.input)] if isinstance(request.input, str) else request.input
        )
        found["gen_ai.input.messages"] = _newest_messages(items, _Budget(mask))
    if response.output:
        found["gen_ai.output.messages"] = [_output_message(response.output, finish_reason, _Budget(mask))]
    return {name: msgspec.json.encode(value).decode() for name, value in found.items() if value}


def _newest_messages(items: Sequence[Item], budget: _Budget) -> list[Any]:
    found: list[Any] = []
    for item in reversed(items):
        if not budget.left or len(found) == _MOST_MESSAGES:
            break
        if parts := _parts(item, budget):
            found.append({"role": _role(item), "parts": parts})
    return found[::-1]


def _output_message(items: Sequence[Item], finish_reason: str, budget: _Budget) -> Any:
    """Return the output as one message, because it is one choice of the model."""
    parts: list[_Part] = []
    for item in items[:_MOST_MESSAGES]:
        if not budget.left:
            break
        parts += _parts(item, budget)
    return {"role": "assistant", "parts": parts, "finish_reason": finish_reason}


def _role(item: Item) -> str:
    if isinstance(item, Message):
        return item.role
    return "tool" if item.type.endswith("_output") else "assistant"


def _parts(item: Item, budget: _Budget) -> list[_Part]:
    match item:
        case Message() | AgentMessage():
            return _content(item.content, budget, "text")
        case ReasoningItem():
            return _content([*(item.content or ()), *item.summary], budget, "reasoning")
        case FunctionCall():
            return [_call(item.call_id, item.name, budget.text(item.arguments))]
        case CustomToolCall():
            return [_call(item.call_id, item.name, budget.text(item.input))]
        case FunctionCallOutput() | CustomToolCallOutput():
            output = item.output if isinstance(item.output, str) else _joined(item.output)
            id = None if item.call_id is UNSET else item.call_id
            return [{"type": "tool_call_response", "id": id, "response": budget.text(output)}]
    return [{"type": item.type}]


def _content(content: str | list[Any], budget: _Budget, kind: str) -> list[_Part]:
    if isinstance(content, str):
        return [_text(budget.text(content), kind)] if content else []
    found: list[_Part] = []
    for part in content:
        text = _text_in(part)
        if text:
            found.append(_text(budget.text(text), kind))
        elif text is None:
            found.append({"type": part.type.removeprefix("input_")})
        if not budget.left:
            break
    return found


def _joined(content: list[Any]) -> str:
    return "\n".join(text for part in content if (text := _text_in(part)))


def _text_in(part: Any) -> str | None:
    """Return the text of a content part; None if it has none, like an image."""
    for name in ("text", "refusal"):
        text = getattr(part, name, None)
        if isinstance(text, str):
            return text
    return None


def _text(text: str, kind: str = "text") -> _Part:
    return {"type": kind, "content": text}


def _call(id: str, name: str, arguments: str) -> _Part:
    """Return a tool call. Its arguments are an object if they are still valid JSON."""
    value: str | msgspec.Raw = arguments
    with suppress(msgspec.DecodeError, RecursionError, UnicodeError):
        msgspec.json.decode(arguments)
        value = msgspec.Raw(arguments.encode())
    return {"type": "tool_call", "id": id, "name": name, "arguments": value}
