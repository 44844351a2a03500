"""Convert the events of any OpenResponses stream to parts for VS Code's Language Model API (editor 14).

Text is forwarded as it arrives. A tool call is delivered complete and exactly once, whatever the server
repeats, omits or renames. A stream never ends silently: it delivers text, a call or data, or the result has
an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from penstock.errors import DecodeError, OpenResponsesError, ProtocolError
from penstock.lenient import object_of, objects_of, text_of
from penstock.parts.calls import ARGUMENT_FIELDS, Calls
from penstock.parts.citations import Citations
from penstock.parts.data import data_of, generated_image
from penstock.parts.event_types import (
    ARGUMENTS,
    CHANNELS,
    FILE,
    MESSAGE_PARTS,
    PARTS_DONE,
    item_type,
    kind_of,
)
from penstock.parts.item_parts import ItemParts, Thinking
from penstock.parts.items import (
    CALL,
    MESSAGE,
    REASONING,
    SUMMARY,
    OutputItem,
    OutputItems,
    field,
    number_field,
    object_field,
    place,
    text_field,
)
from penstock.parts.parts import Part
from penstock.parts.result import StreamResult, error_part, failure_of, finish_of, has_message, no_answer
from penstock.parts.tracing import Trace
from penstock.protocol.content import JsonObject
from penstock.protocol.events import ENDS, EVENTS, Event, is_keep_alive
from penstock.protocol.response import Usage
from penstock.protocol.wire import read, to_builtins
from penstock.stream.diagnostics import Diagnostics

Log = Callable[[int, str], None]
"""Called with a level and a message, like `logging.Logger.log`."""

WARNING = 30


class OpenResponsesStreamAdapter:
    """Converts one response.

    `model` is the id in the request; reasoning is marked with it. `tools` are the tool names in the request:
    a call to any other tool is delivered with a diagnostic. `citations` shows citations as links in the text
    or in a list after the answer. `errors_as_text` also reports a failure as text, for hosts that drop
    errors and feed events themselves; `LanguageModelProvider` does not use it, because it may repeat a failed
    attempt before the user sees anything. `log` is called with warnings, `trace` with every event and its
    parts.
    """

    def __init__(
        self,
        *,
        thinking: Thinking = "part",
        citations: Citations = "off",
        errors_as_text: bool = False,
        model: str = "",
        tools: Collection[str] | None = None,
        log: Log | None = None,
        trace: Trace | None = None,
    ) -> None:
        self._errors_as_text = errors_as_text
        self._requested_model = model
        self._log = log
        self._trace = trace
        self._diagnostics = Diagnostics()
        self._items = OutputItems()
        self._calls = Calls(self._items, self._report, tools)
        self._item_parts = ItemParts(thinking, citations, self._report)
        self._last: Event | None = None
        self._is_numbered = True
        self._is_over = False
        # The fields of the result.
        self._id = ""
        self._model = ""
        self._usage: Usage | None = None
        self._status = ""
        self._stored = True
        self._finish = "error"
        self._error: OpenResponsesError | None = None
        self._is_vague = False
        """The error has no message so far; a later event may have one."""

    def feed(self, event: Event) -> list[Part]:
        """Return the parts that this event produces, in order. Events after the end produce none."""
        parts: list[Part] = []
        if not self._is_over and not self._is_repeated(event):
            self._last = event
            type = event.type.removeprefix("openai:")
            handler = HANDLERS.get(type)
            if handler is not None:
                parts = handler(self, type, event)
            else:
                self._ignore(type)
        if self._trace is not None:
            self._trace(event, parts)
        return parts

    def end(self, error: OpenResponsesError | None = None) -> list[Part]:
        """End the stream. `error` says why it was cut off, if the transport knows."""
        if self._is_over:
            return []
        if self._error is None:
            when = "before its response was complete" if self._last is not None else "before any event"
            message = f"the stream ended {when}"
            self._error = error or ProtocolError(message, code="stream_truncated")
        parts = self._close()
        if self._trace is not None:
            self._trace(None, parts)
        return parts

    def is_link(self, part: Part) -> bool:
        """Return whether a part shows citations: the model did not generate its text."""
        return self._item_parts.is_link(part)

    @property
    def result(self) -> StreamResult:
        """The result so far; final after the last event or `end`."""
        return StreamResult(
            response_id=self._id or None,
            model=self._model or None,
            usage=self._usage,
            finish=self._finish,
            status=self._status,
            stored=self._stored,
            refused=self._item_parts.refused,
            annotations=list(self._item_parts.annotations),
            diagnostics=self._diagnostics.entries,
            error=self._error,
        )

    def _is_repeated(self, event: Event) -> bool:
        """Return whether this event repeats the last one.

        Sequence numbers are ignored if different events share one (ask A6).
        """
        last, number = self._last, event.sequence_number
        if last is None or number == 0 or number != last.sequence_number:
            return False
        self._is_numbered = self._is_numbered and event == last
        return self._is_numbered

    # Text and reasoning

    def _delta(self, type: str, event: Event) -> list[Part]:
        kind, channel, index_field, _ = CHANNELS[type]
        text = text_field(event, "delta")
        item, _ = self._items.find(kind, *place(event))
        # If an event arrives under two names, use the name that the item had first (decision 20).
        if not text or item.event_names.setdefault(channel, type) != type:
            return []
        return self._item_parts.emit(item, channel, number_field(event, index_field), text)

    def _text_done(self, type: str, event: Event) -> list[Part]:
        kind, channel, index_field, text_field_name = CHANNELS[type]
        item, _ = self._items.find(kind, *place(event))
        return self._item_parts.complete_text(
            item, channel, number_field(event, index_field), text_field(event, text_field_name)
        )

    def _part_done(self, type: str, event: Event) -> list[Part]:
        part = object_field(event, "part")
        is_summary = "summary" in type
        part_type = text_of(part.get("type"))
        if "reasoning" in type or part_type in ("reasoning_text", "summary_text"):
            kind = REASONING
        else:
            kind = MESSAGE if part_type in MESSAGE_PARTS else self._items.kind_of(*place(event))
        item, _ = self._items.find(kind, *place(event))
        index = number_field(event, "summary_index" if is_summary else "content_index")
        return self._item_parts.complete_part(item, SUMMARY if is_summary else "content", index, part)

    def _annotation(self, _: str, event: Event) -> list[Part]:
        item, _is_certain = self._items.find(MESSAGE, *place(event))
        annotation = object_field(event, "annotation")
        return self._item_parts.add_citation(item, annotation) if annotation else []

    # Items

    def _added(self, _: str, event: Event) -> list[Part]:
        raw = object_field(event, "item")
        type = item_type(raw)
        kind = kind_of(type)
        if kind:
            id, index = text_of(raw.get("id")), number_field(event, "output_index")
            item = self._items.find_added(kind, id, index, raw)
            item.announced = item.announced or raw
            if kind == CALL:
                self._calls.announce(item, type, raw)
        return []

    def _done(self, _: str, event: Event) -> list[Part]:
        raw = object_field(event, "item")
        type = item_type(raw)
        kind = kind_of(type)
        if not kind:
            return self._item_parts.add_data(generated_image(raw)) if type == "image_generation_call" else []
        id, index = text_of(raw.get("id")), number_field(event, "output_index")
        item = self._items.find_done(kind, id, index, raw, self._calls.is_same_call)
        return self._end_item(item, type, raw)

    def _end_item(self, item: OutputItem, type: str, raw: JsonObject) -> list[Part]:
        if item.kind == CALL:
            return [*self._calls.item_done(item, type, raw)]
        item.done = True
        parts = self._item_parts.complete_item(item, raw)
        if item.kind == REASONING and not item.has_sent_metadata:
            item.has_sent_metadata = True
            parts += self._item_parts.end_thinking(item, raw, self._requested_model or self._model)
        return parts

    def _arguments_delta(self, type: str, event: Event) -> list[Part]:
        item, _ = self._items.find(CALL, *place(event))
        self._calls.add_fragment(item, ARGUMENTS[type], text_field(event, "delta"))
        return []

    def _arguments_done(self, type: str, event: Event) -> list[Part]:
        item, is_certain = self._items.find(CALL, *place(event))
        if not is_certain:
            return []  # wait for the item: these may be the arguments of another call
        call_type = ARGUMENTS[type]
        arguments = field(event, ARGUMENT_FIELDS[call_type])
        return [*self._calls.arguments_done(item, call_type, arguments, text_field(event, "name"))]

    def _file(self, type: str, event: Event) -> list[Part]:
        part = data_of(event.extra or {})
        if part is None:
            self._ignore(type)
        return self._item_parts.add_data(part)

    # The response

    def _lifecycle(self, _: str, event: Event) -> list[Part]:
        self._update_response(event)
        return []

    def _update_response(self, event: Event) -> None:
        """Update the result from a snapshot of the response; keep earlier values that it omits."""
        response = field(event, "response")
        known = {name: _member(response, name) for name in ("id", "model", "usage", "store")}
        self._id = text_of(known["id"]) or self._id
        self._model = text_of(known["model"]) or self._model
        self._usage = _read_usage(known["usage"]) or self._usage
        self._stored = known["store"] is not False

    def _error_event(self, _: str, event: Event) -> list[Part]:
        """Record an error event. `response.failed` may follow with more details (quirk R12)."""
        payload: JsonObject = to_builtins(event)
        fields = {name: payload[name] for name in payload if name not in ("type", "sequence_number")}
        if self._error is None or self._is_vague:
            self._error = failure_of(fields)
            self._is_vague = not has_message(fields)
        return []

    def _terminal(self, type: str, event: Event) -> list[Part]:
        self._update_response(event)
        response = object_field(event, "response")
        status = text_of(response.get("status"))
        # `response.failed` is a failure, whatever status its response has.
        is_status_valid = status in ENDS.values() and ENDS[type] != "failed"
        self._status = status if is_status_valid else ENDS[type]
        failure = object_of(response.get("error")) or event.extra or {}
        if self._status == "failed" and (self._error is None or (self._is_vague and has_message(failure))):
            self._error = failure_of(failure)
        if self._error is not None:
            return self._close()
        parts = self._complete_items(objects_of(response.get("output")))
        has_calls = self._calls.any_delivered
        self._finish = finish_of(self._status, response, has_calls=has_calls)
        if not self._item_parts.has_answer and not has_calls:
            self._error = no_answer(
                self._finish, malformed=self._calls.malformed, has_thinking=self._item_parts.has_thinking
            )
        elif not has_calls:
            # After a call the answer goes on in the next response. The editor moves text before the calls, so
            # a list would be shown, and returned to the model, in the middle of the answer (editor 8).
            parts += self._item_parts.list_citations()
        return parts + self._close()

    def _complete_items(self, output: list[JsonObject]) -> list[Part]:
        """Return the parts that only the terminal response contains."""
        parts: list[Part] = []
        kinds = [(kind_of(item_type(raw)), raw) for raw in output]
        items = [(kind, raw) for kind, raw in kinds if kind]
        completed = self._status == "completed"
        for item, (kind, raw) in zip(
            self._items.match_output(items, self._calls.is_same_call), items, strict=True
        ):
            if kind != CALL or completed or raw.get("status") == "completed":
                parts += self._end_item(item, item_type(raw), raw)
        for kind, raw in kinds:
            if not kind and item_type(raw) == "image_generation_call":
                parts += self._item_parts.add_data(generated_image(raw))
        for item in self._items.all:
            if not item.done and item.kind != CALL and item.announced:
                parts += self._end_item(item, item.kind, item.announced)
        return [*parts, *self._calls.deliver_remaining()] if completed else parts

    def _close(self) -> list[Part]:
        self._is_over = True
        if self._error is None:
            return []
        if self._finish in ("stop", "tool_calls"):
            self._finish = "error"
        if self._log is not None:
            self._log(WARNING, f"the response failed: {self._error.message} ({self._error.code})")
        if not self._errors_as_text:
            return []
        return [error_part(self._error.message)]

    # Everything else

    def _ignore(self, type: str) -> None:
        if type not in EVENTS and not is_keep_alive(type):
            self._report("unknown_event", f"an event of type {type[:80]!r} was ignored")

    def _report(self, code: str, message: str) -> None:
        self._diagnostics.report(code, message)
        if self._log is not None:
            self._log(WARNING, f"{code}: {message}")


HANDLERS: dict[str, Callable[[OpenResponsesStreamAdapter, str, Event], list[Part]]] = {
    **{
        type: OpenResponsesStreamAdapter._delta
        if type.endswith("delta")
        else OpenResponsesStreamAdapter._text_done
        for type in CHANNELS
    },
    **{
        type: OpenResponsesStreamAdapter._arguments_delta
        if type.endswith("delta")
        else OpenResponsesStreamAdapter._arguments_done
        for type in ARGUMENTS
    },
    **{f"response.{name}.done": OpenResponsesStreamAdapter._part_done for name in PARTS_DONE},
    **{
        f"response.{name}": OpenResponsesStreamAdapter._lifecycle
        for name in ("created", "queued", "in_progress")
    },
    **dict.fromkeys(ENDS, OpenResponsesStreamAdapter._terminal),
    "response.output_item.added": OpenResponsesStreamAdapter._added,
    "response.output_item.done": OpenResponsesStreamAdapter._done,
    "response.output_text.annotation.added": OpenResponsesStreamAdapter._annotation,
    "response.output_text_annotation.added": OpenResponsesStreamAdapter._annotation,
    FILE: OpenResponsesStreamAdapter._file,
    "error": OpenResponsesStreamAdapter._error_event,
}
"""The handler of each event. All other events produce no part; unknown ones add a diagnostic."""


def _member(response: Any, name: str) -> Any:
    return response.get(name) if isinstance(response, dict) else getattr(response, name, None)


def _read_usage(raw: Any) -> Usage | None:
    if isinstance(raw, Usage):
        return raw
    try:
        return read(raw, Usage) if isinstance(raw, dict) else None
    except DecodeError:
        return None
