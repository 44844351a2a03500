"""Reading Anthropic's streams."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.anthropic import DIALECT
from penstock.dialects.anthropic.finishes import FINISHES
from penstock.dialects.envelope import unseal
from penstock.dialects.plan import Dialect
from penstock.sse import Frame
from penstock.stream.deltas import (
    BlockEnd,
    BlockKind,
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
    ItemDelta,
    OpaqueReasoning,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
    UsageDelta,
)
from tests.dialects.block_stream_checks import (
    as_frame,
    byte_cuts,
    check_cuts,
    check_noise,
    check_splits,
    chunk_borders,
    json_values,
    objects,
    smallest,
)
from tests.dialects.exceptions_anthropic import EXCEPTIONS
from tests.dialects.recording_checks import assert_agrees, plan, read, response
from tests.dialects.recordings import files, needs_recordings, translate

FOLDER = "anthropic-messages"
FILES = files(FOLDER)

Chunk = dict[str, Any]

STOP: Chunk = {"type": "message_stop"}
PING: Chunk = {"type": "ping"}


def start(**message: Any) -> Chunk:
    return {"type": "message_start", "message": {"id": "msg_1", "content": [], **message}}


def block(index: int, content: Chunk, *deltas: Chunk, stop: bool = True) -> list[Chunk]:
    begin: Chunk = {"type": "content_block_start", "index": index, "content_block": content}
    middle: list[Chunk] = [{"type": "content_block_delta", "index": index, "delta": each} for each in deltas]
    return [begin, *middle, *([{"type": "content_block_stop", "index": index}] if stop else [])]


def text(index: int, *pieces: str, stop: bool = True) -> list[Chunk]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": ""}, *deltas, stop=stop)


def thinking(index: int, *pieces: str, signature: str = "", stop: bool = True) -> list[Chunk]:
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    signed = [{"type": "signature_delta", "signature": signature}] if signature else []
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas, *signed, stop=stop)


def call(index: int, *pieces: str, input: Any = None, stop: bool = True) -> list[Chunk]:
    content = {"type": "tool_use", "id": f"toolu_{index}", "name": "get", "input": input or {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, content, *deltas, stop=stop)


def server_tool(index: int, name: str, input: Any, kind: str = "server_tool_use") -> list[Chunk]:
    content = {"type": kind, "id": f"srvtoolu_{index}", "name": name, "input": {}, "server_name": "docs"}
    return block(index, content, {"type": "input_json_delta", "partial_json": json.dumps(input)})


def result(index: int, of: int, kind: str, content: Any, **more: Any) -> list[Chunk]:
    told = {"type": f"{kind}_tool_result", "tool_use_id": f"srvtoolu_{of}", "content": content, **more}
    return block(index, told)


def finish(reason: str | None = "end_turn", **more: Any) -> list[Chunk]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, **more}, STOP]


def deltas_of(chunks: list[Any]) -> list[Delta]:
    return read(DIALECT, chunks)


def output(*chunks: list[Chunk], status: str = "completed") -> list[dict[str, Any]]:
    """The items of a whole message made of these blocks."""
    snapshot = response(DIALECT, [start(), *(each for group in chunks for each in group)])
    assert snapshot["status"] == status
    items: list[dict[str, Any]] = snapshot["output"]
    return items


def payload(data: str) -> Any:
    envelope = unseal(data)
    assert envelope is not None
    assert (envelope.dialect, envelope.attached) == ("anthropic", "block")
    return envelope.payload


# The recordings


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_a_recording_is_read_as_the_oracles_read_it(file: str) -> None:
    assert_agrees(DIALECT, file, EXCEPTIONS)


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_noise_changes_nothing(file: str) -> None:
    noise = [Frame("ping", '{"type": "ping"}'), as_frame({"type": "content_block_sparkle", "index": 0})]
    check_noise(DIALECT, file, noise)


@needs_recordings
@pytest.mark.parametrize("file", [file for file in FILES if file.endswith(".sse")])
def test_splits_change_nothing(file: str) -> None:
    check_splits(file)


def _said(chunk: Chunk) -> tuple[str, str]:
    inside = chunk.get("delta") or chunk.get("content_block") or {}
    if inside.get("type") == "redacted_thinking":
        return "", ""
    return inside.get("text", ""), inside.get("thinking", "")


@needs_recordings
@pytest.mark.parametrize("file", smallest(FOLDER, 60))
def test_nothing_before_a_cut_is_lost(file: str) -> None:
    check_cuts(DIALECT, file, chunk_borders(file), _said)
    check_cuts(DIALECT, file, byte_cuts(file), _said)


# Text


def test_text_blocks_that_follow_each_other_are_one_message() -> None:
    items = output(text(0, "A", "B"), text(1, "C"), [PING], text(2, "D"), finish())
    assert [item["content"][0]["text"] for item in items] == ["ABCD"]


def test_text_after_another_item_is_a_new_message() -> None:
    items = output(text(0, "A"), thinking(1, "hm"), text(2, "B"), finish())
    assert [item["type"] for item in items] == ["message", "reasoning", "message"]


def test_a_message_ends_before_the_next_item_begins() -> None:
    told = deltas_of([start(), *text(0, "A"), *call(1, "{}"), *finish("tool_use")])
    assert told[1:4] == [
        TextDelta("A", 0),
        BlockEnd(0, BlockKind.TEXT),
        ToolCallDelta(1, "toolu_1", "get"),
    ]


def test_blocks_that_nobody_sees_do_not_divide_a_message() -> None:
    advice = result(2, 1, "advisor", {"type": "advisor_result", "text": "no"})
    items = output(text(0, "A"), server_tool(1, "advisor", {}), advice, text(3, "B"), finish())
    assert [item["content"][0]["text"] for item in items] == ["AB"]


def test_blocks_may_interleave() -> None:
    pieces = text(0, "A", "B", stop=False), call(1, '{"a":', "1}")
    mixed = [each for pair in zip(*pieces, strict=False) for each in pair]
    items = output(mixed, [*pieces[1][3:]], finish("tool_use"))
    assert items[0]["arguments"] == '{"a":1}'
    assert [item["content"][0]["text"] for item in items[1:]] == ["AB"]


def test_a_citation_spans_the_text_of_its_block() -> None:
    web = {"type": "web_search_result_location", "url": "https://e.org", "title": "E", "cited_text": "x"}
    page = {"type": "page_location", "document_title": "R", "start_page_number": 5}
    first = {"type": "citations_delta", "citation": web}
    last = {"type": "citations_delta", "citation": page}
    cited = block(1, {"type": "text", "text": ""}, first, {"type": "text_delta", "text": "cited"}, last)
    (message,) = output(text(0, "Not "), cited, text(2, ", not."), finish())
    one, two = message["content"][0]["annotations"]
    assert (one["type"], one["url"], one["title"], one["cited_text"]) == (
        "url_citation",
        "https://e.org",
        "E",
        "x",
    )
    assert message["content"][0]["text"][one["start_index"] : one["end_index"]] == "cited"
    assert two == page


def test_a_cut_keeps_the_citations_that_came() -> None:
    delta = {"type": "citations_delta", "citation": {"type": "x", "url": "https://e.org"}}
    chunks = [start(), *block(0, {"type": "text", "text": "cited"}, delta, stop=False)]
    (message,) = response(DIALECT, chunks)["output"]
    assert len(message["content"][0]["annotations"]) == 1


# Thinking


def test_a_signature_is_kept_byte_for_byte_with_its_thinking() -> None:
    reasoning, _ = output(thinking(0, "let ", "me", signature="sig/+=="), text(1, "A"), finish())
    assert reasoning["content"][0]["text"] == "let me"
    assert payload(reasoning["encrypted_content"]) == {
        "type": "thinking",
        "thinking": "let me",
        "signature": "sig/+==",
    }


def test_a_signature_without_thinking_is_an_item() -> None:
    items = output(thinking(0, signature="s1"), thinking(1, signature="s2"), text(2, "A"), finish())
    assert [payload(item["encrypted_content"])["signature"] for item in items[:2]] == ["s1", "s2"]


def test_redacted_thinking_is_an_item_of_its_own() -> None:
    redacted = block(0, {"type": "redacted_thinking", "data": "xyz="})
    empty = block(1, {"type": "redacted_thinking"})
    items = output(redacted, empty, thinking(2, "hm", signature="s"), finish())
    payloads = [payload(item["encrypted_content"]) for item in items]
    assert payloads == [
        {"type": "redacted_thinking", "data": "xyz="},
        {"type": "thinking", "thinking": "hm", "signature": "s"},
    ]


def test_a_signature_goes_out_when_its_block_ends() -> None:
    deltas = deltas_of([start(), *thinking(7, "hm", signature="s"), *finish()])
    kinds = [type(delta) for delta in deltas]
    assert kinds == [UpstreamInfo, ReasoningDelta, OpaqueReasoning, BlockEnd, FinishDelta]
    assert {getattr(delta, "block", 7) for delta in deltas} == {7}


def test_a_signature_in_a_text_block_means_nothing() -> None:
    strange = block(0, {"type": "text", "text": "A"}, {"type": "signature_delta", "signature": "s"})
    assert [item["type"] for item in output(strange, finish())] == ["message"]


@pytest.mark.parametrize("stop", [True, False])
def test_thinking_that_was_cut_short_is_incomplete(stop: bool) -> None:
    items = output(thinking(0, "so lo", stop=stop), finish("max_tokens"), status="incomplete")
    assert [item["status"] for item in items] == ["incomplete"]


# Tool calls

CALLS: dict[str, tuple[list[Chunk], str]] = {
    "in pieces, the first one empty (quirk A2)": (call(0, "", '{"a":', "1}"), '{"a":1}'),
    "without arguments (quirk A2)": (call(0), "{}"),
    "with nothing but an empty piece (quirk A2)": (call(0, ""), "{}"),
    "whole at its start (quirk A3)": (call(0, input={"a": 1}), '{"a":1}'),
    "whole at its start and again in pieces": (call(0, '{"a": 1}', input={"a": 1}), '{"a":1}'),
    "as text at its start": (call(0, input='{"a":1}'), '{"a":1}'),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_call(case: str) -> None:
    chunks, arguments = CALLS[case]
    (item,) = output(chunks, finish("tool_use"))
    assert (item["call_id"], item["name"], item["arguments"]) == ("toolu_0", "get", arguments)


@pytest.mark.parametrize(
    ("chunks", "status"),
    [
        (call(0, '{"a":'), "incomplete"),  # quirk A14
        (call(0), "incomplete"),  # cut off before its arguments, for all that is known
        (call(0, '{"a":1}'), "completed"),
        ([*call(0), *text(1, "A")], "completed"),
    ],
)
def test_a_call_at_the_token_limit(chunks: list[Chunk], status: str) -> None:
    item = output(chunks, finish("max_tokens"), status="incomplete")[0]
    assert item["status"] == status


def test_calls_are_told_apart_by_their_block() -> None:
    items = output(call(0, '{"a":1}'), call(1, '{"a":1}'), finish("tool_use"))
    assert [item["call_id"] for item in items] == ["toolu_0", "toolu_1"]


def test_a_delta_without_an_index_is_for_the_latest_block() -> None:
    chunks = [start(), *call(3, '{"a":', "1}"), *finish("tool_use")]
    for chunk in chunks[2:]:
        chunk.pop("index", None)
    (item,) = response(DIALECT, chunks)["output"]
    assert item["arguments"] == '{"a":1}'


def test_a_delta_without_a_start_is_read_by_its_type() -> None:
    chunks = [start(), text(0, "A")[1], thinking(1, "B", signature="s")[1], *finish()]
    items = response(DIALECT, chunks)["output"]
    assert [item["type"] for item in items] == ["message", "reasoning"]


def test_a_message_may_come_whole_at_its_start() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "A", "citations": [{"type": "x", "url": "https://e.org"}]},
        {"type": "tool_use", "id": "toolu_1", "name": "get", "input": {"a": 1}},
    ]
    snapshot = response(DIALECT, [start(content=content, stop_reason="tool_use"), STOP])
    assert [item["type"] for item in snapshot["output"]] == ["reasoning", "message", "function_call"]
    assert snapshot["status"] == "completed"
    assert snapshot["output"][1]["content"][0]["annotations"][0]["end_index"] == 1


# Server tools

WEB = [{"type": "web_search_result", "url": "https://e.org", "title": "E", "encrypted_content": "x"}]
RUN = {"type": "bash_code_execution_result", "stdout": "1\n", "stderr": "", "content": [{"file_id": "f"}]}
MCP = [{"type": "text", "text": "yes"}]

SERVER_TOOLS: list[tuple[str, str, Any, str, Any, dict[str, Any]]] = [
    (
        *("server_tool_use", "web_search", {"query": "q"}, "web_search", WEB),
        {
            "type": "web_search_call",
            "action": {
                "type": "search",
                "query": "q",
                "sources": [{"type": "url", "url": "https://e.org", "title": "E"}],
            },
        },
    ),
    (
        *("server_tool_use", "web_search", {"query": "q"}, "web_search", {"error_code": "unavailable"}),
        {"type": "web_search_call", "action": {"type": "search", "query": "q"}, "status": "failed"},
    ),
    (
        *(
            "server_tool_use",
            "web_fetch",
            {"url": "https://e.org"},
            "web_fetch",
            {"type": "web_fetch_result"},
        ),
        {"type": "web_search_call", "action": {"type": "open_page", "url": "https://e.org"}},
    ),
    (
        *("server_tool_use", "bash_code_execution", {"command": "ls"}, "bash_code_execution", RUN),
        {
            "type": "code_interpreter_call",
            "code": "ls",
            "container_id": "container_1",
            "outputs": [{"type": "logs", "logs": "1\n"}],
            "files": ["f"],
        },
    ),
    (
        *("server_tool_use", "code_execution", {"code": "1"}, "code_execution", {"error_code": "too_many"}),
        {"code": "1", "outputs": [{"type": "logs", "logs": "too_many"}], "status": "failed"},
    ),
    (
        *("server_tool_use", "text_editor_code_execution", {"command": "create"}),
        *("text_editor_code_execution", {"type": "x", "is_file_update": False}),
        {"code": '{"command":"create"}', "outputs": [{"type": "logs", "logs": '{"is_file_update":false}'}]},
    ),
    (
        *("mcp_tool_use", "ask", {"a": 1}, "mcp", MCP),
        {
            "type": "mcp_call",
            "server_label": "docs",
            "name": "ask",
            "arguments": '{"a":1}',
            "output": "yes",
            "error": None,
        },
    ),
]


@pytest.mark.parametrize(("kind", "name", "input", "result_kind", "content", "expected"), SERVER_TOOLS)
def test_a_server_tool_is_an_item_and_no_call(
    kind: str, name: str, input: Any, result_kind: str, content: Any, expected: dict[str, Any]
) -> None:
    container = {"container": {"id": "container_1"}}
    use, gave = server_tool(0, name, input, kind), result(1, 0, result_kind, content)
    chunks = [start(**container), *use, *gave, *text(2, "A"), *finish()]
    tool, message = response(DIALECT, chunks)["output"]
    assert tool == {"status": "completed", **tool, **expected}
    assert message["type"] == "message"
    assert not any(isinstance(delta, ToolCallDelta) for delta in deltas_of(chunks))


def test_a_failed_mcp_call_says_why() -> None:
    gave = result(1, 0, "mcp", "no such thing", is_error=True)
    (item,) = output(server_tool(0, "ask", {}, "mcp_tool_use"), gave, finish())
    assert (item["status"], item["output"], item["error"]) == ("failed", None, "no such thing")


def test_a_server_tool_without_a_result_keeps_its_input() -> None:
    (item,) = output(server_tool(0, "web_search", {"query": "q"}), finish("pause_turn"), status="incomplete")
    assert (item["status"], item["action"]["query"]) == ("incomplete", "q")
    (item,) = response(DIALECT, [start(), *server_tool(0, "web_search", {"query": "q"})])["output"]
    assert (item["status"], item["action"]["query"]) == ("incomplete", "q")


def test_a_server_tool_that_waits_for_a_client_call_does_not_spoil_the_turn() -> None:
    waiting = server_tool(0, "code_execution", {"code": "1"})
    items = output(waiting, call(1, '{"a":1}'), finish("tool_use"))
    assert [item["status"] for item in items] == ["completed", "completed"]


def test_a_result_may_be_of_an_earlier_message() -> None:
    gave = result(0, 9, "code_execution", {"stdout": "1", "stderr": "2"})
    (item,) = output(gave, finish())
    assert (item["type"], item["code"]) == ("code_interpreter_call", "")
    assert item["outputs"] == [{"type": "logs", "logs": "12"}]


def test_a_server_tool_without_an_item_type_is_told() -> None:
    found = {"type": "tool_search_tool_search_result"}
    use, gave = server_tool(0, "tool_search_tool_regex", {}), result(1, 0, "tool_search", found)
    assert output(use, gave, finish()) == []
    told = [
        delta for delta in deltas_of([start(), *use, *gave, *finish()]) if isinstance(delta, DiagnosticDelta)
    ]
    assert [each.code for each in told] == ["server_tool_left_out"]
    alone = deltas_of([start(), *gave, *finish()])
    assert any(isinstance(delta, DiagnosticDelta) and "'tool_search'" in delta.message for delta in alone)


def test_a_server_tool_that_is_told_twice_is_told_once() -> None:
    use, gave = server_tool(0, "web_search", {"query": "q"}), result(1, 0, "web_search", WEB)
    told = deltas_of([start(), *use, *use, *gave, *gave, *finish()])
    items = [delta for delta in told if isinstance(delta, ItemDelta)]
    assert [each.done for each in items] == [False, True]
    (item,) = output(use, use, gave, gave, finish())
    assert item["action"]["query"] == "q"


# The rest of a message


def test_a_compaction_is_sealed_and_never_text() -> None:
    compaction = block(
        0, {"type": "compaction", "content": None}, {"type": "compaction_delta", "content": "so far"}
    )
    item, message = output(compaction, text(1, "A"), finish())
    assert payload(item["encrypted_content"]) == {"type": "compaction", "text": "so far"}
    assert message["content"][0]["text"] == "A"
    empty = block(0, {"type": "compaction", "content": None}, {"type": "compaction_delta", "content": None})
    assert output(empty, finish()) == []


def test_a_fallback_names_the_model_that_answers() -> None:
    fallback = block(0, {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}})
    snapshot = response(DIALECT, [start(model="a"), *fallback, *text(1, "A"), *finish()])
    assert snapshot["model"] == "b"
    assert [each["code"] for each in snapshot["diagnostics"]] == ["model_fallback"]


def test_the_message_says_who_answers() -> None:
    chunk = start(model="claude-x", usage={"service_tier": "standard"})
    assert UpstreamInfo("msg_1", "claude-x", "default") in deltas_of([chunk, *finish()])


@pytest.mark.parametrize(
    ("chunk", "code"),
    [
        ({"type": "news"}, "unknown_event"),
        ({"type": "content_block_start", "index": 0, "content_block": {"type": "hologram"}}, "unknown_block"),
        ({"type": "content_block_delta", "index": 0, "delta": {"type": "smell_delta"}}, "unknown_delta"),
        (
            {"type": "message_delta", "context_management": {"applied_edits": [{"type": "clear"}]}},
            "context_edited",
        ),
    ],
)
def test_what_is_left_out_is_told(chunk: Chunk, code: str) -> None:
    snapshot = response(DIALECT, [start(), chunk, *finish()])
    assert [each["code"] for each in snapshot["diagnostics"]] == [code]


def test_arguments_in_a_text_block_are_told() -> None:
    strange = block(0, {"type": "text", "text": "A"}, {"type": "input_json_delta", "partial_json": "{"})
    snapshot = response(DIALECT, [start(), *strange, *finish()])
    assert [each["code"] for each in snapshot["diagnostics"]] == ["unexpected_delta"]


# Usage

USAGES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, int]]] = {
    "ask D2: input is inclusive of the cache": (
        {"input_tokens": 3, "cache_read_input_tokens": 125_000, "cache_creation_input_tokens": 2000},
        {"output_tokens": 206},
        {"input": 127_003, "cached": 125_000, "written": 2000, "output": 206, "reasoning": 0},
    ),
    "quirk A10: the later count wins": (
        {"input_tokens": 17, "output_tokens": 1},
        {"input_tokens": 61, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}},
        {"input": 61, "cached": 0, "written": 0, "output": 9, "reasoning": 4},
    ),
    "quirk A10: field by field": (
        {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1},
        {"input_tokens": 12, "output_tokens": 2},
        {"input": 17, "cached": 5, "written": 0, "output": 2, "reasoning": 0},
    ),
    "quirk C6: zeros take nothing back": (
        {"input_tokens": 10, "output_tokens": 1},
        {"input_tokens": 0, "output_tokens": 7},
        {"input": 10, "cached": 0, "written": 0, "output": 7, "reasoning": 0},
    ),
    "quirk C6: zeros of one field take nothing back from the sum": (
        {"input_tokens": 10, "cache_read_input_tokens": 5},
        {"input_tokens": 0, "output_tokens": 7},
        {"input": 15, "cached": 5, "written": 0, "output": 7, "reasoning": 0},
    ),
    "what is read afresh need not be read from the cache": (
        {"input_tokens": 0, "cache_creation_input_tokens": 0},
        {"input_tokens": 3, "cache_read_input_tokens": 0, "output_tokens": 1},
        {"input": 3, "cached": 0, "written": 0, "output": 1, "reasoning": 0},
    ),
    "a compaction is paid for as well": (
        {"input_tokens": 100, "cache_read_input_tokens": 55_000, "output_tokens": 1},
        {
            "input_tokens": 181,
            "cache_read_input_tokens": 0,
            "output_tokens": 8,
            "iterations": [
                {
                    "type": "compaction",
                    "input_tokens": 100,
                    "cache_read_input_tokens": 55_000,
                    "output_tokens": 83,
                },
                {"type": "message", "input_tokens": 181, "output_tokens": 8},
            ],
        },
        {"input": 55_281, "cached": 55_000, "written": 0, "output": 91, "reasoning": 0},
    ),
}


@pytest.mark.parametrize("case", USAGES)
def test_usage(case: str) -> None:
    first, last, expected = USAGES[case]
    usage = response(DIALECT, [start(usage=first), *finish(usage=last)])["usage"]
    assert {
        "input": usage["input_tokens"],
        "cached": usage["input_tokens_details"]["cached_tokens"],
        "written": usage["input_tokens_details"]["cache_write_tokens"],
        "output": usage["output_tokens"],
        "reasoning": usage["output_tokens_details"]["reasoning_tokens"],
    } == expected


def test_usage_that_says_nothing_is_none() -> None:
    assert response(DIALECT, [start(), *finish()])["usage"] is None
    assert UsageDelta() in deltas_of([start(usage={"input_tokens": "many"}), *finish()])


def test_bedrock_counts_where_the_message_does_not() -> None:
    metrics = {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 16, "outputTokenCount": 18}}
    usage = response(DIALECT, [start(), *finish()[:1], {**STOP, **metrics}])["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (16, 18)
    told = start(usage={"input_tokens": 5, "output_tokens": 6})
    usage = response(DIALECT, [told, *finish()[:1], {**STOP, **metrics}])["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (5, 6)


# How it ends


@pytest.mark.parametrize(("told", "reason"), FINISHES.items())
def test_every_stop_reason_has_a_meaning(told: str, reason: FinishReason) -> None:
    assert FinishDelta(reason) in deltas_of([start(), *finish(told)])


ENDS: dict[str, tuple[list[Any], str, str]] = {
    "a stop reason and no message_stop": ([start(), *text(0, "A"), *finish()[:1]], "completed", ""),
    "a message_stop and no stop reason": ([start(), *text(0, "A"), STOP], "completed", ""),
    "[DONE] and no stop reason": ([start(), *text(0, "A"), "[DONE]"], "completed", ""),
    "an unknown stop reason": ([start(), *text(0, "A"), *finish("bored")], "completed", ""),
    "a stop reason that is no text": ([start(), *finish(None)[:1]], "failed", "upstream_truncated"),
    "max_tokens": ([start(), *text(0, "A"), *finish("max_tokens")], "incomplete", "max_output_tokens"),
    "the context is full": (
        [start(), *finish("model_context_window_exceeded")],
        "incomplete",
        "max_output_tokens",
    ),
    "a refusal": ([start(), *text(0, "A"), *finish("refusal")], "incomplete", "content_filter"),
    "a pause": ([start(), *text(0, "A"), *finish("pause_turn")], "incomplete", "pause_turn"),
    "nothing": ([], "failed", "upstream_empty"),
    "pings alone": ([PING, PING], "failed", "upstream_empty"),
    "[DONE] alone": (["[DONE]"], "failed", "upstream_empty"),
    "a cut": ([start(), *text(0, "A")], "failed", "upstream_truncated"),
    "something that is no JSON": ([start(), "<html>"], "failed", "upstream_invalid"),
    "something that is no object": ([start(), "[1]"], "failed", "upstream_invalid"),
    "overloaded (quirk A12)": (
        [start(), {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}],
        *("failed", "server_is_overloaded"),
    ),
    "an error without a type": ([{"error": {"type": "rate_limit_error"}}], "failed", "rate_limit_exceeded"),
    "an exception of AWS": (
        [start(), {"throttlingException": {"message": "slow"}}],
        "failed",
        "rate_limit_exceeded",
    ),
    "another message within a message (quirk A13)": (
        [start(), *call(0, '{"a', stop=False), start(id="msg_2"), *call(0, "{}"), *finish()],
        *("failed", "server_error"),
    ),
    "the same start twice (quirk A13)": ([start(), start(), *text(0, "A"), *finish()], "completed", ""),
    "another message after the end": (
        [start(), *text(0, "A"), *finish(), start(id="msg_2"), *text(0, "B"), *finish()],
        *("completed", ""),
    ),
    "a call that never got a name": (
        [start(), call(0, "{}")[1], *finish("tool_use")],
        *("failed", "bridge.stream.incomplete_tool_call"),
    ),
}


@pytest.mark.parametrize("case", ENDS)
def test_the_end(case: str) -> None:
    chunks, status, why = ENDS[case]
    snapshot = response(DIALECT, chunks)
    assert snapshot["status"] == status
    error, details = snapshot["error"] or {}, snapshot["incomplete_details"] or {}
    assert (error.get("code") or details.get("reason") or "") == why
    assert "B" not in json.dumps(snapshot["output"])


def test_an_unknown_stop_reason_is_named() -> None:
    told = deltas_of([start(), *finish("bored")])
    assert any(isinstance(delta, DiagnosticDelta) and "'bored'" in delta.message for delta in told)


def test_a_refusal_says_why() -> None:
    chunks = [start(), *finish("refusal")]
    chunks[1]["delta"]["stop_details"] = {"category": "cyber", "explanation": "no"}
    (told,) = response(DIALECT, chunks)["diagnostics"]
    assert "cyber: no" in told["message"]


def test_the_vendors_message_is_kept() -> None:
    chunk = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded, sorry"}}
    assert response(DIALECT, [start(), chunk])["error"]["message"] == "Overloaded, sorry"


# Other wrappings


@pytest.mark.parametrize(
    "wrap", [lambda data: {"bytes": data, "p": "abc"}, lambda data: {"chunk": {"bytes": data}}]
)
def test_events_may_lie_in_frames_of_aws(wrap: Any) -> None:
    chunks = [start(), *text(0, "A"), *finish()]
    wrapped = [wrap(b64encode(json.dumps(chunk).encode()).decode()) for chunk in chunks]
    assert deltas_of(wrapped) == deltas_of(chunks)
    assert isinstance(deltas_of([start(), wrap("é")])[-1], ErrorDelta)


def test_an_event_may_be_named_by_its_frame_alone() -> None:
    stream = DIALECT.reader(plan("anthropic"))
    frame = Frame("content_block_delta", '{"index":0,"delta":{"type":"text_delta","text":"A"}}')
    assert stream.feed(frame) == [TextDelta("A", 0)]


def test_an_answer_that_is_not_streamed() -> None:
    content = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "A"}]
    usage = {"input_tokens": 3, "output_tokens": 4}
    body = {"type": "message", "id": "msg_1", "content": content, "stop_reason": "end_turn", "usage": usage}
    streamed = [start(usage=usage), *thinking(0, "hm", signature="s"), *text(1, "A"), *finish()]
    assert DIALECT.read_body(plan("anthropic"), json.dumps(body).encode()) == deltas_of(streamed)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}', "server_is_overloaded"),
        (b'{"type":"message"}', "server_error"),
        (b"\xff", "upstream_invalid"),
    ],
)
def test_a_body_that_is_no_answer(body: bytes, code: str) -> None:
    (delta,) = DIALECT.read_body(plan("anthropic"), body)
    assert isinstance(delta, ErrorDelta)
    assert delta.code == code


def test_a_failure_is_classified() -> None:
    body = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'
    error = DIALECT.classify(429, {"retry-after": "3"}, body)
    assert (error.code, error.retry_after) == ("rate_limit_exceeded", 3.0)


# Anything at all

KINDS = st.sampled_from(
    [
        *("message_start", "content_block_start", "content_block_delta", "content_block_stop", "ping"),
        *("message_delta", "content_block_start", "content_block_delta", "content_block_delta", "error"),
        *("message_stop", "news"),
    ]
)
BLOCKS = st.sampled_from(
    [
        *(
            "text",
            "thinking",
            "redacted_thinking",
            "tool_use",
            "server_tool_use",
            "mcp_tool_use",
            "compaction",
        ),
        *(
            "fallback",
            "web_search_tool_result",
            "code_execution_tool_result",
            "mcp_tool_result",
            "x_tool_result",
        ),
    ]
)
DELTAS = st.sampled_from(
    [
        *("text_delta", "thinking_delta", "signature_delta", "citations_delta", "input_json_delta"),
        *("compaction_delta", "smell_delta"),
    ]
)
WORDS = st.sampled_from(["", "a", "b", '{"a":', "1}", "{}", "get"])
COUNTS = st.integers(-1, 99)
NAMES = st.sampled_from(
    ["get", "web_search", "web_fetch", "code_execution", "bash_code_execution", "advisor"]
)
RESULTS = (
    WORDS
    | st.lists(objects({"url": WORDS, "text": WORDS, "title": WORDS}), max_size=2)
    | objects({"stdout": WORDS, "error_code": WORDS, "content": st.just([{"file_id": "f"}])})
)
USAGE = objects(
    {
        "input_tokens": COUNTS,
        "output_tokens": COUNTS,
        "cache_read_input_tokens": COUNTS,
        "iterations": st.lists(objects({"type": st.just("compaction"), "input_tokens": COUNTS}), max_size=2),
        "output_tokens_details": objects({"thinking_tokens": COUNTS}),
    }
)
BLOCK = objects(
    {
        "type": BLOCKS,
        "text": WORDS,
        "thinking": WORDS,
        "signature": WORDS,
        "data": WORDS,
        "id": st.sampled_from(["", "t1", "t2"]),
        "tool_use_id": st.sampled_from(["", "t1", "t2"]),
        "name": NAMES,
        "input": objects({"query": WORDS, "code": WORDS}) | WORDS,
        "content": RESULTS,
        "is_error": st.booleans(),
        "citations": st.lists(objects({"url": WORDS}), max_size=2),
        "to": objects({"model": WORDS}),
    }
)
EVENTS = objects(
    {
        "type": KINDS,
        "index": st.integers(0, 3),
        "content_block": BLOCK,
        "delta": objects(
            {
                "type": DELTAS,
                "text": WORDS,
                "thinking": WORDS,
                "signature": WORDS,
                "partial_json": WORDS,
                "content": WORDS,
                "citation": objects({"type": WORDS, "url": WORDS, "title": WORDS}),
                "stop_reason": st.sampled_from([*FINISHES, "bored"]),
                "stop_details": objects({"category": WORDS, "explanation": WORDS}),
                "container": objects({"id": WORDS}),
            }
        ),
        "message": objects(
            {
                "id": st.just("msg_1"),
                "model": WORDS,
                "content": st.lists(BLOCK, max_size=2),
                "stop_reason": st.sampled_from(list(FINISHES)),
                "usage": USAGE,
            }
        ),
        "usage": USAGE,
        "context_management": objects({"applied_edits": st.lists(objects({"type": WORDS}), max_size=2)}),
        "amazon-bedrock-invocationMetrics": objects({"inputTokenCount": COUNTS}),
        "chunk": objects({"bytes": WORDS}),
    }
)


@settings(max_examples=40, deadline=None)
@given(st.lists(EVENTS | EVENTS | EVENTS | EVENTS | json_values, max_size=10))
def test_whatever_comes_the_end_is_lawful(events: list[Any]) -> None:
    frames = [Frame(None, json.dumps(event)) for event in events]
    translate(DIALECT, plan("anthropic"), frames)


@settings(max_examples=40, deadline=None)
@given(json_values | BLOCK, st.text(max_size=20))
def test_whatever_the_body_is_it_is_read(body: Any, rest: str) -> None:
    DIALECT.read_body(plan("anthropic"), json.dumps(body).encode())
    DIALECT.read_body(plan("anthropic"), json.dumps({"content": [body], "id": rest}).encode())
    DIALECT.read_body(plan("anthropic"), rest.encode())


def test_it_is_a_dialect() -> None:
    dialect: Dialect = DIALECT
    assert dialect.name == "anthropic"
