"""Lanes and columns of streams, lawful and broken."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.inspector.columns import LONGEST_NAME, MOST_LANES, UNREADABLE, StreamColumns


def columns(*events: Any, **options: Any) -> StreamColumns:
    found = StreamColumns(**options)
    for number, event in enumerate(events):
        found.add(number, number * 10.0, event if isinstance(event, bytes) else json.dumps(event))
    return found


def added(index: Any, id: str, type: str = "message", **item: Any) -> dict[str, Any]:
    return {
        "type": "response.output_item.added",
        "output_index": index,
        "item": {"type": type, "id": id, **item},
    }


def done(index: Any, id: str, **item: Any) -> dict[str, Any]:
    return {
        "type": "response.output_item.done",
        "output_index": index,
        "item": {"type": "message", "id": id, "status": "completed", **item},
    }


def delta(index: Any, id: str = "") -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": index, "item_id": id, "delta": "x"}


def test_each_item_has_a_lane_from_added_to_done() -> None:
    found = columns(
        {"type": "response.created"},
        added(0, "rs_1", "reasoning"),
        added(1, "fc_1", "function_call", name="look"),
        delta(0),
        done(0, "rs_1"),
        delta(1),
    )
    first, second = found.lanes
    assert (first.type, first.added_ms, first.done_ms, first.status) == ("reasoning", 10, 40, "completed")
    assert (first.added_sequence, first.done_sequence) == (1, 4)
    assert (second.name, second.done_ms, second.done_sequence) == ("look", None, None)
    assert found.events.lane == [-1, 0, 1, 0, 0, 1]
    assert found.events.sequence == [0, 1, 2, 3, 4, 5]
    names = [found.events.types[type] for type in found.events.type]
    assert names[0] == "response.created"
    assert names[3] == names[5] == "response.output_text.delta"


def test_an_event_without_a_valid_index_is_found_by_its_item() -> None:
    found = columns(added("x", "msg_1"), delta(None, "msg_1"), delta(7, "msg_1"), done([], "msg_1"), delta(3))
    assert found.events.lane == [0, 0, 0, 0, -1]
    assert found.lanes[0].output_index == -1


def test_only_repeated_progress_is_a_heartbeat() -> None:
    progress = {"type": "response.in_progress"}
    assert columns(progress, {"type": "other"}, progress, progress).heartbeats == [20, 30]


def test_rows_begin_after_a_number_and_lanes_are_always_complete() -> None:
    events = [added(0, "a"), *([delta(0)] * 6), done(0, "a")]
    first = columns(*events, most=3)
    assert (first.events.sequence, first.events.next) == ([0, 1, 2], 2)
    assert first.lanes[0].done_ms == 70
    second = columns(*events, most=3, after=2)
    assert (second.events.sequence, second.events.next) == ([3, 4, 5], 5)
    last = columns(*events, most=3, after=5)
    assert (last.events.sequence, last.events.next) == ([6, 7], None)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 100_000, b'{"type":1}'])
def test_an_unreadable_event_has_a_row(data: bytes) -> None:
    found = columns(data)
    assert found.events.types == [UNREADABLE]
    assert found.events.size == [len(data)]


def test_names_and_lanes_are_limited() -> None:
    found = columns({"type": "x" * 1000}, added(0, "i" * 1000, name="n" * 1000))
    assert len(found.events.types[0]) == LONGEST_NAME
    assert len(found.lanes[0].name) == len(found.lanes[0].item_id) == LONGEST_NAME
    many = columns(*[added(number, f"i{number}") for number in range(MOST_LANES + 2)])
    assert len(many.lanes) == MOST_LANES
    assert many.events.lane[-1] == -1


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda each: st.lists(each, max_size=2) | st.dictionaries(st.text(max_size=3), each, max_size=2),
    max_leaves=4,
)
events = st.fixed_dictionaries(
    {},
    optional={
        "type": values
        | st.sampled_from(
            ["response.output_item.added", "response.output_item.done", "response.in_progress"]
        ),
        "output_index": values,
        "item_id": values,
        "item": values
        | st.fixed_dictionaries({}, optional=dict.fromkeys(("id", "type", "name", "status"), values)),
    },
)


@given(st.lists(events | st.binary(max_size=5), max_size=12))
def test_any_stream_can_be_drawn(stream: list[Any]) -> None:
    found = columns(*stream)
    rows = found.events
    assert len(rows.sequence) == len(rows.at_ms) == len(rows.type) == len(rows.lane) == len(rows.size)
    assert all(-1 <= lane < len(found.lanes) for lane in rows.lane)
    assert all(type < len(rows.types) for type in rows.type)
    assert msgspec.json.decode(msgspec.json.encode([found.lanes, rows]))


def test_heartbeats_are_limited_like_rows() -> None:
    found = StreamColumns(most=3)
    for number in range(9):
        found.add(number, float(number), '{"type": "response.in_progress"}')
    assert found.heartbeats == [1, 2, 3]
