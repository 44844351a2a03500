"""Accents: the variants of OpenResponses event naming that clients read.

The machine uses the specification's names. An accent maps each event to exactly one event: it renames events
and moves fields, but never adds, drops or renumbers events, so the log of a stream is the same for every
client. What a stream may contain is decided before the machine (`dialects.client_rules`). `ACCENTS` lists the
accents; each stream needs its own instance.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from operator import is_
from typing import Any, ClassVar

from msgspec import UNSET
from msgspec.structs import replace

from penstock.protocol.content import ContentPart, ReasoningText, SummaryText
from penstock.protocol.events import (
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
from penstock.protocol.items import Item, ReasoningItem, ToolSearchCall, ToolSearchOutput
from penstock.protocol.request import JsonSchemaFormat
from penstock.protocol.response import Response

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

PORTABLE_EVENTS = frozenset(
    {
        "response.shell_call_command",
        "response.shell_call_output_content",
        "response.apply_patch_call_operation_diff",
    }
)
"""Families of events of such items. They need no vendor prefix either."""


class SummaryChannel:
    """Moves raw reasoning into the summary of its item. A part gets the next free index of the summary.

    The first channel of an item decides: if that is its summary, the item stays as it is, and its raw
    reasoning too. With `takes_all`, every item is changed.
    """

    def __init__(self, *, takes_all: bool) -> None:
        self._takes_all = takes_all
        self._parts: dict[str, dict[tuple[str, int], int]] = {}
        """By item: the summary index of each part, by its original channel and its index there."""

    def event(self, event: Event) -> Event | None:
        """Return the event as one of the summary; None if it stays as it is."""
        place = _place_of(event)
        if place is None:
            return None
        item_id, channel, index = place
        parts = self._parts.setdefault(item_id, {})
        summary_index = parts.setdefault((channel, index), len(parts))
        if not self._moves(parts):
            return None
        if not isinstance(event, ContentPartEvent | ReasoningDeltaEvent | ReasoningDoneEvent):
            return replace(event, summary_index=summary_index)
        common: dict[str, Any] = {
            "sequence_number": event.sequence_number,
            "item_id": item_id,
            "output_index": event.output_index,
            "summary_index": summary_index,
        }
        if isinstance(event, ReasoningDeltaEvent):
            return SummaryDeltaEvent(delta=event.delta, **common)
        if isinstance(event, ReasoningDoneEvent):
            return SummaryDoneEvent(text=event.text, **common)
        type = event.type.replace("content_part", "reasoning_summary_part")
        return SummaryPartEvent(type=type, part=_as_summary(event.part), **common)

    def item(self, item: ReasoningItem) -> ReasoningItem:
        channels = {"summary": item.summary, "content": item.content or []}
        seen = self._parts.get(item.id or "")
        if seen is None:  # this reader has not seen how the item was streamed
            moves = self._takes_all or not item.summary
            order = [(name, index) for name, parts in channels.items() for index in range(len(parts))]
        else:
            moves, order = self._moves(seen), list(seen)
        if not moves:
            return item
        # The snapshot of an open item may not have all parts that already have an index.
        parts = [channels[channel][index] for channel, index in order if index < len(channels[channel])]
        return replace(item, summary=[_as_summary(part) for part in parts], content=UNSET)

    def _moves(self, parts: dict[tuple[str, int], int]) -> bool:
        first_channel, _ = next(iter(parts))
        return self._takes_all or first_channel == "content"


class Accent(ABC):
    """One accent for one stream.

    If the request asks for a summary of the reasoning, raw reasoning is sent as a summary, because several
    clients show nothing else (field F2). The first snapshot of a stream says so. A reader that starts in
    the middle of a stream passes the response.
    """

    name: ClassVar[str]
    changes: ClassVar[dict[type[Event], Callable[[Any, Any], Event]]]
    """The conversion for each kind of event. Other events pass unchanged, at no cost."""
    always_summarises: ClassVar[bool] = False

    def __init__(self, response: Response | None = None) -> None:
        self.conversions = self.changes
        """Those of this stream. A caller may look here first, to save a call for most events."""
        self._summary: SummaryChannel | None = None
        self._is_decided = False
        if self.always_summarises:
            self._decide(summarises=True)
        elif response is not None:
            self._learn(response)

    def __call__(self, event: Event) -> Event:
        change = self.conversions.get(event.__class__)
        return event if change is None else change(self, event)

    @property
    def needs_every_event(self) -> bool:
        """Whether a reader that resumes a stream must pass the earlier events too: they are counted."""
        return self._summary is not None

    def item(self, item: Item) -> Item:
        """Return an item as a response in this accent has it."""
        if self._summary is not None and isinstance(item, ReasoningItem):
            return self._summary.item(item)
        return item

    def _learn(self, response: Response) -> None:
        if not self._is_decided:
            self._decide(summarises=bool(response.reasoning and response.reasoning.summary))

    def _decide(self, *, summarises: bool) -> None:
        self._is_decided = True
        if summarises:
            self._summary = SummaryChannel(takes_all=self.always_summarises)
            self.conversions = {**self.changes, **dict.fromkeys(_REASONING_EVENTS, Accent._reasoning)}

    def _lifecycle(self, event: LifecycleEvent) -> Event:
        self._learn(event.response)
        old = event.response.output
        output = [self.item(item) for item in old]
        if all(map(is_, output, old)):
            return event
        return replace(event, response=replace(event.response, output=output))

    def _with_item(self, event: OutputItemEvent) -> Event:
        item = self.item(event.item)
        return event if item is event.item else replace(event, item=item)

    def _reasoning(self, event: Event) -> Event:
        moved = self._summary.event(event) if self._summary is not None else None
        if moved is not None:
            return moved
        change = self.changes.get(event.__class__)
        return event if change is None else change(self, event)


class OpenResponses(Accent):
    """The published schema to the letter."""

    name = "openresponses"

    def _strict_lifecycle(self, event: LifecycleEvent) -> Event:
        format = event.response.text.format
        if isinstance(format, JsonSchemaFormat):
            # The schema of a response requires null here, whatever the request had (spec S6).
            text = replace(event.response.text, format=replace(format, schema=None))
            event = replace(event, response=replace(event.response, text=text))
        return self._lifecycle(event)

    def _unknown(self, event: UnknownEvent) -> Event:
        if event.type.rpartition(".")[0] in PORTABLE_EVENTS:
            return event
        return replace(event, type=_with_slug(event.type))

    def item(self, item: Item) -> Item:
        item = super().item(item)
        return item if _is_portable(item) else replace(item, type=_with_slug(item.type))

    changes = {
        LifecycleEvent: _strict_lifecycle,
        OutputItemEvent: Accent._with_item,
        UnknownEvent: _unknown,
    }


class OpenAI(Accent):
    """For Codex, openai-python, LangChain and the AI SDK: raw reasoning is `reasoning_text`."""

    name = "openai"

    def _reasoning_delta(self, event: ReasoningDeltaEvent) -> Event:
        return replace(event, type="response.reasoning_text.delta")

    def _reasoning_done(self, event: ReasoningDoneEvent) -> Event:
        return replace(event, type="response.reasoning_text.done")

    changes = {
        LifecycleEvent: Accent._lifecycle,
        OutputItemEvent: Accent._with_item,
        ReasoningDeltaEvent: _reasoning_delta,
        ReasoningDoneEvent: _reasoning_done,
    }


class Copilot(Accent):
    """For Copilot Chat: all reasoning is a summary."""

    name = "copilot"
    always_summarises = True
    changes = {LifecycleEvent: Accent._lifecycle, OutputItemEvent: Accent._with_item}


ACCENTS: dict[str, type[Accent]] = {accent.name: accent for accent in (OpenResponses, OpenAI, Copilot)}

_REASONING_EVENTS = (
    ContentPartEvent,
    ReasoningDeltaEvent,
    ReasoningDoneEvent,
    SummaryPartEvent,
    SummaryDeltaEvent,
    SummaryDoneEvent,
)


def _place_of(event: Event) -> tuple[str, str, int] | None:
    """Return the item, the channel and the index of a reasoning event; None for any other event."""
    if isinstance(event, SummaryPartEvent | SummaryDeltaEvent | SummaryDoneEvent):
        return event.item_id, "summary", event.summary_index
    if isinstance(event, ReasoningDeltaEvent | ReasoningDoneEvent):
        return event.item_id, "content", event.content_index
    if isinstance(event, ContentPartEvent) and isinstance(event.part, ReasoningText):
        return event.item_id, "content", event.content_index
    return None


def _is_portable(item: Item) -> bool:
    if isinstance(item, ToolSearchCall | ToolSearchOutput):
        return item.execution == "client"  # the client acts on it; the vendor's own search is an extension
    return item.type in PORTABLE_ITEMS


def _with_slug(type: str) -> str:
    """Prefix a type outside the specification with its vendor, by default OpenAI (spec N35, spec N58)."""
    return type if ":" in type else f"{_DEFAULT_SLUG}{type}"


def without_slug(type: str) -> str:
    """Return a type without the prefix that this accent gives to OpenAI's own types."""
    return type.removeprefix(_DEFAULT_SLUG)


_DEFAULT_SLUG = "openai:"


def _as_summary(part: ContentPart) -> ContentPart:
    return SummaryText(text=part.text) if isinstance(part, ReasoningText) else part
