"""Consecutive text blocks are one message; anything else in between ends it (decision 4)."""

from __future__ import annotations

from penstock.dialects.text_runs import ContentBlock, TextRuns
from penstock.stream.deltas import BlockEnd, BlockKind, Delta, DiagnosticDelta, ReasoningDelta

THOUGHT: list[Delta] = [ReasoningDelta("hm")]
NOTE: list[Delta] = [DiagnosticDelta("code", "message")]


class Runs(TextRuns):
    """The operations of the base class, as a reader uses them."""

    def text(self, key: int, text: str) -> ContentBlock:
        block = ContentBlock(key)
        self._join(block).length += len(text)
        return block

    def stop(self, block: ContentBlock) -> None:
        assert block.run is not None
        block.run.open = False

    def other(self, deltas: list[Delta]) -> list[Delta]:
        return self._end_text_before(deltas)

    def finish(self) -> list[Delta]:
        return self._flush_ends()


def test_a_block_that_follows_another_joins_its_run_at_the_offset_of_its_text() -> None:
    runs = Runs()
    first = runs.text(0, "abc")
    runs.stop(first)
    second = runs.text(1, "de")
    assert second.run is first.run
    assert (first.begin, second.begin) == (0, 3)


def test_other_output_ends_the_message_and_later_text_starts_another() -> None:
    runs = Runs()
    runs.stop(runs.text(0, "abc"))
    assert runs.other(THOUGHT) == [BlockEnd(0, BlockKind.TEXT), *THOUGHT]
    later = runs.text(2, "x")
    assert later.run is not None
    assert (later.run.key, later.begin) == (2, 0)


def test_a_diagnostic_does_not_end_the_message() -> None:
    runs = Runs()
    first = runs.text(0, "abc")
    runs.stop(first)
    assert runs.other(NOTE) == NOTE
    assert runs.text(1, "d").run is first.run


def test_a_message_whose_block_is_still_open_is_not_ended() -> None:
    runs = Runs()
    runs.text(0, "abc")
    assert runs.other(THOUGHT) == THOUGHT
    assert runs.finish() == []


def test_the_end_is_emitted_once() -> None:
    runs = Runs()
    runs.stop(runs.text(0, "abc"))
    assert runs.finish() == [BlockEnd(0, BlockKind.TEXT)]
    assert runs.finish() == []
