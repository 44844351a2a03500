"""The apply_patch tool: one operation on one file, whose diff is streamed."""

from __future__ import annotations

import json
from collections import UserList
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.items import ApplyPatchCall, ApplyPatchCallOutput
from penstock.protocol.tools import ApplyPatchTool, Tool
from penstock.stream.deltas import FinishDelta, FinishReason
from penstock.tools.apply_patch import FAMILY, ApplyPatchCallStream
from penstock.tools.family import ToolIdentity
from tests.stream.running import call_in_pieces, codes, of_type, run

TOOLS: list[Tool] = [ApplyPatchTool()]
DIFF = '@@ def main():\n-\tbefore\n+\tafter "é😀"\n'


def made(arguments: str, *, size: int = 1, **fields: Any) -> tuple[dict[str, Any], list[Any], set[str]]:
    stream, events = run(call_in_pieces("apply_patch", arguments, size, **fields), TOOLS)
    [done] = of_type(events, "output_item.done")
    assert done["item"]["type"] == "apply_patch_call"
    return done["item"]["operation"], events, codes(stream)


ORDERS = [["type", "path", "diff"], ["diff", "path", "type"], ["path", "diff", "type"]]


@given(st.sampled_from(ORDERS), st.integers(1, 50), st.booleans())
def test_an_operation_is_announced_with_its_type_and_path_and_streams_its_diff(
    order: list[str], size: int, wrapped: bool
) -> None:
    operation = {"type": "update_file", "path": "a/b.py", "diff": DIFF}
    fields: dict[str, Any] = {name: operation[name] for name in order}
    result, events, diagnostics = made(json.dumps({"operation": fields} if wrapped else fields), size=size)
    assert result == operation
    [added] = of_type(events, "output_item.added")
    assert added["item"]["operation"] == {"type": "update_file", "path": "a/b.py", "diff": ""}
    deltas = of_type(events, "apply_patch_call_operation_diff.delta")
    assert "".join(event["delta"] for event in deltas) == DIFF
    [done] = of_type(events, "apply_patch_call_operation_diff.done")
    assert (done["diff"], done["item_id"]) == (DIFF, added["item"]["id"])
    assert diagnostics == set()


def test_a_deletion_has_no_diff() -> None:
    result, events, diagnostics = made('{"type": "delete_file", "diff": "x", "path": "a"}')
    assert result == {"type": "delete_file", "path": "a"}
    assert not of_type(events, "apply_patch_call_operation_diff.delta")
    assert not of_type(events, "apply_patch_call_operation_diff.done")
    assert diagnostics == set()


ENVELOPE = "*** Begin Patch\n*** Add File: a.txt\n+one\n+two\n*** End Patch\n"


@pytest.mark.parametrize(
    ("arguments", "fields", "operation"),
    [
        ('{"path": "a", "patch": "+x"}', {}, {"type": "update_file", "path": "a", "diff": "+x"}),
        (
            '{"operation": "create_file", "path": "a", "diff": "+x"}',
            {},
            {"type": "create_file", "path": "a", "diff": "+x"},
        ),
        (
            '{"type": "create", "path": "a", "diff": "+x"}',
            {},
            {"type": "create_file", "path": "a", "diff": "+x"},
        ),
        ('{"type": "DELETE", "path": "a"}', {}, {"type": "delete_file", "path": "a"}),
        (
            '{"operation": "add_file", "file_path": "a", "content": "+x"}',
            {},
            {"type": "create_file", "path": "a", "diff": "+x"},
        ),
        ('{"type": "move_file", "path": "a"}', {}, {"type": "update_file", "path": "a", "diff": ""}),
        ("{}", {}, {"type": "update_file", "path": "", "diff": ""}),
        ('{"type": "create_file", "path": "a"}', {}, {"type": "create_file", "path": "a", "diff": ""}),
        (json.dumps({"input": ENVELOPE}), {}, {"type": "create_file", "path": "a.txt", "diff": "+one\n+two"}),
        (ENVELOPE, {"type": "custom"}, {"type": "create_file", "path": "a.txt", "diff": "+one\n+two"}),
        (
            "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch",
            {"type": "custom"},
            {"type": "delete_file", "path": "a.txt"},
        ),
    ],
)
def test_arguments_of_another_shape_are_delivered_and_reported(
    arguments: str, fields: dict[str, Any], operation: dict[str, str]
) -> None:
    result, _, diagnostics = made(arguments, **fields)
    assert result == operation
    assert diagnostics == {"odd_arguments"}


@pytest.mark.parametrize(
    "sections",
    [
        "*** Update File: a\n@@\n-x\n*** Update File: b\n@@\n-y\n",
        "*** Delete File: a\n*** Update File: b\n@@\n-y\n",
        "*** Update File: a\n*** Move to: b\n@@\n-y\n",
    ],
)
def test_a_patch_of_several_files_is_not_cut_to_its_first(sections: str) -> None:
    patch = f"*** Begin Patch\n{sections}*** End Patch"
    result, _, diagnostics = made(patch, type="custom")
    assert result == {"type": "update_file", "path": "", "diff": patch}
    assert diagnostics == {"odd_arguments"}


@pytest.mark.parametrize(
    ("arguments", "announced"),
    [('{"type":"update_file","path":"a', 0), ('{"type":"update_file","path":"a","diff":"-x', 1)],
)
def test_a_call_that_is_cut_off_before_its_path_is_dropped_with_a_diagnostic(
    arguments: str, announced: int
) -> None:
    call = call_in_pieces("apply_patch", arguments)
    stream, events = run([*call, FinishDelta(FinishReason.LENGTH)], TOOLS)
    done = of_type(events, "output_item.done")
    assert [event["item"]["status"] for event in done] == ["incomplete"] * announced
    assert codes(stream) == (set() if announced else {"unannounced_call"})


def test_an_earlier_call_and_its_output_are_readable() -> None:
    operation = {"type": "delete_file", "path": "a"}
    assert FAMILY.arguments(ApplyPatchCall(call_id="a", operation=operation)) == json.dumps(
        operation, separators=(",", ":")
    )
    outputs = [
        ApplyPatchCallOutput(call_id="a", status="failed", output="no such file"),
        ApplyPatchCallOutput(call_id="a"),
    ]
    assert [FAMILY.content(output, lambda _: []) for output in outputs] == [
        "failed: no such file",
        "completed",
    ]


class CountedPieces(UserList[str]):
    """Counts how often its pieces are read."""

    reads = 0

    def __iter__(self) -> Iterator[str]:
        type(self).reads += len(self.data)
        return iter(self.data)


@pytest.mark.parametrize("first", [{}, {"type": "delete_file", "path": "a"}], ids=["diff first", "deleted"])
def test_a_diff_that_waits_is_not_joined_again_with_every_fragment(first: dict[str, str]) -> None:
    identity = ToolIdentity("apply_patch", "apply_patch", None, "apply_patch")
    call = ApplyPatchCallStream(identity, item_id="apc_1", call_id="call_1")
    call._unsent = CountedPieces()  # type: ignore[assignment]
    CountedPieces.reads = 0
    for character in json.dumps({**first, "diff": "x" * 500}):
        call.feed(character, count().__next__)
        if call.is_ready:
            call.output_index = 0
    assert CountedPieces.reads == 0
