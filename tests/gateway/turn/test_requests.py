"""Reading a request: what is refused, and which field the refusal names."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from penstock.dialects.envelope import seal
from penstock.dialects.plan import Target
from penstock.errors import DecodeError
from penstock.gateway.errors import RequestRefused
from penstock.gateway.settings import Limits
from penstock.gateway.turn.requests import (
    LONGEST_NAME,
    NAMESPACE_DEPTH,
    NESTING,
    fingerprints,
    own_diagnostics,
    parse_bounded,
    passed_on,
    read_request,
    used_call_ids,
)
from penstock.protocol.request import CreateResponse
from tests.gateway.in_process import LocalGateway
from tests.gateway.request_lists import (
    function,
)


class Tight(Struct, frozen=True):
    """A request that is just over a limit, the limit, and the field that the error names."""

    name: str
    body: dict[str, Any]
    limits: Limits
    param: str | None
    setting: str


def nested(depth: int) -> dict[str, Any]:
    tool = function("t")
    for number in range(depth):
        tool = {"type": "namespace", "name": f"n{number}", "tools": [tool]}
    return tool


THREE = [function(f"t{number}") for number in range(3)]


TIGHT: tuple[Tight, ...] = (
    Tight("items", {"input": [{"role": "user", "content": "x"}] * 3}, Limits(input_items=2), "input", "2"),
    Tight("tools", {"input": "x", "tools": THREE}, Limits(tools=2), "tools", "limits.tools"),
    Tight(
        "tools of a namespace",
        {"input": "x", "tools": [{"type": "namespace", "name": "n", "tools": THREE}]},
        Limits(tools=3),
        "tools",
        "limits.tools",
    ),
    Tight(
        "tools of items",
        {"input": [{"type": "additional_tools", "tools": THREE[:2]}], "tools": THREE[2:]},
        Limits(tools=2),
        "tools",
        "limits.tools",
    ),
    Tight(
        "tools that a search found",
        {"input": [{"type": "tool_search_output", "tools": THREE}]},
        Limits(tools=2),
        "tools",
        "limits.tools",
    ),
    Tight(
        "allowed tools",
        {"input": "x", "tool_choice": {"type": "allowed_tools", "tools": THREE}},
        Limits(tools=2),
        "tool_choice.tools",
        "limits.tools",
    ),
    Tight(
        "content parts",
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}] * 2}] * 2},
        Limits(content_parts=3),
        "input",
        "limits.content_parts",
    ),
    Tight(
        "values", {"input": "x", "metadata": {"a": [0] * 2000}}, Limits(body_values=1000), None, "body_values"
    ),
    Tight(
        "nested namespaces",
        {"input": "x", "tools": [nested(NAMESPACE_DEPTH + 1)]},
        Limits(),
        "tools" + "[0].tools" * (NAMESPACE_DEPTH + 1),
        str(NAMESPACE_DEPTH),
    ),
    Tight(
        "a long name",
        {"input": "x", "tools": [function("t" * (LONGEST_NAME + 1))]},
        Limits(),
        "tools[0].name",
        str(LONGEST_NAME),
    ),
)


@pytest.mark.parametrize("tight", TIGHT, ids=lambda tight: tight.name)
def test_too_much_is_refused_by_the_name_of_its_field_and_its_limit(tight: Tight) -> None:
    with pytest.raises(RequestRefused) as refused:
        read_request(msgspec.json.encode({"model": "demo", **tight.body}), "", tight.limits)
    assert (refused.value.status, refused.value.code) == (400, "invalid_request")
    assert refused.value.param == tight.param
    assert tight.setting in refused.value.message


@pytest.mark.parametrize("input", [{}, {"input": "hi"}])
def test_a_prompt_template_is_refused_by_name(input: dict[str, str]) -> None:
    """Field F17."""
    body = msgspec.json.encode({"model": "demo", "prompt": {"id": "pmpt_1"}, **input})
    with pytest.raises(RequestRefused) as refused:
        read_request(body, "", Limits())
    assert (refused.value.status, refused.value.param) == (400, "prompt")
    assert "instructions" in refused.value.message


def test_null_instead_of_a_prompt_template_is_accepted() -> None:
    body = msgspec.json.encode({"model": "demo", "input": "hi", "prompt": None})
    assert read_request(body, "", Limits()).input == "hi"


def test_text_is_not_counted_as_values() -> None:
    text = '{"a": [1, 2, "\\""]},' * 1000
    request = read_request(
        msgspec.json.encode({"model": "demo", "input": text}), "", Limits(body_values=1000)
    )
    assert request.input == text


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"", "invalid_json", None),
        (b"{", "invalid_json", None),
        (b"[]", "invalid_request", None),
        (b"\xff", "invalid_json", None),
        (b"[" * 100_000, "invalid_request", None),
        ({"input": "x"}, "missing_required_parameter", "model"),
        ({"model": "demo"}, "missing_required_parameter", "input"),
        ({"model": 7, "input": "x"}, "invalid_request", "model"),
        ({"model": "demo", "input": 7}, "invalid_request", "input"),
        (
            {"model": "demo", "input": [{"type": "function_call_output"}]},
            "invalid_request",
            "input[0].call_id",
        ),
        ({"model": "demo", "input": "x", "temperature": 3}, "invalid_request", "temperature"),
        ({"model": "demo", "input": "x", "top_logprobs": 21}, "invalid_request", "top_logprobs"),
        ({"model": "demo", "input": "x", "max_output_tokens": 0}, "invalid_request", "max_output_tokens"),
        ({"model": "demo", "input": "x", "truncation": "maybe"}, "invalid_request", "truncation"),
        ({"model": "demo", "input": "x", "stream": "yes"}, "invalid_request", "stream"),
        (
            {"model": "demo", "input": "x", "previous_response_id": "resp_1"},
            "previous_response_not_found",
            "previous_response_id",
        ),
        (
            {"model": "demo", "input": [{"type": "item_reference", "id": "msg_1"}]},
            "item_not_found",
            "input[0].id",
        ),
    ],
)
def test_a_wrong_request_is_refused_by_the_name_of_its_field(
    local: LocalGateway, body: object, code: str, param: str | None
) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = local.ask(data)
    assert (reply.status, reply.error["code"], reply.error["param"]) == (400, code, param)


def test_too_many_items_are_refused_before_they_are_read(local: LocalGateway) -> None:
    items = [{"role": "user", "content": "x"}] * 20_001
    reply = local.ask({"model": "demo", "input": items})
    assert (reply.status, reply.error["param"]) == (400, "input")


# What is read out of a request


def request(**fields: Any) -> CreateResponse:
    return read_request(json.dumps({"model": "m", "input": "x", **fields}).encode(), "", Limits())


def test_a_request_without_a_model_gets_the_default() -> None:
    assert read_request(b'{"input": "x"}', "fast", Limits()).model == "fast"
    assert read_request(b'{"input": "x", "model": "own"}', "fast", Limits()).model == "own"
    with pytest.raises(RequestRefused) as caught:
        read_request(b'{"input": "x"}', "", Limits())
    assert caught.value.param == "model"


@pytest.mark.parametrize(
    "fields", [{"instructions": "go"}, {"previous_response_id": "resp_1"}, {"input": []}]
)
def test_there_is_something_to_answer_without_an_input(fields: dict[str, Any]) -> None:
    assert read_request(json.dumps({"model": "m", **fields}).encode(), "", Limits()).model == "m"


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("temperature", (0, 2), (-0.1, 2.1)),
        ("top_p", (0, 1), (-0.1, 1.1)),
        ("presence_penalty", (-2, 2), (-2.1, 2.1)),
        ("frequency_penalty", (-2, 2), (-2.1, 2.1)),
        ("top_logprobs", (0, 20), (-1, 21)),
        ("max_output_tokens", (1, 10**9), (0, -1)),
        ("max_tool_calls", (1, 10**9), (0, -1)),
    ],
)
def test_the_range_of_a_number_is_inclusive(
    field: str, good: tuple[float, ...], bad: tuple[float, ...]
) -> None:
    for value in good:
        assert getattr(request(**{field: value}), field) == value
    for value in bad:
        with pytest.raises(RequestRefused, match=field) as caught:
            request(**{field: value})
        assert caught.value.param == field


CALLED = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
SEALED = seal(
    Target(model="m", vendor="openrouter", dialect="chat", key_fingerprint="fp1"), {"signature": "x"}
)


def test_the_call_ids_of_a_conversation_are_known() -> None:
    """Decision 7: none of them is given out again."""
    output = {"type": "function_call_output", "call_id": "call_2", "output": ""}
    assert used_call_ids(request(input=[CALLED, output, {"role": "user", "content": "x"}])) == {
        "call_1",
        "call_2",
    }
    assert used_call_ids(request()) == frozenset()


def test_reasoning_names_the_key_that_it_is_bound_to() -> None:
    """Ask C4: with that key it can be given back."""
    bound = {"type": "reasoning", "summary": [], "encrypted_content": SEALED}
    foreign = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAABforeign"}
    assert fingerprints(request(input=[bound, foreign, CALLED])) == ("fp1",)
    assert fingerprints(request()) == ()


@pytest.mark.parametrize(
    ("fields", "params"),
    [
        ({}, []),
        ({"stream_options": {"include_obfuscation": True}}, ["stream_options.include_obfuscation"]),
        ({"stream_options": {"include_obfuscation": False}}, []),
        ({"conversation": "conv_1", "store": False}, ["conversation"]),
        ({"conversation": "conv_1"}, []),
    ],
)
def test_what_the_gateway_itself_does_not_do_is_reported(fields: dict[str, Any], params: list[str]) -> None:
    found = own_diagnostics(request(**fields))
    assert [(each.code, each.param) for each in found] == [("field_dropped", param) for param in params]


def test_a_large_body_is_counted_before_it_is_read() -> None:
    """Reading is what takes the time."""
    many = b'{"input": [' + b"1," * 3000 + b"1]}"
    assert len(parse_bounded(many, Limits(body_values=4000))["input"]) == 3001
    with pytest.raises(RequestRefused, match=r"limits\.body_values"):
        parse_bounded(many, Limits(body_values=2000))
    with pytest.raises(RequestRefused, match=r"limits\.body_values"):
        parse_bounded(many.decode(), Limits(body_values=2000))


@pytest.mark.parametrize("brackets", [("[", "]"), ('{"a":', "}")])
def test_json_may_be_nested_to_a_limit(brackets: tuple[str, str]) -> None:
    """Nearly at Python's own limit, a request could be read, but its stored copy could not."""

    def nested_json(depth: int) -> bytes:
        opening, closing = brackets
        return (opening * depth + "1" * (opening != "[") + closing * depth).encode()

    parse_bounded(nested_json(NESTING), Limits())
    for depth in (NESTING + 2, 900, 100_000):
        with pytest.raises((RequestRefused, DecodeError), match="nested"):
            parse_bounded(nested_json(depth), Limits())


@pytest.mark.parametrize(
    ("value", "is_passed_on"), [("00-ab-cd-01", True), ("a\tb", False), ("\xff", False), ("a\x1b[31m", False)]
)
def test_a_trace_header_is_passed_on_if_it_is_printable(value: str, is_passed_on: bool) -> None:
    assert passed_on({"traceparent": value, "other": "x"}) == ({"traceparent": value} if is_passed_on else {})
