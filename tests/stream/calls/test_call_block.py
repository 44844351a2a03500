"""One tool call while it is assembled: whether it can end, and whether it is a call at all."""

from __future__ import annotations

import pytest

from penstock.stream.calls.call_block import Piece, ToolCallBlock


def block(name: str = "", *pieces: str) -> ToolCallBlock:
    call = ToolCallBlock(0, "call_1")
    call.name = name
    call.pending = [Piece(piece, is_complete=False, has_id=False) for piece in pieces]
    return call


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (block(), True),
        (block("", "", ""), True),
        (block("", "", "{}"), False),
        (block("get"), False),
    ],
)
def test_a_placeholder_has_neither_a_name_nor_arguments(call: ToolCallBlock, expected: bool) -> None:
    assert call.is_placeholder is expected


def test_an_open_call_without_a_name_cannot_end() -> None:
    assert block("", "{}").problem == "a tool call has no name"
    suppressed = block("", "{}")
    suppressed.suppressed = True
    assert suppressed.problem == ""


def test_the_name_of_a_call_may_change_until_it_is_final() -> None:
    call = block("get")
    assert call.may_be_called("get_weather")
    call.name_is_final = True
    assert [call.may_be_called(name) for name in (None, "", "get", "get_weather")] == [
        True,
        True,
        True,
        False,
    ]
