"""Read a Converse answer that is not streamed, by converting it to the events of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from penstock.dialects.bedrock.reader import BedrockReader
from penstock.dialects.frames import error_delta, read_object
from penstock.dialects.plan import Plan
from penstock.lenient import object_of, objects_of
from penstock.sse import Frame
from penstock.stream.deltas import Delta, ErrorDelta


def read_body(plan: Plan, body: bytes) -> list[Delta]:
    value = read_object(Frame(None, body.decode(errors="replace")))
    if isinstance(value, ErrorDelta):
        return [value]
    message = object_of(object_of(value.get("output")).get("message"))
    if not isinstance(message.get("content"), list):
        return [error_delta(value)]
    reader = BedrockReader(plan)
    deltas: list[Delta] = []
    for event in _events(value, objects_of(message["content"])):
        deltas += reader.feed(Frame(None, msgspec.json.encode(event).decode()))
    return deltas + reader.end()


def _events(answer: dict[str, Any], content: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield {"messageStart": {}}
    for index, block in enumerate(content):
        position = {"contentBlockIndex": index}
        start, deltas = _start(block), _deltas(block)
        if start:
            yield {"contentBlockStart": {**position, "start": start}}
        for delta in deltas:
            yield {"contentBlockDelta": {**position, "delta": delta}}
        yield {"contentBlockStop": position}
    yield {"messageStop": {"stopReason": answer.get("stopReason")}}
    yield {"metadata": {"usage": answer.get("usage")}}


def _start(block: dict[str, Any]) -> dict[str, Any]:
    """Return the start of a tool's block, which has the tool's name, as in a stream."""
    return {name: value for name, value in block.items() if name in ("toolUse", "toolResult")}


def _deltas(block: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the deltas that a stream would have after the start of the block."""
    if "reasoningContent" in block:
        reasoning = object_of(block["reasoningContent"])
        return [{"reasoningContent": {**reasoning, **object_of(reasoning.get("reasoningText"))}}]
    if "citationsContent" in block:
        cited = object_of(block["citationsContent"])
        citations = [{"citation": each} for each in objects_of(cited.get("citations"))]
        return [*citations, *({"text": each.get("text")} for each in objects_of(cited.get("content")))]
    if "toolResult" in block:
        return [{"toolResult": object_of(block["toolResult"]).get("content")}]
    return [{name: value} for name, value in block.items() if name != "toolUse"]
