"""pydantic-ai."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.cases import ADDS, FIVE, HELLO, Case, play, rows, saw_tool_loop
from tests.clients.driver import Driver
from tests.clients.script import Answer, Say, Seen, Think, function
from tests.clients.stage import Stage

pytestmark = pytest.mark.clients

CLIENT = "pydantic-ai"
ADDED = {"text": "It is 5.", "ran": [[2, 3]]}


def describe(seen: Seen) -> Answer:
    """Answer with the output tool if there is one, as a model that is forced to call it does."""
    described = {"name": "Tom", "age": 3}
    if any("age" in tool.schema.get("properties", {}) for tool in seen.tools):
        return (function("final_result", **described),)
    return (Say('{"name": "Tom", "age": 3}'),)


CASES = {
    "run": Case(run="run", script=(HELLO,), expected={"text": "Hello to you.", "tokens": 150}),
    "stream": Case(run="stream", script=(HELLO,), expected="Hello to you."),
    "functions": Case(run="functions", script=(ADDS, FIVE), expected=ADDED, then=saw_tool_loop),
    "functions, streaming": Case(
        run="streamed_functions", script=(ADDS, FIVE), expected=ADDED, then=saw_tool_loop
    ),
    "previous_response_id": Case(
        run="functions",
        arguments={"previous": True},
        script=(ADDS, FIVE),
        expected=ADDED,
        then=saw_tool_loop,
    ),
    "two turns": Case(
        run="two_turns",
        script=(ADDS, FIVE, (Say("Yes."),)),
        expected={"texts": ["It is 5.", "Yes."], "ran": [[2, 3]]},
        then=saw_tool_loop,
    ),
    "structured output": Case(run="structured", script=(describe,), expected={"name": "Tom", "age": 3}),
    "reasoning": Case(
        run="reasoning",
        script=((Think("I add."), *ADDS), FIVE),
        expected={**ADDED, "thoughts": ["I add."]},
        then=saw_tool_loop,
    ),
}


@pytest.mark.parametrize(("client", "case", "dialect"), rows({CLIENT: CASES}))
def test_pydantic_ai(
    client: str, case: str, dialect: str, drivers: Callable[[str], Driver], scene: Stage
) -> None:
    play(CASES[case], dialect, scene, drivers(client))
