"""Accents: the variants of OpenResponses event naming that clients read.

The machine uses the specification's names. An accent maps each event to exactly one event: it renames events
and moves fields, but never adds, drops or renumbers events, so the log of a stream is the same for every
client. `ACCENTS` lists them; each stream needs its own instance.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import Any, ClassVar

from msgspec import UNSET
from msgspec.structs import replace

from penstock.protocol.content import (
    Annotation,
    ContentPart,
    OutputText,
    ReasoningText,
    SummaryText,
    UrlCitation,
)
from penstock.protocol.events import (
    AnnotationAddedEvent,
    ContentPartEvent,
    Event,
    LifecycleEvent,
    OutputItemEvent,
    ReasoningDeltaEvent,
    ReasoningDoneEvent,
    SummaryDeltaEvent,
    SummaryDoneEvent,
    SummaryPartEvent,
    UnknownEvent,
)
from penstock.protocol.items import Item, Message, ReasoningItem
from penstock.protocol.request import JsonSchemaFormat

PORTABLE_ITEMS = frozenset(
    {
        # the specification's own
        "message",
        "function_call",
        "function_call_output",
        "reasoning",
        "compaction",
        # calls of tools that the client declared
        "custom_tool_call",
        "custom_tool_call_output",
        "shell_call",
        "shell_call_output",
        "local_shell_call",
        "local_shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "tool_search_call",
        "tool_search_output",
    }
)
"""Item types that need no vendor prefix in the strict accent (decision 1)."""


class Accent(ABC):
    """One accent for one stream."""

    name: ClassVar[str]
    changes: ClassVar[dict[type[Event], Callable[[Any, Any], Event]]]
    """The conversion for each kind of event. Other events pass unchanged, at no cost."""

    def __call__(self, event: Event) -> Event:
        change = self.changes.get(event.__class__)
        return event if change is None else change(self, event)

    def _with_items(self, event: LifecycleEvent) -> Event:
        output = [self._item(item) for item in event.response.output]
        return replace(event, response=replace(event.response, output=output))

    def _with_item(self, event: OutputItemEvent) -> Event:
        return replace(event, item=self._item(event.item))

    def _item(self, item: Item) -> Item:
        return item


class OpenResponses(Accent):
    """The published schema to the letter."""

    name = "openresponses"

    def _lifecycle(self, event: LifecycleEvent) -> Event:
        format = event.response.text.format
        if isinstance(format, JsonSchemaFormat):
            # The schema of a response requires null here, whatever the request had (spec S6).
            text = replace(event.response.text, format=replace(format, schema=None))
            event = replace(event, response=replace(event.response, text=text))
        return self._with_items(event)

    def _part(self, event: ContentPartEvent) -> Event:
        return replace(event, part=self._cited(event.part))

    def _annotation(self, event: AnnotationAddedEvent) -> Event:
        # An annotation that the schema does not define becomes null, and keeps its index (spec S7).
        return replace(event, annotation=event.annotation and _as_url_citation(event.annotation))

    def _unknown(self, event: UnknownEvent) -> Event:
        return replace(event, type=_with_slug(event.type))

    def _item(self, item: Item) -> Item:
        if isinstance(item, Message) and not isinstance(item.content, str):
            return replace(item, content=[self._cited(part) for part in item.content])
        return item if item.type in PORTABLE_ITEMS else replace(item, type=_with_slug(item.type))

    @staticmethod
    def _cited(part: ContentPart) -> ContentPart:
        if not isinstance(part, OutputText) or not part.annotations:
            return part
        citations = [_as_url_citation(annotation) for annotation in part.annotations]
        return replace(part, annotations=[citation for citation in citations if citation is not None])

    changes = {
        LifecycleEvent: _lifecycle,
        OutputItemEvent: Accent._with_item,
        ContentPartEvent: _part,
        AnnotationAddedEvent: _annotation,
        UnknownEvent: _unknown,
    }


class OpenAI(Accent):
    """For Codex, openai-python, LangChain and the AI SDK: raw reasoning is `reasoning_text`."""

    name = "openai"

    def _reasoning_delta(self, event: ReasoningDeltaEvent) -> Event:
        return replace(event, type="response.reasoning_text.delta")

    def _reasoning_done(self, event: ReasoningDoneEvent) -> Event:
        return replace(event, type="response.reasoning_text.done")

    changes = {ReasoningDeltaEvent: _reasoning_delta, ReasoningDoneEvent: _reasoning_done}


class Copilot(Accent):
    """For Copilot Chat: all reasoning is a summary. Content parts get the next free summary index."""

    name = "copilot"

    def __init__(self) -> None:
        self._parts: dict[str, dict[tuple[str, int], int]] = {}
        """By item: the summary index of each part, by its original channel and its index there."""

    def _index(self, item_id: str, channel: str, index: int) -> int:
        parts = self._parts.setdefault(item_id, {})
        return parts.setdefault((channel, index), len(parts))

    def _part(self, event: ContentPartEvent) -> Event:
        if not isinstance(event.part, ReasoningText):
            return event
        return SummaryPartEvent(
            type=event.type.replace("content_part", "reasoning_summary_part"),
            sequence_number=event.sequence_number,
            item_id=event.item_id,
            output_index=event.output_index,
            summary_index=self._index(event.item_id, "content", event.content_index),
            part=SummaryText(text=event.part.text),
        )

    def _reasoning_delta(self, event: ReasoningDeltaEvent) -> Event:
        return SummaryDeltaEvent(
            sequence_number=event.sequence_number,
            item_id=event.item_id,
            output_index=event.output_index,
            summary_index=self._index(event.item_id, "content", event.content_index),
            delta=event.delta,
        )

    def _reasoning_done(self, event: ReasoningDoneEvent) -> Event:
        return SummaryDoneEvent(
            sequence_number=event.sequence_number,
            item_id=event.item_id,
            output_index=event.output_index,
            summary_index=self._index(event.item_id, "content", event.content_index),
            text=event.text,
        )

    def _summary(self, event: SummaryPartEvent | SummaryDeltaEvent | SummaryDoneEvent) -> Event:
        return replace(event, summary_index=self._index(event.item_id, "summary", event.summary_index))

    def _item(self, item: Item) -> Item:
        if not isinstance(item, ReasoningItem):
            return item
        channels = {"summary": item.summary, "content": item.content or []}
        order = list(self._parts.get(item.id or "", ())) or [
            (channel, index) for channel, parts in channels.items() for index in range(len(parts))
        ]
        # The snapshot of an open item may not have all parts that already have an index.
        parts = [channels[channel][index] for channel, index in order if index < len(channels[channel])]
        return replace(item, summary=[_as_summary(part) for part in parts], content=UNSET)

    changes = {
        LifecycleEvent: Accent._with_items,
        OutputItemEvent: Accent._with_item,
        ContentPartEvent: _part,
        ReasoningDeltaEvent: _reasoning_delta,
        ReasoningDoneEvent: _reasoning_done,
        SummaryPartEvent: _summary,
        SummaryDeltaEvent: _summary,
        SummaryDoneEvent: _summary,
    }


ACCENTS: dict[str, type[Accent]] = {accent.name: accent for accent in (OpenResponses, OpenAI, Copilot)}


def _with_slug(type: str) -> str:
    """Prefix a type outside the specification with its vendor, by default OpenAI (spec N35, spec N58)."""
    return type if ":" in type else f"openai:{type}"


def _as_url_citation(annotation: Annotation) -> UrlCitation | None:
    if isinstance(annotation, UrlCitation):
        return annotation
    fields = annotation.extra or {}
    url = fields.get("url")
    if not isinstance(url, str) or not url:
        return None
    title = fields.get("title")
    return UrlCitation(url=url, title=title if isinstance(title, str) else "")


def _as_summary(part: ContentPart) -> ContentPart:
    return SummaryText(text=part.text) if isinstance(part, ReasoningText) else part
