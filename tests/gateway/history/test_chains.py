"""Chains of responses: a request continues an earlier response by its id (ask G1, ask G2)."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.client.server import Script, Step, chunk, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.configs import CONFIG
from tests.gateway.probes import gauge, kill, wait_for
from tests.gateway.running import Reply, Running, gateway
from tests.gateway.scripts import TOOL_CALLS, call, calls, text
from tests.gateway.stored_responses import (
    LOOK,
    calling,
    events_only,
    get,
    id_in,
    sent_to,
)
from tests.gateway.upstream import (
    LAST_CHUNK,
    ScriptedUpstream,
    begun,
    frames,
    rest,
    said,
    streamed,
    until,
)

pytestmark = pytest.mark.e2e


UNKNOWN = "resp_00000000000000000000000000000000"


CALL_IDS = ("call_a", "call_b")


OUTPUTS = [{"type": "function_call_output", "call_id": id, "output": f"seen {id}"} for id in CALL_IDS]


def two_calls(*between: Step) -> Script:
    """A turn with two calls at once, which ends after the steps between."""
    entries = [call(index, id, "look", "{}") for index, id in enumerate(CALL_IDS)]
    return [*begun(calls(*entries)), *between, send(chunk(frames(TOOL_CALLS)) + LAST_CHUNK)]


def answered(running: Running, model: str, id: str) -> Reply:
    """Give the outputs of both calls, with the id of the response that made them."""
    return running.stream(model, OUTPUTS, tools=LOOK, previous_response_id=id)  # type: ignore[arg-type]


# ask G1: chains

SHAPES: dict[str, Any] = {
    "text": "where is it?",
    "items": [{"role": "user", "content": [{"type": "input_text", "text": "where is it?"}]}],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("source", ["created", "completed"])
def test_outputs_follow_at_once_with_the_id_of_any_event(
    penstock: Running, upstream: ScriptedUpstream, source: str, shape: str
) -> None:
    opened = threading.Event()
    model = upstream.play(f"g1-{source}-{shape}", two_calls(until(opened)), streamed(*said("there")))
    replies: list[Reply] = []
    with penstock.live(model, SHAPES[shape], tools=LOOK, instructions="be brief") as live:
        id = id_in(live)
        if source == "completed":
            opened.set()
            id = live.rest().last["id"]
        following = threading.Thread(target=lambda: replies.append(answered(penstock, model, id)))
        following.start()
        opened.set()
        following.join(20)
        if source == "created":
            assert live.rest().last["status"] == "completed"
    [reply] = replies
    assert (reply.text, reply.last["instructions"]) == ("there", None)
    messages = upstream.asked_for(model)[1].json["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "tool", "tool"]
    assert [each["id"] for each in messages[1]["tool_calls"]] == list(CALL_IDS)
    assert [each["content"] for each in messages[2:]] == ["seen call_a", "seen call_b"]


def test_a_chain_goes_on_after_the_gateway_was_killed(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    """No set-up, no warning: what was reported completed is there after SIGKILL."""
    config = CONFIG.format(url=upstream.url)
    model = upstream.play("g1-killed", two_calls(), streamed(*said("there")), streamed(*said("still there")))
    with gateway(tmp_path, config=config) as running:
        first = running.stream(model, "where is it?", tools=LOOK, instructions="be brief").last["id"]
        kill(running)
    with gateway(tmp_path, config=config) as running:
        second = answered(running, model, first).last["id"]
        kill(running)
    with gateway(tmp_path, config=config) as running:
        assert running.stream(model, "and now?", previous_response_id=second).text == "still there"
    roles = [role for role, _ in sent_to(upstream, model, 2)]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "user"]


# ask G2: VS Code's stateful marker


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("id", [UNKNOWN, "not-one-of-ours", "x" * 300, "chatcmpl-1"])
def test_an_unknown_id_is_a_400_with_its_code(penstock: Running, stream: bool, id: str) -> None:
    reply = penstock.ask({"model": "demo", "input": "x", "previous_response_id": id, "stream": stream})
    assert (reply.status, reply.error["code"]) == (400, "previous_response_not_found")


def test_a_shortened_history_goes_on_from_an_answer_that_was_cut_off(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """The host sends only what came after its marker; how the turn before ended does not matter."""
    cut_off = streamed(*text("half of"), chat_chunk(finish="length"))
    model = upstream.play("g2-cut", cut_off, streamed(*said("the rest")))
    first = penstock.stream(model, "tell me").last
    assert first["status"] == "incomplete"
    assert penstock.stream(model, "go on", previous_response_id=first["id"]).text == "the rest"
    assert sent_to(upstream, model, 1) == [("user", "tell me"), ("assistant", "half of"), ("user", "go on")]


def test_a_follow_up_whose_client_left_waits_no_longer(penstock: Running, upstream: ScriptedUpstream) -> None:
    opened = threading.Event()
    upstream.play("awaited", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
    with penstock.live("awaited") as live:
        id = id_in(live)
        before = gauge(penstock, "penstock_tasks")
        waiting = []
        for _ in range(10):
            connection = penstock.connect()
            body = json.dumps({"model": "never-asked", "input": "x", "previous_response_id": id})
            connection.request("POST", "/v1/responses", body, {"content-type": "application/json"})
            waiting.append(connection)
        wait_for(lambda: gauge(penstock, "penstock_tasks") >= before + 10)
        for connection in waiting:
            connection.close()
        wait_for(lambda: gauge(penstock, "penstock_tasks") <= before)
        opened.set()
        assert live.rest().last["status"] == "completed"
    assert upstream.asked_for("never-asked") == []


def test_a_response_continues_another(penstock: Running, upstream: ScriptedUpstream) -> None:
    """Ask G1: input and output of the chain in their order, instructions not inherited; and it branches."""
    model = upstream.play("chained", *(streamed(*said(f"answer {number}")) for number in "1234"))
    first = penstock.stream(model, "question 1", instructions="be brief").last["id"]
    second = penstock.whole(model, "question 2", previous_response_id=first).last
    assert (second["previous_response_id"], second["instructions"]) == (first, None)
    turns = [("user", "question 1"), ("assistant", "answer 1")]
    assert sent_to(upstream, model, 1) == [*turns, ("user", "question 2")]
    penstock.whole(model, "question 3", previous_response_id=second["id"])
    more = [("user", "question 2"), ("assistant", "answer 2"), ("user", "question 3")]
    assert sent_to(upstream, model, 2) == [*turns, *more]
    penstock.stream(model, "another way", previous_response_id=first)
    assert sent_to(upstream, model, 3) == [*turns, ("user", "another way")]


def test_a_tool_loop_goes_on_with_its_outputs_alone(penstock: Running, upstream: ScriptedUpstream) -> None:
    model = upstream.play("tool-chain", calling("call_a"), streamed(*said("done")))
    first = penstock.stream(model, tools=LOOK).last
    output = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "seen"}
    body = {"model": model, "input": [output], "tools": LOOK, "previous_response_id": first["id"]}
    assert penstock.ask(body).text == "done"
    assert [role for role, _ in sent_to(upstream, model, 1)] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("type", ["function_call_output", "custom_tool_call_output"])
def test_an_output_without_its_call_is_refused_in_a_chain(penstock: Running, type: str) -> None:
    first = penstock.whole("demo").last["id"]
    output = {"type": type, "call_id": "nowhere", "output": "x"}
    items = [{"role": "user", "content": "x"}, output]
    reply = penstock.ask({"model": "demo", "input": items, "previous_response_id": first})
    assert (reply.status, reply.error["param"]) == (400, "input[1].call_id")


def test_a_turn_that_still_runs_can_be_continued(penstock: Running, upstream: ScriptedUpstream) -> None:
    """Decision 17: from the id in `response.created`; the follow-up waits for the end."""
    opened = threading.Event()
    model = upstream.play("early", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
    with penstock.live(model, "first") as live:
        id = id_in(live)
        replies: list[Reply] = []
        following = threading.Thread(
            target=lambda: replies.append(penstock.stream("early-2", "second", previous_response_id=id))
        )
        upstream.play("early-2", streamed(*said("next")))
        following.start()
        assert not upstream.asked_for("early-2")
        opened.set()
        assert live.rest().text == "ab"
        following.join(20)
    assert replies[0].text == "next"
    assert sent_to(upstream, "early-2", 0) == [("user", "first"), ("assistant", "ab"), ("user", "second")]


def test_a_chain_branches_and_outlives_the_process(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    """Ask G1: across a restart, without any set-up."""
    config = f'passthrough = "chat"\n[targets.chat]\nbase_url = "{upstream.url}/v1"\n'
    model = upstream.play("restarted", streamed(*said("root answer")), streamed(*said("left answer")))
    with gateway(tmp_path, config=config) as running:
        root = running.whole(model, "root").last["id"]
        left = running.stream(model, "left", previous_response_id=root)
        assert running.stop() == 0
    with gateway(tmp_path, config=config) as running:
        assert get(running, left.last["id"]).json == left.last
        assert get(running, f"{left.last['id']}?stream=true").body == events_only(left.body)
        reference = {"type": "item_reference", "id": left.last["output"][0]["id"]}
        running.ask({"model": model, "input": [reference], "previous_response_id": root})
    whole = [("user", "root"), ("assistant", "root answer\n\nleft answer")]
    assert sent_to(upstream, model, 2) == whole
