"""Encoding the events of one response, with the long fields of its snapshots encoded once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.protocol.events import Event, LifecycleEvent
from penstock.protocol.response import Response
from penstock.protocol.snapshots import SnapshotEncoder
from penstock.protocol.tools import FunctionTool, UnknownTool
from penstock.protocol.wire import encode
from tests.protocol.samples import EVERY_TOOL, samples

HOSTED = UnknownTool(type="mcp", extra={"server_label": "docs"})
SNAPSHOT = Response(id="resp_1", instructions="Be brief.", tools=[*EVERY_TOOL, HOSTED])


@given(st.lists(st.sampled_from(samples()), max_size=8))
def test_the_bytes_are_those_of_the_general_encoder(events: list[Event]) -> None:
    encoder = SnapshotEncoder()
    assert [encoder.encode(event) for event in events] == [encode(event) for event in events]


def test_fields_that_change_after_all_are_encoded_again() -> None:
    encoder = SnapshotEncoder()
    snapshots = [
        SNAPSHOT,
        replace(SNAPSHOT, status="completed"),
        replace(SNAPSHOT, tools=[FunctionTool(name="add")], instructions=None),
        replace(SNAPSHOT, extra={"tools": None, "vendor": 1}),
        SNAPSHOT,
    ]
    for number, snapshot in enumerate(snapshots):
        event = LifecycleEvent(type="response.in_progress", sequence_number=number, response=snapshot)
        assert encoder.encode(event) == encode(event)


def test_the_tools_of_a_response_are_encoded_once() -> None:
    encoder = SnapshotEncoder()
    event = LifecycleEvent(type="response.created", response=SNAPSHOT)
    first = encoder.encode(event)
    SNAPSHOT.tools[-1].extra["server_label"] = "changed"  # type: ignore[index]
    try:
        assert encoder.encode(event) == first
    finally:
        SNAPSHOT.tools[-1].extra["server_label"] = "docs"  # type: ignore[index]
