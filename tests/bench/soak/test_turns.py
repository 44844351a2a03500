"""What the soak reports about a turn: everything that is wrong, and nothing that a failure explains."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from bench.soak.turns import SeenTurn, StreamReader

from penstock import ResponseStreamStateMachine, encode, encode_frame
from penstock.protocol.response import Response
from penstock.sse import DONE
from penstock.stream.deltas import FinishReason

NOTHING: frozenset[str] = frozenset()


def turn(how: str = "text", **fields: Any) -> SeenTurn:
    made = SeenTurn(how, random=random.Random(1), words=2, gap_ms=0)
    made.status = 200
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def stream_of(text: str) -> list[bytes]:
    """Return the frames of a completed stream."""
    response = Response(id="resp_1", model="m", created_at=1)
    machine = ResponseStreamStateMachine(response, clock=lambda: 1.0)
    events = machine.start() + machine.text(text) + machine.finish(FinishReason.STOP)
    return [*(encode_frame(event.type, encode(event)) for event in events), DONE]


def read(seen: SeenTurn, data: list[bytes]) -> list[str]:
    reader = StreamReader(seen)
    for each in data:
        reader.feed(each)
    reader.end()
    return list(seen.problems(NOTHING))


def test_a_stream_with_what_was_asked_for_is_right() -> None:
    seen = turn()
    assert read(seen, stream_of(seen.directions.text)) == []
    assert (seen.id, seen.outcome, seen.ends) == ("resp_1", "completed", 1)


@pytest.mark.parametrize("lost", range(1, 8))
def test_an_event_that_is_lost_is_reported(lost: int) -> None:
    seen = turn()
    data = stream_of(seen.directions.text)
    assert read(seen, data[:lost] + data[lost + 1 :])


def test_an_event_that_comes_twice_is_reported() -> None:
    for place in range(7):
        seen = turn()
        data = stream_of(seen.directions.text)
        assert read(seen, data[: place + 1] + data[place:]), place


def test_another_text_is_reported() -> None:
    assert any("its text is wrong" in problem for problem in read(turn(), stream_of("something else")))


def test_a_call_that_is_delivered_twice_is_reported() -> None:
    seen = turn("call")
    call = {"type": "function_call", "arguments": json.dumps(seen.directions.arguments)}
    seen.take_json({"id": "resp_1", "status": "completed", "output": [call]})
    assert list(seen.problems(NOTHING)) == []
    seen.take_json({"id": "resp_1", "status": "completed", "output": [call, call]})
    assert list(seen.problems(NOTHING)) == ["2 calls"]
    seen.take_json({"id": "resp_1", "status": "completed", "output": [{**call, "arguments": "{}"}]})
    assert "arguments are wrong" in "".join(seen.problems(NOTHING))


def test_a_failure_needs_a_reason() -> None:
    seen = turn()
    seen.take_json({"id": "resp_1", "status": "failed", "output": [], "error": {"code": "server_error"}})
    assert "it has ended as failed" in "".join(seen.problems(NOTHING))
    assert list(seen.problems(frozenset(("upstream",)))) == []


def test_a_turn_may_not_complete_if_its_upstream_failed() -> None:
    seen = turn("reset")
    seen.take_json({"id": "resp_1", "status": "completed", "output": []})
    assert "although its upstream failed" in "".join(seen.problems(NOTHING))


def test_only_its_client_may_cancel_a_turn() -> None:
    body = {
        "id": "resp_1",
        "status": "incomplete",
        "incomplete_details": {"reason": "cancelled"},
        "output": [],
    }
    for may_be_stopped in (False, True):
        seen = turn(may_be_stopped=may_be_stopped)
        seen.take_json(body)
        assert bool(list(seen.problems(NOTHING))) is not may_be_stopped


def test_a_refusal_needs_a_reason_and_the_right_shape() -> None:
    error = {"message": "m", "type": "server_error", "param": None, "code": "store_unavailable"}
    seen = turn(status=503)
    seen.take_json({"error": error})
    assert "refused with 503" in "".join(seen.problems(NOTHING))
    assert list(seen.problems(frozenset(("store",)))) == []
    seen.take_json({"error": {"code": "store_unavailable"}})
    assert "wrong shape" in "".join(seen.problems(frozenset(("store",))))


def test_a_turn_without_an_end_is_reported_unless_its_client_has_left() -> None:
    seen = turn()
    assert list(seen.problems(NOTHING)) == ["it has no end"]
    seen.is_cut = True
    assert list(seen.problems(NOTHING)) == []
