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
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    OpaqueReasoning,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
)
from tests.dialects.anthropic.recording_exceptions import EXCEPTIONS
from tests.dialects.anthropic.streams import (
    STOP,
    Chunk,
    block,
    call,
    deltas_of,
    finish,
    output,
    result,
    server_tool,
    start,
    text,
)
from tests.dialects.block_stream_checks import (
    as_frame,
    byte_cuts,
    check_cuts,
    check_noise,
    chunk_borders,
    json_values,
    objects,
    smallest,
)
from tests.dialects.recording_checks import assert_agrees, plan, response
from tests.dialects.recordings import files, needs_recordings, translate

FOLDER = "anthropic-messages"


FILES = files(FOLDER)


PING: Chunk = {"type": "ping"}


def thinking(index: int, *pieces: str, signature: str = "", stop: bool = True) -> list[Chunk]:
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    signed = [{"type": "signature_delta", "signature": signature}] if signature else []
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas, *signed, stop=stop)


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


def _texts_of(chunk: Chunk) -> tuple[str, str]:
    inside = chunk.get("delta") or chunk.get("content_block") or {}
    if inside.get("type") == "redacted_thinking":
        return "", ""
    return inside.get("text", ""), inside.get("thinking", "")


@needs_recordings
@pytest.mark.parametrize("file", smallest(FOLDER, 30))
def test_output_before_a_cut_is_not_lost(file: str) -> None:
    check_cuts(DIALECT, file, chunk_borders(file), _texts_of)
    check_cuts(DIALECT, file, byte_cuts(file), _texts_of)


# Text


def test_consecutive_text_blocks_are_one_message() -> None:
    items = output(text(0, "A", "B"), text(1, "C"), [PING], text(2, "D"), finish())
    assert [item["content"][0]["text"] for item in items] == ["ABCD"]


def test_text_after_another_item_is_a_new_message() -> None:
    items = output(text(0, "A"), thinking(1, "hm"), text(2, "B"), finish())
    assert [item["type"] for item in items] == ["message", "reasoning", "message"]


def test_a_message_ends_before_the_next_item_begins() -> None:
    deltas = deltas_of([start(), *text(0, "A"), *call(1, "{}"), *finish("tool_use")])
    assert deltas[1:4] == [
        TextDelta("A", 0),
        BlockEnd(0, BlockKind.TEXT),
        ToolCallDelta(1, "toolu_1", "get"),
    ]


def test_invisible_blocks_do_not_split_a_message() -> None:
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
    snapshot = response(DIALECT, [start(), *text(0, "Not "), *cited, *text(2, ", not."), *finish()])
    (message,) = snapshot["output"]
    (one,) = message["content"][0]["annotations"]
    assert (one["type"], one["url"], one["title"], one["cited_text"]) == (
        "url_citation",
        "https://e.org",
        "E",
        "x",
    )
    assert message["content"][0]["text"][one["start_index"] : one["end_index"]] == "cited"
    # A place in a document has no URL, and no client has a form for it.
    assert [(each["code"], each["count"]) for each in snapshot["diagnostics"]] == [("citation_left_out", 1)]


def test_a_search_result_is_cited_by_its_source() -> None:
    found = {"type": "search_result_location", "source": "https://e.org", "title": "E", "cited_text": "x"}
    delta = {"type": "citations_delta", "citation": found}
    (message,) = output(block(0, {"type": "text", "text": "cited"}, delta), finish())
    (citation,) = message["content"][0]["annotations"]
    assert (citation["type"], citation["url"], citation["end_index"]) == ("url_citation", "https://e.org", 5)


def test_a_truncated_stream_keeps_its_citations() -> None:
    delta = {"type": "citations_delta", "citation": {"type": "x", "url": "https://e.org"}}
    chunks = [start(), *block(0, {"type": "text", "text": "cited"}, delta, stop=False)]
    (message,) = response(DIALECT, chunks)["output"]
    assert len(message["content"][0]["annotations"]) == 1


# Thinking


def test_a_signature_is_sealed_unchanged_with_its_thinking() -> None:
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


def test_redacted_thinking_is_a_separate_item() -> None:
    redacted = block(0, {"type": "redacted_thinking", "data": "xyz="})
    empty = block(1, {"type": "redacted_thinking"})
    items = output(redacted, empty, thinking(2, "hm", signature="s"), finish())
    payloads = [payload(item["encrypted_content"]) for item in items]
    assert payloads == [
        {"type": "redacted_thinking", "data": "xyz="},
        {"type": "thinking", "thinking": "hm", "signature": "s"},
    ]


def test_a_signature_is_sent_when_its_block_ends() -> None:
    deltas = deltas_of([start(), *thinking(7, "hm", signature="s"), *finish()])
    kinds = [type(delta) for delta in deltas]
    assert kinds == [UpstreamInfo, ReasoningDelta, OpaqueReasoning, BlockEnd, FinishDelta]
    assert {getattr(delta, "block", 7) for delta in deltas} == {7}


def test_a_signature_in_a_text_block_is_ignored() -> None:
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
    "with only an empty piece (quirk A2)": (call(0, ""), "{}"),
    "complete at its start (quirk A3)": (call(0, input={"a": 1}), '{"a":1}'),
    "complete at its start and again in pieces": (call(0, '{"a": 1}', input={"a": 1}), '{"a":1}'),
    "as text at its start": (call(0, input='{"a":1}'), '{"a":1}'),
}


@pytest.mark.parametrize("case", CALLS)
def test_the_arguments_of_a_call(case: str) -> None:
    chunks, arguments = CALLS[case]
    (item,) = output(chunks, finish("tool_use"))
    assert (item["call_id"], item["name"], item["arguments"]) == ("toolu_0", "get", arguments)


@pytest.mark.parametrize(
    ("chunks", "status"),
    [
        (call(0, '{"a":'), "incomplete"),  # quirk A14
        (call(0), "incomplete"),  # may have been cut off before its arguments
        (call(0, '{"a":1}'), "completed"),
        ([*call(0), *text(1, "A")], "completed"),
    ],
)
def test_a_call_at_the_token_limit(chunks: list[Chunk], status: str) -> None:
    item = output(chunks, finish("max_tokens"), status="incomplete")[0]
    assert item["status"] == status


def test_calls_are_distinguished_by_their_block() -> None:
    items = output(call(0, '{"a":1}'), call(1, '{"a":1}'), finish("tool_use"))
    assert [item["call_id"] for item in items] == ["toolu_0", "toolu_1"]


def test_a_delta_without_an_index_belongs_to_the_latest_block() -> None:
    chunks = [start(), *call(3, '{"a":', "1}"), *finish("tool_use")]
    for chunk in chunks[2:]:
        chunk.pop("index", None)
    (item,) = response(DIALECT, chunks)["output"]
    assert item["arguments"] == '{"a":1}'


def test_a_delta_without_a_start_is_read_by_its_type() -> None:
    chunks = [start(), text(0, "A")[1], thinking(1, "B", signature="s")[1], *finish()]
    items = response(DIALECT, chunks)["output"]
    assert [item["type"] for item in items] == ["message", "reasoning"]


def test_message_start_may_contain_the_whole_message() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "A", "citations": [{"type": "x", "url": "https://e.org"}]},
        {"type": "tool_use", "id": "toolu_1", "name": "get", "input": {"a": 1}},
    ]
    snapshot = response(DIALECT, [start(content=content, stop_reason="tool_use"), STOP])
    assert [item["type"] for item in snapshot["output"]] == ["reasoning", "message", "function_call"]
    assert snapshot["status"] == "completed"
    assert snapshot["output"][1]["content"][0]["annotations"][0]["end_index"] == 1


# Other blocks


def test_a_compaction_is_sealed_and_not_shown_as_text() -> None:
    compaction = block(
        0, {"type": "compaction", "content": None}, {"type": "compaction_delta", "content": "so far"}
    )
    item, message = output(compaction, text(1, "A"), finish())
    assert payload(item["encrypted_content"]) == {"type": "compaction", "text": "so far"}
    assert message["content"][0]["text"] == "A"
    empty = block(0, {"type": "compaction", "content": None}, {"type": "compaction_delta", "content": None})
    assert output(empty, finish()) == []


def test_a_fallback_block_reports_the_new_model() -> None:
    fallback = block(0, {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}})
    snapshot = response(DIALECT, [start(model="a"), *fallback, *text(1, "A"), *finish()])
    assert snapshot["model"] == "b"
    assert [each["code"] for each in snapshot["diagnostics"]] == ["model_fallback"]


def test_message_start_has_the_id_the_model_and_the_tier() -> None:
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
def test_unknown_content_is_reported(chunk: Chunk, code: str) -> None:
    snapshot = response(DIALECT, [start(), chunk, *finish()])
    assert [each["code"] for each in snapshot["diagnostics"]] == [code]


def test_arguments_in_a_text_block_are_reported() -> None:
    strange = block(0, {"type": "text", "text": "A"}, {"type": "input_json_delta", "partial_json": "{"})
    snapshot = response(DIALECT, [start(), *strange, *finish()])
    assert [each["code"] for each in snapshot["diagnostics"]] == ["unexpected_delta"]


ENDS: dict[str, tuple[list[Any], str, str]] = {
    "a stop reason but no message_stop": ([start(), *text(0, "A"), *finish()[:1]], "completed", ""),
    "a message_stop but no stop reason": ([start(), *text(0, "A"), STOP], "completed", ""),
    "[DONE] but no stop reason": ([start(), *text(0, "A"), "[DONE]"], "completed", ""),
    "an unknown stop reason": ([start(), *text(0, "A"), *finish("bored")], "completed", ""),
    "a stop reason that is null": ([start(), *finish(None)[:1]], "failed", "upstream_truncated"),
    "max_tokens": ([start(), *text(0, "A"), *finish("max_tokens")], "incomplete", "max_output_tokens"),
    "the context is full": (
        [start(), *finish("model_context_window_exceeded")],
        "incomplete",
        "max_output_tokens",
    ),
    "a refusal": ([start(), *text(0, "A"), *finish("refusal")], "incomplete", "content_filter"),
    "a pause": ([start(), *text(0, "A"), *finish("pause_turn")], "incomplete", "pause_turn"),
    "nothing": ([], "failed", "upstream_empty"),
    "only pings": ([PING, PING], "failed", "upstream_empty"),
    "only [DONE]": (["[DONE]"], "failed", "upstream_empty"),
    "a cut": ([start(), *text(0, "A")], "failed", "upstream_truncated"),
    "invalid JSON": ([start(), "<html>"], "failed", "upstream_invalid"),
    "JSON that is not an object": ([start(), "[1]"], "failed", "upstream_invalid"),
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
    "a second message inside a message (quirk A13)": (
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
def test_how_a_stream_ends(case: str) -> None:
    chunks, status, code = ENDS[case]
    snapshot = response(DIALECT, chunks)
    assert snapshot["status"] == status
    error, details = snapshot["error"] or {}, snapshot["incomplete_details"] or {}
    assert (error.get("code") or details.get("reason") or "") == code
    assert "B" not in json.dumps(snapshot["output"])


def test_the_vendors_message_is_kept() -> None:
    chunk = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded, sorry"}}
    assert response(DIALECT, [start(), chunk])["error"]["message"] == "Overloaded, sorry"


@pytest.mark.parametrize("end", [STOP, "[DONE]"])
def test_content_after_the_end_is_reported_and_dropped(end: Any) -> None:
    deltas = deltas_of([start(), *text(0, "A"), end, *text(1, "B")])
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ["A"]
    codes = [delta.code for delta in deltas if isinstance(delta, DiagnosticDelta)]
    assert codes == ["content_after_end"] * 2  # the start and the delta; the stop has no content


def test_a_repeated_block_stop_is_ignored() -> None:
    chunks = [start(), *call(0, "{}"), {"type": "content_block_stop", "index": 0}, *finish("tool_use")]
    assert deltas_of(chunks) == deltas_of([start(), *call(0, "{}"), *finish("tool_use")])


# Other framings


@pytest.mark.parametrize(
    "wrap", [lambda data: {"bytes": data, "p": "abc"}, lambda data: {"chunk": {"bytes": data}}]
)
def test_events_may_be_wrapped_in_frames_of_aws(wrap: Any) -> None:
    chunks = [start(), *text(0, "A"), *finish()]
    wrapped = [wrap(b64encode(json.dumps(chunk).encode()).decode()) for chunk in chunks]
    assert deltas_of(wrapped) == deltas_of(chunks)
    assert isinstance(deltas_of([start(), wrap("é")])[-1], ErrorDelta)


def test_an_event_may_be_named_only_by_its_frame() -> None:
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
def test_an_invalid_body_is_an_error(body: bytes, code: str) -> None:
    (delta,) = DIALECT.read_body(plan("anthropic"), body)
    assert isinstance(delta, ErrorDelta)
    assert delta.code == code


def test_a_failure_is_classified() -> None:
    body = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'
    error = DIALECT.classify(429, {"retry-after": "3"}, body)
    assert (error.code, error.retry_after) == ("rate_limit_exceeded", 3.0)


# Any input


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
def test_any_events_give_a_lawful_stream(events: list[Any]) -> None:
    frames = [Frame(None, json.dumps(event)) for event in events]
    translate(DIALECT, plan("anthropic"), frames)


@settings(max_examples=40, deadline=None)
@given(json_values | BLOCK, st.text(max_size=20))
def test_any_body_is_read_without_an_error(body: Any, rest: str) -> None:
    DIALECT.read_body(plan("anthropic"), json.dumps(body).encode())
    DIALECT.read_body(plan("anthropic"), json.dumps({"content": [body], "id": rest}).encode())
    DIALECT.read_body(plan("anthropic"), rest.encode())


def test_it_is_a_dialect() -> None:
    dialect: Dialect = DIALECT
    assert dialect.name == "anthropic"
