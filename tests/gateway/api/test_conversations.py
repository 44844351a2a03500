"""Conversations: a history under one id, which turns read and add to."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import create_key
from tests.gateway.configs import CONFIG
from tests.gateway.fake_upstreams import FakeUpstream, answer, paused_upstream
from tests.gateway.in_process import Caller, call, with_gateway
from tests.gateway.running import Json, Reply, Running, gateway
from tests.gateway.stored_responses import LOOK, calling, sent_to
from tests.gateway.upstream import (
    ScriptedUpstream,
    said,
    streamed,
)


def ask(running: Running, path: str = "", body: Any = None, method: str = "POST", **options: Any) -> Reply:
    return running.ask(body, f"/v1/conversations{path}", method=method, **options)


def get(running: Running, path: str) -> Reply:
    return ask(running, path, method="GET")


def user(text: str, **fields: Any) -> Json:
    return {"type": "message", "role": "user", "content": text, **fields}


def contents(reply: Reply) -> list[Any]:
    return [each["content"][0]["text"] for each in reply.json["data"]]


@pytest.mark.e2e
@pytest.mark.parametrize("body", [None, b"", {}, {"items": None, "metadata": None}, {"items": []}])
def test_an_empty_conversation_can_be_created(penstock: Running, body: Any) -> None:
    made = ask(penstock, body=body).json
    assert made["metadata"] == {}
    assert contents(get(penstock, f"/{made['id']}/items")) == []


@pytest.mark.e2e
def test_items_are_added_listed_found_and_deleted(penstock: Running) -> None:
    id = ask(penstock, body={"items": [user("0"), user("1", id="msg_mine")]}).json["id"]
    added = ask(penstock, f"/{id}/items", {"items": [user("2"), user("3")]}).json
    texts = [each["content"][0]["text"] for each in added["data"]]
    assert (added["object"], texts) == ("list", ["2", "3"])
    assert contents(get(penstock, f"/{id}/items?order=asc")) == ["0", "1", "2", "3"]
    page = get(penstock, f"/{id}/items?limit=3")
    assert (contents(page), page.json["has_more"]) == (["3", "2", "1"], True)
    assert contents(get(penstock, f"/{id}/items?after={page.json['last_id']}")) == ["0"]
    assert get(penstock, f"/{id}/items/msg_mine").json["content"][0]["text"] == "1"
    left = ask(penstock, f"/{id}/items/msg_mine", method="DELETE").json
    assert left["object"] == "conversation"
    assert contents(get(penstock, f"/{id}/items?order=asc")) == ["0", "2", "3"]
    for method in ("GET", "DELETE"):
        assert ask(penstock, f"/{id}/items/msg_mine", method=method).error["code"] == "item_not_found"


@pytest.mark.e2e
def test_an_item_of_another_conversation_is_not_in_this_one(penstock: Running) -> None:
    one, other = (ask(penstock, body={"items": [user(each)]}).json["id"] for each in ("one", "other"))
    [item] = get(penstock, f"/{one}/items").json["data"]
    answered = penstock.whole("demo").last["output"][0]["id"]
    for stranger in (item["id"], answered):
        for method in ("GET", "DELETE"):
            refused = ask(penstock, f"/{other}/items/{stranger}", method=method)
            assert (refused.status, refused.error["code"]) == (404, "item_not_found")
    assert get(penstock, f"/{one}/items/{item['id']}").json == item


@pytest.mark.e2e
@pytest.mark.parametrize("by_object", [True, False])
def test_turns_read_a_conversation_and_add_to_it(
    penstock: Running, upstream: ScriptedUpstream, by_object: bool
) -> None:
    model = upstream.play(f"talk-{by_object}", streamed(*said("one")), streamed(*said("two")))
    id = ask(penstock, body={"items": [user("before")]}).json["id"]
    named = {"id": id} if by_object else id
    first = penstock.stream(model, "first", conversation=named).last
    assert first["conversation"] == {"id": id}
    penstock.whole(model, "second", conversation=named)
    history = [("user", "before\n\nfirst"), ("assistant", "one"), ("user", "second")]
    sent = sent_to(upstream, model, 1)
    assert sent in (history, [("user", "before"), ("user", "first"), *history[1:]])
    items = get(penstock, f"/{id}/items?order=asc").json["data"]
    assert [each["role"] for each in items] == ["user", "user", "assistant", "user", "assistant"]
    assert items[2] == first["output"][0]


@pytest.mark.e2e
def test_what_is_not_stored_is_not_added(penstock: Running) -> None:
    id = ask(penstock).json["id"]
    assert penstock.whole("demo", conversation=id, store=False).status == 200
    assert contents(get(penstock, f"/{id}/items")) == []


@pytest.mark.e2e
def test_a_tool_loop_in_a_conversation(penstock: Running, upstream: ScriptedUpstream) -> None:
    model = upstream.play("talk-tools", calling("call_t"), streamed(*said("done")))
    id = ask(penstock).json["id"]
    call = penstock.stream(model, tools=LOOK, conversation=id).last["output"][0]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "seen"}
    asked = {"model": model, "tools": LOOK, "conversation": id}
    assert penstock.ask({**asked, "input": [output]}).text == "done"
    orphan = penstock.ask({**asked, "input": [{**output, "call_id": "nowhere"}]})
    assert (orphan.status, orphan.error["param"]) == (400, "input[0].call_id")


@pytest.mark.e2e
def test_an_item_is_added_to_a_conversation_by_reference(penstock: Running) -> None:
    answered = penstock.whole("demo", "say exactly: mine").last["output"][0]
    id = ask(penstock, body={"items": [{"type": "item_reference", "id": answered["id"]}]}).json["id"]
    assert get(penstock, f"/{id}/items").json["data"] == [answered]
    unknown = ask(penstock, f"/{id}/items", {"items": [{"type": "item_reference", "id": "msg_no"}]})
    assert (unknown.error["code"], unknown.error["param"]) == ("item_not_found", "items[0].id")


@pytest.mark.e2e
def test_ids_chosen_by_clients_may_repeat(penstock: Running) -> None:
    id = ask(penstock, body={"items": [user("0", id="msg_same"), user("1", id="msg_same")]}).json["id"]
    assert penstock.whole("demo", conversation=id).status == 200
    assert get(penstock, f"/{id}/items/msg_same").status == 200


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("", {"items": [user(str(number)) for number in range(21)]}, "items"),
        ("", {"items": 7}, "items"),
        ("", {"items": [7]}, "items[0]"),
        ("", {"metadata": []}, "metadata"),
        ("/{id}", {}, "metadata"),
        ("/{id}/items", {}, "items"),
        ("/{id}/items", {"items": []}, "items"),
    ],
)
def test_a_wrong_request_is_refused_by_the_name_of_its_field(
    penstock: Running, path: str, body: Json, param: str
) -> None:
    id = ask(penstock, body={"metadata": {"kept": "yes"}}).json["id"]
    refused = ask(penstock, path.format(id=id), body)
    assert (refused.status, refused.error["param"]) == (400, param)
    assert get(penstock, f"/{id}").json["metadata"] == {"kept": "yes"}


@pytest.mark.e2e
def test_a_conversation_and_a_previous_response_exclude_each_other(penstock: Running) -> None:
    id, previous = ask(penstock).json["id"], penstock.whole("demo").last["id"]
    refused = penstock.whole("demo", conversation=id, previous_response_id=previous)
    assert (refused.status, refused.error["param"]) == (400, "conversation")


@pytest.mark.e2e
def test_another_tenant_finds_nothing(tmp_path: Path) -> None:
    """Ask K1: on every route the same answer as for an unknown id."""
    (mine, first), (theirs, second) = create_key("mine"), create_key("theirs")
    with gateway(tmp_path, config=f"{first}\n{second}\n") as running:
        me, them = {"x-api-key": mine}, {"x-api-key": theirs}
        id = ask(running, body={"items": [user("secret", id="msg_mine")]}, headers=me).json["id"]
        never = f"{id[:-4]}none"
        for path, method, body in (
            ("", "GET", None),
            ("", "POST", {"metadata": {}}),
            ("", "DELETE", None),
            ("/items", "GET", None),
            ("/items", "POST", {"items": [user("x")]}),
            ("/items/msg_mine", "GET", None),
            ("/items/msg_mine", "DELETE", None),
        ):
            answers = [
                ask(running, f"/{each}{path}", body, method, headers=them).body.replace(each.encode(), b"")
                for each in (id, never)
            ]
            assert answers[0] == answers[1]
            assert b"conversation_not_found" in answers[0]
        turn = running.whole("demo", conversation=id, headers=them)
        assert (turn.status, turn.error["code"]) == (404, "conversation_not_found")
        reference = {"model": "demo", "input": [{"type": "item_reference", "id": "msg_mine"}]}
        assert running.ask(reference, headers=them).error["code"] == "item_not_found"
        assert running.ask(reference, headers=me).status == 200
        kept = ask(running, f"/{id}/items", method="GET", headers=me)
        assert contents(kept) == ["secret"]


@pytest.mark.e2e
def test_openai_python_uses_conversations(penstock: Running) -> None:
    with OpenAI(base_url=f"{penstock.url}/v1", api_key="x", max_retries=0) as client:
        made = client.conversations.create(metadata={"a": "b"})
        client.conversations.items.create(made.id, items=[{"role": "user", "content": "hello"}])
        client.responses.create(model="demo", input="say exactly: hi", conversation=made.id)
        items = list(client.conversations.items.list(made.id, order="asc", limit=2))
        assert [each.type for each in items] == ["message"] * 3
        assert client.conversations.update(made.id, metadata={"a": "c"}).metadata == {"a": "c"}
        assert client.conversations.delete(made.id).deleted is True


@pytest.mark.e2e
@pytest.mark.parametrize("options", [(), ("--store", "none")], ids=["file", "memory"])
def test_a_long_conversation_is_read_completely_despite_repeated_ids(
    upstream: ScriptedUpstream, tmp_path: Path, options: tuple[str, ...]
) -> None:
    upstream.play("whole-talk", streamed(*said("ok")))
    with gateway(tmp_path, *options, config=CONFIG.format(url=upstream.url)) as running:
        talk = running.ask({}, "/v1/conversations").json["id"]
        items = [{"role": "user", "content": f"number {number}"} for number in range(1400)]
        items[999]["id"] = items[1300]["id"] = "msg_twice"
        for begin in range(0, len(items), 20):
            running.ask({"items": items[begin : begin + 20]}, f"/v1/conversations/{talk}/items")
        running.stream("whole-talk", "and now?", conversation=talk)
    sent = [content for _, content in sent_to(upstream, "whole-talk", 0)]
    assert len(sent) == 1401


# In this process


def message(text: str, **fields: Any) -> Json:
    return {"type": "message", "role": "user", "content": text, **fields}


async def made(gateway: Gateway, body: Json) -> Any:
    return (await call(gateway, "/v1/conversations", data=json.dumps(body).encode())).json


async def listed(gateway: Gateway, id: str) -> list[Any]:
    page = await call(gateway, f"/v1/conversations/{id}/items?order=asc", method="GET")
    return [item["content"][0]["text"] for item in page.json["data"]]


def test_a_conversation_is_created_updated_and_deleted_in_process() -> None:
    async def test(gateway: Gateway) -> None:
        conversation = await made(gateway, {"metadata": {"a": "1"}, "items": [message("one", id="msg_1")]})
        path = f"/v1/conversations/{conversation['id']}"
        assert await listed(gateway, conversation["id"]) == ["one"]
        updated = await call(gateway, path, data=b'{"metadata": {"b": "2"}}')
        assert updated.json == {**conversation, "metadata": {"b": "2"}}
        item = await call(gateway, f"{path}/items/msg_1", method="GET")
        assert item.json["content"] == [{"type": "input_text", "text": "one"}]
        assert item.json["status"] == "completed"
        assert (await call(gateway, f"{path}/items/msg_1", method="DELETE")).json == updated.json
        assert await listed(gateway, conversation["id"]) == []
        deleted = await call(gateway, path, method="DELETE")
        assert deleted.json["deleted"] is True
        assert (await call(gateway, path, method="GET")).error["code"] == "conversation_not_found"

    with_gateway(test)


def test_an_empty_body_makes_an_empty_conversation() -> None:
    async def test(gateway: Gateway) -> None:
        conversation = (await call(gateway, "/v1/conversations", data=b" ")).json
        assert conversation["metadata"] == {}
        assert await listed(gateway, conversation["id"]) == []

    with_gateway(test)


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("", {"items": [message("x")] * 21}, 400, "items"),
        ("", {"items": "x"}, 400, "items"),
        ("", {"items": [{"type": "item_reference", "id": "msg_none"}]}, 400, "items[0].id"),
        ("/{id}", {}, 400, "metadata"),
        ("/{id}/items", {}, 400, "items"),
        ("/conv_none/items", {"items": [message("x")]}, 404, "conversation_id"),
        ("/conv_none", {"metadata": {}}, 404, "conversation_id"),
    ],
)
def test_a_refusal_names_the_field(path: str, body: Json, status: int, param: str) -> None:
    async def test(gateway: Gateway) -> None:
        id = (await made(gateway, {}))["id"]
        url = f"/v1/conversations{path.format(id=id)}"
        refused = await call(gateway, url, data=json.dumps(body).encode())
        assert (refused.status, refused.error["param"]) == (status, param)

    with_gateway(test)


def test_a_turn_reads_its_conversation_and_adds_to_it() -> None:
    upstream = FakeUpstream("only", answer("ok"))

    async def test(gateway: Gateway) -> None:
        id = (await made(gateway, {"items": [message("one")]}))["id"]
        await call(gateway, model="m", input="two", conversation=id)
        await call(gateway, model="m", input="three", conversation={"id": id}, stream=True)
        dropped = await call(gateway, model="m", input="four", conversation=id, store=False)
        assert "field_dropped" in dropped.headers["x-penstock-diagnostics"]

    with_gateway(test, upstream)
    sent = [[each["content"] for each in asked.body["messages"]] for asked in upstream.requests]
    assert sent[1] == ["one", "two", "ok", "three"]
    assert sent[2] == ["one", "two", "ok", "three", "ok", "four"]


def test_turns_of_one_conversation_follow_each_other() -> None:
    upstream, gate = paused_upstream()

    async def test(gateway: Gateway) -> None:
        id = (await made(gateway, {}))["id"]
        first = Caller(gateway, model="m", input="one", conversation=id, stream=True)
        await first.received(b"output_text.delta")
        second = Caller(gateway, model="m", input="two", conversation=id)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(upstream.requests) == 1
        gate.set()
        await asyncio.gather(first.task, second.task)

    with_gateway(test, upstream)
    assert [each["content"] for each in upstream.requests[1].body["messages"]] == ["one", "ab", "two"]
