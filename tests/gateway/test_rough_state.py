"""What a review that broke things on purpose found in the state: each of it once more."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.gateway.http.access import create_key
from tests.client.server import chunk as http_chunk
from tests.client.server import send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.clients import RawClient
from tests.gateway.probes import gauge, wait_for
from tests.gateway.running import SECRET_KEY, Running, gateway
from tests.gateway.stored_responses import LOOK, calling, get, id_in, sent_to
from tests.gateway.upstream import (
    SSE_HEAD,
    Flood,
    ScriptedUpstream,
    begun,
    frames,
    rest,
    said,
    streamed,
    until,
    until_gone,
)
from tests.gateway.websocket_client import talking

pytestmark = pytest.mark.e2e

CONFIG = """
passthrough = "chat"
[limits]
patience = 0.2
comment_every = 0.2
retries = 0
client_timeout = 1
disconnect_grace = {grace}
[targets.chat]
base_url = "{url}/v1"
"""


PIECES = 600


def flooding(upstream: ScriptedUpstream, model: str) -> None:
    """More than the system holds in its sockets, and then silence."""
    flood = Flood(http_chunk(frames(*[chat_chunk({"content": "x" * 20_000})], done=False)), PIECES)
    upstream.play(model, [send(SSE_HEAD), flood, until_gone(threading.Event())])


def test_a_turn_that_is_cancelled_while_its_client_does_not_read_ends(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    flooding(upstream, "stuck")
    with gateway(tmp_path, config=CONFIG.format(url=upstream.url, grace=0)) as running:
        client = RawClient(running, "stuck", buffer=8192)
        head = client.read_until(b"response.output_text.delta")
        id = head.partition(b'"id":"')[2].partition(b'"')[0].decode()
        assert running.ask(path=f"/v1/responses/{id}/cancel").json["status"] == "cancelled"
        assert running.verdict(client.request_id)["outcome"] == "cancelled"
        wait_for(lambda: gauge(running, "penstock_turns_running") == 0)
        client.leave()


def test_a_dead_connection_does_not_end_the_turn_of_who_came_back(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    """Ask G6: a network that went away sends no farewell."""
    flooding(upstream, "half-open")
    with gateway(tmp_path, config=CONFIG.format(url=upstream.url, grace=600)) as running:
        client = RawClient(running, "half-open", buffer=8192)
        head = client.read_until(b"response.output_text.delta")
        id = head.partition(b'"id":"')[2].partition(b'"')[0].decode()
        connection = running.connect()
        connection.request("GET", f"/v1/responses/{id}?stream=true")
        came = 0
        while came < PIECES * 20_000:  # all that the upstream said, behind what the dead one could take
            came += len(connection.sock.recv(1 << 20))
        assert get(running, id).json["status"] == "in_progress"
        assert running.ask(path=f"/v1/responses/{id}/cancel").json["status"] == "cancelled"
        assert running.verdict(client.request_id)["left"] is True
        connection.close()
        client.leave()


@pytest.mark.parametrize("options", [(), ("--store", "none")], ids=["file", "memory"])
def test_a_conversation_is_read_whole_whatever_its_ids(
    upstream: ScriptedUpstream, tmp_path: Path, options: tuple[str, ...]
) -> None:
    upstream.play("whole-talk", streamed(*said("ok")))
    with gateway(tmp_path, *options, config=CONFIG.format(url=upstream.url, grace=0)) as running:
        talk = running.ask({}, "/v1/conversations").json["id"]
        items = [{"role": "user", "content": f"number {number}"} for number in range(1400)]
        items[999]["id"] = items[1300]["id"] = "msg_twice"
        for begin in range(0, len(items), 20):
            running.ask({"items": items[begin : begin + 20]}, f"/v1/conversations/{talk}/items")
        running.stream("whole-talk", "and now?", conversation=talk)
    sent = [content for _, content in sent_to(upstream, "whole-talk", 0)]
    assert len(sent) == 1401


def test_new_words_under_a_known_id_are_new(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("same-id", *[streamed(*said("ok"))] * 2)
    message = {"type": "message", "id": "msg_mine", "role": "user"}
    first = penstock.stream("same-id", input=[{**message, "content": "first"}]).last["id"]
    penstock.stream("same-id", input=[{**message, "content": "second"}], previous_response_id=first)
    assert [content for _, content in sent_to(upstream, "same-id", 1)] == ["first", "ok", "second"]


def test_another_output_of_a_call_takes_the_place_of_the_first(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play("corrected", calling("call_c"), *[streamed(*said("ok"))] * 3)
    output = {"type": "function_call_output", "call_id": "call_c"}
    last = penstock.stream("corrected", tools=LOOK).last["id"]
    for told in ("old", "new"):
        answered = [{**output, "output": told}]
        last = penstock.stream("corrected", input=answered, previous_response_id=last).last["id"]
    penstock.stream("corrected", "and now?", previous_response_id=last)
    for asked in upstream.asked_for("corrected")[2:]:
        assert [each["content"] for each in asked.json["messages"] if each["role"] == "tool"] == ["new"]


def test_a_whole_history_beside_an_id_counts_once(penstock: Running, upstream: ScriptedUpstream) -> None:
    """Ask G9, for items that have no ids."""
    upstream.play("again-whole", *[streamed(*said("ok"))] * 2)
    first = penstock.stream("again-whole", "one").last["id"]
    history = [
        {"role": "user", "content": [{"type": "input_text", "text": "one"}]},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "one"},
    ]
    penstock.stream("again-whole", input=history, previous_response_id=first)
    assert [content for _, content in sent_to(upstream, "again-whole", 1)] == ["one", "ok", "one"]


def test_a_stored_turn_holds_what_only_its_socket_remembered(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play("from-socket", *[streamed(*said("ok"))] * 3)
    with talking(penstock) as talk:
        first = talk.response("from-socket", "one", store=False)["id"]
        second = talk.response("from-socket", "two", previous_response_id=first)["id"]
    penstock.stream("from-socket", "three", previous_response_id=second)
    sent = [content for _, content in sent_to(upstream, "from-socket", 2)]
    assert sent == ["one", "ok", "two", "ok", "three"]


def test_frames_that_wait_are_bounded_in_bytes(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    gone = threading.Event()
    upstream.play("ws-large", [*begun(chat_chunk({"content": "a"})), until_gone(gone)])
    config = CONFIG.format(url=upstream.url, grace=0).replace(
        "retries = 0", 'retries = 0\nbody_bytes = "1MiB"'
    )
    with gateway(tmp_path, config=config) as running, talking(running) as talk:
        talk.ask("ws-large")
        while json.loads(talk.socket.recv(15))["type"] != "response.output_text.delta":
            pass
        for _ in range(3):
            talk.ask("ws-large", "x" * 900_000)
        assert gone.wait(10), "it was let go"
        assert len(upstream.asked_for("ws-large")) == 1


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


def test_secrets_inside_of_namespaces_and_addresses_are_secrets(penstock: Running) -> None:
    server = {
        "type": "mcp",
        "server_label": "files",
        "server_url": f"https://user:{SECRET_KEY}@127.0.0.1/mcp?key={SECRET_KEY}",
        "authorization": SECRET_KEY,
    }
    inside = {"type": "namespace", "name": "files", "tools": [server]}
    first = penstock.stream("demo", tools=[server, inside], api_key=SECRET_KEY)
    kept = get(penstock, first.last["id"])
    for reply in (first, kept):
        assert SECRET_KEY.encode() not in reply.body
    assert first.last["tools"][0]["server_url"] == "https://127.0.0.1/mcp"


def test_a_compaction_replaces_what_a_chain_had_before_it(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play(
        "compacted-chain", streamed(*said("ok")), streamed(*said("THE SUMMARY")), streamed(*said("ok"))
    )
    given = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "one"}]
    first = penstock.stream("compacted-chain", input=given).last["id"]
    trigger = [{"type": "compaction_trigger"}]
    second = penstock.stream("compacted-chain", input=trigger, previous_response_id=first).last["id"]
    penstock.stream("compacted-chain", "two", previous_response_id=second)
    instructed, summary, new = [content for _, content in sent_to(upstream, "compacted-chain", 2)]
    assert (instructed, new) == ("be brief", "two")
    assert "THE SUMMARY" in summary


def test_turns_of_a_conversation_wait_for_each_other(penstock: Running, upstream: ScriptedUpstream) -> None:
    opened = threading.Event()
    upstream.play("slow-talk", [*begun(chat_chunk({"content": "slow "})), until(opened), rest("answer")])
    upstream.play("quick-talk", streamed(*said("quick")))
    talk = penstock.ask({}, "/v1/conversations").json["id"]
    replies: list[Any] = []
    with penstock.live("slow-talk", "first", conversation=talk) as live:
        live.until(b"response.output_text.delta")
        asking = threading.Thread(
            target=lambda: replies.append(penstock.stream("quick-talk", "second", conversation=talk))
        )
        asking.start()
        wait_for(lambda: gauge(penstock, "penstock_tasks") > 4)
        assert upstream.asked_for("quick-talk") == []
        opened.set()
        live.rest()
    asking.join(20)
    assert [content for _, content in sent_to(upstream, "quick-talk", 0)] == [
        "first",
        "slow answer",
        "second",
    ]


def test_what_is_not_stored_says_that_its_conversation_lacks_it(penstock: Running) -> None:
    talk = penstock.ask({}, "/v1/conversations").json["id"]
    told = penstock.stream("demo", conversation=talk, store=False).last["diagnostics"]
    assert any("is not added to its conversation" in each["message"] for each in told)


def test_a_key_cannot_be_called_as_the_tenant_without_keys(tmp_path: Path) -> None:
    _, entry = create_key("local")
    with pytest.raises(AssertionError, match="local"), gateway(tmp_path, config=entry):
        pass
