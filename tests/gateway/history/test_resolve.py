"""What a request refers to: item references, and ids of any origin (ask G3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
def test_any_id_in_a_history_is_taken(penstock: Running, upstream: ScriptedUpstream, name: str) -> None:
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


@pytest.mark.e2e
def test_a_reference_never_reaches_an_upstream(penstock: Running, upstream: ScriptedUpstream) -> None:
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


@pytest.mark.e2e
def test_an_item_is_named_instead_of_sent(penstock: Running, upstream: ScriptedUpstream) -> None:
    """The AI SDK replays its history by references."""
    model = upstream.play("referred", streamed(*said("the answer")), streamed(*said("ok")))
    [message] = penstock.whole(model, "hello").last["output"]
    given = [{"type": "item_reference", "id": message["id"]}, {"role": "user", "content": "again"}]
    penstock.ask({"model": model, "input": given})
    assert sent_to(upstream, model, 1) == [("assistant", "the answer"), ("user", "again")]
    unknown = penstock.ask({"model": model, "input": [given[1], {"type": "item_reference", "id": "msg_no"}]})
    assert (unknown.status, unknown.error["code"]) == (400, "item_not_found")
    assert unknown.error["param"] == "input[1].id"
