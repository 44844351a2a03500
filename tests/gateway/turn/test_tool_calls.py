"""Every tool call is delivered once, complete and separate from its neighbours: ask B4 to ask B6, over
HTTP."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from tests.cli import streams
from tests.client.server import Script
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.reply_assertions import call_ids, calls_in, codes
from tests.gateway.running import Reply, Running
from tests.gateway.scripts import (
    ANTHROPIC,
    RESPONSES,
    STOP,
    TOOL_CALLS,
    TOOLS,
    body,
    call,
    calls,
    message_end,
    message_start,
    text,
    tool_block,
    typed,
)
from tests.gateway.upstream import USAGE, ScriptedUpstream, streamed

Json = dict[str, Any]
Call = tuple[str, str]


def chat(*chunks: Json, finish: Json = TOOL_CALLS) -> Script:
    return streamed(*chunks, finish, USAGE)


def responses(*items: tuple[list[Json], Json], output: list[Json] | None = None) -> Script:
    events = [event for part, _ in items for event in part]
    ends = [item for _, item in items] if output is None else output
    return body(typed(streams.response(events, ends)))


def named(item_id: str, index: int, call_id: str, name: str = "read") -> tuple[list[Json], Json]:
    """A call of a Responses upstream under this call id."""
    events, item = streams.call(item_id, index, name, ['{"x"', ":1}"])
    events = deepcopy(events)
    for event in events:
        if "item" in event:
            event["item"]["call_id"] = call_id
    return events, {**item, "call_id": call_id}


READ, WRITE = ("read", '{"x":1}'), ("write", '{"y":2}')
ID, NAME, HALVES = "call_a", "read", ('{"x"', ":1}")
SUMMARY = calls(call(0, ID, NAME, '{"x":1}'))

ONCE: dict[str, tuple[str, Script, list[Call]]] = {
    "the id and the name in every chunk": (
        "d16",
        chat(*(calls(call(0, ID, NAME, half)) for half in ("", *HALVES))),
        [READ],
    ),
    "the whole call again at the end": (
        "d16",
        chat(calls(call(0, ID, NAME, "")), *(calls(call(0, arguments=half)) for half in HALVES), SUMMARY),
        [READ],
    ),
    "the whole call again after the finish": (
        "d16",
        streamed(SUMMARY, TOOL_CALLS, SUMMARY, TOOL_CALLS, USAGE),
        [READ],
    ),
    "a whole message after the deltas": (
        "d16",
        chat(
            SUMMARY,
            {"choices": [{"index": 0, "message": {"tool_calls": [call(0, ID, NAME, '{"x":1}')]}}]},
        ),
        [READ],
    ),
    "arguments that are an object": (
        "d16",
        chat(calls({"index": 0, "id": ID, "function": {"name": NAME, "arguments": {"x": 1}}})),
        [READ],
    ),
    "arguments.done, item.done and completed": (RESPONSES, responses(named("fc_1", 0, ID)), [READ]),
    "announced twice, under two ids": (
        RESPONSES,
        body(typed(streams.announced_twice())),
        [("get_weather", '{"city":"Oslo"}')],
    ),
    "one call id for two items": (
        RESPONSES,
        responses(named("fc_1", 0, ID), named("fc_2", 1, ID)),
        [READ],
    ),
    "again in completed, under another id": (
        RESPONSES,
        responses(named("fc_1", 0, ID), output=[{**named("fc_9", 0, ID)[1]}]),
        [READ],
    ),
    "two calls that say the same": (
        "d16",
        chat(calls(call(0, "call_a", NAME, '{"x":1}')), calls(call(1, "call_b", NAME, '{"x":1}'))),
        [READ, READ],
    ),
    "two items that say the same": (
        RESPONSES,
        responses(named("fc_1", 0, "call_a"), named("fc_2", 1, "call_b")),
        [READ, READ],
    ),
    "two blocks that say the same": (
        ANTHROPIC,
        body(
            typed(
                [
                    message_start(),
                    *tool_block(0, "call_a", NAME, *HALVES),
                    *tool_block(1, "call_b", NAME, *HALVES),
                    *message_end("tool_use"),
                ]
            )
        ),
        [READ, READ],
    ),
}


def delivered(reply: Reply) -> list[Call]:
    """The calls as a client reads them from the events: announced, filled, done."""
    found = []
    for added in (event for event in reply.events if event["type"] == "response.output_item.added"):
        if added["item"]["type"] != "function_call":
            continue
        own = [event for event in reply.events if event.get("item_id") == added["item"]["id"]]
        deltas = [e["delta"] for e in own if e["type"] == "response.function_call_arguments.delta"]
        done = [e["arguments"] for e in own if e["type"] == "response.function_call_arguments.done"]
        assert done == ["".join(deltas)]
        found.append((added["item"]["name"], done[0]))
    return found


@pytest.mark.parametrize("how", ONCE)
def test_a_call_is_delivered_once(penstock: Running, upstream: ScriptedUpstream, how: str) -> None:
    model, script, wanted = ONCE[how]
    upstream.play(model, script)
    reply = penstock.stream(model, tools=TOOLS)
    assert reply.types[-1] == "response.completed"
    assert [(name, json.loads(arguments)) for name, arguments in delivered(reply)] == [
        (name, json.loads(arguments)) for name, arguments in wanted
    ]
    assert delivered(reply) == calls_in(reply.last)
    assert len(set(call_ids(reply.last))) == len(wanted)
    whole = penstock.whole(model, tools=TOOLS)
    assert calls_in(whole.last) == calls_in(reply.last)


GLUED = '{"x":1}{"y":"}{"}{"z":3}'

APART: dict[str, tuple[list[Json], list[Call]]] = {
    "one index, two ids": (
        [calls(call(0, "a", "read", '{"x":1}')), calls(call(0, "b", "write", '{"y":2}'))],
        [READ, WRITE],
    ),
    "one index, two ids, in pieces": (
        [
            calls(call(0, "a", "read", '{"x"')),
            calls(call(0, arguments=":1}")),
            calls(call(0, "b", "write", '{"y"')),
            calls(call(0, arguments=":2}")),
        ],
        [READ, WRITE],
    ),
    "one index, no ids, two names": (
        [calls(call(0, None, "read", '{"x":1}')), calls(call(0, None, "write", '{"y":2}'))],
        [READ, WRITE],
    ),
    "one index, no ids, one name, the first is whole": (
        [calls(call(0, None, "read", '{"x":1}')), calls(call(0, None, "read", '{"x":2}'))],
        [READ, ("read", '{"x":2}')],
    ),
    "no index, two ids": (
        [calls(call(None, "a", "read", '{"x":1}')), calls(call(None, "b", "write", '{"y":2}'))],
        [READ, WRITE],
    ),
    "no index, two ids, one chunk": (
        [calls(call(None, "a", "read", '{"x":1}'), call(None, "b", "write", '{"y":2}'))],
        [READ, WRITE],
    ),
    "no index and no id": (
        [calls(call(None, None, "read", '{"x":1}'), call(None, None, "write", '{"y":2}'))],
        [READ, WRITE],
    ),
    "glued objects": (
        [calls(call(0, "a", "read", GLUED))],
        [("read", '{"x":1}'), ("read", '{"y":"}{"}'), ("read", '{"z":3}')],
    ),
    "glued objects in pieces": (
        [calls(call(0, "a", "read", ""))]
        + [calls(call(0, arguments=GLUED[at : at + 2])) for at in range(0, len(GLUED), 2)],
        [("read", '{"x":1}'), ("read", '{"y":"}{"}'), ("read", '{"z":3}')],
    ),
    "braces in a string": (
        [calls(call(0, "a", "read", '{"x":"}{"')), calls(call(0, arguments=',"y":"\\"}{"}'))],
        [("read", '{"x":"}{","y":"\\"}{"}')],
    ),
    "interleaved": (
        [
            calls(call(0, "a", "read", '{"x"')),
            calls(call(1, "b", "write", '{"y"')),
            calls(call(0, arguments=":1}"), call(1, arguments=":2}")),
        ],
        [READ, WRITE],
    ),
    "text in between": (
        [calls(call(0, "a", "read", '{"x":1}')), *text("and"), calls(call(1, "b", "write", '{"y":2}'))],
        [READ, WRITE],
    ),
}


@pytest.mark.parametrize("how", APART)
def test_parallel_calls_are_separate(penstock: Running, upstream: ScriptedUpstream, how: str) -> None:
    chunks, wanted = APART[how]
    upstream.play("d17", chat(*chunks))
    reply = penstock.stream("d17", tools=TOOLS)
    assert reply.types[-1] == "response.completed"
    assert delivered(reply) == calls_in(reply.last) == wanted
    ids = call_ids(reply.last)
    assert len(set(ids)) == len(wanted)
    assert all(0 < len(id) <= 64 for id in ids)


def test_interleaved_blocks_of_anthropic(penstock: Running, upstream: ScriptedUpstream) -> None:
    left, right = tool_block(0, "a", "read", '{"x"', ":1}"), tool_block(1, "b", "write", '{"y"', ":2}")
    turns = [event for pair in zip(left, right, strict=True) for event in pair]
    upstream.play(ANTHROPIC, body(typed([message_start(), *turns, *message_end("tool_use")])))
    reply = penstock.stream(ANTHROPIC, tools=TOOLS)
    assert delivered(reply) == [READ, WRITE]
    assert call_ids(reply.last) == ["a", "b"]


def test_interleaved_items_of_responses(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play(RESPONSES, body(typed(streams.interleaved())))
    reply = penstock.stream(RESPONSES, tools=TOOLS)
    assert delivered(reply) == [("get_weather", '{"city":"Oslo"}'), ("get_time", '{"zone":"CET"}')]
    assert call_ids(reply.last) == ["call_fc_1", "call_fc_2"]


# ask B6

EMPTY: dict[str, tuple[str, Script]] = {
    "no arguments": ("d18", chat(calls(call(0, "a", "read")))),
    "empty arguments": ("d18", chat(calls(call(0, "a", "read", "")))),
    "null arguments": (
        "d18",
        chat(calls({"index": 0, "id": "a", "function": {"name": "read", "arguments": None}})),
    ),
    "white space": ("d18", chat(calls(call(0, "a", "read", " \n")))),
    "an empty object": ("d18", chat(calls(call(0, "a", "read", "{}")))),
    "Anthropic without a delta": (
        ANTHROPIC,
        body(typed([message_start(), *tool_block(0, "a", "read"), *message_end("tool_use")])),
    ),
    "Anthropic with an empty delta": (
        ANTHROPIC,
        body(typed([message_start(), *tool_block(0, "a", "read", ""), *message_end("tool_use")])),
    ),
    "Responses": (RESPONSES, responses(streams.call("fc_1", 0, "read", []))),
}


@pytest.mark.parametrize("how", EMPTY)
def test_a_call_without_arguments_has_an_empty_object(
    penstock: Running, upstream: ScriptedUpstream, how: str
) -> None:
    model, script = EMPTY[how]
    upstream.play(model, script)
    reply = penstock.stream(model, tools=TOOLS)
    assert [(name, arguments.strip()) for name, arguments in delivered(reply)] == [("read", "{}")]
    assert calls_in(reply.last) == delivered(reply)
    assert calls_in(penstock.whole(model, tools=TOOLS).last) == delivered(reply)


@pytest.mark.parametrize("nothing", [[], None, {}, ""])
def test_null_or_empty_tool_calls_are_ignored(
    penstock: Running, upstream: ScriptedUpstream, nothing: Any
) -> None:
    chunks = [chat_chunk({"content": word, "tool_calls": nothing}) for word in ("One", " two")]
    upstream.play("d18-none", chat(*chunks, finish=STOP))
    reply = penstock.stream("d18-none", tools=TOOLS)
    assert [item["type"] for item in reply.last["output"]] == ["message"]
    assert reply.text == "One two"
    assert codes(reply.last) == []


# Incomplete calls are not delivered (ask B9, decision 5)


def test_a_call_cut_off_by_the_length_is_marked_so(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("b9", chat(calls(call(0, "a", "read", '{"x":')), finish=chat_chunk(finish="length")))
    reply = penstock.stream("b9", tools=TOOLS)
    assert reply.types[-1] == "response.incomplete"
    assert [(item["type"], item["status"]) for item in reply.last["output"]] == [
        ("function_call", "incomplete")
    ]


@pytest.mark.parametrize("stream", [True, False])
def test_half_a_call_after_a_normal_finish_is_a_failure(
    penstock: Running, upstream: ScriptedUpstream, stream: bool
) -> None:
    upstream.play("b9-half", chat(*text("Wait."), calls(call(0, "a", "read", '{"x":'))))
    reply = (penstock.stream if stream else penstock.whole)("b9-half", tools=TOOLS)
    response = reply.last if stream else reply.json["response"]
    assert response["status"] == "failed"
    assert response["error"]["code"] == "bridge.stream.incomplete_tool_call"
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]
    assert stream or reply.status == 502
