"""A trace shows types, ids, indexes and sizes, and no content."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.parts.adapter import HANDLERS, OpenResponsesStreamAdapter
from penstock.parts.event_types import KNOWN_EVENTS
from penstock.parts.parts import DataPart, Part, TextPart, ThinkingPart, ToolCallPart
from penstock.parts.tracing import trace_fields, trace_line
from penstock.protocol.events import EVENTS, Event, read_event
from tests.effort import examples
from tests.parts.events import JSON, call, completed, event, item_added, text_delta

CANARY = "canary"

PARTS: dict[str, tuple[Part, dict[str, Any]]] = {
    "text": (TextPart("Hello"), {"kind": "text", "size": 5}),
    "thinking": (ThinkingPart("Hm", "rs_1"), {"kind": "thinking", "size": 2}),
    "thinking in pieces": (ThinkingPart(["Hm", "m"], "rs_1"), {"kind": "thinking", "size": 3}),
    "a call": (
        ToolCallPart("gw-call_1", "look", {"at": "sea"}),
        {"kind": "tool_call", "call_id": "gw-call_1", "name": "look", "size": 13},
    ),
    "half a surrogate pair": (
        ToolCallPart("gw-1", "look", {"at": "\ud83d"}),
        {"kind": "tool_call", "call_id": "gw-1", "name": "look", "size": 11},
    ),
    "a tool that was not offered": (
        ToolCallPart("gw-1", "The password of alice is hunter2", {}),
        {"kind": "tool_call", "call_id": "gw-1", "name": "(32 characters)", "size": 2},
    ),
    "a call id that is a text": (
        ToolCallPart("gw-the password", "look", {}),
        {"kind": "tool_call", "call_id": "(15 characters)", "name": "look", "size": 2},
    ),
    "a call id that looks like a key": (
        ToolCallPart("gw-sk-hunter2hunter2", "look", {}),
        {"kind": "tool_call", "call_id": "(20 characters)", "name": "look", "size": 2},
    ),
    "data": (DataPart(b"\0\1", "image/png"), {"kind": "data", "mime": "image/png", "size": 2}),
    "data of an odd type": (DataPart(b"", "a b"), {"kind": "data", "mime": "(3 characters)", "size": 0}),
}


@pytest.mark.parametrize(("part", "fields"), PARTS.values(), ids=PARTS.keys())
def test_a_part_is_traced_by_its_kind_and_size(part: Part, fields: dict[str, Any]) -> None:
    assert trace_fields(None, [part], ["look"]) == {"type": "end of the stream", "parts": [fields]}


EVENTS_TRACED: dict[str, tuple[dict[str, Any], str]] = {
    "an event of an item": (text_delta("msg_1", "Hello", 2), "0 response.output_text.delta 2 msg_1"),
    "an item": (item_added(call("fc_1", "look"), 1), "0 response.output_item.added 1 fc_1"),
    "an item that is not one": (event("output_item.added", item=[1]), "0 response.output_item.added"),
    "a response": ({**completed(), "sequence_number": 9}, "9 response.completed resp_1"),
    "a vendor's prefix": ({"type": "openai:response.created"}, "0 openai:response.created"),
    "a keep-alive": ({"type": "The password is.ping"}, "0 keep-alive"),
    "an unknown event": ({"type": "The password is hunter2"}, "0 unknown event"),
    "an unknown event in one word": ({"type": "response.hunter2"}, "0 unknown event"),
    "an id that is a text": (
        text_delta("the password", "Hello"),
        "0 response.output_text.delta 0 (12 characters)",
    ),
}


@pytest.mark.parametrize(("raw", "line"), EVENTS_TRACED.values(), ids=EVENTS_TRACED.keys())
def test_an_event_is_traced_by_its_type_and_place(raw: dict[str, Any], line: str) -> None:
    assert trace_line(read_event(raw), []) == f"{line} -> nothing"


def test_the_parts_of_an_event_are_in_its_line() -> None:
    parts: list[Part] = [TextPart("Hello"), ToolCallPart("gw-call_1", "look", {})]
    event = read_event(text_delta("m", "Hello"))
    line = "0 response.output_text.delta 0 m -> text 5, tool_call gw-call_1"
    assert trace_line(event, parts, ["look"]) == f"{line} look 2"
    assert trace_line(event, parts) == f"{line} (4 characters) 2"


def test_the_types_of_all_events_that_the_adapter_reads_are_known() -> None:
    assert HANDLERS.keys() <= KNOWN_EVENTS


content = st.recursive(
    st.sampled_from([CANARY, f"sk-{CANARY}", f"https://x.example/?key={CANARY}", 1, None, True]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "text", "summary", "content", "annotations", "arguments", CANARY]), inner
        )
    ),
    max_leaves=6,
)
FIELDS = ["delta", "text", "refusal", "arguments", "input", "part", "annotation", "error", "message", "code"]


NAMES = ["look", CANARY, f"The {CANARY} of alice", f"{CANARY}\n"]
IDS = ["msg_1", "fc_2", f"The {CANARY} of alice", f"sk-{CANARY}-12345", f"{CANARY}\n", f"{CANARY}é"]


def with_canaries(
    type: str, fields: JSON, item: JSON, item_id: str, index: int, call_id: str, name: str
) -> JSON:
    call = {"type": "function_call", "call_id": call_id, "name": name, **item, "id": item_id}
    return {
        "type": type,
        "name": name,
        **fields,
        "item_id": item_id,
        "output_index": index,
        "item": call,
        "response": {"id": item_id, "output": [call], "error": {"message": CANARY}},
    }


events = st.builds(
    with_canaries,
    st.sampled_from([*sorted({*HANDLERS, *EVENTS}), CANARY, f"response.{CANARY}", f"{CANARY}.ping"]),
    st.dictionaries(st.sampled_from(FIELDS), content),
    st.dictionaries(
        st.sampled_from(["content", "summary", "arguments", "encrypted_content"]), content | st.just("{}")
    ),
    st.sampled_from(IDS),
    st.integers(0, 3),
    st.sampled_from(IDS),
    st.sampled_from(NAMES),
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(events, max_size=8))
def test_no_content_of_any_event_is_traced(stream: list[dict[str, Any]]) -> None:
    lines: list[str] = []

    def trace(event: Event | None, parts: Any) -> None:
        lines.append(f"{trace_fields(event, parts, ['look'])} {trace_line(event, parts, ['look'])}")

    adapter = OpenResponsesStreamAdapter(citations="end", errors_as_text=True, trace=trace)
    for raw in stream:
        adapter.feed(read_event(raw))
    adapter.end()
    assert CANARY not in "\n".join(lines)
    for raw, line in zip(stream, lines, strict=False):
        if CANARY not in raw["type"] + raw["item_id"]:
            assert f"{raw['type']} {raw['output_index']} {raw['item_id']} -> " in line
