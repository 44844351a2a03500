"""Chains of responses: a request continues an earlier response by its id (ask G1, ask G2)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET, UnsetType

from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.chains import Resolved, named_items, public_request, resolve
from penstock.gateway.history.connection_cache import ConnectionHistory
from penstock.protocol.items import AgentMessage, FunctionCallOutput, Item, Message, UnknownItem
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import encode, read
from penstock.store.contract import Store
from penstock.store.memory import MemoryStore
from penstock.store.reasoning_memory import item_text
from penstock.store.records import LOCAL, Closed, Opened, StoredItem
from tests.client.server import Script, Step, chunk, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.configs import CONFIG
from tests.gateway.fake_upstreams import FakeUpstream, answer, paused_upstream
from tests.gateway.in_process import Caller, Json, with_gateway
from tests.gateway.probes import kill
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

UNKNOWN = "resp_00000000000000000000000000000000"


CALL_IDS = ("call_a", "call_b")


OUTPUTS = [{"type": "function_call_output", "call_id": id, "output": f"seen {id}"} for id in CALL_IDS]


def two_calls(*between: Step) -> Script:
    """A turn with two calls at once, which ends after the steps between."""
    entries = [call(index, id, "look", "{}") for index, id in enumerate(CALL_IDS)]
    return [*begun(calls(*entries)), *between, send(chunk(frames(TOOL_CALLS)) + LAST_CHUNK)]


def answered(running: Running, model: str, id: str) -> Reply:
    """Send the outputs of both calls, with the id of the response that made them."""
    return running.stream(model, OUTPUTS, tools=LOOK, previous_response_id=id)  # type: ignore[arg-type]


# ask G1: chains

SHAPES: dict[str, Any] = {
    "text": "where is it?",
    "items": [{"role": "user", "content": [{"type": "input_text", "text": "where is it?"}]}],
}


@pytest.mark.e2e
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


@pytest.mark.e2e
def test_a_chain_continues_after_the_gateway_was_killed(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    """Without any setup, a response that was completed exists after SIGKILL."""
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


@pytest.mark.e2e
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("id", [UNKNOWN, "not-one-of-ours", "x" * 300, "chatcmpl-1"])
def test_an_unknown_id_is_a_400_with_its_code(penstock: Running, stream: bool, id: str) -> None:
    reply = penstock.ask({"model": "demo", "input": "x", "previous_response_id": id, "stream": stream})
    assert (reply.status, reply.error["code"]) == (400, "previous_response_not_found")


@pytest.mark.e2e
def test_a_shortened_history_continues_from_an_answer_that_was_cut_off(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """The host sends only what follows its marker; how the previous turn ended does not matter."""
    cut_off = streamed(*text("half of"), chat_chunk(finish="length"))
    model = upstream.play("g2-cut", cut_off, streamed(*said("the rest")))
    first = penstock.stream(model, "tell me").last
    assert first["status"] == "incomplete"
    assert penstock.stream(model, "go on", previous_response_id=first["id"]).text == "the rest"
    assert sent_to(upstream, model, 1) == [("user", "tell me"), ("assistant", "half of"), ("user", "go on")]


@pytest.mark.e2e
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


@pytest.mark.e2e
def test_a_tool_loop_continues_with_its_outputs_alone(penstock: Running, upstream: ScriptedUpstream) -> None:
    model = upstream.play("tool-chain", calling("call_a"), streamed(*said("done")))
    first = penstock.stream(model, tools=LOOK).last
    output = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "seen"}
    body = {"model": model, "input": [output], "tools": LOOK, "previous_response_id": first["id"]}
    assert penstock.ask(body).text == "done"
    assert [role for role, _ in sent_to(upstream, model, 1)] == ["user", "assistant", "tool"]


@pytest.mark.e2e
@pytest.mark.parametrize("type", ["function_call_output", "custom_tool_call_output"])
def test_an_output_without_its_call_is_refused_in_a_chain(penstock: Running, type: str) -> None:
    first = penstock.whole("demo").last["id"]
    output = {"type": type, "call_id": "nowhere", "output": "x"}
    items = [{"role": "user", "content": "x"}, output]
    reply = penstock.ask({"model": "demo", "input": items, "previous_response_id": first})
    assert (reply.status, reply.error["param"]) == (400, "input[1].call_id")


@pytest.mark.e2e
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


@pytest.mark.e2e
def test_a_chain_branches_and_outlives_the_process(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    """Ask G1: across a restart, without any setup."""
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


# In this process


def stored(id: str, text: str, role: str = "user") -> StoredItem:
    item = {"type": "message", "id": id, "role": role, "content": text}
    return StoredItem(id, json.dumps(item).encode())


async def keep(store: Store, id: str, text: str, reply: str, *, tenant: str = LOCAL, **fields: Any) -> None:
    """A turn that has ended: `text` was said, and `reply` was the answer."""
    await store.open(
        Opened(id=id, tenant=tenant, created_at=1, input=(stored(f"msg_{id}_in", text),), **fields)
    )
    end = Closed(status="completed", response=b"{}", output=(stored(f"msg_{id}_out", reply, "assistant"),))
    await store.close(id, end)


LOOKED: Json = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"}


async def keep_calls(store: Store, id: str, *calls: Json) -> None:
    """A turn that has ended: `a` was said, and these calls were the answer."""
    await store.open(Opened(id=id, tenant=LOCAL, created_at=1, input=(stored(f"msg_{id}", "a"),)))
    output = tuple(StoredItem(call["id"], json.dumps(call).encode()) for call in calls)
    await store.close(id, Closed(status="completed", response=b"{}", output=output))


def resolving(test: Callable[[Store], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        store = MemoryStore()
        await test(store)
        await store.aclose()

    asyncio.run(run())


def texts(resolved: Resolved) -> list[Any]:
    given = resolved.request.input
    assert isinstance(given, list)
    return [item_text(item) or item.type for item in given]


def test_the_conversation_is_the_chain_and_then_the_input() -> None:
    """Spec N44, spec N45. Instructions are not inherited."""

    async def test(store: Store) -> None:
        await keep(store, "resp_1", "one", "1", request=b'{"instructions": "be brief"}')
        await keep(store, "resp_2", "two", "2", previous_id="resp_1")
        request = CreateResponse(model="m", input="three", previous_response_id="resp_2")
        resolved = await resolve(store, LOCAL, request)
        assert texts(resolved) == ["one", "1", "two", "2", "three"]
        assert not resolved.request.instructions
        assert (resolved.previous_id, resolved.before) == ("resp_2", 4)
        [brought] = resolved.new_items
        assert brought.id.startswith("msg_")
        assert json.loads(brought.data)["content"][0]["text"] == "three"

    resolving(test)


@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"previous_response_id": "resp_none"}, 400, "previous_response_not_found", "previous_response_id"),
        ({"previous_response_id": "resp_theirs"}, 400, "previous_response_not_found", "previous_response_id"),
        ({"previous_response_id": "x" * 10_000}, 400, "previous_response_not_found", "previous_response_id"),
        ({"conversation": "conv_none"}, 404, "conversation_not_found", "conversation"),
        ({"conversation": "conv_1", "previous_response_id": "r"}, 400, "invalid_request", "conversation"),
        ({"input": [{"type": "item_reference", "id": "msg_none"}]}, 400, "item_not_found", "input[0].id"),
        (
            {"input": [{"type": "item_reference", "id": "msg_resp_theirs_in"}]},
            400,
            "item_not_found",
            "input[0].id",
        ),
    ],
)
def test_what_does_not_exist_is_refused_by_its_name(fields: Json, status: int, code: str, param: str) -> None:
    """Ask K1: an id of another tenant gets the same error as an id that never existed."""

    async def test(store: Store) -> None:
        await keep(store, "resp_theirs", "secret", "answer", tenant="bob")
        request = read({"model": "m", "input": "x", **fields}, CreateResponse)
        with pytest.raises(RequestRefused) as caught:
            await resolve(store, LOCAL, request)
        refused = caught.value
        assert (refused.status, refused.code, refused.param) == (status, code, param)
        assert len(refused.message) < 200

    resolving(test)


def test_an_output_needs_its_call_only_where_the_chain_is_ours() -> None:
    """Decision 14. Without a chain, the client keeps its own history, and may have cut it."""
    output = {"type": "function_call_output", "call_id": "call_x", "output": "seen"}

    async def test(store: Store) -> None:
        await keep(store, "resp_1", "one", "1")
        alone = read({"model": "m", "input": [output]}, CreateResponse)
        assert (await resolve(store, LOCAL, alone)).before == 0
        chained = read(
            {
                "model": "m",
                "input": [{"role": "user", "content": "x"}, output],
                "previous_response_id": "resp_1",
            },
            CreateResponse,
        )
        with pytest.raises(RequestRefused) as caught:
            await resolve(store, LOCAL, chained)
        assert caught.value.param == "input[1].call_id"

    resolving(test)


def test_a_reference_is_replaced_by_the_item_that_it_names() -> None:
    """Client 4: the AI SDK sends its history as references."""

    async def test(store: Store) -> None:
        await keep(store, "resp_1", "one", "1")
        given = [{"type": "item_reference", "id": "msg_resp_1_out"}, {"role": "user", "content": "two"}]
        resolved = await resolve(store, LOCAL, read({"model": "m", "input": given}, CreateResponse))
        assert texts(resolved) == ["1", "two"]
        assert resolved.new_items[0].id == "msg_resp_1_out"

    resolving(test)


def test_what_only_a_connection_remembers_becomes_part_of_the_turn() -> None:
    """Spec N18: nobody else could look it up for a turn that continues this one."""

    async def test(store: Store) -> None:
        before = read({"input": [{"role": "user", "content": "one", "id": "msg_1"}]}, CreateResponse).input
        assert isinstance(before, list)
        request = CreateResponse(model="m", input="two", previous_response_id="resp_local")
        for is_stored, parent, brought in ((False, None, ["one", "two"]), (True, "resp_local", ["two"])):
            local = ConnectionHistory("resp_local", tuple(before), is_stored)
            resolved = await resolve(store, LOCAL, request, local)
            assert texts(resolved) == ["one", "two"]
            assert resolved.previous_id == parent
            assert [json.loads(item.data)["content"][0]["text"] for item in resolved.new_items] == brought

    resolving(test)


@pytest.mark.parametrize("id", ["msg_01XFDU", "rs_other_type", "5c1d3a0e-9a55", "odd id/ä?%00", "x" * 64])
def test_an_id_of_the_client_is_kept_if_it_is_short_enough(id: str) -> None:
    """Ask G3."""
    [stored] = named_items([Message(role="user", content="x", id=id)])
    assert (stored.id, json.loads(stored.data)["id"]) == (id, id)


@pytest.mark.parametrize("id", [UNSET, "", "x" * 65])
def test_an_item_without_a_usable_id_gets_a_new_one(id: str | UnsetType) -> None:
    first, second = named_items([Message(role="user", content="x", id=id)] * 2)
    assert first.id != second.id
    assert first.id.startswith("msg_")
    assert json.loads(first.data)["id"] == first.id


def test_a_request_is_written_down_without_secrets() -> None:
    server = {
        "type": "mcp",
        "server_label": "s",
        "server_url": "http://u:planted@a/",
        "authorization": "planted",
    }
    request = read(
        {
            "model": "m",
            "input": [{"type": "additional_tools", "tools": [server]}],
            "tools": [server],
            "api_key": "planted",
        },
        CreateResponse,
    )
    written = encode(public_request(request))
    assert b"planted" not in written
    assert written.count(b'"server_label"') == 2
    assert b"planted" in encode(request)


def test_a_follow_up_waits_for_the_turn_that_it_continues() -> None:
    gate = asyncio.Event()
    upstream = FakeUpstream(
        "only", [frames(chat_chunk({"content": "one "}), done=False), gate, *answer("two")], answer("ok")
    )

    async def test(gateway: Gateway) -> None:
        first = Caller(gateway, model="m", input="count", stream=True)
        await first.received(b"output_text.delta")
        second = Caller(gateway, model="m", input="go on", previous_response_id=first.id)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(upstream.requests) == 1
        gate.set()
        await asyncio.gather(first.task, second.task)

    with_gateway(test, upstream)
    sent = [message["content"] for message in upstream.requests[1].body["messages"]]
    assert sent == ["count", "one two", "go on"]


def test_a_follow_up_whose_client_disconnects_is_dropped() -> None:
    upstream, gate = paused_upstream()

    async def test(gateway: Gateway) -> None:
        first = Caller(gateway, model="m", input="count", stream=True)
        await first.received(b"output_text.delta")
        second = Caller(gateway, model="m", input="go on", previous_response_id=first.id)
        second.disconnect()
        await second.task
        assert second.sent == []
        gate.set()
        await first.task

    with_gateway(test, upstream)
    assert len(upstream.requests) == 1


def test_an_output_without_a_call_id_answers_the_open_call_of_the_chain() -> None:
    given: list[Json] = [{"type": "function_call_output", "output": "5"}]

    async def test(store: Store) -> None:
        await keep_calls(store, "resp_1", LOOKED)
        resolved = await resolve(
            store, LOCAL, read({"input": given, "previous_response_id": "resp_1"}, CreateResponse)
        )
        assert json.loads(resolved.new_items[0].data)["call_id"] == LOOKED["call_id"]

    resolving(test)


def test_an_output_without_a_call_id_is_refused_if_two_calls_are_open() -> None:
    given: list[Json] = [{"role": "user", "content": "b"}, {"type": "function_call_output", "output": "5"}]

    async def test(store: Store) -> None:
        await keep_calls(store, "resp_1", LOOKED, {**LOOKED, "id": "fc_2", "call_id": "call_2"})
        with pytest.raises(RequestRefused) as refused:
            await resolve(
                store, LOCAL, read({"input": given, "previous_response_id": "resp_1"}, CreateResponse)
            )
        assert (refused.value.status, refused.value.param) == (400, "input[1].call_id")

    resolving(test)


def test_a_late_output_of_a_chain_is_accepted() -> None:
    """A tool that runs asynchronously may answer after the model went on."""
    given = [{"type": "function_call_output", "call_id": LOOKED["call_id"], "output": "5"}]

    async def test(store: Store) -> None:
        await keep_calls(store, "resp_1", LOOKED)
        await keep(store, "resp_2", "meanwhile", "waiting", previous_id="resp_1")
        request = read({"input": given, "previous_response_id": "resp_2"}, CreateResponse)
        resolved = await resolve(store, LOCAL, request)
        assert texts(resolved) == ["a", "function_call", "meanwhile", "waiting", "5"]

    resolving(test)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Message(role="user", content="a"), {"content": [{"type": "input_text", "text": "a"}]}),
        (
            Message(role="assistant", content="a"),
            {"content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}]},
        ),
        (AgentMessage(content="a"), {"content": [{"type": "input_text", "text": "a"}]}),
        (Message(role="user", content=[], status="incomplete"), {"content": [], "status": "incomplete"}),
        (FunctionCallOutput(call_id="c", output="a"), {"output": "a"}),
        (UnknownItem(type="configuration_update", extra={"text": {}}), {"text": {}}),
        (
            UnknownItem(type="openai:web_search_call", extra={"action": {"query": "q"}}),
            {"type": "web_search_call", "action": {"query": "q"}},
        ),
        (UnknownItem(type="acme:note"), {"type": "acme:note"}),
    ],
)
def test_a_stored_item_is_normalised(given: Item, expected: Json) -> None:
    """Decision 35, field F9."""
    (stored,) = named_items([given])
    found = json.loads(stored.data)
    assert found["id"] == stored.id
    assert {"status": "completed", **expected}.items() <= found.items()


def test_a_generic_id_of_another_server_is_replaced() -> None:
    """OpenAI refuses `item_0` as the id of a message, for the rest of the conversation."""
    given = [Message(role="user", content="a", id="item_0"), Message(role="user", content="b", id="msg_0")]
    replaced, kept = named_items(given)
    assert replaced.id.startswith("msg_")
    assert kept.id == "msg_0"
    (unknown,) = named_items([UnknownItem(type="program", id="item_0")])
    assert unknown.id == "item_0"
