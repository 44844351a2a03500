"""A real client: openai-python reads the machine's streams, over HTTP, with its own accumulator.

Its stream helper is the strictest reader in the field: it raises on an item that was not announced, on a
part that was not opened, on an id that changed (client 6).
"""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import OpenAI

from penstock.protocol.events import LifecycleEvent
from penstock.protocol.wire import encode
from penstock.sse import DONE, encode_frame
from penstock.stream.accents import ACCENTS
from penstock.stream.deltas import (
    AnnotationDelta,
    BlockKind,
    BlockStart,
    Delta,
    EventDelta,
    FinishDelta,
    FinishReason,
    ItemDelta,
    OpaqueReasoning,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
)
from tests.effort import examples
from tests.protocol.openai_models import models
from tests.stream import strategies
from tests.stream.running import CITATION, finish, machine

SCENARIOS: dict[str, list[Delta]] = {
    "text": [TextDelta("Hel"), TextDelta("lo"), UsageDelta(input_tokens=3, output_tokens=2)],
    "reasoning, then text": [
        SummaryDelta("short"),
        ReasoningDelta("long"),
        OpaqueReasoning("x"),
        TextDelta("hi"),
    ],
    "text, two calls, text": [
        TextDelta("a"),
        ToolCallDelta(key=0, id="c0", name="get", arguments='{"x":'),
        ToolCallDelta(key=1, id="c1", name="get_weather"),
        ToolCallDelta(key=0, arguments="1}"),
        TextDelta("b"),
    ],
    "interleaved blocks": [
        BlockStart(0, BlockKind.TEXT, phase="commentary"),
        TextDelta("a", block=0),
        TextDelta("b", block=1),
        TextDelta("c", block=0),
    ],
    "refusal": [RefusalDelta("I can"), RefusalDelta("not")],
    "citation": [TextDelta("see"), AnnotationDelta(CITATION)],
    "custom tool": [ToolCallDelta(key=0, id="c0", name="patch", arguments='{"input":"a\\nb"}')],
}


def body(deltas: list[Delta]) -> bytes:
    stream = machine(strategies.TOOLS)
    events = stream.start()
    for delta in deltas:
        events += stream.apply(delta)
    events += stream.heartbeat() + finish(stream)
    convert = ACCENTS["openai"]()
    return b"".join(encode_frame(event.type, encode(event)) for event in map(convert, events)) + DONE


class Endpoint(BaseHTTPRequestHandler):
    """Answers a request for the model NAME with the stream of that scenario."""

    def do_POST(self) -> None:
        request = self.rfile.read(int(self.headers["Content-Length"])).decode()
        name = next(name for name in SCENARIOS if f'"{name}"' in request)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(body(SCENARIOS[name]))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def client() -> Iterator[OpenAI]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    Thread(target=server.serve_forever, daemon=True).start()
    with OpenAI(
        base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none", max_retries=0
    ) as client:
        yield client
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", SCENARIOS)
def test_openai_pythons_stream_helper_reads_every_stream(client: OpenAI, name: str) -> None:
    stream = machine(strategies.TOOLS)
    stream.start()
    for delta in SCENARIOS[name]:
        stream.apply(delta)
    finish(stream)
    expected = stream.snapshot
    with client.responses.stream(model=name, input="go") as answer:
        types = [event.type for event in answer]
        final = answer.get_final_response()
    assert types[0] == "response.created"
    assert final.output_text == expected.output_text
    assert [item.type for item in final.output] == [item.type for item in expected.output]
    for field in ("id", "call_id", "arguments", "input"):
        received = [getattr(item, field, None) for item in final.output]
        assert received == [getattr(item, field, None) for item in expected.output]


NOT_OURS = (ItemDelta, EventDelta, AnnotationDelta)
"""A vendor's own items, events and annotations pass unchanged, so their shape may be anything."""


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(strategies.deltas, max_size=20))
def test_openais_models_accept_every_event_that_they_know(deltas: list[Delta]) -> None:
    stream = machine(strategies.TOOLS)
    events = stream.start()
    for delta in deltas:
        # The reason of a pause is not in the models; tests/protocol/test_openai_models.py tests such values.
        if not isinstance(delta, NOT_OURS) and delta != FinishDelta(FinishReason.PAUSE):
            events += stream.apply(delta)
    events += finish(stream)
    for event in map(ACCENTS["openai"](), events):
        failed = isinstance(event, LifecycleEvent) and event.response.error is not None
        if event.type in models() and not failed:
            models()[event.type].model_validate_json(encode(event))
