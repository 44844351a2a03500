"""Events that are numbered, that come also in silence, and that are never null: ask A6 to ask A8, over
HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from threading import Event
from typing import Any

import pytest

from tests.client.server import chunk, send
from tests.gateway.running import Reply, Running
from tests.gateway.scripts import RICH, STOP, TOOLS, body, text
from tests.gateway.upstream import LAST_CHUNK, SSE_HEAD, USAGE, ScriptedUpstream, frames, streamed, until
from tests.gateway.walker import holes
from tests.protocol.openai_models import models

Json = dict[str, Any]

ACCENTS = ("openresponses", "openai", "copilot")


# ask A6 and ask A8


def test_d06_d08_signs_of_life_are_numbered_and_do_not_disturb_the_answer(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """An upstream that is silent before its first token and in the middle of its text (ask A8)."""
    first, second = Event(), Event()
    told = [send(chunk(frames(*text(*part), done=False))) for part in (["One", " two"], [" three"])]
    end = send(chunk(frames(STOP, USAGE)) + LAST_CHUNK)
    upstream.play("d08", [send(SSE_HEAD), until(first), told[0], until(second), told[1], end])
    with penstock.live("d08") as live:
        live.until(b": waiting", 1)
        live.until(b"event: response.in_progress", 2)
        first.set()
        live.until(b"event: response.output_text.delta")
        comments, beats = live.body.count(b": waiting"), live.body.count(b"event: response.in_progress")
        live.until(b": waiting", comments + 1)
        live.until(b"event: response.in_progress", beats + 1)
        second.set()
        reply = live.rest()
    assert live.body.startswith(b"event: response.created\n")
    assert reply.types[:2] == ["response.created", "response.in_progress"]
    assert reply.types[-1] == "response.completed"
    assert reply.text == "One two three"
    beats_with_text = [
        event["response"]["output"]
        for event in reply.events
        if event["type"] == "response.in_progress" and event["response"]["output"]
    ]
    assert beats_with_text[0][0]["content"][0]["text"] == "One two"  # it carries the snapshot
    assert penstock.verdict(reply.headers["x-request-id"])["heartbeats"] >= 4


def test_d06_failure_frames_behind_a_heartbeat_go_on_counting(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    released = Event()
    broken = send(chunk(frames({"error": {"message": "on fire"}}, done=False)) + LAST_CHUNK)
    upstream.play("d06", [send(SSE_HEAD + chunk(frames(*text("One"), done=False))), until(released), broken])
    with penstock.live("d06") as live:
        live.until(b"event: response.in_progress", 2)
        released.set()
        reply = live.rest()
    assert reply.types[-2:] == ["error", "response.failed"]
    assert [event["sequence_number"] for event in reply.events] == list(range(len(reply.events)))


def test_d08_a_stream_asks_what_stands_in_between_to_pass_it_on(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play("d08-head", streamed(*text("One"), STOP, USAGE))
    headers = penstock.stream("d08-head").headers
    assert headers["content-type"] == "text/event-stream"
    assert headers["cache-control"].startswith("no-cache")
    assert headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in headers


# ask A7


@pytest.mark.parametrize("accent", ACCENTS)
@pytest.mark.parametrize("model", RICH)
def test_d07_nothing_that_clients_read_is_null(
    penstock: Running, upstream: ScriptedUpstream, model: str, accent: str
) -> None:
    upstream.play(model, body(RICH[model]()))
    reply = penstock.stream(model, tools=TOOLS, accent=accent)
    assert holes(reply.events) == []
    assert reply.last["usage"]["input_tokens_details"].keys() >= {"cached_tokens"}


HOLES = [
    ("response.content_part.added", "annotations"),
    ("response.content_part.done", "logprobs"),
    ("response.output_text.delta", "logprobs"),
    ("response.output_text.delta", "content_index"),
    ("response.output_text.done", "output_index"),
    ("response.output_item.added", "summary"),
    ("response.output_item.done", "output_index"),
    ("response.function_call_arguments.delta", "item_id"),
    ("response.created", "tools"),
    ("response.created", "metadata"),
    ("response.completed", "output"),
    ("response.completed", "input_tokens_details"),
    ("response.completed", "reasoning_tokens"),
    ("response.completed", "sequence_number"),
]


@pytest.mark.parametrize(("type", "name"), HOLES)
def test_d07_the_walker_sees_a_hole(
    penstock: Running, upstream: ScriptedUpstream, type: str, name: str
) -> None:
    upstream.play("d07", body(RICH["chat"]()))
    events = penstock.stream("d07", tools=TOOLS).events
    named = (deepcopy(event) for event in events if event["type"] == type)
    nulled, holder = next((event, holder) for event in named for holder in _holders(event, name))
    holder[name] = None
    assert holes(nulled)
    if name != "sequence_number":  # whether it is there, the judge asks of every event
        del holder[name]
        assert holes(nulled)


def _holders(value: Any, name: str) -> Iterator[Json]:
    """Every object that has a field of this name."""
    if isinstance(value, dict) and name in value:
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _holders(each, name)


@pytest.mark.parametrize("model", RICH)
def test_d07_the_models_of_openai_python_accept_every_event_without_coercion(
    penstock: Running, upstream: ScriptedUpstream, model: str
) -> None:
    upstream.play(model, body(RICH[model]()))
    reply = penstock.stream(model, tools=TOOLS, accent="openai")
    assert [type for type in reply.types if type not in models()] == []
    for event, data in zip(reply.events, _data_of(reply), strict=True):
        models()[event["type"]].model_validate_json(data, strict=True)


def _data_of(reply: Reply) -> list[str]:
    lines = reply.body.decode().splitlines()
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
