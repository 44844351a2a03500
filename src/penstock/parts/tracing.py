"""Describe the events of a stream and the parts they produce, without their content.

A trace shows in which order events came and what became of them: types, ids, indexes and sizes. It has no
prompt, answer, reasoning or arguments, so it can be attached to a report. A model may write anything into the
name of a tool, and an endpoint into an id or a type: only what is known or looks like an id is shown, and
otherwise its length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from penstock.formatting import counted
from penstock.lenient import text_of
from penstock.likely_secrets import mask_likely_secrets
from penstock.parts.event_types import KNOWN_EVENTS
from penstock.parts.items import field, place
from penstock.parts.parts import DataPart, Part, TextPart, ThinkingPart, ToolCallPart
from penstock.protocol.events import Event, is_keep_alive

Trace = Callable[[Event | None, Sequence[Part]], None]
"""Called with each event and its parts; with None for parts after the last event."""

END = "end of the stream"
"""Stands for the type of an event where there is none."""

KEEP_ALIVE = "keep-alive"
UNKNOWN = "unknown event"
"""Stands for every type that the protocol does not have."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_MEDIA_TYPE = re.compile(r"[a-z_]{1,20}(?:/[a-z0-9.+-]{1,80})?")
"""Also our own, which have no subtype."""


def trace_fields(event: Event | None, parts: Sequence[Part], tools: Collection[str] = ()) -> dict[str, Any]:
    """Return the type, the place and the parts of an event. Fields that it does not have are omitted.

    `tools` are the tools in the request; other names are not shown.
    """
    shown = [_part_fields(part, tools) for part in parts]
    if event is None:
        return {"type": END, "parts": shown}
    id, index = place(event)
    has_index = isinstance(field(event, "output_index"), int)
    fields = {
        "type": _type_of(event),
        "sequence": event.sequence_number,
        "item": _shown(id or _nested_id(event), _ID),
        "index": index if has_index else None,
    }
    return {**{name: value for name, value in fields.items() if value not in ("", None)}, "parts": shown}


def trace_line(event: Event | None, parts: Sequence[Part], tools: Collection[str] = ()) -> str:
    """Return the same in one line, for people."""
    fields = trace_fields(event, parts, tools)
    place = [str(fields[name]) for name in ("sequence", "type", "index", "item") if name in fields]
    produced = ", ".join(" ".join(str(value) for value in part.values()) for part in fields["parts"])
    return f"{' '.join(place)} -> {produced or 'nothing'}"


def _type_of(event: Event) -> str:
    if event.type.removeprefix("openai:") in KNOWN_EVENTS:
        return event.type
    return KEEP_ALIVE if is_keep_alive(event.type) else UNKNOWN


def _shown(text: str, shape: re.Pattern[str]) -> str:
    """Return a text that has a shape and does not look like a secret; of others, the length."""
    is_harmless = not text or (shape.fullmatch(text) and mask_likely_secrets(text) == text)
    return text if is_harmless else _length(text)


def _length(text: str) -> str:
    return f"({counted(len(text), 'character')})"


def _nested_id(event: Event) -> str:
    """Return the id of the item, or of the response, that an event contains."""
    for name in ("item", "response"):
        value = field(event, name)
        if value is not None:
            return text_of(value.get("id") if isinstance(value, Mapping) else getattr(value, "id", ""))
    return ""


def _part_fields(part: Part, tools: Collection[str]) -> dict[str, Any]:
    """Return the kind of a part, what identifies it, and its size in characters (data: in bytes)."""
    if isinstance(part, TextPart):
        return {"kind": "text", "size": len(part.value)}
    if isinstance(part, ThinkingPart):
        return {"kind": "thinking", "size": sum(map(len, part.value))}
    if isinstance(part, ToolCallPart):
        name = part.name if part.name in tools else _length(part.name)
        identity = {"call_id": _shown(part.call_id, _ID), "name": name}
        return {"kind": "tool_call", **identity, "size": len(json.dumps(part.input, ensure_ascii=False))}
    assert isinstance(part, DataPart)
    return {"kind": "data", "mime": _shown(part.mime, _MEDIA_TYPE), "size": len(part.data)}
