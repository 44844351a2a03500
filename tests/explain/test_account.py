"""The account of a turn: attempts, times and codes, whatever the store has."""

from __future__ import annotations

import pytest

from penstock.explain.account import TurnSnapshot, TurnUsage, attempts_of, read_account, read_json
from penstock.gateway.turn.verdict import Verdict
from penstock.store.records import Trace
from penstock.stream.recovery import RESTARTED
from tests.explain.archives import COMPLETED, CREATED, account_of, archive_of, fallback_turn
from tests.stored_turns import BEGIN, ERROR, Turn, answer, failure, log, request, trace


def test_an_unknown_id_has_no_account() -> None:
    assert read_account(archive_of(fallback_turn()), "resp_b") is None


def test_attempts_begin_with_their_request() -> None:
    stray = [answer(0.0, 500), failure(0.0, "server_error")]
    first, second = attempts_of([*stray, *fallback_turn().traces])
    assert (first.target, first.model, first.dialect) == ("first", "model-x", "chat")
    assert (first.status, first.code, first.message) == (429, "rate_limit_exceeded", ERROR)
    assert (second.target, second.status, second.code) == ("second", 200, "")


def test_a_failure_without_a_status_keeps_that_of_the_answer() -> None:
    (attempt,) = attempts_of([request(0.0, "first"), answer(0.1, 200), failure(0.2, "upstream_truncated")])
    assert (attempt.status, attempt.code) == (200, "upstream_truncated")


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"target": 5}'])
def test_a_damaged_request_is_still_an_attempt(data: bytes) -> None:
    (attempt,) = attempts_of([Trace("request", BEGIN, data)])
    assert (attempt.target, attempt.model) == ("", "")


def test_a_turn_begins_and_ends_with_its_first_and_last_record() -> None:
    account = account_of(fallback_turn(traces=[request(0.25, "first"), trace(3.5, "read")]))
    assert (account.begin - BEGIN, account.last_activity - BEGIN) == (0.25, 3.5)
    empty = account_of(Turn("resp_a"))
    assert (empty.begin, empty.last_activity) == (BEGIN, BEGIN)


def test_the_event_that_a_restart_added_is_no_activity() -> None:
    response = {"error": {"code": RESTARTED, "message": "m"}}
    events = log((0.0, CREATED), (500.0, {"type": "response.failed"}))
    account = account_of(Turn("resp_a", status="failed", events=events, response=response))
    assert account.last_activity == BEGIN


@pytest.mark.parametrize(
    ("verdict", "error", "code"),
    [
        ({"code": "cancelled"}, {"code": "server_error"}, "cancelled"),
        ({}, {"code": "server_error"}, "server_error"),
        (None, {"code": None}, ""),
        (None, None, ""),
    ],
)
def test_the_code_of_the_verdict_takes_precedence(
    verdict: dict[str, str] | None, error: dict[str, str | None] | None, code: str
) -> None:
    assert account_of(fallback_turn(verdict=verdict, response={"error": error})).code == code


@pytest.mark.parametrize(
    ("status", "is_running"), [("queued", True), ("in_progress", True), ("failed", False)]
)
def test_a_turn_runs_until_it_is_closed(status: str, is_running: bool) -> None:
    assert account_of(Turn("resp_a", status=status)).is_running is is_running


def test_unreadable_records_become_empty_ones() -> None:
    account = account_of(Turn("resp_a", response={"usage": "many"}, events=log((0.0, COMPLETED))))
    assert account.snapshot == TurnSnapshot()
    assert account.verdict == Verdict(request_id="")
    assert read_json(b'{"input_tokens": 5, "new": 1}', TurnUsage) == TurnUsage(input_tokens=5)
    assert [read_json(data, TurnUsage) for data in (b"", b"{", b"[]", b'{"input_tokens": "5"}')] == [None] * 4
