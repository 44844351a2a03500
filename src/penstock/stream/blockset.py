"""Finds the block for a delta: the current block, or the block with the delta's key."""

from __future__ import annotations

from penstock.protocol.content import Annotation
from penstock.protocol.events import Event
from penstock.stream.blocks import (
    BLOCK_TYPES,
    Block,
    MessageBlock,
    OpenPart,
    OpenSummaryPart,
    OpenTextPart,
    ReasoningBlock,
)
from penstock.stream.deltas import BlockKind, Key
from penstock.stream.output import COMPLETED, Output

_PartKey = tuple[Key | None, Key | None]
"""The keys of a block and of a part in it."""


class BlockSet:
    """The open blocks: the current one, for deltas without a key, and the keyed ones."""

    __slots__ = (
        "_current",
        "_early_annotations",
        "_had_text",
        "_keyed",
        "_late_annotations",
        "_output",
        "_phases",
    )

    def __init__(self, output: Output) -> None:
        self._output = output
        self._current: Block | None = None
        self._keyed: dict[tuple[type[Block], Key], Block] = {}
        self._phases: dict[Key, str] = {}
        self._early_annotations: dict[_PartKey, list[Annotation]] = {}
        self._had_text: set[_PartKey] = set()
        self._late_annotations = 0
        output.end_current = self.end_current

    def part(
        self, kind: BlockKind, key: Key | None, part_key: Key | None = None
    ) -> tuple[OpenPart, list[Event]]:
        """Return the open part for deltas of this kind and part, and the events that opened it."""
        known = self._current if key is None else self._keyed.get((BLOCK_TYPES[kind], key))
        if known is not None and known.kind is kind:
            open_part = known.part
            if open_part is not None and open_part.key == part_key:
                return open_part, []
        block, events = self._block(kind, key)
        part, more = block.open_part(kind, part_key)
        events += more
        if isinstance(part, OpenTextPart):
            self._had_text.add((key, part_key))
            early = self._early_annotations.pop((key, part_key), ())
            events += [part.annotate(each) for each in early]
        return part, events

    def summary_part(self, part_key: Key, key: Key | None) -> tuple[OpenSummaryPart, list[Event]]:
        block, events = self._block(BlockKind.REASONING, key)
        assert isinstance(block, ReasoningBlock), "a block for reasoning is a ReasoningBlock"
        if block.summary_part is not None and block.summary_part.key == part_key:
            return block.summary_part, events
        part, more = block.open_summary(part_key)
        return part, events + more

    def annotate(self, annotation: Annotation, key: Key | None, part_key: Key | None = None) -> list[Event]:
        """Add a citation to the open text. A citation before the first text waits for it (quirk C31)."""
        block = self._current if key is None else self._keyed.get((MessageBlock, key))
        part = block.part if block is not None else None
        if isinstance(part, OpenTextPart) and part.key == part_key:
            return [part.annotate(annotation)]
        if (key, part_key) in self._had_text:
            self._late_annotations += 1  # its text is closed and must not change (spec N29)
        else:
            self._early_annotations.setdefault((key, part_key), []).append(annotation)
        return []

    def opaque(self, data: str, key: Key | None, *, alone: bool) -> list[Event]:
        """Add opaque reasoning to the reasoning item it came with, or else as an item of its own."""
        block: Block | None = None
        events: list[Event] = []
        if key is not None:
            block, events = self._block(BlockKind.REASONING, key)
        elif not alone:
            block = self._current
        if isinstance(block, ReasoningBlock) and block.opaque is None:
            block.opaque = data
            return events
        if alone:  # reasoning that belongs to a call comes directly before it
            events += self.end_current()
        item = ReasoningBlock(self._output)
        item.opaque = data
        return [*events, *item.open(), *item.close(COMPLETED)]

    def announce_phase(self, key: Key, phase: str) -> None:
        self._phases[key] = phase

    def end(self, key: Key, kind: BlockKind | None) -> list[Event]:
        types = BLOCK_TYPES.values() if kind is None else [BLOCK_TYPES[kind]]
        blocks = [self._keyed.pop((type, key), None) for type in dict.fromkeys(types)]
        return [event for block in blocks if block is not None for event in block.close(COMPLETED)]

    def end_current(self) -> list[Event]:
        block, self._current = self._current, None
        return [] if block is None else block.close(COMPLETED)

    def take_open(self) -> list[Block]:
        """Remove and return all open blocks; the caller closes them."""
        blocks = [*self._keyed.values(), *([self._current] if self._current else [])]
        self._current = None
        self._keyed.clear()
        return blocks

    @property
    def lost_annotations(self) -> int:
        """The number of citations whose text was closed or never arrived."""
        return self._late_annotations + sum(map(len, self._early_annotations.values()))

    def _block(self, kind: BlockKind, key: Key | None) -> tuple[Block, list[Event]]:
        """Return the open block. The current block has one kind; a keyed message may have both."""
        if key is None:
            if self._current is not None and self._current.kind is kind:
                return self._current, []
            events = self.end_current()
            block = self._current = self._new_block(kind, None)
            return block, events + block.open()
        known = self._keyed.get((BLOCK_TYPES[kind], key))
        if known is not None:
            return known, []
        phase = None if kind is BlockKind.REASONING else self._phases.pop(key, None)
        block = self._keyed[BLOCK_TYPES[kind], key] = self._new_block(kind, phase)
        # The current block ends here, as it does before any other item.
        return block, self.end_current() + block.open()

    def _new_block(self, kind: BlockKind, phase: str | None) -> Block:
        return (
            ReasoningBlock(self._output)
            if kind is BlockKind.REASONING
            else MessageBlock(self._output, kind, phase)
        )
