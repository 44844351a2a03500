"""Finding the item that an event belongs to, although ids rotate and indexes repeat."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.responses.item_index import ItemIndex
from penstock.dialects.responses.items import UpstreamItem


def added(index: ItemIndex, type: str, output_index: int | None, **raw: Any) -> tuple[UpstreamItem, bool]:
    item, is_new = index.announced(type, at(output_index), raw)
    item.announced = {"type": type, **raw}
    item.call_id = raw.get("call_id", "")
    return item, is_new


def at(output_index: int | None, id: str = "") -> dict[str, Any]:
    event: dict[str, Any] = {} if output_index is None else {"output_index": output_index}
    return {**event, "item_id": id} if id else event


def test_an_event_is_matched_by_index_although_its_id_rotates() -> None:  # quirk R2
    index = ItemIndex()
    item, _ = added(index, "message", 0, id="a")
    assert index.containing("message", at(0, "b")) is item
    ended, was_unannounced = index.ended("message", at(0), {"id": "c"})
    assert (ended is item, was_unannounced) == (True, False)
    assert item.ids == {"a", "c"}


def test_a_known_id_is_used_without_an_index() -> None:
    index = ItemIndex()
    first, _ = added(index, "message", 0, id="a")
    second, _ = added(index, "message", 1, id="b")
    assert index.containing("message", at(None, "a")) is first
    assert index.containing("message", {}) is second  # without both, it is the latest of its type


def test_items_that_all_have_index_0_are_separated_by_type() -> None:
    index = ItemIndex()
    reasoning, _ = added(index, "reasoning", 0)
    message, is_new = added(index, "message", 0)
    assert is_new
    assert reasoning.key != message.key
    assert index.containing("reasoning", at(0)) is reasoning


def test_an_item_that_is_announced_twice_is_one() -> None:
    index = ItemIndex()
    first, is_new = added(index, "message", 0, id="a")
    assert is_new
    assert added(index, "message", 0, id="a") == (first, False)


@pytest.mark.parametrize(
    ("raw", "is_new"),
    [
        ({"id": "f1", "call_id": "other"}, False),  # the same item, whatever its call id is
        ({"id": "f2", "call_id": "c1"}, False),
        ({"id": "f2"}, False),
        ({"id": "f2", "call_id": "c2"}, True),
    ],
)
def test_another_call_id_under_another_item_id_is_another_call(raw: dict[str, Any], is_new: bool) -> None:
    index = ItemIndex()
    added(index, "function_call", 0, id="f1", call_id="c1")
    assert added(index, "function_call", 0, **raw)[1] is is_new


def test_an_index_that_is_reused_after_the_end_is_a_new_item() -> None:
    index = ItemIndex()
    first, _ = added(index, "message", 0, id="a")
    first.done = True
    second, is_new = added(index, "message", 0, id="b")
    assert is_new
    assert index.open() == [second]


def test_an_item_that_was_never_announced_is_added() -> None:
    index = ItemIndex()
    item, was_unannounced = index.ended("message", at(3), {"id": "a"})
    assert was_unannounced
    assert index.containing("message", at(3)) is item


def test_an_event_without_a_type_belongs_to_the_latest_item_at_its_index() -> None:
    index = ItemIndex()
    added(index, "web_search_call", 0, id="ws")
    later, _ = added(index, "mcp_call", 0, id="mcp")
    assert index.latest(at(0)) is later
    assert index.latest(at(7)) is None


@pytest.mark.parametrize("invalid", [True, 1.0, "1", None, [1]])
def test_an_index_that_is_not_an_integer_is_ignored(invalid: Any) -> None:
    index = ItemIndex()
    added(index, "web_search_call", 1, id="ws")
    assert index.latest({"output_index": invalid}) is None


def test_the_terminal_response_matches_each_item_once_by_id_then_index_then_type() -> None:
    index = ItemIndex()
    first, _ = added(index, "message", 0, id="a")
    second, _ = added(index, "message", 1, id="b")
    third, _ = added(index, "message", 2, id="c")
    assert index.match(0, "message", "b", "") is second
    assert index.match(2, "message", "unknown", "") is third
    assert index.match(1, "message", "unknown", "") is first
    assert index.match(3, "message", "a", "") is None


def test_a_call_of_the_terminal_response_is_never_matched_with_another_call_id() -> None:
    index = ItemIndex()
    call, _ = added(index, "function_call", 0, id="f1", call_id="c1")
    assert index.match(5, "function_call", "new", "c2") is None
    assert index.match(5, "function_call", "new", "c1") is call
