"""Events in, parts out: any OpenResponses stream as what VS Code's Language Model API wants (editor 14).

Text is passed on as it comes. A tool call comes whole and once, whatever the server repeats, leaves out or
renames. What ends a stream is never silence: there was text, a call or data, or the result has an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from penstock.errors import DecodeError, OpenResponsesError, ProtocolError
from penstock.lenient import object_of, objects_of, text_of
from penstock.parts.calls import CALL_TYPES, CUSTOM, FUNCTION, WHOLE_FIELDS, Calls
from penstock.parts.data import carried, generated_image
from penstock.parts.item_parts import CARRIERS, ItemParts, Thinking
from penstock.parts.items import (
    CALL,
    CONTENT,
    MESSAGE,
    REASONING,
    REFUSAL,
    SUMMARY,
    TEXT,
    OutputItem,
    OutputItems,
    field,
    number_field,
    object_field,
    place,
    text_field,
)
from penstock.parts.parts import Part, TextPart
from penstock.parts.result import StreamResult, failure_of, finish_of, no_answer, says_why
from penstock.protocol.content import JsonObject
from penstock.protocol.events import ENDS, EVENTS, Event, is_keep_alive
from penstock.protocol.response import Usage
from penstock.protocol.wire import read, to_builtins
from penstock.stream.diagnostics import Diagnostics

Log = Callable[[int, str], None]
"""Takes a level and a line: `logging.Logger.log` fits."""

TRACE, WARNING = 5, 30


class OpenResponsesStreamAdapter:
    """Reads one response.

    `model` is the id that the request named; it marks reasoning as this model's. `tools` are the names that
    the request offered: a call to another is delivered with a diagnostic. With `annotations` citations become
    links in the text, with `errors_as_text` a failure becomes text too, for hosts that drop errors.
    """

    def __init__(
        self,
        *,
        thinking: Thinking = "part",
        annotations: bool = False,
        errors_as_text: bool = False,
        model: str = "",
        tools: Collection[str] | None = None,
        log: Log | None = None,
    ) -> None:
        self._errors_as_text = errors_as_text
        self._asked_model = model
        self._log = log
        self._told = Diagnostics()
        self._items = OutputItems()
        self._calls = Calls(self._items, self._tell, tools)
        self._item_parts = ItemParts(thinking, self._tell, links=annotations)
        self._last: Event | None = None
        self._is_numbered = True
        self._over = False
        # What the result will say.
        self._id = ""
        self._model = ""
        self._usage: Usage | None = None
        self._status = ""
        self._stored = True
        self._finish = "error"
        self._error: OpenResponsesError | None = None
        self._is_vague = False
        """An error came that does not say why: one that does may still come."""

    def feed(self, event: Event) -> list[Part]:
        """The parts that this event makes, in order. Nothing after the end of the response."""
        if self._over:
            return []
        if self._is_repeated(event):
            return []
        self._last = event
        type = event.type.removeprefix("openai:")
        handler = HANDLERS.get(type)
        if handler is None:
            self._ignore(type)
            parts: list[Part] = []
        else:
            parts = handler(self, type, event)
        if self._log is not None:
            self._trace(self._log, event, parts)
        return parts

    def end(self, error: OpenResponsesError | None = None) -> list[Part]:
        """The stream is over. `error` is why it broke off, if whoever carried it knows."""
        if self._over:
            return []
        if self._error is None:
            begun = "before its response did" if self._last is not None else "without sending anything"
            message = f"the stream ended {begun}"
            self._error = error or ProtocolError(message, code="stream_truncated")
        return self._close()

    @property
    def result(self) -> StreamResult:
        """What is known now; final after the last event or `end`."""
        return StreamResult(
            response_id=self._id or None,
            model=self._model or None,
            usage=self._usage,
            finish=self._finish,
            status=self._status,
            stored=self._stored,
            refused=self._item_parts.refused,
            annotations=list(self._item_parts.annotations),
            diagnostics=self._told.told,
            error=self._error,
        )

    def _is_repeated(self, event: Event) -> bool:
        """Is it the very same event again? Where all events have one number it says nothing (ask A6)."""
        last, number = self._last, event.sequence_number
        if last is None or number == 0 or number != last.sequence_number:
            return False
        self._is_numbered = self._is_numbered and event == last
        return self._is_numbered

    # Text and reasoning

    def _delta(self, type: str, event: Event) -> list[Part]:
        kind, channel, index_field, _ = CHANNELS[type]
        text = text_field(event, "delta")
        item, _ = self._items.spoken_of(kind, *place(event))
        # Of two spellings of one event, the first that came for the item counts (decision 20).
        if not text or item.spellings.setdefault(channel, type) != type:
            return []
        return self._item_parts.say(item, channel, number_field(event, index_field), text)

    def _whole(self, type: str, event: Event) -> list[Part]:
        kind, channel, index_field, whole_field = CHANNELS[type]
        item, _ = self._items.spoken_of(kind, *place(event))
        return self._item_parts.supply(
            item, channel, number_field(event, index_field), text_field(event, whole_field)
        )

    def _part_done(self, type: str, event: Event) -> list[Part]:
        part = object_field(event, "part")
        is_summary = "summary" in type
        named = text_of(part.get("type"))
        if "reasoning" in type or named in ("reasoning_text", "summary_text"):
            kind = REASONING
        else:
            kind = MESSAGE if named in SPOKEN else self._items.kind_of(*place(event))
        item, _ = self._items.spoken_of(kind, *place(event))
        index = number_field(event, "summary_index" if is_summary else "content_index")
        return self._item_parts.supply_part(item, SUMMARY if is_summary else "content", index, part)

    def _annotation(self, _: str, event: Event) -> list[Part]:
        item, _certain = self._items.spoken_of(MESSAGE, *place(event))
        annotation = object_field(event, "annotation")
        return self._item_parts.cite(item, annotation) if annotation else []

    # Items

    def _added(self, _: str, event: Event) -> list[Part]:
        raw = object_field(event, "item")
        type = _item_type(raw)
        kind = _kind(type)
        if kind:
            id, index = text_of(raw.get("id")), number_field(event, "output_index")
            item = self._items.announced(kind, id, index, raw)
            item.announced = item.announced or raw
            if kind == CALL:
                self._calls.announce(item, type, raw)
        return []

    def _done(self, _: str, event: Event) -> list[Part]:
        raw = object_field(event, "item")
        type = _item_type(raw)
        kind = _kind(type)
        if not kind:
            return self._item_parts.give(generated_image(raw)) if type == "image_generation_call" else []
        id, index = text_of(raw.get("id")), number_field(event, "output_index")
        item = self._items.ended(kind, id, index, raw, self._calls.is_same)
        return self._end_item(item, type, raw)

    def _end_item(self, item: OutputItem, type: str, raw: JsonObject) -> list[Part]:
        if item.kind == CALL:
            return [*self._calls.item_done(item, type, raw)]
        item.done = True
        parts = self._item_parts.supply_item(item, raw)
        if item.kind == REASONING and not item.sealed:
            item.sealed = True
            parts += self._item_parts.seal(item, raw, self._asked_model or self._model)
        return parts

    def _arguments_delta(self, type: str, event: Event) -> list[Part]:
        item, _ = self._items.spoken_of(CALL, *place(event))
        self._calls.take(item, ARGUMENTS[type], text_field(event, "delta"))
        return []

    def _arguments_done(self, type: str, event: Event) -> list[Part]:
        item, certain = self._items.spoken_of(CALL, *place(event))
        if not certain:
            return []  # whose arguments these are, only the items will tell
        call_type = ARGUMENTS[type]
        whole = field(event, WHOLE_FIELDS[call_type])
        return [*self._calls.arguments_done(item, call_type, whole, text_field(event, "name"))]

    def _file(self, type: str, event: Event) -> list[Part]:
        part = carried(event.extra or {})
        if part is None:
            self._ignore(type)
        return self._item_parts.give(part)

    # The response

    def _lifecycle(self, _: str, event: Event) -> list[Part]:
        self._note_response(event)
        return []

    def _note_response(self, event: Event) -> None:
        """Keep what a snapshot says of the response; of an earlier one what a later one leaves out."""
        response = field(event, "response")
        known = {name: _member(response, name) for name in ("id", "model", "usage", "store")}
        self._id = text_of(known["id"]) or self._id
        self._model = text_of(known["model"]) or self._model
        self._usage = _read_usage(known["usage"]) or self._usage
        self._stored = known["store"] is not False

    def _failure(self, _: str, event: Event) -> list[Part]:
        """An error event. `response.failed` may follow with the rest of what there is to say (quirk R12)."""
        payload: JsonObject = to_builtins(event)
        told = {name: payload[name] for name in payload if name not in ("type", "sequence_number")}
        if self._error is None or self._is_vague:
            self._error = failure_of(told)
            self._is_vague = not says_why(told)
        return []

    def _terminal(self, type: str, event: Event) -> list[Part]:
        self._note_response(event)
        response = object_field(event, "response")
        status = text_of(response.get("status"))
        # What failed has failed, whatever else its response says of itself.
        told = status in ENDS.values() and ENDS[type] != "failed"
        self._status = status if told else ENDS[type]
        failure = object_of(response.get("error")) or event.extra or {}
        if self._status == "failed" and (self._error is None or (self._is_vague and says_why(failure))):
            self._error = failure_of(failure)
        if self._error is not None:
            return self._close()
        parts = self._settle(objects_of(response.get("output")))
        called = self._calls.any_delivered
        self._finish = finish_of(self._status, response, called=called)
        if not self._item_parts.answered and not called:
            self._error = no_answer(self._finish, flawed=self._calls.flawed, thought=self._item_parts.thought)
        return parts + self._close()

    def _settle(self, output: list[JsonObject]) -> list[Part]:
        """What only the terminal response tells."""
        parts: list[Part] = []
        known = [(_kind(_item_type(raw)), raw) for raw in output]
        items = [(kind, raw) for kind, raw in known if kind]
        completed = self._status == "completed"
        for item, (kind, raw) in zip(self._items.settle(items, self._calls.is_same), items, strict=True):
            if kind != CALL or completed or raw.get("status") == "completed":
                parts += self._end_item(item, _item_type(raw), raw)
        for kind, raw in known:
            if not kind and _item_type(raw) == "image_generation_call":
                parts += self._item_parts.give(generated_image(raw))
        for item in self._items.all:
            if not item.done and item.kind != CALL and item.announced:
                parts += self._end_item(item, item.kind, item.announced)
        return [*parts, *self._calls.leave()] if completed else parts

    def _close(self) -> list[Part]:
        self._over = True
        if self._error is None:
            return []
        if self._finish in ("stop", "tool_calls"):
            self._finish = "error"
        if self._log is not None:
            self._log(WARNING, f"the response fails: {self._error.message} ({self._error.code})")
        if not self._errors_as_text:
            return []
        return [TextPart(f"\n\n**Error:** {self._error.message}\n\n")]

    # Everything else

    def _ignore(self, type: str) -> None:
        if type not in EVENTS and not is_keep_alive(type):
            self._tell("unknown_event", f"an event of type {type[:80]!r} was ignored")

    def _tell(self, code: str, message: str) -> None:
        self._told.tell(code, message)
        if self._log is not None:
            self._log(WARNING, f"{code}: {message}")

    def _trace(self, log: Log, event: Event, parts: list[Part]) -> None:
        made = ", ".join(part.__class__.__name__ for part in parts) or "nothing"
        id, index = place(event)
        log(TRACE, f"{event.sequence_number} {event.type} {index} {id} -> {made}")


CHANNELS: dict[str, tuple[str, str, str, str]] = {
    f"response.{name}.{step}": row
    for name, row in {
        "output_text": (MESSAGE, TEXT, "content_index", "text"),
        "refusal": (MESSAGE, REFUSAL, "content_index", "refusal"),
        "reasoning": (REASONING, CONTENT, "content_index", "text"),
        "reasoning_text": (REASONING, CONTENT, "content_index", "text"),
        "reasoning_summary": (REASONING, SUMMARY, "summary_index", "text"),
        "reasoning_summary_text": (REASONING, SUMMARY, "summary_index", "text"),
    }.items()
    for step in ("delta", "done")
}
"""Events that tell text: kind of item, channel, the field with the number of the part, that of the whole."""

ARGUMENTS = {
    f"response.{name}.{step}": type
    for name, type in {"function_call_arguments": FUNCTION, "custom_tool_call_input": CUSTOM}.items()
    for step in ("delta", "done")
}
"""Events that tell the arguments of a call, and the type of the call."""

SPOKEN = frozenset(("output_text", "refusal", *CARRIERS))
"""Content parts that only a message has."""

_PARTS_DONE = ("content_part", "reasoning_part", "reasoning_text_part", "reasoning_summary_part")

HANDLERS: dict[str, Callable[[OpenResponsesStreamAdapter, str, Event], list[Part]]] = {
    **{
        type: OpenResponsesStreamAdapter._delta
        if type.endswith("delta")
        else OpenResponsesStreamAdapter._whole
        for type in CHANNELS
    },
    **{
        type: OpenResponsesStreamAdapter._arguments_delta
        if type.endswith("delta")
        else OpenResponsesStreamAdapter._arguments_done
        for type in ARGUMENTS
    },
    **{f"response.{name}.done": OpenResponsesStreamAdapter._part_done for name in _PARTS_DONE},
    **{
        f"response.{name}": OpenResponsesStreamAdapter._lifecycle
        for name in ("created", "queued", "in_progress")
    },
    **dict.fromkeys(ENDS, OpenResponsesStreamAdapter._terminal),
    "response.output_item.added": OpenResponsesStreamAdapter._added,
    "response.output_item.done": OpenResponsesStreamAdapter._done,
    "response.output_text.annotation.added": OpenResponsesStreamAdapter._annotation,
    "response.output_text_annotation.added": OpenResponsesStreamAdapter._annotation,
    "response.file": OpenResponsesStreamAdapter._file,
    "error": OpenResponsesStreamAdapter._failure,
}
"""What each event does. Any other is progress that has no part, or unknown."""


def _item_type(raw: JsonObject) -> str:
    return text_of(raw.get("type")).removeprefix("openai:")


def _kind(type: str) -> str:
    """The kind of item, "" for one that has no parts of its own here."""
    return type if type in (MESSAGE, REASONING) else CALL if type in CALL_TYPES else ""


def _member(response: Any, name: str) -> Any:
    return response.get(name) if isinstance(response, dict) else getattr(response, name, None)


def _read_usage(raw: Any) -> Usage | None:
    if isinstance(raw, Usage):
        return raw
    try:
        return read(raw, Usage) if isinstance(raw, dict) else None
    except DecodeError:
        return None
