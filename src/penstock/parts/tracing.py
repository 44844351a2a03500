"""Describe the events of a stream and the parts they produce, without their content.

A trace shows in which order events came and what became of them: types, ids, indexes and sizes. It has no
prompt, answer, reasoning or arguments, so it can be attached to a report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.lenient import text_of
from penstock.parts.items import field, place
from penstock.parts.parts import DataPart, Part, TextPart, ThinkingPart, ToolCallPart
from penstock.protocol.events import Event

Trace = Callable[[Event | None, Sequence[Part]], None]
"""Called with each event and its parts; with None for parts after the last event."""

END = "end of the stream"
"""Stands for the type of an event where there is none."""

_MAX_NAME_LENGTH = 80
_NOT_A_NAME = re.compile(r"[^\w.:/+-]")
"""Types, ids and tool names are made of other characters; anything else is not shown as it is."""


def trace_fields(event: Event | None, parts: Sequence[Part]) -> dict[str, Any]:
    """Return the type, the place and the parts of an event. Fields that it does not have are omitted."""
    shown = [_part_fields(part) for part in parts]
    if event is None:
        return {"type": END, "parts": shown}
    id, index = place(event)
    has_index = isinstance(field(event, "output_index"), int)
    fields = {
        "type": name_of(event.type),
        "sequence": event.sequence_number,
        "item": name_of(id or _nested_id(event)),
        "index": index if has_index else None,
    }
    return {**{name: value for name, value in fields.items() if value not in ("", None)}, "parts": shown}


def trace_line(event: Event | None, parts: Sequence[Part]) -> str:
    """Return the same in one line, for people."""
    fields = trace_fields(event, parts)
    place = [str(fields[name]) for name in ("sequence", "type", "index", "item") if name in fields]
    produced = ", ".join(" ".join(str(value) for value in part.values()) for part in fields["parts"])
    return f"{' '.join(place)} -> {produced or 'nothing'}"


def name_of(text: str) -> str:
    """Return an id or a name of a server or model as one short word."""
    return _NOT_A_NAME.sub("?", text[:_MAX_NAME_LENGTH])


def _nested_id(event: Event) -> str:
    """Return the id of the item, or of the response, that an event contains."""
    for name in ("item", "response"):
        value = field(event, name)
        if value is not None:
            return text_of(value.get("id") if isinstance(value, Mapping) else getattr(value, "id", ""))
    return ""


def _part_fields(part: Part) -> dict[str, Any]:
    """Return the kind of a part, what identifies it, and its size in characters (data: in bytes)."""
    if isinstance(part, TextPart):
        return {"kind": "text", "size": len(part.value)}
    if isinstance(part, ThinkingPart):
        return {"kind": "thinking", "size": sum(map(len, part.value))}
    if isinstance(part, ToolCallPart):
        identity = {"call_id": name_of(part.call_id), "name": name_of(part.name)}
        return {"kind": "tool_call", **identity, "size": len(json.dumps(part.input, ensure_ascii=False))}
    assert isinstance(part, DataPart)
    return {"kind": "data", "mime": name_of(part.mime), "size": len(part.data)}
