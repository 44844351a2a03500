"""Deltas: the vendor-neutral form of what an upstream sends.

A dialect reads its upstream's stream into these values, and `ResponseStreamStateMachine.apply` accepts them.
This file is the complete list of what can happen in a turn.

Blocks. `block=None` means the current block, to which the last delta of that kind was added; it closes when
another kind begins. If the upstream keys its blocks, the dialect passes the key, and the block stays open
until its `BlockEnd` or the end of the response, whatever comes in between.

Parts. A block has one open part per channel. Another `part` than before ends it and begins the next one, and
so does another kind of delta in the same message. An ended part never changes (spec N29): if its key returns,
that is a new part. Dialects whose upstream has no parts leave `part` out.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from penstock.protocol.content import Annotation, JsonObject, LogProb
from penstock.protocol.items import Item

Key = str | int
"""An upstream's index or id for a block or call. Opaque: only compared for equality."""


class BlockKind(StrEnum):
    """Text and refusals belong to messages, reasoning to reasoning items."""

    TEXT = "text"
    REFUSAL = "refusal"
    REASONING = "reasoning"


class FinishReason(StrEnum):
    """Why the model stopped, lowest priority first: a later reason overrides an earlier one (decision 6)."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    PAUSE = "pause"
    STEERED = "steered"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"


class BlockStart(Struct, frozen=True):
    """A keyed block begins. Nothing is announced until it has content (invariant 13)."""

    block: Key
    kind: BlockKind
    phase: str | None = None


class BlockEnd(Struct, frozen=True):
    """A keyed block ends. Without a kind, every open block with that key ends."""

    block: Key
    kind: BlockKind | None = None


class TextDelta(Struct, frozen=True, gc=False):
    text: str
    block: Key | None = None
    logprobs: list[LogProb] | None = None
    part: Key | None = None


class RefusalDelta(Struct, frozen=True, gc=False):
    text: str
    block: Key | None = None
    part: Key | None = None


class ReasoningDelta(Struct, frozen=True, gc=False):
    """Raw reasoning: the content of a reasoning item."""

    text: str
    block: Key | None = None
    part: Key | None = None


class SummaryDelta(Struct, frozen=True, gc=False):
    """A summary of the reasoning. Its parts are independent of those of the content."""

    text: str
    part: Key = 0
    block: Key | None = None


class AnnotationDelta(Struct, frozen=True):
    """A citation in the text of a part. If it comes before its text, it waits for it (quirk C31).

    Its offsets count from the start of its part. If that part has ended, the citation is dropped with a
    diagnostic.
    """

    annotation: Annotation
    block: Key | None = None
    part: Key | None = None


class OpaqueReasoning(Struct, frozen=True):
    """Signed or encrypted reasoning, to be sent back unchanged on the next turn.

    With `block`, or after reasoning, it belongs to that reasoning item. Otherwise it immediately becomes an
    item of its own: data that belongs to a call (`call` is that call's key) is sent before the call, so that
    the item comes directly before it.
    """

    data: str
    block: Key | None = None
    call: Key | None = None


class ToolCallDelta(Struct, frozen=True, gc=False):
    """A piece of a tool call: any field may be missing, repeated or late. See `calls/assembler.py`.

    - `key`: the upstream's index for the call. `id`: the upstream's call id. "" counts as absent.
    - `type`: "custom" if `arguments` is a custom tool's raw text and not JSON.
    - `arguments`: a fragment; an object is complete.
    - `whole`: the call ends here. `arguments`, if given, is then complete and not a fragment.
    """

    key: Key | None = None
    id: str | None = None
    name: str | None = None
    namespace: str | None = None
    type: str | None = None
    arguments: str | JsonObject | None = None
    whole: bool = False

    @property
    def fragment(self) -> str:
        """The arguments, if this delta has nothing else but a type, as most deltas of a call; otherwise "".

        It contains nothing but what the model wrote, and its call is the one with this key.
        """
        is_bare = self.id is self.name is self.namespace is None and not self.whole
        return self.arguments if is_bare and isinstance(self.arguments, str) else ""


class ItemDelta(Struct, frozen=True):
    """An item of a tool that the vendor runs itself, such as a web search: announced, or done."""

    key: Key
    item: Item
    done: bool


class EventDelta(Struct, frozen=True):
    """An event of such an item (`key`), or an event without an item."""

    type: str
    fields: JsonObject
    key: Key | None = None


class UsageDelta(Struct, frozen=True, gc=False):
    """Token counts so far. None means unknown, and a zero never resets a count (quirk C6)."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    estimated: bool = False


class UpstreamInfo(Struct, frozen=True):
    """What the upstream reports about itself: the model that answered, and the service tier."""

    id: str | None = None
    model: str | None = None
    service_tier: str | None = None


class DiagnosticDelta(Struct, frozen=True):
    """The dialect had to drop, degrade or repair something. `code` is one of the dialect's own."""

    code: str
    message: str


class FinishDelta(Struct, frozen=True):
    """The model stopped. The stream is not over: usage or other deltas may follow."""

    reason: FinishReason


class ErrorDelta(Struct, frozen=True):
    """The upstream failed."""

    code: str
    message: str
    type: str = "server_error"
    param: str | None = None
    retry_after: float | None = None
    """Seconds to wait, if the upstream sent a number."""


Delta = (
    BlockStart
    | BlockEnd
    | TextDelta
    | RefusalDelta
    | ReasoningDelta
    | SummaryDelta
    | AnnotationDelta
    | OpaqueReasoning
    | ToolCallDelta
    | ItemDelta
    | EventDelta
    | UsageDelta
    | UpstreamInfo
    | DiagnosticDelta
    | FinishDelta
    | ErrorDelta
)
