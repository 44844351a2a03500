"""`penstock explain`: a turn in sentences and a timeline, from what was kept of it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from penstock.explain.meanings import MEANINGS
from penstock.gateway.refusals import STATUSES
from penstock.gateway.turn.stop_reasons import CANCELLED, CLIENT_DISCONNECTED, CLIENT_STALLED, SHUTTING_DOWN
from penstock.store.contract import Trace
from penstock.store.sqlite.store import open_sqlite_store
from penstock.stream.recovery import RESTARTED
from tests.cli.kept import (
    ANSWER,
    BEGIN,
    PROMPT,
    SAID,
    WORDS,
    Turn,
    answer,
    failure,
    log,
    make_store,
    request,
    trace,
)
from tests.cli.running import Result, penstock

CREATED: dict[str, Any] = {"type": "response.created"}
IN_PROGRESS: dict[str, Any] = {"type": "response.in_progress"}
DELTA: dict[str, Any] = {"type": "response.output_text.delta", "delta": ANSWER}
MESSAGE = {"type": "message", "id": "msg_1", "content": []}
CALL = {"type": "function_call", "id": "fc_1", "name": "look_up", "arguments": ANSWER}
USAGE = {
    "input_tokens": 1_200,
    "output_tokens": 34,
    "input_tokens_details": {"cached_tokens": 1_000},
    "output_tokens_details": {"reasoning_tokens": 12},
}


def added(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "item": {**item, "status": "in_progress"}}


def done(item: dict[str, Any], status: str = "completed") -> dict[str, Any]:
    return {"type": "response.output_item.done", "item": {**item, "status": status}}


def explain(store: Path, *options: str, id: str = "resp_a") -> Result:
    return penstock("explain", id, "--store", str(store), *options)


def told(tmp_path: Path, turn: Turn) -> str:
    """What is said of a turn; nothing of it is what was said in the turn."""
    result = explain(make_store(tmp_path / "store.db", turn))
    assert result.returncode == 0, result.stderr
    assert [words for words in SAID if words in result.stdout] == []
    return result.stdout


def timeline(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.startswith("  ") and " s  " in line]


def whole(**changes: Any) -> Turn:
    """A turn in which one upstream refused and the next one answered."""
    values: dict[str, Any] = {
        "traces": [
            request(0.0, "first"),
            failure(0.2, "rate_limit_exceeded", 429),
            request(0.3, "second", "model-y"),
            answer(0.5),
            trace(0.6, "read", size=1_000),
            trace(1.8, "read", size=2_000),
            trace(1.9, "read", size=400),
            trace(2.6, "read"),
        ],
        "events": log(
            (0.5, CREATED),
            (0.5, IN_PROGRESS),
            (0.6, added(MESSAGE)),
            (0.6, DELTA),
            (1.8, DELTA),
            (1.85, done(MESSAGE)),
            (1.85, added(CALL)),
            (1.9, DELTA),
            (2.6, done(CALL)),
            (2.6, {"type": "response.completed"}),
        ),
        "response": {"usage": USAGE},
        "verdict": {
            "closer": "upstream",
            "client": "laptop",
            "duration_ms": 2_100,
            "first_output_ms": 650,
            "overhead_ms": 3.2,
        },
    }
    return Turn("resp_a", **{**values, **changes})


# Sentences


def test_a_turn_with_a_second_attempt_is_told_in_sentences(tmp_path: Path) -> None:
    text = told(tmp_path, whole(previous_id="resp_before"))
    sentences = text.splitlines()[2:9]
    assert text.startswith("resp_a  completed\n")
    assert sentences == [
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


def test_an_estimate_is_called_one_and_diagnostics_are_told(tmp_path: Path) -> None:
    diagnostics = [
        {"code": "usage_estimated", "message": "the figures are estimates", "count": 1},
        {"code": "field_dropped", "message": "seed was left out", "count": 3},
    ]
    text = told(tmp_path, whole(response={"usage": USAGE, "diagnostics": diagnostics}))
    assert "(12 for reasoning); estimated, because the upstream reported no usage." in text
    assert "Diagnostic field_dropped (3 times): seed was left out." in text


ENDS: dict[str, tuple[dict[str, Any], str]] = {
    "failed": (
        {"status": "failed", "verdict": {"closer": "timeout", "code": "upstream_timeout"}},
        (
            "Failed: the gateway timed out waiting for the upstream "
            "(upstream_timeout: the upstream sent nothing within the time limit)."
        ),
    ),
    "failed, as the response says": (
        {"status": "failed", "response": {"error": {"code": "server_error", "message": WORDS}}},
        "Failed: the upstream ended the response (server_error: the upstream had an internal error).",
    ),
    "incomplete": (
        {"status": "incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}},
        "Incomplete: the upstream ended the response (max_output_tokens: the model reached",
    ),
    "cancelled": (
        {"status": "cancelled", "verdict": {"closer": "client", "code": "cancelled"}},
        "Cancelled: a client ended the turn (cancelled: a client requested the cancellation).",
    ),
    "disconnected": (
        {"status": "cancelled", "verdict": {"closer": "client", "code": "client_gone"}},
        (
            "Cancelled: the client disconnected (client_gone: the client closed its connection).\n"
            "The client had disconnected; the output so far is stored."
        ),
    ),
    "unknown code": (
        {"status": "failed", "verdict": {"closer": "gateway", "code": "brand_new"}},
        "Failed: the gateway ended the response (brand_new).",
    ),
    "running": ({"status": "in_progress"}, "Not ended: the turn is still running, or its gateway crashed."),
}


@pytest.mark.parametrize("name", ENDS)
def test_every_end_says_how_and_by_whom(tmp_path: Path, name: str) -> None:
    changes, sentence = ENDS[name]
    text = told(tmp_path, whole(**{"verdict": None, **changes}))
    assert sentence in text
    assert ("The client had disconnected" in text) == (name == "disconnected")


async def _restart(path: Path) -> None:
    store = await open_sqlite_store(path, clock=lambda: BEGIN + 500)
    await store.aclose()


@pytest.mark.parametrize("is_background", [False, True], ids=["foreground", "background"])
def test_a_turn_that_a_restart_ended_says_so(tmp_path: Path, is_background: bool) -> None:
    events = log((0.0, CREATED), (0.0, IN_PROGRESS), (1.0, added(MESSAGE)), (3.0, DELTA))
    turn = Turn("resp_a", status="in_progress", events=events, is_background=is_background)
    path = make_store(tmp_path / "store.db", turn)
    asyncio.run(_restart(path))
    text = explain(path).stdout
    assert f"Failed: the gateway ended the response ({RESTARTED}: the gateway stopped or crashed" in text
    assert "First output after 1.00 s; last activity after 3.00 s." in text
    assert ("The client was disconnected" in text) != is_background
    assert timeline(text)[-1].startswith("500.000 s failed (last event")


def test_a_turn_without_traces_is_told_from_its_verdict(tmp_path: Path) -> None:
    verdict = {"target": "second", "upstream_model": "model-y", "upstream_status": 200, "tried": ["first: x"]}
    text = told(tmp_path, whole(traces=[], verdict=verdict))
    assert "The last upstream tried was second as model-y (HTTP 200).\nTried before: first: x." in text
    assert "The store has no trace of the traffic" in text


def test_an_upstream_that_never_answered(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"traces": [request(0.0, "first")], "events": log((0.1, CREATED))}
    assert "has not been answered yet" in told(tmp_path, whole(status="in_progress", **changes))


def test_dropped_events_are_told_and_shown_where_they_are_missing(tmp_path: Path) -> None:
    events = log((0.0, CREATED), (0.0, IN_PROGRESS), (1.0, {"type": "response.completed"}), numbers=[0, 1, 9])
    path = make_store(tmp_path / "store.db", whole(events=events, traces=[]))
    with sqlite3.connect(path) as file:
        file.execute("UPDATE responses SET dropped = 7")
    file.close()
    text = explain(path).stdout
    assert "7 events are missing from the log" in text
    assert "1.000 s 7 events missing from the log" in timeline(text)


def test_every_code_of_the_gateway_has_a_meaning() -> None:
    stops = {each.code for each in (CANCELLED, CLIENT_DISCONNECTED, CLIENT_STALLED, SHUTTING_DOWN)}
    assert {*STATUSES, *stops, RESTARTED} - {*MEANINGS} == set()


# The timeline


def test_the_timeline_has_both_sides_in_the_order_of_time(tmp_path: Path) -> None:
    assert timeline(told(tmp_path, whole())) == [
        "0.000 s request to first for model-x (chat, 1.2 kB)",
        "0.200 s failed: rate_limit_exceeded (HTTP 429)",
        "0.300 s request to second for model-y (chat, 1.2 kB)",
        "0.500 s answer 200, text/event-stream, request id up_1",
        "0.500 s created",
        "0.500 s in progress",
        "0.600 s 1 read, 1.0 kB",
        "0.600 s first output",
        "0.600 s opened message msg_1",
        "0.600 s 1 read, 2.0 kB, 2 events, longest silence 1.20 s",
        "1.850 s closed message msg_1 (completed)",
        "1.850 s opened function_call fc_1 calling look_up",
        "1.900 s 1 read, 400 bytes, 1 event",
        "2.600 s the upstream's answer ended after 700 ms of silence",
        "2.600 s closed function_call fc_1 calling look_up (completed)",
        "2.600 s completed (last event, number 9)",
    ]


def test_heartbeats_are_counted_together(tmp_path: Path) -> None:
    beats = [(float(second), IN_PROGRESS) for second in range(5, 20, 5)]
    end = (20.0, {"type": "response.failed"})
    events = log(
        (0.0, CREATED), (0.0, IN_PROGRESS), *beats, (19.0, {"type": "error", "code": "server_error"}), end
    )
    text = told(tmp_path, Turn("resp_a", status="failed", events=events))
    assert timeline(text) == [
        "0.000 s created",
        "0.000 s in progress",
        "5.000 s 3 heartbeats",
        "19.000 s error: server_error",
        "20.000 s failed (last event, number 6)",
    ]


def test_a_log_that_cannot_be_read_is_told_as_far_as_it_can(tmp_path: Path) -> None:
    odd = [Trace("request", BEGIN, b"{", 5), Trace("answer", BEGIN, b"[]"), Trace("plan", BEGIN, b"{}")]
    text = told(tmp_path, whole(traces=odd, events=log((0.0, {"type": 7})), response={"usage": "many"}))
    assert "event 0 cannot be read" in text
    assert "Token usage is unknown." in text


def test_characters_that_steer_a_terminal_are_written_out(tmp_path: Path) -> None:
    text = told(tmp_path, whole(events=log((0.0, added({**CALL, "name": "\x1b[2Jlook"})))))
    assert "\x1b" not in text
    assert "calling \\x1b[2Jlook" in text


# What was said, JSON, and ids that are not there


def test_content_is_shown_only_when_it_is_asked_for(tmp_path: Path) -> None:
    path = make_store(tmp_path / "store.db", whole())
    text = explain(path, "--content").stdout
    assert f"input\n  user: {PROMPT}\n" in text
    assert f"output\n  assistant: {ANSWER}\n" in text
    assert f"failures\n  {WORDS}\n" in text


def test_json_has_the_same_and_nothing_that_was_said(tmp_path: Path) -> None:
    path = make_store(tmp_path / "store.db", whole())
    result = explain(path, "--json")
    assert [words for words in SAID if words in result.stdout] == []
    found = json.loads(result.stdout)
    assert (found["id"], found["status"], found["verdict"]["closer"]) == ("resp_a", "completed", "upstream")
    assert found["attempts"][0] == {
        "target": "first",
        "model": "model-x",
        "status": 429,
        "code": "rate_limit_exceeded",
    }
    assert found["usage"]["input_tokens"] == 1_200
    assert found["timeline"][0] == {"at": 0.0, "what": "request to first for model-x (chat, 1.2 kB)"}
    assert "There were 2 attempts." in found["sentences"]
    assert json.loads(explain(path, "--json", "--content").stdout)["content"]["input"] == [f"user: {PROMPT}"]


def test_an_unknown_id_says_which_file_was_searched(tmp_path: Path) -> None:
    path = make_store(tmp_path / "store.db", whole())
    result = explain(path, id="resp_b")
    assert (result.returncode, result.stdout) == (1, "")
    assert f"{path} has no response resp_b." in result.stderr
    assert "--store" in result.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = explain(tmp_path / "none.db")
    assert result.returncode == 2
    assert "none.db: there is no such file" in result.stderr


def test_a_response_of_any_tenant_is_found(tmp_path: Path) -> None:
    assert "Completed normally." in told(tmp_path, whole(tenant="anna"))
