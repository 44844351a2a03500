"""Rebuilds a response from the log of a stream that was cut off, for example because its process was killed.

The response ends as `failed`, with the items that are in the log. An open item is closed as in any other
failure: as `incomplete`, with the content received so far and with the events that close it (decision 5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from penstock.protocol.errors import ResponseError
from penstock.protocol.events import (
    EVENTS,
    TERMINAL,
    AnnotationAddedEvent,
    ArgumentsDeltaEvent,
    ArgumentsDoneEvent,
    ContentPartEvent,
    CustomInputDeltaEvent,
    CustomInputDoneEvent,
    ErrorEvent,
    Event,
    HostedToolEvent,
    LifecycleEvent,
    OutputItemEvent,
    OutputTextDeltaEvent,
    OutputTextDoneEvent,
    PatchDiffEvent,
    ReasoningDeltaEvent,
    ReasoningDoneEvent,
    RefusalDeltaEvent,
    RefusalDoneEvent,
    ShellCommandEvent,
    ShellOutputEvent,
    SummaryDeltaEvent,
    SummaryDoneEvent,
    SummaryPartEvent,
)

RESTARTED = "gateway_restarted"
WORKER_LOST = "worker_lost"
INTERRUPTIONS = {
    RESTARTED: "the gateway was stopped before the response was complete; the output so far is stored",
    WORKER_LOST: "the worker that ran the response died before it was complete; the output so far is stored",
}
"""The error codes of recovered responses, with their messages (decision 33)."""

_CREATED, _FAILED = "response.created", "response.failed"
_IN_PROGRESS = "response.in_progress"
_ITEM_ADDED, _ITEM_DONE = "response.output_item.added", "response.output_item.done"

Json = dict[str, Any]


class Recovered(Struct, frozen=True):
    """A response that has ended, and the events that are missing from its log."""

    response: Json
    """The last snapshot, with all items in `output`."""
    events: list[Json]
    """In order, with sequence numbers; the last is terminal. Empty if the log has a terminal event."""


def recover(
    response_id: str, first_snapshot: bytes, log: Iterable[tuple[int, bytes]], code: str = RESTARTED
) -> Recovered:
    """Rebuild a response that was interrupted for the reason `code`. `log` has the sequence number and the
    JSON of each event, in order, with or without gaps."""
    output, last = RecoveredOutput(), -1
    for sequence, data in log:
        last, event = sequence, _read(data)
        if event.get("type") in TERMINAL:  # logged before the record is closed, if the response is large
            return Recovered(event["response"], [])
        output.feed(event)
    snapshot = _read(first_snapshot) or {"id": response_id, "object": "response"}
    events: list[Json] = [{"type": _CREATED, "response": snapshot}] if last < 0 else []
    events += output.close()
    failed = {
        **snapshot,
        "status": TERMINAL[_FAILED],
        "error": msgspec.to_builtins(ResponseError(code=code, message=INTERRUPTIONS[code])),
        "output": output.items,
    }
    events.append({"type": _FAILED, "response": failed})
    return Recovered(failed, [_numbered(event, last + place) for place, event in enumerate(events, 1)])


def current_snapshot(first_snapshot: bytes, log: Iterable[tuple[int, bytes]]) -> Json:
    """Return a response that still runs, as its log shows it so far."""
    output, snapshot = RecoveredOutput(), _read(first_snapshot)
    for _, data in log:
        event = _read(data)
        output.feed(event)
        if event.get("type") == _IN_PROGRESS and isinstance(event.get("response"), dict):
            snapshot = event["response"]
    return {**snapshot, "output": output.items}


def _numbered(event: Json, sequence: int) -> Json:
    return {"type": event["type"], "sequence_number": sequence, **event}


def _read(data: bytes) -> Json:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# How events change an item


class GrowingText(Struct, frozen=True):
    """A text that deltas extend: in a part of an item, or in the item itself."""

    owner: str
    """The type of the part or of the item."""
    field: str
    delta: type[Event]
    done: type[Event]
    repeated: tuple[str, ...] = ()
    """Other fields of the owner that the `done` event repeats."""

    @property
    def done_type(self) -> str:
        return self.done().type


class PartList(Struct, frozen=True):
    """A list of parts in an item."""

    field: str
    index: str
    """The event field with the index of the part."""
    done_type: str


class _OpenPart(Struct):
    list: PartList
    index: int
    fields: Json
    is_text_done: bool = False


class _Growing(Struct):
    """A text and what was added to it. Joining them with each delta would cost the square of its length."""

    owner: Any
    """The object or the list that has the text."""
    place: str | int
    pieces: list[str]

    def join(self) -> None:
        self.owner[self.place] = "".join((self.owner[self.place], *self.pieces))


class _OpenItem(Struct):
    fields: Json
    parts: dict[tuple[str, int], _OpenPart] = {}
    """By the event field with their index, and by the index."""
    is_text_done: bool = False
    growing: dict[tuple[int, str | int], _Growing] = {}
    """By the id of the owner, and the place of the text."""

    def owner_of(self, event: Json) -> _OpenPart | _OpenItem:
        """Return the open part that an event refers to, else the item itself."""
        places = ((parts.index, event.get(parts.index)) for parts in PART_LISTS.values())
        return next((self.parts[place] for place in places if place in self.parts), self)

    def extend(self, owner: Any, place: str | int, delta: Any) -> None:
        """Add to a text; raise `LookupError` or `TypeError` if the owner has none there."""
        key = (id(owner), place)
        found = self.growing.get(key)
        if found is None:
            if not isinstance(owner[place], str):
                raise TypeError
            found = self.growing[key] = _Growing(owner, place, [])
        if not isinstance(delta, str):
            raise TypeError
        found.pieces.append(delta)

    def join(self, part: Json | None = None) -> None:
        """Write what was added to the texts: to all of them, or to that of a part."""
        if part is None:
            grown = list(self.growing.values())
            self.growing.clear()
        else:
            text = _TEXT_OF.get(part.get("type", ""))
            found = self.growing.pop((id(part), text.field), None) if text is not None else None
            grown = [] if found is None else [found]
        for each in grown:
            each.join()


TEXTS = (
    GrowingText("output_text", "text", OutputTextDeltaEvent, OutputTextDoneEvent),
    GrowingText("refusal", "refusal", RefusalDeltaEvent, RefusalDoneEvent),
    GrowingText("reasoning_text", "text", ReasoningDeltaEvent, ReasoningDoneEvent),
    GrowingText("summary_text", "text", SummaryDeltaEvent, SummaryDoneEvent),
    GrowingText("function_call", "arguments", ArgumentsDeltaEvent, ArgumentsDoneEvent, ("name",)),
    GrowingText("custom_tool_call", "input", CustomInputDeltaEvent, CustomInputDoneEvent),
)
_TEXT_OF = {text.owner: text for text in TEXTS}

PART_LISTS: dict[type[Event], PartList] = {
    ContentPartEvent: PartList("content", "content_index", "response.content_part.done"),
    SummaryPartEvent: PartList("summary", "summary_index", "response.reasoning_summary_part.done"),
}
"""The list of parts, by the shape of the events that open and close a part."""


def _open_or_close_part(item: _OpenItem, event: Json) -> None:
    if event["type"].endswith(".added"):
        parts = PART_LISTS[EVENTS[event["type"]]]
        part = _OpenPart(parts, event[parts.index], event["part"])
        item.parts[parts.index, part.index] = part
        item.fields.setdefault(parts.field, []).append(part.fields)
    elif isinstance(closed := item.owner_of(event), _OpenPart):
        item.join(closed.fields)
        closed.fields.update(event["part"])
        del item.parts[closed.list.index, closed.index]


def _extend_text(item: _OpenItem, event: Json) -> None:
    fields = item.owner_of(event).fields
    text = _TEXT_OF.get(fields["type"])
    if text is not None:
        item.extend(fields, text.field, event["delta"])
        if "logprobs" in fields:
            fields["logprobs"] += event.get("logprobs", [])


def _end_text(item: _OpenItem, event: Json) -> None:
    item.owner_of(event).is_text_done = True


def _extend_command(item: _OpenItem, event: Json) -> None:
    commands, index = item.fields["action"]["commands"], event["command_index"]
    step = event["type"].rpartition(".")[2]
    if index == len(commands):
        commands.append("")  # with or without its `added`
    if step == "delta":
        item.extend(commands, index, event["delta"])
    item.is_text_done = step == "done"


def _extend_diff(item: _OpenItem, event: Json) -> None:
    item.extend(item.fields["operation"], "diff", event.get("delta", ""))
    item.is_text_done = event["type"].endswith(".done")


def _annotate(item: _OpenItem, event: Json) -> None:
    if isinstance(part := item.owner_of(event), _OpenPart):
        part.fields["annotations"].append(event["annotation"])


ITEM_CHANGES: dict[type[Event], Callable[[_OpenItem, Json], None]] = {
    **dict.fromkeys(PART_LISTS, _open_or_close_part),
    **{text.delta: _extend_text for text in TEXTS},
    **{text.done: _end_text for text in TEXTS},
    AnnotationAddedEvent: _annotate,
    ShellCommandEvent: _extend_command,
    PatchDiffEvent: _extend_diff,
}
"""The function that applies an event to its item, by the event's shape."""

WITHOUT_CONTENT: frozenset[type[Event]] = frozenset(
    {
        # About the response as a whole.
        LifecycleEvent,
        ErrorEvent,
        # Progress of a tool. The result is in the item, when that is done.
        HostedToolEvent,
        ShellOutputEvent,
    }
)
"""Shapes of events that do not change an item. A test checks that each shape is here or in `ITEM_CHANGES`."""


class RecoveredOutput:
    """The items that a client has after each event of a log."""

    def __init__(self) -> None:
        self._items: dict[int, Json] = {}
        self._open: dict[int, _OpenItem] = {}

    @property
    def items(self) -> list[Json]:
        for each in self._open.values():
            each.join()
        return [item for _, item in sorted(self._items.items())]

    def feed(self, event: Json) -> None:
        shape, index = EVENTS.get(event.get("type", "")), event.get("output_index")
        if shape is None or not isinstance(index, int):
            return
        if shape is OutputItemEvent:
            self._put_item(index, event)
        elif shape in ITEM_CHANGES and index in self._open:
            with suppress(LookupError, TypeError):  # the log has a gap: an earlier event is missing
                ITEM_CHANGES[shape](self._open[index], event)

    def _put_item(self, index: int, event: Json) -> None:
        item = event.get("item")
        if not isinstance(item, dict):
            return
        self._items[index] = item
        self._open.pop(index, None)
        if event["type"] == _ITEM_ADDED:
            self._open[index] = _OpenItem(item)

    def close(self) -> list[Json]:
        """Close the open items; return the events for this, without sequence numbers."""
        events: list[Json] = []
        for index, item in sorted(self._open.items()):
            item.join()
            position = {"item_id": item.fields.get("id"), "output_index": index}
            for part in item.parts.values():
                events += _close_part(part, position)
            events += _end_of_text(item, position) + _end_of_operation(item, position)
            item.fields["status"] = "incomplete"
            events.append({"type": _ITEM_DONE, "output_index": index, "item": item.fields})
        self._open = {}
        return events


def _close_part(part: _OpenPart, item_position: Json) -> list[Json]:
    position = {**item_position, part.list.index: part.index}
    closed = {"type": part.list.done_type, **position, "part": part.fields}
    return [*_end_of_text(part, position), closed]


def _end_of_text(owner: _OpenPart | _OpenItem, position: Json) -> list[Json]:
    """Return the event that ends the text of a part or an item, unless the log has it."""
    text = _TEXT_OF.get(owner.fields.get("type", ""))
    if text is None or owner.is_text_done:
        return []
    fields = {name: owner.fields.get(name, "") for name in (*text.repeated, text.field)}
    if "logprobs" in owner.fields:
        fields["logprobs"] = owner.fields["logprobs"]
    return [{"type": text.done_type, **position, **fields}]


def _end_of_operation(item: _OpenItem, position: Json) -> list[Json]:
    """Return the event that ends an open command or diff, unless the log has it."""
    commands = _texts_in(item.fields, "action").get("commands")
    if item.is_text_done:
        return []
    if item.fields.get("type") == "shell_call" and commands:
        place = {"output_index": position["output_index"], "command_index": len(commands) - 1}
        return [{"type": "response.shell_call_command.done", **place, "command": commands[-1]}]
    operation = _texts_in(item.fields, "operation")
    if item.fields.get("type") == "apply_patch_call" and "diff" in operation:
        return [
            {"type": "response.apply_patch_call_operation_diff.done", **position, "diff": operation["diff"]}
        ]
    return []


def _texts_in(fields: Json, name: str) -> Json:
    value = fields.get(name)
    return value if isinstance(value, dict) else {}
