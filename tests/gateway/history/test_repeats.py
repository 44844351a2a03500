"""Items that a client sends again: what is already in the history counts once."""

from __future__ import annotations

import pytest

from tests.gateway.running import Running
from tests.gateway.stored_responses import (
    LOOK,
    calling,
    sent_to,
)
from tests.gateway.upstream import (
    ScriptedUpstream,
    said,
    streamed,
)


@pytest.mark.e2e
def test_new_words_under_a_known_id_are_new(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("same-id", *[streamed(*said("ok"))] * 2)
    message = {"type": "message", "id": "msg_mine", "role": "user"}
    first = penstock.stream("same-id", input=[{**message, "content": "first"}]).last["id"]
    penstock.stream("same-id", input=[{**message, "content": "second"}], previous_response_id=first)
    assert [content for _, content in sent_to(upstream, "same-id", 1)] == ["first", "ok", "second"]


@pytest.mark.e2e
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


@pytest.mark.e2e
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


@pytest.mark.e2e
def test_what_is_sent_again_with_an_id_counts_once(penstock: Running, upstream: ScriptedUpstream) -> None:
    """Ask G9: messages by their ids, calls and outputs by their call ids."""
    model = upstream.play("repeated", calling("call_r"), streamed(*said("two")), streamed(*said("three")))
    first = penstock.whole(model, "hello", tools=LOOK).last
    call = {name: first["output"][0][name] for name in ("type", "call_id", "name", "arguments")}
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "seen"}
    asked = {"model": model, "tools": LOOK}
    second = penstock.ask({**asked, "input": [call, output], "previous_response_id": first["id"]}).last
    roles = ["user", "assistant", "tool"]
    assert [role for role, _ in sent_to(upstream, model, 1)] == roles
    again = [call, output, *second["output"], {"role": "user", "content": "and now?"}]
    penstock.ask({**asked, "input": again, "previous_response_id": second["id"]})
    assert [role for role, _ in sent_to(upstream, model, 2)] == [*roles, "assistant", "user"]
