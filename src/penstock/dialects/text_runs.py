"""Runs of text blocks, for the dialects whose answers consist of content blocks.

Text arrives in many blocks: Anthropic sends one per cited passage, Nova one per token. Consecutive text
blocks become one message, which ends when something else starts (decision 4).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from penstock.stream.deltas import BlockEnd, BlockKind, Delta, DiagnosticDelta, Key


class TextRun(Struct):
    """Consecutive text blocks. `key` is that of the first."""

    key: Key
    length: int = 0
    open: bool = True
    """Whether the last block of the run is still open."""


class ContentBlock(Struct):
    """The state of a content block while it is read."""

    key: Key
    stopped: bool = False
    run: TextRun | None = None
    begin: int = 0
    """The offset of the block's text in its run."""
    citations: list[dict[str, Any]] = []
    thinking: list[str] = []
    """The text that the signature belongs to: sealed with it, because clients drop it (ask C2)."""
    has_arguments: bool = False


class TextRuns:
    """The base class of a reader of content blocks."""

    def __init__(self) -> None:
        self._run: TextRun | None = None
        """The run that the next text block would continue."""
        self._ends: list[Delta] = []
        """The end of the block that stopped last, held back until it is known that nothing was cut off."""

    def _flush_ends(self) -> list[Delta]:
        """Return the ends that were held back, now that it is known that nothing was cut off."""
        ends, self._ends = self._ends, []
        return ends + self._end_text()

    def _end_text_before(self, deltas: list[Delta]) -> list[Delta]:
        """Return the deltas of an item that is not text, after the end of the text before them. Text that
        follows is a new message."""
        if self._run is None:
            return deltas  # the usual case
        if all(isinstance(delta, DiagnosticDelta) for delta in deltas):
            return deltas  # not visible in the output
        return self._end_text() + deltas

    def _end_text(self) -> list[Delta]:
        """End the message, unless its last block is still open."""
        run, self._run = self._run, None
        return [] if run is None or run.open else [BlockEnd(run.key, BlockKind.TEXT)]

    def _join(self, block: ContentBlock) -> TextRun:
        """Add the block to the run, or start a run with it."""
        if block.run is None:
            self._run = block.run = self._run or TextRun(block.key)
            block.run.open, block.begin = True, block.run.length
        return block.run
