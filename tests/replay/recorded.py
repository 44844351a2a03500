"""Recordings of turns, written by hand: the traces of their attempts, and the events that they produce."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from penstock.dialects.plan import Target
from penstock.gateway.telemetry.traces import FailureTrace, PlanTrace, RequestTrace
from penstock.protocol.wire import encode
from penstock.replay.differences import Comparison, compare
from penstock.replay.recording import Recording, read_recording
from penstock.replay.runner import Replayed, replay
from penstock.store.records import LoggedEvent, Trace
from tests.dialects.chat_streams import chunk

BEGIN = 1_700_000_000.0
SENT_AT = 100.0
"""Seconds after `BEGIN` at which the events were sent, unless a test says otherwise."""
REQUEST = {"model": "m", "input": "hi", "stream": True}
ID = "resp_recorded"


def traced(kind: str, record: object, at: float = 0.0) -> Trace:
    return Trace(kind, BEGIN + at, msgspec.json.encode(record))


def attempt(
    *answer: Trace, request: dict[str, Any] | None = None, target: str = "first", dialect: str = "chat"
) -> list[Trace]:
    """Return the traces of one attempt: plan, request, and what followed."""
    plan = PlanTrace(
        request=Raw(json.dumps(request or REQUEST).encode()),
        target=Target(model="m", dialect=dialect),
        used_call_ids=[],
        accent="openresponses",
    )
    sent = RequestTrace(target=target, model="m", dialect=dialect, attempt=1, body=Raw(b"{}"))
    return [traced("plan", plan), traced("request", sent), *answer]


def answered(*reads: bytes, at: float = 1.0, is_ended: bool = True) -> list[Trace]:
    """Return an answer with status 200 and these reads, one second apart."""
    head = traced("answer", {"status": 200, "content_type": "text/event-stream"}, at)
    body = [Trace("read", BEGIN + at + n, data, len(data)) for n, data in enumerate(reads, start=1)]
    return [head, *body, *([Trace("read", BEGIN + at + len(reads), b"", 0)] if is_ended else [])]


def failed(kind: str = "NetworkError", at: float = 1.0, **fields: Any) -> Trace:
    values = {"code": "upstream_unreachable", "message": "the connection broke", **fields}
    return traced("failure", FailureTrace(kind=kind, **values), at)


def sse(*chunks: dict[str, Any]) -> bytes:
    return "".join(f"data: {json.dumps(each)}\n\n" for each in chunks).encode()


def text(*deltas: str) -> bytes:
    """Return the chunks of a Chat Completions stream with these deltas."""
    return sse(*(chunk({"content": delta}) for delta in deltas))


STOP = sse(chunk(finish="stop"), {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}) + (
    b"data: [DONE]\n\n"
)


def hello() -> list[Trace]:
    return attempt(*answered(text("Hel", "lo"), STOP))


def logged(events: Sequence[dict[str, Any]], at: float = SENT_AT) -> list[LoggedEvent]:
    return [LoggedEvent(n, BEGIN + at, msgspec.json.encode(event)) for n, event in enumerate(events)]


def with_events(
    traces: Sequence[Trace], events: Sequence[dict[str, Any]], at: float = SENT_AT, verdict: bytes = b""
) -> Recording:
    return read_recording(ID, logged(events, at), traces, verdict)


def recorded(traces: Sequence[Trace]) -> Recording:
    """Return the recording of a turn: these traces, with the events and requests that they lead to now."""
    first = replay(with_events(traces, [{"type": "response.completed", "response": {}}]))
    recording = with_events(traces, [json.loads(encode(event)) for event in first.events])
    for rendered, each in zip(first.rendered, recording.attempts, strict=False):
        each.body = json.loads(json.dumps(rendered.now))
    return recording


def compared(recording: Recording) -> tuple[Replayed, Comparison]:
    replayed = replay(recording)
    return replayed, compare(recording, replayed)


def types(replayed: Replayed) -> list[str]:
    return [event.type.removeprefix("response.") for event in replayed.events]
