"""Every turn that has ended is explained by one record (ask M1)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import Verdict, conclude, shown
from penstock.protocol.errors import ResponseError
from penstock.protocol.response import Response
from tests.client.server import Script, answer, chunk, cut, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.clients import RawClient
from tests.gateway.running import PLANTED, SECRET_ANSWER, SECRET_KEY, SECRET_PROMPT, Running, gateway
from tests.gateway.upstream import (
    LAST_CHUNK,
    ScriptedUpstream,
    begun,
    frames,
    said,
    streamed,
    until_gone,
)

TEXT = chat_chunk({"content": SECRET_ANSWER})


# What upstreams say of failures may repeat everything that they were sent.
TELLING = {"error": {"message": f"key {SECRET_KEY} asked {SECRET_PROMPT} and got {SECRET_ANSWER}"}}


LENGTH = [TEXT, chat_chunk(finish="length")]


ENDS: dict[str, tuple[Script, str, str, str]] = {
    # a script, and what the verdict says of it: outcome, closer, code
    "completed": (streamed(*said(SECRET_ANSWER)), "completed", "upstream", ""),
    "length": (streamed(*LENGTH), "incomplete", "upstream", "max_output_tokens"),
    "refused": ([answer(400, TELLING)], "refused", "upstream", "invalid_request"),
    "wrong key": ([answer(401, TELLING)], "refused", "upstream", "upstream_unauthorized"),
    "server error": ([answer(500, TELLING)], "refused", "upstream", "server_error"),
    "error first": (streamed(TELLING), "refused", "upstream", "server_error"),
    "error later": (streamed(TEXT, TELLING), "failed", "upstream", "server_error"),
    "cut": ([*begun(TEXT), cut], "failed", "upstream", "upstream_truncated"),
    "closed": ([*begun(TEXT), send(LAST_CHUNK)], "failed", "upstream", "upstream_truncated"),
    "nothing": (streamed(done=False), "failed", "upstream", "upstream_empty"),
    "garbage": ([*begun(TEXT), send(chunk(frames(SECRET_ANSWER)))], "failed", "upstream", "upstream_invalid"),
    "hung up": ([cut], "refused", "upstream", "upstream_truncated"),
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("stream", [True, False])
def test_every_end_has_one_verdict(
    penstock: Running, upstream: ScriptedUpstream, name: str, stream: bool
) -> None:
    script, outcome, closer, code = ENDS[name]
    model = upstream.play(f"verdict {name} {stream}", script)
    reply = penstock.stream(model) if stream else penstock.whole(model)
    verdict = penstock.verdict(reply.headers["x-request-id"])
    if name == "nothing" and not stream:
        outcome = "refused"  # nothing had been sent yet, so it is an HTTP status
    assert (verdict["outcome"], verdict["closer"], verdict.get("code", "")) == (outcome, closer, code)
    assert verdict["model"] == verdict["upstream_model"] == model
    assert (verdict["target"], verdict["attempts"], verdict["status"]) == ("chat", 1, reply.status)
    assert verdict.get("terminal_sent", False) == (outcome != "refused")
    if outcome != "refused":
        assert verdict["last_event"] == f"response.{outcome}"
        assert verdict["response_id"] == reply_id(reply.last, reply.json if not stream else {})
        assert verdict["bytes_out"] >= len(reply.body)
    if stream and outcome != "refused":
        assert verdict["last_sequence"] == len(reply.events) - 1
    if code and outcome != "incomplete":
        assert verdict["request_id"] in (reply.last["error"] if reply.events else reply.error)["message"]
    text = str(verdict)
    assert not [secret for secret in PLANTED if secret in text]


def reply_id(last: dict[str, object], body: dict[str, object]) -> object:
    inside = body.get("response") if body else None
    return inside["id"] if isinstance(inside, dict) else last["id"]


def test_a_client_is_never_shown_the_key_of_an_upstream(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    for script in ([answer(400, TELLING)], streamed(TEXT, TELLING), streamed(TELLING)):
        model = upstream.play("tells the key", script)
        assert SECRET_KEY.encode() not in penstock.stream(model).body


def test_the_times_and_sizes_add_up(penstock: Running, upstream: ScriptedUpstream) -> None:
    model = upstream.play("adds up", streamed(*said(SECRET_ANSWER)))
    verdict = penstock.verdict(penstock.stream(model).headers["x-request-id"])
    assert 0 <= verdict["first_output_ms"] <= verdict["duration_ms"]
    assert verdict["bytes_in"] == len(frames(*said(SECRET_ANSWER)))
    assert (verdict["input_tokens"], verdict["cached_tokens"]) == (11, 5)
    assert (verdict["output_tokens"], verdict["reasoning_tokens"]) == (7, 3)
    assert "usage_estimated" not in verdict


@pytest.mark.e2e
def test_an_upstream_that_cannot_be_reached(tmp_path: Path) -> None:
    with gateway(
        tmp_path, config='passthrough = "gone"\n[targets.gone]\nbase_url = "http://127.0.0.1:1"\n'
    ) as running:
        reply = running.stream("any")
        assert (reply.status, reply.error["code"]) == (502, "upstream_unreachable")
        assert "connection refused" in reply.error["message"]
        verdict = running.verdict(reply.headers["x-request-id"])
        assert verdict["attempts"] == 3
        assert verdict["tried"] == ["gone: upstream_unreachable"] * 2


@pytest.mark.e2e
@pytest.mark.parametrize("stream", [True, False])
def test_a_refusal_of_the_gateway_is_not_attributed_to_the_upstream(penstock: Running, stream: bool) -> None:
    reply = penstock.ask({"model": "refused-by-render", "input": [], "stream": stream})
    verdict = penstock.verdict(reply.headers["x-request-id"])
    assert (reply.status, verdict["outcome"], verdict["closer"]) == (400, "refused", "gateway")
    assert "attempts" not in verdict


@pytest.mark.e2e
def test_the_silence_before_a_client_left_is_in_the_verdict(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    upstream.play("idle", [*begun(chat_chunk({"content": "a"})), until_gone(gone)])
    client = RawClient(penstock, "idle")
    client.read_until(b": waiting")  # two tenths of a second after the last byte
    client.leave()
    assert gone.wait(10)
    assert penstock.verdict(client.request_id)["idle_ms"] >= 150


# In this process


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-5", "gpt-5"),
        ("größe 水", "größe 水"),
        ("a\nforged\x1b[2J", "a?forged?[2J"),
        ("x" * 200, "x" * 128),
        ("", ""),
    ],
)
def test_a_name_that_a_client_chose_is_one_short_line(name: str, expected: str) -> None:
    assert shown(name) == expected


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"outcome": "completed", "closer": "upstream"}, "m at t: completed in 1.50 s [req_1]"),
        (
            {"outcome": "failed", "closer": "timeout", "code": "upstream_timeout", "attempts": 3},
            "m at t: failed by timeout (upstream_timeout) in 1.50 s, 3 attempts [req_1]",
        ),
        (
            {"outcome": "completed", "closer": "upstream", "input_tokens": 7, "output_tokens": 2},
            "m at t: completed in 1.50 s, 7 tokens in, 2 out [req_1]",
        ),
        (
            {"outcome": "refused", "closer": "gateway", "model": "", "target": "", "code": "x"},
            "no model: refused by gateway (x) in 1.50 s [req_1]",
        ),
    ],
)
def test_a_verdict_is_one_sentence(fields: dict[str, Any], sentence: str) -> None:
    given = {"model": "m", "target": "t", "duration_ms": 1500, **fields}
    assert Verdict(request_id="req_1", **given).sentence() == sentence


def test_what_is_known_already_is_not_replaced_by_the_response() -> None:
    """A client that disconnected closed the turn, whatever the response became."""
    failed = Response(
        id="r", model="m", status="failed", error=ResponseError(code="server_error", message="x")
    )
    fresh, known = (
        Verdict(request_id="a"),
        Verdict(request_id="b", outcome="cancelled", closer="client", code="client_gone"),
    )
    for verdict in (fresh, known):
        conclude(verdict, failed, Stopwatch(lambda: 0.0))
    assert (fresh.outcome, fresh.closer, fresh.code) == ("failed", "upstream", "server_error")
    assert (known.outcome, known.closer, known.code) == ("cancelled", "client", "client_gone")


def test_a_verdict_has_only_what_differs_from_the_default() -> None:
    assert Verdict(request_id="a", status=200).fields() == {"request_id": "a", "status": 200}
