"""The sentences of `penstock explain`: attempts, outcome, timing, usage, diagnostics."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.explain.sentences import first_output, sentences
from penstock.stream.recovery import RESTARTED
from tests.explain.archives import (
    CREATED,
    DELTA,
    IN_PROGRESS,
    MESSAGE,
    USAGE,
    account_of,
    added,
    fallback_turn,
)
from tests.stored_turns import CONTENT, ERROR, Turn, answer, failure, log, request


def described(turn: Turn, dropped: int = 0) -> list[str]:
    """Return the sentences; none may quote the prompt, the answer or an upstream's message."""
    result = sentences(account_of(turn, dropped))
    assert [text for text in CONTENT if text in " ".join(result)] == []
    return result


def test_a_turn_with_a_fallback_is_described_from_request_to_usage() -> None:
    assert described(fallback_turn(previous_id="resp_before")) == [
        (
            "Model m was requested by client laptop at 2023-11-14 22:13:20 UTC, continuing resp_before, "
            "request id req_1."
        ),
        "There were 2 attempts.",
        (
            "The request to upstream first (chat) for model-x failed: HTTP 429, "
            "rate_limit_exceeded: too many requests or tokens in a short time."
        ),
        "The request to upstream second (chat) for model-y was answered with HTTP 200.",
        "Completed normally.",
        "First output after 650 ms; 2.10 s in total, of which 3 ms in the gateway.",
        "1,200 input tokens (1,000 cached), 34 output tokens (12 for reasoning).",
    ]


def test_a_background_turn_in_a_conversation_says_so() -> None:
    first = described(fallback_turn(is_background=True, conversation_id="conv_1"))[0]
    assert ", in the background, in conversation conv_1, request id req_1." in first


OUTCOMES: dict[str, tuple[dict[str, Any], str]] = {
    "timeout": (
        {"status": "failed", "verdict": {"closer": "timeout", "code": "upstream_timeout"}},
        (
            "Failed: the gateway timed out waiting for the upstream "
            "(upstream_timeout: the upstream sent nothing within the time limit)."
        ),
    ),
    "error of the response, without a verdict": (
        {"status": "failed", "response": {"error": {"code": "server_error", "message": ERROR}}},
        "Failed: the upstream ended the response (server_error: the upstream had an internal error).",
    ),
    "incomplete": (
        {"status": "incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}},
        (
            "Incomplete: the upstream ended the response "
            "(max_output_tokens: the model reached its output token limit)."
        ),
    ),
    "cancelled by request": (
        {"status": "cancelled", "verdict": {"closer": "client", "code": "cancelled"}},
        "Cancelled: a client ended the turn (cancelled: a client requested the cancellation).",
    ),
    "disconnected": (
        {"status": "cancelled", "verdict": {"closer": "client", "code": "client_gone"}},
        "Cancelled: the client disconnected (client_gone: the client closed its connection).",
    ),
    "unknown code": (
        {"status": "failed", "verdict": {"closer": "gateway", "code": "brand_new"}},
        "Failed: the gateway ended the response (brand_new).",
    ),
    "completed with a code": (
        {"status": "completed", "verdict": {"closer": "upstream", "code": "odd"}},
        "Completed: the upstream ended the response (odd).",
    ),
    "unknown closer": (
        {"status": "completed", "verdict": {"closer": "proxy"}},
        "Completed: proxy.",
    ),
    "running": (
        {"status": "in_progress"},
        (
            "Not ended: the turn is still running, or its gateway crashed. "
            "After a crash, the next gateway that opens the store ends it."
        ),
    ),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_outcome_names_who_ended_the_turn_and_why(name: str) -> None:
    changes, sentence = OUTCOMES[name]
    result = described(fallback_turn(**{"verdict": None, **changes}))
    assert sentence in result
    assert "Completed normally." not in result


@pytest.mark.parametrize(
    ("code", "is_background", "sentence"),
    [
        ("client_gone", False, "The client had disconnected; the output so far is stored."),
        ("client_stalled", False, "The client had disconnected; the output so far is stored."),
        (RESTARTED, False, "The client was disconnected; the items finished by then are stored."),
        (RESTARTED, True, "The items finished by then are stored."),
    ],
)
def test_a_lost_client_or_gateway_says_what_is_stored(code: str, is_background: bool, sentence: str) -> None:
    response = {"error": {"code": code, "message": ""}}
    turn = fallback_turn(status="failed", response=response, verdict=None, is_background=is_background)
    result = described(turn)
    assert [each for each in result if "stored" in each] == [sentence]


def test_a_restart_does_not_count_as_activity_of_the_turn() -> None:
    """The gateway that ends the turn later writes the last event; when the first one crashed is unknown."""
    events = log(
        (0.0, CREATED),
        (0.0, IN_PROGRESS),
        (1.0, added(MESSAGE)),
        (3.0, DELTA),
        (500.0, {"type": "response.failed"}),
    )
    response = {"error": {"code": RESTARTED, "message": ""}}
    result = described(Turn("resp_a", status="failed", events=events, response=response))
    assert "First output after 1.00 s; last activity after 3.00 s." in result


def test_without_traces_the_verdict_names_the_upstreams() -> None:
    verdict = {"target": "second", "upstream_model": "model-y", "upstream_status": 200, "tried": ["first: x"]}
    result = described(fallback_turn(traces=[], verdict=verdict))
    assert result[1:4] == [
        "The last upstream tried was second as model-y (HTTP 200).",
        "Tried before: first: x.",
        "The store has no trace of the traffic between the gateway and the upstream.",
    ]


@pytest.mark.parametrize(
    ("status", "traces", "sentence"),
    [
        ("in_progress", [request(0.0, "first")], "has not been answered yet."),
        ("failed", [request(0.0, "first")], "was never answered."),
        ("failed", [request(0.0, "first"), answer(0.1)], "was answered with HTTP 200."),
        ("failed", [request(0.0, "first"), failure(0.2, "tls_error")], "failed: tls_error: the TLS"),
        ("failed", [request(0.0, "first"), answer(0.1), request(0.2, "b")], "failed: HTTP 200, no code."),
    ],
    ids=["running", "unanswered", "answered", "failed before the answer", "failed without a code"],
)
def test_an_attempt_says_how_far_it_came(status: str, traces: list[Any], sentence: str) -> None:
    turn = fallback_turn(status=status, traces=traces, events=log((0.1, CREATED)), verdict=None)
    (attempt,) = [each for each in described(turn) if each.startswith("The request to upstream first")]
    assert sentence in attempt


def test_times_come_from_the_log_when_the_verdict_has_none() -> None:
    assert "First output after 600 ms; 2.60 s in total." in described(fallback_turn(verdict=None))
    silent = fallback_turn(verdict=None, traces=[], events=log((0.0, CREATED), (2.0, IN_PROGRESS)))
    assert "No output; 2.00 s in total." in described(silent)
    assert first_output(account_of(silent)) is None


@pytest.mark.parametrize(
    ("response", "sentence"),
    [
        ({"usage": USAGE}, "1,200 input tokens (1,000 cached), 34 output tokens (12 for reasoning)."),
        ({"usage": {"input_tokens": 1, "output_tokens": 2}}, "1 input token, 2 output tokens."),
        (
            {"usage": {}, "diagnostics": [{"code": "usage_estimated", "message": "x"}]},
            "0 input tokens, 0 output tokens; estimated, because the upstream reported no usage.",
        ),
        ({"usage": None}, "Token usage is unknown."),
        ({"usage": "many"}, "Token usage is unknown."),
    ],
)
def test_usage_is_counted_marked_as_estimate_or_unknown(response: dict[str, Any], sentence: str) -> None:
    assert sentence in described(fallback_turn(response=response))


def test_the_usage_of_a_running_turn_is_not_mentioned() -> None:
    result = described(fallback_turn(status="in_progress", response={"usage": None}))
    assert not any("Token usage" in each for each in result)


def test_diagnostics_are_listed_with_their_number() -> None:
    diagnostics = [
        {"code": "field_dropped", "message": "seed was left out.", "count": 3},
        {"code": "repaired", "message": "a name was completed"},
    ]
    result = described(fallback_turn(response={"usage": USAGE, "diagnostics": diagnostics}))
    assert result[-2:] == [
        "Diagnostic field_dropped (3 times): seed was left out.",
        "Diagnostic repaired: a name was completed.",
    ]


@pytest.mark.parametrize(("dropped", "start"), [(1, "1 event is"), (1_234, "1,234 events are")])
def test_dropped_events_are_reported(dropped: int, start: str) -> None:
    assert described(fallback_turn(), dropped)[-1].startswith(f"{start} missing from the log, because")
