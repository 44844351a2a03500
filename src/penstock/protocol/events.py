"""Streaming events.

Many event types share a shape; each shape is one Struct, and `EVENTS` maps types to shapes. Every field has a
default, because vendors omit fields; what we send never relies on that.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from msgspec import UNSET, UnsetType

from penstock.errors import DecodeError
from penstock.lenient import text_of
from penstock.protocol.content import Annotation, ContentPart, LogProb, SummaryText, UnknownAnnotation
from penstock.protocol.errors import ErrorPayload
from penstock.protocol.items import Item
from penstock.protocol.response import Response
from penstock.protocol.wire import Code, Wire, parse, read


class Event(Wire):
    type: str = ""
    sequence_number: int = 0


class LifecycleEvent(Event, kw_only=True):
    """`response.created`, `.queued`, `.in_progress` and the three terminal events, with a full snapshot."""

    response: Response


ITEM_DONE = "response.output_item.done"


class OutputItemEvent(Event, kw_only=True):
    """`response.output_item.added` and `.done`."""

    output_index: int = 0
    item: Item


class ContentPartEvent(Event, kw_only=True):
    """`response.content_part.added` and `.done`."""

    item_id: str = ""
    output_index: int = 0
    content_index: int = 0
    part: ContentPart


class OutputTextDeltaEvent(Event, gc=False):
    type: str = "response.output_text.delta"
    item_id: str = ""
    output_index: int = 0
    content_index: int = 0
    delta: str = ""
    logprobs: list[LogProb] = []
    obfuscation: str | UnsetType = UNSET


class OutputTextDoneEvent(Event):
    type: str = "response.output_text.done"
    item_id: str = ""
    output_index: int = 0
    content_index: int = 0
    text: str = ""
    logprobs: list[LogProb] = []


class AnnotationAddedEvent(Event):
    type: str = "response.output_text.annotation.added"
    item_id: str = ""
    output_index: int = 0
    content_index: int = 0
    annotation_index: int = 0
    annotation: Annotation | None = None


class RefusalDeltaEvent(Event, gc=False):
    type: str = "response.refusal.delta"
    item_id: str = ""
    output_index: int = 0
    content_index: int = 0
    delta: str = ""


class RefusalDoneEvent(Event):
    type: str = "response.refusal.done"
    item_id: str = ""
    output_index: int = 0
    content_index: int = 0
    refusal: str = ""


class ReasoningDeltaEvent(Event, gc=False):
    type: str = "response.reasoning.delta"
    item_id: str = ""
    output_index: int = 0
    content_index: int = 0
    delta: str = ""
    obfuscation: str | UnsetType = UNSET


class ReasoningDoneEvent(Event):
    type: str = "response.reasoning.done"
    item_id: str = ""
    output_index: int = 0
    content_index: int = 0
    text: str = ""


class SummaryPartEvent(Event):
    """`response.reasoning_summary_part.added` and `.done`."""

    item_id: str = ""
    output_index: int = 0
    summary_index: int = 0
    part: ContentPart = SummaryText()


class SummaryDeltaEvent(Event, gc=False):
    type: str = "response.reasoning_summary_text.delta"
    item_id: str = ""
    output_index: int = 0
    summary_index: int = 0
    delta: str = ""
    obfuscation: str | UnsetType = UNSET


class SummaryDoneEvent(Event):
    type: str = "response.reasoning_summary_text.done"
    item_id: str = ""
    output_index: int = 0
    summary_index: int = 0
    text: str = ""


class ArgumentsDeltaEvent(Event, gc=False):
    type: str = "response.function_call_arguments.delta"
    item_id: str = ""
    output_index: int = 0
    delta: str = ""
    obfuscation: str | UnsetType = UNSET


class ArgumentsDoneEvent(Event):
    """`name` is not in the specification, but openai-python requires it: always sent (spec S4)."""

    type: str = "response.function_call_arguments.done"
    item_id: str = ""
    output_index: int = 0
    name: str | UnsetType = UNSET
    arguments: str = ""


class CustomInputDeltaEvent(Event, gc=False):
    type: str = "response.custom_tool_call_input.delta"
    item_id: str = ""
    output_index: int = 0
    delta: str = ""
    obfuscation: str | UnsetType = UNSET


class CustomInputDoneEvent(Event):
    type: str = "response.custom_tool_call_input.done"
    item_id: str = ""
    output_index: int = 0
    input: str = ""


class ShellCommandEvent(Event):
    """`response.shell_call_command.added`, `.delta`, `.done`: keyed by indexes, without an item id
    (quirk R15)."""

    output_index: int = 0
    command_index: int = 0
    command: str | UnsetType = UNSET
    delta: str | UnsetType = UNSET


class ShellOutputEvent(Event):
    """`response.shell_call_output_content.delta` and `.done`."""

    item_id: str | UnsetType = UNSET
    output_index: int = 0
    command_index: int = 0
    delta: Any = UNSET
    output: Any = UNSET


class PatchDiffEvent(Event):
    """`response.apply_patch_call_operation_diff.delta` and `.done`."""

    item_id: str = ""
    output_index: int = 0
    delta: str | UnsetType = UNSET
    diff: str | UnsetType = UNSET


class HostedToolEvent(Event):
    """Progress of a tool that the vendor runs, such as `response.web_search_call.searching`."""

    item_id: str = ""
    output_index: int = 0


class ErrorEvent(Event, kw_only=True):
    """The error, nested as in the specification and flat as in openai-python (spec S4).

    If only one form was received, `read_event` fills in the other.
    """

    type: str = "error"
    error: ErrorPayload
    code: Code | None = None
    message: str = ""
    param: str | None = None


class UnknownEvent(Event):
    """An unknown event, or one that does not match its type: all other fields are in `extra`."""

    catch_all: ClassVar[bool] = True


ResponseStreamEvent = (
    LifecycleEvent
    | OutputItemEvent
    | ContentPartEvent
    | OutputTextDeltaEvent
    | OutputTextDoneEvent
    | AnnotationAddedEvent
    | RefusalDeltaEvent
    | RefusalDoneEvent
    | ReasoningDeltaEvent
    | ReasoningDoneEvent
    | SummaryPartEvent
    | SummaryDeltaEvent
    | SummaryDoneEvent
    | ArgumentsDeltaEvent
    | ArgumentsDoneEvent
    | CustomInputDeltaEvent
    | CustomInputDoneEvent
    | ShellCommandEvent
    | ShellOutputEvent
    | PatchDiffEvent
    | HostedToolEvent
    | ErrorEvent
    | UnknownEvent
)

TERMINAL = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
"""The three events that end a stream, with the status of their snapshot."""

_RESPONSE = b'"response":'

ENDS = {**TERMINAL, "response.cancelled": "cancelled", "response.done": "completed"}
"""`TERMINAL` with the events of other servers. A final status in the snapshot takes precedence."""

_HOSTED_PROGRESS = {
    "web_search_call": "in_progress searching completed",
    "file_search_call": "in_progress searching completed",
    "code_interpreter_call": "in_progress interpreting completed",
    "image_generation_call": "in_progress generating partial_image completed",
    "mcp_call": "in_progress completed failed",
    "mcp_list_tools": "in_progress completed failed",
    "mcp_call_arguments": "delta done",
    "code_interpreter_call_code": "delta done",
}

EVENTS: dict[str, type[Event]] = {
    "response.created": LifecycleEvent,
    "response.queued": LifecycleEvent,
    "response.in_progress": LifecycleEvent,
    "response.completed": LifecycleEvent,
    "response.incomplete": LifecycleEvent,
    "response.failed": LifecycleEvent,
    "response.output_item.added": OutputItemEvent,
    "response.output_item.done": OutputItemEvent,
    "response.content_part.added": ContentPartEvent,
    "response.content_part.done": ContentPartEvent,
    "response.output_text.delta": OutputTextDeltaEvent,
    "response.output_text.done": OutputTextDoneEvent,
    "response.output_text.annotation.added": AnnotationAddedEvent,
    "response.refusal.delta": RefusalDeltaEvent,
    "response.refusal.done": RefusalDoneEvent,
    "response.reasoning.delta": ReasoningDeltaEvent,
    "response.reasoning.done": ReasoningDoneEvent,
    "response.reasoning_summary_part.added": SummaryPartEvent,
    "response.reasoning_summary_part.done": SummaryPartEvent,
    "response.reasoning_summary_text.delta": SummaryDeltaEvent,
    "response.reasoning_summary_text.done": SummaryDoneEvent,
    "response.function_call_arguments.delta": ArgumentsDeltaEvent,
    "response.function_call_arguments.done": ArgumentsDoneEvent,
    "error": ErrorEvent,
    # Other spellings of the same events (spec S3).
    "response.reasoning_text.delta": ReasoningDeltaEvent,
    "response.reasoning_text.done": ReasoningDoneEvent,
    "response.reasoning_summary.delta": SummaryDeltaEvent,
    "response.reasoning_summary.done": SummaryDoneEvent,
    "response.output_text_annotation.added": AnnotationAddedEvent,
    # Read but never sent: GodeX's and vLLM's names for the start of reasoning (decision 1, quirk R10).
    "response.reasoning_text_part.added": ContentPartEvent,
    "response.reasoning_text_part.done": ContentPartEvent,
    "response.reasoning_part.added": ContentPartEvent,
    "response.reasoning_part.done": ContentPartEvent,
    # Tools that a client can declare, beyond the specification.
    "response.custom_tool_call_input.delta": CustomInputDeltaEvent,
    "response.custom_tool_call_input.done": CustomInputDoneEvent,
    "response.shell_call_command.added": ShellCommandEvent,
    "response.shell_call_command.delta": ShellCommandEvent,
    "response.shell_call_command.done": ShellCommandEvent,
    "response.shell_call_output_content.delta": ShellOutputEvent,
    "response.shell_call_output_content.done": ShellOutputEvent,
    "response.apply_patch_call_operation_diff.delta": PatchDiffEvent,
    "response.apply_patch_call_operation_diff.done": PatchDiffEvent,
    **{
        f"response.{item}.{step}": HostedToolEvent
        for item, steps in _HOSTED_PROGRESS.items()
        for step in steps.split()
    },
}


_KEEP_ALIVE = re.compile(r"(^|[.:_])(ping|keep[_-]?alive|heartbeat)$")


def is_keep_alive(type: str) -> bool:
    """Return whether a server sends this event only to keep the connection open, by any of its names."""
    return _KEEP_ALIVE.search(type) is not None


MACHINE_EVENTS = frozenset(
    type
    for type, shape in EVENTS.items()
    if shape not in (HostedToolEvent, ShellCommandEvent, ShellOutputEvent, PatchDiffEvent)
)
"""The events whose order the protocol defines. All others are a vendor's progress events, or unknown."""


def decode_event(data: bytes | str, name: str | None = None) -> Event:
    """Read one event. Raise `DecodeError` only if it is not a JSON object with a `type`.

    `name` is the event name of the frame: some servers send the type only there.
    """
    return read_event(with_type(parse(data), name))


def response_in(data: bytes) -> bytes:
    """Return the JSON of the snapshot inside the JSON of a `LifecycleEvent` of ours, which has no `extra`:
    the snapshot is its last field."""
    return data[data.index(_RESPONSE) + len(_RESPONSE) : -1]


def with_type(raw: Any, name: str | None) -> Any:
    """Add a missing type: the frame's name, or `error` if the event has an `error` field."""
    if not isinstance(raw, dict) or isinstance(raw.get("type"), str):
        return raw
    type = name or ("error" if raw.get("error") else None)
    return {**raw, "type": type} if type else raw


def read_event(raw: Any) -> Event:
    """Read an event from a decoded value. An event that does not match its type becomes an `UnknownEvent`."""
    if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        raise DecodeError("an event must be an object with a string `type`")
    type = raw["type"]
    try:
        return read(_both_shapes(raw) if type == "error" else raw, EVENTS.get(type, UnknownEvent))
    except DecodeError:
        return _as_unknown(raw)


def _as_unknown(raw: dict[str, Any]) -> UnknownEvent:
    number = raw.get("sequence_number")
    if number.__class__ is int:
        fields = {name: value for name, value in raw.items() if name not in ("type", "sequence_number")}
        return UnknownEvent(type=raw["type"], sequence_number=number, extra=fields)
    return UnknownEvent(
        type=raw["type"], extra={name: value for name, value in raw.items() if name != "type"}
    )


def _both_shapes(raw: dict[str, Any]) -> dict[str, Any]:
    """Return an error event with its fields both nested and flat."""
    nested = raw.get("error")
    if nested is None:
        return {**raw, "error": {name: raw[name] for name in _FLAT if name in raw}}
    if not isinstance(nested, dict):
        return raw
    flat = {name: nested[name] for name in _FLAT if name in nested and raw.get(name) is None}
    return {**raw, **flat}


_FLAT = ("code", "message", "param")


def read_annotation(raw: dict[str, Any]) -> Annotation:
    """Read a citation. An invalid one becomes an `UnknownAnnotation`."""
    try:
        annotation = read({"annotation": raw}, AnnotationAddedEvent).annotation
    except DecodeError:
        annotation = None
    if annotation is not None:
        return annotation
    fields = {name: value for name, value in raw.items() if name != "type"}
    kind = text_of(raw.get("type")) or "unknown"
    # An invalid URL citation must not look like a valid one.
    return UnknownAnnotation(type="unknown" if kind == "url_citation" else kind, extra=fields)
