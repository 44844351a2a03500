"""Functions: arguments are forwarded unchanged."""

from __future__ import annotations

from itertools import count

import pytest

from penstock.protocol.wire import to_builtins
from penstock.tools.family import ToolIdentity
from penstock.tools.function import FunctionCallStream


def stream(namespace: str | None = None) -> FunctionCallStream:
    identity = ToolIdentity("function", "get", namespace, "get")
    call = FunctionCallStream(identity, item_id="fc_1", call_id="call_1")
    call.output_index = 2
    return call


@pytest.mark.parametrize(
    ("arguments", "complete", "flaw"),
    [
        ("", True, ""),
        (" \n", True, ""),
        ('{"a": 1}', True, ""),
        ('{"a": ', False, ""),
        ("[1]", True, "the arguments are JSON, but not an object"),
        ("\u00a0", False, "the arguments are JSON, but not an object"),
    ],
)
def test_arguments_are_complete_if_they_are_json_or_empty(arguments: str, complete: bool, flaw: str) -> None:
    call = stream()
    call.feed(arguments, count().__next__)
    assert (call.is_complete, call.flaw) == (complete, flaw)


def test_empty_arguments_of_a_completed_call_become_an_empty_object() -> None:
    events = [to_builtins(event) for event in stream().close(count().__next__, complete=True)]
    assert [event["type"] for event in events] == [
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
    ]
    assert (events[0]["delta"], events[1]["arguments"], events[1]["name"]) == ("{}", "{}", "get")


def test_empty_arguments_of_an_incomplete_call_stay_empty() -> None:
    (done,) = stream().close(count().__next__, complete=False)
    assert to_builtins(done)["arguments"] == ""


def test_the_item_has_the_fragments_joined_and_the_declared_name() -> None:
    call = stream(namespace="docs")
    for fragment in ('{"a":', "1}"):
        (event,) = call.feed(fragment, count().__next__)
        assert (to_builtins(event)["delta"], to_builtins(event)["output_index"]) == (fragment, 2)
    item = to_builtins(call.item("completed"))
    assert (item["arguments"], item["name"], item["namespace"]) == ('{"a":1}', "get", "docs")
    assert "namespace" not in to_builtins(stream().item("in_progress"))
