"""The attributes of spans: their names are those of the conventions, and none has content."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import fields
from opentelemetry.semconv._incubating.attributes import (
    gen_ai_attributes,
    http_attributes,
    user_agent_attributes,
)
from opentelemetry.semconv.attributes import error_attributes, server_attributes
from opentelemetry.semconv.attributes import http_attributes as stable_http

from penstock.gateway.telemetry.otel.attributes import (
    ATTEMPT,
    CALLS,
    CONTENT,
    TURN,
    as_markdown,
    attributes_of,
    finish_reasons,
    is_error,
)
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol import items
from penstock.protocol.errors import IncompleteDetails
from penstock.protocol.items import FunctionCall, Message
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import Response
from penstock.protocol.wire import read
from tests.gateway.telemetry.otel import ended

CONVENTIONS = {
    value
    for module in (
        gen_ai_attributes,
        http_attributes,
        stable_http,
        user_agent_attributes,
        error_attributes,
        server_attributes,
    )
    for value in vars(module).values()
    if isinstance(value, str)
}


def test_every_name_is_one_of_the_conventions_or_ours() -> None:
    names = [*(each.name for each in TURN), *(each.name for each in ATTEMPT), *CONTENT]
    assert {name for name in names if not name.startswith("penstock.")} <= CONVENTIONS
    for table in (TURN, ATTEMPT):
        assert len({each.name for each in table}) == len(table)


def test_a_completed_turn() -> None:
    found = attributes_of(
        TURN, ended.turn(stream=True, cached_tokens=4, reasoning_tokens=2, cache_write_tokens=1)
    )
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.provider.name"] == "openai"
    assert found["gen_ai.request.model"] == "m"
    assert found["gen_ai.response.model"] == "m-1"
    assert found["gen_ai.response.id"] == "resp_1"
    assert found["gen_ai.request.stream"] is True
    assert found["gen_ai.response.finish_reasons"] == ["stop"]
    assert found["gen_ai.response.time_to_first_chunk"] == 0.2
    usage = {name.removeprefix("gen_ai.usage."): value for name, value in found.items() if "usage." in name}
    assert usage == {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read.input_tokens": 4,
        "cache_creation.input_tokens": 1,
        "reasoning.output_tokens": 2,
    }
    assert found["penstock.cost"] == 0.25
    assert found["penstock.terminal_sent"] is True
    assert "error.type" not in found


def test_what_the_request_says() -> None:
    request = read(
        {
            "model": "m",
            "temperature": 0,
            "top_p": 0.5,
            "presence_penalty": 1,
            "frequency_penalty": -1,
            "max_output_tokens": 9,
            "conversation": {"id": "conv_1"},
            "text": {"format": {"type": "json_object"}},
        },
        CreateResponse,
    )
    found = attributes_of(TURN, ended.turn(request))
    assert {name: found[f"gen_ai.request.{name}"] for name in ("temperature", "top_p", "max_tokens")} == {
        "temperature": 0,
        "top_p": 0.5,
        "max_tokens": 9,
    }
    assert (found["gen_ai.request.presence_penalty"], found["gen_ai.request.frequency_penalty"]) == (1, -1)
    assert (found["gen_ai.conversation.id"], found["gen_ai.output.type"]) == ("conv_1", "json")
    plain = read({"conversation": "conv_2", "text": {"format": {"type": "text"}}}, CreateResponse)
    found = attributes_of(TURN, ended.turn(plain))
    assert (found["gen_ai.conversation.id"], found["gen_ai.output.type"]) == ("conv_2", "text")


def test_what_is_not_known_is_left_out() -> None:
    unknown = ended.turn(
        upstream_model="", target="", status=0, first_output_ms=-1, input_tokens=0, output_tokens=0, client=""
    )
    found = attributes_of(TURN, unknown)
    for name in ("gen_ai.response.model", "penstock.target", "http.response.status_code", "penstock.client"):
        assert name not in found
    assert not [name for name in found if "usage" in name or "request.temperature" in name]
    assert None not in found.values()


@pytest.mark.parametrize(
    ("fields", "type", "is_failure"),
    [
        ({"outcome": "failed", "code": "upstream_truncated"}, "upstream_truncated", True),
        ({"outcome": "failed"}, "_OTHER", True),
        ({"outcome": "refused", "status": 429, "code": "rate_limit_exceeded"}, "rate_limit_exceeded", False),
        ({"outcome": "refused", "status": 503, "code": "store_unavailable"}, "store_unavailable", True),
        ({"outcome": "cancelled", "closer": "client", "code": "client_gone"}, None, False),
        ({"outcome": "incomplete"}, None, False),
    ],
)
def test_only_a_failure_of_this_side_is_an_error(
    fields: dict[str, Any], type: str | None, is_failure: bool
) -> None:
    turn = ended.turn(**fields)
    assert attributes_of(TURN, turn).get("error.type") == type
    assert is_error(turn.verdict) is is_failure


def incomplete(reason: str) -> Response:
    return Response(id="r", status="incomplete", incomplete_details=IncompleteDetails(reason=reason))


@pytest.mark.parametrize(
    ("response", "reasons"),
    [
        (Response(id="r", status="completed", output=[Message(role="assistant")]), ["stop"]),
        (
            Response(id="r", status="completed", output=[FunctionCall(call_id="c", name="f")]),
            ["tool_call"],
        ),
        (incomplete("max_output_tokens"), ["length"]),
        (incomplete("content_filter"), ["content_filter"]),
        (incomplete("another"), ["another"]),
        (Response(id="r", status="failed"), ["error"]),
        (Response(id="r", status="cancelled"), []),
        (Response(id="r", status="in_progress"), []),
    ],
)
def test_finish_reasons(response: Response, reasons: list[str]) -> None:
    assert finish_reasons(response) == reasons


def test_every_item_that_a_client_answers_is_a_call() -> None:
    classes = [each for each in vars(items).values() if isinstance(each, type) and issubclass(each, Struct)]
    types = {field.default for each in classes for field in fields(each) if field.name == "type"}
    answered = {str(each).removesuffix("_output") for each in types if str(each).endswith("_output")}
    assert {each if each.endswith("_call") else f"{each}_call" for each in answered} == set(CALLS)


def test_an_attempt() -> None:
    found = attributes_of(
        ATTEMPT,
        ended.attempt(
            number=3, wait=0.5, status=503, error="upstream_error", first_output=0.1, upstream_id="u"
        ),
    )
    assert found == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m-1",
        "gen_ai.response.id": "u",
        "gen_ai.response.time_to_first_chunk": 0.1,
        "server.address": "api.example",
        "server.port": 443,
        "http.response.status_code": 503,
        "http.request.resend_count": 2,
        "error.type": "upstream_error",
        "penstock.target": "one",
        "penstock.attempt": 3,
        "penstock.attempt.wait": 0.5,
    }


def test_nothing_of_the_verdict_is_forgotten() -> None:
    """A new field of the verdict should become an attribute, or be listed here."""
    left_out = {
        "trace_id": "of the span itself",
        "duration_ms": "of the span itself",
        "upstream_id": "of the attempt",
        "upstream_status": "of the attempt",
        "tried": "there are spans of the attempts",
        "refused_keys": "names of variables, which are in the log",
        "retry_after": "in the log",
        "last_event": "in the log",
        "last_sequence": "in the log",
        "left": "in the log",
    }
    read: set[str] = set()

    class Watched:
        def __init__(self, verdict: Verdict) -> None:
            self._verdict = verdict

        def __getattr__(self, name: str) -> Any:
            read.add(name)
            return getattr(self._verdict, name)

    turn = ended.turn(stream=True, outcome="failed")
    watched: Any = Watched(turn.verdict)
    attributes_of(TURN, type(turn)(verdict=watched, request=turn.request, response=turn.response))
    assert set(Verdict.__struct_fields__) - read == set(left_out)


def test_the_table_of_the_documentation_has_every_attribute() -> None:
    table = as_markdown(TURN)
    assert table.count("\n") == len(TURN) + 1
    assert all(f"| `{each.name}` | {each.help} |" in table for each in TURN)
