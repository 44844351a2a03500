"""Recorded conversations with their usage.

The recordings contain only answers and usage. The questions, the one or two tools and the tool results are
short and public, and are repeated here. In the second half of the weather conversations, they are inferred
from the answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from penstock.dialects.registry import dialect
from penstock.parts.adapter import OpenResponsesStreamAdapter
from penstock.parts.parts import (
    ChatMessage,
    ChatTool,
    MessagePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from tests.dialects.recordings import files, frames, plan_for, translate


class Turn(Struct):
    """The messages of a request, and the input tokens that were charged."""

    messages: list[ChatMessage]
    input_tokens: int


class Conversation(Struct):
    """`inputs` are the texts of the user and the tools, in order, one before each answer.

    With `keeps_thinking`, the thinking of earlier turns was sent again. Editors do not do that.
    """

    model: str
    dialect: str
    recording: str
    tools: list[ChatTool]
    inputs: Sequence[str]
    system: str = ""
    keeps_thinking: bool = False

    @property
    def turns(self) -> Iterator[Turn]:
        messages: list[ChatMessage] = []
        recordings = [file for file in files(self.recording.partition("/")[0]) if self.recording in file]
        for text, file in zip(self.inputs, recordings, strict=False):
            calls = (
                [part for part in messages[-1].content if isinstance(part, ToolCallPart)] if messages else []
            )
            content: list[MessagePart] = [ToolResultPart(call.call_id, [TextPart(text)]) for call in calls]
            if not calls and not self.keeps_thinking:
                messages = [without_thinking(message) for message in messages]
            messages = [*messages, ChatMessage(Role.USER, content or [TextPart(text)])]
            parts, input_tokens = self._answer(file)
            yield Turn(messages, input_tokens)
            messages = [*messages, ChatMessage(Role.ASSISTANT, parts)]

    def _answer(self, file: str) -> tuple[list[MessagePart], int]:
        events = translate(dialect(self.dialect), plan_for(file, self.dialect), frames(file))
        adapter = OpenResponsesStreamAdapter(model=self.model)
        parts: list[MessagePart] = [part for event in events for part in adapter.feed(event)]
        parts += adapter.end()
        usage = adapter.result.usage
        return parts, usage.input_tokens if usage else 0


def without_thinking(message: ChatMessage) -> ChatMessage:
    content = [part for part in message.content if not isinstance(part, ThinkingPart)]
    return ChatMessage(message.role, content, message.name)


WEATHER = ChatTool(
    "weather",
    "Gets current weather for a location",
    {
        "type": "object",
        "properties": {
            "latitude": {"type": "string", "description": "Latitude (e.g., 52.5200)"},
            "longitude": {"type": "string", "description": "Longitude (e.g., 13.4050)"},
        },
        "required": ["latitude", "longitude"],
        "additionalProperties": False,
    },
)
ABOUT_WEATHER = (
    "What's the weather in Berlin? (52.5200, 13.4050)",
    "Current weather at 52.5200, 13.4050: 15°C, Wind: 10 km/h",
    "What's the weather in Paris? (48.8575, 2.3514)",
    "Current weather at 48.8575, 2.3514: 15°C, Wind: 10 km/h",
)
NOTHING = {"type": "object", "properties": {}}

CONVERSATIONS = [
    Conversation(
        model="grok-4.3",
        dialect="responses",
        recording="openai-responses/xai.ruby_llm.chat-function-calling",
        tools=[WEATHER],
        inputs=ABOUT_WEATHER,
        keeps_thinking=True,
    ),
    Conversation(
        model="qwen3",
        dialect="chat",
        recording="chat-completions/ollama.ruby_llm.chat-function-calling-ollama-qwen3",
        tools=[WEATHER],
        inputs=ABOUT_WEATHER,
    ),
    Conversation(
        model="gpt-5-nano",
        dialect="responses",
        recording="openai-responses/openai.ruby_llm.chat-function-calling",
        tools=[WEATHER],
        inputs=ABOUT_WEATHER,
    ),
    Conversation(
        model="command-a-03-2025",
        dialect="cohere",
        recording="cohere/cohere.ruby_llm.chat-function-calling",
        tools=[ChatTool("best_language_to_learn", "Gets the best language to learn", NOTHING)],
        inputs=(
            "What's the best language to learn?",
            "Ruby",
            "Tell me again: what's the best language to learn?",
        ),
        system="You must use tools whenever possible.",
    ),
    Conversation(
        model="openai.gpt-5.6-luna",
        dialect="responses",
        recording="openai-responses/bedrock.pydantic-ai.test-bedrock-mantle",
        tools=[ChatTool("first_tool", "", NOTHING), ChatTool("second_tool", "", NOTHING)],
        inputs=("Follow the tool instructions.", "first result", "second result"),
        system="Call first_tool. After receiving its result, call second_tool in a new model response. "
        "After receiving that result, answer with both results. Never call both tools in one response.",
    ),
]
