"""Benchmark of one chunk: `python -m bench.chunks`.

The CPU time of one event of an upstream on its way through the gateway, without I/O: from its bytes through
`sse.Decoder`, the dialect's reader, masking, the client's rules, the state machine and the accent to the
bytes of a frame. Each row is measured near the beginning of a stream and 100,000 chunks later: the cost must
not depend on the length of the answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

from msgspec import Struct

from penstock.dialects.pipeline import Pipeline
from penstock.dialects.plan import Plan, Target
from penstock.dialects.registry import dialect
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import response_for
from penstock.protocol.tools import CustomTool, FunctionTool, Tool
from penstock.protocol.wire import encode
from penstock.sse import encode_frame
from penstock.stream.accents import ACCENTS
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.tools.identity import ToolIdentityMap
from penstock.upstream.masking import masked

RESULTS = Path(__file__).parent / "results" / "chunks.json"
EARLY, LATE = 100, 100_000
WINDOW = 200
"""Chunks that are measured at once."""
ROUNDS = 100
TOOLS: list[Tool] = [FunctionTool(name="search"), CustomTool(name="patch")]


class Sample(Struct, frozen=True):
    """A kind of chunk: the events before it, and the event that is repeated."""

    dialect: str
    before: list[Any]
    chunk: Any
    names_events: bool = False
    """Whether the upstream sends an `event` line with the type."""
    accent: str = "openresponses"


def chat(*deltas: dict[str, Any], accent: str = "openresponses") -> Sample:
    def chunk(delta: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": "chatcmpl-8f5b2c31",
            "object": "chat.completion.chunk",
            "created": 1773349503,
            "model": "model-large-2026",
            "system_fingerprint": "fp_44709d6fcb",
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}],
        }

    *before, last = [chunk(each) for each in ({"role": "assistant", "content": ""}, *deltas)]
    return Sample("chat", before, last, accent=accent)


def anthropic(block: dict[str, Any], delta: dict[str, Any]) -> Sample:
    message = {"id": "msg_01", "type": "message", "role": "assistant", "model": "m", "content": []}
    before = [
        {"type": "message_start", "message": {**message, "usage": {"input_tokens": 9, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
    ]
    return Sample(
        "anthropic", before, {"type": "content_block_delta", "index": 0, "delta": delta}, names_events=True
    )


USAGE = {
    "promptTokenCount": 9,
    "candidatesTokenCount": 31,
    "totalTokenCount": 40,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}],
}


def gemini(part: dict[str, Any], usage: dict[str, Any] = USAGE) -> Sample:
    chunk = {
        "candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}],
        "usageMetadata": usage,
        "modelVersion": "gemini-2.5-flash",
        "responseId": "17-FapSMA8TdvNkP_d6hmQw",
    }
    return Sample("gemini", [], chunk)


def responses(item: dict[str, Any], delta: dict[str, Any]) -> Sample:
    base = {"id": "resp_1", "object": "response", "status": "in_progress", "model": "m", "output": []}
    position = {"item_id": item["id"], "output_index": 0}
    before = [
        {"type": "response.created", "sequence_number": 0, "response": base},
        {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item},
    ]
    event = {"type": "", "sequence_number": 4, **position, **delta, "obfuscation": "aB3dE5fG7h"}
    return Sample("responses", before, event, names_events=True)


def call(**fields: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, **fields}]}


FUNCTION = {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": '{"q":"'}}
CUSTOM = {"id": "call_1", "type": "custom", "custom": {"name": "patch", "input": "*** "}}
WRAPPED = {"id": "call_1", "type": "function", "function": {"name": "patch", "arguments": '{"input":"'}}

SAMPLES: dict[str, Sample] = {
    "chat text": chat({"content": " word"}),
    "chat text, openai accent": chat({"content": " word"}, accent="openai"),
    "chat text beyond ASCII": chat({"content": " w\u00f6rd \u2014 \u5b57"}),
    "chat reasoning": chat({"reasoning_content": " thought"}),
    "chat reasoning, openai accent": chat({"reasoning_content": " thought"}, accent="openai"),
    "chat arguments": chat(call(**FUNCTION), call(function={"arguments": " word"})),
    "chat custom input": chat(call(**CUSTOM), call(custom={"input": " word"})),
    "chat wrapped custom input": chat(call(**WRAPPED), call(function={"arguments": " word"})),
    "anthropic text": anthropic({"type": "text", "text": ""}, {"type": "text_delta", "text": " word"}),
    "anthropic thinking": anthropic(
        {"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": " word"}
    ),
    "anthropic arguments": anthropic(
        {"type": "tool_use", "id": "call_1", "name": "search", "input": {}},
        {"type": "input_json_delta", "partial_json": " word"},
    ),
    "gemini text": gemini({"text": " several words of an answer"}),
    "gemini text without counts": gemini({"text": " several words"}, {"trafficType": "ON_DEMAND"}),
    "gemini thought": gemini({"text": " several words of a thought", "thought": True}),
    "responses text": responses(
        {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []},
        {"type": "response.output_text.delta", "content_index": 0, "delta": " word", "logprobs": []},
    ),
    "responses summary": responses(
        {"id": "rs_1", "type": "reasoning", "summary": []},
        {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": " word"},
    ),
    "responses arguments": responses(
        {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "search", "arguments": ""},
        {"type": "response.function_call_arguments.delta", "delta": " word"},
    ),
    "responses custom input": responses(
        {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_1", "name": "patch", "input": ""},
        {"type": "response.custom_tool_call_input.delta", "delta": " word"},
    ),
}


class _Source:
    """What masking needs of an upstream connection."""

    def mask(self, text: str) -> str:
        return text.replace("sk-secret", "***")

    def mask_value(self, value: Any) -> Any:
        return self.mask(value) if isinstance(value, str) and "sk-secret" in value else value


def bytes_of(sample: Sample, event: dict[str, Any]) -> bytes:
    head = f"event: {event['type']}\n" if sample.names_events else ""
    return f"{head}data: {json.dumps(event, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


def opened(sample: Sample) -> Callable[[bytes], int]:
    """Return a function that sends bytes of the upstream through a pipeline, and counts the bytes sent."""
    request = CreateResponse(model="m", tools=TOOLS)
    tools = ToolIdentityMap(TOOLS)
    plan = Plan(
        request=request, target=Target(model="m", dialect=sample.dialect), tools=tools, accent=sample.accent
    )
    machine = ResponseStreamStateMachine(
        response_for(request, id="resp_bench", created_at=0), clock=lambda: 0, tools=tools
    )
    pipeline = Pipeline(machine)
    pipeline.start()
    pipeline.open(dialect(sample.dialect), plan, mask=partial(masked, source=_Source()))
    accent = ACCENTS[sample.accent](machine.snapshot)

    def send(data: bytes) -> int:
        sent = 0
        for events in pipeline.read(data):
            for event in events:
                event = accent(event)
                sent += len(encode_frame(event.type, encode(event)))
        return sent

    for event in sample.before:
        send(bytes_of(sample, event))
    return send


def microseconds(send: Callable[[bytes], int], data: bytes) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        begin = process_time()
        for _ in range(WINDOW):
            send(data)
        best = min(best, process_time() - begin)
    return best / WINDOW * 1e6


def measure(sample: Sample) -> dict[str, float]:
    send, data = opened(sample), bytes_of(sample, sample.chunk)
    for _ in range(EARLY):
        if not send(data):
            raise AssertionError("the chunk caused no event")
    early = microseconds(send, data)
    for _ in range(LATE - EARLY - ROUNDS * WINDOW):
        send(data)
    return {"early_us": round(early, 2), "late_us": round(microseconds(send, data), 2)}


def main() -> int:
    chosen = sys.argv[1:]
    results = {
        name: measure(sample)
        for name, sample in SAMPLES.items()
        if not chosen or any(name.startswith(each) for each in chosen)
    }
    for name, row in results.items():
        print(f"{name:30} {row['early_us']:6.2f} us at chunk {EARLY}, {row['late_us']:6.2f} at {LATE:,}")
    if not chosen:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
