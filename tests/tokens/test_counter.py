"""Counting parts, messages and conversations."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dialects.envelope import seal
from penstock.dialects.plan import Target
from penstock.parts.exchanges import without_repeats
from penstock.parts.markers import PRIVATE_MIMES
from penstock.parts.parts import (
    Audience,
    ChatMessage,
    ChatTool,
    DataPart,
    MessagePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from penstock.parts.reasoning import METADATA
from penstock.tokens.counter import Estimate, TokenCounter, why_estimated
from penstock.tokens.encodings import CHAT, HARMONY
from penstock.tokens.media import PER_PAGE
from penstock.tokens.tokenizer import tokenizer
from tests.tokens.image_files import png

EXACT, GUESSED = "gpt-4o", "acme-large"


def user(*content: MessagePart) -> ChatMessage:
    return ChatMessage(Role.USER, content)


def assistant(*content: MessagePart) -> ChatMessage:
    return ChatMessage(Role.ASSISTANT, content)


def thought(model: str, *texts: str, sealed: str = "", **more: Any) -> ThinkingPart:
    content = [{"type": "reasoning_text", "text": text} for text in texts]
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "content": content, **more}
    if sealed:
        reasoning["encrypted_content"] = sealed
    return ThinkingPart("shown", "rs_1", {METADATA: {"model": model, "reasoning": reasoning}})


@pytest.fixture
def counter() -> TokenCounter:
    return TokenCounter()


def test_a_conversation_counts_as_many_tokens_as_openai_charged(counter: TokenCounter) -> None:
    """Recorded usage of plain texts: 19 for gpt-5-mini and o4-mini, 18 for gpt-4.1-nano."""
    greeting = [user(TextPart("Say hi in Portuguese"))]
    for model in ("gpt-5-mini", "o4-mini"):
        estimate = counter.count_conversation(model, greeting, system_prompt="You are a helpful assistant")
        assert (estimate.tokens, estimate.exact) == (19, True)
    story = [user(TextPart("Tell me a three sentence bedtime story about a unicorn."))]
    assert counter.count_conversation("gpt-4.1-nano", story) == Estimate(18, True, 18.0)


def test_a_system_prompt_is_a_message(counter: TokenCounter) -> None:
    message = ChatMessage(Role.SYSTEM, [TextPart("Be brief.")])
    estimate = counter.count_conversation(EXACT, [], system_prompt="Be brief.")
    assert estimate == counter.count_conversation(EXACT, [message])
    assert estimate.tokens == counter.count_text(EXACT, "Be brief.") + CHAT.message + CHAT.reply


def test_consecutive_texts_are_one_text(counter: TokenCounter) -> None:
    apart = user(TextPart("unbeliev"), TextPart("able"))
    assert counter.count_message(EXACT, apart) == counter.count_message(EXACT, user(TextPart("unbelievable")))


def test_parts_that_are_not_for_the_model_count_zero(counter: TokenCounter) -> None:
    parts: list[MessagePart] = [
        TextPart("for the user", (Audience.USER,)),
        DataPart(b"for the user", "text/plain", (Audience.USER,)),
        DataPart(b"", "image/png"),
        ThinkingPart("of another model"),
        *(DataPart(b"private", mime) for mime in PRIVATE_MIMES),
    ]
    assert [counter.count_part(EXACT, part) for part in parts] == [0] * len(parts)
    for role in Role:
        assert counter.count_message(EXACT, ChatMessage(role, parts)) == 0


def test_an_unknown_part_counts_zero(counter: TokenCounter) -> None:
    strange: Any = object()
    assert counter.count_part(EXACT, strange) == 0
    assert counter.count_message(EXACT, user(strange)) == 0


def test_calls_and_results_count_as_many_tokens_as_openai_charged(counter: TokenCounter) -> None:
    """Recorded from gpt-4o-mini: 14 for the call, 32 more input with the result."""
    call = ToolCallPart("call_1", "get_weather", {"city": "Paris"})
    result = ToolResultPart("call_1", [TextPart('{"temperature":22,"condition":"sunny"}')])
    assert counter.count_part("gpt-4o-mini", call) == 14
    assert counter.count_part("gpt-4o-mini", result) == 18
    assert counter.count_message("gpt-4o-mini", assistant(call)) == 14
    assert counter.count_message("gpt-5", user(result)) == 10 + HARMONY.result


def test_a_message_with_calls_has_its_own_overhead(counter: TokenCounter) -> None:
    call = ToolCallPart("call_1", "look", {})
    with_text = counter.count_message(EXACT, assistant(TextPart("Looking."), call))
    apart = counter.count_message(EXACT, assistant(TextPart("Looking."))) + counter.count_part(EXACT, call)
    assert with_text == apart


def test_a_repeated_call_is_counted_once_because_it_is_sent_once(counter: TokenCounter) -> None:
    call, result = ToolCallPart("1", "look", {"at": "sea"}), ToolResultPart("1", [TextPart("a ship " * 50)])
    orphan = user(ToolResultPart("2", [TextPart("a whale")]))
    once = [assistant(call), user(result), orphan]
    twice = [assistant(call, call), user(result), user(result), orphan]
    assert counter.count_conversation(EXACT, twice) == counter.count_conversation(EXACT, once)
    apart = [*once, assistant(call), user(result)]  # after the result, it is a new call
    assert counter.count_conversation(EXACT, apart).tokens > counter.count_conversation(EXACT, once).tokens


def test_a_tool_result_counts_what_is_sent(counter: TokenCounter) -> None:
    def tokens(*content: TextPart | DataPart, is_error: bool = False) -> int:
        return counter.count_part(EXACT, ToolResultPart("c", content, is_error)) - CHAT.result

    assert tokens() == counter.count_text(EXACT, "{}")
    assert tokens(TextPart("one"), TextPart("two")) == 3
    assert tokens(TextPart("no"), is_error=True) > tokens(TextPart("no")) + 3
    strange: Any = ToolResultPart("c", [ThinkingPart("no")])  # type: ignore[list-item]
    assert counter.count_part(EXACT, strange) == counter.count_part(EXACT, ToolResultPart("c"))


@pytest.mark.parametrize(
    "input", [{"x": {1, 2}}, {"x": "\ud800"}, {1: 2, (3,): 4}, "text", None, {"n": 2**70}]
)
def test_arguments_that_are_not_json_are_counted(counter: TokenCounter, input: Any) -> None:
    assert counter.count_part(EXACT, ToolCallPart("c", "n", input)) > CHAT.call


def test_arguments_nested_too_deeply_count_zero(counter: TokenCounter) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert counter.count_part(EXACT, ToolCallPart("c", "n", {"x": deep})) == CHAT.call + 1


def test_images_are_counted_by_size_without_the_factor_of_a_family(counter: TokenCounter) -> None:
    part = DataPart.image(png(1000, 1000), "image/png")
    assert counter.count_part("claude-sonnet-4-5", part) == 1334
    assert counter.count_message(EXACT, user(part)) == 765 + CHAT.message


def test_text_files_are_counted_as_text(counter: TokenCounter) -> None:
    text = "The quick brown fox jumps over the lazy dog. " * 5
    for mime in ("text/plain; charset=utf-8", "application/json", "image/svg+xml"):
        assert counter.count_part(EXACT, DataPart.text(text, mime)) == counter.count_text(EXACT, text)


def test_other_files_are_counted_by_rules_of_thumb(counter: TokenCounter) -> None:
    for _ in range(2):
        assert (
            counter.count_part(EXACT, DataPart(b"%PDF-1.7 \xff /Type /Page ", "application/pdf")) == PER_PAGE
        )
        assert counter.count_part(EXACT, DataPart(b"\xff" * 5000, "audio/mpeg")) == 10
        assert counter.count_part("claude-4", DataPart(b"\xff" * 5000, "text/plain")) == 10


def test_an_image_of_the_assistant_is_sent_as_a_note(counter: TokenCounter) -> None:
    part = DataPart.image(png(1000, 1000), "image/png")
    for role in (Role.ASSISTANT, Role.SYSTEM):
        assert counter.count_message(EXACT, ChatMessage(role, [part])) < 20


def test_thinking_counts_if_it_is_sent_back(counter: TokenCounter) -> None:
    text = "The user wants the weather, so the tool must be called."
    part = thought(GUESSED, text)
    tokens = counter.count_text(GUESSED, text)
    assert counter.count_part(GUESSED, part) == tokens
    assert counter.count_message(GUESSED, assistant(part, part)) == tokens
    assert counter.count_message(GUESSED, user(part)) == 0
    assert counter.count_part("another", part) == 0


def test_encrypted_thinking_is_counted_by_its_length(counter: TokenCounter) -> None:
    """Recorded from OpenAI: 1,060 and 3,172 characters were 46 and 306 tokens."""
    for length, tokens in ((1060, 46), (3172, 306), (100, 0)):
        part = thought("gpt-5", sealed="x" * length)
        assert counter.count_part("gpt-5", part) == pytest.approx(tokens, abs=1)
    assert counter.count_part(GUESSED, thought(GUESSED, sealed="x" * 600)) == 100


@pytest.mark.parametrize("payload", ["x" * 600, {"data": "x" * 589}])
def test_the_envelope_of_encrypted_thinking_is_not_counted(counter: TokenCounter, payload: Any) -> None:
    sealed = seal(Target(model="m", vendor="acme", dialect="chat"), payload)
    assert counter.count_part(GUESSED, thought(GUESSED, sealed=sealed)) == 100


def test_the_larger_of_readable_and_encrypted_thinking_counts(counter: TokenCounter) -> None:
    text = "word " * 50
    readable = counter.count_part(GUESSED, thought(GUESSED, text))
    assert counter.count_part(GUESSED, thought(GUESSED, text, sealed="x" * 60)) == readable
    assert counter.count_part(GUESSED, thought(GUESSED, text, sealed="x" * 6000)) == 1000
    odd = thought(GUESSED, summary=[{"type": "strange", "text": 5}, {"type": "nothing"}])
    assert counter.count_part(GUESSED, odd) == 0


def test_tools_are_counted_and_are_not_exact(counter: TokenCounter) -> None:
    """Recorded from gpt-4o-mini: 64 with this tool, of which 33 are the tool's."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [ChatTool("get_weather", "Get current weather for a city.", schema)]
    assert counter.count_tools(EXACT, tools) == 35
    assert counter.count_tools(EXACT, []) == 0
    messages = [user(TextPart("What is the weather in Paris?"))]
    system = "Use the get_weather tool, then answer in one short sentence."
    estimate = counter.count_conversation("gpt-4o-mini", messages, tools, system)
    assert (estimate.tokens, estimate.exact) == (66, False)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GUESSED, user(TextPart("hello"))),
        (EXACT, user(DataPart.image(png(9, 9), "image/png"))),
        (EXACT, assistant(ToolCallPart("c", "n", {}))),
    ],
)
def test_only_plain_text_of_a_known_tokenizer_is_exact(
    counter: TokenCounter, model: str, message: ChatMessage
) -> None:
    assert not counter.count_conversation(model, [message]).exact


def test_a_learned_factor_applies_to_conversations_and_texts(counter: TokenCounter) -> None:
    text = "The quick brown fox jumps over the lazy dog. " * 1000
    before = counter.count_conversation(GUESSED, [user(TextPart(text))])
    counter.learn(GUESSED, before, round(before.tokens * 1.3))
    after = counter.count_conversation(GUESSED, [user(TextPart(text))])
    assert after.raw == before.raw
    assert after.tokens == pytest.approx(before.tokens * 1.3, rel=0.01)
    assert counter.count_text(GUESSED, text) == pytest.approx(before.tokens * 1.3, rel=0.02)
    assert counter.count_text("another", text) == pytest.approx(before.tokens, rel=0.01)


def test_nothing_is_learned_from_exact_counts(counter: TokenCounter) -> None:
    messages = [user(TextPart("hello"))]
    estimate = counter.count_conversation(EXACT, messages)
    counter.learn(EXACT, estimate, 500)
    assert counter.count_conversation(EXACT, messages) == estimate


def test_an_exact_tokenizer_learns_the_overhead_of_tools_only(counter: TokenCounter) -> None:
    tools, messages = [ChatTool("look", "Look.")], [user(TextPart("hello"))]
    estimate = counter.count_conversation(EXACT, messages, tools)
    counter.learn(EXACT, estimate, estimate.tokens + 40)
    assert counter.count_conversation(EXACT, messages, tools).tokens == estimate.tokens + 40
    assert counter.count_conversation(EXACT, messages).exact
    assert counter.count_text(EXACT, "hello world") == 2


def test_without_a_tokenizer_nothing_is_exact_and_everything_is_counted(
    counter: TokenCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rs_bpe.bpe", None)
    tokenizer.cache_clear()
    try:
        estimate = counter.count_conversation(EXACT, [user(TextPart("The quick brown fox."))])
        counter.learn(EXACT, estimate, 20)
        learned = counter.count_conversation(EXACT, [user(TextPart("The quick brown fox."))])
        why = why_estimated(EXACT)
    finally:
        tokenizer.cache_clear()
    assert not estimate.exact
    assert (estimate.tokens, learned.tokens) == (12, 20)
    assert why.endswith("run pip install 'penstock[tokens]'")


def test_only_counts_by_the_tokenizer_of_the_model_are_not_estimates() -> None:
    assert why_estimated(EXACT) == ""
    assert "estimate" in why_estimated("claude-opus-4")


texts = st.text(st.characters(), max_size=100)
audiences = st.lists(st.sampled_from(Audience), max_size=2).map(tuple)
mimes = st.sampled_from(
    ["image/png", "text/plain", "application/pdf", "usage", "x", "", "/", "text/\udc00", "é/é"]
)
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
data = st.builds(DataPart, st.binary(max_size=80), mimes, audiences)
written = st.builds(TextPart, texts, audiences)
metadata = st.none() | st.dictionaries(st.sampled_from([METADATA, "x"]), json, max_size=2)
parts: st.SearchStrategy[MessagePart] = (
    written
    | data
    | st.builds(ThinkingPart, texts | st.lists(texts, max_size=2), st.none() | texts, metadata)
    | st.builds(thought, st.sampled_from([EXACT, GUESSED]), texts, sealed=texts)
    | st.builds(ToolCallPart, texts, texts, st.dictionaries(texts, json, max_size=3))
    | st.builds(ToolResultPart, texts, st.lists(written | data, max_size=3), st.booleans())
)
messages = st.builds(ChatMessage, st.integers(0, 4), st.lists(parts, max_size=4), st.none() | texts)
models = st.sampled_from([EXACT, GUESSED, "gpt-5", "claude-4", "gemini-2.5-pro", ""])

SHARED = TokenCounter(cache_size=20)


@given(models, parts)
def test_every_part_has_a_count_and_always_the_same(model: str, part: MessagePart) -> None:
    tokens = SHARED.count_part(model, part)
    assert tokens >= 0
    assert tokens == TokenCounter().count_part(model, part)


@given(models, st.lists(messages, max_size=3), texts)
def test_every_conversation_has_a_count_and_grows_with_its_messages(
    model: str, conversation: list[ChatMessage], system_prompt: str
) -> None:
    counts = [
        SHARED.count_conversation(model, conversation[:length], (), system_prompt).tokens
        for length in range(len(conversation) + 1)
    ]
    assert counts == sorted(counts)
    sent = without_repeats(conversation)
    assert counts[-1] >= sum(SHARED.count_message(model, message) for message in sent) - len(sent)
    assert len(SHARED._cache) <= 20
