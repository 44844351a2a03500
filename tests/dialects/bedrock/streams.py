"""Builders for the events of Bedrock's streams, and what is read from them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from penstock.dialects.bedrock import DIALECT
from penstock.dialects.envelope import unseal
from penstock.stream.deltas import (
    Delta,
)
from tests.dialects.block_stream_checks import (
    json_values,
    objects,
)
from tests.dialects.recording_checks import read, response

Chunk = dict[str, Any]


START: Chunk = {"messageStart": {"role": "assistant"}}


def block(index: int, *deltas: Chunk, start: Chunk | None = None, stop: bool = True) -> list[Chunk]:
    where = {"contentBlockIndex": index}
    begin: list[Chunk] = [] if start is None else [{"contentBlockStart": {**where, "start": start}}]
    middle: list[Chunk] = [{"contentBlockDelta": {**where, "delta": each}} for each in deltas]
    return [*begin, *middle, *([{"contentBlockStop": where}] if stop else [])]


def text(index: int, *pieces: str) -> list[Chunk]:
    return block(index, *({"text": piece} for piece in pieces))


def finish(reason: str | None = "end_turn", **metadata: Any) -> list[Chunk]:
    return [{"messageStop": {"stopReason": reason}}, {"metadata": metadata}]


def deltas_of(chunks: list[Any]) -> list[Delta]:
    return read(DIALECT, chunks)


def output(*chunks: list[Chunk], status: str = "completed") -> list[dict[str, Any]]:
    snapshot = response(DIALECT, [START, *(each for group in chunks for each in group)])
    assert snapshot["status"] == status
    items: list[dict[str, Any]] = snapshot["output"]
    return items


def payload(data: str) -> Any:
    envelope = unseal(data)
    assert envelope is not None
    assert envelope.dialect == "bedrock"
    return envelope.payload


RAN = {"json": {"stdOut": "1\n", "stdErr": "", "exitCode": 0}}


WORDS = st.sampled_from(["", "a", "b", '{"a":', "1}", "{}"])


IDS = st.sampled_from(["", "t1", "t2"])


CONTENT = st.lists(objects({"text": WORDS, "json": objects({"stdOut": WORDS, "url": WORDS})}), max_size=2)


TOOL = objects(
    {
        "toolUseId": IDS,
        "name": st.sampled_from(["get", "nova_grounding", "nova_code_interpreter", "nova_dream"]),
        "type": st.sampled_from(["server_tool_use", "nova_code_interpreter_result", "x_result"]),
        "status": st.sampled_from(["success", "error"]),
        "input": WORDS | st.just({"a": 1}),
        "content": CONTENT,
    }
)


BLOCK = objects(
    {
        "text": WORDS,
        "toolUse": TOOL,
        "toolResult": CONTENT | TOOL,
        "reasoningContent": objects(
            {"text": WORDS, "signature": WORDS, "redactedContent": WORDS, "reasoningText": json_values}
        ),
        "citation": objects({"title": WORDS, "location": objects({"web": objects({"url": WORDS})})}),
        "citationsContent": objects({"content": CONTENT, "citations": CONTENT}),
    }
)
