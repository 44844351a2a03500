"""The clients that continuous integration leaves out: `make e2e-clients-all` runs them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.cases import ADDS, FIVE, HELLO, Case, play, rows, saw_tool_loop
from tests.clients.driver import Driver
from tests.clients.script import Say, Think
from tests.clients.stage import Stage

pytestmark = pytest.mark.clients_all

SURE = (Say("Yes."),)
CAT = (Say('{"name": "Tom", "age": 3}'),)
ADDED = {"text": "It is 5.", "ran": [[2, 3]]}
TWO_TURNS = {"texts": ["It is 5.", "Yes."], "ran": [[2, 3]]}
CALLED = {"calls": [{"a": 2, "b": 3}], "text": "It is 5."}

CASES = {
    "openai-node": {
        "create": Case(
            run="create",
            script=(HELLO,),
            expected={"text": "Hello to you.", "status": "completed", "tokens": 150},
        ),
        "stream helper": Case(
            run="stream", script=(HELLO,), expected={"text": "Hello to you.", "final": "Hello to you."}
        ),
        "tool loop, full history": Case(
            run="toolLoop",
            arguments={"way": "full"},
            script=(ADDS, FIVE),
            expected={"calls": ['{"a":2,"b":3}'], "text": "It is 5."},
            then=saw_tool_loop,
        ),
        "tool loop, previous_response_id": Case(
            run="toolLoop",
            arguments={"way": "previous"},
            script=(ADDS, FIVE),
            expected={"calls": ['{"a":2,"b":3}'], "text": "It is 5."},
            then=saw_tool_loop,
        ),
        "background": Case(
            run="background", script=(HELLO,), expected={"status": "completed", "text": "Hello to you."}
        ),
        "input_items, retrieve, delete": Case(
            run="stored",
            script=(HELLO,),
            expected={"items": ["Say hello"], "text": "Hello to you.", "code": "response_not_found"},
        ),
        "conversations": Case(run="conversation", script=(HELLO, (Say("Grey."),)), expected="Grey."),
    },
    "llm": {
        "prompt": Case(run="prompt", arguments={"stream": False}, script=(HELLO,), expected="Hello to you."),
        "prompt, streaming": Case(
            run="prompt", arguments={"stream": True}, script=(HELLO,), expected="Hello to you."
        ),
        "tool loop": Case(run="tool_loop", script=(ADDS, FIVE), expected=ADDED, then=saw_tool_loop),
        "conversation": Case(
            run="conversation", script=(ADDS, FIVE, SURE), expected=TWO_TURNS, then=saw_tool_loop
        ),
        "structured output": Case(run="structured", script=(CAT,), expected={"name": "Tom", "age": 3}),
    },
    "agent-framework": {
        "functions": Case(run="run", script=(ADDS, FIVE), expected=ADDED, then=saw_tool_loop),
        "functions, streaming": Case(run="stream", script=(ADDS, FIVE), expected=ADDED, then=saw_tool_loop),
        "session": Case(run="session", script=(ADDS, FIVE, SURE), expected=TWO_TURNS, then=saw_tool_loop),
    },
    "LlamaIndex": {
        "chat": Case(run="chat", script=(HELLO,), expected="Hello to you."),
        "stream": Case(run="stream", script=(HELLO,), expected="Hello to you."),
        "tool loop": Case(run="tool_loop", script=(ADDS, FIVE), expected=ADDED, then=saw_tool_loop),
        "tool loop, previous_response_id": Case(
            run="tool_loop",
            arguments={"tracked": True},
            script=(ADDS, FIVE),
            expected=ADDED,
            then=saw_tool_loop,
        ),
    },
    "LiteLLM SDK": {
        "responses": Case(run="responses", script=(HELLO,), expected="Hello to you."),
        "stream with reasoning": Case(
            run="stream",
            script=((Think("A cat."), *HELLO),),
            expected={"text": "Hello to you.", "thoughts": "A cat.", "last": "response.completed"},
        ),
        "tool loop, previous_response_id": Case(
            run="tool_loop", script=(ADDS, FIVE), expected=CALLED, then=saw_tool_loop
        ),
        "Chat Completions over Responses": Case(
            run="bridge", script=(ADDS, FIVE), expected=CALLED, then=saw_tool_loop
        ),
    },
}


@pytest.mark.parametrize(("client", "case", "dialect"), rows(CASES))
def test_more_clients(
    client: str, case: str, dialect: str, drivers: Callable[[str], Driver], scene: Stage
) -> None:
    play(CASES[client][case], dialect, scene, drivers(client))
