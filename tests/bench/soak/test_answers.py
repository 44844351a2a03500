"""What the upstream of the soak answers is lawful in its API format, so that a failure is never its own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bench.soak.answers import DIALECTS, LAWFUL, TOOL, Directions, directions_in, error_frame, frames

from penstock import (
    CreateResponse,
    FunctionTool,
    Pipeline,
    ResponseStreamStateMachine,
    dialect,
    plan_for,
    response_for,
    target_for,
)
from penstock.dialects.registry import rendered_dialect
from penstock.protocol.wire import decode, to_builtins

NAMES = pytest.mark.parametrize("name", DIALECTS)
REQUEST = CreateResponse(model="m", input="x", tools=[FunctionTool(name=TOOL)])


def answer(name: str, data: list[bytes]) -> dict[str, Any]:
    """Return the response that Penstock makes of an upstream's bytes."""
    plan = plan_for(REQUEST, target_for("m", dialect=name))
    machine = ResponseStreamStateMachine(
        response_for(REQUEST, id="resp_1", created_at=1), clock=lambda: 1.0, tools=plan.tools
    )
    pipeline = Pipeline(machine)
    pipeline.open(dialect(name), plan)
    events = pipeline.start()
    for each in data:
        events += pipeline.feed(each)
    events += pipeline.end()
    response: dict[str, Any] = to_builtins(events[-1])["response"]
    return response


@NAMES
@pytest.mark.parametrize("how", LAWFUL)
def test_a_lawful_answer_has_what_was_asked_for(name: str, how: str) -> None:
    asked = Directions("t7", how, 5, 0)
    response = answer(name, frames(name, asked))
    assert response["status"] == "completed"
    assert response["usage"]["output_tokens"] == 5
    (item,) = [each for each in response["output"] if each["type"] != "reasoning"]
    if how == "call":
        assert (item["name"], json.loads(item["arguments"])) == (TOOL, asked.arguments)
    else:
        assert item["content"][0]["text"] == asked.text == "t7/0 t7/1 t7/2 t7/3 t7/4 "
    assert (how == "reasoning") == (len(response["output"]) == 2)


@NAMES
def test_an_answer_that_is_cut_anywhere_does_not_complete(name: str) -> None:
    data = frames(name, Directions("t7", "text", 5, 0))
    for length in range(len(data) // 2 + 1):
        assert answer(name, data[:length])["status"] != "completed"


@NAMES
def test_an_error_in_the_middle_is_read_as_one(name: str) -> None:
    data = frames(name, Directions("t7", "text", 5, 0))
    response = answer(name, [*data[: len(data) // 2], error_frame(name)])
    assert response["status"] == "failed"
    assert response["error"]["code"] != "upstream_truncated"


@NAMES
def test_the_directions_are_found_in_a_rendered_request(name: str) -> None:
    """Those of the newest turn, whatever the history says."""
    old, new = Directions("t1", "call", 1, 0), Directions("t2", "text", 3, 20)
    input = [{"role": "user", "content": old.prompt}, {"role": "user", "content": new.prompt}]
    request = decode(json.dumps({"model": "m", "input": input}).encode(), CreateResponse)
    body = rendered_dialect(name).render(plan_for(request, target_for("m", dialect=name))).body
    assert directions_in(json.dumps(body).encode()) == new
    assert directions_in(b'{"model": "m"}') is None
