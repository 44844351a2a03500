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


class BlockSet:
    """The open blocks: the current one, for deltas without a key, and the keyed ones."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._current: Block | None = None
        self._keyed: dict[tuple[type[Block], Key], Block] = {}
        self._phases: dict[Key, str] = {}
        self._early_annotations: dict[Key | None, list[Annotation]] = {}
        self._had_text: set[Key | None] = set()
        self.lost_annotations = 0
        output.end_current = self.end_current

    def part(self, kind: BlockKind, key: Key | None) -> tuple[OpenPart, list[Event]]:
        """Return the open part for deltas of this kind, and the events that opened it."""
        known = self._current if key is None else self._keyed.get((BLOCK_TYPES[kind], key))
        if known is not None and known.kind is kind and (open_part := known.part) is not None:
            return open_part, []
        block, events = self._block(kind, key)
        part, more = block.open_part(kind)
        events += more
        if isinstance(part, OpenTextPart):
            self._had_text.add(key)
            events += [part.annotate(each) for each in self._early_annotations.pop(key, ())]
        return part, events

    def summary_part(self, part_key: Key, key: Key | None) -> tuple[OpenSummaryPart, list[Event]]:
        block, events = self._block(BlockKind.REASONING, key)
        assert isinstance(block, ReasoningBlock), "a block for reasoning is a ReasoningBlock"
        if block.summary_part is not None and block.summary_part.key == part_key:
            return block.summary_part, events
        part, more = block.open_summary(part_key)
        return part, events + more

    def annotate(self, annotation: Annotation, key: Key | None) -> list[Event]:
        """Add a citation to the open text. A citation before the first text waits for it (quirk C31)."""
        block = self._current if key is None else self._keyed.get((MessageBlock, key))
        if block is not None and isinstance(block.part, OpenTextPart):
            return [block.part.annotate(annotation)]
        if key in self._had_text:
            self.lost_annotations += 1  # its text is closed and must not change (spec N29)
        else:
            self._early_annotations.setdefault(key, []).append(annotation)
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
    def has_lost_annotations(self) -> bool:
        """Whether there were citations whose text was closed or never arrived."""
        return bool(self.lost_annotations or self._early_annotations)

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
