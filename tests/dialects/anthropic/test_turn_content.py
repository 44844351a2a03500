"""A turn with server tools is sent back as Anthropic sent it, so that it can be continued."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.dialects.anthropic import DIALECT
from penstock.dialects.anthropic.messages import CONTINUE
from penstock.dialects.anthropic.render import render
from penstock.dialects.anthropic.turn_content import (
    TurnContent,
    content_of,
    is_paused,
    without_repeats,
    without_unanswered_uses,
)
from penstock.dialects.envelope import unseal
from penstock.dialects.history import Call, HistoryReasoning, HistoryText
from penstock.dialects.plan import Quirks, Target, UpstreamRequest
from penstock.sse import Frame
from penstock.stream.deltas import OpaqueReasoning
from tests.dialects.anthropic.rendered_requests import planned
from tests.dialects.anthropic.streams import block, call, finish, result, server_tool, start, text
from tests.dialects.block_stream_checks import as_frame
from tests.dialects.recording_checks import last
from tests.dialects.recordings import frames, needs_recordings, translate
from tests.dialects.render_cases import codes, output, user

Block = dict[str, Any]

PAUSE = "anthropic.pydantic-ai.test-anthropic-test-pause-turn-web-search-streaming-vcr.0.sse"
"""A recorded message with eleven searches, whose last one has no result yet."""

WEB = [{"type": "web_search_result", "url": "https://e.org", "title": "E", "encrypted_content": "x"}]
QUOTE = {"type": "web_search_result_location", "url": "https://e.org", "encrypted_index": "i"}
THINKING = block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "Let me "},
    {"type": "thinking_delta", "thinking": "look."},
    {"type": "signature_delta", "signature": "c2ln"},
)
SEARCH = [*server_tool(1, "web_search", {"query": "q"}), *result(2, 1, "web_search", WEB)]
CITED = block(
    3,
    {"type": "text", "text": ""},
    {"type": "citations_delta", "citation": QUOTE},
    {"type": "text_delta", "text": "It is."},
)
PENDING = server_tool(4, "web_search", {"query": "more"})

THINKING_SENT = {"type": "thinking", "thinking": "Let me look.", "signature": "c2ln"}
USE_SENT = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "q"},
    "server_name": "docs",
}
RESULT_SENT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": WEB}
CITED_SENT = {"type": "text", "text": "It is.", "citations": [QUOTE]}
PENDING_SENT = {**USE_SENT, "id": "srvtoolu_4", "input": {"query": "more"}}
PAUSED = [THINKING_SENT, USE_SENT, RESULT_SENT, CITED_SENT, PENDING_SENT]


def answered(*chunks: list[Block], reason: str) -> list[Block]:
    """The output items for a message of these blocks."""
    read = [start(), *(each for some in chunks for each in some), *finish(reason)]
    return output_of([as_frame(each) for each in read])


def output_of(read: list[Frame]) -> list[Block]:
    plan = replace(planned({"model": "m", "tools": [{"type": "web_search"}]}), accent="openai")
    items: list[Block] = last(translate(DIALECT, plan, read))["output"]
    return items


def followed_up(*items: Block) -> UpstreamRequest:
    return render(planned({"input": [user("?"), *items]}))


def test_a_paused_turn_is_continued_with_its_own_content() -> None:
    items = answered(THINKING, SEARCH, CITED, PENDING, reason="pause_turn")
    request = followed_up(*items)
    assert request.body["messages"][1:] == [{"role": "assistant", "content": PAUSED}]
    assert codes(request) == set()


def test_a_pause_after_a_pause_keeps_both_contents() -> None:
    first = answered(THINKING, SEARCH, PENDING, reason="pause_turn")
    second = answered(result(0, 4, "web_search", WEB), text(1, "So"), reason="pause_turn")
    (message,) = followed_up(*first, *second).body["messages"][1:]
    late = {**RESULT_SENT, "tool_use_id": "srvtoolu_4"}
    expected = [THINKING_SENT, USE_SENT, RESULT_SENT, PENDING_SENT, late, {"type": "text", "text": "So"}]
    assert message["content"] == expected


def test_a_turn_that_was_continued_to_its_end_is_complete() -> None:
    first = answered(THINKING, SEARCH, PENDING, reason="pause_turn")
    second = answered(result(0, 4, "web_search", WEB), text(1, "So."), reason="end_turn")
    request = followed_up(*first, *second, user("Thanks."))
    types = [each["type"] for each in request.body["messages"][1]["content"]]
    search = ["server_tool_use", "web_search_tool_result"]
    assert types == ["thinking", *search, *search, "text"]
    assert codes(request) == set()


def test_a_paused_turn_that_was_not_continued_has_no_open_use() -> None:
    items = answered(THINKING, SEARCH, CITED, PENDING, reason="pause_turn")
    request = followed_up(*items, user("Stop. What do you know so far?"))
    assert request.body["messages"][1]["content"] == PAUSED[:-1]
    assert codes(request) == {"server_tool_left_out"}


def test_server_tools_before_a_call_are_sent_back_with_it() -> None:
    items = answered(THINKING, SEARCH, call(5, '{"a":1}'), reason="tool_use")
    request = followed_up(*items, output("toolu_5"))
    *before, use = request.body["messages"][1]["content"]
    assert before == [THINKING_SENT, USE_SENT, RESULT_SENT]
    assert (use["type"], use["id"]) == ("tool_use", "toolu_5")
    assert "item_left_out" not in codes(request)


def test_a_turn_that_ended_normally_is_its_text() -> None:
    items = answered(SEARCH, CITED, reason="end_turn")
    assert [item["type"] for item in items] == ["web_search_call", "message"]
    request = followed_up(*items, user("Thanks."))
    assert request.body["messages"][1]["content"] == [{"type": "text", "text": "It is."}]
    assert codes(request) == {"item_left_out"}


def test_a_turn_without_server_tools_is_not_sealed_as_a_whole() -> None:
    items = answered(THINKING, text(1, "Hi."), reason="pause_turn")
    assert [item["type"] for item in items] == ["reasoning", "message"]
    assert followed_up(*items).body["messages"][-1]["content"] == [{"type": "text", "text": CONTINUE}]


def test_old_thinking_is_left_out_of_a_sealed_turn_if_the_quirk_is_set() -> None:
    items = answered(THINKING, SEARCH, PENDING, reason="pause_turn")
    quirks = Quirks(drops_old_reasoning=True)
    request = render(planned({"input": [user("?"), *items, user("!")]}, quirks=quirks))
    assert request.body["messages"][1]["content"] == [USE_SENT, RESULT_SENT]


@needs_recordings
def test_a_recorded_pause_is_continued_with_every_block_as_it_was_received() -> None:
    file = f"anthropic-messages/{PAUSE}"
    items = output_of(frames(file))
    request = followed_up(*items)
    sent = request.body["messages"][-1]["content"]
    recorded = [each for each in recorded_blocks(file) if each["type"] != "text" or each["text"].strip()]
    assert sent == recorded
    assert sent[-1]["type"] == "server_tool_use"
    assert codes(request) == set()


def recorded_blocks(file: str) -> list[Block]:
    """The blocks of a recording, assembled here a second time."""
    blocks: dict[int, Block] = {}
    inputs: dict[int, str] = {}
    for frame in frames(file):
        event = json.loads(frame.data)
        if event["type"] == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif event["type"] == "content_block_delta":
            index, delta = event["index"], event["delta"]
            for name in ("text", "thinking", "signature"):
                if name in delta:
                    blocks[index][name] = blocks[index].get(name, "") + delta[name]
            if "citation" in delta:
                blocks[index].setdefault("citations", []).append(delta["citation"])
            inputs[index] = inputs.get(index, "") + delta.get("partial_json", "")
    for index, fragments in inputs.items():
        if fragments:
            blocks[index]["input"] = json.loads(fragments)
    return list(blocks.values())


# The parts


TARGET = Target(model="m", dialect="anthropic")


def sealed_piece(content: list[Block], *, paused: bool = False) -> HistoryReasoning:
    payload: Block = {"type": "content", "content": content}
    return HistoryReasoning(payload={**payload, "paused": True} if paused else payload, attached="turn")


def test_content_is_collected_until_a_call_and_starts_again_after_it() -> None:
    content = TurnContent(TARGET)
    content.start(0, {"type": "server_tool_use", "id": "a", "name": "n", "input": {}})
    content.feed(0, {"partial_json": "{"})
    content.start(1, {"type": "tool_use", "id": "t"})
    content.feed(1, {"partial_json": "{}"})
    (opaque,) = content.before_call()
    assert isinstance(opaque, OpaqueReasoning)
    envelope = unseal(opaque.data)
    assert envelope is not None
    assert envelope.attached == "turn"
    assert envelope.payload["content"] == [{"type": "server_tool_use", "id": "a", "name": "n", "input": {}}]
    assert content.before_call() == content.at_end(is_paused=True) == []


def test_blocks_that_anthropic_refuses_are_not_sealed() -> None:
    content = TurnContent(TARGET)
    content.start(0, {"type": "text", "text": " "})
    content.start(1, {"type": "thinking", "thinking": "unsigned"})
    content.start(2, {"type": "redacted_thinking", "data": "d"})
    content.start(3, {"type": "mcp_tool_use", "id": "m", "input": {}})
    (opaque,) = content.at_end(is_paused=True)
    assert isinstance(opaque, OpaqueReasoning)
    envelope = unseal(opaque.data)
    assert envelope is not None
    assert [each["type"] for each in envelope.payload["content"]] == ["redacted_thinking", "mcp_tool_use"]


@pytest.mark.parametrize(
    "piece",
    [
        HistoryText("t"),
        HistoryReasoning(payload={"type": "content", "content": []}),
        HistoryReasoning(payload={"signature": "s"}, attached="turn"),
        HistoryReasoning(payload="text", attached="turn"),
    ],
)
def test_only_a_sealed_turn_has_content(piece: Any) -> None:
    assert content_of(piece) is None
    assert not is_paused(piece)


def test_pieces_that_a_sealed_turn_contains_are_sent_once() -> None:
    thought = HistoryReasoning(payload={"signature": "s"})
    other = HistoryReasoning(payload={"signature": "other"})
    turn = sealed_piece([{"type": "thinking", "signature": "s"}, {"type": "text", "text": "Hi there."}])
    pieces: list[Any] = [
        HistoryText("Before."),
        other,
        thought,
        HistoryText("Hi there."),
        turn,
        HistoryText("Hi there."),
    ]
    assert without_repeats(pieces) == [HistoryText("Before."), other, turn, HistoryText("Hi there.")]
    called: list[Any] = [Call("c", "n", "{}"), turn, sealed_piece([])]
    assert without_repeats(called) == called


def test_uses_without_a_result_are_removed() -> None:
    assert without_unanswered_uses([USE_SENT, RESULT_SENT, PENDING_SENT]) == [USE_SENT, RESULT_SENT]
