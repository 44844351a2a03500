"""Blocks: the messages and reasoning items of a response while they are open.

Text is stored as a list of chunks and joined when it is needed, so the first and the hundred-thousandth delta
cost the same. The events at the end of a part and of its item share one joined text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from msgspec import UNSET
from msgspec.structs import replace

from penstock.protocol.content import (
    Annotation,
    ContentPart,
    LogProb,
    OutputText,
    ReasoningText,
    Refusal,
    SummaryText,
)
from penstock.protocol.events import (
    AnnotationAddedEvent,
    ContentPartEvent,
    Event,
    OutputTextDeltaEvent,
    OutputTextDoneEvent,
    ReasoningDeltaEvent,
    ReasoningDoneEvent,
    RefusalDeltaEvent,
    RefusalDoneEvent,
    SummaryDeltaEvent,
    SummaryDoneEvent,
    SummaryPartEvent,
)
from penstock.protocol.items import Item, Message, ReasoningItem
from penstock.stream.deltas import BlockKind, Key
from penstock.stream.output import IN_PROGRESS, Output

_FEWEST_JOINED, _MOST_JOINED = 512, 128 * 1024
"""Characters in chunks that are joined to the text: as chunks, they take ten times as much memory."""
_JOINED_SHARE = 8
"""In between, a text grows by this part of itself, so that joining takes linear time even if it copies."""


class OpenPart(ABC):
    """A content part that receives deltas."""

    __slots__ = (
        "chunks",
        "index",
        "item_id",
        "joined",
        "joins_at",
        "key",
        "number",
        "output_index",
        "pending",
    )

    delta_event: ClassVar[type[OutputTextDeltaEvent | RefusalDeltaEvent | ReasoningDeltaEvent]]

    def __init__(self, block: Block, index: int, key: Key | None) -> None:
        self.key = key
        self.item_id = block.item_id
        self.output_index = block.output_index
        self.number = block.output.number
        self.index = index
        self.joined = ""
        """The text without `chunks`."""
        self.chunks: list[str] = []
        self.pending = 0
        """Characters in `chunks`."""
        self.joins_at = _FEWEST_JOINED

    @property
    def text(self) -> str:
        if self.chunks:
            self.join()
        return self.joined

    def join(self) -> None:
        """Append the chunks to the text.

        Clear the attribute first: with a single reference left, CPython extends the string in place, and a
        long text is never copied.
        """
        text, self.joined = self.joined, ""
        text += "".join(self.chunks)
        self.joined = text
        self.chunks, self.pending = [], 0
        self.joins_at = min(max(_FEWEST_JOINED, len(text) // _JOINED_SHARE), _MOST_JOINED)

    @property
    @abstractmethod
    def part(self) -> ContentPart:
        """The part in its current state."""

    def delta(self, text: str) -> Event:
        """Add the next piece of text; return its event."""
        self.chunks.append(text)
        self.pending += len(text)
        if self.pending >= self.joins_at:
            self.join()
        return self.delta_event(
            sequence_number=self.number(),
            item_id=self.item_id,
            output_index=self.output_index,
            content_index=self.index,
            delta=text,
        )

    def take(self, text: str) -> None:
        self.chunks.append(text)
        self.pending += len(text)
        if self.pending >= self.joins_at:
            self.join()

    @abstractmethod
    def done(self) -> Event:
        """Return the event that repeats the complete text."""

    def part_event(self, type: str) -> Event:
        return ContentPartEvent(
            type=f"response.content_part.{type}",
            sequence_number=self.number(),
            item_id=self.item_id,
            output_index=self.output_index,
            content_index=self.index,
            part=self.part,
        )


class OpenTextPart(OpenPart):
    __slots__ = ("annotations", "logprobs")
    delta_event = OutputTextDeltaEvent

    def __init__(self, block: Block, index: int, key: Key | None) -> None:
        super().__init__(block, index, key)
        self.annotations: list[Annotation] = []
        self.logprobs: list[LogProb] = []

    @property
    def part(self) -> ContentPart:
        return OutputText(text=self.text, annotations=self.annotations[:], logprobs=self.logprobs[:])

    def with_logprobs(self, delta: Event, logprobs: list[LogProb]) -> Event:
        """Add the log probabilities of the text that was just added; return its event with them."""
        self.logprobs += logprobs
        return replace(delta, logprobs=logprobs)

    def annotate(self, annotation: Annotation) -> Event:
        self.annotations.append(annotation)
        return AnnotationAddedEvent(
            sequence_number=self.number(),
            item_id=self.item_id,
            output_index=self.output_index,
            content_index=self.index,
            annotation_index=len(self.annotations) - 1,
            annotation=annotation,
        )

    def done(self) -> Event:
        return OutputTextDoneEvent(
            sequence_number=self.number(),
            item_id=self.item_id,
            output_index=self.output_index,
            content_index=self.index,
            text=self.text,
            logprobs=self.logprobs[:],
        )


class OpenRefusalPart(OpenPart):
    __slots__ = ()
    delta_event = RefusalDeltaEvent

    @property
    def part(self) -> ContentPart:
        return Refusal(refusal=self.text)

    def done(self) -> Event:
        return RefusalDoneEvent(
            sequence_number=self.number(),
            item_id=self.item_id,
            output_index=self.output_index,
            content_index=self.index,
            refusal=self.text,
        )


class OpenReasoningPart(OpenPart):
    __slots__ = ()
    delta_event = ReasoningDeltaEvent

    @property
    def part(self) -> ContentPart:
        return ReasoningText(text=self.text)

    def done(self) -> Event:
        return ReasoningDoneEvent(
            sequence_number=self.number(),
            item_id=self.item_id,
            output_index=self.output_index,
            content_index=self.index,
            text=self.text,
        )


class OpenSummaryPart(OpenPart):
    __slots__ = ()

    @property
    def part(self) -> ContentPart:
        return SummaryText(text=self.text)

    def delta(self, text: str) -> Event:
        self.take(text)
        return SummaryDeltaEvent(
            sequence_number=self.number(),
            item_id=self.item_id,
            output_index=self.output_index,
            summary_index=self.index,
            delta=text,
        )

    def done(self) -> Event:
        return SummaryDoneEvent(
            sequence_number=self.number(),
            item_id=self.item_id,
            output_index=self.output_index,
            summary_index=self.index,
            text=self.text,
        )

    def part_event(self, type: str) -> Event:
        return SummaryPartEvent(
            type=f"response.reasoning_summary_part.{type}",
            sequence_number=self.number(),
            item_id=self.item_id,
            output_index=self.output_index,
            summary_index=self.index,
            part=self.part,
        )


PART_TYPES: dict[BlockKind, type[OpenPart]] = {
    BlockKind.TEXT: OpenTextPart,
    BlockKind.REFUSAL: OpenRefusalPart,
    BlockKind.REASONING: OpenReasoningPart,
}


class Block(ABC):
    """An open item that consists of parts. It is created and announced with its first content."""

    __slots__ = ("closed_parts", "item_id", "kind", "output", "output_index", "part", "status")

    item_type: ClassVar[str]

    def __init__(self, output: Output, kind: BlockKind) -> None:
        self.output = output
        self.kind = kind
        """The kind of the open part, or of the last one."""
        self.output_index = -1
        self.item_id = output.item_id(self.item_type)
        self.status = IN_PROGRESS
        self.part: OpenPart | None = None
        """The open content part."""
        self.closed_parts: list[ContentPart] = []

    @property
    @abstractmethod
    def item(self) -> Item:
        """The item in its current state."""

    @property
    def content(self) -> list[ContentPart]:
        return self.closed_parts + ([self.part.part] if self.part else [])

    def open(self) -> list[Event]:
        self.output.place(self)
        return [self.output.added(self)]

    def open_part(self, kind: BlockKind, key: Key | None = None) -> tuple[OpenPart, list[Event]]:
        events = self.close_part()
        self.kind = kind
        self.part = PART_TYPES[kind](self, len(self.closed_parts), key)
        return self.part, [*events, self.part.part_event("added")]

    def close_part(self) -> list[Event]:
        part = self.part
        if part is None:
            return []
        events = [part.done(), part.part_event("done")]
        self.closed_parts.append(part.part)
        self.part = None
        return events

    def close(self, status: str) -> list[Event]:
        events = self.close_part()
        self.status = status
        events.append(self.output.done(self))
        del self.output  # no longer needed; a reference cycle would keep a long text until garbage collection
        return events


class MessageBlock(Block):
    __slots__ = ("phase",)

    item_type = "message"

    def __init__(self, output: Output, kind: BlockKind, phase: str | None) -> None:
        super().__init__(output, kind)
        self.phase = phase

    @property
    def item(self) -> Item:
        return Message(
            id=self.item_id,
            status=self.status,
            role="assistant",
            content=self.content,
            phase=self.phase or UNSET,
        )


class ReasoningBlock(Block):
    """Content, summary and opaque data form one item. Only the `done` event contains the opaque data."""

    __slots__ = ("closed_summary", "opaque", "summary_part")

    item_type = "reasoning"

    def __init__(self, output: Output) -> None:
        super().__init__(output, BlockKind.REASONING)
        self.summary_part: OpenSummaryPart | None = None
        self.closed_summary: list[ContentPart] = []
        self.opaque: str | None = None

    @property
    def item(self) -> Item:
        summary = self.closed_summary + ([self.summary_part.part] if self.summary_part else [])
        closed = self.status != IN_PROGRESS
        return ReasoningItem(
            id=self.item_id,
            status=self.status,
            summary=summary,
            content=self.content or UNSET,
            encrypted_content=self.opaque if closed and self.opaque is not None else UNSET,
        )

    def open_summary(self, key: Key) -> tuple[OpenSummaryPart, list[Event]]:
        events = self.close_summary()
        self.summary_part = OpenSummaryPart(self, len(self.closed_summary), key)
        return self.summary_part, [*events, self.summary_part.part_event("added")]

    def close_summary(self) -> list[Event]:
        part = self.summary_part
        if part is None:
            return []
        events = [part.done(), part.part_event("done")]
        self.closed_summary.append(part.part)
        self.summary_part = None
        return events

    def close(self, status: str) -> list[Event]:
        return self.close_summary() + super().close(status)


BLOCK_TYPES: dict[BlockKind, type[Block]] = {
    BlockKind.TEXT: MessageBlock,
    BlockKind.REFUSAL: MessageBlock,
    BlockKind.REASONING: ReasoningBlock,
}
