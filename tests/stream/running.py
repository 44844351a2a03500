"""Runs the state machine in tests, and checks its events."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from penstock.errors import BridgeError
from penstock.protocol.content import UrlCitation
from penstock.protocol.events import Event
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import response_for
from penstock.protocol.tools import Tool, ToolChoice
from penstock.protocol.wire import encode, to_builtins
from penstock.sse import DONE, Decoder, encode_frame
from penstock.stream.accents import ACCENTS
from penstock.stream.checker import StreamChecker
from penstock.stream.checker.rules import Violation
from penstock.stream.deltas import Delta, FinishReason, ToolCallDelta
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.tools.identity import ToolIdentityMap

NOW = 1_700_000_000
CITATION = UrlCitation(url="https://example.com", title="Example", start_index=0, end_index=2)


def machine(
    tools: list[Tool] | None = None,
    tool_choice: ToolChoice = "auto",
    used_call_ids: Collection[str] = (),
    error_event: bool = True,
) -> ResponseStreamStateMachine:
    """Return a machine that has not started, for a request with these tools."""
    request = CreateResponse(model="demo", tools=tools or [], tool_choice=tool_choice)
    return ResponseStreamStateMachine(
        response_for(request, id="resp_1", created_at=NOW),
        clock=lambda: NOW + 1.5,
        tools=ToolIdentityMap(tools or [], tool_choice),
        used_call_ids=used_call_ids,
        error_event=error_event,
    )


def run(
    deltas: Iterable[Delta],
    tools: list[Tool] | None = None,
    tool_choice: ToolChoice = "auto",
    used_call_ids: Collection[str] = (),
) -> tuple[ResponseStreamStateMachine, list[dict[str, Any]]]:
    """Run a complete stream, as a pipeline does: start, deltas, finish; an incomplete call is a failure."""
    stream = machine(tools, tool_choice, used_call_ids)
    events = stream.start()
    for delta in deltas:
        events += stream.apply(delta)
    if stream.phase == "in_progress":
        events += finish(stream)
    assert_lawful(events)
    return stream, plain(events)


def call_in_pieces(name: str, arguments: str, size: int = 1, **fields: Any) -> list[Delta]:
    """Return the deltas of a call whose arguments arrive in pieces of `size` characters."""
    pieces = [arguments[start : start + size] for start in range(0, len(arguments), size)]
    first: Delta = ToolCallDelta(key=0, id="a", name=name, **fields)
    return [first, *(ToolCallDelta(key=0, arguments=piece) for piece in pieces)]


def finish(stream: ResponseStreamStateMachine) -> list[Event]:
    try:
        return stream.finish(stream.deferred_reason or FinishReason.STOP)
    except BridgeError as error:
        return stream.fail(error.code, error.message)


def end(stream: ResponseStreamStateMachine, how: str) -> list[Event]:
    """End a stream in one of the ways of `tests.stream.strategies.ENDINGS`."""
    if how == "fail":
        return stream.fail("server_error", "broken")
    if how == "cancel":
        return stream.cancel()
    if how == "cut off":
        try:
            return stream.finish()
        except BridgeError as error:
            return stream.fail(error.code, error.message)
    return finish(stream)


def plain(events: Iterable[Event]) -> list[dict[str, Any]]:
    return [to_builtins(event) for event in events]


def violations(events: Iterable[Event], accent: str, transport: str = "sse") -> list[Violation]:
    """Return what the strict checker reports about a complete stream, after encoding and decoding it."""
    checker = StreamChecker(accent=accent, transport=transport)
    convert = ACCENTS[accent]()
    if transport == "websocket":
        found = [v for event in events for v in checker.feed_frame(None, encode(convert(event)).decode())]
    else:
        frames = b"".join(encode_frame(event.type, encode(event)) for event in map(convert, events)) + DONE
        found = [v for frame in Decoder().feed(frames) for v in checker.feed_frame(frame.event, frame.data)]
    return found + checker.end()


def assert_lawful(events: list[Event]) -> None:
    for accent in ACCENTS:
        assert violations(events, accent) == []


def types(events: Iterable[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def of_type(events: Iterable[dict[str, Any]], *types: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"].removeprefix("response.") in types]


def calls(events: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return name, arguments or input, and status of each call in the terminal output."""
    return [
        (item["name"], item.get("arguments", item.get("input")), item["status"])
        for item in events[-1]["response"]["output"]
        if "name" in item
    ]


def codes(stream: ResponseStreamStateMachine) -> set[str]:
    return {diagnostic.code for diagnostic in stream.diagnostics}
