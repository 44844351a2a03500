"""One tool call while it is assembled."""

from __future__ import annotations

import pytest

from penstock.stream.calls.call_block import Piece, ToolCallBlock
from penstock.tools.apply_patch import ApplyPatchCallStream
from penstock.tools.family import ToolIdentity
from penstock.tools.function import FunctionCallStream


def named(name: str = "get") -> ToolCallBlock:
    block = ToolCallBlock(0, "call_1")
    block.name = name
    identity = ToolIdentity("function", name, None, name)
    block.call = FunctionCallStream(identity, item_id="fc_1", call_id="call_1")
    return block


def test_a_call_without_a_name_cannot_end() -> None:
    assert ToolCallBlock(0, None).problem == "a tool call has no name"


@pytest.mark.parametrize(("arguments", "ends"), [("", True), ('{"a": 1}', True), ('{"a": ', False)])
def test_a_call_can_end_when_its_arguments_are_complete(arguments: str, ends: bool) -> None:
    block = named()
    block.announced.feed(arguments, lambda: 0)
    assert (block.problem == "") is ends


def test_a_suppressed_call_has_no_problem() -> None:
    block = ToolCallBlock(0, None)
    block.suppressed = True
    assert (block.is_open, block.problem) == (False, "")


def test_a_call_is_placed_when_it_has_a_position() -> None:
    block = named()
    assert not block.is_placed
    block.output_index = 0
    assert block.is_placed


@pytest.mark.parametrize(("name", "may"), [(None, True), ("", True), ("get", True), ("other", False)])
def test_a_final_name_does_not_change(name: str | None, may: bool) -> None:
    block = named()
    assert block.may_be_called("other")
    block.name_is_final = True
    assert block.may_be_called(name) is may


def test_the_item_is_that_of_the_call_with_the_status_of_the_block() -> None:
    block = ToolCallBlock(0, "call_1")
    identity = ToolIdentity("apply_patch", "apply_patch", None, "apply_patch")
    block.call = ApplyPatchCallStream(identity, item_id="apc_1", call_id="call_1")
    block.status = "incomplete"
    assert (block.item.type, block.item.status) == ("apply_patch_call", "incomplete")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "pieces", "expected"),
    [("", [], True), ("", ["", ""], True), ("", ["", "{}"], False), ("get", [], False)],
)
def test_a_placeholder_has_neither_a_name_nor_arguments(name: str, pieces: list[str], expected: bool) -> None:
    block = ToolCallBlock(0, "call_1")
    block.name = name
    block.pending = [Piece(piece, is_complete=False, has_id=False) for piece in pieces]
    assert block.is_placeholder is expected
