"""One sentence about who ended a turn and why, and what the client received."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.explain.outcome import outcome_sentence
from penstock.store.ledger import TurnRecord
from tests.explain.archives import account_of, fallback_turn
from tests.stored_turns import CONTENT, Turn, answer, failure, request, trace

SENT = {"last_event": "response.failed", "terminal_sent": True, "status": 200, "stream": True}
RECEIVED = " The client received `response.failed`."
CUT = [request(0.0, "up"), answer(0.1), trace(0.2, "read", size=10)]
ENDED = [*CUT, trace(0.25, "read")]

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "completed": (
        {},
        {
            "closer": "upstream",
            "duration_ms": 2100,
            "last_event": "response.completed",
            "terminal_sent": True,
            "stream": True,
        },
        "The upstream second completed the response after 2.10 s. The client received `response.completed`.",
    ),
    "running": ({"status": "in_progress"}, {}, "The turn is still running."),
    "cut": (
        {"status": "failed", "traces": CUT},
        {"closer": "upstream", "code": "upstream_truncated", "idle_ms": 1200, **SENT},
        f"The upstream up closed the connection without a finish reason after 1.20 s of silence.{RECEIVED}",
    ),
    "ended too early": (
        {"status": "failed", "traces": ENDED},
        {"closer": "upstream", "code": "upstream_truncated", "idle_ms": 10, **SENT},
        f"The upstream up ended its answer without a finish reason.{RECEIVED}",
    ),
    "ended after a silence, which the gateway notices later": (
        {"status": "failed", "traces": [*CUT, trace(1.2, "read"), failure(1.4, "upstream_truncated")]},
        {"closer": "upstream", "code": "upstream_truncated", "idle_ms": 1210, **SENT},
        f"The upstream up ended its answer without a finish reason after 1.00 s of silence.{RECEIVED}",
    ),
    "silent": (
        {"status": "failed", "traces": CUT},
        {"closer": "timeout", "code": "upstream_timeout", "idle_ms": 60_000, **SENT},
        f"The upstream up sent nothing for 1 min 0 s, and the gateway stopped waiting.{RECEIVED}",
    ),
    "unreachable": (
        {"status": "failed", "traces": [request(0.0, "up"), failure(0.1, "upstream_unreachable")]},
        {"closer": "upstream", "code": "upstream_unreachable", "status": 502},
        "The gateway could not connect to the upstream up. The client received HTTP 502.",
    ),
    "refused by the upstream": (
        {"status": "failed", "traces": [request(0.0, "up"), failure(0.1, "rate_limit_exceeded", 429)]},
        {"closer": "upstream", "code": "rate_limit_exceeded", "status": 429},
        (
            "The upstream up answered with HTTP 429 (rate_limit_exceeded: too many requests or tokens in a "
            "short time). The client received HTTP 429."
        ),
    ),
    "error in the stream": (
        {"status": "failed", "traces": CUT},
        {"closer": "upstream", "code": "server_error", **SENT},
        f"The upstream up failed (server_error: the upstream had an internal error).{RECEIVED}",
    ),
    "error after output": (
        {"status": "failed", "traces": CUT},
        {"closer": "upstream", "code": "server_error", "first_output_ms": 5, **SENT},
        (
            "The upstream up failed in the middle of its answer (server_error: the upstream had an internal "
            f"error).{RECEIVED}"
        ),
    ),
    "own fault": (
        {"status": "failed", "traces": CUT},
        {"closer": "gateway", "code": "internal_error", **SENT},
        (
            "The gateway ended the turn (internal_error: the gateway had an internal error; see its log)."
            f"{RECEIVED}"
        ),
    ),
    "refused by the gateway": (
        {"status": "refused", "traces": []},
        {"closer": "gateway", "code": "budget_exceeded", "status": 429},
        (
            "The gateway refused the request (budget_exceeded: the budget of the client's key is used up). "
            "The client received HTTP 429."
        ),
    ),
    "disconnected": (
        {"status": "cancelled", "traces": CUT},
        {"closer": "client", "code": "client_gone", "duration_ms": 900, "last_event": "response.created"},
        "The client closed its connection after 900 ms. The last event before that was `response.created`.",
    ),
    "cancelled": (
        {"status": "cancelled", "traces": CUT},
        {
            "closer": "gateway",
            "code": "cancelled",
            "last_event": "response.incomplete",
            "terminal_sent": True,
            "stream": True,
        },
        "A client requested the cancellation. The client received `response.incomplete`.",
    ),
    "disconnected before the last event": (
        {"status": "incomplete", "traces": CUT},
        {"closer": "client", "code": "client_gone", "duration_ms": 900, "last_event": "response.incomplete"},
        "The client closed its connection after 900 ms.",
    ),
    "failed without a stream": (
        {"status": "failed", "traces": CUT},
        {"closer": "upstream", "code": "server_error", **SENT, "status": 500, "stream": False},
        (
            "The upstream up failed (server_error: the upstream had an internal error). "
            "The client received HTTP 500."
        ),
    ),
    "completed without a stream": (
        {"traces": CUT},
        {"closer": "upstream", "last_event": "response.completed", "terminal_sent": True, "status": 200},
        "The upstream up completed the response. The client received the response as JSON.",
    ),
    "in the background": (
        {"traces": CUT, "is_background": True},
        {"closer": "upstream", "last_event": "response.completed", "terminal_sent": True, "status": 200},
        "The upstream up completed the response. The turn ran in the background.",
    ),
    "after several attempts": (
        {"status": "failed", "traces": []},
        {"closer": "upstream", "code": "server_error", "target": "up", "attempts": 3},
        (
            "The upstream up failed (server_error: the upstream had an internal error). "
            "That was the last of 3 attempts."
        ),
    ),
    "too long": (
        {"status": "incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}},
        {"closer": "upstream"},
        "The response is incomplete: max_output_tokens: the model reached its output token limit.",
    ),
    "nothing known": (
        {"status": "failed", "traces": []},
        {},
        "The upstream failed (no error code is known).",
    ),
}


@pytest.mark.parametrize(("changes", "verdict", "expected"), CASES.values(), ids=CASES)
def test_the_sentence_says_who_ended_the_turn_and_why(
    changes: dict[str, Any], verdict: dict[str, Any], expected: str
) -> None:
    turn: Turn = fallback_turn(**{"verdict": verdict, **changes})
    sentence = outcome_sentence(account_of(turn))
    assert sentence == expected
    assert [text for text in CONTENT if text in sentence] == []


def test_the_record_says_what_the_client_received_because_the_verdict_is_stored_before() -> None:
    record = TurnRecord(
        id="resp_a",
        tenant="",
        started_at=0,
        ended_at=1,
        last_event="response.failed",
        terminal_sent=True,
        stream=True,
    )
    turn = fallback_turn(status="failed", traces=CUT, verdict={"code": "upstream_truncated"})
    account = replace(account_of(turn), record=record)
    assert outcome_sentence(account).endswith(RECEIVED)
