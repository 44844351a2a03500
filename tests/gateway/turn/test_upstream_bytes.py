"""The events do not depend on how the upstream's bytes are split: ask A9, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from penstock.dialects import pipeline
from penstock.dialects.chat import DIALECT
from penstock.protocol.response import response_for
from penstock.protocol.wire import to_builtins
from penstock.stream.machine import ResponseStreamStateMachine
from tests.client.server import head, send, trickle
from tests.dialects.chat_streams import plan
from tests.gateway.in_process import LocalGateway
from tests.gateway.reply_assertions import calls_in
from tests.gateway.running import Reply, Running
from tests.gateway.scripts import (
    ANTHROPIC,
    READ_ARGUMENTS,
    RESPONSES,
    RICH,
    STOP,
    THOUGHT,
    TOOLS,
    WORDS,
    WRITE_ARGUMENTS,
    body,
    pieces,
    text,
)
from tests.gateway.upstream import USAGE, ScriptedUpstream, frames

Json = dict[str, Any]


def unescaped(data: bytes) -> bytes:
    """The same frames with every character as UTF-8, so that there is something to split."""
    lines = []
    for line in data.decode().split("\n"):
        is_json = line.startswith("data: {")
        found = json.dumps(json.loads(line[6:]), ensure_ascii=False) if is_json else ""
        lines.append(f"data: {found}" if is_json else line)
    return "\n".join(lines).encode()


WHOLE = {model: unescaped(data()) for model, data in RICH.items()}
CHAT = WHOLE["chat"]


def test_there_is_something_to_split() -> None:
    for data in WHOLE.values():
        assert {2, 3, 4} <= {len(character.encode()) for character in data.decode()}


def without_ids(reply: Reply) -> list[Json]:
    """The events without the ids and times that differ in every turn."""
    text = json.dumps([event for event in reply.events if event["type"] != "response.in_progress"])
    names = {reply.last["id"]: "resp"} | {
        item["id"]: f"item_{index}" for index, item in enumerate(reply.last["output"])
    }
    for id, name in names.items():
        text = text.replace(id, name)
    events: list[Json] = json.loads(text)
    for event in events:
        del event["sequence_number"]
        # On a busy machine, the store may be late, which is a diagnostic.
        for name in ("created_at", "completed_at", "model", "diagnostics"):
            event.get("response", {}).pop(name, None)
    return events


def assert_whole(reply: Reply, model: str = "chat") -> None:
    assert reply.types[-1] == "response.completed", reply.last["error"]
    assert reply.text == WORDS
    assert calls_in(reply.last) == [("read", READ_ARGUMENTS), ("write", WRITE_ARGUMENTS)]
    thoughts = [
        part["text"]
        for item in reply.last["output"]
        if item["type"] == "reasoning"
        for part in item["content"]
    ]
    assert thoughts == ([THOUGHT] if model != RESPONSES else [])


def cut_up(data: bytes, seed: int) -> list[bytes]:
    random = Random(seed)
    places = [0, *sorted(random.sample(range(1, len(data)), 60)), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


@pytest.mark.parametrize("model", RICH)
def test_the_events_are_the_same_byte_by_byte(
    penstock: Running, upstream: ScriptedUpstream, model: str
) -> None:
    upstream.play(model, [send(head()), trickle(WHOLE[model])], body(WHOLE[model]))
    slow, fast = penstock.stream(model, tools=TOOLS), penstock.stream(model, tools=TOOLS)
    assert_whole(slow, model)
    assert without_ids(slow) == without_ids(fast)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("model", RICH)
def test_the_events_are_the_same_in_random_pieces(local: LocalGateway, model: str, seed: int) -> None:
    """Cuts are in the middle of characters and of line ends."""
    data = WHOLE[model] if seed % 2 else WHOLE[model].replace(b"\n", b"\r\n")
    local.play(model, *cut_up(data, seed))
    cut = local.stream(model, tools=TOOLS)
    local.play(model, WHOLE[model])
    whole = local.stream(model, tools=TOOLS)
    assert_whole(cut, model)
    assert without_ids(cut) == without_ids(whole)


def in_two_lines(data: bytes) -> bytes:
    """Every object over two `data:` lines, broken where JSON may have white space."""
    return data.replace(b'data: {"choices": [', b'data: {"choices":\ndata: [')


def with_noise(data: bytes) -> bytes:
    return data.replace(b"\n\n", b"\n\n: keep-alive\n\nretry: 3000\n\n:\n\n\n\n")


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "line feeds": lambda data: data,
    "carriage returns and line feeds": lambda data: data.replace(b"\n", b"\r\n"),
    "carriage returns": lambda data: data.replace(b"\n", b"\r"),
    "all three": lambda data: data.replace(b"\n\n", b"\r\n\n", 5).replace(b"\n\n", b"\r\r", 5),
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "comments, retry and blank lines": with_noise,
    "two lines of data": in_two_lines,
    "no space after the colon": lambda data: data.replace(b"data: ", b"data:"),
    "a name for every frame": lambda data: data.replace(b"data: {", b"event: message\ndata: {"),
    "ids": lambda data: data.replace(b"data: {", b"id: 7\ndata: {"),
    "no blank line at the end": lambda data: data.rstrip(b"\n"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_server_sent_events_is_read(
    penstock: Running, upstream: ScriptedUpstream, form: str
) -> None:
    data = FORMS[form](CHAT)
    assert form == "line feeds" or data != CHAT
    upstream.play("d09", pieces(cut_up(data, 1)), body(data), body(CHAT))
    found = [without_ids(penstock.stream("d09", tools=TOOLS)) for _ in range(3)]
    assert found[0] == found[2]
    assert found[1] == found[2]


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/octet-stream", "text/event-stream;charset=utf-8"]
)
def test_any_content_type_is_read(penstock: Running, upstream: ScriptedUpstream, content_type: str) -> None:
    upstream.play("d09-type", body(CHAT, content_type))
    assert_whole(penstock.stream("d09-type", tools=TOOLS))


@pytest.mark.parametrize("model", [ANTHROPIC, RESPONSES])
def test_frames_without_event_names_are_read(
    penstock: Running, upstream: ScriptedUpstream, model: str
) -> None:
    lines = [line for line in WHOLE[model].split(b"\n") if not line.startswith(b"event: ")]
    upstream.play(model, body(b"\n".join(lines)))
    assert_whole(penstock.stream(model, tools=TOOLS), model)


def test_a_body_may_end_with_the_connection(penstock: Running, upstream: ScriptedUpstream) -> None:
    """Neither a length nor chunks."""
    upstream.play("d09-open", [send(head() + CHAT)])
    assert_whole(penstock.stream("d09-open", tools=TOOLS))


def test_invalid_utf8_does_not_end_the_stream(penstock: Running, upstream: ScriptedUpstream) -> None:
    broken = frames(*text("ab", "cd"), STOP, USAGE).replace(b"cd", b"c\xff\xfed")
    upstream.play("d09-broken", body(broken))
    reply = penstock.stream("d09-broken")
    assert reply.types[-1] == "response.completed"
    assert reply.text == "abc\ufffd\ufffdd"


def test_half_a_surrogate_pair_does_not_end_the_stream(penstock: Running, upstream: ScriptedUpstream) -> None:
    halves = [
        b'{"choices":[{"index":0,"delta":{"content":"%b"}}]}' % half for half in (b"a\\ud83e", b"\\uddc0b")
    ]
    upstream.play("d09-half", body(frames(*(each.decode() for each in halves), STOP, USAGE)))
    reply = penstock.stream("d09-half")
    assert reply.types[-1] == "response.completed"
    assert reply.text.startswith("a")
    assert reply.text.endswith("b")


def test_many_chunks_in_one_read_leave_together(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("d09-one", body(CHAT))
    assert_whole(penstock.stream("d09-one", tools=TOOLS))


def test_bytes_after_done_are_not_read(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("d09-after", body(CHAT + frames(*text("more"), done=False) + b"\n\ndata: \n\n"))
    reply = penstock.stream("d09-after", tools=TOOLS)
    assert_whole(reply)


# A line without an end


def translate_with_limit(
    monkeypatch: pytest.MonkeyPatch, data: list[bytes], content_type: str
) -> list[dict[str, Any]]:
    """The events of these reads if the pipeline may buffer 1000 bytes."""
    monkeypatch.setattr(pipeline, "DEFAULT_LIMIT", 1000)
    given = plan()
    response = response_for(given.request, id="resp_1", created_at=0, model="m")
    made = pipeline.Pipeline(ResponseStreamStateMachine(response, clock=lambda: 0))
    made.open(DIALECT, given, content_type=content_type)
    events = [event for each in data for event in made.feed(each)]
    return [to_builtins(event) for event in events]


@pytest.mark.parametrize("size", [1, 64, 5000])
def test_a_line_that_does_not_end_is_a_typed_failure(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    endless = b"data: " + b"x" * 5000
    parts = [endless[at : at + size] for at in range(0, len(endless), size)]
    reads = [frames(*text("One"), done=False), *parts]
    events = translate_with_limit(monkeypatch, reads, "text/event-stream")
    assert "One" in [event.get("delta") for event in events]
    assert events[-1]["type"] == "response.failed"
    error = events[-1]["response"]["error"]
    assert (error["code"], "1000" in error["message"]) == ("upstream_invalid", True)


def test_a_document_that_does_not_end_is_a_typed_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    events = translate_with_limit(monkeypatch, [b'{"choices": [' + b" " * 600] * 3, "application/json")
    assert [event["code"] for event in events if event["type"] == "error"] == ["upstream_invalid"]
    assert events[-1]["type"] == "response.failed"
