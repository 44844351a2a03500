"""Items that a client sends again: what is already in the history counts once (ask G9)."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.gateway.gateway import Gateway
from penstock.gateway.history.repeats import latest_outputs, without_repeats
from penstock.gateway.settings import Limits
from penstock.gateway.turn.requests import parse_bounded
from penstock.protocol.items import Item
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import read
from tests.gateway.fake_upstreams import FakeUpstream, answer
from tests.gateway.in_process import Json, call, with_gateway


def items(*values: Json) -> list[Item]:
    found = read({"input": list(values)}, CreateResponse).input
    assert isinstance(found, list)
    return found


def user(text: Any, **fields: Any) -> Json:
    return {"type": "message", "role": "user", "content": text, **fields}


def assistant(text: Any, **fields: Any) -> Json:
    return {"type": "message", "role": "assistant", "content": text, **fields}


def called(id: str = "c1", arguments: str = "{}", **fields: Any) -> Json:
    return {"type": "function_call", "call_id": id, "name": "look", "arguments": arguments, **fields}


def output(text: str = "seen", id: str = "c1", **fields: Any) -> Json:
    return {"type": "function_call_output", "call_id": id, "output": text, **fields}


THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}
PARTS = [{"type": "input_text", "text": "one"}]

HISTORY = [user("one", id="msg_1"), THOUGHT, called(id="c1"), output(), assistant("ok", id="msg_2")]
HISTORY[2]["id"] = "fc_1"


@pytest.mark.parametrize(
    ("given", "new"),
    [
        ([user("two")], [0]),
        # The whole history, with or without ids, however it is written, and with or without its reasoning.
        ([*HISTORY, user("two")], [5]),
        ([user(PARTS), called(), output(), assistant("ok"), user("one")], [4]),
        ([user(PARTS), THOUGHT, called(), output(), assistant("ok"), user("one")], [5]),
        # Not the whole history: the same words again are a new message, unless they have a known id.
        ([user("one")], [0]),
        ([user("one", id="msg_1"), user("two")], [1]),
        # Other words under a known id are new.
        ([user("changed", id="msg_1")], [0]),
        # A known call is known, however its arguments are written; another output of it is new.
        ([called(arguments='{"changed": 1}'), user("two")], [1]),
        ([output(), user("two")], [1]),
        ([output("corrected"), user("two")], [0, 1]),
        ([called(id="c2"), output(id="c2")], [0, 1]),
        # A history that differs in one item is not a repetition of the whole.
        ([user("one"), called(), output(), assistant("not ok"), user("two")], [0, 3, 4]),
    ],
)
def test_repeated_items_are_dropped(given: list[Json], new: list[int]) -> None:
    found = without_repeats(items(*HISTORY), list(enumerate(items(*given))))
    assert [place for place, _ in found] == new


def test_without_a_history_everything_is_new() -> None:
    given = list(enumerate(items(user("one"), user("one"))))
    assert without_repeats([], given) == given


def test_the_last_output_of_a_call_takes_the_place_of_the_first() -> None:
    conversation = items(called(), output("old"), user("and?"), output("new"), output("other", id="c2"))
    latest = latest_outputs(conversation)
    assert latest == [conversation[0], conversation[3], conversation[2], conversation[4]]


def test_outputs_of_other_kinds_of_calls_are_distinguished() -> None:
    """A custom tool call and a function call may have one id."""
    both = items(output("a"), {"type": "custom_tool_call_output", "call_id": "c1", "output": "b"})
    assert latest_outputs(both) == both


def test_reading_a_request_keeps_the_place_of_each_item() -> None:
    """Errors name the position in the request, not the position among the new items."""
    raw = parse_bounded(b'{"input": [{"role": "user", "content": "x"}]}', Limits())
    found = without_repeats(items(user("one")), [(7, items(*raw["input"])[0])])
    assert [place for place, _ in found] == [7]


def test_a_conversation_with_a_corrected_output_is_sent_once() -> None:
    upstream = FakeUpstream("only", answer("ok"))

    async def test(gateway: Gateway) -> None:
        first = (await call(gateway, model="m", input=[user("go"), called(), output("old")])).json["id"]
        corrected = [user("go"), output("new")]
        second = (await call(gateway, model="m", input=corrected, previous_response_id=first)).json["id"]
        await call(gateway, model="m", input="and now?", previous_response_id=second)

    with_gateway(test, upstream)
    sent = [message.get("content") for message in upstream.requests[2].body["messages"]]
    assert sent.count("new") == 1
    assert "old" not in sent
    assert sent[-1] == "and now?"
