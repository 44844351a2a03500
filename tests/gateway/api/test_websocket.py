"""Responses over a WebSocket (spec N9 to spec N26, decision 9, decision 14, decision 18), checked frame by
frame."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from penstock.errors import ServerError
from penstock.gateway.api.websocket import Socket
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import create_key
from penstock.gateway.settings import ClientKey, Limits, Settings
from penstock.protocol.events import TERMINAL
from penstock.store.memory import MemoryStore
from tests.client.server import answer, chunk, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.configs import CONFIG
from tests.gateway.fake_upstreams import FakeUpstream, paused_upstream
from tests.gateway.fake_upstreams import answer as text_answer
from tests.gateway.in_process import chain, with_gateway
from tests.gateway.probes import wait_for
from tests.gateway.running import Json, Running, gateway
from tests.gateway.stored_responses import sent_to
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
from tests.gateway.websocket_client import Conversation, FakeClient, Talk, talking, upgrade


@pytest.fixture
def talk(penstock: Running) -> Iterator[Talk]:
    with talking(penstock) as talk:
        yield talk


# The tests of the official suite (spec S10)


@pytest.mark.e2e
def test_a_response_comes_as_the_same_events(talk: Talk, penstock: Running) -> None:
    talk.ask("demo", "say exactly: hello")
    events = talk.events()
    assert [each["type"] for each in events] == penstock.stream("demo", "say exactly: hello").types


@pytest.mark.e2e
@pytest.mark.parametrize("store", [True, False])
def test_turns_follow_each_other_on_one_socket(talk: Talk, store: bool) -> None:
    first, second = (talk.response("demo", f"number {number}", store=store) for number in range(2))
    assert first["id"] != second["id"]
    assert first["store"] is second["store"] is store


@pytest.mark.e2e
def test_the_last_response_is_continued_without_having_been_stored(
    talk: Talk, upstream: ScriptedUpstream
) -> None:
    model = upstream.play("ws-chain", *(streamed(*said(each)) for each in ("one", "two", "three")))
    id = talk.response(model, "first", store=False)["id"]
    second = talk.response(model, "second", store=False, previous_response_id=id)
    assert second["previous_response_id"] == id
    talk.response(model, "third", store=False, previous_response_id=second["id"])
    sent = [each["content"] for each in upstream.asked_for(model)[2].json["messages"]]
    assert sent == ["first", "one", "second", "two", "third"]


@pytest.mark.e2e
def test_an_unstored_response_is_unknown_on_another_socket(penstock: Running, talk: Talk) -> None:
    id = talk.response(store=False)["id"]
    with talking(penstock) as other:
        refused = other.refused(store=False, previous_response_id=id)
        assert refused["code"] == "previous_response_not_found"
        assert other.is_usable()


@pytest.mark.e2e
def test_an_unknown_response_is_an_error_envelope(talk: Talk) -> None:
    talk.ask(store=False, previous_response_id="resp_nowhere")
    [envelope] = talk.events()
    assert (envelope["status"], envelope["error"]["code"]) == (400, "previous_response_not_found")
    assert envelope["error"]["param"] == "previous_response_id"
    assert "sequence_number" not in envelope


@pytest.mark.e2e
def test_a_continuation_that_failed_forgets_what_it_continued(talk: Talk) -> None:
    id = talk.response(store=False)["id"]
    output = {"type": "function_call_output", "call_id": "call_nowhere", "output": "x"}
    refused = talk.refused(input=[output], store=False, previous_response_id=id)
    assert refused["param"] == "input[0].call_id"
    again = talk.refused(store=False, previous_response_id=id)
    assert again["code"] == "previous_response_not_found"
    assert talk.is_usable()


# What else may happen


@pytest.mark.e2e
def test_a_stored_response_outlives_its_socket_and_a_failed_continuation(
    penstock: Running, talk: Talk
) -> None:
    id = talk.response()["id"]
    output = {"type": "function_call_output", "call_id": "call_nowhere", "output": "x"}
    assert talk.refused(input=[output], previous_response_id=id)
    assert talk.response(previous_response_id=id)
    assert penstock.ask(path=f"/v1/responses/{id}", method="GET").json["status"] == "completed"
    assert penstock.whole("demo", previous_response_id=id).last["status"] == "completed"
    again = penstock.ask(path=f"/v1/responses/{id}?stream=true", method="GET")
    assert again.types[-1] == "response.completed"


@pytest.mark.e2e
def test_a_tool_loop_over_a_socket(talk: Talk, upstream: ScriptedUpstream) -> None:
    call = {"index": 0, "id": "call_w", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    calling = streamed(chat_chunk({"tool_calls": [call]}), chat_chunk(finish="tool_calls"))
    model = upstream.play("ws-tools", calling, streamed(*said("done")))
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
    first = talk.response(model, tools=tools, store=False)
    output = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "seen"}
    talk.response(model, [output], tools=tools, store=False, previous_response_id=first["id"])
    roles = [each["role"] for each in upstream.asked_for(model)[1].json["messages"]]
    assert roles == ["user", "assistant", "tool"]


@pytest.mark.e2e
def test_turns_sent_together_run_one_after_the_other(talk: Talk) -> None:
    for number in range(5):
        talk.ask("demo", f"say exactly: {number}", store=False)
    for number in range(5):
        output = talk.events()[-1]["response"]["output"]
        assert output[0]["content"][0]["text"] == str(number)


@pytest.mark.e2e
@pytest.mark.parametrize(
    "frame",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"type": "response.cancel"}',
        '{"type": "response.create"}',
        '{"type": "response.create", "model": "demo", "input": 7}',
        '{"type": "response.create", "model": "nobody/knows", "input": "x", "temperature": 99}',
        "[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_wrong_frame_is_an_error_and_the_socket_stays_open(talk: Talk, frame: str | bytes) -> None:
    talk.socket.send(frame)
    [envelope] = talk.events()
    assert envelope["status"] == 400
    assert talk.is_usable()


@pytest.mark.e2e
def test_a_binary_frame_is_accepted(talk: Talk) -> None:
    talk.socket.send(json.dumps({"type": "response.create", "model": "demo", "input": "x"}).encode())
    assert talk.events()[-1]["type"] == "response.completed"


@pytest.mark.e2e
def test_a_failure_before_the_first_event_is_one_error_envelope(
    talk: Talk, upstream: ScriptedUpstream
) -> None:
    busy = [answer(429, {"error": {"message": "slowly"}}, retry_after="7")]
    talk.ask(upstream.play("ws-busy", busy))
    [envelope] = talk.events()
    assert (envelope["status"], envelope["error"]["code"]) == (429, "rate_limit_exceeded")
    assert envelope["headers"] == {"retry-after": "7"}
    assert talk.is_usable()


@pytest.mark.e2e
def test_a_failure_after_the_first_event_is_a_failed_response(talk: Talk, upstream: ScriptedUpstream) -> None:
    broken = streamed(chat_chunk({"content": "half"}), {"error": {"message": "no more"}})
    talk.ask(upstream.play("ws-broken", broken))
    events = talk.events()
    assert events[-1]["type"] == "response.failed"
    assert "error" not in [each["type"] for each in events]
    assert talk.is_usable()


@pytest.mark.e2e
def test_a_client_that_disconnects_ends_the_upstream_and_what_waits(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    model = upstream.play("ws-left", [*begun(chat_chunk({"content": "half"})), until_gone(gone)])
    waiting = upstream.play("ws-left-waiting", streamed(*said("nobody reads it")))
    with talking(penstock) as talk:
        talk.ask(model)
        talk.ask(waiting)
        frame = json.loads(talk.socket.recv(10))
        id = frame["response"]["id"]
        while frame["type"] != "response.output_text.delta":
            frame = json.loads(talk.socket.recv(10))
    assert gone.wait(10)
    wait_for(lambda: _kept(penstock, id)["status"] == "cancelled")
    assert _kept(penstock, id)["output"][0]["content"][0]["text"] == "half"
    assert penstock.whole("demo").status == 200
    assert upstream.asked_for(waiting) == []


def _kept(running: Running, id: str) -> Json:
    kept: Json = running.ask(path=f"/v1/responses/{id}", method="GET").json
    return kept


@pytest.mark.e2e
def test_clients_that_are_cut_off_leave_no_fault_in_the_log(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """They disconnect while events are being sent; the fixture checks the log for faults when it ends."""
    for number in range(10):
        flood = Flood(chunk(frames(*[chat_chunk({"content": "x" * 500})] * 20, done=False)), 50)
        model = upstream.play(f"ws-cut-{number}", [send(SSE_HEAD), flood, until_gone(threading.Event())])
        with talking(penstock) as talk:
            talk.ask(model)
            for _ in range(5 + number):
                talk.socket.recv(10)
            talk.socket.socket.shutdown(2)
    wait_for(lambda: b"penstock_turns_running 0" in penstock.ask(path="/metrics", method="GET").body)
    assert [line for line in penstock.log if line["level"] == "error"] == []


@pytest.mark.e2e
def test_a_turn_of_a_websocket_is_cancelled_over_http(
    penstock: Running, talk: Talk, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    talk.ask(upstream.play("ws-cancel", [*begun(chat_chunk({"content": "a"})), until_gone(gone)]))
    id = json.loads(talk.socket.recv(10))["response"]["id"]
    assert penstock.ask(path=f"/v1/responses/{id}/cancel").json["status"] == "cancelled"
    frame: Json = {"type": ""}
    while frame["type"] not in TERMINAL:
        frame = json.loads(talk.socket.recv(10))
    assert frame["response"]["incomplete_details"] == {"reason": "cancelled"}
    assert gone.wait(10)
    assert talk.is_usable()


@pytest.mark.e2e
def test_heartbeats_are_numbered_events(talk: Talk, upstream: ScriptedUpstream) -> None:
    opened = threading.Event()
    talk.ask(upstream.play("ws-slow", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")]))
    types: list[str] = []
    while types.count("response.in_progress") < 2:
        types.append(json.loads(talk.socket.recv(10))["type"])
    opened.set()
    while types[-1] != "response.completed":
        types.append(json.loads(talk.socket.recv(10))["type"])


@pytest.mark.e2e
def test_a_websocket_uses_the_clients_accent(penstock: Running, upstream: ScriptedUpstream) -> None:
    chunks = [chat_chunk({"reasoning_content": "hm"}), *said("hello")]
    model = upstream.play("ws-accent", streamed(*chunks))
    with talking(penstock, "/v1/responses?accent=openai") as talk:
        talk.ask(model)
        types = []
        while "response.completed" not in types:
            types.append(json.loads(talk.socket.recv(10))["type"])
    assert "response.reasoning_text.delta" in types


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/responses", {}, 101),
        ("/responses", {}, 101),
        ("/v1/responses/", {}, 101),
        ("/v1/models", {}, 404),
        ("/v1/responses/resp_1", {}, 404),
        ("/v1/responses", {"origin": "https://evil.example"}, 403),
        ("/v1/responses", {"host": "evil.example"}, 403),
    ],
)
def test_access_to_a_websocket(path: str, headers: dict[str, str], status: int) -> None:
    assert upgrade(Settings(), path, **headers)[0] == status


def test_websockets_can_be_turned_off() -> None:
    """426 is the only status after which Codex falls back to HTTP at once (client 2)."""
    assert upgrade(Settings(websocket=False)) == (426, "websocket_not_offered")


def test_a_socket_needs_a_key_where_there_are_keys() -> None:
    guarded = Settings(keys=(ClientKey(name="mine", digest=sha256(b"pk_right").digest()),))
    for headers in ({}, {"authorization": "Bearer pk_wrong"}):
        assert upgrade(guarded, **headers)[0] == 401
    assert upgrade(guarded, authorization="Bearer pk_right")[0] == 101


@pytest.mark.e2e
def test_tenants_are_separate_on_websockets(tmp_path: Path) -> None:
    """Ask K1."""
    (mine, first), (theirs, second) = create_key("mine"), create_key("theirs")
    with gateway(tmp_path, config=f"{first}\n{second}\n") as running:
        with talking(running, additional_headers={"authorization": f"Bearer {mine}"}) as me:
            made = me.response()
        with talking(running, additional_headers={"authorization": f"Bearer {theirs}"}) as them:
            refused = them.refused(previous_response_id=made["id"])
            assert refused["code"] == "previous_response_not_found"
            reference = {"type": "item_reference", "id": made["output"][0]["id"]}
            assert them.refused(input=[reference])["code"] == "item_not_found"


# The maximum duration of a connection


def test_a_connection_lasts_sixty_minutes() -> None:
    """Spec N24: the first frame after that gets the named code, and the connection is closed."""

    async def live() -> tuple[list[Json], int | None]:
        now = 1000.0
        gateway, client = Gateway(Settings(), store=MemoryStore()), FakeClient()
        serving = asyncio.create_task(Socket(gateway, client.exchange(), None, lambda: now).serve())
        now += 59 * 60
        client.ask()
        await client.until("response.completed")
        now += 60
        client.ask()
        await asyncio.wait_for(serving, 10)
        await gateway.aclose()
        return client.frames, client.channel.close_code

    [*_, envelope], closed = asyncio.run(live())
    assert (envelope["type"], envelope["status"]) == ("error", 400)
    assert envelope["error"]["code"] == "websocket_connection_limit_reached"
    assert closed == 1001


@pytest.mark.e2e
def test_a_refused_socket_is_answered_and_leaves_no_fault_in_the_log(tmp_path: Path) -> None:
    with gateway(tmp_path, config="[server]\nwebsocket = false\n") as running:
        with pytest.raises(InvalidStatus) as refused, talking(running):
            pass
        assert refused.value.response.status_code == 426
        assert running.whole("demo").status == 200


@pytest.mark.e2e
def test_a_stored_turn_includes_unstored_history_of_its_socket(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play("from-socket", *[streamed(*said("ok"))] * 3)
    with talking(penstock) as talk:
        first = talk.response("from-socket", "one", store=False)["id"]
        second = talk.response("from-socket", "two", previous_response_id=first)["id"]
    penstock.stream("from-socket", "three", previous_response_id=second)
    sent = [content for _, content in sent_to(upstream, "from-socket", 2)]
    assert sent == ["one", "ok", "two", "ok", "three"]


@pytest.mark.e2e
def test_frames_that_wait_are_bounded_in_bytes(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    gone = threading.Event()
    upstream.play("ws-large", [*begun(chat_chunk({"content": "a"})), until_gone(gone)])
    config = CONFIG.format(url=upstream.url).replace("retries = 0", 'retries = 0\nbody_bytes = "1MiB"')
    with gateway(tmp_path, config=config) as running, talking(running) as talk:
        talk.ask("ws-large")
        while json.loads(talk.socket.recv(15))["type"] != "response.output_text.delta":
            pass
        for _ in range(3):
            talk.ask("ws-large", "x" * 900_000)
        assert gone.wait(10), "it was let go"
        assert len(upstream.asked_for("ws-large")) == 1


# In this process


def on_websocket(test: Callable[[Conversation], Awaitable[None]], *upstreams: FakeUpstream) -> None:
    async def run(gateway: Gateway) -> None:
        conversation = Conversation(gateway)
        await test(conversation)
        await conversation.close()

    with_gateway(run, *upstreams)


def test_a_turn_is_one_frame_for_each_event_and_no_done() -> None:
    async def test(conversation: Conversation) -> None:
        frames = await conversation.turn()
        assert [frame["sequence_number"] for frame in frames] == list(range(len(frames)))
        assert frames[-1]["type"] == "response.completed"
        assert "[DONE]" not in str(conversation.client.channel.sent)

    on_websocket(test, FakeUpstream("only", text_answer("Hello")))


def test_reasoning_is_a_summary_if_the_turn_asks_for_one() -> None:  # field F2
    reasoned = frames(chat_chunk({"reasoning_content": "hm"}), *said("hello"))

    async def test(conversation: Conversation) -> None:
        for summary, name in (("auto", "reasoning_summary_text"), (None, "reasoning")):
            events = await conversation.turn(reasoning={"summary": summary})
            assert f"response.{name}.delta" in [event["type"] for event in events]

    on_websocket(test, FakeUpstream("only", [reasoned]))


def test_the_last_response_can_be_continued_without_being_stored() -> None:
    """Spec N18, spec N21: a failed continuation evicts the response."""
    upstream = FakeUpstream(
        "only", text_answer("one"), text_answer("two"), ServerError("no", status=500), text_answer("x")
    )

    async def test(conversation: Conversation) -> None:
        first = (await conversation.turn(input="1", store=False))[-1]["response"]["id"]
        second = (await conversation.turn(input="2", store=False, previous_response_id=first))[-1]
        again = await conversation.turn(previous_response_id=first)  # only the last one is remembered
        assert again[0]["error"]["code"] == "previous_response_not_found"
        failed = await conversation.turn(previous_response_id=second["response"]["id"], store=False)
        assert failed[-1]["type"] in ("error", "response.failed")
        forgotten = await conversation.turn(previous_response_id=second["response"]["id"])
        assert forgotten[0]["error"]["code"] == "previous_response_not_found"
        assert (await conversation.turn())[-1]["type"] == "response.completed"

    async def run(gateway: Gateway) -> None:
        conversation = Conversation(gateway)
        await test(conversation)
        await conversation.close()

    with_gateway(run, upstream, settings=chain(upstream, limits=Limits(retries=0)))
    sent = [each["content"] for each in upstream.requests[1].body["messages"]]
    assert sent == ["1", "one", "2"]


@pytest.mark.parametrize(
    ("frame", "param"),
    [
        ({"type": "response.cancel"}, "type"),
        ([], "type"),
        ({"type": "response.create", "model": "m", "input": 7}, "input"),
        ({"type": "response.create", "model": "nobody", "input": "x"}, "model"),
    ],
)
def test_a_wrong_frame_is_answered_with_an_error_and_the_socket_stays_open(frame: Any, param: str) -> None:
    """Spec N26."""

    async def test(conversation: Conversation) -> None:
        conversation.client.channel.said.put_nowait(json.dumps(frame))
        [error] = await conversation.turn()
        assert (error["type"], error["error"]["param"]) == ("error", param)
        while not any("response.completed" in str(each) for each in conversation.client.channel.sent):
            await asyncio.sleep(0.001)

    on_websocket(test, FakeUpstream("only", text_answer("Hello")))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stream", True),
        ("stream", False),
        ("stream_options", {"include_obfuscation": True}),
        ("background", True),
    ],
)
def test_fields_that_clients_send_although_they_must_not_are_ignored(field: str, value: Any) -> None:
    """Decision 31: Codex and openai-agents send them with every turn."""

    async def test(conversation: Conversation) -> None:
        frames = await conversation.turn(**{field: value})
        assert frames[-1]["type"] == "response.completed"
        assert frames[-1]["response"]["background"] is False
        warm = await conversation.turn(generate=False, **{field: value})
        for last in (frames[-1], warm[-1]):
            [diagnostic] = last["response"]["diagnostics"]
            assert diagnostic["code"] == "field_dropped"
            assert f"`{field}`" in diagnostic["message"]

    upstream = FakeUpstream("only", text_answer("Hello"))
    on_websocket(test, upstream)


def test_codex_uses_one_socket_for_many_turns() -> None:
    """It warms the connection up, and continues each response without storing it. A reused socket must not
    stall at its second turn."""
    upstream = FakeUpstream("only", *(text_answer(f"answer {number}") for number in range(4)))

    async def test(conversation: Conversation) -> None:
        codex = {"stream": True, "store": False, "tool_choice": "auto", "parallel_tool_calls": True}
        warm = await conversation.turn(input=[], generate=False, **codex)
        id = warm[-1]["response"]["id"]
        for number in range(4):
            frames = await conversation.turn(input=f"question {number}", previous_response_id=id, **codex)
            assert frames[-1]["type"] == "response.completed"
            id = frames[-1]["response"]["id"]

    on_websocket(test, upstream)
    assert [each["content"] for each in upstream.requests[-1].body["messages"]] == [
        "question 0",
        "answer 0",
        "question 1",
        "answer 1",
        "question 2",
        "answer 2",
        "question 3",
    ]


def test_a_client_that_disconnects_ends_its_turn_and_those_that_wait(verdicts: list[Json]) -> None:
    upstream, _ = paused_upstream()

    async def run(gateway: Gateway) -> None:
        conversation = Conversation(gateway)
        conversation.send()
        await conversation.client.until("output_text.delta")
        conversation.send()
        await conversation.close()

    with_gateway(run, upstream)
    assert len(upstream.requests) == 1
    assert [(each["outcome"], each["code"]) for each in verdicts] == [("cancelled", "client_gone")]


def test_a_client_that_sends_too_many_frames_is_closed() -> None:
    upstream, _ = paused_upstream()

    async def run(gateway: Gateway) -> None:
        conversation = Conversation(gateway)
        for _ in range(20):
            conversation.send()
        await asyncio.wait_for(conversation.task, 10)
        assert conversation.client.channel.close_code == 1008

    with_gateway(run, upstream)


def test_warming_up_completes_without_asking_an_upstream() -> None:
    upstream = FakeUpstream("only", text_answer("Hello"))

    async def test(conversation: Conversation) -> None:
        frames = await conversation.turn(generate=False)
        assert frames[-1]["response"]["status"] == "completed"
        assert frames[-1]["response"]["output"] == []
        assert upstream.requests == []

    on_websocket(test, upstream)
