"""Rebuilding a response from the log of a stream that was cut off."""

from __future__ import annotations

from typing import Any, TypeGuard

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.protocol.content import LogProb
from penstock.protocol.events import EVENTS, Event, OutputItemEvent
from penstock.protocol.wire import encode, to_builtins
from penstock.stream.deltas import Delta, EventDelta, FinishReason, SummaryDelta, TextDelta
from penstock.stream.recovery import (
    ITEM_CHANGES,
    PART_LISTS,
    TEXTS,
    WITHOUT_CONTENT,
    GrowingText,
    PartList,
    RecoveredOutput,
    recover,
)
from tests.effort import examples
from tests.stream import strategies
from tests.stream.running import call_in_pieces, machine


@pytest.mark.parametrize("type", EVENTS)
def test_every_event_of_the_protocol_changes_an_item_or_is_listed_as_without_content(type: str) -> None:
    changes = {OutputItemEvent, *ITEM_CHANGES}
    assert (EVENTS[type] in changes) != (EVENTS[type] in WITHOUT_CONTENT), (
        f"recovery must know {type}: add its shape to ITEM_CHANGES or to WITHOUT_CONTENT"
    )


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.owner)
def test_a_text_is_ended_by_an_event_of_the_protocol(text: GrowingText) -> None:
    assert EVENTS[text.done_type] is text.done
    assert {text.field, *text.repeated} <= {*text.done.__struct_fields__}


@pytest.mark.parametrize("shape", PART_LISTS, ids=lambda shape: shape.__name__)
def test_a_part_is_closed_by_an_event_of_the_protocol(shape: type[Any]) -> None:
    parts: PartList = PART_LISTS[shape]
    assert EVENTS[parts.done_type] is shape
    assert parts.index in shape.__struct_fields__


def log_of(events: list[Event]) -> list[tuple[int, bytes]]:
    return [(event.sequence_number, encode(event)) for event in events]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(strategies.deltas, max_size=12))
def test_after_every_delta_the_recovered_items_are_those_of_the_machine(deltas: list[Delta]) -> None:
    stream = machine(strategies.TOOLS)
    first, events = encode(stream.snapshot), stream.start()
    for delta in deltas:
        if stream.phase != "in_progress":
            break
        # Events of hosted tools are for one accent only, which the plan ensures, not the machine.
        if not isinstance(delta, EventDelta):
            events += stream.apply(delta)
        done = {event.output_index for event in events if is_done_item(event)}
        expected = [
            item if index in done else {**item, "status": "incomplete"}
            for index, item in enumerate(map(to_builtins, stream.snapshot.output))
        ]
        assert recover("resp_1", first, log_of(events)).response["output"] == expected


def is_done_item(event: Event) -> TypeGuard[OutputItemEvent]:
    return event.type == "response.output_item.done"


def test_the_log_probabilities_of_an_open_text_are_recovered() -> None:
    stream = machine()
    first, events = encode(stream.snapshot), stream.start()
    events += stream.apply(
        TextDelta("a", logprobs=[LogProb(token="a", logprob=-0.5, bytes=[97], top_logprobs=[])])
    )
    recovered = recover("resp_1", first, log_of(events))
    (part,) = recovered.response["output"][0]["content"]
    assert [each["token"] for each in part["logprobs"]] == ["a"]
    (done,) = [event for event in recovered.events if event["type"] == "response.output_text.done"]
    assert done["logprobs"] == part["logprobs"]


def test_a_part_that_the_log_has_closed_is_not_closed_again() -> None:
    stream = machine()
    first, events = encode(stream.snapshot), stream.start()
    events += stream.apply(SummaryDelta("one", part=0))
    events += stream.apply(SummaryDelta("two", part=1))
    recovered = recover("resp_1", first, log_of(events))
    closed = [event for event in recovered.events if event["type"] == "response.reasoning_summary_part.done"]
    assert [event["summary_index"] for event in closed] == [1]


def test_a_log_that_has_its_terminal_event_needs_no_events() -> None:
    stream = machine()
    first, events = encode(stream.snapshot), stream.start() + stream.text("all")
    events += stream.finish(FinishReason.STOP)
    recovered = recover("resp_1", first, log_of(events))
    assert recovered.events == []
    assert recovered.response == to_builtins(stream.snapshot)


def test_an_empty_log_is_completed_with_a_created_and_a_failed_event() -> None:
    recovered = recover("resp_1", encode(machine().snapshot), [])
    assert [(event["type"], event["sequence_number"]) for event in recovered.events] == [
        ("response.created", 0),
        ("response.failed", 1),
    ]
    assert recovered.response["error"]["code"] == "gateway_restarted"


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"type":"response.output_text.delta","delta":5}'])
def test_damaged_events_and_gaps_are_skipped(damage: bytes) -> None:
    stream = machine()
    first, log = encode(stream.snapshot), log_of(stream.start() + stream.text("a") + stream.text("b"))
    gap = [entry for entry in log if b"content_part.added" not in entry[1]]
    for entries in (log, gap):
        recovered = recover("resp_1", first, [*entries, (len(log), damage)])
        assert recovered.response["status"] == "failed"
        assert recovered.events[-1]["sequence_number"] == len(log) + len(recovered.events)
    assert recover("resp_1", b"damaged", []).response["id"] == "resp_1"


TYPED_CALLS = {
    "shell": '{"commands":["ls -a","pwd"]}',
    "apply_patch": '{"type":"update_file","path":"a","diff":"-x"}',
}


@pytest.mark.parametrize("name", TYPED_CALLS)
def test_a_typed_call_is_recovered_whichever_event_of_its_log_is_missing(name: str) -> None:
    stream = machine(strategies.TOOLS)
    first, events = encode(stream.snapshot), stream.start()
    for delta in call_in_pieces(name, TYPED_CALLS[name]):
        events += stream.apply(delta)
    log = log_of(events)
    for missing in range(len(log)):
        recovered = recover("resp_1", first, [*log[:missing], *log[missing + 1 :]])
        assert recovered.response["status"] == "failed"
    whole = recover("resp_1", first, log).response["output"][0]
    assert whole == {**to_builtins(stream.snapshot.output[0]), "status": "incomplete"}


class Written(dict[str, Any]):
    """An object that counts how often one of its fields is written."""

    count = 0

    def __setitem__(self, name: str, value: Any) -> None:
        self.count += 1
        super().__setitem__(name, value)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.owner)
def test_a_growing_text_is_joined_when_it_is_read_and_not_with_each_delta(text: GrowingText) -> None:
    """Otherwise, the cost of a text is the square of its length."""
    place = {"output_index": 0, "content_index": 0, "summary_index": 0}
    owner = Written(type=text.owner, **{text.field: ""})
    output, item = RecoveredOutput(), Written(type="message", id="item_0")
    is_part = {"content_index", "summary_index"} & {*text.delta.__struct_fields__}
    output.feed({"type": "response.output_item.added", **place, "item": item if is_part else owner})
    if is_part:
        shape = next(each for each, parts in PART_LISTS.items() if parts.index in is_part)
        added = next(name for name, each in EVENTS.items() if each is shape and name.endswith(".added"))
        output.feed({"type": added, **place, "part": owner})
    for _ in range(3):
        for piece in "abcdefgh":
            output.feed({"type": text.delta().type, **place, "delta": piece})
        assert output.items
    assert owner[text.field] == "abcdefgh" * 3
    assert owner.count == 3


def test_closing_a_part_joins_no_text_of_another_part() -> None:
    long, output = Written(type="output_text", text=""), RecoveredOutput()
    output.feed({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}})
    output.feed(part_event("added", 0, long))
    for number in range(1, 9):
        output.feed(part_event("added", number, {"type": "output_text", "text": ""}))
        for index in (0, number):
            delta = {"type": "response.output_text.delta", "output_index": 0, "content_index": index}
            output.feed({**delta, "delta": "a"})
        output.feed(part_event("done", number, {"type": "output_text"}))
    assert long.count == 0
    assert [part["text"] for part in output.items[0]["content"]] == ["a" * 8, *("a" * 8)]


def part_event(step: str, index: int, part: dict[str, Any]) -> dict[str, Any]:
    place = {"output_index": 0, "content_index": index}
    return {"type": f"response.content_part.{step}", **place, "part": part}
