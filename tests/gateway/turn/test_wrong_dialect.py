"""A target that answers in another API format than its `dialect`, over HTTP: decision 30."""

from __future__ import annotations

import json
from threading import Event
from typing import Any

import pytest

from penstock.dialects.recognition import FORMATS
from penstock.dialects.registry import RENDERED
from tests.client.server import Script
from tests.dialects.format_samples import AWS_EVENT, BODIES, STREAMS, sse
from tests.gateway.reply_assertions import codes
from tests.gateway.running import SECRET_KEY, Running
from tests.gateway.scripts import ANTHROPIC, RESPONSES, body, message_end, message_start, text_block, typed
from tests.gateway.upstream import ScriptedUpstream, begun, until_gone

MODELS = {"chat": "wrong-dialect", "anthropic": ANTHROPIC, "responses": RESPONSES}
"""A model of each target of the shared gateway, by the target's dialect, which is also its name."""

CASES = [(dialect, own) for dialect in MODELS for own in STREAMS if own != dialect]


def expected(dialect: str, own: str) -> str:
    looks = f"the answer looks like {FORMATS[own].title}, but it was read as {FORMATS[dialect].title}: "
    if own in RENDERED:
        return looks + f'set the dialect of the target "{dialect}" to "{own}"'
    return looks + f'the target "{dialect}" cannot use this format'


@pytest.mark.parametrize(("dialect", "own"), CASES)
def test_a_streamed_answer_in_another_dialect_fails_and_names_the_target_and_the_setting(
    penstock: Running, upstream: ScriptedUpstream, dialect: str, own: str
) -> None:
    model = MODELS[dialect]
    upstream.play(model, body(sse(own, done=True)))
    reply = penstock.stream(model)
    error = reply.last["error"] if reply.status == 200 else reply.error
    assert error["code"] == "upstream_invalid"
    assert error["message"].startswith(expected(dialect, own))
    assert "response.completed" not in reply.types
    whole = penstock.whole(model)
    assert (whole.status, whole.error["code"]) == (502, "upstream_invalid")
    assert whole.error["message"].startswith(expected(dialect, own))
    verdict = penstock.verdict(whole.headers["x-request-id"])
    assert (verdict["target"], verdict["code"]) == (dialect, "upstream_invalid")


WHOLE_CASES = [case for case in CASES if case[1] in BODIES and case != ("anthropic", "ai_sdk")]
"""The content blocks of those two are the same."""


@pytest.mark.parametrize(("dialect", "own"), WHOLE_CASES)
def test_a_whole_answer_in_another_dialect_fails_too(
    penstock: Running, upstream: ScriptedUpstream, dialect: str, own: str
) -> None:
    model = MODELS[dialect]
    upstream.play(model, body(json.dumps(BODIES[own][0]).encode(), "application/json"))
    for reply in (penstock.stream(model), penstock.whole(model)):
        assert (reply.status, reply.error["code"]) == (502, "upstream_invalid")
        assert reply.error["message"].startswith(expected(dialect, own))


def test_a_binary_event_stream_is_named(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play(ANTHROPIC, body(AWS_EVENT * 3, "application/vnd.amazon.eventstream"))
    message = penstock.whole(ANTHROPIC).error["message"]
    assert message.startswith(expected("anthropic", "aws_event_stream"))


def test_a_client_does_not_wait_for_the_end_of_a_foreign_answer(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """The upstream goes on until the gateway disconnects."""
    gone = Event()
    first: dict[str, Any] = STREAMS["gemini"][0]
    upstream.play("foreign-endless", [*begun(*[first] * 8), until_gone(gone)])
    reply = penstock.stream("foreign-endless")
    assert "looks like Gemini" in reply.last["error"]["message"]
    assert gone.wait(20)


SAYS_YES: Script = body(typed([message_start(), *text_block(0, "Yes."), *message_end()]))


def test_the_next_target_answers_instead_of_one_in_another_dialect(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play("chain-first", body(sse("gemini")))
    upstream.play("chain-second", SAYS_YES)
    before = len(upstream.asked_for("chain-first"))
    reply = penstock.stream("over-chain")
    assert (reply.types[-1], reply.text) == ("response.completed", "Yes.")
    assert "fell_back" in codes(reply.last)
    assert len(upstream.asked_for("chain-first")) == before + 1


def test_a_key_in_an_unreadable_answer_is_masked(penstock: Running, upstream: ScriptedUpstream) -> None:
    page = b"<html>" + b"x" * 140 + SECRET_KEY.encode() + b"</html>"
    upstream.play("page-with-key", body(page, "text/event-stream"))
    message = penstock.whole("page-with-key").error["message"]
    assert "could be read" in message
    assert SECRET_KEY[:6] not in message
