"""What users ask of stored state (ask G1 to ask G8), against a real process.

What of it is tested elsewhere is not repeated here: ask G9 and resuming by several in `test_state`, the
forms of compaction in `test_compaction`, the bounds of the store in tests/store.
"""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.client.server import Script, Step, chunk, cut, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.configs import CONFIG
from tests.gateway.probes import wait_for
from tests.gateway.running import Live, Reply, Running, gateway
from tests.gateway.scripts import RESPONSES, TOOL_CALLS, body, call, calls, rich_responses, text, typed
from tests.gateway.stored_responses import LOOK, TEXT_DELTA, begin, ended, events_only, get, id_in, sent_to
from tests.gateway.upstream import (
    LAST_CHUNK,
    ScriptedUpstream,
    begun,
    frames,
    rest,
    said,
    streamed,
    until,
    until_gone,
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


def kill(running: Running) -> None:
    running.process.kill()
    running.process.wait(10)


# ask G1: chains

SHAPES: dict[str, Any] = {
    "text": "where is it?",
    "items": [{"role": "user", "content": [{"type": "input_text", "text": "where is it?"}]}],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("source", ["created", "completed"])
def test_g1_d23_outputs_follow_at_once_with_the_id_of_any_event(
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


def test_g1_w04_a_chain_goes_on_after_the_gateway_was_killed(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
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


@pytest.mark.parametrize("store", [True, False])
def test_d23_g2_what_is_stored_is_told_truthfully_in_every_snapshot(penstock: Running, store: bool) -> None:
    reply = penstock.stream("demo", "say exactly: ok", store=store)
    snapshots = [event["response"] for event in reply.events if "response" in event]
    assert [each["store"] for each in snapshots] == [store] * len(snapshots)
    assert [each["id"][:5] for each in snapshots] == ["resp_"] * len(snapshots)
    assert get(penstock, reply.last["id"]).status == (200 if store else 404)


# ask G2: VS Code's stateful marker


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("id", [UNKNOWN, "not-one-of-ours", "x" * 300, "chatcmpl-1"])
def test_g2_an_unknown_id_is_a_400_with_its_code(penstock: Running, stream: bool, id: str) -> None:
    reply = penstock.ask({"model": "demo", "input": "x", "previous_response_id": id, "stream": stream})
    assert (reply.status, reply.error["code"]) == (400, "previous_response_not_found")


def test_g2_a_shortened_history_goes_on_from_an_answer_that_was_cut_off(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """The host sends only what came after its marker; how the turn before ended does not matter."""
    cut_off = streamed(*text("half of"), chat_chunk(finish="length"))
    model = upstream.play("g2-cut", cut_off, streamed(*said("the rest")))
    first = penstock.stream(model, "tell me").last
    assert first["status"] == "incomplete"
    assert penstock.stream(model, "go on", previous_response_id=first["id"]).text == "the rest"
    assert sent_to(upstream, model, 1) == [("user", "tell me"), ("assistant", "half of"), ("user", "go on")]


# ask G3: ids of items

CUSTOM = {"type": "custom", "name": "draw"}


def test_g3_every_id_has_its_prefix_and_is_short(penstock: Running, upstream: ScriptedUpstream) -> None:
    thought = chat_chunk({"reasoning_content": "hm"})
    entries = [call(0, "call_1", "look", "{}"), call(1, "call_2", "draw", '{"input": "a line"}')]
    script = streamed(thought, *text("hello"), calls(*entries), TOOL_CALLS)
    made = penstock.stream(upstream.play("g3-minted", script), tools=[*LOOK, CUSTOM]).last
    found = {item["type"]: item["id"] for item in made["output"]}
    prefixes = {"reasoning": "rs_", "message": "msg_", "function_call": "fc_", "custom_tool_call": "ctc_"}
    assert {type: id[: len(prefixes[type])] for type, id in found.items()} == prefixes
    assert all(len(id) <= 64 for id in (made["id"], *found.values()))
    assert len(set(found.values())) == 4


IDS: dict[str, Any] = {
    "foreign": "msg_01XFDUDYJgAACzvnptvVoYEL",
    "of another type": "rs_not_a_message",
    "uuid": "5c1d3a0e-9a55-4d8f-8d0c-1f1e6b1a2c3d",
    "missing": None,
    "oversized": "msg_" + "f" * 500,
    "odd": "id with spaces/ä?%00",
}


@pytest.mark.parametrize("name", IDS)
def test_g3_any_id_in_a_history_is_taken(penstock: Running, upstream: ScriptedUpstream, name: str) -> None:
    """An old task of another provider must not be dead for ever."""
    model = upstream.play(f"g3-{name}", streamed(*said("ok")))
    id = {} if IDS[name] is None else {"id": IDS[name]}
    said_before = {
        "role": "assistant",
        "content": [{"type": "output_text", "text": "hi"}],
        "status": "completed",
    }
    history = [
        {"type": "message", "role": "user", "content": "hello", **id},
        {"type": "message", **said_before, **id},
        {"type": "reasoning", "summary": [], **id},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}", **id},
        {"type": "function_call_output", "call_id": "call_1", "output": "seen", **id},
    ]
    made = penstock.ask({"model": model, "input": history, "tools": LOOK}).last
    assert made["status"] == "completed"
    kept = get(penstock, f"{made['id']}/input_items?order=asc").json["data"]
    assert [item["type"] for item in kept] == [item["type"] for item in history]
    assert all(0 < len(item["id"]) <= 64 for item in kept)
    penstock.whole(model, "go on", previous_response_id=made["id"])
    first, second = ([role for role, _ in sent_to(upstream, model, number)] for number in range(2))
    assert second == [*first, "assistant", "user"]
    if id:
        assert json.dumps(IDS[name]).encode() not in upstream.asked_for(model)[0].body


def test_g3_a_reference_never_reaches_an_upstream(penstock: Running, upstream: ScriptedUpstream) -> None:
    """Not even one that has references of its own: ours mean nothing there."""
    upstream.play(RESPONSES, body(typed(rich_responses())))
    made = penstock.whole(RESPONSES, "hello").last
    [message] = [item for item in made["output"] if item["type"] == "message"]
    before = len(upstream.asked_for(RESPONSES))
    unknown = [{"type": "item_reference", "id": "msg_none"}]
    refused = penstock.ask({"model": RESPONSES, "input": unknown})
    assert (refused.status, refused.error["code"]) == (400, "item_not_found")
    assert "msg_none" in refused.error["message"]
    assert len(upstream.asked_for(RESPONSES)) == before
    references = [{"type": "item_reference", "id": message["id"]}, {"role": "user", "content": "again"}]
    assert penstock.ask({"model": RESPONSES, "input": references}).status == 200
    asked = upstream.asked_for(RESPONSES)[-1]
    assert b"item_reference" not in asked.body
    assert asked.json["input"][0]["content"][0]["text"] == message["content"][0]["text"]


# ask G4: compaction

TRIGGER = {"type": "compaction_trigger"}
FOREIGN = {"type": "compaction", "id": "cmp_foreign", "encrypted_content": "gAAAAABforeign"}


@pytest.mark.parametrize("way", ["endpoint", "trigger", "trigger, streamed"])
def test_g4_w02_any_model_compacts_and_reads_its_own(
    penstock: Running, upstream: ScriptedUpstream, way: str
) -> None:
    model = upstream.play(f"g4-{way}", streamed(*said("the lamp is blue")), streamed(*said("blue")))
    history = [{"role": "user", "content": "which lamp?"}]
    if way == "endpoint":
        output = penstock.ask({"model": model, "input": history}, "/v1/responses/compact").json["output"]
    else:
        asked = {"model": model, "input": [*history, TRIGGER], "stream": "streamed" in way}
        output = penstock.ask(asked).last["output"]
    assert [item["type"] for item in output] == ["compaction"]
    assert "lamp" not in output[0]["encrypted_content"]
    given = [FOREIGN, *output, {"role": "user", "content": "which colour?"}]
    reply = penstock.ask({"model": model, "input": given})
    assert reply.text == "blue"
    assert "compaction_unreadable" in reply.headers["x-penstock-diagnostics"]
    [(_, summary), (_, question)] = sent_to(upstream, model, 1)
    assert "the lamp is blue" in summary
    assert question == "which colour?"
    assert b"foreign" not in upstream.asked_for(model)[1].body


# ask G6: a dropped stream


def number_of(live: Live) -> int:
    """The number of the last whole event that a client has read."""
    return int(re.findall(rb'"sequence_number":(\d+)', live.body.rpartition(b"\n\n")[0])[-1])


def test_g6_w05_a_dropped_stream_goes_on_and_is_paid_for_once(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """The client is cut off behind event 17; it comes back while the turn runs, and again after its end."""
    opened = threading.Event()
    words = text(*(f"{number} " for number in range(20)))
    model = upstream.play("g6", [*begun(*words), until(opened), rest("the end")])
    with penstock.live(model, background=True) as live:
        id = id_in(live)
        live.until(b'"sequence_number":17,')
    connection = penstock.connect()
    connection.request("GET", f"/v1/responses/{id}?stream=true&starting_after=17")
    reply = connection.getresponse()
    first_line = reply.readline()  # it runs still
    opened.set()
    resumed = events_only(first_line + reply.read())
    whole = get(penstock, f"{id}?stream=true")
    assert whole.text == "".join(f"{number} " for number in range(20)) + "the end"
    assert number_of(live) >= 17
    assert events_only(whole.body).endswith(resumed)
    assert json.loads(resumed.split(b"\n")[1].removeprefix(b"data: "))["sequence_number"] == 18
    connection.request("GET", f"/v1/responses/{id}?stream=true&starting_after=17")
    assert connection.getresponse().read() == resumed
    connection.close()
    assert len(upstream.asked_for(model)) == 1


def test_g5_g6_what_is_not_kept_any_more_is_a_typed_error(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    """The store has a bound: what had to go is answered as an id that never was, and the rest goes on."""
    config = CONFIG.format(url=upstream.url)
    model = upstream.play("g6-expired", streamed(*said("ok")))
    with gateway(tmp_path, config=config) as running:
        made = running.stream(model, "hello").last
        assert get(running, made["id"]).status == 200
    bounded = config.replace("[limits]", '[limits]\nstore_bytes = "1B"')
    with gateway(tmp_path, config=bounded) as running:
        wait_for(lambda: get(running, made["id"]).status == 404)
        for path in ("", "?stream=true&starting_after=2", "/input_items"):
            gone = get(running, f"{made['id']}{path}")
            assert (gone.status, gone.error["code"]) == (404, "response_not_found")
        follow = running.stream(model, "x", previous_response_id=made["id"])
        assert (follow.status, follow.error["code"]) == (400, "previous_response_not_found")
        assert running.stream(model, "hello").text == "ok"


# ask G7: retrieve, delete, cancel


@pytest.mark.parametrize("id", [UNKNOWN, "nonsense", "x" * 300, "%2e%2e", "resp_%00"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "?stream=true"),
        ("GET", "?stream=true&starting_after=5"),
        ("DELETE", ""),
        ("POST", "/cancel"),
        ("GET", "/input_items"),
    ],
)
def test_g7_an_unknown_id_is_a_404_in_json(penstock: Running, id: str, method: str, path: str) -> None:
    reply = penstock.ask(path=f"/v1/responses/{id}{path}", method=method)
    assert reply.headers["content-type"] == "application/json"
    assert (reply.status, reply.error["code"]) == (404, "response_not_found")


def test_g7_to_cancel_what_has_ended_changes_nothing(penstock: Running) -> None:
    made = penstock.whole("demo", "say exactly: ok").last
    for _ in range(2):
        reply = penstock.ask(path=f"/v1/responses/{made['id']}/cancel")
        assert (reply.status, reply.json) == (200, made)


# ask G8: what was interrupted


def test_g8_what_was_interrupted_says_so_and_keeps_what_had_come(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    """The upstream, the client and the gateway are ended in the middle of a sentence."""
    config, gone = CONFIG.format(url=upstream.url), threading.Event()
    half = begun(*text("half of it"))
    broken = upstream.play("g8-upstream", [*half, cut])
    left = upstream.play("g8-client", [*half, until_gone(gone)])
    killed = upstream.play("g8-gateway", [*half, until_gone(threading.Event())])
    with gateway(tmp_path, config=config) as running:
        ids = [running.stream(broken).last["id"]]
        with running.live(left) as live:
            ids.append(id_in(live))
            live.until(TEXT_DELTA)
        assert gone.wait(10)
        ended(running, ids[1])
        with running.live(killed) as live:
            ids.append(id_in(live))
            live.until(TEXT_DELTA)
            ids.append(begin(running, killed)["id"])
            wait_for(lambda: get(running, ids[3]).json["output"])
            kill(running)
    with gateway(tmp_path, config=config) as running:
        kept = [get(running, id).json for id in ids]
        streams = [get(running, f"{id}?stream=true") for id in ids]
    assert [each["status"] for each in kept] == ["failed", "cancelled", "failed", "failed"]
    assert [each["error"]["code"] for each in kept[2:]] == ["gateway_restarted"] * 2
    for response, stream in zip(kept, streams, strict=True):
        assert stream.last["output"] == response["output"]
    for response in kept[:3]:
        [item] = response["output"]
        assert (item["status"], item["content"][0]["text"]) == ("incomplete", "half of it")
