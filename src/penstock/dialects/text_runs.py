"""Runs of text blocks, for the dialects whose answers are made of content blocks.

Text comes in many blocks: Anthropic makes one of every cited passage, Nova one of every token. Blocks that
follow each other are one message here, and a message ends when something else begins (decision 4).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from penstock.stream.deltas import BlockEnd, BlockKind, Delta, DiagnosticDelta, Key


class TextRun(Struct):
    """Text blocks that follow each other. `key` is that of the first."""

    key: Key
    length: int = 0
    open: bool = True
    """Is the block that joined last still going on?"""


class ContentBlock(Struct):
    """What must be remembered of a content block."""

    key: Key
    stopped: bool = False
    run: TextRun | None = None
    begin: int = 0
    """Where in its run the block's text began."""
    citations: list[dict[str, Any]] = []
    thinking: list[str] = []
    """The text that the signature is for: sealed with it, because clients lose it (ask C2)."""
    has_arguments: bool = False


class TextRuns:
    """What a reader of content blocks is built on."""

    def __init__(self) -> None:
        self._run: TextRun | None = None
        """The text that another text block would go on with."""
        self._ends: list[Delta] = []
        """What ends the block that stopped last: said when it is known that nothing was cut off."""

    def _ended(self) -> list[Delta]:
        """Nothing was cut off: what has stopped has ended."""
        ends, self._ends = self._ends, []
        return ends + self._end_text()

    def _beside(self, deltas: list[Delta]) -> list[Delta]:
        """Deltas of another item than the text: text that follows is a new message."""
        if all(isinstance(delta, DiagnosticDelta) for delta in deltas):
            return deltas  # nothing that a client would see
        return self._end_text() + deltas

    def _end_text(self) -> list[Delta]:
        """The message is over, unless its last block goes on beside another."""
        run, self._run = self._run, None
        return [] if run is None or run.open else [BlockEnd(run.key, BlockKind.TEXT)]

    def _join(self, block: ContentBlock) -> TextRun:
        """The block's text goes on with the run, or begins one."""
        if block.run is None:
            self._run = block.run = self._run or TextRun(block.key)
            block.run.open, block.begin = True, block.run.length
        return block.run
