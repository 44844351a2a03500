"""OpenAI's own Python library against the gateway: stream, create and parse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import openai
import pytest
from openai import OpenAI
from openai.lib.responses_websocket import (
    ResponsesWebSocketError,
    ResponsesWebSocketLimits,
    ResponsesWebSocketSession,
)
from openai.types.responses import Response
from pydantic import BaseModel

from tests.client.server import Script, answer, cut
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import Running
from tests.gateway.upstream import ScriptedUpstream, begun, said, streamed

WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


class Step(BaseModel):
    explanation: str
    output: str


class Solution(BaseModel):
    steps: list[Step]
    final_answer: str
    confidence: Literal["low", "high"]
    score: float


@pytest.fixture(scope="module")
def client(penstock: Running) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{penstock.url}/v1", api_key="sk-any", max_retries=0, timeout=30) as made:
        yield made


def test_create_gives_a_response(client: OpenAI) -> None:
    response = client.responses.create(model="demo", input="say exactly: hello there")
    assert response.output_text == "hello there"
    assert response.status == "completed"
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


def test_create_streams_events(client: OpenAI) -> None:
    events = list(client.responses.create(model="demo", input="Count from 1 to 5.", stream=True))
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1].type == "response.completed"
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text


def test_the_stream_helper_gathers_the_same_response(client: OpenAI) -> None:
    with client.responses.stream(model="demo", input="think about it", reasoning={"effort": "low"}) as stream:
        seen = [event.type for event in stream]
        final = stream.get_final_response()
    assert "response.reasoning_text.delta" in seen
    assert final.output_text
    assert [item.type for item in final.output] == ["reasoning", "message"]


def test_a_tool_loop_ends_in_an_answer(client: OpenAI) -> None:
    history: list[Any] = [{"role": "user", "content": "What is the weather in Lisbon?"}]
    with client.responses.stream(model="demo", input=history, tools=[WEATHER]) as stream:
        for _ in stream:
            pass
        first: Response = stream.get_final_response()
    [call] = [item for item in first.output if item.type == "function_call"]
    assert set(json.loads(call.arguments)) == {"city"}
    history += [item.model_dump(exclude_none=True) for item in first.output]
    history.append({"type": "function_call_output", "call_id": call.call_id, "output": "17 degrees, sunny"})
    second = client.responses.create(model="demo", input=history, tools=[WEATHER])
    assert "17 degrees" in second.output_text
    assert not [item for item in second.output if item.type == "function_call"]


def test_parse_gives_the_declared_type(client: OpenAI) -> None:
    response = client.responses.parse(model="demo", input="Solve 8x + 31 = 2.", text_format=Solution)
    assert isinstance(response.output_parsed, Solution)


def test_a_stream_is_parsed_too(client: OpenAI) -> None:
    with client.responses.stream(model="demo", input="Solve it.", text_format=Solution) as stream:
        final = stream.get_final_response() if list(stream) else None
    assert final is not None
    assert isinstance(final.output_parsed, Solution)


def test_models_are_listed(client: OpenAI) -> None:
    assert "demo" in [model.id for model in client.models.list()]
    assert client.models.retrieve("demo").id == "demo"


def test_input_tokens_are_counted(client: OpenAI) -> None:
    assert client.responses.input_tokens.count(model="demo", input="hello").input_tokens > 0


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
def test_a_refusal_is_the_librarys_own_exception(
    client: OpenAI, upstream: ScriptedUpstream, status: int, kind: type[openai.APIStatusError]
) -> None:
    error = {"message": "in its own words", "code": "model_not_found" if status == 404 else None}
    model = upstream.play(f"refused-{status}", [answer(status, {"error": error})])
    with pytest.raises(kind) as caught:
        client.responses.create(model=model, input="x")
    assert "in its own words" in caught.value.message
    assert caught.value.request_id
    assert caught.value.request_id in caught.value.message


NOT_THE_API: dict[str, Script] = {
    "a wrong address": [answer(404, b"404 page not found", "text/plain")],
    "a web page": [answer(200, b"<!doctype html><title>Login</title>", "text/html")],
    "a used-up quota": [answer(429, {"error": {"message": "no", "code": "insufficient_quota"}})],
}


@pytest.mark.parametrize("kind", NOT_THE_API)
def test_the_library_does_not_retry_what_a_retry_cannot_change(
    client: OpenAI, upstream: ScriptedUpstream, kind: str
) -> None:
    model = upstream.play(f"final {kind}", NOT_THE_API[kind])
    with pytest.raises(openai.APIStatusError) as caught:
        client.with_options(max_retries=2).responses.create(model=model, input="hi")
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert len(upstream.asked_for(model)) == 1


def test_a_failure_in_the_middle_is_an_exception(client: OpenAI, upstream: ScriptedUpstream) -> None:
    model = upstream.play("cut-sdk", [*begun(chat_chunk({"content": "a"})), cut])
    with (
        pytest.raises(openai.APIError, match="broke"),
        client.responses.stream(model=model, input="x") as stream,
    ):
        for _ in stream:
            pass


@pytest.mark.parametrize(
    "failure",
    [
        {"error": {"message": "no reason"}},
        {"error": "no reason"},
        {"error": {"message": "no reason", "code": None, "type": None}},
        {"error": {"message": "no reason", "code": ""}},
    ],
)
def test_an_error_in_the_stream_always_has_a_code(
    client: OpenAI, upstream: ScriptedUpstream, failure: dict[str, Any]
) -> None:
    """The library reads the code of the nested error."""
    model = upstream.play("no-code", streamed(chat_chunk({"content": "half"}), failure))
    with pytest.raises(openai.APIError, match="no reason") as caught:
        list(client.responses.create(model=model, input="x", stream=True))
    assert caught.value.code == "server_error"


def test_an_upstream_answers_through_it(client: OpenAI, upstream: ScriptedUpstream) -> None:
    model = upstream.play("through-sdk", streamed(*said("from afar")))
    response = client.responses.create(model=model, input="x")
    assert response.output_text == "from afar"
    assert response.usage is not None
    assert response.usage.input_tokens_details.cached_tokens == 5


def test_a_request_repeated_with_its_idempotency_key_is_not_run_again(
    client: OpenAI, upstream: ScriptedUpstream
) -> None:
    """The library sends the header only if its caller does."""
    model = upstream.play("repeated-sdk", streamed(*said("once")), streamed(*said("twice")))
    headers = {"Idempotency-Key": "sdk-1"}
    first, again = (client.responses.create(model=model, input="x", extra_headers=headers) for _ in range(2))
    assert again == first
    assert len(upstream.asked_for(model)) == 1
    with pytest.raises(openai.ConflictError) as caught:
        client.responses.create(model=model, input="y", extra_headers=headers)
    assert caught.value.code == "idempotency_key_reused"
    client.responses.create(model=model, input="x")
    assert len(upstream.asked_for(model)) == 2


# Over a WebSocket


def test_a_connection_answers_turn_after_turn(client: OpenAI) -> None:
    """Each turn continues the last one, which is not stored."""
    with client.responses.connect() as connection:
        id: str | None = None
        for number in range(3):
            more: Any = {"previous_response_id": id} if id else {}
            connection.response.create(model="demo", input=f"say exactly: {number}", store=False, **more)
            response = next(each.response for each in connection if each.type == "response.completed")
            assert response.output_text == str(number)
            id = response.id


def test_fields_that_only_http_has_do_not_fail_a_turn(client: OpenAI) -> None:
    """Decision 31: openai-agents sends them with every turn."""
    with client.responses.connect() as connection:
        connection.response.create(model="demo", input="hello", stream=True, background=False)
        types = []
        for event in connection:
            types.append(event.type)
            if event.type == "response.completed":
                break
    assert types[0] == "response.created"


def test_a_steered_response_goes_on(client: OpenAI) -> None:
    with client.responses.connect() as connection:
        connection.response.create(model="demo", input="Count from 1 to 5.")
        created = connection.recv()
        assert created.type == "response.created"
        connection.response.steer(input="stop", previous_response_id=created.response.id)
        events = []
        for event in connection:
            events.append(event)
            if {"response.completed", "response.steer.failed"} <= {each.type for each in events}:
                break
        [failed] = [each for each in events if each.type == "response.steer.failed"]
        assert failed.error.code == "steering_not_supported"
        assert failed.steer.input == "stop"


def test_lanes_of_a_session_run_at_the_same_time(client: OpenAI) -> None:
    limits = ResponsesWebSocketLimits(
        max_lanes=8, max_events_per_lane=500, max_events=4000, max_bytes_per_lane=10**7, max_bytes=10**8
    )
    with (
        client.responses.connect() as connection,
        ResponsesWebSocketSession(connection, limits=limits) as session,
    ):
        lanes = [session.lane(f"lane-{number}") for number in range(5)]
        for number, lane in enumerate(lanes):
            create: Any = {"type": "response.create", "model": "demo", "input": f"say exactly: {number}"}
            lane.send(create)
        texts = [lane.get_final_response(timeout=30).output_text for lane in lanes]
        assert texts == ["0", "1", "2", "3", "4"]
        lanes[0].send({"type": "response.create", "model": "nobody", "input": "x"})
        with pytest.raises(ResponsesWebSocketError) as refused:
            lanes[0].get_final_response(timeout=30)
        assert refused.value.event.type == "error"
