"""Reads the stream of another Responses endpoint.

Nothing of it is trusted: ids may rotate in every event (quirk R2), `added` may be missing or doubled, deltas
may be missing (quirk R5), the terminal response may be empty (quirk R3) or the only place where an item is.
Items are told apart by `output_index`, by their id only where that is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock.dialects.envelope import seal
from penstock.dialects.frames import DONE, error_delta, read_object
from penstock.dialects.plan import Plan
from penstock.dialects.responses.ends import read_incomplete, read_usage
from penstock.dialects.responses.item_index import ItemIndex
from penstock.dialects.responses.items import (
    ARGUMENTS,
    CALLS,
    INPUT,
    JSON,
    REASONING,
    REFUSAL,
    SUMMARY,
    TEXT,
    Channel,
    UpstreamItem,
)
from penstock.errors import DecodeError
from penstock.lenient import count_of, object_of, text_of
from penstock.protocol.events import ENDS, MACHINE_EVENTS, OutputItemEvent, is_keep_alive
from penstock.protocol.items import Item
from penstock.protocol.wire import read
from penstock.sse import Frame
from penstock.stream.deltas import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    EventDelta,
    FinishDelta,
    FinishReason,
    ItemDelta,
    OpaqueReasoning,
    ToolCallDelta,
    UpstreamInfo,
)
from penstock.tools.custom import RUN_BY_SERVER

PHASES = ("commentary", "final_answer")
NO_OUTPUT = ("item_reference", "additional_tools", "")
LATE = ("tool_search_call", "compaction")
"""Announced when they are done: before, the one has a provisional call id and the other no content."""

XAI_ITEM = "xai:x_search_call"

_EVENT_TYPE = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_PLACES = ("type", "sequence_number", "item_id", "output_index", "obfuscation")


class ResponsesReader:
    """Reads one answer."""

    def __init__(self, plan: Plan) -> None:
        self._target = plan.target
        self._tools = plan.tools
        self._items = ItemIndex()
        self._calls: dict[tuple[str, ...], UpstreamItem] = {}
        self._truncated: list[tuple[UpstreamItem, JSON]] = []
        """Hosted items that ended incomplete: nothing may be added after such an end (spec N27)."""
        self._info = UpstreamInfo()
        self._heard = False
        self._marked = False
        self._over = False

    @property
    def is_over(self) -> bool:
        return self._over or self._marked

    def feed(self, frame: Frame) -> list[Delta]:
        if self._over or not frame.data.strip():
            return []
        if frame.data.strip() == DONE:
            self._marked = True
            return []
        event = read_object(frame)
        if isinstance(event, ErrorDelta):
            self._over = True
            return [event]
        type = (text_of(event.get("type")) or frame.event or "").removeprefix("openai:")
        if is_keep_alive(type):
            return []
        self._heard = True
        if type in HANDLERS:
            return HANDLERS[type](self, type, event)
        return self._other(type, event)

    def end(self) -> list[Delta]:
        if self._over:
            return []
        self._over = True
        if not self._heard:
            return [ErrorDelta("upstream_empty", "the upstream ended without sending anything")]
        deltas = self._leave(self._items.open(), truncated=not self._marked)
        if self._marked:
            return [*deltas, FinishDelta(FinishReason.STOP)]
        return [*deltas, ErrorDelta("upstream_truncated", "the upstream ended before its response did")]

    # The response

    def _lifecycle(self, _: str, event: JSON) -> list[Delta]:
        response = object_of(event.get("response"))
        info = UpstreamInfo(
            id=text_of(response.get("id")) or None,
            model=text_of(response.get("model")) or None,
            service_tier=text_of(response.get("service_tier")) or None,
        )
        deltas: list[Delta] = []
        if (info.model, info.service_tier) != (self._info.model, self._info.service_tier):
            deltas.append(info)
        self._info = info
        usage = response.get("usage")
        return [*deltas, read_usage(usage)] if isinstance(usage, dict) else deltas

    def _terminal(self, type: str, event: JSON) -> list[Delta]:
        response = object_of(event.get("response"))
        status = text_of(response.get("status"))
        return self.read_response(response, status if status in ENDS.values() else ENDS[type])

    def read_response(self, response: JSON, status: str) -> list[Delta]:
        """A response that has ended: what only it tells, then its end."""
        self._over = True
        deltas = self._lifecycle("", {"response": response})
        output = response.get("output")
        for index, raw in enumerate(output if isinstance(output, list) else []):
            if isinstance(raw, dict):
                deltas += self._settle(index, raw)
        deltas += self._leave(self._items.open(), truncated=status != "completed")
        if status == "completed":
            return [*deltas, FinishDelta(FinishReason.STOP)]
        if status == "incomplete":
            return deltas + read_incomplete(response)
        if status == "cancelled":
            return [*deltas, ErrorDelta("server_error", "the upstream cancelled its response")]
        return [*deltas, error_delta(object_of(response.get("error")))]

    def _error(self, _: str, event: JSON) -> list[Delta]:
        """An error, after which `response.failed` only repeats it (quirk R12)."""
        self._over = True
        deltas = self._leave(self._items.open(), truncated=True)
        return [*deltas, error_delta({name: event[name] for name in event if name != "type"})]

    def _settle(self, index: int, raw: JSON) -> list[Delta]:
        """An item of the terminal response: told now if it never was, ended now if it was not."""
        type = _item_type(raw)
        item = self._items.match(index, type, text_of(raw.get("id")), text_of(raw.get("call_id")))
        ended = raw.get("status") not in ("incomplete", "in_progress")
        if item is not None:
            return [] if item.done else self._end_item(item, raw, ended=ended)
        item = self._items.add(type, index, text_of(raw.get("id")))
        return self._announce(item, raw) + self._end_item(item, raw, ended=ended)

    def _leave(self, items: list[UpstreamItem], *, truncated: bool) -> list[Delta]:
        """What `added` had of items that never were done, and the ends that were held back."""
        deltas: list[Delta] = []
        for item in items:
            if item.type in CALLS and not item.is_hosted:
                deltas += item.supply(CALLS[item.type], 0, item.announced) + item.waiting
            elif item.type in ("message", "reasoning"):
                deltas += item.supply_parts(item.announced)
            elif item.type in LATE and not truncated:
                deltas += self._hosted(item, item.announced, done=True)
        for item, raw in self._truncated:
            kept = raw if truncated else {name: raw[name] for name in raw if name != "status"}
            deltas += self._hosted(item, kept, done=True)
        return deltas

    # Items

    def _added(self, _: str, event: JSON) -> list[Delta]:
        raw = object_of(event.get("item"))
        item, is_new = self._items.announced(_item_type(raw), event, raw)
        return self._announce(item, raw) if is_new else []

    def _done(self, _: str, event: JSON) -> list[Delta]:
        raw = object_of(event.get("item"))
        item, is_new = self._items.ended(_item_type(raw), event, raw)
        deltas = self._announce(item, raw) if is_new else []
        return deltas if item.done else deltas + self._end_item(item, raw, ended=True)

    def _announce(self, item: UpstreamItem, raw: JSON) -> list[Delta]:
        item.announced = raw
        if item.type == "message":
            phase = raw.get("phase")
            return [BlockStart(item.key, BlockKind.TEXT, phase if phase in PHASES else None)]
        if item.type == "reasoning" or item.type in LATE:
            return []
        if item.type in CALLS:
            return self._call(item, raw)
        return self._hosted(item, raw, done=False)

    def _end_item(self, item: UpstreamItem, raw: JSON, *, ended: bool) -> list[Delta]:
        """The item as it is when done. One that is incomplete stays open: the end of all closes it so."""
        item.done = True
        ended = ended and raw.get("status") != "incomplete"
        if item.type in CALLS and not item.is_hosted:
            return self._end_call(item, raw, ended=ended)
        if item.type not in ("message", "reasoning"):
            if ended:
                return self._hosted(item, raw, done=True)
            self._truncated.append((item, raw))
            return []
        deltas = self._late_phase(item, raw) + item.supply_parts(raw)
        sealed = text_of(raw.get("encrypted_content")) if item.type == "reasoning" else ""
        if sealed:
            # Of the two that an upstream sends, this is the one of `output_item.done` (quirk R4).
            payload = {"encrypted_content": sealed}
            deltas.append(OpaqueReasoning(seal(self._target, payload), block=item.key))
        return [*deltas, BlockEnd(item.key)] if ended else deltas

    def _late_phase(self, item: UpstreamItem, raw: JSON) -> list[Delta]:
        """A phase that `added` did not have. It counts only if nothing of the message was told yet."""
        phase = raw.get("phase")
        if item.type != "message" or phase not in PHASES or phase == item.announced.get("phase"):
            return []
        return [BlockStart(item.key, BlockKind.TEXT, phase)]

    def _hosted(self, item: UpstreamItem, raw: JSON, *, done: bool) -> list[Delta]:
        """An item that passes whole: the vendor's own, or one whose tool has no deltas of its own here."""
        if item.type in NO_OUTPUT:
            return item.tell_once("item_left_out", f"an item of type {item.type!r} is no output")
        if item.type == "compaction" and isinstance(raw.get("encrypted_content"), str):
            payload = {"encrypted_content": raw["encrypted_content"]}
            raw = {**raw, "encrypted_content": seal(self._target, payload)}
        type = XAI_ITEM if item.is_hosted else item.type
        read_item = _read_item({**raw, "type": type})
        if read_item is not None:
            return [ItemDelta(item.key, read_item, done)]
        if not done:
            return []  # it may be whole when it is done
        return item.tell_once("item_left_out", f"an item of type {item.type!r} lacks what it needs")

    # Calls

    def _call(self, item: UpstreamItem, raw: JSON) -> list[Delta]:
        """A call begins. One of the same id to the same tool repeats another, most likely (ask B4)."""
        if text_of(raw.get("name")) in RUN_BY_SERVER and self._tools.called(raw["name"]) is None:
            item.is_hosted = True
            return self._hosted(item, raw, done=False)
        item.call_id = text_of(raw.get("call_id"))
        start = self._call_delta(item, raw)
        if item.call_id:
            name = (item.type, item.call_id, start.name or "", start.namespace or "")
            first = self._calls.setdefault(name, item)
            if first is not item:
                item.first = first
                return [DiagnosticDelta("repeated_call", f"the call {item.call_id!r} was announced twice")]
        return [start]

    def _end_call(self, item: UpstreamItem, raw: JSON, *, ended: bool) -> list[Delta]:
        channel = CALLS[item.type]
        told = raw.get(channel.whole_field)
        if not ended:
            start = [self._call_delta(item, raw)] if item.first is None else []
            return [*start, *item.supply(channel, 0, raw), *item.waiting]
        whole = told if isinstance(told, dict) else text_of(told) or item.heard(channel)
        first = item.first
        if first is None:
            end = self._call_delta(item, raw, arguments=whole, whole=True)
            return [end, *item.waiting]
        # Without an id the assembler decides by the arguments whether it is a repeat or a call of its own.
        id = item.call_id if channel is INPUT else None
        end = ToolCallDelta(first.key, id=id, arguments=whole, whole=True)
        if first.done:
            return [end]
        first.waiting.append(end)
        return []

    def _call_delta(self, item: UpstreamItem, raw: JSON, **end: Any) -> ToolCallDelta:
        return ToolCallDelta(
            key=item.key,
            # The id may rotate as well (ask A3); the first one is the one that the client knows.
            id=item.call_id or text_of(raw.get("call_id")) or None,
            name=text_of(raw.get("name")) or None,
            namespace=text_of(raw.get("namespace")) or None,
            type="custom" if item.type == INPUT.item_type else None,
            **end,
        )

    # What is inside of items

    def _delta(self, type: str, event: JSON) -> list[Delta]:
        channel = CHANNELS[type]
        return self._items.told(channel.item_type, event).take(channel, event, type)

    def _whole(self, type: str, event: JSON) -> list[Delta]:
        channel = CHANNELS[type]
        index = count_of(event.get(channel.index_field)) or 0
        return self._items.told(channel.item_type, event).supply(channel, index, event)

    def _part(self, type: str, event: JSON) -> list[Delta]:
        part = object_of(event.get("part"))
        kind = text_of(part.get("type"))
        is_reasoning = "reasoning" in type or kind in ("reasoning_text", "summary_text")
        index = count_of(event.get("summary_index" if "summary" in type else "content_index")) or 0
        return self._items.told("reasoning" if is_reasoning else "message", event).supply_part(index, part)

    def _annotation(self, _: str, event: JSON) -> list[Delta]:
        raw = event.get("annotation")
        if not isinstance(raw, dict):
            return []
        index = count_of(event.get("content_index")) or 0
        return self._items.told("message", event).cite(index, raw)

    def _other(self, type: str, event: JSON) -> list[Delta]:
        """An event that is a vendor's own: of one of its items, or of the response."""
        if "error" in event and not type:
            return self._error(type, event)  # an error as plain HTTP has it
        if type in MACHINE_EVENTS or not _EVENT_TYPE.fullmatch(type):
            return [DiagnosticDelta("event_left_out", f"an event of type {type[:80]!r} was left out")]
        fields = {name: value for name, value in event.items() if name not in _PLACES}
        if "item_id" not in event and "output_index" not in event:
            return [EventDelta(type, fields)]
        item = self._items.latest(event)
        return [EventDelta(type, fields, "" if item is None else item.key)]

    def _nothing(self, _type: str, _event: JSON) -> list[Delta]:
        """What we tell ourselves when it is due."""
        return []


CHANNELS: dict[str, Channel] = {
    f"response.{name}.{step}": channel
    for name, channel in {
        "output_text": TEXT,
        "refusal": REFUSAL,
        "reasoning_text": REASONING,
        "reasoning": REASONING,
        "reasoning_summary_text": SUMMARY,
        "reasoning_summary": SUMMARY,
        "function_call_arguments": ARGUMENTS,
        "custom_tool_call_input": INPUT,
    }.items()
    for step in ("delta", "done")
}

_PART_NAMES = ("content_part", "reasoning_part", "reasoning_text_part", "reasoning_summary_part")

HANDLERS: dict[str, Callable[[ResponsesReader, str, JSON], list[Delta]]] = {
    **{
        type: ResponsesReader._delta if type.endswith(".delta") else ResponsesReader._whole
        for type in CHANNELS
    },
    **{f"response.{name}.added": ResponsesReader._nothing for name in _PART_NAMES},
    **{f"response.{name}.done": ResponsesReader._part for name in _PART_NAMES},
    **{f"response.{name}": ResponsesReader._lifecycle for name in ("created", "queued", "in_progress")},
    **dict.fromkeys(ENDS, ResponsesReader._terminal),
    "response.output_item.added": ResponsesReader._added,
    "response.output_item.done": ResponsesReader._done,
    "response.output_text.annotation.added": ResponsesReader._annotation,
    "response.output_text_annotation.added": ResponsesReader._annotation,
    "error": ResponsesReader._error,
}
"""What each event does; any other is a vendor's own."""


def read_body(plan: Plan, body: bytes) -> list[Delta]:
    """A response that was not streamed."""
    reader = ResponsesReader(plan)
    response = read_object(Frame(None, body.decode(errors="replace")))
    if isinstance(response, ErrorDelta):
        return [response]
    status = text_of(response.get("status"))
    if isinstance(response.get("error"), dict) and status != "failed":
        return [error_delta(response)]
    if status in ENDS.values() or (not status and "output" in response):
        return reader.read_response(response, status or "completed")
    return [ErrorDelta("upstream_truncated", f"the upstream's response is {status[:80] or 'no response'}")]


def _item_type(raw: JSON) -> str:
    """The type without the slug that OpenAI's own types have in the strict accent."""
    return text_of(raw.get("type")).removeprefix("openai:")


def _read_item(raw: JSON) -> Item | None:
    try:
        return read({"item": raw}, OutputItemEvent).item
    except DecodeError:
        return None
