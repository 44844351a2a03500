"""Reads an answer of the AI SDK that was not streamed."""

from __future__ import annotations

from typing import Any

from penstock.dialects.ai_sdk.reader import AiSdkReader
from penstock.dialects.frames import error_delta, read_object
from penstock.dialects.plan import Plan
from penstock.lenient import object_of, objects_of
from penstock.sse import Frame
from penstock.stream.deltas import Delta, ErrorDelta

JSON = dict[str, Any]


def read_body(plan: Plan, body: bytes) -> list[Delta]:
    """Return the deltas of a generated result, read as the parts that would have streamed it."""
    reader = AiSdkReader(plan)
    result = read_object(Frame(None, body.decode(errors="replace")))
    if isinstance(result, ErrorDelta):
        return [result]
    if "content" not in result and "finishReason" not in result:
        return [error_delta(result)]
    parts: list[JSON] = [
        {"type": "stream-start", "warnings": result.get("warnings")},
        {**object_of(result.get("response")), "type": "response-metadata"},
    ]
    for index, content in enumerate(objects_of(result.get("content"))):
        parts += _as_parts(f"{index}", content)
    parts.append({**result, "type": "finish"})
    return [delta for part in parts for delta in reader.read_part(part)]


def _as_parts(id: str, content: JSON) -> list[JSON]:
    kind = content.get("type")
    if kind not in ("text", "reasoning"):
        return [content]
    metadata = content.get("providerMetadata")
    return [
        {"type": f"{kind}-start", "id": id, "providerMetadata": metadata},
        {"type": f"{kind}-delta", "id": id, "delta": content.get("text")},
        {"type": f"{kind}-end", "id": id, "providerMetadata": metadata},
    ]
