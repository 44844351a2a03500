"""Turns that have ended, for tests of what is exported about them."""

from __future__ import annotations

from typing import Any

from penstock.gateway.telemetry.otel.attributes import EndedAttempt, EndedTurn, GenAiServer
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import Response

SERVER = GenAiServer("openai", "api.example", 443)


def verdict(**fields: Any) -> Verdict:
    given = {
        "request_id": "req_1",
        "response_id": "resp_1",
        "model": "m",
        "target": "one",
        "upstream_model": "m-1",
        "outcome": "completed",
        "closer": "upstream",
        "status": 200,
        "attempts": 1,
        "duration_ms": 1500,
        "first_output_ms": 200,
        "input_tokens": 10,
        "output_tokens": 5,
        "terminal_sent": True,
    }
    return Verdict(**{**given, **fields})


def turn(request: CreateResponse | None = None, response: Response | None = None, **fields: Any) -> EndedTurn:
    ended = verdict(**fields)
    return EndedTurn(
        verdict=ended,
        request=request or CreateResponse(model=ended.model),
        response=response or Response(id=ended.response_id, status="completed"),
        server=SERVER,
        user_agent="test/1",
        cost=0.25,
    )


def attempt(**fields: Any) -> EndedAttempt:
    given = {
        "number": 1,
        "target": "one",
        "model": "m-1",
        "span_id": b"12345678",
        "began": 0.5,
        "ended": 1.0,
        "result": "answered",
        "server": SERVER,
    }
    return EndedAttempt(**{**given, **fields})
