"""Every item is announced once and closed once, under one id: ask A2 to ask A5, over HTTP."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from itertools import count, product
from typing import Any

import pytest
from openai import OpenAI

from tests.cli import streams
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.in_process import LocalGateway
from tests.gateway.reply_assertions import call_ids, calls_in, said
from tests.gateway.running import Running
from tests.gateway.scripts import (
    ANTHROPIC,
    READ_ARGUMENTS,
    RESPONSES,
    RICH,
    STOP,
    THOUGHT,
    TOOL_CALLS,
    TOOLS,
    WORDS,
    WRITE_ARGUMENTS,
    body,
    call,
    calls,
    message_end,
    message_start,
    rich_responses,
    text,
    text_block,
    tool_block,
    typed,
)
from tests.gateway.stored_responses import (
    LOOK,
)
from tests.gateway.upstream import (
    USAGE,
    ScriptedUpstream,
    frames,
    streamed,
)

Json = dict[str, Any]


# ask A2

KINDS = ("text", "reasoning", "refusal", "read", "write", "empty")


def said_by(kind: str, place: int) -> list[Json]:
    """An answer with one item of this kind, in two pieces where possible."""
    if kind in ("read", "write"):
        return [calls(call(place, f"call_{place}", kind, '{"x"')), calls(call(place, arguments=":1}"))]
    if kind == "empty":
        return [chat_chunk({"content": ""})]
    field = {"text": "content", "reasoning": "reasoning_content", "refusal": "refusal"}[kind]
    return [chat_chunk({field: f"{kind}"}), chat_chunk({field: f" {place}."})]


def assert_opened_and_closed(events: list[Json]) -> None:
    """Independent of the checker: every event of an item is between its `added` and its `done`."""
    opened: list[str] = []
    closed: list[str] = []
    for event in events:
        match event["type"]:
            case "response.output_item.added":
                assert event["item"]["id"] not in opened
                assert event["output_index"] == len(opened)
                opened.append(event["item"]["id"])
            case "response.output_item.done":
                assert opened[event["output_index"]] == event["item"]["id"]
                closed.append(event["item"]["id"])
            case _ if "item_id" in event:
                assert opened[event["output_index"]] == event["item_id"]
                assert event["item_id"] not in closed
    assert Counter(opened) == Counter(closed)
    assert [item["id"] for item in events[-1]["response"]["output"]] == opened


@pytest.mark.parametrize("first", KINDS)
def test_every_order_of_kinds_opens_and_closes_each_item_once(local: LocalGateway, first: str) -> None:
    """Each kind after each other kind, and back again."""
    orders = [(first,), *product([first], KINDS), *((first, other, first) for other in KINDS)]
    for order in orders:
        chunks = [each for place, kind in enumerate(order) for each in said_by(kind, place)]
        local.play("orders", frames(*chunks, STOP, USAGE))
        reply = local.stream("orders", tools=TOOLS)
        assert reply.types[-1] == "response.completed", order
        assert_opened_and_closed(reply.events)
        wanted = "".join(f"{kind} {place}." for place, kind in enumerate(order) if kind in KINDS[:3])
        texts = [text for kind, text in said(reply.last) if kind != "function_call"]
        assert "".join(texts) == wanted, order
        assert "" not in texts, order
        assert [name for name, _ in calls_in(reply.last)] == [k for k in order if k in ("read", "write")]


@pytest.mark.parametrize("before", [[], text_block(0), text_block(0, "")])
def test_a_call_without_text_makes_no_message(
    penstock: Running, upstream: ScriptedUpstream, before: list[Json]
) -> None:
    found = [message_start(), *before, *tool_block(1, "call_r", "read", '{"x":1}'), *message_end("tool_use")]
    upstream.play(ANTHROPIC, body(typed(found)))
    reply = penstock.stream(ANTHROPIC, tools=TOOLS)
    assert [item["type"] for item in reply.last["output"]] == ["function_call"]
    assert_opened_and_closed(reply.events)


# ask A3


def rotated() -> list[Json]:
    """The same answer from a server that invents a new id whenever it names an item, or the response."""
    number = count()
    events = deepcopy(rich_responses())
    for event in events:
        for holder, name in (
            (event, "item_id"),
            (event.get("item", {}), "id"),
            (event.get("response", {}), "id"),
        ):
            if name in holder:
                holder[name] = f"rotating_{next(number)}"
        for item in event.get("response", {}).get("output", []):
            item["id"] = f"rotating_{next(number)}"
    return events


def test_rotating_upstream_ids_become_one_id(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play(RESPONSES, body(typed(rotated())))
    reply = penstock.stream(RESPONSES, tools=TOOLS)
    assert reply.types[-1] == "response.completed"
    assert_opened_and_closed(reply.events)
    assert [kind for kind, _ in said(reply.last)] == ["message", "function_call", "function_call"]
    assert calls_in(reply.last) == [("read", READ_ARGUMENTS), ("write", WRITE_ARGUMENTS)]
    assert "rotating" not in reply.body.decode()
    prefixes = [item["id"].partition("_")[0] for item in reply.last["output"]]
    assert prefixes == ["msg", "fc", "fc"]


@pytest.mark.parametrize("model", RICH)
def test_one_response_has_one_id_and_one_call_has_one_call_id(
    penstock: Running, upstream: ScriptedUpstream, model: str
) -> None:
    upstream.play(model, body(RICH[model]()))
    reply = penstock.stream(model, tools=TOOLS)
    ids = {event["response"]["id"] for event in reply.events if "response" in event}
    assert len(ids) == 1
    assert ids.pop().startswith("resp_")
    assert all(len(item["id"]) <= 64 for item in reply.last["output"])
    for item in reply.last["output"]:
        found = [event["item"] for event in reply.events if event.get("item", {}).get("id") == item["id"]]
        assert len(found) == 2
        assert {each.get("call_id") for each in found} == {item.get("call_id")}
        assert {each["type"] for each in found} == {item["type"]}


# ask A4


@pytest.mark.parametrize("model", RICH)
def test_every_part_is_opened_before_its_deltas_and_closed_with_their_sum(
    penstock: Running, upstream: ScriptedUpstream, model: str
) -> None:
    upstream.play(model, body(RICH[model]()))
    reply = penstock.stream(model, tools=TOOLS)
    sums: dict[tuple[str, int], str] = {}
    closed = []
    for event in reply.events:
        place = (event.get("item_id", ""), event.get("content_index", -1))
        match event["type"]:
            case "response.content_part.added":
                assert place not in sums
                assert event["part"].get("text", "") == ""
                sums[place] = ""
            case "response.output_text.delta" | "response.reasoning.delta":
                sums[place] += event["delta"]
            case "response.output_text.done" | "response.reasoning.done":
                assert event["text"] == sums[place]
            case "response.content_part.done":
                assert event["part"]["text"] == sums[place]
                closed.append(place)
    assert sorted(closed) == sorted(sums)
    assert list(sums.values()) == ([THOUGHT, WORDS] if model != RESPONSES else [WORDS])


@pytest.fixture(scope="module")
def openai_client(penstock: Running) -> Any:
    with OpenAI(base_url=f"{penstock.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.mark.parametrize("model", RICH)
def test_openai_pythons_helper_reads_every_dialect(
    openai_client: OpenAI, upstream: ScriptedUpstream, model: str
) -> None:
    """It raises for a part that was not opened, and requires `created` first."""
    upstream.play(model, body(RICH[model]()))
    tools: Any = TOOLS
    with openai_client.responses.stream(model=model, input="go", tools=tools) as stream:
        deltas = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert final.output_text == deltas == WORDS
    assert [item.type for item in final.output][-2:] == ["function_call", "function_call"]
    assert openai_client.responses.create(model=model, input="go", tools=tools).output_text == WORDS


# ask A5


@pytest.mark.parametrize("output", [[], None, "absent"])
def test_an_upstream_whose_end_has_no_output_keeps_what_it_streamed(
    penstock: Running, upstream: ScriptedUpstream, output: Any
) -> None:
    events = deepcopy(rich_responses())
    if output == "absent":
        del events[-1]["response"]["output"]
    else:
        events[-1]["response"]["output"] = output
    upstream.play(RESPONSES, body(typed(events)))
    for reply in (penstock.stream(RESPONSES, tools=TOOLS), penstock.whole(RESPONSES, tools=TOOLS)):
        assert reply.last["status"] == "completed"
        assert reply.text == WORDS
        assert calls_in(reply.last) == [("read", READ_ARGUMENTS), ("write", WRITE_ARGUMENTS)]


def test_items_that_come_only_at_the_end_are_streamed_once(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    whole = rich_responses()
    upstream.play(RESPONSES, body(typed([*whole[:2], whole[-1]])))
    reply = penstock.stream(RESPONSES, tools=TOOLS)
    deltas = [event["delta"] for event in reply.events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == reply.text == WORDS
    assert calls_in(reply.last) == [("read", READ_ARGUMENTS), ("write", WRITE_ARGUMENTS)]
    assert_opened_and_closed(reply.events)
    assert penstock.whole(RESPONSES, tools=TOOLS).text == WORDS


def test_an_upstream_that_answers_with_a_document_is_streamed(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """Asked for a stream, some servers send the whole response."""
    document = streams.as_lines([rich_responses()[-1]["response"]])
    upstream.play(RESPONSES, body(document, "application/json"))
    reply = penstock.stream(RESPONSES, tools=TOOLS)
    assert reply.text == WORDS
    assert calls_in(reply.last) == [("read", READ_ARGUMENTS), ("write", WRITE_ARGUMENTS)]


@pytest.mark.parametrize("model", RICH)
def test_the_end_has_what_was_streamed(penstock: Running, upstream: ScriptedUpstream, model: str) -> None:
    upstream.play(model, body(RICH[model]()))
    reply = penstock.stream(model, tools=TOOLS)
    done = {e["output_index"]: e["item"] for e in reply.events if e["type"] == "response.output_item.done"}
    assert reply.last["output"] == [done[index] for index in sorted(done)]
    whole = penstock.whole(model, tools=TOOLS)
    assert said(whole.last) == said(reply.last)
    assert call_ids(whole.last) == call_ids(reply.last) == call_ids(reply.last)


# ask G3: ids of items

CUSTOM = {"type": "custom", "name": "draw"}


@pytest.mark.e2e
def test_every_id_has_its_prefix_and_is_short(penstock: Running, upstream: ScriptedUpstream) -> None:
    thought = chat_chunk({"reasoning_content": "hm"})
    entries = [call(0, "call_1", "look", "{}"), call(1, "call_2", "draw", '{"input": "a line"}')]
    script = streamed(thought, *text("hello"), calls(*entries), TOOL_CALLS)
    made = penstock.stream(upstream.play("g3-minted", script), tools=[*LOOK, CUSTOM]).last
    found = {item["type"]: item["id"] for item in made["output"]}
    prefixes = {"reasoning": "rs_", "message": "msg_", "function_call": "fc_", "custom_tool_call": "ctc_"}
    assert {type: id[: len(prefixes[type])] for type, id in found.items()} == prefixes
    assert all(len(id) <= 64 for id in (made["id"], *found.values()))
    assert len(set(found.values())) == 4
