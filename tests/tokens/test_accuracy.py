"""Estimates compared with the real usage: less than 5 percent off after two turns."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.parts.parts import (
    ChatMessage,
    ChatTool,
    MessagePart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from penstock.tokens.counter import TokenCounter
from penstock.tokens.encodings import CL100K
from penstock.tokens.tokenizer import count
from tests.dialects.recordings import needs_recordings
from tests.tokens.recorded_conversations import CONVERSATIONS, Conversation

LIMIT = 0.05


@needs_recordings
@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda conversation: conversation.model)
def test_after_two_turns_the_estimate_of_a_recorded_conversation_is_close(conversation: Conversation) -> None:
    counter, model = TokenCounter(), conversation.model
    errors = []
    for turn in conversation.turns:
        estimate = counter.count_conversation(model, turn.messages, conversation.tools, conversation.system)
        errors.append(abs(estimate.tokens / turn.input_tokens - 1))
        counter.learn(model, estimate, turn.input_tokens)
    assert len(errors) >= 3
    assert max(errors[2:]) < LIMIT


SOURCES = {
    "prose": "The river was gated where the mill had stood, and whoever opened it too fast paid for it. ",
    "code": "def feed(self, frame: Frame) -> list[Delta]:\n    return self._read(frame) if frame else []\n",
    "json": '{"id": 18442, "path": "src/app/main.py", "line": 118, "ok": true, "note": null}\n',
    "german": "Wer den Schieber zu schnell öffnet, bezahlt für die Überschwemmung der Wiesen am Wehr. ",
    "russian": "Река была перекрыта там, где раньше стояла мельница, и вода поднималась медленно. ",
    "chinese": "河水在旧磨坊的地方被拦住了,水位慢慢地上升,没有人敢打开闸门。",
}


class Provider:
    """An endpoint with another tokenizer (cl100k), template and rendering of tools, and a hidden prompt."""

    def __init__(self, overhead: int, per_message: int, scale: float) -> None:
        self.overhead, self.per_message, self.scale = overhead, per_message, scale

    def charge(self, messages: list[ChatMessage], tools: list[ChatTool]) -> int:
        tokens = sum(count(CL100K, f"{tool.name}{tool.description}{tool.input_schema}") for tool in tools)
        for message in messages:
            tokens += self.per_message
            tokens += sum(count(CL100K, self._written(part)) for part in message.content)
        return self.overhead + round(tokens * self.scale)

    @staticmethod
    def _written(part: MessagePart) -> str:
        if isinstance(part, ToolCallPart):
            return f"<call><name>{part.name}</name>{dict(part.input)}</call>"
        if isinstance(part, ToolResultPart):
            return "".join(each.value for each in part.content if isinstance(each, TextPart))
        return part.value if isinstance(part, TextPart) else ""


def agent(dice: random.Random) -> tuple[list[ChatTool], list[list[ChatMessage]]]:
    """Return the tools and the turns of an agent that reads files, which stay in the conversation.

    The prompt and the tools are English, as an editor's are; users write in their own language.
    """
    language = dice.choice(["prose", "german", "russian", "chinese"])

    def some(most: int, *kinds: str) -> str:
        return SOURCES[dice.choice(kinds)] * dice.randint(1, most)

    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "Where."}}}
    tools = [ChatTool(f"tool_{number}", SOURCES["prose"], schema) for number in range(dice.randint(20, 60))]
    messages = [
        ChatMessage(Role.SYSTEM, [TextPart(SOURCES["prose"] * dice.randint(50, 200))]),
        ChatMessage(Role.USER, [TextPart(some(5, language))]),
    ]
    turns = [messages]
    for number in range(7):
        called = ToolCallPart(f"call_{number}", "tool_1", {"path": "src/app/main.py"})
        read = ToolResultPart(called.call_id, [TextPart(some(8, "code", "json", language))])
        answer = ChatMessage(Role.ASSISTANT, [TextPart(some(2, language)), called])
        messages = [*messages, answer, ChatMessage(Role.USER, [read])]
        turns.append(messages)
    return tools, turns


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    dice=st.randoms(use_true_random=False),
    overhead=st.integers(0, 1500),
    per_message=st.integers(3, 12),
    scale=st.floats(0.9, 1.4),
)
def test_after_two_turns_the_estimate_of_a_simulated_provider_is_close(
    dice: random.Random, overhead: int, per_message: int, scale: float
) -> None:
    counter, provider = TokenCounter(), Provider(overhead, per_message, scale)
    tools, turns = agent(dice)
    for number, messages in enumerate(turns):
        estimate = counter.count_conversation("acme-large", messages, tools)
        real = provider.charge(messages, tools)
        if number >= 2:
            assert estimate.tokens == pytest.approx(real, rel=LIMIT)
        counter.learn("acme-large", estimate, real)
