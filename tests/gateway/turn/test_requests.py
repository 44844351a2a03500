"""Reading a request: what is refused, and which field the refusal names."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from penstock.gateway.errors import RequestRefused
from penstock.gateway.settings import Limits
from penstock.gateway.turn.requests import (
    LONGEST_NAME,
    NAMESPACE_DEPTH,
    read_request,
)
from tests.gateway.request_lists import (
    function,
)
from tests.gateway.running import Running


class Tight(Struct, frozen=True):
    """A request that is just too much, the limit that it breaks, and the field that the error names."""

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
def test_a_wrong_request_is_told_which_field_is_wrong(
    penstock: Running, body: object, code: str, param: str | None
) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = penstock.ask(data)
    assert (reply.status, reply.error["code"], reply.error["param"]) == (400, code, param)


def test_too_many_items_are_refused_before_they_are_read(penstock: Running) -> None:
    items = [{"role": "user", "content": "x"}] * 20_001
    reply = penstock.ask({"model": "demo", "input": items})
    assert (reply.status, reply.error["param"]) == (400, "input")
