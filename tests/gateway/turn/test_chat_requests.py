"""A request written as for Chat Completions gets a 400 from a running gateway that says what to write."""

from __future__ import annotations

import json

import pytest

from tests.gateway.running import Json, Running
from tests.gateway.upstream import ScriptedUpstream, said, streamed
from tests.gateway.websocket_client import talking
from tests.protocol.chat_habits import BOTH_FORMS, HABITS, HARMLESS, Habit, written

MODEL = "reads-responses"
"""It answers at once, unlike the demo model."""

PATHS = ("/v1/responses", "/v1/responses/input_tokens", "/v1/responses/compact")


@pytest.fixture(autouse=True)
def answering(upstream: ScriptedUpstream) -> None:
    upstream.play(MODEL, streamed(*said("Yes.")))


@pytest.mark.parametrize("habit", HABITS.values(), ids=HABITS)
def test_a_chat_habit_gets_a_400_whose_example_is_accepted(penstock: Running, habit: Habit) -> None:
    refused = penstock.ask({"model": MODEL, **habit.fields})
    assert refused.status == 400
    assert refused.error["code"] == "invalid_request"
    assert refused.error["param"] == habit.param
    examples = written(refused.error["message"])
    assert examples
    for example in examples:
        accepted = penstock.ask({"model": MODEL, "input": "Hi", **example})
        assert accepted.status == 200
        assert accepted.json["status"] == "completed"


@pytest.mark.parametrize("path", PATHS)
def test_every_endpoint_that_takes_a_request_explains_messages(penstock: Running, path: str) -> None:
    refused = penstock.ask({"model": "demo", **HABITS["messages"].fields}, path)
    assert (refused.status, refused.error["param"]) == (400, "messages")
    (example,) = written(refused.error["message"])
    assert penstock.ask({"model": "demo", **example}, path).status == 200


@pytest.mark.parametrize("habit", HABITS.values(), ids=HABITS)
def test_a_chat_habit_over_a_websocket_is_one_envelope_and_the_socket_stays_usable(
    penstock: Running, habit: Habit
) -> None:
    with talking(penstock) as talk:
        talk.socket.send(json.dumps({"type": "response.create", "model": MODEL, **habit.fields}))
        (refused,) = talk.events()
        assert (refused["status"], refused["error"]["param"]) == (400, habit.param)
        (example, *_) = written(refused["error"]["message"])
        talk.ask(**{"model": MODEL, "input": "Hi", **example})
        assert talk.events()[-1]["type"] == "response.completed"


def test_a_message_of_a_tool_is_not_added_to_a_conversation(penstock: Running) -> None:
    refused = penstock.ask({"items": [{"role": "tool", "content": "5"}]}, "/v1/conversations")
    assert (refused.status, refused.error["param"]) == (400, "items[0].role")


@pytest.mark.parametrize("name", BOTH_FORMS)
def test_a_request_in_both_forms_is_answered_with_a_diagnostic(penstock: Running, name: str) -> None:
    reply = penstock.ask({"model": MODEL, **BOTH_FORMS[name]})
    assert reply.status == 200
    (message,) = [each["message"] for each in reply.json["diagnostics"] if each["code"] == "chat_field"]
    assert message.startswith(f"`{name}` is a field of Chat Completions")


@pytest.mark.parametrize("fields", HARMLESS.values(), ids=HARMLESS)
def test_what_means_the_same_in_both_apis_is_accepted(penstock: Running, fields: Json) -> None:
    reply = penstock.ask({"model": MODEL, **fields})
    assert reply.status == 200
    assert "chat_field" not in [each["code"] for each in reply.last.get("diagnostics", [])]


def test_chat_completions_itself_says_where_to_go_and_what_to_write(penstock: Running) -> None:
    asked = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
    refused = penstock.ask(asked, "/v1/chat/completions")
    assert (refused.status, refused.error["code"]) == (400, "unsupported_api")
    assert "POST /v1/responses" in refused.error["message"]
    (example,) = written(refused.error["message"])
    assert penstock.ask({"model": MODEL, **example}).status == 200
