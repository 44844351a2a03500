"""Outputs without a `call_id`: their position decides, or they are refused."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import DecodeError
from penstock.protocol.call_outputs import lacks_call_id, with_call_ids
from penstock.protocol.items import Item
from tests.protocol.reading import item


def call(id: str, type: str = "function_call") -> dict[str, Any]:
    fields: dict[str, dict[str, Any]] = {
        "function_call": {"name": "f"},
        "custom_tool_call": {"name": "f"},
        "shell_call": {"action": {}},
    }
    return {"type": type, "call_id": id, **fields[type]}


def output(id: str | None = None, type: str = "function_call") -> dict[str, Any]:
    named = {} if id is None else {"call_id": id}
    return {"type": f"{type}_output", "output": [] if type == "shell_call" else "x", **named}


def user() -> dict[str, Any]:
    return {"role": "user", "content": "hi"}


def found(*items: dict[str, Any], begin: int = 0) -> list[Any]:
    """Return the call ids of the outputs."""
    read: list[Item] = [item(each) for each in items]
    return [
        getattr(each, "call_id", None) or ""
        for each in with_call_ids(read, begin)
        if each.type.endswith("_output")
    ]


UNAMBIGUOUS: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "one call": ([call("a"), output()], ["a"]),
    "as many outputs as calls": ([call("a"), call("b"), output(), output()], ["a", "b"]),
    "one call that is left": ([call("a"), call("b"), output("a"), output()], ["a", "b"]),
    "one call that is left, named later": ([call("a"), call("b"), output(), output("a")], ["b", "a"]),
    "with a message between": ([call("a"), call("b"), output(), user(), output()], ["a", "b"]),
    "turn by turn": ([call("a"), output(), call("b"), output()], ["a", "b"]),
    "of each kind": (
        [call("a"), call("b", "custom_tool_call"), output(type="custom_tool_call"), output()],
        ["b", "a"],
    ),
    "of a shell": ([call("a", "shell_call"), output(type="shell_call")], ["a"]),
    "an id that is used again": ([call("a"), output("a"), call("a"), output()], ["a", "a"]),
    "an empty id": ([call("a"), output("")], ["a"]),
}


@pytest.mark.parametrize("case", UNAMBIGUOUS)
def test_the_position_decides_where_there_is_no_doubt(case: str) -> None:
    items, expected = UNAMBIGUOUS[case]
    assert found(*items) == expected


AMBIGUOUS: dict[str, tuple[list[dict[str, Any]], int]] = {
    "two calls": ([call("a"), call("b"), output()], 2),
    "no call": ([user(), output()], 1),
    "too many outputs": ([call("a"), output(), output()], 1),
    "every call has an output": ([call("a"), output("a"), output()], 2),
    "a call of another kind": ([call("a", "custom_tool_call"), output()], 1),
    "before its call": ([output(), call("a")], 0),
}


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_any_other_is_refused_with_its_index(case: str) -> None:
    items, index = AMBIGUOUS[case]
    with pytest.raises(DecodeError, match="set it to the `call_id` of its call") as refused:
        found(*items)
    assert refused.value.param == f"input[{index}].call_id"


def test_calls_of_earlier_turns_count_and_the_index_is_the_clients() -> None:
    assert found(user(), call("a"), output(), begin=2) == ["a"]
    with pytest.raises(DecodeError) as refused:
        found(user(), call("a"), call("b"), user(), output(), begin=3)
    assert refused.value.param == "input[1].call_id"


def test_an_earlier_turn_is_not_refused_again() -> None:
    assert found(call("a"), call("b"), output(), user(), begin=3) == [""]


def test_complete_items_are_not_changed() -> None:
    items: list[Item] = [item(call("a")), item(output("a")), item(user())]
    assert with_call_ids(items) == items
    assert not any(map(lacks_call_id, items))
    assert lacks_call_id(item(output()))


def test_a_local_shell_output_may_name_the_item_of_its_call() -> None:
    made = {"type": "local_shell_call", "id": "lsh_1", "call_id": "c", "action": {}}
    answered = {"type": "local_shell_call_output", "id": "lsh_1", "output": "x"}
    assert found(made, answered) == ["c"]
    assert found(made, {**answered, "call_id": "d"}) == ["d"]
