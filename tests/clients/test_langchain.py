"""LangChain and LangGraph."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.cases import ADDS, FIVE, HELLO, Case, play, rows, saw_tool_loop
from tests.clients.driver import Driver
from tests.clients.script import Say, Think, function
from tests.clients.stage import Stage

pytestmark = pytest.mark.clients

ADDED = {"text": "It is 5.", "ran": [[2, 3]]}
TWO_TURNS = {"texts": ["It is 5.", "Yes."], "ran": [[2, 3]]}
SURE = (Say("Yes."),)


def only_new_items(stage: Stage, dialect: str) -> None:
    saw_tool_loop(stage, dialect)
    assert [item["type"] for item in stage.turns[1].json["input"]] == ["function_call_output"]


def custom_items(stage: Stage, dialect: str) -> None:
    sent = [item.get("type", "") for item in stage.turns[1].json["input"]]
    assert [each for each in sent if "call" in each] == ["custom_tool_call", "custom_tool_call_output"]
    assert stage.seen(dialect)[1].texts("output") == ["remembered"]


CASES = {
    "LangChain": {
        "invoke": Case(run="invoke", script=(HELLO,), expected={"text": "Hello to you.", "tokens": 150}),
        "stream": Case(run="stream", script=(HELLO,), expected="Hello to you."),
        "tool loop": Case(run="tool_loop", script=(ADDS, FIVE), expected=ADDED, then=saw_tool_loop),
        "tool loop, streaming": Case(
            run="tool_loop",
            arguments={"streaming": True},
            script=((Say("Let me see."), *ADDS), FIVE),
            expected=ADDED,
            then=saw_tool_loop,
        ),
        "use_previous_response_id": Case(
            run="tool_loop",
            arguments={"previous": True},
            script=(ADDS, FIVE),
            expected=ADDED,
            then=only_new_items,
        ),
        "structured output": Case(
            run="structured",
            script=((Say('{"name": "Tom", "age": 3}'),),),
            expected={"name": "Tom", "age": 3},
        ),
        "reasoning": Case(
            run="reasoning",
            script=((Think("A cat, surely."), *HELLO),),
            expected={"text": "Hello to you.", "thoughts": ["A cat, surely."]},
        ),
    },
    "LangGraph": {
        "agent with memory": Case(
            run="agent_loop", script=(ADDS, FIVE, SURE), expected=TWO_TURNS, then=saw_tool_loop
        ),
        "agent with memory, streaming": Case(
            run="agent_loop",
            arguments={"streaming": True},
            script=(ADDS, FIVE, SURE),
            expected=TWO_TURNS,
            then=saw_tool_loop,
        ),
        "tokens": Case(run="tokens", script=(ADDS, FIVE), expected=ADDED, then=saw_tool_loop),
        "custom tool": Case(
            run="custom",
            script=((function("remember", input="the grey cat"),), (Say("Remembered."),)),
            expected={"text": "Remembered.", "ran": ["the grey cat"]},
            then=custom_items,
        ),
    },
}


@pytest.mark.parametrize(("client", "case", "dialect"), rows(CASES))
def test_langchain(
    client: str, case: str, dialect: str, drivers: Callable[[str], Driver], scene: Stage
) -> None:
    play(CASES[client][case], dialect, scene, drivers(client))
