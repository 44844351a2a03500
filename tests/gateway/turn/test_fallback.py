"""If a target fails before the first output, the next one answers: ask E7, over HTTP."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.client.server import Script, answer, cut
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.reply_assertions import codes, failed, statuses
from tests.gateway.running import SECRET_KEY, Running, gateway
from tests.gateway.scripts import (
    TOOLS,
    body,
    call,
    calls,
    message_end,
    message_start,
    text,
    text_block,
    typed,
)
from tests.gateway.upstream import (
    USAGE,
    ScriptedUpstream,
    begun,
    said,
    streamed,
    until,
)

CHAIN, FIRST, SECOND = "over-chain", "chain-first", "chain-second"
"""The model of the shared gateway that two targets have, and what each of them calls it."""


SAYS_YES = body(typed([message_start(), *text_block(0, "Yes."), *message_end()]))


ROLE = chat_chunk({"role": "assistant", "content": ""})


# ask E7

BEFORE_OUTPUT: dict[str, tuple[Script, str]] = {
    "a server error": ([answer(500, {"error": {"message": "broken"}})], "server_error"),
    "overload": ([answer(503)], "server_is_overloaded"),
    "a rate limit": ([answer(429, retry_after="60")], "rate_limit_exceeded"),
    "a spent quota": (
        [answer(429, {"error": {"code": "insufficient_quota", "message": "pay"}})],
        "insufficient_quota",
    ),
    "a wrong key": ([answer(401, {"error": {"message": "who?"}})], "upstream_unauthorized"),
    "no such model": ([answer(404, {"error": {"message": "no such model"}})], "model_not_found"),
    "no such address": ([answer(404, b"404 page not found", "text/plain")], "upstream_not_found"),
    "a method that is not allowed": ([answer(405, {"detail": "Method Not Allowed"})], "upstream_not_found"),
    "a redirect": ([answer(302, location="/login")], "upstream_invalid"),
    "a web page": ([answer(200, b"<html><title>Hi</title>", "text/html")], "upstream_invalid"),
    "text": ([answer(200, b"OK", "text/plain")], "upstream_invalid"),
    "an empty body": ([answer(200, b"", "")], "upstream_invalid"),
    "JSON that is not an answer": ([answer(200, {"status": "ok"})], "upstream_invalid"),
    "a reset": ([cut], "upstream_truncated"),
    "nothing": (streamed(done=False), "upstream_empty"),
    "an error in the first frame": (streamed({"error": {"message": "broken"}}), "server_error"),
    "an error after the role": (streamed(ROLE, {"error": {"message": "broken"}}), "server_error"),
    "no JSON": (streamed("nonsense"), "upstream_invalid"),
    "an end after the role": (streamed(ROLE, done=False), "upstream_truncated"),
    "a reset after the role": ([*begun(ROLE), cut], "upstream_truncated"),
    "a reset after a message that was not sent yet": (
        [*begun({"choices": [{"index": 0, "message": {"content": "No."}}]}), cut],
        "upstream_truncated",
    ),
    "a reset after the usage": ([*begun(ROLE, USAGE), cut], "upstream_truncated"),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("how", BEFORE_OUTPUT)
def test_a_failure_before_the_first_output_is_answered_by_the_next_target(
    penstock: Running, upstream: ScriptedUpstream, how: str, stream: bool
) -> None:
    script, code = BEFORE_OUTPUT[how]
    upstream.play(FIRST, script)
    upstream.play(SECOND, SAYS_YES)
    asked = len(upstream.asked_for(FIRST)), len(upstream.asked_for(SECOND))
    reply = (penstock.stream if stream else penstock.whole)(CHAIN)
    assert (reply.status, reply.last["status"], reply.text) == (200, "completed", "Yes.")
    if stream:
        assert reply.types.count("response.created") == 1
        assert reply.types.count("response.in_progress") == 1
    assert (len(upstream.asked_for(FIRST)), len(upstream.asked_for(SECOND))) == (asked[0] + 1, asked[1] + 1)
    assert reply.last["usage"]["total_tokens"] == 18  # of the answer, and of nothing that was tried before
    assert codes(reply.last) == ["fell_back"]
    assert f"first: {code}" in reply.last["diagnostics"][0]["message"]
    verdict = penstock.verdict(reply.headers["x-request-id"])
    assert (verdict["attempts"], verdict["tried"]) == (2, [f"first: {code}"])
    assert (verdict["target"], verdict["upstream_model"]) == ("second", SECOND)


@pytest.mark.parametrize(("first", "header"), [(404, "false"), (500, None)])
def test_a_client_should_retry_unless_no_target_may_recover(
    penstock: Running, upstream: ScriptedUpstream, first: int, header: str | None
) -> None:
    upstream.play(FIRST, [answer(first, b"page not found", "text/plain")])
    upstream.play(SECOND, [answer(404, b"page not found", "text/plain")])
    reply = penstock.stream(CHAIN)
    assert (reply.status, reply.error["code"]) == (502, "upstream_not_found")
    assert reply.headers.get("x-should-retry") == header


def test_a_stream_that_has_begun_continues_at_the_next_target(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """`created` is not output: after the patience, the client still gets one stream."""
    released = Event()
    upstream.play(FIRST, [until(released), cut])
    upstream.play(SECOND, SAYS_YES)
    with penstock.live(CHAIN) as live:
        live.until(b"event: response.in_progress")
        released.set()
        reply = live.rest()
    assert reply.types.count("response.created") == 1
    assert reply.types[-1] == "response.completed"
    assert reply.text == "Yes."
    assert codes(reply.last) == ["fell_back"]


AFTER_OUTPUT: dict[str, list[Any]] = {
    "text": text("One"),
    "reasoning": [chat_chunk({"reasoning_content": "Hm"})],
    "a call": [calls(call(0, "a", "read", '{"x":1}'))],
    "half a call": [calls(call(0, "a", "read", '{"x"'))],
    "a refusal": [chat_chunk({"refusal": "No"})],
}


@pytest.mark.parametrize("what", AFTER_OUTPUT)
def test_after_the_first_output_no_other_target_is_asked(
    penstock: Running, upstream: ScriptedUpstream, what: str
) -> None:
    upstream.play(FIRST, [*begun(*AFTER_OUTPUT[what]), cut])
    upstream.play(SECOND, SAYS_YES)
    asked = len(upstream.asked_for(FIRST)), len(upstream.asked_for(SECOND))
    reply = penstock.stream(CHAIN, tools=TOOLS)
    failed(reply, "upstream_truncated")
    assert set(statuses(reply)) == {"incomplete"}
    assert (len(upstream.asked_for(FIRST)), len(upstream.asked_for(SECOND))) == (asked[0] + 1, asked[1])


FINAL: dict[str, tuple[Script, int, str]] = {
    "a wrong request": ([answer(400, {"error": {"message": "bad"}})], 400, "invalid_request"),
    "an overflow": (
        [answer(400, {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}})],
        400,
        "context_length_exceeded",
    ),
    "a filtered prompt": (
        [answer(400, {"error": {"code": "content_filter", "message": "flagged"}})],
        400,
        "content_filter",
    ),
}


@pytest.mark.parametrize("how", FINAL)
def test_a_request_that_would_fail_everywhere_is_not_retried_elsewhere(
    penstock: Running, upstream: ScriptedUpstream, how: str
) -> None:
    script, status, code = FINAL[how]
    upstream.play(FIRST, script)
    asked = len(upstream.asked_for(SECOND))
    reply = penstock.stream(CHAIN)
    assert (reply.status, reply.error["code"]) == (status, code)
    assert len(upstream.asked_for(SECOND)) == asked


def test_when_all_have_failed_the_last_failure_is_reported(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play(FIRST, [answer(500, {"error": {"message": "the first is broken"}})])
    upstream.play(SECOND, [answer(529, {"error": {"message": "the second is full"}}, retry_after="3")])
    reply = penstock.stream(CHAIN)
    assert (reply.status, reply.error["code"]) == (503, "server_is_overloaded")
    assert "the second is full" in reply.error["message"]
    assert reply.headers["retry-after"] == "3"


@pytest.mark.e2e
def test_a_fallback_to_another_model_or_past_a_resting_key_is_reported(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    """Ask E6, also where no attempt of this turn failed."""
    upstream.play("bad", [answer(500, {"error": {"message": "no"}})])
    upstream.play("limited", [answer(429, {"error": {"message": "slow down"}}, retry_after="60")])
    upstream.play("good", streamed(*said("ok")))
    config = f"""
[limits]
retries = 0
[targets.one]
base_url = "{upstream.url}/v1"
keys = ["UPSTREAM_KEY"]
[targets.two]
base_url = "{upstream.url}/v1"
[models.same-target]
targets = ["two/bad", "two/good"]
[models.resting]
targets = ["one/limited", "two/good"]
"""
    with gateway(tmp_path, config=config, environment={"UPSTREAM_KEY": SECRET_KEY}) as running:
        for model in ("same-target", "resting", "resting"):
            reply = running.stream(model)
            assert reply.text == "ok"
            [fallen] = [each for each in reply.last["diagnostics"] if each["code"] == "fell_back"]
            assert "fell back to good at two" in fallen["message"]
        assert "keys of one are resting" in fallen["message"]
        assert len(upstream.asked_for("limited")) == 1
