"""How a turn ended and what it used: ask D1, ask D2, ask D4 and ask E3, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.server import Script, cut
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.reply_assertions import codes, failed, statuses
from tests.gateway.running import Running
from tests.gateway.scripts import (
    ANTHROPIC,
    RESPONSES,
    STOP,
    body,
    message_end,
    message_start,
    rich_responses,
    text,
    text_block,
    typed,
)
from tests.gateway.upstream import USAGE, ScriptedUpstream, begun, streamed

Json = dict[str, Any]

WORDS = [f"word{number} " for number in range(30)]
LEAST = 30
"""Tokens that these words are at least, however they are counted."""


# ask E3

FINISHES: dict[tuple[str, str], tuple[str, str | None]] = {
    # Dialect and finish reason: the status of the response, and why it is incomplete.
    ("chat", "stop"): ("completed", None),
    ("chat", "eos"): ("completed", None),
    ("chat", "end_turn"): ("completed", None),
    ("chat", "tool_calls"): ("completed", None),
    ("chat", "function_call"): ("completed", None),
    ("chat", "length"): ("incomplete", "max_output_tokens"),
    ("chat", "max_tokens"): ("incomplete", "max_output_tokens"),
    ("chat", "MAX_TOKENS"): ("incomplete", "max_output_tokens"),
    ("chat", "model_length"): ("incomplete", "max_output_tokens"),
    ("chat", "content_filter"): ("incomplete", "content_filter"),
    ("chat", "SAFETY"): ("incomplete", "content_filter"),
    ("chat", "sensitive"): ("incomplete", "content_filter"),
    ("chat", "refusal"): ("incomplete", "content_filter"),
    ("chat", "a word of tomorrow"): ("completed", None),
    ("chat", "error"): ("failed", "server_error"),
    ("chat", "MALFORMED_FUNCTION_CALL"): ("failed", "server_error"),
    ("chat", "insufficient_system_resource"): ("failed", "server_is_overloaded"),
    (ANTHROPIC, "end_turn"): ("completed", None),
    (ANTHROPIC, "stop_sequence"): ("completed", None),
    (ANTHROPIC, "tool_use"): ("completed", None),
    (ANTHROPIC, "max_tokens"): ("incomplete", "max_output_tokens"),
    (ANTHROPIC, "model_context_window_exceeded"): ("incomplete", "max_output_tokens"),
    (ANTHROPIC, "refusal"): ("incomplete", "content_filter"),
    (ANTHROPIC, "pause_turn"): ("incomplete", "pause_turn"),
    (ANTHROPIC, "a word of tomorrow"): ("completed", None),
}


def finished(model: str, reason: str) -> Script:
    if model == ANTHROPIC:
        return body(typed([message_start(), *text_block(0, *WORDS), *message_end(reason)]))
    return streamed(*text(*WORDS), chat_chunk(finish=reason), USAGE)


@pytest.mark.parametrize(("model", "reason"), FINISHES)
def test_a_finish_reason_becomes_a_status(
    penstock: Running, upstream: ScriptedUpstream, model: str, reason: str
) -> None:
    status, why = FINISHES[model, reason]
    upstream.play(model, finished(model, reason))
    reply = penstock.stream(model)
    assert reply.types[-1] == f"response.{status}"
    assert reply.last["status"] == status
    assert reply.text == "".join(WORDS)
    details, error = reply.last["incomplete_details"] or {}, reply.last["error"] or {}
    assert (details.get("reason"), error.get("code")) == (
        why if status == "incomplete" else None,
        why if status == "failed" else None,
    )
    is_whole = status == "completed" or reason == "pause_turn"  # what came before a pause was ended by itself
    assert statuses(reply) == ["completed" if is_whole else "incomplete"]
    usage = reply.last["usage"]
    reported = (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"])
    if status != "failed":  # a failure may stand before its usage
        assert reported == (11, 7, 18)
        whole = penstock.whole(model)
        assert (whole.status, whole.last["status"]) == (200, status)
        assert whole.last["incomplete_details"] == reply.last["incomplete_details"]
    if reason == "a word of tomorrow":
        assert codes(reply.last) == ["unknown_finish"]


def test_reasoning_that_eats_the_budget_leaves_no_empty_message(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    thoughts = [chat_chunk({"reasoning_content": word}) for word in WORDS]
    upstream.play("c8", streamed(*thoughts, chat_chunk(finish="length"), USAGE))
    reply = penstock.stream("c8")
    assert reply.types[-1] == "response.incomplete"
    assert [item["type"] for item in reply.last["output"]] == ["reasoning"]
    assert reply.last["usage"]["total_tokens"] == 18


# ask D1


def usage_chunk(given: int, made: int, cached: int = 0, **choice: Any) -> Json:
    counts = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
    usage = {**counts, "prompt_tokens_details": {"cached_tokens": cached}}
    return {"choices": [choice] if choice else [], "usage": usage}


def anthropic(start: dict[str, int], end: dict[str, int]) -> Script:
    """An answer whose usage comes in two halves."""
    events = [message_start(**start), *text_block(0, *WORDS), *message_end("end_turn", **end)]
    return body(typed(events))


CACHED = {"input_tokens": 3, "cache_read_input_tokens": 125_000, "cache_creation_input_tokens": 2_000}

USAGES: dict[str, tuple[str, Script, tuple[int, int, int]]] = {
    "in the finish chunk": (
        "d21",
        streamed(*text(*WORDS), usage_chunk(11, 7, 5, index=0, delta={}, finish_reason="stop")),
        (11, 7, 5),
    ),
    "in a later chunk": ("d21", streamed(*text(*WORDS), STOP, usage_chunk(11, 7, 5)), (11, 7, 5)),
    "in every chunk, growing": (
        "d21",
        streamed(
            *(usage_chunk(11, n, 5, index=0, delta={"content": word}) for n, word in enumerate(WORDS, 1)),
            STOP,
        ),
        (11, len(WORDS), 5),
    ),
    "and then zeros": (
        "d21",
        streamed(*text(*WORDS), STOP, usage_chunk(11, 7, 5), usage_chunk(0, 0)),
        (11, 7, 5),
    ),
    "and then null": (
        "d21",
        streamed(*text(*WORDS), STOP, usage_chunk(11, 7, 5), {"choices": [], "usage": None}),
        (11, 7, 5),
    ),
    "twice the same": (
        "d21",
        streamed(*text(*WORDS), STOP, usage_chunk(11, 7, 5), usage_chunk(11, 7, 5)),
        (11, 7, 5),
    ),
    "with another total": (
        "d21",
        streamed(
            *text(*WORDS),
            STOP,
            {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 999}},
        ),
        (11, 7, 0),
    ),
    "OpenAI's cache is part of the input": (
        "d21",
        streamed(*text(*WORDS), STOP, usage_chunk(127_003, 206, 125_000)),
        (127_003, 206, 125_000),
    ),
    "Anthropic's cache is added to it": (
        ANTHROPIC,
        anthropic({**CACHED, "output_tokens": 1}, {"output_tokens": 206}),
        (127_003, 206, 125_000),
    ),
    "Anthropic repeats it at the end": (
        ANTHROPIC,
        anthropic({**CACHED, "output_tokens": 1}, {**CACHED, "output_tokens": 206}),
        (127_003, 206, 125_000),
    ),
    "Anthropic's input comes late": (
        ANTHROPIC,
        anthropic({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 11, "output_tokens": 7}),
        (11, 7, 0),
    ),
    "Responses": (RESPONSES, body(typed(rich_responses())), (9, 12, 0)),
}


@pytest.mark.parametrize("how", USAGES)
def test_usage_adds_up_in_every_form_of_reporting(
    penstock: Running, upstream: ScriptedUpstream, how: str
) -> None:
    model, script, (given, made, cached) = USAGES[how]
    upstream.play(model, script)
    for reply in (penstock.stream(model), penstock.whole(model)):
        usage = reply.last["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (given, made)
        assert usage["total_tokens"] == given + made
        assert usage["input_tokens_details"]["cached_tokens"] == cached
        assert usage["output_tokens_details"]["reasoning_tokens"] == 0
        assert "usage_estimated" not in codes(reply.last)
        verdict = penstock.verdict(reply.headers["x-request-id"])
        assert (verdict["input_tokens"], verdict["output_tokens"]) == (given, made)
        assert not verdict.get("usage_estimated")


def test_usage_is_always_requested(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("d21-ask", finished("chat", "stop"))
    for ask in (penstock.stream, penstock.whole):
        ask("d21-ask")
        assert upstream.asked_for("d21-ask")[-1].json["stream_options"] == {"include_usage": True}


UNREPORTED: dict[str, tuple[str, Script, str]] = {
    "completed": ("d21-none", streamed(*text(*WORDS), STOP), "completed"),
    "completed, with zeros": (
        "d21-none",
        streamed(*text(*WORDS), STOP, usage_chunk(0, 0)),
        "completed",
    ),
    "incomplete": ("d21-none", streamed(*text(*WORDS), chat_chunk(finish="length")), "incomplete"),
    "failed by the upstream": (
        "d21-none",
        streamed(*text(*WORDS), {"error": {"message": "on fire"}}),
        "failed",
    ),
    "cut": ("d21-none", [*begun(*text(*WORDS)), cut], "failed"),
    "Anthropic, cut after half of its usage": (
        ANTHROPIC,
        body(typed([message_start(input_tokens=11, output_tokens=1), *text_block(0, *WORDS, stop=False)])),
        "failed",
    ),
    "Anthropic, cut with half of its usage": (
        ANTHROPIC,
        body(typed([message_start(input_tokens=11), *text_block(0, *WORDS, stop=False)])),
        "failed",
    ),
}


@pytest.mark.parametrize("how", UNREPORTED)
def test_usage_that_is_not_reported_is_estimated_and_marked(
    penstock: Running, upstream: ScriptedUpstream, how: str
) -> None:
    """Ask D4: also for a failed turn, because it is billed as well."""
    model, script, status = UNREPORTED[how]
    upstream.play(model, script)
    reply = penstock.stream(model, "A prompt of some length that has about a dozen words in it.")
    assert reply.last["status"] == status
    usage = reply.last["usage"]
    assert usage["output_tokens"] >= LEAST
    assert usage["input_tokens"] >= (11 if model == ANTHROPIC else 8)
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert "usage_estimated" in codes(reply.last)
    verdict = penstock.verdict(reply.headers["x-request-id"])
    assert verdict["usage_estimated"] is True
    assert verdict["output_tokens"] == usage["output_tokens"]


def test_usage_that_came_before_a_failure_is_not_estimated(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play(
        "usage-before-failure",
        streamed(*text(*WORDS), usage_chunk(11, 77), {"error": {"message": "on fire"}}),
    )
    reply = penstock.stream("usage-before-failure")
    failed(reply, "server_error")
    assert reply.last["usage"]["total_tokens"] == 88
    assert "usage_estimated" not in codes(reply.last)
