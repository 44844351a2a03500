"""What became of the fields of a request."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.inspector.request_differences import LONGEST, request_differences

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]] = {
    "same": ({"model": "m"}, {"model": "m"}, [("model", "same")]),
    "changed": ({"model": "m"}, {"model": "n"}, [("model", "changed")]),
    "dropped": ({"user": "u"}, {}, [("user", "dropped")]),
    "added": ({}, {"stream": True}, [("stream", "added")]),
    "another name": (
        {"max_output_tokens": 77},
        {"max_tokens": 77},
        [("max_output_tokens → max_tokens", "same")],
    ),
    "another place": (
        {"reasoning": {"effort": "low"}},
        {"options": {"effort": "low"}},
        [("reasoning.effort → options.effort", "same")],
    ),
    "not by chance": ({"a": 1}, {"b": 1, "c": 1}, [("a", "dropped"), ("b", "added"), ("c", "added")]),
    "not by a flag": ({"a": True}, {"b": True}, [("a", "dropped"), ("b", "added")]),
    "the history": ({"input": [1]}, {"messages": [2]}, [("input → messages", "changed")]),
    "the history of the demo": ({"input": [1]}, {"turns": [2]}, [("input → turns", "changed")]),
    "inner fields": (
        {"text": {"format": {"type": "x"}, "verbosity": "low"}},
        {"text": {"format": {"type": "y"}}},
        [("text.format.type", "changed"), ("text.verbosity", "dropped")],
    ),
    "true is not one": ({"a": 1}, {"a": True}, [("a", "changed")]),
}


@pytest.mark.parametrize(("client", "upstream", "expected"), CASES.values(), ids=CASES)
def test_each_field_is_compared(
    client: dict[str, Any], upstream: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    found = request_differences(client, upstream)
    assert [(each.path, each.kind) for each in found] == expected


def test_long_values_are_left_out() -> None:
    (found,) = request_differences({"tools": "x" * LONGEST}, {"tools": "y" * LONGEST})
    assert found.kind == "changed"
    assert found.client == found.upstream == f"({LONGEST + 2:,} bytes)"
