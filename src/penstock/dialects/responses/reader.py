"""Reads the stream of another Responses endpoint.

Nothing in it is trusted: ids may change in every event (quirk R2), `added` may be missing or repeated, deltas
may be missing (quirk R5), the terminal response may be empty (quirk R3) or the only place with an item.
Items are identified by `output_index`; by their id only if that is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock.dialects.envelope import seal, sealed_reasoning, seals_text
from penstock.dialects.frames import DONE, error_delta, read_object
from penstock.dialects.plan import Plan
from penstock.dialects.responses import mcp_items
from penstock.dialects.responses.common_chunks import CommonDeltaEvent, read_common
from penstock.dialects.responses.finishes import read_incomplete, read_usage
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
from penstock.lenient import object_of, objects_of, text_of
from penstock.protocol.call_outputs import lacks_call_id
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
    ToolCallDelta,
    UpstreamInfo,
)
from penstock.tools.custom import RUN_BY_SERVER

PHASES = ("commentary", "final_answer")
NOT_OUTPUT = ("item_reference", "additional_tools", "")
LATE = ("tool_search_call", "compaction")
"""Items announced only when done: until then, one has a provisional call id, the other no content."""

XAI_ITEM = "xai:x_search_call"

_EVENT_TYPE = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_POSITION_FIELDS = ("type", "sequence_number", "item_id", "output_index", "obfuscation")


class ResponsesReader:
    """Reads one answer."""

    def __init__(self, plan: Plan) -> None:
        self._target = plan.target
        self._seals_text = seals_text(plan.request)
        self._tools = plan.tools
        self._mcp = mcp_items.McpHistory(plan.request.input)
        self._items = ItemIndex()
        self._calls: dict[tuple[str, ...], UpstreamItem] = {}
        self._truncated: list[tuple[UpstreamItem, JSON]] = []
        """Hosted items that ended incomplete: nothing may be added after such an end (spec N27)."""
        self._info = UpstreamInfo()
        self._has_events = False
        self._has_done_marker = False
        self._over = False

    @property
    def is_over(self) -> bool:
        return self._over or self._has_done_marker

    def feed(self, frame: Frame) -> list[Delta]:
        common = read_common(frame.data)
        if common is not None and not self._over:
            return self._read_common(common)
        if self._over or not frame.data.strip():
            return []
        if frame.data.strip() == DONE:
            self._has_done_marker = True
            return []
        event = read_object(frame)
        if isinstance(event, ErrorDelta):
            self._over = True
            return [event]
        type = (text_of(event.get("type")) or frame.event or "").removeprefix("openai:")
        if is_keep_alive(type):
            return []
        self._has_events = True
        if type in HANDLERS:
            return HANDLERS[type](self, type, event)
        return self._other(type, event)

    def end(self) -> list[Delta]:
        if self._over:
            return []
        self._over = True
        if not self._has_events:
            return [ErrorDelta("upstream_empty", "the upstream ended without sending anything")]
        deltas = self._close_items(self._items.open(), truncated=not self._has_done_marker)
        if self._has_done_marker:
            return [*deltas, FinishDelta(FinishReason.STOP)]
        return [*deltas, ErrorDelta("upstream_truncated", "the upstream ended in the middle of its response")]

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
        """Read a response that has ended: what only it contains, then its end."""
        self._over = True
        deltas = self._lifecycle("", {"response": response})
        output = response.get("output")
        for index, raw in enumerate(output if isinstance(output, list) else []):
            if isinstance(raw, dict):
                deltas += self._settle(index, raw)
        deltas += self._close_items(self._items.open(), truncated=status != "completed")
        if status == "completed":
            return [*deltas, FinishDelta(FinishReason.STOP)]
        if status == "incomplete":
            return deltas + read_incomplete(response)
        if status == "cancelled":
            return [*deltas, ErrorDelta("server_error", "the upstream cancelled its response")]
        return [*deltas, error_delta(object_of(response.get("error")))]

    def _error(self, _: str, event: JSON) -> list[Delta]:
        """Read an error. A `response.failed` after it only repeats it (quirk R12)."""
        self._over = True
        deltas = self._close_items(self._items.open(), truncated=True)
        return [*deltas, error_delta({name: event[name] for name in event if name != "type"})]

    def _settle(self, index: int, raw: JSON) -> list[Delta]:
        """Read an item of the terminal response: announce and end it, unless that has happened."""
        type = _item_type(raw)
        item = self._items.match(index, type, text_of(raw.get("id")), text_of(raw.get("call_id")))
        ended = raw.get("status") not in ("incomplete", "in_progress")
        if item is not None:
            return [] if item.done else self._end_item(item, raw, ended=ended)
        item = self._items.add(type, index, text_of(raw.get("id")))
        return self._announce(item, raw) + self._end_item(item, raw, ended=ended)

    def _close_items(self, items: list[UpstreamItem], *, truncated: bool) -> list[Delta]:
        """Return the content that `added` had of items without `done`, and the ends held back."""
        deltas: list[Delta] = []
        for item in items:
            if item.type in CALLS and not item.is_hosted:
                deltas += item.supply_arguments(item.announced) + item.pending
            elif item.type in ("message", "reasoning"):
                deltas += item.supply_parts(item.announced)
            elif item.type in LATE and not truncated:
                deltas += self._hosted(item, item.announced, done=True)
        ended = [
            (item, raw if truncated else {name: raw[name] for name in raw if name != "status"})
            for item, raw in self._truncated
        ]
        # All are announced before the first one ends: nothing may follow an incomplete item (spec N27).
        for item, fields in ended:
            deltas += self._hosted(item, fields, done=False) if item.type in LATE else []
        for item, fields in ended:
            deltas += self._hosted(item, fields, done=True)
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
        """Read the final version of an item. An incomplete one stays open until the end of the response."""
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
        payload = self._sealed_payload(item, raw) if item.type == "reasoning" else {}
        if payload:
            deltas.append(sealed_reasoning(self._target, payload, block=item.key))
        return [*deltas, BlockEnd(item.key)] if ended else deltas

    def _sealed_payload(self, item: UpstreamItem, raw: JSON) -> JSON:
        """Return what is sent back of a reasoning item. Plain reasoning is included if the client asks for
        it, with the summary: some clients receive and return one as the other."""
        payload: JSON = {}
        if sealed := text_of(raw.get("encrypted_content")):
            # An upstream sends two versions; the one in `output_item.done` is used (quirk R4).
            payload["encrypted_content"] = sealed
        if self._seals_text:
            received = [{"type": "reasoning_text", "text": text} for text in item.texts(REASONING)]
            if content := objects_of(raw.get("content")) or received:
                payload |= {"content": content, "summary": objects_of(raw.get("summary"))}
        return payload

    def _late_phase(self, item: UpstreamItem, raw: JSON) -> list[Delta]:
        """Return a phase that `added` lacked. It has an effect only if the message has no output yet."""
        phase = raw.get("phase")
        if item.type != "message" or phase not in PHASES or phase == item.announced.get("phase"):
            return []
        return [BlockStart(item.key, BlockKind.TEXT, phase)]

    def _hosted(self, item: UpstreamItem, raw: JSON, *, done: bool) -> list[Delta]:
        """Return an item that is passed on as a unit: the vendor's own, or one without deltas of its own."""
        if item.type in NOT_OUTPUT:
            return item.diagnose_once(
                "item_left_out", f"an item of type {item.type!r} was left out: it is not an output item"
            )
        if item.type == "compaction" and isinstance(raw.get("encrypted_content"), str):
            payload = {"encrypted_content": raw["encrypted_content"]}
            raw = {**raw, "encrypted_content": seal(self._target, payload)}
        if item.type in mcp_items.TYPES:
            raw = self._mcp.received(raw)
        type = XAI_ITEM if item.is_hosted else item.type
        read_item = _read_item({**raw, "type": type})
        if read_item is not None:
            return [ItemDelta(item.key, read_item, done)]
        if not done:
            return []  # it may be complete when it is done
        return item.diagnose_once(
            "item_left_out", f"an item of type {item.type!r} was left out: it is invalid"
        )

    # Calls

    def _call(self, item: UpstreamItem, raw: JSON) -> list[Delta]:
        """Start a call. A second call with the same id and tool is most likely a repeat (ask B4)."""
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
        arguments = raw.get(channel.full_field)
        if not ended:
            start = [self._call_delta(item, raw)] if item.first is None else []
            return [*start, *item.supply_arguments(raw), *item.pending]
        full = arguments if isinstance(arguments, dict) else text_of(arguments) or item.arguments
        first = item.first
        if first is None:
            end = self._call_delta(item, raw, arguments=full, whole=True)
            return [end, *item.pending]
        # Without an id, the assembler decides by the arguments whether it is a repeat or another call.
        is_custom = channel is INPUT
        id, type = (item.call_id, "custom") if is_custom else (None, None)
        end = ToolCallDelta(first.key, id=id, type=type, arguments=full, whole=True)
        if first.done:
            return [end]
        first.pending.append(end)
        return []

    def _call_delta(self, item: UpstreamItem, raw: JSON, **end: Any) -> ToolCallDelta:
        return ToolCallDelta(
            key=item.key,
            # The id may change too (ask A3); the client knows the first one.
            id=item.call_id or text_of(raw.get("call_id")) or None,
            name=text_of(raw.get("name")) or None,
            namespace=text_of(raw.get("namespace")) or None,
            type="custom" if item.type == INPUT.item_type else None,
            **end,
        )

    # The content of items

    def _read_common(self, event: CommonDeltaEvent) -> list[Delta]:
        """Return what `_delta` returns for this event."""
        self._has_events = True
        channel = CHANNELS[event.type]
        index = event.summary_index if channel is SUMMARY else event.content_index
        item = self._items.at(channel.item_type, event.output_index, event.item_id)
        return item.add_text(channel, event.delta, index, event.type)

    def _delta(self, type: str, event: JSON) -> list[Delta]:
        channel = CHANNELS[type]
        return self._items.containing(channel.item_type, event).add_delta(channel, event, type)

    def _full_text(self, type: str, event: JSON) -> list[Delta]:
        channel = CHANNELS[type]
        item = self._items.containing(channel.item_type, event)
        if not channel.index_field:
            return item.supply_arguments(event)
        return item.supply_text(channel, event, type)

    def _part_added(self, type: str, event: JSON) -> list[Delta]:
        self._item_with_part(type, event).begin_part(object_of(event.get("part")))
        return []

    def _part_done(self, type: str, event: JSON) -> list[Delta]:
        return self._item_with_part(type, event).supply_part(event, object_of(event.get("part")), type)

    def _item_with_part(self, type: str, event: JSON) -> UpstreamItem:
        kind = text_of(object_of(event.get("part")).get("type"))
        is_reasoning = "reasoning" in type or kind in ("reasoning_text", "summary_text")
        return self._items.containing("reasoning" if is_reasoning else "message", event)

    def _annotation(self, _: str, event: JSON) -> list[Delta]:
        raw = event.get("annotation")
        return self._items.containing("message", event).cite(event, raw) if isinstance(raw, dict) else []

    def _other(self, type: str, event: JSON) -> list[Delta]:
        """Read a vendor's own event, of one of its items or of the response."""
        if "error" in event and not type:
            return self._error(type, event)  # an error object as in an HTTP error body
        if type in MACHINE_EVENTS or not _EVENT_TYPE.fullmatch(type):
            return [DiagnosticDelta("event_left_out", f"an event of type {type[:80]!r} was left out")]
        fields = {name: value for name, value in event.items() if name not in _POSITION_FIELDS}
        if "item_id" not in event and "output_index" not in event:
            return [EventDelta(type, fields)]
        item = self._items.latest(event)
        return [EventDelta(type, fields, "" if item is None else item.key)]


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
        type: ResponsesReader._delta if type.endswith(".delta") else ResponsesReader._full_text
        for type in CHANNELS
    },
    **{f"response.{name}.added": ResponsesReader._part_added for name in _PART_NAMES},
    **{f"response.{name}.done": ResponsesReader._part_done for name in _PART_NAMES},
    **{f"response.{name}": ResponsesReader._lifecycle for name in ("created", "queued", "in_progress")},
    **dict.fromkeys(ENDS, ResponsesReader._terminal),
    "response.output_item.added": ResponsesReader._added,
    "response.output_item.done": ResponsesReader._done,
    "response.output_text.annotation.added": ResponsesReader._annotation,
    "response.output_text_annotation.added": ResponsesReader._annotation,
    "error": ResponsesReader._error,
}
"""The handler of each event; any other event is a vendor's own."""


def read_body(plan: Plan, body: bytes) -> list[Delta]:
    """Return the deltas of a response that was not streamed."""
    reader = ResponsesReader(plan)
    response = read_object(Frame(None, body.decode(errors="replace")))
    if isinstance(response, ErrorDelta):
        return [response]
    status = text_of(response.get("status"))
    if isinstance(response.get("error"), dict) and status != "failed":
        return [error_delta(response)]
    if status in ENDS.values() or (not status and "output" in response):
        return reader.read_response(response, status or "completed")
    if status:
        message = f"the upstream's response has not ended: its status is {status[:80]!r}"
    else:
        message = "the upstream's body is not a response: it has neither a status nor output"
    return [ErrorDelta("upstream_truncated", message)]


def _item_type(raw: JSON) -> str:
    """Return the type without the prefix that OpenAI's own types have in the strict accent."""
    return text_of(raw.get("type")).removeprefix("openai:")


def _read_item(raw: JSON) -> Item | None:
    try:
        item = read({"item": raw}, OutputItemEvent).item
        return None if lacks_call_id(item) else item  # only a client may leave it out
    except DecodeError:
        return None
