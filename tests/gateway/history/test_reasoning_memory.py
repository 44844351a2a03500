"""Reasoning survives a tool loop, whatever the client sends back of it (ask C1, ask C2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.gateway.http.access import create_key
from tests.client.server import Script
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import Json, Running, gateway
from tests.gateway.scripts import block, body, message_end, message_start, text_block, tool_block, typed
from tests.gateway.upstream import ScriptedUpstream, said, streamed

LOOK = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
ASKED = {"type": "message", "role": "user", "content": "where is the lamp?"}
KEYS = {name: create_key(name) for name in ("alice", "bob")}
THOUGHT = "it may be in the attic"
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBtYWtlcg=="


def anthropic(*events: list[Json]) -> Script:
    return body(typed([message_start(input_tokens=3), *(each for some in events for each in some)]))


def thinking_and_calling(call_id: str) -> Script:
    thought = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": THOUGHT},
        {"type": "signature_delta", "signature": SIGNATURE},
    )
    return anthropic(
        thought,
        tool_block(1, call_id, "look", "", '{"room":', '"attic"}'),
        message_end("tool_use", output_tokens=9),
    )


def answering() -> Script:
    return anthropic(text_block(0, "There."), message_end("end_turn", output_tokens=2))


def result(call: Json) -> Json:
    return {"type": "function_call_output", "call_id": call["call_id"], "output": "a lamp"}


def without(item: Json, *names: str) -> Json:
    return {name: value for name, value in item.items() if name not in names}


GIVEN_BACK: dict[str, Any] = {
    "everything": lambda thought, call: [thought, call],
    "the call alone": lambda _, call: [call],
    "the call without its id": lambda _, call: [without(call, "id", "status")],
    "the id of the reasoning": lambda thought, call: [
        {"type": "reasoning", "id": thought["id"], "summary": []},
        call,
    ],
    "the reasoning without its seal": lambda thought, call: [without(thought, "encrypted_content"), call],
    "the reasoning without seal and id": lambda thought, call: [
        without(thought, "encrypted_content", "id"),
        call,
    ],
}


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("way", GIVEN_BACK)
def test_a_signature_is_sent_back_to_its_vendor(
    penstock: Running, upstream: ScriptedUpstream, way: str, store: bool
) -> None:
    """Ask C2: without its signed thinking the turn would be refused there."""
    call_id = f"toolu_{way.replace(' ', '_')}_{store}"
    before = len(upstream.asked_for("over-anthropic"))
    upstream.play("over-anthropic", thinking_and_calling(call_id), answering())
    first = penstock.stream("over-anthropic", input=[ASKED], tools=LOOK, store=store)
    thought, call = first.last["output"]
    history = [ASKED, *GIVEN_BACK[way](thought, call), result(call)]
    penstock.stream("over-anthropic", input=history, tools=LOOK, store=store)
    (_, assistant, _) = upstream.asked_for("over-anthropic")[before + 1].json["messages"]
    assert assistant["content"][0] == {"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE}
    assert (assistant["content"][1]["type"], len(assistant["content"])) == ("tool_use", 2)


@pytest.mark.parametrize("way", ["the call alone", "the id of the reasoning"])
def test_reasoning_is_restored_many_turns_later(
    penstock: Running, upstream: ScriptedUpstream, way: str
) -> None:
    """Reasoning that is sent back without its encrypted content is stored as input, and must not replace
    the original."""
    before = len(upstream.asked_for("over-anthropic"))
    upstream.play("over-anthropic", thinking_and_calling(f"toolu_later_{way}"), *[answering()] * 3)
    first = penstock.stream("over-anthropic", input=[ASKED], tools=LOOK)
    thought, call = first.last["output"]
    history = [ASKED, *GIVEN_BACK[way](thought, call), result(call)]
    for _ in range(3):
        output = penstock.stream("over-anthropic", input=history, tools=LOOK).last["output"]
        history += [*output, {"type": "message", "role": "user", "content": "and now?"}]
    for asked in upstream.asked_for("over-anthropic")[before + 1 :]:
        assistant = asked.json["messages"][1]
        assert [part.get("signature") for part in assistant["content"]] == [SIGNATURE, None]


@pytest.fixture(scope="module")
def own(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With two tenants, and an upstream that expects plain reasoning."""
    config = "".join(
        f'[targets.{dialect}]\nbase_url = "{upstream.url}/v1"\ndialect = "{dialect}"\n'
        for dialect in ("chat", "anthropic")
    )
    config += '[targets.chat.quirks]\nreasoning_field = "reasoning_content"\n'
    config += '[models.shared-thoughts]\ntarget = "anthropic"\n'
    config += "".join(f"{entry}\n" for _, entry in KEYS.values())
    folder = tmp_path_factory.mktemp("reasoning")
    with gateway(folder, config=f'passthrough = "chat"\n{config}') as running:
        yield running


def key_of(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {KEYS[name][0]}"}


@pytest.mark.parametrize("way", ["the call alone", "the id of the reasoning", "chained"])
def test_plain_reasoning_is_sent_back_with_its_calls(
    own: Running, upstream: ScriptedUpstream, way: str
) -> None:
    """Ask C1: some upstreams refuse a call whose `reasoning_content` is missing."""
    model = f"plain-{way.replace(' ', '-')}"
    function = {"name": "look", "arguments": "{}"}
    calls = chat_chunk({"tool_calls": [{"index": 0, "id": model, "type": "function", "function": function}]})
    thinking = chat_chunk({"reasoning_content": THOUGHT})
    upstream.play(
        model, streamed(thinking, calls, chat_chunk(finish="tool_calls")), streamed(*said("There."))
    )
    fields: Json = {"tools": LOOK, "headers": key_of("alice")}
    first = own.stream(model, input=[ASKED], **fields)
    thought, call = first.last["output"]
    if way == "chained":
        own.stream(model, input=[result(call)], previous_response_id=first.last["id"], **fields)
    else:
        own.stream(model, input=[ASKED, *GIVEN_BACK[way](thought, call), result(call)], **fields)
    sent = upstream.asked_for(model)[1].json["messages"]
    assert [each["role"] for each in sent] == ["user", "assistant", "tool"]
    assert sent[1]["reasoning_content"] == THOUGHT


@pytest.mark.parametrize("store", [True, False])
def test_another_tenant_gets_no_reasoning(own: Running, upstream: ScriptedUpstream, store: bool) -> None:
    """Ask K1: a call with the same id, by another tenant."""
    model = "shared-thoughts"
    fields: Json = {"tools": LOOK, "store": store}
    before = len(upstream.asked_for(model))
    upstream.play(model, thinking_and_calling("toolu_shared"), answering(), answering())
    first = own.stream(model, input=[ASKED], headers=key_of("alice"), **fields)
    thought, call = first.last["output"]
    bare = {"type": "reasoning", "id": thought["id"], "summary": []}
    for name in ("bob", "alice"):
        own.stream(model, input=[ASKED, bare, call, result(call)], headers=key_of(name), **fields)
    asked = upstream.asked_for(model)[before + 1 :]
    sent = [[part["type"] for part in each.json["messages"][1]["content"]] for each in asked]
    assert sent == [["tool_use"], ["thinking", "tool_use"]]
