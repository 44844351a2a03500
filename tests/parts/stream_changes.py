"""Changes to streams that imitate the faults of servers."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from itertools import count
from typing import Any

from penstock.sse import Decoder
from tests.cli import streams
from tests.parts.events import (
    JSON,
)

Events = list[JSON]
Change = Callable[[Events], Events]


# The fault matrix


def valid_stream() -> Events:
    """Return a valid stream with text and a call."""
    text, working = streams.message("msg_1", 0, ["work", "ing"])
    arguments, add = streams.call("fc_1", 1, "add", ['{"a":2,', '"b":3}'])
    return streams.response([*text, *arguments], [working, add])


def of(*types: str) -> Callable[[JSON], bool]:
    return lambda event: event["type"].removeprefix("response.") in types


def without(*types: str) -> Change:
    return lambda events: [event for event in events if not of(*types)(event)]


def only(*types: str) -> Change:
    return lambda events: [event for event in events if of(*types)(event)]


def change_events(change: Callable[[JSON], Any], *types: str) -> Change:
    """Change every event (of these types) in place."""

    def apply(events: Events) -> Events:
        for each in events:
            if not types or of(*types)(each):
                change(each)
        return events

    return apply


def without_fields(*names: str) -> Change:
    return change_events(lambda event: [event.pop(name, None) for name in names])


def in_items(change: Callable[[JSON], Any]) -> Change:
    """Change every item in place, wherever it occurs."""

    def apply(event: JSON) -> None:
        for item in [
            *([event["item"]] if "item" in event else []),
            *event.get("response", {}).get("output", []),
        ]:
            change(item)

    return change_events(apply)


def in_response(change: Callable[[JSON], Any], *types: str) -> Change:
    return change_events(lambda event: change(event["response"]), *(types or ("completed",)))


def twice(*types: str, numbered: bool = False) -> Change:
    """Repeat every event of these types, with `numbered` as a new event."""

    def apply(events: Events) -> Events:
        repeated: Events = []
        for each in events:
            again = {**copy.deepcopy(each), **({"sequence_number": 1000} if numbered else {})}
            repeated += [each, again] if of(*types)(each) else [each]
        return repeated

    return apply


def until(*types: str, index: int | None = None) -> Change:
    """Cut the stream after the first event of these types (for the item at an index)."""

    def apply(events: Events) -> Events:
        fits = (
            n for n, each in enumerate(events) if of(*types)(each) and index in (None, each["output_index"])
        )
        return events[: next(fits) + 1]

    return apply


def then_send(change: Change, *more: JSON) -> Change:
    return lambda events: [*change(events), *more]


def insert(at: int, *more: JSON) -> Change:
    return lambda events: [*events[:at], *more, *events[at:]]


def over_the_wire(write: Callable[[bytes], bytes]) -> Change:
    """Encode the events as server-sent events and decode them."""

    def apply(events: Events) -> Events:
        frames = Decoder().feed(write(streams.as_sse(events)))
        return [json.loads(frame.data) for frame in frames if frame.data != "[DONE]"]

    return apply


def rotate_item_ids(events: Events) -> Events:
    """Use a different id for the same item in every event and in the response."""
    numbers = count()
    for each in events:
        if "item_id" in each:
            each["item_id"] = f"x{next(numbers)}"
    return in_items(lambda item: item.update(id=f"x{next(numbers)}"))(events)
