"""Chat Completions streams, written by hand."""

from __future__ import annotations

from typing import Any

from penstock.dialects.chat import DIALECT
from penstock.dialects.envelope import unseal
from penstock.dialects.plan import Plan, Quirks, Target
from penstock.protocol.request import CreateResponse
from penstock.protocol.tools import Tool
from penstock.protocol.wire import to_builtins
from penstock.sse import Frame
from penstock.stream.deltas import Delta, FinishDelta, FinishReason, OpaqueReasoning
from penstock.tools.identity import ToolIdentityMap
from tests.dialects.block_stream_checks import as_frame
from tests.dialects.recordings import translate

DONE = Frame(None, "[DONE]")
STOP = FinishDelta(FinishReason.STOP)


def plan(*, tools: list[Tool] | None = None, **quirks: Any) -> Plan:
    request = CreateResponse(model="m", tools=tools or [])
    target = Target(model="m", vendor="acme", dialect="chat", quirks=Quirks(**quirks))
    return Plan(request=request, target=target, tools=ToolIdentityMap(tools or []), accent="openai")


def chunk(delta: Any = None, *, finish: Any = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {"choices": [choice], **fields}


def calls(*entries: dict[str, Any]) -> dict[str, Any]:
    return chunk({"tool_calls": list(entries)})


def read(*chunks: Any, for_plan: Plan | None = None) -> list[Delta]:
    """Return the deltas of a complete stream; chunks are dicts or frames."""
    reader = DIALECT.reader(for_plan or plan())
    deltas: list[Delta] = []
    for each in chunks:
        deltas += reader.feed(each if isinstance(each, Frame) else as_frame(each))
    return deltas + reader.end()


def answer(*chunks: Any, for_plan: Plan | None = None) -> dict[str, Any]:
    """Return the last snapshot of a complete stream, after checking that it is lawful."""
    frames = [each if isinstance(each, Frame) else as_frame(each) for each in chunks]
    events = translate(DIALECT, for_plan or plan(), frames)
    response: dict[str, Any] = to_builtins(events[-1])["response"]
    return response


def of(deltas: list[Delta], *types: type) -> list[Any]:
    """Return the deltas of these types."""
    return [delta for delta in deltas if isinstance(delta, types)]


def payloads(deltas: list[Delta]) -> list[Any]:
    """Return the payloads of sealed reasoning."""
    return [envelope.payload for each in of(deltas, OpaqueReasoning) if (envelope := unseal(each.data))]


def split_at(text: str, size: int) -> list[dict[str, Any]]:
    return [chunk({"content": text[i : i + size]}) for i in range(0, len(text), size)]
