"""Counting requests and estimating usage, for items of every type and of unknown types."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DecodeError
from penstock.parts.messages import translate_messages
from penstock.parts.parts import ChatMessage, ChatTool, Role, TextPart
from penstock.protocol.items import Item, Message
from penstock.protocol.request import CreateResponse
from penstock.protocol.tools import FunctionTool
from penstock.protocol.wire import read
from penstock.stream.usage import UsageTally
from penstock.tokens import request_estimates
from penstock.tokens.counter import TokenCounter
from penstock.tokens.media import BYTES_PER_TOKEN as FILE_BYTES_PER_TOKEN
from penstock.tokens.media import DEFAULT_IMAGE_TOKENS, PER_PAGE, image_tokens
from penstock.tokens.request_estimates import BYTES_PER_TOKEN, MAX_EXACT_TEXT, count_input, estimate_usage
from penstock.tokens.tokenizer import tokenizer
from tests.dialects.recordings import needs_recordings
from tests.tokens.recorded_conversations import CONVERSATIONS, Conversation

MODEL = "gpt-4o"
FRAME, REPLY, CALL, RESULT = 4, 3, 7, 8
"""What gpt-4o's template adds around a message, an answer, a call and an output."""

JSON = dict[str, Any]


def request(*items: JSON, **fields: Any) -> CreateResponse:
    return read({"input": [*items], **fields}, CreateResponse)


def tokens(*items: JSON, model: str = MODEL, **fields: Any) -> int:
    """Count a request without the tokens that open the answer."""
    return count_input(request(*items, **fields), model, TokenCounter()) - REPLY


def text(text: str) -> int:
    return TokenCounter().count_text(MODEL, text)


def user(*content: JSON) -> JSON:
    return {"type": "message", "role": "user", "content": [*content]}


def data_url(data: bytes, mime: str) -> str:
    return f"data:{mime};base64,{b64encode(data).decode()}"


def png(width: int, height: int, size: int = 64) -> bytes:
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return head.ljust(size, b"\x01")


LONG = "The river was gated where the mill had stood, and a miller who opened it too fast paid for it. "
BINARY = bytes(range(256)) * 40


# Items


def test_a_plain_conversation_counts_as_openai_documents() -> None:
    texts = ["You are brief.", "What is a penstock?", "A gated pipe.", LONG]
    messages = [
        *(ChatMessage(Role.SYSTEM, [TextPart(texts[0])]), ChatMessage(Role.USER, [TextPart(texts[1])])),
        *(ChatMessage(Role.ASSISTANT, [TextPart(texts[2])]), ChatMessage(Role.USER, [TextPart(texts[3])])),
    ]
    counter = TokenCounter()
    expected = counter.count_conversation(MODEL, messages)
    assert expected.exact is (tokenizer("o200k_base") is not None)
    sent = CreateResponse(input=translate_messages(messages).input)
    assert count_input(sent, MODEL, counter) == expected.tokens
    roles = ["user", "assistant", "user"]
    items = [{"role": role, "content": each} for role, each in zip(roles, texts[1:], strict=True)]
    assert tokens(*items, instructions=texts[0]) + REPLY == expected.tokens


def test_text_input_is_a_message_and_missing_input_counts_zero() -> None:
    assert tokens(user({"type": "input_text", "text": LONG})) == text(LONG) + FRAME
    assert count_input(CreateResponse(input=LONG), MODEL, TokenCounter()) == text(LONG) + FRAME + REPLY
    assert count_input(CreateResponse(), MODEL, TokenCounter()) == REPLY
    assert tokens({"role": "user", "content": []}, {"role": "user", "content": ""}) == 0


def test_consecutive_text_parts_are_one_text() -> None:
    parts = [{"type": "input_text", "text": "pen"}, {"type": "output_text", "text": "stock"}]
    assert tokens(user(*parts, {"type": "refusal", "refusal": "!"})) == text("penstock!") + FRAME


READ: list[tuple[str, JSON, int]] = [
    (
        "function call",
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city":"Bern"}'},
        text("weather") + text('{"city":"Bern"}') + CALL,
    ),
    (
        "function call in a namespace",
        {"type": "function_call", "call_id": "c", "namespace": "mcp__sky", "name": "weather"},
        text("mcp__sky") + text("weather") + CALL,
    ),
    (
        "custom call",
        {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": LONG},
        text("apply_patch") + text(LONG) + CALL,
    ),
    ("output", {"type": "function_call_output", "call_id": "c", "output": LONG}, text(LONG) + RESULT),
    (
        "output in parts",
        {
            "type": "custom_tool_call_output",
            "call_id": "c",
            "output": [
                {"type": "input_text", "text": LONG},
                {"type": "input_image", "image_url": data_url(png(512, 512), "image/png")},
            ],
        },
        text(LONG) + image_tokens(MODEL, png(512, 512)) + RESULT,
    ),
    (
        "shell call",
        {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
        text("shell_call") + text('{"commands":["ls"]}') + CALL,
    ),
    (
        "shell output",
        {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a.txt"}]},
        text('[{"stdout":"a.txt"}]') + RESULT,
    ),
    (
        "local shell",
        {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}},
        text("local_shell_call") + text('{"command":["ls"]}') + CALL,
    ),
    ("local shell output", {"type": "local_shell_call_output", "output": "a.txt"}, text("a.txt") + RESULT),
    (
        "patch",
        {"type": "apply_patch_call", "call_id": "c", "operation": {"diff": "+a"}},
        text("apply_patch_call") + text('{"diff":"+a"}') + CALL,
    ),
    (
        "patch output",
        {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no file"},
        text("failed") + text("no file") + RESULT,
    ),
    (
        "tool search",
        {"type": "tool_search_call", "arguments": {"query": "mail"}},
        text("tool_search_call") + text('{"query":"mail"}') + CALL,
    ),
    (
        "web search",
        {"type": "web_search_call", "id": "ws_1", "action": {"query": "mail"}},
        text("web_search_call") + text('{"query":"mail"}') + CALL,
    ),
    (
        "reasoning that can be read",
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": LONG}],
        },
        text(LONG),
    ),
    ("sealed reasoning", {"type": "reasoning", "summary": [], "encrypted_content": "x" * 1500}, 100),
    (
        "sealed reasoning with a summary",
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "short"}],
            "encrypted_content": "x" * 1500,
        },
        100,
    ),
    ("compaction", {"type": "compaction", "encrypted_content": "x" * 1500}, 100),
    ("reference", {"type": "item_reference", "id": "msg_1"}, 0),
    (
        "unknown item",
        {"type": "acme:memory", "id": "item_1", "status": "completed", "notes": [LONG, 7]},
        text('{"type":"acme:memory","notes":["' + LONG + '",7]}'),
    ),
    (
        "unknown part",
        user({"type": "acme:mood", "mood": "glad"}),
        text('{"type":"acme:mood","mood":"glad"}') + FRAME,
    ),
]


@pytest.mark.parametrize(("item", "expected"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_an_item_is_counted_by_the_fields_that_a_model_reads(item: JSON, expected: int) -> None:
    assert tokens(item) == expected


SENT_AS_COUNTED = [conversation for conversation in CONVERSATIONS if not conversation.keeps_thinking]


@needs_recordings
@pytest.mark.parametrize("conversation", SENT_AS_COUNTED, ids=lambda conversation: conversation.model)
def test_a_recorded_conversation_counts_the_same_as_in_the_editor(conversation: Conversation) -> None:
    """The tests of that counter compare it with the usage of the same recordings."""
    counter, model = TokenCounter(), conversation.model
    tools = [
        FunctionTool(name=tool.name, description=tool.description, parameters=dict(tool.input_schema or {}))
        for tool in conversation.tools
    ]
    for turn in conversation.turns:
        sent = translate_messages(turn.messages, system_prompt=conversation.system, model=model)
        counted = count_input(CreateResponse(input=sent.input, tools=[*tools]), model, counter)
        expected = counter.count_conversation(model, turn.messages, conversation.tools, conversation.system)
        # Each text is rounded separately here.
        assert counted == pytest.approx(expected.tokens, abs=len(sent.input))


# Images and files


@pytest.mark.parametrize("model", [MODEL, "gpt-4o-mini", "claude-sonnet-4-5", "gemini-2.5-pro"])
@pytest.mark.parametrize("size", [(64, 64), (1024, 768), (4000, 3000)])
def test_an_image_is_counted_by_the_vendors_rules(model: str, size: tuple[int, int]) -> None:
    image = png(*size, size=400_000)
    part = {"type": "input_image", "image_url": data_url(image, "image/png")}
    counter = TokenCounter()
    assert count_input(request(user(part)), model, counter) == image_tokens(model, image) + FRAME + REPLY


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_image", "image_url": "https://example.com/a.png"},
        {"type": "input_image", "file_id": "file_1"},
        {"type": "input_image", "image_url": data_url(b"", "image/png")},
        {"type": "input_image", "image_url": "data:image/png;base64,!!!"},
        {"type": "input_image", "image_url": "file:///a.png"},
        {"type": "input_image"},
    ],
)
def test_an_image_of_unknown_size_counts_as_the_default(part: JSON) -> None:
    assert tokens(user(part)) == DEFAULT_IMAGE_TOKENS + FRAME


PDF = b"%PDF-1.7\n" + b"<< /Type /Page >>\n" * 3 + BINARY


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"file_data": data_url(LONG.encode(), "text/plain")}, text(LONG)),
        ({"file_data": data_url(LONG.encode(), "text/plain;charset=utf-8")}, text(LONG)),
        ({"file_data": b64encode(b"hello world!").decode()}, text("hello world!")),
        ({"file_data": urlsafe_b64encode("~~~???ÿÿÿ".encode()).decode()}, text("~~~???ÿÿÿ")),
        ({"file_data": LONG}, text(LONG)),
        ({"file_data": data_url(PDF, "application/pdf")}, 3 * PER_PAGE),
        ({"file_data": data_url(PDF, "application/pdf"), "filename": "a.pdf"}, 3 * PER_PAGE + text("a.pdf")),
        ({"file_data": data_url(BINARY, "audio/mpeg")}, -(-len(BINARY) // FILE_BYTES_PER_TOKEN)),
        ({"file_data": data_url(BINARY, "what")}, -(-len(BINARY) // FILE_BYTES_PER_TOKEN)),
        ({"file_url": "https://example.com/a.pdf"}, PER_PAGE),
        ({"file_id": "file_1"}, PER_PAGE),
    ],
)
def test_a_file_is_counted_by_its_content(part: JSON, expected: int) -> None:
    assert tokens(user({"type": "input_file", **part})) == expected + FRAME


def test_a_video_is_counted_by_its_bytes() -> None:
    video = {"type": "input_video", "video_url": data_url(BINARY, "video/mp4")}
    assert tokens(user(video)) == -(-len(BINARY) // FILE_BYTES_PER_TOKEN) + FRAME


@pytest.mark.parametrize("written", [b64encode(BINARY).decode(), data_url(BINARY, "audio/mpeg")])
def test_base64_in_an_unknown_item_is_not_counted_as_text(written: str) -> None:
    item = {"type": "acme:sound", "held": {"deep": [written]}}
    assert tokens(item) == text('{"type":"acme:sound","held":{"deep":[""]}}') + -(-len(BINARY) // 500)
    assert text(written) > 10 * tokens(item), "as text, it would count many times as much"


def test_an_image_in_an_unknown_item_is_counted_as_an_image() -> None:
    output = {"type": "computer_screenshot", "image_url": data_url(png(512, 512, 9000), "image/png")}
    item = {"type": "computer_call_output", "call_id": "c", "output": output}
    assert image_tokens(MODEL, png(512, 512)) < tokens(item) < image_tokens(MODEL, png(512, 512)) + 50


# Tools and formats

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Where"}, "days": {"type": "integer"}},
    "required": ["city"],
}
WEATHER = {"type": "function", "name": "weather", "description": "The weather", "parameters": SCHEMA}


def test_tools_are_counted_as_rendered_wherever_they_are_declared() -> None:
    rendered = TokenCounter().count_tools(MODEL, [ChatTool("weather", "The weather", SCHEMA)])
    assert rendered > 0
    assert tokens(tools=[WEATHER]) == rendered
    assert tokens({"type": "additional_tools", "tools": [WEATHER]}) == rendered
    assert tokens({"type": "tool_search_output", "tools": [WEATHER]}) == rendered + RESULT
    assert tokens(tools=[WEATHER, WEATHER]) == rendered, "a repeated name is sent once"


def test_tools_of_a_namespace_are_counted_under_its_name() -> None:
    space = {"type": "namespace", "name": "mcp__sky", "tools": [WEATHER]}
    expected = TokenCounter().count_tools(MODEL, [ChatTool("mcp__sky__weather", "The weather", SCHEMA)])
    assert tokens(tools=[space]) == expected


def test_a_grammar_is_part_of_a_custom_tool() -> None:
    plain = {"type": "custom", "name": "apply_patch", "description": "Edits files"}
    ruled = {**plain, "format": {"type": "grammar", "syntax": "lark", "definition": LONG}}
    assert tokens(tools=[ruled]) >= tokens(tools=[plain]) + text(LONG)


@pytest.mark.parametrize("tool", [{"type": "web_search"}, {"type": "acme:tool", "about": LONG}])
def test_other_tools_are_counted_by_their_json(tool: JSON) -> None:
    assert tokens(tools=[tool]) >= text(tool.get("about", "web_search"))


def test_the_schema_of_the_answer_is_counted() -> None:
    format = {"type": "json_schema", "name": "answer", "schema": {"const": LONG}}
    assert tokens(text={"format": format}) == text('{"const":"' + LONG + '"}')


# Usage of a turn


def output(*items: JSON) -> list[Item]:
    found = read({"input": [*items]}, CreateResponse).input
    assert isinstance(found, list)
    return found


ANSWER = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": LONG}]}
THOUGHT = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm, well"}]}
CALLED = {
    "type": "function_call",
    "call_id": "c",
    "name": "weather",
    "arguments": "{}",
    "status": "incomplete",
}


def test_an_estimate_has_input_output_and_reasoning_tokens() -> None:
    sent = request(user({"type": "input_text", "text": LONG}), tools=[WEATHER])
    used = estimate_usage(sent, MODEL, output(THOUGHT, ANSWER, CALLED), TokenCounter())
    assert used.estimated
    assert used.input_tokens == count_input(sent, MODEL, TokenCounter())
    assert used.reasoning_tokens == text("hm, well")
    assert used.output_tokens == text("hm, well") + text(LONG) + text("weather") + text("{}") + CALL
    assert used.cached_tokens is used.cache_write_tokens is None


def test_a_turn_without_output_used_its_input() -> None:
    used = estimate_usage(CreateResponse(input=LONG), MODEL, [], TokenCounter())
    assert (used.output_tokens, used.reasoning_tokens) == (0, 0)
    assert used.input_tokens == text(LONG) + FRAME + REPLY


# Any input

TYPES = [case[1]["type"] for case in READ] + ["input_image", "input_file", "input_video", "acme:x", ""]
FIELDS = ["content", "output", "arguments", "action", "operation", "summary", "encrypted_content", "tools"]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ODD = st.recursive(
    ANY_JSON | st.just(data_url(BINARY, "image/png")) | st.just("A" * 300) | st.just("data:;base64,"),
    lambda inner: st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@given(
    st.lists(st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=4), max_size=3),
    st.lists(st.sampled_from(TYPES), min_size=3, max_size=3),
    st.sampled_from([MODEL, "gpt-5", "claude-sonnet-4-5", "no-such-model", ""]),
)
def test_any_item_is_counted(fields: list[JSON], types: list[str], model: str) -> None:
    known = {"call_id": "c", "name": "n", "role": "user", "id": "i", "encrypted_content": "", "action": {}}
    items: list[Item] = []
    for each, type in zip(fields, types, strict=False):
        try:
            items += output({**known, "operation": {}, **each, "type": type})
        except DecodeError:  # rejected before it is counted
            continue
    counter = TokenCounter()
    used = estimate_usage(CreateResponse(input=items), model, items, counter)
    assert used.input_tokens is not None
    assert used.input_tokens >= 0
    tally = UsageTally()
    tally.take(used)
    assert tally.consistent


@pytest.mark.e2e
@pytest.mark.parametrize("depth", [20, 40, 800, 100_000])
def test_deeply_nested_items_are_counted(depth: int) -> None:
    nested: Any = LONG
    for _ in range(depth):
        nested = {"a": nested}
    item = {"type": "acme:deep", "held": nested}
    tool = {**WEATHER, "parameters": {"properties": nested}}
    sent = request(item, tools=[tool, {"type": "acme:tool", "held": nested}])
    assert 0 < count_input(sent, MODEL, TokenCounter()) < 10 * (text(LONG) + 4 * depth)


@pytest.mark.parametrize("text", ["\ud83d\ude00", "\ud800 alone", "\udfff" * 2_000_000])
def test_lone_surrogates_are_counted(text: str) -> None:
    sent = CreateResponse(input=[Message(role="user", content=text)], instructions=text)
    assert count_input(sent, MODEL, TokenCounter()) > REPLY


class CountingCounter(TokenCounter):
    """Records how much text it has counted."""

    characters = 0

    def count_text(self, model: str, text: str) -> int:
        self.characters += len(text)
        return super().count_text(model, text)

    def count_part(self, model: str, part: Any) -> int:
        self.characters += len(part.data)
        return super().count_part(model, part)

    def count_tools(self, model: str, tools: Any) -> int:
        tools = [*tools]
        self.characters += sum(len(tool.name) + len(tool.description) for tool in tools)
        return super().count_tools(model, tools)


HUGE = "word " * 500_000
BIG_PDF = b"%PDF-1.7\n" + b"<< /Type /Page >>".ljust(10_000, b"\xff") * 200


@pytest.mark.parametrize(
    ("sent", "least", "most"),
    [
        (request(user({"type": "input_text", "text": HUGE})), 500_000, 640_000),
        (request(*[user({"type": "input_text", "text": "word " * 50_000})] * 10), 490_000, 640_000),
        (request({"type": "acme:text", "text": HUGE}), 500_000, 640_000),
        (request(tools=[{**WEATHER, "description": HUGE}]), 500_000, 640_000),
        (
            request(user({"type": "input_file", "file_data": data_url(HUGE.encode(), "text/plain")})),
            5e5,
            64e4,
        ),
        (
            request(user({"type": "input_file", "file_data": data_url(("é" * 2_000_000).encode(), "a/b")})),
            *(900_000, 1_100_000),
        ),
        (
            request(user({"type": "input_file", "file_data": data_url(BIG_PDF, "application/pdf")})),
            *(190 * PER_PAGE, 210 * PER_PAGE),
        ),
        (
            request(user({"type": "input_video", "video_url": data_url(BINARY * 200, "video/mp4")})),
            *(4_000, 4_200),
        ),
    ],
)
def test_the_work_is_bounded_and_the_rest_is_estimated(
    sent: CreateResponse, least: float, most: float
) -> None:
    counter = CountingCounter()
    counted = count_input(sent, MODEL, counter)
    assert counter.characters <= MAX_EXACT_TEXT
    assert least <= counted <= most


def test_short_texts_after_a_huge_one_are_counted_exactly() -> None:
    items = [user({"type": "input_text", "text": each}) for each in (HUGE, LONG)]
    assert tokens(*items) == len(HUGE) // BYTES_PER_TOKEN + text(LONG) + 2 * FRAME


def test_the_bound_applies_to_the_whole_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_estimates, "MAX_EXACT_TEXT", 100)
    counter = CountingCounter()
    count_input(request(*[user({"type": "input_text", "text": "a b c d e"})] * 50), MODEL, counter)
    assert counter.characters == 99
