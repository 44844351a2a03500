"""What a request refers to: item references, and ids of any origin (ask G3)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.gateway.gateway import Gateway
from penstock.gateway.history import chains, resolve
from penstock.gateway.history.compactions import Summary
from penstock.gateway.history.resolve import complete
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import read
from penstock.store.reasoning_memory import item_text
from penstock.store.records import LOCAL
from tests.gateway.fake_upstreams import FakeUpstream, answer
from tests.gateway.in_process import Json, call, with_gateway
from tests.gateway.running import Running
from tests.gateway.scripts import RESPONSES, body, rich_responses, typed
from tests.gateway.stored_responses import (
    LOOK,
    get,
    sent_to,
)
from tests.gateway.upstream import (
    ScriptedUpstream,
    said,
    streamed,
)

IDS: dict[str, Any] = {
    "foreign": "msg_01XFDUDYJgAACzvnptvVoYEL",
    "of another type": "rs_not_a_message",
    "uuid": "5c1d3a0e-9a55-4d8f-8d0c-1f1e6b1a2c3d",
    "missing": None,
    "oversized": "msg_" + "f" * 500,
    "odd": "id with spaces/ä?%00",
}


@pytest.mark.e2e
@pytest.mark.parametrize("name", IDS)
def test_any_id_in_a_history_is_accepted(penstock: Running, upstream: ScriptedUpstream, name: str) -> None:
    """A task that began at another provider can be continued."""
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


@pytest.mark.e2e
def test_a_reference_never_reaches_an_upstream(penstock: Running, upstream: ScriptedUpstream) -> None:
    """Not even one that supports references: ours are unknown there."""
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


@pytest.mark.e2e
def test_an_item_is_referenced_instead_of_sent(penstock: Running, upstream: ScriptedUpstream) -> None:
    """The AI SDK sends its history as references."""
    model = upstream.play("referred", streamed(*said("the answer")), streamed(*said("ok")))
    [message] = penstock.whole(model, "hello").last["output"]
    given = [{"type": "item_reference", "id": message["id"]}, {"role": "user", "content": "again"}]
    penstock.ask({"model": model, "input": given})
    assert sent_to(upstream, model, 1) == [("assistant", "the answer"), ("user", "again")]
    unknown = penstock.ask({"model": model, "input": [given[1], {"type": "item_reference", "id": "msg_no"}]})
    assert (unknown.status, unknown.error["code"]) == (400, "item_not_found")
    assert unknown.error["param"] == "input[1].id"


# In this process


def compaction(gateway: Gateway, summary: str, tenant: str = LOCAL) -> Json:
    data = msgspec.json.encode(Summary(summary, "m", 1))
    return {"type": "compaction", "encrypted_content": gateway.sealer.seal(tenant, data)}


def contents(request: CreateResponse) -> list[Any]:
    assert isinstance(request.input, list)
    return [item_text(item) or item.type for item in request.input]


def test_a_compaction_becomes_the_message_that_it_stands_for() -> None:
    async def test(gateway: Gateway) -> None:
        given = [compaction(gateway, "the lamp is blue"), {"role": "user", "content": "which colour?"}]
        resolved = await complete(gateway, None, read({"model": "m", "input": given}, CreateResponse), 0)
        summary, question = contents(resolved.request)
        assert "the lamp is blue" in summary
        assert question == "which colour?"
        assert resolved.diagnostics == ()
        # It is stored as it was sent: the next gateway with the same secret reads it again.
        assert b"lamp" not in resolved.new_items[0].data

    with_gateway(test)


def test_a_compaction_of_another_tenant_is_left_out_and_reported() -> None:
    """Ask K1."""

    async def test(gateway: Gateway) -> None:
        given = [compaction(gateway, "their secret", "bob"), {"role": "user", "content": "x"}]
        resolved = await complete(gateway, None, read({"model": "m", "input": given}, CreateResponse), 0)
        assert contents(resolved.request) == ["x"]
        assert [each.code for each in resolved.diagnostics] == ["compaction_unreadable"]

    with_gateway(test)


def test_a_compaction_replaces_what_the_chain_had_before_it_except_instructions() -> None:
    upstream = FakeUpstream("only", answer("one"), answer("two"))

    async def test(gateway: Gateway) -> None:
        given = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "1"}]
        first = (await call(gateway, model="m", input=given)).json["id"]
        second = await call(
            gateway, model="m", input=[compaction(gateway, "SUMMARY")], previous_response_id=first
        )
        follow = CreateResponse(model="m", input="3", previous_response_id=second.json["id"])
        resolved = await complete(gateway, None, follow, 0)
        instruction, summary, reply, question = contents(resolved.request)
        assert (instruction, question) == ("be brief", "3")
        assert "SUMMARY" in summary
        assert reply == "two"

    with_gateway(test, upstream)


def test_the_weight_of_a_request_includes_its_history() -> None:
    """A short follow-up to a long chain is heavy work, which must not hold up the event loop."""
    upstream = FakeUpstream("only", answer("ok"))

    async def test(gateway: Gateway) -> None:
        first = (await call(gateway, model="m", input="x" * 10_000)).json["id"]
        follow = CreateResponse(model="m", input="3", previous_response_id=first)
        assert (await complete(gateway, None, follow, 7)).weight > 10_000
        alone = CreateResponse(model="m", input="3")
        assert (await complete(gateway, None, alone, 7)).weight < 1000

    with_gateway(test, upstream)


def test_the_input_is_encoded_only_for_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(value: object) -> bytes:
        raise AssertionError(f"encoded: {value!r}")

    async def test(gateway: Gateway) -> None:
        request = read({"model": "m", "input": "hello"}, CreateResponse)
        with monkeypatch.context() as patch:
            patch.setattr(chains, "encode", refused)
            resolved = await complete(gateway, None, request, 0)
        [named], [stored] = resolved.added, resolved.new_items
        assert stored.id == named.id
        assert json.loads(stored.data)["content"] == [{"type": "input_text", "text": "hello"}]

    with_gateway(test)


@pytest.mark.parametrize("is_frozen", [False, True], ids=["broken", "frozen"])
def test_a_request_that_is_not_stored_goes_on_when_the_store_is_suddenly_away(
    monkeypatch: pytest.MonkeyPatch, is_frozen: bool
) -> None:
    """Decision 34."""
    searches = []

    async def search(_: str, ids: Sequence[str]) -> dict[str, Any]:
        searches.append(ids)
        if is_frozen:
            await asyncio.Event().wait()
        raise StoreError(StoreError.UNREACHABLE, "the database is away")

    async def test(gateway: Gateway) -> None:
        monkeypatch.setattr(gateway.store, "recall", search)
        monkeypatch.setattr(gateway.store, "items", search)
        monkeypatch.setattr(resolve, "_PATIENCE", 0.01)
        given = [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "seen"},
        ]
        request = read({"model": "m", "input": given, "store": False}, CreateResponse)
        async with asyncio.timeout(10):
            resolved = await complete(gateway, None, request, 0)
        assert contents(resolved.request)[1:] == ["function_call", "seen"]
        assert searches == [["rs_1"]]  # it is not asked again
        if not is_frozen:
            with pytest.raises(StoreError):
                await complete(gateway, None, replace(request, store=True), 0)

    with_gateway(test)
