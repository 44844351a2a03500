"""Every stream has exactly one terminal event, whatever the upstream does: ask A1, over HTTP."""

from __future__ import annotations

from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest

from tests.client.server import Script, chunk, cut, send
from tests.dialects.recordings import ROOT, needs_recordings
from tests.gateway.reply_assertions import assert_begins, failed, said, statuses
from tests.gateway.running import Running
from tests.gateway.scripts import ANTHROPIC, HASTY, RESPONSES, RICH, STOP, TOOLS, body, text
from tests.gateway.upstream import (
    LAST_CHUNK,
    SSE_HEAD,
    USAGE,
    ScriptedUpstream,
    begun,
    frames,
    streamed,
    until_gone,
)

Json = dict[str, Any]

OFFSETS = 16
"""Cuts of one stream. The seed decides which, so that a build is reproducible."""


# ask A1


def test_an_end_without_a_finish_reason_is_a_failure(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("d01-a", streamed(*text("One", " two", " three"), done=False))
    reply = penstock.stream("d01-a")
    failed(reply, "upstream_truncated")
    assert (reply.text, statuses(reply)) == ("One two three", ["incomplete"])


def test_the_same_for_a_client_that_does_not_stream(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("d01-a-whole", streamed(*text("One", " two", " three"), done=False))
    reply = penstock.whole("d01-a-whole")
    assert (reply.status, reply.error["code"]) == (502, "upstream_truncated")
    response = reply.json["response"]
    assert response["status"] == "failed"
    assert response["output"][0]["content"][0]["text"] == "One two three"


def test_a_finish_reason_is_an_end_without_done(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("d01-b", streamed(*text("One", " two"), STOP, done=False))
    reply = penstock.stream("d01-b")
    assert reply.types[-1] == "response.completed"
    assert (reply.text, statuses(reply)) == ("One two", ["completed"])


ENDLESS: dict[str, Script] = {
    "the last chunk never comes": [],
    "the connection is reset": [cut],
}


@pytest.mark.parametrize("how", ENDLESS)
def test_a_break_after_the_finish_reason_is_not_a_failure(
    penstock: Running, upstream: ScriptedUpstream, how: str
) -> None:
    """The model has finished, and all of its output has arrived: decision 5."""
    upstream.play("d01-b2", [*begun(*text("One", " two"), STOP, USAGE), *ENDLESS[how]])
    reply = penstock.stream("d01-b2")
    assert reply.types[-1] == "response.completed", reply.last["error"]
    assert (reply.text, statuses(reply)) == ("One two", ["completed"])
    assert reply.last["usage"]["total_tokens"] == 18


def test_silence_after_the_finish_reason_is_not_a_failure(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """A server that never sends [DONE] and keeps the connection open."""
    upstream.play(HASTY, [*begun(*text("One", " two"), STOP, USAGE), until_gone(Event())])
    reply = penstock.stream(HASTY)
    assert reply.types[-1] == "response.completed", reply.last["error"]
    assert (reply.text, reply.last["usage"]["total_tokens"]) == ("One two", 18)


NOTHING: dict[str, Script] = {
    "only [DONE]": streamed(),
    "no byte": streamed(done=False),
    "comments": body(b": hello\n\n: again\n\n"),
}


@pytest.mark.parametrize("what", NOTHING)
def test_an_answer_with_nothing_in_it_is_a_failure(
    penstock: Running, upstream: ScriptedUpstream, what: str
) -> None:
    upstream.play("d01-c", NOTHING[what])
    reply = penstock.stream("d01-c")
    failed(reply, "upstream_empty")
    assert reply.types == ["response.created", "response.in_progress", "error", "response.failed"]
    assert reply.last["output"] == []
    whole = penstock.whole("d01-c")
    assert (whole.status, whole.error["code"]) == (502, "upstream_empty")


@pytest.mark.parametrize("is_streamed", [True, False])
def test_an_answer_that_cannot_be_read_is_a_failure_that_shows_its_beginning(
    penstock: Running, upstream: ScriptedUpstream, is_streamed: bool
) -> None:
    page = b"<html>\x1b[31m<body>Welcome</body></html>"
    upstream.play("d01-page", body(page, "text/event-stream"))
    reply = penstock.stream("d01-page") if is_streamed else penstock.whole("d01-page")
    assert (reply.status, reply.error["code"]) == (502, "upstream_invalid")
    assert "it begins with: <html>[31m<body>Welcome" in reply.error["message"]


def test_two_finish_chunks_are_one_end(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("d01-d", streamed(*text("One"), STOP, STOP, USAGE, STOP))
    reply = penstock.stream("d01-d")
    assert reply.types.count("response.completed") == 1
    assert reply.text == "One"


def test_the_more_severe_of_two_finish_reasons_counts(penstock: Running, upstream: ScriptedUpstream) -> None:
    length = {**STOP, "choices": [{**STOP["choices"][0], "finish_reason": "length"}]}
    upstream.play("d01-d2", streamed(*text("One"), length, STOP, USAGE))
    reply = penstock.stream("d01-d2")
    assert reply.types[-1] == "response.incomplete"
    assert reply.last["incomplete_details"] == {"reason": "max_output_tokens"}


def cuts(model: str) -> list[tuple[str, int, bool]]:
    """The model, where its stream is cut, and whether that is the end of the body or a reset."""
    random, size = Random(model), len(RICH[model]())
    places = sorted({0, 1, size - 1, *random.sample(range(size), OFFSETS)})
    return [(model, place, random.random() < 0.5) for place in places]


@pytest.mark.parametrize(("model", "offset", "is_reset"), [cut for model in RICH for cut in cuts(model)])
def test_a_stream_cut_at_any_byte_has_one_end(
    penstock: Running, upstream: ScriptedUpstream, model: str, offset: int, is_reset: bool
) -> None:
    """What was received is the beginning of the whole answer, and the failure is reported as a cut."""
    data = RICH[model]()
    begin = send(SSE_HEAD + (chunk(data[:offset]) if offset else b""))
    upstream.play(model, [begin, cut if is_reset else send(LAST_CHUNK)], body(data))
    reply, whole = penstock.stream(model, tools=TOOLS), penstock.stream(model, tools=TOOLS)
    assert whole.types[-1] == "response.completed"
    assert_begins(said(reply.last), said(whole.last))
    if reply.types[-1] != "response.completed":
        assert reply.last["error"]["code"] in ("upstream_truncated", "upstream_empty")
        assert set(statuses(reply)) <= {"completed", "incomplete"}
    verdict = penstock.verdict(reply.headers["x-request-id"])
    assert verdict["terminal_sent"] is True
    assert verdict["last_event"] == reply.types[-1]


def test_no_more_than_the_broken_frame_is_lost(penstock: Running, upstream: ScriptedUpstream) -> None:
    data = frames(*text("One", " two", " three"), done=False)
    upstream.play("d01-e", body(data[: data.index(b" three") + 3]))
    reply = penstock.stream("d01-e")
    failed(reply, "upstream_truncated")
    assert reply.text == "One two"


LEFT_OVER: dict[str, bytes] = {
    # The client has "One" already, and there is more that no blank line or finish reason has released.
    "a frame without its blank line": frames(*text("One", " two"), done=False)[:-1],
    "a frame without its line end": frames(*text("One", " two"), done=False)[:-2],
}


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("what", LEFT_OVER)
def test_what_came_before_the_cut_is_sent(
    penstock: Running, upstream: ScriptedUpstream, what: str, is_reset: bool
) -> None:
    upstream.play(
        "d01-left", [send(SSE_HEAD + chunk(LEFT_OVER[what])), cut if is_reset else send(LAST_CHUNK)]
    )
    reply = penstock.stream("d01-left")
    failed(reply, "upstream_truncated")
    assert reply.text == "One two"


RECORDED = [
    ("chat", "chat-completions/azure.fantasy.azure-o4-mini-tool-streaming.0.sse"),
    (ANTHROPIC, "anthropic-messages/anthropic.llm-anthropic.test-anthropic-test-tools.0.sse"),
    (RESPONSES, "openai-responses"),
]


def recording(name: str) -> Path:
    path = ROOT / name
    return (
        path
        if path.is_file()
        else min(path.glob("*.sse"), key=lambda each: (each.stat().st_size < 4000, each))
    )


@needs_recordings
@pytest.mark.parametrize(("model", "file"), RECORDED)
def test_a_recording_cut_at_any_byte_has_one_end(
    penstock: Running, upstream: ScriptedUpstream, model: str, file: str
) -> None:
    data = recording(file).read_bytes()
    upstream.play(model, body(data))
    whole = penstock.stream(model, accent="openai", tools=TOOLS)
    random = Random(file)
    for offset in random.sample(range(len(data)), 6):
        upstream.play(model, body(data[:offset]) if offset else streamed(done=False))
        reply = penstock.stream(model, accent="openai", tools=TOOLS)
        assert_begins(said(reply.last), said(whole.last))
