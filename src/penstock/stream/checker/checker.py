"""Checks whether a stream is lawful: takes its events one by one and reports the rules that each breaks.

It depends on the protocol but not on the state machine, so that each can verify the other. It does not stop
at a fault: it reports it once, accepts the stream as it is, and continues.

    checker = StreamChecker()
    for frame in frames:
        for violation in checker.feed_frame(frame.event, frame.data): ...
    for violation in checker.end(): ...

`feed` takes an event that is decoded already, or an event of the state machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from penstock.protocol.events import Event as StreamEvent
from penstock.protocol.wire import encode
from penstock.stream.checker.content import Contents
from penstock.stream.checker.items import Items
from penstock.stream.checker.names import CANONICAL, Names, is_tool_event
from penstock.stream.checker.rules import Violation
from penstock.stream.checker.shapes import ERROR_PAYLOAD, WEBSOCKET_ERROR, faults
from penstock.stream.checker.snapshot import SNAPSHOTS, TERMINAL, Snapshots
from penstock.stream.checker.state import (
    ARGUMENTS,
    INPUT,
    OUTPUT_TEXT,
    REASONING,
    REFUSAL,
    SUMMARY,
    Event,
    Findings,
    same,
    show,
)

ACCENTS = ("openresponses", "openai", "copilot")
TRANSPORTS = ("sse", "ndjson", "websocket")

_ITEM_EVENTS = {
    "response.output_item.added": Items.added,
    "response.output_item.done": Items.done,
}
_CONTENT_EVENTS: dict[str, tuple[Callable[[Contents, Event, Any], None], object]] = {
    "response.content_part.added": (Contents.part_added, "content"),
    "response.content_part.done": (Contents.part_done, "content"),
    "response.reasoning_summary_part.added": (Contents.part_added, "summary"),
    "response.reasoning_summary_part.done": (Contents.part_done, "summary"),
    "response.output_text.delta": (Contents.text_delta, OUTPUT_TEXT),
    "response.output_text.done": (Contents.text_done, OUTPUT_TEXT),
    "response.output_text.annotation.added": (Contents.annotation, OUTPUT_TEXT),
    "response.refusal.delta": (Contents.text_delta, REFUSAL),
    "response.refusal.done": (Contents.text_done, REFUSAL),
    "response.reasoning.delta": (Contents.text_delta, REASONING),
    "response.reasoning.done": (Contents.text_done, REASONING),
    "response.reasoning_summary_text.delta": (Contents.text_delta, SUMMARY),
    "response.reasoning_summary_text.done": (Contents.text_done, SUMMARY),
    "response.function_call_arguments.delta": (Contents.flow_delta, ARGUMENTS),
    "response.function_call_arguments.done": (Contents.flow_done, ARGUMENTS),
    "response.custom_tool_call_input.delta": (Contents.flow_delta, INPUT),
    "response.custom_tool_call_input.done": (Contents.flow_done, INPUT),
}
"""Events with output, by the specification's name, and the function that checks them."""

_FLAT = ("code", "message", "param")
"""Fields of `error` that are repeated next to it: half of the clients read these (decision 9)."""


class StreamChecker:
    """Checks one stream, which is one turn."""

    def __init__(
        self, *, accent: str = "openresponses", transport: str = "sse", tolerant: bool = False
    ) -> None:
        if accent not in ACCENTS:
            raise ValueError(f"accent must be one of {', '.join(ACCENTS)}, not {accent!r}")
        if transport not in TRANSPORTS:
            raise ValueError(f"transport must be one of {', '.join(TRANSPORTS)}, not {transport!r}")
        self.events = 0
        self._transport = transport
        self._tolerant = tolerant
        self._findings = Findings(tolerant=tolerant)
        self._report = self._findings.report
        self._names = Names(accent)
        self._items = Items(self._findings, self._names)
        self._contents = Contents(self._findings, self._names, self._items)
        self._snapshots = Snapshots(self._findings, self._names, self._items)
        self._begun = False
        self._expected: int | None = None if tolerant else 0
        self._numbered = True
        self._framed = False
        self._done = False
        self._error: Event | None = None
        self._terminal = ""
        self._ended = False

    @property
    def lawful(self) -> bool:
        """True while no violation was found."""
        return self._findings.count == 0

    def feed(self, event: Mapping[str, Any] | StreamEvent) -> list[Violation]:
        """Check one event, as decoded JSON or as the state machine returns it; return its violations."""
        # What is sent is checked, so an event is encoded as for a client.
        decoded = msgspec.json.decode(encode(event)) if isinstance(event, StreamEvent) else event
        self._findings.position = self.events
        self.events += 1
        self._check_event(decoded)
        return self._findings.take()

    def feed_frame(self, name: str | None, data: str) -> list[Violation]:
        """Check one frame as received: `name` is its SSE `event:` field, if any; `data` is its text."""
        self._framed = True
        self._findings.position = self.events
        if data.strip() == "[DONE]":
            self._check_done()
            return self._findings.take()
        values, problem = _values(data)
        if problem:
            self._report("transport.json", problem)
            self._expected = None
        elif "\n" in data.strip():
            self._report("transport.one-line", "the JSON of one event is spread over several lines")
        if not values:
            self.events += 1
        found = self._findings.take()
        for value in values:
            if self._transport == "sse":
                self._check_name(name, value.get("type"))
            found += self._findings.take() + self.feed(value)
        return found

    def end(self) -> list[Violation]:
        """End the stream; return the violations that show only now."""
        if self._ended:
            return []
        self._ended = True
        self._findings.position = self.events
        if self._error is not None:
            self._report("terminal.error-alone", "the stream ends after `error`")
        elif not self._terminal:
            self._report("terminal.missing", "the stream ends without a terminal event")
        if self._framed and self._transport == "sse" and not self._done:
            self._report("transport.done-missing", "the stream ends without [DONE]")
        return self._findings.take()

    # --- transport

    def _check_done(self) -> None:
        if self._transport == "websocket":
            self._report("transport.done-forbidden", "[DONE] on a WebSocket", "")
        elif self._done:
            self._report("transport.done-twice", "[DONE] is repeated", "")
        self._done = True

    def _check_name(self, name: str | None, type: object) -> None:
        if name is None:
            self._report("transport.event-name-missing", "the frame has no `event:` field", "")
        elif name != type and isinstance(type, str):
            self._report("transport.event-name", f"`event: {name[:60]}` and type {type[:60]!r} differ")

    # --- events

    def _check_event(self, event: Event) -> None:
        type = event.get("type") if isinstance(event, Mapping) else None
        if not isinstance(type, str) or not type:
            self._report("event.type", "the event has no type")
            self._expected = None
            return
        if type == "error" and self._transport == "websocket":
            self._check_envelope(event)
            return
        self._check_number(event)
        canonical = CANONICAL.get(type, type)
        ignorable = self._tolerant and not _is_known(canonical)
        if ignorable or self._is_late(type):
            return
        error, self._error = self._error, None
        if error is not None and type != "response.failed":
            self._report("terminal.error-alone", f"{type} follows `error`")
        elif error is not None:
            self._compare_codes(error, event)
        if not self._begun:
            self._begin(type, event)
        if canonical in _ITEM_EVENTS or canonical in _CONTENT_EVENTS:
            self._check_output(type, canonical, event)
        elif type in SNAPSHOTS:
            self._snapshots.check(type, event)
            self._terminal = type if type in TERMINAL else ""
        elif type == "error":
            self._check_error(event)
        else:
            self._check_other(type, event)

    def _check_number(self, event: Event) -> None:
        number = event.get("sequence_number")
        if not isinstance(number, int) or isinstance(number, bool):
            if self._numbered:
                self._report("sequence.number", f"{event['type']} has no sequence_number")
            self._numbered = False
            self._expected = None  # whether the sender counted this event cannot be known
            return
        if self._expected is not None and number != self._expected:
            rule = "sequence.start" if self.events == 1 else "sequence.step"
            self._report(rule, f"sequence_number is {number}, expected {self._expected}")
        self._numbered = True
        self._expected = number + 1

    def _is_late(self, type: str) -> bool:
        """Return whether the event comes after the end. Reported once; later events are not checked."""
        if self._done and self._transport != "websocket":
            self._report("transport.after-done", f"{type} after [DONE]", "")
            self._terminal = self._terminal or (type if type in TERMINAL else "")
        elif not self._terminal:
            return False
        elif type in TERMINAL:
            self._report("terminal.twice", f"{type} after {self._terminal}", "")
        else:
            self._report("terminal.after", f"{type} after {self._terminal}", "")
        return True

    def _begin(self, type: str, event: Event) -> None:
        self._begun = True
        if type == "response.created":
            return
        number = event.get("sequence_number")
        queued = type in ("response.queued", "response.in_progress")
        resumed = queued or (number.__class__ is int and number > 0)
        if self._tolerant and resumed:  # quirk R9
            self._items.is_resumed = not queued
            return
        self._report("lifecycle.created-first", f"the stream starts with {type}")

    def _check_output(self, type: str, canonical: str, event: Event) -> None:
        if not self._names.spells(type, canonical):
            family = canonical.rpartition(".")[0] if self._names.reads_reasoning_text else REASONING.part
            self._report(
                "name.accent", f"{type} is not the event's name in the `{self._names.accent}` accent", family
            )
        self._snapshots.expect_started(type)
        if canonical in _ITEM_EVENTS:
            _ITEM_EVENTS[canonical](self._items, event)
        else:
            check, kind = _CONTENT_EVENTS[canonical]
            check(self._contents, event, kind)

    def _check_other(self, type: str, event: Event) -> None:
        if not self._names.allows_event(type):
            family = type.rpartition(".")[0] or type
            self._report("name.event", f"event type {type[:60]!r} is outside the specification", family)
        elif not self._names.allows_sub_event(type):
            family = type.rpartition(".")[0]
            self._report(
                "name.hosted-event", f"{type[:60]} is an event of a tool that the vendor runs", family
            )
        if is_tool_event(type):
            self._snapshots.expect_started(type)
            self._items.tool_event(event)

    # --- errors

    def _check_error(self, event: Event) -> None:
        self._error = event
        if self._tolerant:
            return
        nested = event.get("error")
        for fault in faults(nested, ERROR_PAYLOAD, "error"):
            self._report("terminal.error-payload", fault.message, fault.path)
        for name in _FLAT:
            if name not in event:
                if self._transport == "sse":
                    self._report("terminal.error-payload", f"`error` has no flat `{name}`", name)
            elif isinstance(nested, dict) and name in nested and not same(event[name], nested[name]):
                message = f"`error` has {name} {show(nested[name])}, but the flat copy is {show(event[name])}"
                self._report("terminal.error-differs", message, "")

    def _compare_codes(self, error: Event, failed: Event) -> None:
        """Compare the codes of `error` and of the `response.failed` after it; other rules check the types."""
        nested, response = error.get("error"), failed.get("response")
        first = nested.get("code", 0) if isinstance(nested, dict) else 0
        last = response.get("error") if isinstance(response, dict) else None
        code = last.get("code") if isinstance(last, dict) else None
        if isinstance(code, str) and code and first != code and (first is None or isinstance(first, str)):
            message = f"`error` has code {show(first)}, response.failed has {show(code)}"
            self._report("terminal.error-differs", message, "")

    def _check_envelope(self, event: Event) -> None:
        """Check `error` on a WebSocket: it is a whole turn, has no number, and nothing follows (spec N26)."""
        if self._is_late("error"):
            return
        if self._begun:
            self._report("transport.error-envelope", "an error envelope after response.created", "")
        elif event.get("status").__class__ is not int:
            self._report("transport.error-envelope", "the error envelope has no integer status", "")
        else:
            for fault in faults(event.get("error"), WEBSOCKET_ERROR, "error"):
                self._report("transport.error-envelope", fault.message, "")
        self._begun = True
        self._terminal = "error"


def _is_known(canonical: str) -> bool:
    output = canonical in _ITEM_EVENTS or canonical in _CONTENT_EVENTS
    return output or canonical in SNAPSHOTS or canonical == "error" or is_tool_event(canonical)


def _values(data: str) -> tuple[list[dict[str, Any]], str]:
    """Return the objects in the data of a frame, and what is wrong with it."""
    value = _decode(data)
    if isinstance(value, dict):
        return [value], ""
    if value is not None or data.strip() == "null":
        return [], "the data of the frame is JSON, but not an object"
    lines = [_decode(line) for line in data.splitlines() if line.strip()]
    values = [line for line in lines if isinstance(line, dict)]
    if len(values) == len(lines) > 1:
        return values, f"{len(values)} JSON objects in one frame"
    return [], "the data of the frame is not JSON"


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
