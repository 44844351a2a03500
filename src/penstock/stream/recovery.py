"""What is left of a turn whose process died: a failed response, with the items that had come (G8).

An item that was open ends as it would have under any failure: incomplete, with what had come of it, and with
the events that say so (decisions 5).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from penstock.protocol.errors import ResponseError
from penstock.protocol.events import TERMINAL
from penstock.store.contract import Closed, LoggedEvent, StoredItem

CODE = "gateway_restarted"
_MESSAGE = "the gateway was stopped before the response was whole; what had come is kept"

Json = dict[str, Any]


class Flow(Struct, frozen=True):
    """A text that grows: in a part of an item, or in the item itself."""

    field: str
    done: str
    """The event that ends it."""
    named: tuple[str, ...] = ()
    """What else the item tells in that event."""


PARTS = {
    "output_text": Flow("text", "response.output_text.done"),
    "refusal": Flow("refusal", "response.refusal.done"),
    "reasoning_text": Flow("text", "response.reasoning.done"),
    "summary_text": Flow("text", "response.reasoning_summary_text.done"),
}
ITEMS = {
    "function_call": Flow("arguments", "response.function_call_arguments.done", ("name",)),
    "custom_tool_call": Flow("input", "response.custom_tool_call_input.done"),
}
"""By the type of the part, or of the item."""

LISTS = {
    "content": ("content_index", "response.content_part.added", "response.content_part.done"),
    "summary": (
        "summary_index",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
    ),
}
"""Where parts are: the name of their number, and the events that open and close one."""

_OPENED = {opened: name for name, (_, opened, _) in LISTS.items()}
_CLOSED = {closed: name for name, (_, _, closed) in LISTS.items()}
_ENDED = {flow.done for flow in (*PARTS.values(), *ITEMS.values())}
_ADDED, _DONE = "response.output_item.added", "response.output_item.done"
_ANNOTATED = "response.output_text.annotation.added"


class Ending(Struct, frozen=True):
    """How a turn ends that did not see its end, and the events that its log lacks."""

    end: Closed
    events: list[LoggedEvent]


def interrupted(id: str, response: bytes, events: Iterable[LoggedEvent], now: float = 0.0) -> Ending:
    fold, last = Fold(), -1
    for event in events:
        last, fields = event.sequence, _read(event.data)
        if fields.get("type") in TERMINAL:  # that of a large response is logged before its end
            return Ending(_end(fields["response"]), [])
        fold.feed(fields)
    fields = _read(response) or {"id": id, "object": "response"}
    told: list[Json] = [{"type": "response.created", "response": fields}] if last < 0 else []
    told += fold.close()
    failed = {
        **fields,
        "status": "failed",
        "error": msgspec.to_builtins(ResponseError(code=CODE, message=_MESSAGE)),
        "output": fold.output,
    }
    told.append({"type": "response.failed", "response": failed})
    logged = [_logged(event, last + 1 + place, now) for place, event in enumerate(told)]
    return Ending(_end(failed), logged)


def _end(response: Json) -> Closed:
    if (response.get("incomplete_details") or {}).get("reason") == "cancelled":
        response = {**response, "status": "cancelled"}  # the record says so, the stream cannot (decisions 6)
    items = [item for item in response["output"] if item.get("id")]
    output = tuple(StoredItem(item["id"], msgspec.json.encode(item)) for item in items)
    return Closed(status=response["status"], response=msgspec.json.encode(response), output=output)


class _Part(Struct):
    """A part that is open."""

    list: str
    index: int
    fields: Json
    is_ended: bool = False
    """Its text has ended."""


class _Item(Struct):
    """An item that is open."""

    fields: Json
    parts: list[_Part] = []
    is_ended: bool = False

    def part(self, event: Json) -> _Part | None:
        """The one that an event tells of."""
        return next((part for part in self.parts if event.get(LISTS[part.list][0]) == part.index), None)


class Fold:
    """What a client that believes every event holds after each."""

    def __init__(self) -> None:
        self._items: dict[int, Json] = {}
        self._open: dict[int, _Item] = {}

    @property
    def output(self) -> list[Json]:
        return [item for _, item in sorted(self._items.items())]

    def feed(self, event: Json) -> None:
        kind, place = event.get("type", ""), event.get("output_index")
        if not isinstance(place, int):
            return
        if kind in (_ADDED, _DONE) and isinstance(event.get("item"), dict):
            self._items[place] = event["item"]
            self._open.pop(place, None)
            if kind == _ADDED:
                self._open[place] = _Item(event["item"])
        elif place in self._open:
            with suppress(KeyError, TypeError):  # the log has a gap: an event before this one was dropped
                _feed(self._open[place], kind, event)

    def close(self) -> list[Json]:
        """End what is open; the events that tell of it, without their numbers."""
        told: list[Json] = []
        for place, item in sorted(self._open.items()):
            where = {"item_id": item.fields.get("id"), "output_index": place}
            for part in item.parts:
                told += _closed_part(part, where)
            flow = ITEMS.get(item.fields.get("type", ""))
            if flow is not None and not item.is_ended:
                named = {name: item.fields.get(name, "") for name in (*flow.named, flow.field)}
                told.append({"type": flow.done, **where, **named})
            item.fields["status"] = "incomplete"
            told.append({"type": _DONE, "output_index": place, "item": item.fields})
        self._open = {}
        return told


def _feed(item: _Item, kind: str, event: Json) -> None:
    if kind in _OPENED:
        part = _Part(_OPENED[kind], event[LISTS[_OPENED[kind]][0]], event["part"])
        item.parts.append(part)
        item.fields.setdefault(part.list, []).append(part.fields)
        return
    mine = item.part(event)
    if kind in _CLOSED and mine is not None:
        mine.fields.update(event["part"])
        item.parts.remove(mine)
    elif kind in _ENDED:
        (mine or item).is_ended = True
    elif kind == _ANNOTATED and mine is not None:
        mine.fields["annotations"].append(event["annotation"])
    elif kind.endswith(".delta"):
        _grow((mine or item).fields, event)


def _grow(fields: Json, event: Json) -> None:
    flow = PARTS.get(fields["type"]) or ITEMS.get(fields["type"])
    if flow is not None:
        fields[flow.field] += event["delta"]
        if "logprobs" in fields:
            fields["logprobs"] += event.get("logprobs", [])


def _closed_part(part: _Part, where: Json) -> list[Json]:
    number, _, closed = LISTS[part.list]
    place = {**where, number: part.index}
    flow = PARTS.get(part.fields.get("type", ""))
    told: list[Json] = []
    if flow is not None and not part.is_ended:
        more = {"logprobs": part.fields["logprobs"]} if "logprobs" in part.fields else {}
        told.append({"type": flow.done, **place, flow.field: part.fields.get(flow.field, ""), **more})
    return [*told, {"type": closed, **place, "part": part.fields}]


def _logged(event: Json, sequence: int, now: float) -> LoggedEvent:
    kind = event.pop("type")
    return LoggedEvent(
        sequence, now, msgspec.json.encode({"type": kind, "sequence_number": sequence, **event})
    )


def _read(data: bytes) -> Json:
    try:
        found = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
