"""Items of tools that the vendor runs."""

from __future__ import annotations

import pytest

from penstock.protocol.items import FunctionCall, ShellCall, UnknownItem, WebSearchCall
from penstock.protocol.tools import FunctionTool
from penstock.protocol.wire import read
from penstock.stream.deltas import (
    EventDelta,
    ItemDelta,
    TextDelta,
    ToolCallDelta,
)
from tests.stream.running import (
    assert_lawful,
    codes,
    machine,
    of_type,
    plain,
    run,
    types,
)


# Items of the vendor
def test_a_hosted_item_gets_our_id_and_its_events_point_at_it() -> None:
    stream, events = run(
        [
            ItemDelta("ws", WebSearchCall(id="ws_theirs", status="searching"), done=False),
            EventDelta("response.web_search_call.searching", {"item_id": "ws_theirs"}, key="ws"),
            ItemDelta("ws", WebSearchCall(id="ws_other", action={"query": "q"}), done=True),
            ItemDelta("ws", WebSearchCall(id="ws_other"), done=True),
            EventDelta("response.web_search_call.searching", {}, key="ws"),
        ]
    )
    (item,) = events[-1]["response"]["output"]
    assert item["id"].startswith("ws_1_")
    assert item["status"] == "completed"
    assert item["action"] == {"query": "q"}
    assert of_type(events, "web_search_call.searching")[0]["item_id"] == item["id"]
    assert len(of_type(events, "output_item.added", "output_item.done")) == 2
    assert codes(stream) == {"repeated_item", "event_without_item"}


def test_a_hosted_item_that_is_only_done_is_announced_first() -> None:
    _, events = run([ItemDelta(0, WebSearchCall(status="failed"), done=True)])
    assert types(events)[2:4] == ["output_item.added", "output_item.done"]
    assert events[-1]["response"]["output"][0]["status"] == "failed"


def test_an_open_hosted_item_ends_as_incomplete() -> None:
    stream = machine()
    events = stream.start() + stream.item(0, WebSearchCall(), done=False) + stream.cancel()
    assert plain(events)[-1]["response"]["output"][0]["status"] == "incomplete"
    assert_lawful(events)


@pytest.mark.parametrize("is_announced", [True, False])
def test_an_item_that_the_vendor_left_incomplete_ends_with_the_response(is_announced: bool) -> None:
    """No item may be added after an incomplete one (spec N27), and a complete response has none."""
    announced = [ItemDelta(0, WebSearchCall(status="in_progress"), done=False)] if is_announced else []
    left = ItemDelta(0, WebSearchCall(status="incomplete", action={"query": "q"}), done=True)
    stream, events = run([*announced, left, TextDelta("Hi"), left])
    items = types(of_type(events, "output_item.added", "output_item.done"))
    assert items == ["output_item.added"] * 2 + ["output_item.done"] * 2
    assert of_type(events, "output_item.added")[0]["item"]["status"] == "in_progress"
    search, message = events[-1]["response"]["output"]
    assert (search["status"], search["action"], message["status"]) == ("failed", {"query": "q"}, "completed")
    assert codes(stream) == set()


def test_the_arguments_of_a_second_call_may_follow_an_incomplete_item() -> None:
    """An upstream that is cut off leaves a call whose first arguments are complete, and more of them."""
    stream = machine([FunctionTool(name="weather")])
    events = stream.start()
    for delta in (
        ToolCallDelta(key=0, name="weather", arguments="{}"),
        ToolCallDelta(key=0, arguments='{"ci'),
        ItemDelta(1, UnknownItem(type="mcp_call"), done=False),
        ItemDelta(1, UnknownItem(type="mcp_call", status="incomplete"), done=True),
    ):
        events += stream.apply(delta)
    events += stream.fail("upstream_truncated", "cut off")
    assert_lawful(events)
    output = plain(events)[-1]["response"]["output"]
    assert [item["status"] for item in output] == ["completed", "incomplete", "incomplete"]


def test_a_complete_call_of_the_vendor_is_sent_once() -> None:
    shell = ShellCall(id="a", call_id="call_0", action={"commands": ["ls"]}, status="completed")
    stream, events = run(
        [ItemDelta(0, shell, done=True), ItemDelta(1, shell, done=True)], used_call_ids={"call_0"}
    )
    (item,) = events[-1]["response"]["output"]
    assert item["call_id"] == "call_0-pk2"
    assert codes(stream) == {"repeated_item"}


def test_a_vendors_call_without_an_id_gets_one_and_its_nulls_are_dropped() -> None:
    null = read({"type": "computer_call", "id": None, "status": None, "call_id": None}, UnknownItem)
    _, events = run([ItemDelta(0, null, done=True), ItemDelta(1, null, done=True)])
    one, other = events[-1]["response"]["output"]
    assert one["call_id"] != other["call_id"]
    assert (one["status"], one["id"]) == ("completed", "item_1_1")


def test_an_item_type_with_its_own_deltas_cannot_be_hosted() -> None:
    stream = machine()
    stream.start()
    with pytest.raises(ValueError, match="function_call"):
        stream.item(0, FunctionCall(call_id="a", name="f"), done=True)
    with pytest.raises(ValueError, match=r"output_text\.delta"):
        stream.event("response.output_text.delta", {})
    assert stream.snapshot.output == []


def test_an_event_without_an_item_passes_with_our_sequence_number() -> None:
    _, events = run([EventDelta("response.metadata", {"sequence_number": 99, "x": 1})])
    assert events[2] == {"type": "response.metadata", "sequence_number": 2, "x": 1}
